//! Histories of concurrent clients on objects that know compare-and-swap: whether one order of changes, the one that a
//! watcher saw, explains what every client was told (linearizability, for each object by itself).

use std::collections::BTreeMap;

/// What a client wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A new object.
    Create,
    /// A new version, if the object is at this revision.
    Update {
        /// The revision.
        expected: u64,
    },
    /// A new version, whatever the object is at.
    Overwrite,
    /// The end of the object, if it is at this revision.
    Delete {
        /// The revision.
        expected: u64,
    },
    /// What is there.
    Read,
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The write is done, under this revision.
    Done(u64),
    /// The deletion is done; its revision was not told.
    Deleted,
    /// This was read.
    Found {
        /// The revision.
        revision: u64,
        /// The value.
        value: String,
    },
    /// There is no such object.
    Absent,
    /// There is such an object already.
    Exists,
    /// The object is at another revision.
    Conflict,
    /// Nothing: the write may have been done or not, also later.
    Unknown,
}

/// One call of a client. Moments are numbers of one clock that all clients share.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Which object.
    pub key: String,
    /// What was wanted.
    pub action: Action,
    /// The value that was written; no two operations write the same.
    pub value: String,
    /// When it began.
    pub begun: u64,
    /// When the answer was there.
    pub ended: u64,
    /// The answer.
    pub outcome: Outcome,
}

/// One change that a watcher saw, or, after a gap, the state that it found.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Which object.
    pub key: String,
    /// The revision of the change.
    pub revision: u64,
    /// The value; none when the object is gone.
    pub value: Option<String>,
    /// Whether changes before this one may not have been seen.
    pub after_gap: bool,
}

/// A state of an object: its revision and value, or nothing.
type State = Option<(u64, String)>;

/// Whether `seen` explains `operations`.
///
/// # Errors
/// The first thing that it does not explain, in words.
pub fn check(operations: &[Operation], seen: &[Seen]) -> Result<(), String> {
    let mut keys: BTreeMap<&str, (Vec<&Operation>, Vec<Seen>)> = BTreeMap::new();
    for operation in operations {
        keys.entry(&operation.key).or_default().0.push(operation);
    }
    for one in seen {
        keys.entry(&one.key).or_default().1.push(one.clone());
    }
    for (key, (mut operations, changes)) in keys {
        operations.sort_by_key(|operation| operation.begun);
        check_object(&operations, changes).map_err(|problem| format!("{key}: {problem}"))?;
    }
    Ok(())
}

fn check_object(operations: &[&Operation], changes: Vec<Seen>) -> Result<(), String> {
    let changes = fill_gaps(operations, changes)?;
    if let Some(pair) = changes.windows(2).find(|pair| pair[0].revision >= pair[1].revision) {
        return Err(format!("{:?} was seen before {:?}", pair[0], pair[1]));
    }
    let mut states: Vec<State> = vec![None];
    states.extend(changes.iter().map(|one| one.value.clone().map(|value| (one.revision, value))));
    let authors = authors(operations, &changes, &states)?;
    in_time(operations, &changes, &states, &authors)
}

/// Puts acknowledged writes that fell into a gap where they belong.
fn fill_gaps(operations: &[&Operation], mut changes: Vec<Seen>) -> Result<Vec<Seen>, String> {
    for operation in operations {
        let Outcome::Done(revision) = operation.outcome else { continue };
        let at = changes.partition_point(|one| one.revision < revision);
        match changes.get(at) {
            Some(one) if one.revision == revision => {}
            Some(one) if one.after_gap => {
                let is_deletion = matches!(operation.action, Action::Delete { .. });
                let value = (!is_deletion).then(|| operation.value.clone());
                let key = operation.key.clone();
                changes.insert(at, Seen { key, revision, value, after_gap: true });
            }
            _ => return Err(format!("{operation:?} was acknowledged and never seen")),
        }
    }
    // Found gone after a gap, and the deletion itself is known: one of both is enough.
    let mut at = 1;
    while at < changes.len() {
        if changes[at].after_gap && changes[at].value.is_none() && changes[at - 1].value.is_none() {
            changes.remove(at);
        } else {
            at += 1;
        }
    }
    Ok(changes)
}

