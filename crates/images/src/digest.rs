//! SHA-256 digests as image formats write them: `sha256:` and 64 lower-case hexadecimal digits.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest. Displays as `sha256:HEX`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A text that is not a digest this crate understands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// Another algorithm than SHA-256, or none.
    #[error("digest algorithm of {0:?} is not sha256")]
    Algorithm(String),
    /// Not 64 lower-case hexadecimal digits.
    #[error("digest {0:?} is not sha256: followed by 64 lower-case hexadecimal digits")]
    Syntax(String),
}

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// The digest of a finished hash.
    pub(crate) fn from_hash(hash: Sha256) -> Digest {
        Digest(hash.finalize().into())
    }

    /// Reads `sha256:HEX`.
    pub fn parse(text: &str) -> Result<Digest, DigestError> {
        let shortened = || text.chars().take(100).collect::<String>();
        let Some(digits) = text.strip_prefix("sha256:") else {
            return Err(DigestError::Algorithm(shortened()));
        };
        Digest::from_hex(digits).ok_or_else(|| DigestError::Syntax(shortened()))
    }

    /// Reads the 64 digits alone.
    pub fn from_hex(digits: &str) -> Option<Digest> {
        if digits.len() != 64 || digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        Some(Digest(bytes))
    }

    /// The 64 digits without the algorithm.
    pub fn to_hex(self) -> String {
        hex::encode(self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Digest::parse(text)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Digest::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_survives_text() {
        let digest = Digest::of(b"");
        assert_eq!(
            digest.to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(Digest::parse(&digest.to_string()), Ok(digest));
    }

    #[test]
    fn other_algorithms_lengths_and_cases_are_refused() {
        assert!(matches!(Digest::parse("sha512:00"), Err(DigestError::Algorithm(_))));
        assert!(matches!(Digest::parse(""), Err(DigestError::Algorithm(_))));
        for text in [
            "sha256:",
            "sha256:00",
            &format!("sha256:{}", "A".repeat(64)),
            &format!("sha256:{}", "é".repeat(32)),
        ] {
            assert!(matches!(Digest::parse(text), Err(DigestError::Syntax(_))), "{text}");
        }
    }
}
