//! In which order the network thread does what it was asked: pods that start do not wait for pods that end, unless many wait to end.
//!
//! The kernel takes some 20 ms to take a link apart, under one lock for all links; making one takes two. With starts always
//! first, pods that come faster than links go would leave ever more behind them: processes, addresses, memory. So beyond
//! [`MANY_ENDS`] each start is followed by an end, and whoever makes pods waits for whoever takes them away.

use std::collections::VecDeque;
use std::sync::mpsc;

use super::commands::{Command, TeardownReply};

/// How many pods may wait to end before starts take turns with them: as many as a node has, so that all its pods can be
/// replaced at once without a wait.
const MANY_ENDS: usize = 110;

/// How many pods end together at most: a start that comes meanwhile waits for all of them.
const TOGETHER: usize = 32;

/// What a request is to the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// A pod starts that needs nothing which another may still hold.
    Start,
    /// A pod ends.
    End,
    /// Anything else: nothing overtakes it.
    InTurn,
}

/// What waits, and what was done last.
#[derive(Default)]
pub(super) struct Order {
    waiting: VecDeque<Command>,
    /// The last one was a start that overtook ends.
    overtook: bool,
}

impl Order {
    /// What is to be done next; nothing when nobody can ask any more.
    pub(super) fn next(&mut self, queue: &mpsc::Receiver<Command>) -> Option<Command> {
        if self.waiting.is_empty() {
            self.waiting.push_back(queue.recv().ok()?);
        }
        self.waiting.extend(queue.try_iter());
        let place = place_of_next(self.waiting.iter().map(Command::urgency), self.overtook);
        self.overtook = place > 0;
        self.waiting.remove(place)
    }

    /// Those that wait to end right behind the one that is being done: links go together as fast as one goes alone.
    pub(super) fn more_ends(&mut self) -> Vec<(String, TeardownReply)> {
        let mut ends = Vec::new();
        while ends.len() + 1 < TOGETHER {
            match self.waiting.pop_front() {
                Some(Command::Teardown { id, reply }) => ends.push((id, reply)),
                Some(other) => {
                    self.waiting.push_front(other);
                    break;
                }
                None => break,
            }
        }
        ends
    }
}

/// The first start before which there are only ends, and not many of them if the last start overtook some too; else the first
/// of all. Pure.
fn place_of_next(waiting: impl Iterator<Item = Urgency>, overtook: bool) -> usize {
    for (place, urgency) in waiting.enumerate() {
        match urgency {
            Urgency::Start => return place,
            Urgency::End if overtook && place >= MANY_ENDS => return 0,
            Urgency::End => {}
            Urgency::InTurn => return 0,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::Urgency::{End, InTurn, Start};
    use super::{MANY_ENDS, Urgency, place_of_next};

    #[test]
    fn a_start_overtakes_ends_and_nothing_else() {
        for (waiting, expected) in [
            (&[Start, End][..], 0),
            (&[End, End, Start, Start], 2),
            (&[End, End], 0),
            (&[InTurn, Start], 0),
            (&[End, InTurn, Start], 0),
            (&[End, Start, InTurn], 1),
        ] {
            for overtook in [false, true] {
                assert_eq!(place_of_next(waiting.iter().copied(), overtook), expected, "{waiting:?}");
            }
        }
    }

    /// The daemon grew by as much as a pod takes with each pod that was made faster than one could end.
    #[test]
    fn pods_that_come_faster_than_they_go_leave_no_growing_crowd_behind() {
        let (mut waiting, mut overtook, mut most) = (Vec::<Urgency>::new(), false, 0);
        // Each round two starts come; each start that is done brings its end.
        for _ in 0..10_000 {
            while waiting.iter().filter(|one| **one == Start).count() < 2 {
                waiting.push(Start);
            }
            let place = place_of_next(waiting.iter().copied(), overtook);
            overtook = place > 0;
            if waiting.remove(place) == Start {
                waiting.push(End);
            }
            most = most.max(waiting.iter().filter(|one: &&Urgency| **one == End).count());
        }
        assert!((MANY_ENDS..=MANY_ENDS + 2).contains(&most), "{most}");
    }
}
