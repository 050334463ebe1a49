//! `delete`: removes an object, or marks it when something has to happen first.

use http::StatusCode;

use crate::deletion::{DeleteOptions, Deleted, delete_object};
use crate::gatekeeper::Call;
use crate::media::object_format;
use crate::render::{self, Shown};
use crate::responses::{Answer, json};
use crate::status::{ApiError, deleted_status};
use crate::{body, field_manager};

pub(super) async fn run(mut call: Call) -> Result<Answer, ApiError> {
    let format = object_format(call.request.headers())?;
    let dry_run = call.dry_run()?;
    let content = body::read(&call.server, &mut call.request).await?;
    let options = DeleteOptions::parse(&content, &call.query)?;
    let write = call.write(field_manager::OWN, dry_run || options.dry_run);
    match delete_object(&write, &call.name, &options).await? {
        Deleted::Marked(shown) => render::object(&call.kind, format, &call.query, &shown, StatusCode::OK),
        Deleted::Removed(object) if call.kind.strategy().returns_deleted() => {
            render::object(&call.kind, format, &call.query, &Shown::Tree(object), StatusCode::OK)
        }
        Deleted::Removed(object) => {
            let uid = crate::object::text(&object, &["metadata", "uid"]);
            Ok(json(StatusCode::OK, &deleted_status(&call.kind, &call.name, uid)))
        }
    }
}
