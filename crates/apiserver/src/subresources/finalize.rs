//! `finalize`: says which finalizers of its spec a namespace still has; with the last one it goes.

use http::StatusCode;
use serde_json::{Value, json};
use store::{Purpose, WriteError};

use crate::body;
use crate::gatekeeper::Call;
use crate::media::object_format;
use crate::object::{encode, list, map_mut, set_metadata, text, tree};
use crate::render::{self, Shown};
use crate::request::Verb;
use crate::responses::Answer;
use crate::status::ApiError;
use crate::writing::may_go;

/// How often it is tried again after somebody else was quicker.
const ATTEMPTS: usize = 16;

pub(super) async fn run(mut call: Call) -> Result<Answer, ApiError> {
    if call.verb != Verb::Update {
        return Err(ApiError::MethodNotAllowed);
    }
    let format = object_format(call.request.headers())?;
    let dry_run = call.dry_run()?;
    let content = body::read(&call.server, &mut call.request).await?;
    let decoded = body::decode(&call.kind, &content, &call.query)?.value;
    let told = crate::object::name(&decoded);
    if told != call.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({told}) does not match the name on the URL ({})",
            call.name
        )));
    }
    let shown = replace(&call, &decoded, dry_run).await?;
    render::object(&call.kind, format, &call.query, &shown, StatusCode::OK)
}

async fn replace(call: &Call, wanted: &Value, dry_run: bool) -> Result<Shown, ApiError> {
    let demanded = text(wanted, &["metadata", "resourceVersion"]);
    for _ in 0..ATTEMPTS {
        let stored =
            call.server.store.get(&call.key()).ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
        let old = tree(&stored);
        if !demanded.is_empty() && demanded != text(&old, &["metadata", "resourceVersion"]) {
            return Err(ApiError::stale(&call.kind, &call.name));
        }
        let mut new = old.clone();
        let finalizers = list(wanted, &["spec", "finalizers"]);
        let known = list(&old, &["spec", "finalizers"]);
        if let Some(added) = finalizers.iter().find(|one| !known.contains(one)) {
            return Err(ApiError::bad_request(format!(
                "finalizers can only be taken away, and {added} is new"
            )));
        }
        if finalizers.is_empty() {
            map_mut(&mut new, "spec").remove("finalizers");
        } else {
            map_mut(&mut new, "spec").insert("finalizers".to_owned(), json!(finalizers));
        }
        if dry_run {
            return Ok(Shown::Tree(new));
        }
        let is_going = !text(&old, &["metadata", "deletionTimestamp"]).is_empty();
        let written = if is_going && may_go(&call.kind, &new) {
            call.server.store.delete(call.key(), Some(stored.revision())).await.map(|gone| {
                set_metadata(&mut new, "resourceVersion", Some(json!(gone.revision().to_string())));
                Shown::Tree(new)
            })
        } else {
            let draft = encode(&new);
            let update = call.server.store.update(call.key(), stored.revision(), draft, Purpose::Removal);
            update.await.map(Shown::Stored)
        };
        match written {
            Ok(shown) => return Ok(shown),
            Err(WriteError::Conflict { .. }) if demanded.is_empty() => {}
            Err(error) => return Err(ApiError::from_write(&call.kind, &call.name, error)),
        }
    }
    Err(ApiError::stale(&call.kind, &call.name))
}
