//! Which objects a controller is to look at next: each once, never twice at the same time, and after failures later and later.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informer::ObjectKey;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Waited after the first failure of an object; doubled by each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest wait after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// The wait after so many failures in a row, the first being 1.
pub(crate) fn pause_after(failures: u32) -> Duration {
    let doubled =
        FIRST_PAUSE.saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
    doubled.min(LONGEST_PAUSE)
}

/// What is queued. Nothing here waits.
#[derive(Debug, Default)]
struct State {
    ready: VecDeque<ObjectKey>,
    /// What is in `ready`.
    queued: BTreeSet<ObjectKey>,
    working: BTreeSet<ObjectKey>,
    /// Asked for while it is worked on: queued again at its end.
    again: BTreeSet<ObjectKey>,
    timers: BTreeSet<(Instant, ObjectKey)>,
    /// When each key in `timers` is due.
    due: BTreeMap<ObjectKey, Instant>,
    failures: BTreeMap<ObjectKey, u32>,
}

impl State {
    fn add(&mut self, key: ObjectKey) {
        if self.working.contains(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// The earlier of two times counts.
    fn add_at(&mut self, key: ObjectKey, at: Instant) {
        match self.due.get(&key) {
            Some(due) if *due <= at => {}
            _ => {
                if let Some(later) = self.due.insert(key.clone(), at) {
                    self.timers.remove(&(later, key.clone()));
                }
                self.timers.insert((at, key));
            }
        }
    }

    fn take(&mut self, now: Instant) -> Option<ObjectKey> {
        while let Some((at, _)) = self.timers.first()
            && *at <= now
            && let Some((_, key)) = self.timers.pop_first()
        {
            self.due.remove(&key);
            self.add(key);
        }
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.working.insert(key.clone());
        Some(key)
    }

    fn retry_failed_in(&mut self, namespace: &str) {
        let is_there = |key: &&ObjectKey| key.namespace == namespace;
        let waiting: Vec<ObjectKey> = self
            .failures
            .keys()
            .filter(is_there)
            .filter(|key| self.due.contains_key(*key))
            .cloned()
            .collect();
        for key in waiting {
            if let Some(at) = self.due.remove(&key) {
                self.timers.remove(&(at, key.clone()));
            }
            self.add(key);
        }
        self.again.extend(self.working.iter().filter(is_there).cloned().collect::<Vec<_>>());
    }

    fn done(&mut self, key: &ObjectKey) {
        self.working.remove(key);
        if self.again.remove(key) {
            self.add(key.clone());
        }
    }
}

/// The queue of one controller.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    news: Notify,
}

impl Queue {
    /// Asks for a look at an object.
    pub(crate) fn add(&self, key: ObjectKey) {
        self.state().add(key);
        self.news.notify_one();
    }

    /// Asks for a look after a while. When that was asked for already, the earlier time counts.
    pub(crate) fn add_after(&self, key: ObjectKey, wait: Duration) {
        // A time that no clock reaches is no wish at all.
        let Some(at) = Instant::now().checked_add(wait) else { return };
        self.state().add_at(key, at);
        self.news.notify_one();
    }

    /// The next object to look at; the caller says [`Queue::done`] after it.
    pub(crate) async fn next(&self) -> ObjectKey {
        loop {
            let news = self.news.notified();
            let due = {
                let mut state = self.state();
                if let Some(key) = state.take(Instant::now()) {
                    if !state.ready.is_empty() {
                        // Another worker may take the next one.
                        self.news.notify_one();
                    }
                    return key;
                }
                state.timers.first().map(|(at, _)| *at)
            };
            match due {
                None => news.await,
                Some(at) => {
                    let _ = tokio::time::timeout_at(at, news).await;
                }
            }
        }
    }

    /// The look is over.
    pub(crate) fn done(&self, key: &ObjectKey) {
        self.state().done(key);
        self.news.notify_one();
    }

    /// The look went well.
    pub(crate) fn succeeded(&self, key: &ObjectKey) {
        self.state().failures.remove(key);
    }

    /// The look failed: there will be another. Answers how many failed in a row.
    pub(crate) fn failed(&self, key: &ObjectKey) -> u32 {
        let failures = {
            let mut state = self.state();
            let failures = state.failures.entry(key.clone()).or_default();
            *failures = failures.saturating_add(1);
            *failures
        };
        self.add_after(key.clone(), pause_after(failures));
        failures
    }

    /// Looks at once at those objects of a namespace that wait because they failed, and once more at those that are worked on.
    pub(crate) fn retry_failed_in(&self, namespace: &str) {
        self.state().retry_failed_in(namespace);
        self.news.notify_one();
    }

    /// No holder of the lock can panic half-way through a change.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("n", name)
    }

    #[test]
    fn an_object_is_looked_at_once_however_often_it_is_asked_for_and_never_twice_at_a_time() {
        let now = Instant::now();
        let mut state = State::default();
        state.add(key("a"));
        state.add(key("a"));
        state.add(key("b"));
        assert_eq!(state.take(now), Some(key("a")));
        state.add(key("a"));
        assert_eq!(state.take(now), Some(key("b")));
        assert_eq!(state.take(now), None, "a is being worked on");
        state.done(&key("a"));
        assert_eq!(state.take(now), Some(key("a")), "it was asked for meanwhile");
        state.done(&key("a"));
        assert_eq!(state.take(now), None);
    }

    #[test]
    fn of_two_times_the_earlier_counts() {
        let now = Instant::now();
        let seconds = Duration::from_secs;
        let mut state = State::default();
        state.add_at(key("a"), now + seconds(9));
        state.add_at(key("a"), now + seconds(3));
        state.add_at(key("a"), now + seconds(5));
        assert_eq!(state.take(now + seconds(2)), None);
        assert_eq!(state.take(now + seconds(3)), Some(key("a")));
        state.done(&key("a"));
        assert_eq!(state.take(now + seconds(10)), None, "later wishes were fulfilled with it");
    }

    #[test]
    fn failures_are_answered_by_longer_and_longer_waits() {
        let waits: Vec<u128> = [1, 2, 3, 10, 15, 16, 40].map(|n| pause_after(n).as_millis()).into();
        assert_eq!(waits, [5, 10, 20, 2560, 81_920, 120_000, 120_000]);
    }

    #[tokio::test]
    async fn a_failed_object_comes_back_by_itself() {
        let queue = Queue::default();
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(queue.failed(&key("a")), 1);
        queue.done(&key("a"));
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(queue.failed(&key("a")), 2);
        queue.succeeded(&key("a"));
        assert_eq!(queue.failed(&key("a")), 1);
    }
}
