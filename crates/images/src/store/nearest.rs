//! Which image of the store was perhaps meant by a name that is not there. Pure.

use crate::reference::Reference;

/// The best candidate among full names, in the form that people type; `None` when nothing is near.
pub(super) fn nearest(wanted: &str, names: &[String]) -> Option<String> {
    let wanted = Reference::parse(&wanted.to_lowercase()).ok()?;
    names
        .iter()
        .filter_map(|name| Reference::parse(name).ok())
        .filter(|candidate| candidate.digest().is_none() && *candidate != wanted)
        .filter_map(|candidate| distance(&wanted, &candidate).map(|distance| (distance, candidate)))
        .min()
        .map(|(_, candidate)| candidate.familiar())
}

/// Smaller is nearer; `None` is not near at all.
fn distance(wanted: &Reference, candidate: &Reference) -> Option<(u32, usize)> {
    let tags = edits(wanted.tag().unwrap_or_default(), candidate.tag().unwrap_or_default());
    if wanted.name() == candidate.name() {
        return Some((0, tags));
    }
    let last =
        |reference: &Reference| reference.repository().rsplit('/').next().unwrap_or_default().to_owned();
    if last(wanted) == last(candidate) {
        return Some((1, tags));
    }
    let name = |reference: &Reference| {
        let name = reference.name();
        name.strip_prefix("docker.io/library/")
            .or(name.strip_prefix("docker.io/"))
            .unwrap_or(&name)
            .to_owned()
    };
    let (one, other) = (name(wanted), name(candidate));
    let allowed = match one.len().min(other.len()) {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    };
    let difference = edits(&one, &other);
    (difference <= allowed).then_some((2, difference + tags))
}

/// How many letters have to be inserted, removed, replaced or swapped with their neighbour.
fn edits(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(a != b)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_nearly_meant_is_found() {
        let names: Vec<String> = [
            "docker.io/library/busybox:1.36",
            "localhost/shop/web:latest",
            "docker.io/library/postgres:16",
            "docker.io/library/web@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ]
        .map(str::to_owned)
        .to_vec();
        for (wanted, expected) in [
            ("busybox", Some("busybox:1.36")),
            ("web", Some("localhost/shop/web")),
            ("registry.example/web:2", Some("localhost/shop/web")),
            ("bsuybox:1.36", Some("busybox:1.36")),
            ("postgrse", Some("postgres:16")),
            ("Busybox", Some("busybox:1.36")),
            ("nginx", None),
            ("b", None),
            ("", None),
            ("busybox:1.36", None),
        ] {
            assert_eq!(nearest(wanted, &names).as_deref(), expected, "{wanted}");
        }
    }
}
