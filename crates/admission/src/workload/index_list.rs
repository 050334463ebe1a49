//! Lists of indexes as jobs write them: `1,3-5,7`.

/// How many indexes a list names; all of them are below `completions`, and each is above the one before.
pub(super) fn count(list: &str, completions: i64) -> Result<i64, String> {
    if list.is_empty() {
        return Ok(0);
    }
    let (mut total, mut last) = (0, None);
    for interval in list.split(',') {
        let parts: Vec<&str> = interval.split('-').collect();
        if parts.len() > 2 {
            return Err(format!(
                "the fragment {} violates the requirement that an index interval can have at most two parts \
                 separated by '-'",
                schema::go_quote(interval)
            ));
        }
        for (place, part) in parts.iter().enumerate() {
            let index = part.parse::<i32>().map(i64::from).map_err(|_| {
                format!("cannot convert string to integer for index: {}", schema::go_quote(part))
            })?;
            if index >= completions {
                return Err(format!("too large index: {}", schema::go_quote(part)));
            }
            match last {
                Some(before) if before >= index => {
                    return Err(format!("non-increasing order, previous: {before}, current: {index}"));
                }
                Some(before) if place == 1 => total += index - before,
                Some(_) | None => total += 1,
            }
            last = Some(index);
        }
    }
    Ok(total)
}

/// The first index that two lists share; none if one of them cannot be read.
pub(super) fn shared(one: &str, other: &str, completions: i64) -> Option<i64> {
    let ranges = |list: &str| -> Option<Vec<(i64, i64)>> {
        count(list, completions).ok()?;
        let ranges = list.split(',').filter(|range| !range.is_empty()).map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        });
        ranges.collect()
    };
    let (one, other) = (ranges(one)?, ranges(other)?);
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    while let (Some(left), Some(right)) = (one.peek(), other.peek()) {
        let first = left.0.max(right.0);
        if first <= left.1.min(right.1) {
            return Some(first);
        }
        if left.1 < right.1 {
            one.next();
        } else {
            other.next();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{count, shared};

    #[test]
    fn the_first_index_in_two_lists_is_found() {
        for (one, other, expected) in [
            ("1,3-5,7", "0,2,6,8-9", None),
            ("1,3-5,7", "5", Some(5)),
            ("0-9", "4-6", Some(4)),
            ("0,8-9", "1-8", Some(8)),
            ("", "0-9", None),
            ("x", "0-9", None),
        ] {
            assert_eq!(shared(one, other, 10), expected, "{one:?} {other:?}");
            assert_eq!(shared(other, one, 10), expected, "{other:?} {one:?}");
        }
    }

    #[test]
    fn lists_are_counted_and_their_faults_are_named() {
        let table = [
            ("", Ok(0)),
            ("0", Ok(1)),
            ("1,3-5,7", Ok(5)),
            ("0-9", Ok(10)),
            ("0-10", Err("too large index: \"10\"")),
            ("3,3", Err("non-increasing order, previous: 3, current: 3")),
            ("3-2", Err("non-increasing order, previous: 3, current: 2")),
            ("a", Err("cannot convert string to integer for index: \"a\"")),
            ("1,", Err("cannot convert string to integer for index: \"\"")),
            (
                "1-2-3",
                Err(
                    "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
                ),
            ),
        ];
        for (list, expected) in table {
            assert_eq!(count(list, 10), expected.map_err(str::to_owned), "{list:?}");
        }
    }
}
