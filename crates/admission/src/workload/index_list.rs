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

#[cfg(test)]
mod tests {
    use super::count;

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
