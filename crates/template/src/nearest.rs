//! Which declared name a mistyped one was meant to be.

use std::collections::HashMap;

/// Names longer than this are not compared letter by letter.
const LONGEST: usize = 64;

/// How many different names are compared letter by letter with all others.
const MOST_SEARCHES: usize = 100;

/// The declared names, ready to be compared with others.
pub(crate) struct Neighbours<'n> {
    names: Vec<&'n str>,
    by_lower_case: HashMap<String, &'n str>,
    answers: HashMap<String, Option<&'n str>>,
    searches_left: usize,
}

impl<'n> Neighbours<'n> {
    pub(crate) fn new(names: impl IntoIterator<Item = &'n str>) -> Self {
        let names: Vec<&str> = names.into_iter().collect();
        let by_lower_case = names.iter().map(|name| (name.to_ascii_lowercase(), *name)).collect();
        Self { names, by_lower_case, answers: HashMap::new(), searches_left: MOST_SEARCHES }
    }

    /// Allows as many searches as at the beginning.
    pub(crate) fn refill(&mut self) {
        self.searches_left = MOST_SEARCHES;
    }

    /// The name that differs from `name` by case, or by one or two letters; never `name` itself.
    ///
    /// Words of a shell are often short and in lower case: such are compared letter by letter as they are written, and
    /// names with an underscore whatever their case.
    pub(crate) fn nearest(&mut self, name: &str) -> Option<&'n str> {
        if let Some(other) = self.by_lower_case.get(&name.to_ascii_lowercase()) {
            return (*other != name).then_some(*other);
        }
        if name.len() > LONGEST {
            return None;
        }
        if let Some(answer) = self.answers.get(name) {
            return *answer;
        }
        if self.searches_left == 0 {
            return None;
        }
        self.searches_left -= 1;
        let any_case = name.contains('_');
        let fold = |text: &str| if any_case { text.to_ascii_lowercase() } else { text.to_owned() };
        let wanted = fold(name);
        let near = |candidate: &&'n str| {
            let most = most_between(name, candidate);
            let distance = distance_up_to(wanted.as_bytes(), fold(candidate).as_bytes(), most)?;
            Some((distance, *candidate))
        };
        let answer = self.names.iter().filter_map(near).min().map(|(_, candidate)| candidate);
        self.answers.insert(name.to_owned(), answer);
        answer
    }
}

/// How many letters two names may differ by and still be a slip of the pen.
fn most_between(one: &str, other: &str) -> usize {
    match one.len().min(other.len()) {
        0..3 => 0,
        3..6 => 1,
        _ => 2,
    }
}

/// How many letters must be inserted, removed, replaced or swapped with their neighbour to get from `one` to `other`, if
/// at most `most`.
fn distance_up_to(one: &[u8], other: &[u8], most: usize) -> Option<usize> {
    if most == 0 || one.len().abs_diff(other.len()) > most || other.len() > LONGEST {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for line in 1..=one.len() {
        let mut row = vec![line; other.len() + 1];
        for column in 1..=other.len() {
            let is_other = usize::from(one[line - 1] != other[column - 1]);
            let mut best = (last[column - 1] + is_other).min(last[column] + 1).min(row[column - 1] + 1);
            let is_swap = line > 1
                && column > 1
                && one[line - 1] == other[column - 2]
                && one[line - 2] == other[column - 1];
            if is_swap {
                best = best.min(before[column - 2] + 1);
            }
            row[column] = best;
        }
        if row.iter().min().is_some_and(|least| *least > most) {
            return None;
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|distance| *distance <= most)
}
