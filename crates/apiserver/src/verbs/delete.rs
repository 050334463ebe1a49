//! `delete`: removes an object, or marks it when something has to happen first.

use http::StatusCode;

use crate::deletion::{DeleteOptions, Deleted, Propagation, delete_object};
use crate::gatekeeper::Call;
use crate::media::object_format;
use crate::render::{self, Shown};
use crate::responses::{Answer, add_warnings, json};
use crate::status::{ApiError, deleted_status};
use crate::{body, field_manager};

pub(super) async fn run(mut call: Call) -> Result<Answer, ApiError> {
    let format = object_format(call.request.headers())?;
    let dry_run = call.dry_run()?;
    let content = body::read(&call.server, &mut call.request).await?;
    let options = DeleteOptions::parse(&content, &call.query)?;
    let write = call.write(field_manager::OWN, dry_run || options.dry_run);
    let deleted = delete_object(&write, &call.name, &options).await?;
    let mut answer = match deleted {
        Deleted::Marked(shown) => {
            // For clients that asked to wait for the dependents.
            let waits = options.propagation == Some(Propagation::Foreground)
                || options.orphan_dependents == Some(false);
            let code = if waits { StatusCode::ACCEPTED } else { StatusCode::OK };
            render::object(&call.kind, format, &call.query, &shown, code)?
        }
        Deleted::Removed(object) if call.kind.strategy().returns_deleted() => {
            render::object(&call.kind, format, &call.query, &Shown::Tree(object), StatusCode::OK)?
        }
        Deleted::Removed(object) => {
            let uid = crate::object::text(&object, &["metadata", "uid"]);
            json(StatusCode::OK, &deleted_status(&call.kind, &call.name, uid))
        }
    };
    if let Some(warning) = call.kind.strategy().propagation_warning()
        && !options.says_propagation()
    {
        add_warnings(&mut answer, &[warning.to_owned()]);
    }
    Ok(answer)
}
