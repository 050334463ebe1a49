//! Image references, read as docker and Kubernetes read them: `busybox` is `docker.io/library/busybox:latest`.

use std::fmt;

use crate::digest::{Digest, DigestError};

/// The registry of names that name none.
const DEFAULT_DOMAIN: &str = "docker.io";
/// The tag of names that have neither tag nor digest.
const DEFAULT_TAG: &str = "latest";
/// Longest name (domain and path) that registries accept.
const MAX_NAME: usize = 255;

/// A normalised image reference: domain, repository, and a tag, a digest or both.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    domain: String,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Why a text is not an image reference. The waiting reason is `InvalidImageName`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceError {
    /// Nothing there.
    #[error("image reference is empty")]
    Empty,
    /// 64 hexadecimal digits are an image's identity, not a name.
    #[error("image reference {0:?} is an identity, not a name")]
    Identity(String),
    /// Upper-case letters in the repository.
    #[error("image reference {0:?}: repository name must be lower case")]
    UpperCase(String),
    /// Domain and repository together are too long.
    #[error("image reference: name has {0} bytes, at most {MAX_NAME} are allowed")]
    TooLong(usize),
    /// The registry's host name or port.
    #[error("image reference {0:?}: invalid registry name")]
    Domain(String),
    /// A component of the repository.
    #[error("image reference {0:?}: invalid repository name")]
    Repository(String),
    /// The part after the colon.
    #[error("image reference {0:?}: invalid tag")]
    Tag(String),
    /// The part after the at sign.
    #[error("image reference {reference:?}: invalid digest")]
    Digest {
        /// The whole text.
        reference: String,
        /// What is wrong with the digest.
        #[source]
        source: DigestError,
    },
}

impl Reference {
    /// Reads and normalises a reference.
    pub fn parse(text: &str) -> Result<Reference, ReferenceError> {
        let shown = || text.chars().take(300).collect::<String>();
        if text.is_empty() {
            return Err(ReferenceError::Empty);
        }
        if Digest::from_hex(text).is_some() {
            return Err(ReferenceError::Identity(shown()));
        }
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => {
                let digest = Digest::parse(digest)
                    .map_err(|source| ReferenceError::Digest { reference: shown(), source })?;
                (rest, Some(digest))
            }
            None => (text, None),
        };
        let (domain, remainder) = split_domain(rest);
        let (path, tag) = match remainder.rsplit_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (remainder, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(ReferenceError::Tag(shown()));
        }
        if !is_domain(domain) {
            return Err(ReferenceError::Domain(shown()));
        }
        let repository = match domain {
            DEFAULT_DOMAIN if !path.contains('/') => format!("library/{path}"),
            _ => path.to_owned(),
        };
        if path.is_empty() || !repository.split('/').all(is_path_component) {
            if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
                return Err(ReferenceError::UpperCase(shown()));
            }
            return Err(ReferenceError::Repository(shown()));
        }
        let length = domain.len() + 1 + repository.len();
        if length > MAX_NAME {
            return Err(ReferenceError::TooLong(length));
        }
        let tag = match (tag, digest) {
            (None, None) => Some(DEFAULT_TAG.to_owned()),
            (tag, _) => tag.map(str::to_owned),
        };
        Ok(Reference { domain: domain.to_owned(), repository, tag, digest })
    }

    /// The registry, `docker.io` or `localhost:5000`.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The repository inside the registry, `library/busybox`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if the reference has one.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest, if the reference has one. It decides; a tag beside it is only a remark.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Domain and repository, `docker.io/library/busybox`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.domain, self.repository)
    }

    /// `NAME@DIGEST`, the form of a repository digest.
    pub fn with_digest(&self, digest: Digest) -> Reference {
        Reference {
            domain: self.domain.clone(),
            repository: self.repository.clone(),
            tag: None,
            digest: Some(digest),
        }
    }

    /// The key under which the store knows this reference: the digest form where there is a digest, else the tag form.
    pub(crate) fn key(&self) -> String {
        match self.digest {
            Some(digest) => self.with_digest(digest).to_string(),
            None => self.to_string(),
        }
    }

    /// The short form that people type, `busybox` or `app:2`.
    pub fn familiar(&self) -> String {
        let text = self.to_string();
        let text = text.strip_prefix("docker.io/").unwrap_or(&text);
        let text = text.strip_prefix("library/").unwrap_or(text);
        text.strip_suffix(":latest").unwrap_or(text).to_owned()
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Splits the registry off. What stands before the first slash is a registry only when it looks like a host.
fn split_domain(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some((first, rest)) if looks_like_host(first) => match first {
            "index.docker.io" => (DEFAULT_DOMAIN, rest),
            _ => (first, rest),
        },
        _ => (DEFAULT_DOMAIN, text),
    }
}

