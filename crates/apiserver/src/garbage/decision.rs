//! What is to be done with one object, given what is known of it, of its owners and of its dependents. Pure.

use super::facts::{Ending, Facts, Wish};
use crate::deletion::Propagation;

/// An owner, as the store has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerState {
    /// It is there, or nothing can be said about it: a reason to stay.
    Stays,
    /// It is there and waits for its dependents to go.
    Waits,
    /// It goes and leaves its dependents.
    LetsGo,
    /// There is no such object, or another one has its name.
    Gone,
}

/// The dependents of an object that is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dependents {
    None,
    /// There are some, and none for which it has to wait: they do not block, or they wait for it in turn.
    NotBlocking,
    /// There is one for which it has to wait.
    Blocking,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing, until something changes.
    Keep,
    /// The references at these positions are taken out.
    Release(Vec<usize>),
    /// It is deleted.
    Delete(Propagation),
    /// It has waited long enough: its own finalizer of collection is taken out.
    Finish,
}

/// Decides about one object; `owners` are the states of its references, in their order.
pub(super) fn decide(facts: &Facts, owners: &[OwnerState], dependents: Dependents) -> Verdict {
    let at = |wanted: OwnerState| {
        owners.iter().enumerate().filter(move |(_, state)| **state == wanted).map(|(index, _)| index)
    };
    // An owner that leaves its dependents waits for each of them, also for those that go themselves.
    let let_go: Vec<usize> = at(OwnerState::LetsGo).collect();
    if !let_go.is_empty() {
        return Verdict::Release(let_go);
    }
    match facts.ending {
        Ending::Otherwise => return Verdict::Keep,
        Ending::Foreground => {
            return match dependents {
                Dependents::None | Dependents::NotBlocking => Verdict::Finish,
                Dependents::Blocking => Verdict::Keep,
            };
        }
        Ending::Orphaning => {
            return match dependents {
                Dependents::None => Verdict::Finish,
                Dependents::NotBlocking | Dependents::Blocking => Verdict::Keep,
            };
        }
        Ending::No => {}
    }
    if owners.is_empty() {
        return Verdict::Keep;
    }
    if at(OwnerState::Stays).next().is_some() {
        let superfluous: Vec<usize> =
            (0..owners.len()).filter(|index| owners[*index] != OwnerState::Stays).collect();
        return if superfluous.is_empty() { Verdict::Keep } else { Verdict::Release(superfluous) };
    }
    let is_waited_for = at(OwnerState::Waits).next().is_some();
    Verdict::Delete(match (is_waited_for, dependents, facts.wish) {
        // Whoever is waited for waits for its own dependents in turn.
        (true, Dependents::NotBlocking | Dependents::Blocking, _) => Propagation::Foreground,
        (_, _, Wish::Orphan) => Propagation::Orphan,
        (_, _, Wish::Foreground) => Propagation::Foreground,
        (_, _, Wish::None) => Propagation::Background,
    })
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Ending, Facts, Owner, OwnerPlace, Wish};
    use super::{Dependents, OwnerState, Verdict, decide};
    use crate::deletion::Propagation;

    fn facts(ending: Ending, wish: Wish, owners: usize) -> Facts {
        let owner =
            Owner { place: OwnerPlace::UnknownKind, uid: "o".to_owned(), blocks: true, shown: String::new() };
        Facts { uid: "u".to_owned(), owners: vec![owner; owners], ending, wish }
    }

    #[test]
    fn an_object_goes_when_its_last_owner_has_gone() {
        use OwnerState::{Gone, LetsGo, Stays, Waits};
        use Propagation::{Background, Foreground, Orphan};
        let table: &[(&[OwnerState], Dependents, Wish, Verdict)] = &[
            (&[], Dependents::None, Wish::None, Verdict::Keep),
            (&[Stays], Dependents::None, Wish::None, Verdict::Keep),
            (&[Stays, Stays], Dependents::Blocking, Wish::None, Verdict::Keep),
            (&[Gone], Dependents::None, Wish::None, Verdict::Delete(Background)),
            (&[Gone, Gone], Dependents::Blocking, Wish::None, Verdict::Delete(Background)),
            (&[Gone], Dependents::None, Wish::Orphan, Verdict::Delete(Orphan)),
            (&[Gone], Dependents::None, Wish::Foreground, Verdict::Delete(Foreground)),
            (&[Waits], Dependents::None, Wish::None, Verdict::Delete(Background)),
            (&[Waits], Dependents::NotBlocking, Wish::None, Verdict::Delete(Foreground)),
            (&[Gone, Waits], Dependents::Blocking, Wish::None, Verdict::Delete(Foreground)),
            (&[Stays, Gone], Dependents::None, Wish::None, Verdict::Release(vec![1])),
            (&[Waits, Stays, Gone], Dependents::Blocking, Wish::None, Verdict::Release(vec![0, 2])),
            (&[LetsGo], Dependents::None, Wish::None, Verdict::Release(vec![0])),
            (&[Gone, LetsGo], Dependents::None, Wish::None, Verdict::Release(vec![1])),
            (&[LetsGo, Stays], Dependents::None, Wish::None, Verdict::Release(vec![0])),
        ];
        for (owners, dependents, wish, expected) in table {
            let facts = facts(Ending::No, *wish, owners.len());
            assert_eq!(decide(&facts, owners, *dependents), *expected, "{owners:?} {dependents:?} {wish:?}");
        }
    }

    #[test]
    fn an_object_on_its_way_out_waits_for_its_dependents_as_it_was_told() {
        use OwnerState::{Gone, LetsGo, Waits};
        let table: &[(Ending, &[OwnerState], Dependents, Verdict)] = &[
            (Ending::Foreground, &[], Dependents::Blocking, Verdict::Keep),
            (Ending::Foreground, &[], Dependents::NotBlocking, Verdict::Finish),
            (Ending::Foreground, &[Waits], Dependents::None, Verdict::Finish),
            (Ending::Orphaning, &[], Dependents::NotBlocking, Verdict::Keep),
            (Ending::Orphaning, &[], Dependents::Blocking, Verdict::Keep),
            (Ending::Orphaning, &[], Dependents::None, Verdict::Finish),
            (Ending::Otherwise, &[Gone], Dependents::None, Verdict::Keep),
            (Ending::Otherwise, &[LetsGo], Dependents::None, Verdict::Release(vec![0])),
            (Ending::Foreground, &[LetsGo], Dependents::None, Verdict::Release(vec![0])),
        ];
        for (ending, owners, dependents, expected) in table {
            let facts = facts(*ending, Wish::None, owners.len());
            assert_eq!(
                decide(&facts, owners, *dependents),
                *expected,
                "{ending:?} {owners:?} {dependents:?}"
            );
        }
    }
}