/// Which operation made each change; every change has one, and it was allowed in the state before.
fn authors(
    operations: &[&Operation],
    changes: &[Seen],
    states: &[State],
) -> Result<Vec<Option<usize>>, String> {
    let mut used = vec![false; operations.len()];
    let mut authors = vec![None; changes.len()];
    // What was seen happen has one author; what was found after a gap takes of the others.
    let (found, happened): (Vec<_>, Vec<_>) =
        changes.iter().enumerate().partition(|(_, change)| change.after_gap);
    for (at, change) in happened.into_iter().chain(found) {
        let before = &states[at];
        let is_told = |operation: &Operation| match (&operation.outcome, &operation.action, &change.value) {
            (Outcome::Done(revision), Action::Delete { .. }, None) => *revision == change.revision,
            (Outcome::Done(revision), _, Some(value)) => {
                *revision == change.revision && *value == operation.value
            }
            _ => false,
        };
        let may_have = |operation: &Operation| match (&operation.outcome, &operation.action, &change.value) {
            (Outcome::Deleted | Outcome::Unknown, Action::Delete { expected }, None) => {
                // Which one of several it was that nobody saw is not known.
                !change.after_gap && before.as_ref().is_some_and(|(revision, _)| revision == expected)
            }
            (Outcome::Unknown, action, Some(value)) => {
                *value == operation.value && !matches!(action, Action::Delete { .. } | Action::Read)
            }
            _ => false,
        };
        let told_so = |index: &usize| operations[*index].outcome == Outcome::Deleted;
        let unused = || (0..operations.len()).filter(|index| !used[*index]);
        // Whoever was told comes before those who heard nothing.
        let author = unused()
            .find(|index| is_told(operations[*index]))
            .or_else(|| unused().filter(told_so).find(|index| may_have(operations[*index])))
            .or_else(|| unused().find(|index| may_have(operations[*index])));
        let Some(author) = author else {
            // Who deleted unseen is not known.
            if change.after_gap && change.value.is_none() {
                continue;
            }
            return Err(format!("nobody made {change:?} on {before:?}, or it came twice"));
        };
        used[author] = true;
        let allowed = change.after_gap
            || match &operations[author].action {
                Action::Create => before.is_none(),
                Action::Overwrite => before.is_some(),
                Action::Update { expected } | Action::Delete { expected } => {
                    before.as_ref().is_some_and(|(revision, _)| revision == expected)
                }
                Action::Read => false,
            };
        if !allowed {
            return Err(format!("{:?} was carried out on {before:?}", operations[author]));
        }
        authors[at] = Some(author);
    }
    for (index, operation) in operations.iter().enumerate() {
        let is_told = matches!(operation.outcome, Outcome::Done(_) | Outcome::Deleted);
        if is_told && !used[index] && !changes.iter().any(|one| one.after_gap) {
            return Err(format!("{operation:?} was acknowledged and never seen"));
        }
    }
    Ok(authors)
}

