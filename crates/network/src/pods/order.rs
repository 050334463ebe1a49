//! In which order the network thread does what it was asked: pods that start do not wait for pods that end.
//!
//! The kernel takes some 20 ms to take a link apart, under one lock for all links; making one takes two.

use std::collections::VecDeque;
use std::sync::mpsc;

use super::Command;

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

/// What is to be done next; nothing when nobody can ask any more.
pub(super) fn next(waiting: &mut VecDeque<Command>, queue: &mpsc::Receiver<Command>) -> Option<Command> {
    if waiting.is_empty() {
        waiting.push_back(queue.recv().ok()?);
    }
    waiting.extend(queue.try_iter());
    let place = place_of_next(waiting.iter().map(Command::urgency));
    waiting.remove(place)
}

/// The first start before which there are only ends; else the first of all. Pure.
fn place_of_next(waiting: impl Iterator<Item = Urgency>) -> usize {
    for (place, urgency) in waiting.enumerate() {
        match urgency {
            Urgency::Start => return place,
            Urgency::End => {}
            Urgency::InTurn => return 0,
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::{Urgency, place_of_next};

    #[test]
    fn a_start_overtakes_ends_and_nothing_else() {
        use Urgency::{End, InTurn, Start};
        for (waiting, expected) in [
            (&[Start, End][..], 0),
            (&[End, End, Start, Start], 2),
            (&[End, End], 0),
            (&[InTurn, Start], 0),
            (&[End, InTurn, Start], 0),
            (&[End, Start, InTurn], 1),
        ] {
            assert_eq!(place_of_next(waiting.iter().copied()), expected, "{waiting:?}");
        }
    }
}
