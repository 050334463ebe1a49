//! The environment of a container's process: what runtime and image add around what the pod declares.
//!
//! The order is the one that `coracle env` explains: `PATH` (if the image sets none), `HOSTNAME`, `TERM` (with a
//! terminal), the image's variables, the declared ones; each name once, at the place of the source that won. `HOME`
//! follows from the user and is added where the user is known.

use std::collections::BTreeMap;

use cri::v1::KeyValue;

use crate::launch::Variable;

/// The search path of a process whose image sets none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Puts the environment together. Entries of the image without `=` or without a name are left out.
pub(crate) fn compose_environment(
    hostname: &str,
    terminal: bool,
    image: &[String],
    declared: &[KeyValue],
) -> Vec<Variable> {
    let image = || image.iter().filter_map(|text| text.split_once('=')).filter(|(name, _)| !name.is_empty());
    let mut all: Vec<(&str, &str)> = Vec::new();
    if !image().any(|(name, _)| name == "PATH") {
        all.push(("PATH", DEFAULT_PATH));
    }
    all.push(("HOSTNAME", hostname));
    if terminal {
        all.push(("TERM", "xterm"));
    }
    all.extend(image());
    all.extend(declared.iter().map(|variable| (variable.key.as_str(), variable.value.as_str())));
    let last: BTreeMap<&str, usize> =
        all.iter().enumerate().map(|(place, (name, _))| (*name, place)).collect();
    all.iter()
        .enumerate()
        .filter(|(place, (name, _))| last[name] == *place)
        .map(|(_, (name, value))| Variable { name: (*name).to_owned(), value: (*value).to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(terminal: bool, image: &[&str], declared: &[(&str, &str)]) -> Vec<String> {
        let image: Vec<String> = image.iter().map(|text| (*text).to_owned()).collect();
        let declared: Vec<KeyValue> = declared
            .iter()
            .map(|(key, value)| KeyValue { key: (*key).to_owned(), value: (*value).to_owned() })
            .collect();
        compose_environment("pod-0", terminal, &image, &declared)
            .into_iter()
            .map(|variable| format!("{}={}", variable.name, variable.value))
            .collect()
    }

    #[test]
    fn each_name_stands_once_where_its_winner_stands() {
        let default = format!("PATH={DEFAULT_PATH}");
        assert_eq!(composed(false, &[], &[]), [default.as_str(), "HOSTNAME=pod-0"]);
        assert_eq!(
            composed(true, &["B=1", "PATH=/bin", "A=2"], &[("C", "3"), ("B", "4")]),
            ["HOSTNAME=pod-0", "TERM=xterm", "PATH=/bin", "A=2", "C=3", "B=4"]
        );
        assert_eq!(
            composed(false, &["HOSTNAME=image"], &[("PATH", "/x"), ("A", "1"), ("A", "2")]),
            ["HOSTNAME=image", "PATH=/x", "A=2"]
        );
    }

    #[test]
    fn odd_entries_of_an_image_are_left_out_and_odd_names_of_a_pod_are_kept() {
        assert_eq!(
            composed(false, &["NOEQUALS", "=x", "E=", "P=a=b"], &[("Logging:Level", "Debug"), ("1", "")])
                [1..],
            ["HOSTNAME=pod-0", "E=", "P=a=b", "Logging:Level=Debug", "1="]
        );
    }
}