fn looks_like_host(text: &str) -> bool {
    text == "localhost" || text.contains(['.', ':']) || text.bytes().any(|byte| byte.is_ascii_uppercase())
}

fn is_domain(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else { return false };
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            return match port.strip_prefix(':') {
                Some(port) => is_port(port),
                None => port.is_empty(),
            };
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    port.is_none_or(is_port)
        && host.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
}

fn is_port(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

fn is_tag(text: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&text.len())
        && word(text.as_bytes()[0])
        && text.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

/// Runs of lower-case letters and digits, joined by one dot, one or two underscores, or any number of hyphens.
fn is_path_component(text: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    if !alphanumeric(first) || !alphanumeric(last) {
        return false;
    }
    bytes
        .split(alphanumeric)
        .all(|joint| matches!(joint, b"" | b"." | b"_" | b"__") || joint.iter().all(|byte| *byte == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_normalised_as_docker_does() {
        let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        for (input, expected) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("busybox:1.36", "docker.io/library/busybox:1.36"),
            ("bitnami/redis", "docker.io/bitnami/redis:latest"),
            ("docker.io/busybox", "docker.io/library/busybox:latest"),
            ("index.docker.io/library/busybox", "docker.io/library/busybox:latest"),
            ("localhost/app", "localhost/app:latest"),
            ("localhost:5000/app", "localhost:5000/app:latest"),
            ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
            ("[::1]:5000/a/b:c", "[::1]:5000/a/b:c"),
            ("127.0.0.1:5000/a__b/c--d.e_f:V_1.0-x", "127.0.0.1:5000/a__b/c--d.e_f:V_1.0-x"),
            ("host/app", "docker.io/host/app:latest"),
            ("coracle.dev/host", "coracle.dev/host:latest"),
        ] {
            assert_eq!(Reference::parse(input).map(|it| it.to_string()), Ok(expected.to_owned()), "{input}");
        }
        let with_digest = Reference::parse(&format!("busybox@{digest}")).unwrap();
        assert_eq!(with_digest.to_string(), format!("docker.io/library/busybox@{digest}"));
        assert_eq!(with_digest.tag(), None);
        let both = Reference::parse(&format!("busybox:1@{digest}")).unwrap();
        assert_eq!(both.tag(), Some("1"));
        assert_eq!(both.key(), format!("docker.io/library/busybox@{digest}"));
    }

    #[test]
    fn what_is_no_reference_is_refused_with_its_reason() {
        assert_eq!(Reference::parse(""), Err(ReferenceError::Empty));
        assert!(matches!(Reference::parse(&"a".repeat(64)), Err(ReferenceError::Identity(_))));
        assert!(matches!(Reference::parse("BusyBox"), Err(ReferenceError::UpperCase(_))));
        assert!(matches!(Reference::parse("a:b c"), Err(ReferenceError::Tag(_))));
        assert!(matches!(Reference::parse("a:"), Err(ReferenceError::Tag(_))));
        assert!(matches!(Reference::parse("a@sha256:1"), Err(ReferenceError::Digest { .. })));
        assert!(matches!(Reference::parse(&"a".repeat(300)), Err(ReferenceError::TooLong(_))));
        for text in ["-a.b/c", "a..b/c", "a.b:99999/c", "a.b:/c", "[::1/c", "[zz]:1/c", "../a"] {
            assert!(matches!(Reference::parse(text), Err(ReferenceError::Domain(_))), "{text}");
        }
        for text in ["/", "a//b", "a/", ".a", "a.", "a...b", "a___b", "a b", "a/../../b", "é", "a\0b"] {
            assert!(matches!(Reference::parse(text), Err(ReferenceError::Repository(_))), "{text}");
        }
    }

    #[test]
    fn the_familiar_form_is_what_people_type() {
        for text in ["busybox", "busybox:1", "bitnami/redis", "localhost/app:2"] {
            assert_eq!(Reference::parse(text).unwrap().familiar(), text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered_and_an_accepted_one_is_stable(text in "\\PC{0,80}|[a-z0-9./:@_-]{0,40}") {
            if let Ok(reference) = Reference::parse(&text) {
                let again = Reference::parse(&reference.to_string()).unwrap();
                proptest::prop_assert_eq!(&again, &reference);
                proptest::prop_assert_eq!(Reference::parse(&reference.familiar()).unwrap(), reference);
            }
        }
    }
}
