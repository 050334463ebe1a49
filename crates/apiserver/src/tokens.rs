//! Bearer tokens: those of service accounts, signed here and good as long as what they are bound to exists, and those of a file.

mod claims;
mod fixed;
mod jwt;
mod secrets;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use ring::digest::{SHA256, digest};
use serde_json::Value;
use store::{Key, Object};

use crate::authority::TokenKey;
use crate::identity::Identity;
use crate::object::{self, text};
use crate::server::Server;

pub(crate) use claims::{BoundTo, Grant};
pub use fixed::{FixedTokens, FixedTokensError};
pub(crate) use secrets::{fill_secret, no_randomness, remove_secrets};

/// Who signs the tokens, as they say it; also the only audience that this server accepts.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// Longest token that is looked at.
const LONGEST: usize = 16 * 1024;
/// How many tokens are remembered whose signature was good.
const REMEMBERED: usize = 4096;
/// For how many seconds a token outlives the end of what it is bound to, so that it can be used while that ends.
const LEEWAY: i64 = 60;

/// A SHA-256 digest: what tokens are looked up and compared by, so that the time it takes tells nothing about them.
type Digest = [u8; 32];

fn digest_of(token: &str) -> Digest {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

/// Why a token proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("invalid bearer token")]
    Unknown,
    #[error("invalid bearer token, service account token has expired")]
    Expired,
    #[error("invalid bearer token, service account token is not valid yet")]
    Early,
    #[error("invalid bearer token, token audiences do not contain one of this server's")]
    Audience,
    #[error("invalid bearer token, service account token has been invalidated")]
    Gone,
}

/// Whom a token names.
#[derive(Clone, Debug)]
pub(crate) struct Proven {
    pub(crate) identity: Identity,
    /// For whom it is meant, of those who were asked for.
    pub(crate) audiences: Vec<String>,
}

/// A token whose signature was good. What it is bound to is looked up each time.
#[derive(Debug)]
struct Signed {
    identity: Identity,
    audiences: Vec<String>,
    not_before: i64,
    expires: Option<i64>,
    bound: Vec<Bound>,
}

/// One object that a token needs.
#[derive(Debug)]
struct Bound {
    key: Key,
    need: Need,
    /// The revision of the object that was looked at last and found good; 0: none.
    seen: AtomicU64,
}

/// What that object must be.
#[derive(Debug)]
enum Need {
    /// The one with this uid.
    Uid(String),
    /// A Secret that holds exactly this token.
    Token(Digest),
}

/// The tokens of a server.
pub(crate) struct Tokens {
    key: Arc<TokenKey>,
    fixed: FixedTokens,
    signed: Mutex<HashMap<Digest, Arc<Signed>>>,
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tokens")
    }
}

impl Tokens {
    pub(crate) fn new(key: Arc<TokenKey>, fixed: FixedTokens) -> Tokens {
        Tokens { key, fixed, signed: Mutex::new(HashMap::new()) }
    }

    pub(crate) fn key(&self) -> &TokenKey {
        &self.key
    }

    /// Signs a token; `None` when there is no randomness.
    pub(crate) fn issue(&self, grant: &Grant<'_>) -> Option<String> {
        jwt::sign(&self.key, &grant.claims())
    }

    fn signed(&self, server: &Server, token: &str) -> Result<Arc<Signed>, TokenError> {
        let digest = digest_of(token);
        let known = |signed: &Mutex<HashMap<Digest, Arc<Signed>>>| {
            signed.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).cloned()
        };
        if let Some(found) = known(&self.signed) {
            return Ok(found);
        }
        let claims = jwt::verify(&self.key, token).ok_or(TokenError::Unknown)?;
        let read = Arc::new(claims::read(server, &claims, digest).ok_or(TokenError::Unknown)?);
        let mut signed = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        if signed.len() >= REMEMBERED {
            signed.clear();
        }
        signed.insert(digest, read.clone());
        Ok(read)
    }
}

/// Whom `token` names to one of `audiences`.
pub(crate) fn prove(server: &Server, token: &str, audiences: &[String]) -> Result<Proven, TokenError> {
    let tokens = &server.tokens;
    if token.is_empty() || token.len() > LONGEST {
        return Err(TokenError::Unknown);
    }
    if let Some(identity) = tokens.fixed.get(&digest_of(token)) {
        return Ok(Proven { identity: identity.clone(), audiences: audiences.to_vec() });
    }
    let signed = tokens.signed(server, token)?;
    let now = Timestamp::now().as_second();
    if signed.expires.is_some_and(|end| end <= now) {
        return Err(TokenError::Expired);
    }
    if signed.not_before > now.saturating_add(LEEWAY) {
        return Err(TokenError::Early);
    }
    let meant: Vec<String> =
        audiences.iter().filter(|wanted| signed.audiences.contains(wanted)).cloned().collect();
    if meant.is_empty() {
        return Err(TokenError::Audience);
    }
    if !signed.bound.iter().all(|bound| bound.holds(server, now)) {
        return Err(TokenError::Gone);
    }
    Ok(Proven { identity: signed.identity.clone(), audiences: meant })
}

impl Bound {
    fn holds(&self, server: &Server, now: i64) -> bool {
        let Some(stored) = server.store.get(&self.key) else { return false };
        if self.seen.load(Ordering::Relaxed) == stored.revision() {
            return true;
        }
        let object = object::tree(&stored);
        let is_it = match &self.need {
            Need::Uid(uid) => text(&object, &["metadata", "uid"]) == uid,
            Need::Token(digest) => secrets::token_of(&object).is_some_and(|own| digest_of(&own) == *digest),
        };
        is_it && self.still(&stored, &object, now)
    }

    /// What is being deleted is good for a moment still, and looked at each time.
    fn still(&self, stored: &Object, object: &Value, now: i64) -> bool {
        match text(object, &["metadata", "deletionTimestamp"]) {
            "" => {
                self.seen.store(stored.revision(), Ordering::Relaxed);
                true
            }
            end => end.parse::<Timestamp>().is_ok_and(|end| end.as_second().saturating_add(LEEWAY) > now),
        }
    }
}
