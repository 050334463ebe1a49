//! `deletecollection`: deletes what a list selects, each object by itself.

use futures::future::try_join_all;
use http::StatusCode;
use serde_json::{Value, json};
use store::Object;

use crate::deletion::{DeleteOptions, Deleted, delete_object};
use crate::gatekeeper::Call;
use crate::list_options::ListOptions;
use crate::pagination::read_page;
use crate::responses::{Answer, json as json_answer};
use crate::status::ApiError;
use crate::writing::Write;
use crate::{body, field_manager};

/// How many are deleted at the same time, so that they share commits.
const AT_ONCE: usize = 128;

pub(super) async fn run(mut call: Call) -> Result<Answer, ApiError> {
    let dry_run = call.dry_run()?;
    let content = body::read(&call.server, &mut call.request).await?;
    let delete_options = DeleteOptions::parse(&content, &call.query)?;
    let options = ListOptions::parse(&call.kind, &call.query, false)?;
    let page = read_page(&call.server, &call.kind, &call.namespace, &options)?;
    let dry_run = dry_run || delete_options.dry_run;
    let mut items: Vec<Value> = Vec::with_capacity(page.objects.len());
    for objects in page.objects.chunks(AT_ONCE) {
        let deletions = objects.iter().map(|object| delete_one(&call, object, &delete_options, dry_run));
        items.extend(try_join_all(deletions).await?.into_iter().flatten());
    }
    let list = json!({
        "kind": call.kind.list_kind(),
        "apiVersion": call.kind.group_version(),
        "metadata": page.metadata(),
        "items": items,
    });
    Ok(json_answer(StatusCode::OK, &list))
}

/// Deletes one object of the list and answers its last version; nothing when somebody else was quicker.
async fn delete_one(
    call: &Call,
    object: &Object,
    options: &DeleteOptions,
    dry_run: bool,
) -> Result<Option<Value>, ApiError> {
    let namespace = object.key().namespace();
    let write = Write { namespace, ..call.write(field_manager::OWN, dry_run) };
    match delete_object(&write, object.key().name(), options).await {
        Ok(Deleted::Marked(shown)) => Ok(Some(shown.to_tree())),
        Ok(Deleted::Removed(object)) => Ok(Some(object)),
        Err(ApiError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
