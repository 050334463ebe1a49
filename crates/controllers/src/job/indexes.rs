//! Sets of indexes as the status of a job writes them: `1,3-5,7`.
//!
//! Source of the form: <https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/#JobStatus>.

use std::collections::BTreeSet;
use std::fmt;

/// Indexes as ranges, in order, neither touching nor overlapping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Reads what a status says; what cannot be read and what is not below `end` is left out.
    pub(crate) fn read(text: &str, end: i32) -> Indexes {
        let ranges = text.split(',').filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (first.parse::<i32>().ok()?, last.parse::<i32>().ok()?.min(end - 1));
            (first >= 0 && first <= last).then_some((first, last))
        });
        Indexes::of_ranges(ranges.collect())
    }

    fn of_ranges(mut ranges: Vec<(i32, i32)>) -> Indexes {
        ranges.sort_unstable();
        let mut joined: Vec<(i32, i32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                Some(_) | None => joined.push((first, last)),
            }
        }
        Indexes(joined)
    }

    /// These and those.
    pub(crate) fn with(&self, more: &BTreeSet<i32>) -> Indexes {
        let ranges = self.0.iter().copied().chain(more.iter().map(|index| (*index, *index)));
        Indexes::of_ranges(ranges.collect())
    }

    /// Whether an index is among them.
    pub(crate) fn has(&self, index: i32) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= index);
        after.checked_sub(1).and_then(|place| self.0.get(place)).is_some_and(|(_, last)| index <= *last)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> i32 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// How many of these are among those.
    pub(crate) fn shared(&self, others: &Indexes) -> i32 {
        let (mut total, mut place) = (0, 0);
        for (first, last) in &self.0 {
            while others.0.get(place).is_some_and(|other| other.1 < *first) {
                place += 1;
            }
            let overlapping = others.0.iter().skip(place).take_while(|other| other.0 <= *last);
            total += overlapping.map(|other| other.1.min(*last) - other.0.max(*first) + 1).sum::<i32>();
        }
        total
    }
}

/// Three and more in a row are written as a range.
impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (first, last)) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sets_of_indexes_are_read_and_written_as_kubernetes_does() {
        for (text, expected, count) in [
            ("", "", 0),
            ("0", "0", 1),
            ("1,3-5,7", "1,3-5,7", 5),
            ("1-2", "1,2", 2),
            ("1,2,3", "1-3", 3),
            ("7,x,3-", "7", 1),
            ("8-20", "8,9", 2),
            ("12", "", 0),
            ("5-3", "", 0),
            ("0-4,2-6", "0-6", 7),
        ] {
            let indexes = Indexes::read(text, 10);
            assert_eq!((indexes.to_string().as_str(), indexes.count()), (expected, count), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn ranges_hold_what_a_plain_set_holds(one in prop::collection::btree_set(0..60, 0..40), other in prop::collection::btree_set(0..60, 0..40)) {
            let (ranges, others) = (Indexes::default().with(&one), Indexes::default().with(&other));
            for index in -1..61 {
                prop_assert_eq!(ranges.has(index), one.contains(&index));
            }
            prop_assert_eq!(Indexes::read(&ranges.to_string(), 60), ranges.clone());
            prop_assert_eq!(ranges.shared(&others), i32::try_from(one.intersection(&other).count()).unwrap());
            let both: BTreeSet<i32> = one.union(&other).copied().collect();
            prop_assert_eq!(ranges.with(&other), Indexes::default().with(&both));
        }
    }
}
