//! Answers of other servers, kept for a while: bounded in number and bytes, the oldest go first. Pure: the time is given.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::wire::{self, Question};

const MAX_ANSWERS: usize = 4096;
const MAX_BYTES: usize = 2 << 20;
/// A longer answer is rare enough to be asked for again.
const MAX_ANSWER: usize = 4096;

#[derive(Debug)]
struct Kept {
    answer: Arc<[u8]>,
    since: Instant,
    until: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Cache {
    answers: HashMap<Arc<Question>, Kept>,
    /// As they came.
    order: VecDeque<Arc<Question>>,
    bytes: usize,
}

fn weight(question: &Question, answer: &[u8]) -> usize {
    2 * question.weight() + answer.len()
}

impl Cache {
    /// Keeps an answer, as long as it says that it may be kept.
    pub(crate) fn keep(&mut self, question: &Question, answer: &Arc<[u8]>, now: Instant) {
        let Some(time) = wire::kept_for(answer) else { return };
        if answer.len() > MAX_ANSWER {
            return;
        }
        let kept = Kept { answer: Arc::clone(answer), since: now, until: now + time };
        self.bytes += weight(question, answer);
        match self.answers.get_mut(question) {
            Some(known) => {
                self.bytes -= weight(question, &known.answer);
                *known = kept;
            }
            None => {
                let question = Arc::new(question.clone());
                self.order.push_back(Arc::clone(&question));
                self.answers.insert(question, kept);
            }
        }
        while self.answers.len() > MAX_ANSWERS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(gone) = self.answers.remove(&oldest) {
                self.bytes -= weight(&oldest, &gone.answer);
            }
        }
    }

    /// The answer that is kept, as it would be given now.
    pub(crate) fn get(&self, question: &Question, now: Instant) -> Option<Vec<u8>> {
        let kept = self.answers.get(question).filter(|kept| now < kept.until)?;
        let mut answer = kept.answer.to_vec();
        let age: Duration = now.saturating_duration_since(kept.since);
        wire::age(&mut answer, u32::try_from(age.as_secs()).unwrap_or(u32::MAX));
        Some(answer)
    }

    /// Forgets everything: other servers are asked now.
    pub(crate) fn clear(&mut self) {
        *self = Cache::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{answer_with, question_for};

    #[test]
    fn an_answer_is_kept_as_long_as_it_says_and_gets_older() {
        let mut cache = Cache::default();
        let question = question_for("one.example.");
        let now = Instant::now();
        cache.keep(&question, &answer_with("one.example.", 20).into(), now);
        let later = cache.get(&question, now + Duration::from_secs(7)).expect("kept");
        assert_eq!(later, answer_with("one.example.", 13));
        assert_eq!(cache.get(&question, now + Duration::from_secs(20)), None);
        assert_eq!(cache.get(&question_for("two.example."), now), None);
        cache.keep(&question, &answer_with("one.example.", 0).into(), now);
        assert_eq!(cache.order.len(), 1);
    }

    #[test]
    fn the_oldest_go_first_and_the_memory_is_bounded() {
        let mut cache = Cache::default();
        let now = Instant::now();
        for number in 0..2 * MAX_ANSWERS {
            let name = format!("{number}.example.");
            cache.keep(&question_for(&name), &answer_with(&name, 20).into(), now);
        }
        assert!(cache.answers.len() <= MAX_ANSWERS && cache.bytes <= MAX_BYTES, "{}", cache.bytes);
        assert_eq!(cache.answers.len(), cache.order.len());
        assert_eq!(cache.get(&question_for("0.example."), now), None);
        assert!(cache.get(&question_for(&format!("{}.example.", 2 * MAX_ANSWERS - 1)), now).is_some());
        let counted: usize =
            cache.answers.iter().map(|(question, kept)| weight(question, &kept.answer)).sum();
        assert_eq!(counted, cache.bytes);
    }
}