/// Gives each operation a place among the changes that is between its beginning and its end.
fn in_time(
    operations: &[&Operation],
    changes: &[Seen],
    states: &[State],
    authors: &[Option<usize>],
) -> Result<(), String> {
    let change_of = |index: usize| authors.iter().position(|author| *author == Some(index));
    // When each operation ended, and how many changes had happened by its place.
    let mut placed: Vec<(u64, usize)> = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let lower = placed
            .iter()
            .filter(|(ended, _)| *ended < operation.begun)
            .map(|(_, place)| *place)
            .max()
            .unwrap_or(0);
        let is_write = matches!(operation.outcome, Outcome::Done(_) | Outcome::Deleted | Outcome::Unknown);
        if is_write {
            let Some(change) = change_of(index) else { continue };
            if change < lower {
                return Err(format!("{operation:?} took effect before it began"));
            }
            if operation.outcome != Outcome::Unknown {
                placed.push((operation.ended, change + 1));
            }
            continue;
        }
        // Whatever began after its end comes after it.
        let upper = authors
            .iter()
            .enumerate()
            .filter(|(_, author)| author.is_some_and(|author| operations[author].begun > operation.ended))
            .map(|(change, _)| change)
            .min()
            .unwrap_or(changes.len());
        let explains = |state: &State| match (&operation.outcome, &operation.action) {
            (Outcome::Found { revision, value }, _) => {
                state.as_ref().is_some_and(|(own, text)| own == revision && text == value)
            }
            (Outcome::Absent, _) => state.is_none(),
            (Outcome::Exists, _) => state.is_some(),
            (Outcome::Conflict, Action::Update { expected } | Action::Delete { expected }) => {
                state.as_ref().is_some_and(|(own, _)| own != expected)
            }
            _ => false,
        };
        let place = (lower..=upper).find(|place| explains(&states[*place]));
        let has_gap = changes[lower.min(changes.len())..]
            .iter()
            .take(upper + 1 - lower.min(upper))
            .any(|one| one.after_gap);
        match place {
            Some(place) => placed.push((operation.ended, place)),
            None if has_gap => {}
            None => {
                return Err(format!(
                    "{operation:?} is explained by none of {:?}",
                    &states[lower..=upper.max(lower)]
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Action, Operation, Outcome, Seen, check};

    fn operation(action: Action, value: &str, begun: u64, ended: u64, outcome: Outcome) -> Operation {
        Operation { key: "k".to_owned(), action, value: value.to_owned(), begun, ended, outcome }
    }

    fn seen(revision: u64, value: Option<&str>) -> Seen {
        Seen { key: "k".to_owned(), revision, value: value.map(str::to_owned), after_gap: false }
    }

    fn found(revision: u64, value: &str) -> Outcome {
        Outcome::Found { revision, value: value.to_owned() }
    }

    #[test]
    fn histories_that_one_order_explains_are_accepted() {
        let table = [
            (vec![operation(Action::Read, "", 0, 1, Outcome::Absent)], vec![]),
            (
                // Both reads are during the write: one sees the state before, the other the state after.
                vec![
                    operation(Action::Create, "a", 0, 9, Outcome::Done(5)),
                    operation(Action::Read, "", 1, 2, Outcome::Absent),
                    operation(Action::Read, "", 3, 4, found(5, "a")),
                ],
                vec![seen(5, Some("a"))],
            ),
            (
                vec![
                    operation(Action::Create, "a", 0, 1, Outcome::Done(5)),
                    operation(Action::Update { expected: 5 }, "b", 2, 3, Outcome::Unknown),
                    operation(Action::Update { expected: 5 }, "c", 4, 5, Outcome::Conflict),
                    operation(Action::Delete { expected: 7 }, "", 6, 7, Outcome::Deleted),
                    operation(Action::Create, "d", 8, 9, Outcome::Done(9)),
                    operation(Action::Create, "e", 8, 9, Outcome::Exists),
                ],
                vec![seen(5, Some("a")), seen(7, Some("b")), seen(8, None), seen(9, Some("d"))],
            ),
        ];
        for (operations, changes) in table {
            assert_eq!(check(&operations, &changes), Ok(()));
        }
    }

    #[test]
    fn histories_that_no_order_explains_are_refused() {
        let created = || operation(Action::Create, "a", 0, 1, Outcome::Done(5));
        let table = [
            ("a write that was lost", vec![created()], vec![]),
            ("a change that nobody made", vec![], vec![seen(5, Some("a"))]),
            ("a write that came twice", vec![created()], vec![seen(5, Some("a")), seen(6, Some("a"))]),
            (
                "a lost update",
                vec![
                    created(),
                    operation(Action::Update { expected: 5 }, "b", 2, 9, Outcome::Done(6)),
                    operation(Action::Update { expected: 5 }, "c", 2, 9, Outcome::Done(7)),
                ],
                vec![seen(5, Some("a")), seen(6, Some("b")), seen(7, Some("c"))],
            ),
            (
                "a stale read",
                vec![
                    created(),
                    operation(Action::Update { expected: 5 }, "b", 2, 3, Outcome::Done(6)),
                    operation(Action::Read, "", 4, 5, found(5, "a")),
                ],
                vec![seen(5, Some("a")), seen(6, Some("b"))],
            ),
            (
                "a read of what was not written yet",
                vec![
                    operation(Action::Read, "", 0, 1, found(5, "a")),
                    operation(Action::Create, "a", 2, 3, Outcome::Done(5)),
                ],
                vec![seen(5, Some("a"))],
            ),
            (
                "time that runs backwards",
                vec![
                    created(),
                    operation(Action::Overwrite, "b", 2, 3, Outcome::Done(7)),
                    operation(Action::Overwrite, "c", 4, 5, Outcome::Done(6)),
                ],
                vec![seen(5, Some("a")), seen(6, Some("c")), seen(7, Some("b"))],
            ),
            (
                "a conflict that was none",
                vec![created(), operation(Action::Update { expected: 5 }, "b", 2, 3, Outcome::Conflict)],
                vec![seen(5, Some("a"))],
            ),
        ];
        for (what, operations, changes) in table {
            assert!(check(&operations, &changes).is_err(), "{what}");
        }
    }

    #[test]
    fn what_was_acknowledged_may_be_unseen_only_in_a_gap() {
        let operations = [
            operation(Action::Create, "a", 0, 1, Outcome::Done(5)),
            operation(Action::Overwrite, "b", 2, 3, Outcome::Done(6)),
            operation(Action::Overwrite, "c", 4, 5, Outcome::Unknown),
        ];
        let mut state = seen(7, Some("c"));
        state.after_gap = true;
        assert_eq!(check(&operations, &[seen(5, Some("a")), state.clone()]), Ok(()));
        state.after_gap = false;
        assert!(check(&operations, &[seen(5, Some("a")), state]).is_err());
    }
}
