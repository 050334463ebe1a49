//! Names of time zones.

/// What is wrong with a name.
pub(super) fn problems(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let mut found = Vec::new();
    if name.eq_ignore_ascii_case("local") {
        found.push(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones".to_owned(),
        );
    }
    // Names have one spelling, and `Local` is the machine's own.
    if name != "Local" && !cron::is_known(name) {
        found.push(format!("unknown time zone {name}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::problems;

    #[test]
    fn zones_are_refused_in_the_words_of_kubernetes() {
        assert_eq!(problems("Europe/Berlin"), Vec::<String>::new());
        assert_eq!(problems("europe/berlin"), ["unknown time zone europe/berlin"]);
        let own = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        assert_eq!(problems("Local"), [own]);
        assert_eq!(problems("local"), [own, "unknown time zone local"]);
        assert_eq!(problems(""), ["timeZone must be nil or non-empty string"]);
    }
}
