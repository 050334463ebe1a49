//! What values flags take: checked while the command line is read, so that a mistake is told before anything is done.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{PathBufValueParser, TypedValueParser};
use names::{DnsLabel, DnsSubdomain};

/// The most process ids that a kernel gives out (`PID_MAX_LIMIT` of Linux on 64 bits).
const MOST_PIDS: u64 = 4_194_304;

/// Most processes in a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PodPids(Option<u64>);

impl PodPids {
    /// The number; none for no limit.
    pub(crate) fn most(self) -> Option<u64> {
        self.0
    }
}

impl FromStr for PodPids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unlimited" {
            return Ok(Self(None));
        }
        match text.parse() {
            Ok(count @ 1..=MOST_PIDS) => Ok(Self(Some(count))),
            Ok(0) => Err("no container could start; write `unlimited` for no limit".to_owned()),
            Ok(_) | Err(_) => Err(format!("must be a number from 1 to {MOST_PIDS}, or `unlimited`")),
        }
    }
}

/// A name or address that a server's certificate can carry; the first label of a name may be `*`.
pub(crate) fn certificate_name(text: &str) -> Result<String, String> {
    let domain = text.strip_prefix("*.").unwrap_or(text);
    if text.parse::<IpAddr>().is_ok() || DnsSubdomain::parse(&domain.to_ascii_lowercase()).is_ok() {
        return Ok(text.to_owned());
    }
    Err("must be an IP address or a DNS name, such as 192.0.2.7 or node.example; repeat the flag for several"
        .to_owned())
}

/// A directory, as an absolute path: what a node is called on its machine follows from it, and a shim lives in another directory.
pub(crate) fn directory() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(std::path::absolute)
}

/// A directory that is there, as an absolute path.
pub(crate) fn existing_directory() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path: PathBuf| match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => std::path::absolute(&path).map_err(|error| error.to_string()),
        Ok(_) => Err("this is no directory; name the directory that holds the manifests".to_owned()),
        Err(error) => Err(format!("{error}; make the directory first")),
    })
}

/// The longest name of a node: its label `kubernetes.io/hostname` holds it.
pub(crate) const NODE_NAME_BYTES: usize = 63;

/// The name of a node.
pub(crate) fn node_name(text: &str) -> Result<String, String> {
    match DnsSubdomain::parse(text) {
        Ok(_) if text.len() > NODE_NAME_BYTES => {
            Err(format!("must be no more than {NODE_NAME_BYTES} characters, for it is a label as well"))
        }
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{}; write a name such as `node-1`", error.messages().join("; "))),
    }
}

/// The name of an instance of a template.
pub(crate) fn instance(text: &str) -> Result<String, String> {
    template::instance::check_instance_name(text).map(|()| text.to_owned()).map_err(|refusal| {
        let reasons: Vec<String> = refusal.problems.iter().map(ToString::to_string).collect();
        format!("{}; write a name like that of a pod: web-1", reasons.join("; "))
    })
}

/// The name of a namespace.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    match DnsLabel::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.messages().join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_without_any_process_is_refused() {
        for (text, expected) in [
            ("1", Some(Some(1))),
            ("4194304", Some(Some(MOST_PIDS))),
            ("unlimited", Some(None)),
            ("0", None),
            ("-1", None),
            ("4194305", None),
            ("99999999999999999999999", None),
            ("many", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<PodPids>().ok().map(PodPids::most), expected, "{text}");
        }
    }

    #[test]
    fn a_certificate_carries_names_and_addresses_only() {
        for (text, fits) in [
            ("node.example", true),
            ("Node.Example", true),
            ("*.example", true),
            ("192.0.2.7", true),
            ("2001:db8::1", true),
            ("a b", false),
            ("a,b", false),
            ("*", false),
            ("x.*.example", false),
            ("[2001:db8::1]", false),
            ("192.0.2.7:6443", false),
            ("https://node", false),
            ("", false),
        ] {
            assert_eq!(certificate_name(text).is_ok(), fits, "{text}");
        }
    }
}
