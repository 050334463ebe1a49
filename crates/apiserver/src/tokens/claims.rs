//! What a token of a service account says, when it is made and when it comes back.

use std::sync::atomic::AtomicU64;

use serde_json::{Map, Value, json};
use store::Key;

use super::{Bound, Digest, ISSUER, Need, Signed};
use crate::identity::Identity;
use crate::server::Server;

/// The issuer of tokens that lie in Secrets.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// The claim with what Kubernetes knows about the token.
const OWN: &str = "kubernetes.io";
/// The keys of what a token adds to its user.
const EXTRA: &str = "authentication.kubernetes.io";

/// An object that a token is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundTo {
    /// `pod`, `secret` or `node`.
    pub(crate) what: &'static str,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// What a token shall say.
#[derive(Clone, Debug)]
pub(crate) enum Grant<'g> {
    /// A token for a time.
    Passing {
        namespace: &'g str,
        account: &'g str,
        account_uid: &'g str,
        audiences: &'g [String],
        bound: &'g [BoundTo],
        now: i64,
        expires: i64,
        /// After which time its user should have got a new one, when it lives for longer.
        warn_after: Option<i64>,
        id: &'g str,
    },
    /// A token without end, in a Secret.
    InSecret { namespace: &'g str, account: &'g str, account_uid: &'g str, secret: &'g str },
}

impl Grant<'_> {
    pub(super) fn claims(&self) -> Value {
        match self {
            Grant::Passing {
                namespace,
                account,
                account_uid,
                audiences,
                bound,
                now,
                expires,
                warn_after,
                id,
            } => {
                let mut own =
                    json!({"namespace": namespace, "serviceaccount": {"name": account, "uid": account_uid}});
                for object in *bound {
                    own[object.what] = json!({"name": object.name, "uid": object.uid});
                }
                if let Some(time) = warn_after {
                    own["warnafter"] = json!(time);
                }
                json!({
                    "aud": audiences, "exp": expires, "iat": now, "iss": ISSUER, "jti": id, OWN: own, "nbf": now,
                    "sub": crate::identity::service_account_user(namespace, account),
                })
            }
            Grant::InSecret { namespace, account, account_uid, secret } => {
                let claim = |name: &str| format!("{OWN}/serviceaccount/{name}");
                let mut claims = Map::new();
                claims.insert("iss".to_owned(), json!(LEGACY_ISSUER));
                claims.insert(claim("namespace"), json!(namespace));
                claims.insert(claim("secret.name"), json!(secret));
                claims.insert(claim("service-account.name"), json!(account));
                claims.insert(claim("service-account.uid"), json!(account_uid));
                let user = crate::identity::service_account_user(namespace, account);
                claims.insert("sub".to_owned(), json!(user));
                Value::Object(claims)
            }
        }
    }
}

/// Reads what a good signature vouches for; `None` when it is not of the form that this server gives.
pub(super) fn read(server: &Server, claims: &Value, digest: Digest) -> Option<Signed> {
    let signed = match claims["iss"].as_str()? {
        ISSUER => passing(server, claims),
        LEGACY_ISSUER => in_secret(server, claims, digest),
        _ => None,
    }?;
    (claims["sub"].as_str()? == signed.identity.name()).then_some(signed)
}

fn key(server: &Server, plural: &str, namespace: &str, name: &str) -> Option<Key> {
    Some(Key::new(server.kinds.core(plural)?.collection(), namespace, name))
}

fn bound(key: Key, need: Need) -> Bound {
    Bound { key, need, seen: AtomicU64::new(0) }
}

fn passing(server: &Server, claims: &Value) -> Option<Signed> {
    let own = &claims[OWN];
    let namespace = own["namespace"].as_str()?;
    let (account, uid) = named(&own["serviceaccount"])?;
    let mut identity = Identity::service_account(namespace, &account, &uid);
    let mut objects = vec![bound(key(server, "serviceaccounts", namespace, &account)?, Need::Uid(uid))];
    for (what, plural, scope) in
        [("pod", "pods", namespace), ("secret", "secrets", namespace), ("node", "nodes", "")]
    {
        let Some(told) = own.get(what) else { continue };
        let (name, uid) = named(told)?;
        if what != "secret" {
            identity = identity
                .with_extra(&format!("{EXTRA}/{what}-name"), vec![name.clone()])
                .with_extra(&format!("{EXTRA}/{what}-uid"), vec![uid.clone()]);
        }
        // The node of a pod is told, but the token does not end with it.
        if what != "node" || own.get("pod").is_none() {
            objects.push(bound(key(server, plural, scope, &name)?, Need::Uid(uid)));
        }
    }
    if let Some(id) = claims["jti"].as_str() {
        identity = identity.with_extra(&format!("{EXTRA}/credential-id"), vec![format!("JTI={id}")]);
    }
    let audiences = claims["aud"].as_array()?.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    Some(Signed {
        identity: identity.authenticated(),
        audiences,
        not_before: claims["nbf"].as_i64()?,
        expires: Some(claims["exp"].as_i64()?),
        bound: objects,
    })
}

fn in_secret(server: &Server, claims: &Value, digest: Digest) -> Option<Signed> {
    let claim = |name: &str| claims[format!("{OWN}/serviceaccount/{name}").as_str()].as_str();
    let (namespace, account) = (claim("namespace")?, claim("service-account.name")?);
    let uid = claim("service-account.uid")?;
    Some(Signed {
        identity: Identity::service_account(namespace, account, uid).authenticated(),
        audiences: vec![ISSUER.to_owned()],
        not_before: 0,
        expires: None,
        bound: vec![
            bound(key(server, "serviceaccounts", namespace, account)?, Need::Uid(uid.to_owned())),
            bound(key(server, "secrets", namespace, claim("secret.name")?)?, Need::Token(digest)),
        ],
    })
}

fn named(value: &Value) -> Option<(String, String)> {
    Some((value["name"].as_str()?.to_owned(), value["uid"].as_str()?.to_owned()))
}
