//! The key that service account tokens are signed with: of this data directory, read by its owner only.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::KeyPair;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, UnparsedPublicKey,
};

use super::{AuthorityError, files};

/// The name of its file, without ending.
const FILE: &str = "service-accounts";
/// The form of a public key: one byte, then two coordinates of 32 bytes.
const POINT: usize = 65;

/// A key for ES256, with its public half.
pub struct TokenKey {
    pair: EcdsaKeyPair,
    point: Vec<u8>,
    id: String,
    replaced: Vec<PathBuf>,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl TokenKey {
    /// The key kept in `directory`, or a new one. A damaged one is moved aside: its tokens are no longer good.
    pub(super) fn open(directory: &Path) -> Result<TokenKey, AuthorityError> {
        let path = directory.join(format!("{FILE}.key"));
        let kept = match std::fs::read_to_string(&path) {
            Ok(pem) => Some(KeyPair::from_pem(&pem).ok().and_then(|pair| TokenKey::of(&pair))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => Some(None),
            Err(source) => return Err(AuthorityError::File { path, source }),
        };
        let replaced = match kept {
            Some(Some(key)) => return Ok(key),
            Some(None) => files::move_aside(directory, FILE)?,
            None => Vec::new(),
        };
        let pair = new_pair()?;
        files::write_private(&path, pair.serialize_pem().as_bytes())
            .map_err(|source| AuthorityError::File { path, source })?;
        let key = TokenKey::of(&pair).ok_or_else(no_key)?;
        Ok(TokenKey { replaced, ..key })
    }

    /// A key that is kept nowhere.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn passing() -> Result<TokenKey, AuthorityError> {
        TokenKey::of(&new_pair()?).ok_or_else(no_key)
    }

    /// Where a damaged key was moved when this one was made in its place.
    pub fn replaced(&self) -> &[PathBuf] {
        &self.replaced
    }

    fn of(pair: &KeyPair) -> Option<TokenKey> {
        let point = pair.public_key_raw().to_vec();
        if point.len() != POINT {
            return None;
        }
        let id = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, &point));
        let der = pair.serialize_der();
        let pair =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new()).ok()?;
        Some(TokenKey { pair, point, id, replaced: Vec::new() })
    }

    /// What tells this key from others.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The signature of `message`; `None` when there is no randomness.
    pub(crate) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let signature = self.pair.sign(&SystemRandom::new(), message).ok()?;
        Some(signature.as_ref().to_vec())
    }

    /// Whether `signature` is this key's.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.point).verify(message, signature).is_ok()
    }

    /// The public half as a JSON web key.
    pub(crate) fn web_key(&self) -> serde_json::Value {
        let (x, y) = self.point[1..].split_at(32);
        serde_json::json!({
            "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": "ES256",
            "x": BASE64_URL_SAFE_NO_PAD.encode(x), "y": BASE64_URL_SAFE_NO_PAD.encode(y),
        })
    }
}

fn new_pair() -> Result<KeyPair, AuthorityError> {
    KeyPair::generate().map_err(|source| AuthorityError::Certificate {
        subject: "service account tokens".to_owned(),
        source,
    })
}

fn no_key() -> AuthorityError {
    AuthorityError::Name { name: "service account tokens".to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use crate::authority::Authority;

    #[test]
    fn the_key_of_tokens_is_kept_private_and_a_damaged_one_is_put_aside() {
        let directory = tempfile::tempdir().expect("a directory");
        let pki = directory.path().join("pki");
        let authority = Authority::open(&pki).expect("made");
        let first = authority.token_key().expect("made");
        let path = pki.join("service-accounts.key");
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        let signature = first.sign(b"message").expect("signed");
        let again = authority.token_key().expect("read");
        assert!(again.verifies(b"message", &signature) && again.id() == first.id());
        assert!(!again.verifies(b"another", &signature));
        std::fs::write(&path, b"\xff no key").expect("written");
        let other = authority.token_key().expect("made anew");
        assert_eq!(other.replaced().len(), 1);
        assert!(!other.verifies(b"message", &signature));
    }
}
