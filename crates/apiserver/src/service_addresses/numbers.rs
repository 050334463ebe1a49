//! Which of the numbers below a limit are taken: a bit each, so that the free one in a range that is nearly full is found as
//! quickly as the first.

use std::ops::Range;

const WORD: u32 = u64::BITS;

/// The numbers that are taken.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    words: Vec<u64>,
    limit: u32,
}

impl Numbers {
    /// None of the numbers below `limit` is taken.
    pub(super) fn below(limit: u32) -> Numbers {
        Numbers { words: vec![0; limit.div_ceil(WORD) as usize], limit }
    }

    pub(super) fn has(&self, number: u32) -> bool {
        number < self.limit && self.words[(number / WORD) as usize] & bit(number) != 0
    }

    /// Takes a number; false if it is taken, or beyond the limit.
    pub(super) fn take(&mut self, number: u32) -> bool {
        if number >= self.limit || self.has(number) {
            return false;
        }
        self.words[(number / WORD) as usize] |= bit(number);
        true
    }

    pub(super) fn give_back(&mut self, number: u32) {
        if number < self.limit {
            self.words[(number / WORD) as usize] &= !bit(number);
        }
    }

    /// The first number of `range` that is free.
    fn first_free(&self, range: Range<u32>) -> Option<u32> {
        let end = range.end.min(self.limit);
        let mut from = range.start;
        while from < end {
            // What lies before `from` in its word counts as taken.
            let word = self.words[(from / WORD) as usize] | (bit(from) - 1);
            let found = from / WORD * WORD + word.trailing_ones();
            if word != u64::MAX {
                return (found < end).then_some(found);
            }
            from = (from / WORD + 1) * WORD;
        }
        None
    }

    /// A free number of `range`, looked for at a random place first, so that one that was given back is not given again at once.
    pub(super) fn some_free(&self, range: Range<u32>) -> Option<u32> {
        if range.is_empty() {
            return None;
        }
        let start = rand::random_range(range.clone());
        self.first_free(start..range.end).or_else(|| self.first_free(range.start..start))
    }
}

fn bit(number: u32) -> u64 {
    1 << (number % WORD)
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn every_number_of_a_range_is_found_once_and_no_other() {
        for (range, limit) in
            [(0..1, 1), (5..200, 300), (63..65, 128), (64..128, 128), (0..0, 7), (100..400, 130)]
        {
            let mut numbers = Numbers::below(limit);
            let mut found = std::collections::BTreeSet::new();
            while let Some(number) = numbers.some_free(range.clone()) {
                assert!(numbers.take(number) && !numbers.take(number));
                assert!(found.insert(number));
            }
            let expected: std::collections::BTreeSet<u32> =
                range.clone().filter(|number| *number < limit).collect();
            assert_eq!(found, expected, "{range:?} below {limit}");
            for number in found.iter().step_by(3) {
                numbers.give_back(*number);
                assert_eq!(numbers.some_free(range.clone()), Some(*number));
                numbers.take(*number);
            }
        }
    }

    #[test]
    fn what_lies_beyond_the_limit_is_never_taken() {
        let mut numbers = Numbers::below(10);
        assert!(!numbers.take(10) && !numbers.has(10));
        numbers.give_back(10);
    }
}
