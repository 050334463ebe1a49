//! Secrets that hold a token of a service account for as long as both exist.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use store::Key;

use super::Grant;
use crate::object::{self, map_mut, metadata_mut, text};
use crate::status::ApiError;
use crate::writing::Write;

/// The type of such Secrets.
const TOKEN_SECRET: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The token that a Secret holds.
pub(super) fn token_of(secret: &Value) -> Option<String> {
    if text(secret, &["type"]) != TOKEN_SECRET {
        return None;
    }
    String::from_utf8(BASE64_STANDARD.decode(text(secret, &["data", "token"])).ok()?).ok()
}

/// Fills a new Secret of that type.
pub(crate) fn fill_secret(write: &Write<'_>, secret: &mut Value) -> Result<(), ApiError> {
    let account = text(secret, &["metadata", "annotations", ACCOUNT]).to_owned();
    if text(secret, &["type"]) != TOKEN_SECRET || account.is_empty() {
        return Ok(());
    }
    let accounts = write.server.kinds.core("serviceaccounts");
    let key = accounts.map(|kind| Key::new(kind.collection(), write.namespace, &account));
    let found = key.and_then(|key| write.server.store.get(&key)).map(|stored| object::tree(&stored));
    let told = text(secret, &["metadata", "annotations", ACCOUNT_UID]);
    let uid = found.as_ref().map(|found| text(found, &["metadata", "uid"])).unwrap_or_default();
    if uid.is_empty() || (!told.is_empty() && told != uid) {
        return Err(ApiError::forbidden(
            write.kind,
            object::name(secret),
            format!(
                "service account {}/{account} does not exist (any more), so there is no token of it",
                write.namespace
            ),
        ));
    }
    let grant = Grant::InSecret {
        namespace: write.namespace,
        account: &account,
        account_uid: uid,
        secret: object::name(secret),
    };
    let token = write.server.tokens.issue(&grant).ok_or_else(no_randomness)?;
    let annotations = metadata_mut(secret).entry("annotations").or_insert_with(|| json!({}));
    annotations[ACCOUNT_UID] = json!(uid);
    let data = map_mut(secret, "data");
    let mut put = |key: &str, bytes: &str| data.insert(key.to_owned(), json!(BASE64_STANDARD.encode(bytes)));
    put("token", &token);
    put("namespace", write.namespace);
    if let Some(pem) = &write.server.config.authority_pem {
        put("ca.crt", pem);
    }
    Ok(())
}

pub(crate) fn no_randomness() -> ApiError {
    ApiError::Internal { message: "the system gives no random numbers, so no token can be signed".to_owned() }
}

/// After the end of a service account: its Secrets with tokens go with it.
pub(crate) async fn remove_secrets(write: &Write<'_>, account: &Value) {
    let uid = text(account, &["metadata", "uid"]);
    let Some(kind) = write.server.kinds.core("secrets") else { return };
    let Ok(listing) = write.server.store.list(kind.collection(), Some(write.namespace), None, None) else {
        return;
    };
    for stored in listing.objects {
        let secret = object::tree(&stored);
        if text(&secret, &["type"]) == TOKEN_SECRET
            && text(&secret, &["metadata", "annotations", ACCOUNT_UID]) == uid
        {
            // Changed meanwhile, or gone: its token proves nothing any more in either case.
            let _ = write.server.store.delete(stored.key().clone(), Some(stored.revision())).await;
        }
    }
}
