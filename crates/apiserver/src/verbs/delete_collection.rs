//! `deletecollection`: deletes what a list selects, each object by itself.

use http::StatusCode;
use serde_json::{Value, json};

use crate::deletion::{DeleteOptions, Deleted, delete_object};
use crate::gatekeeper::Call;
use crate::list_options::ListOptions;
use crate::pagination::read_page;
use crate::responses::{Answer, json as json_answer};
use crate::status::ApiError;
use crate::writing::Write;
use crate::{body, field_manager};

pub(super) async fn run(mut call: Call) -> Result<Answer, ApiError> {
    let dry_run = call.dry_run()?;
    let content = body::read(&call.server, &mut call.request).await?;
    let delete_options = DeleteOptions::parse(&content, &call.query)?;
    let options = ListOptions::parse(&call.kind, &call.query, false)?;
    let page = read_page(&call.server, &call.kind, &call.namespace, &options)?;
    let mut items: Vec<Value> = Vec::with_capacity(page.objects.len());
    for object in &page.objects {
        let write = Write {
            namespace: object.key().namespace(),
            ..call.write(field_manager::OWN, dry_run || delete_options.dry_run)
        };
        match delete_object(&write, object.key().name(), &delete_options).await {
            Ok(Deleted::Marked(shown)) => items.push(shown.to_tree()),
            Ok(Deleted::Removed(object)) => items.push(object),
            // Somebody else was quicker.
            Err(ApiError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let list = json!({
        "kind": call.kind.list_kind(),
        "apiVersion": call.kind.group_version(),
        "metadata": page.metadata(),
        "items": items,
    });
    Ok(json_answer(StatusCode::OK, &list))
}
