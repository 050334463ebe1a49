//! `patch`: applies a patch to the newest version, again when somebody else was quicker.

use http::StatusCode;

use crate::applying::{self, apply_part, is_apply};
use crate::gatekeeper::Call;
use crate::media::object_format;
use crate::patching::{Patch, apply};
use crate::render;
use crate::responses::{Answer, add_warnings};
use crate::status::ApiError;
use crate::writing::{Part, update_object};
use crate::{body, field_manager};

pub(super) async fn run(call: Call) -> Result<Answer, ApiError> {
    patch_part(call, Part::Main).await
}

/// Patches `part` of an object.
pub(crate) async fn patch_part(mut call: Call, part: Part) -> Result<Answer, ApiError> {
    let format = object_format(call.request.headers())?;
    let dry_run = call.dry_run()?;
    let manager = field_manager::named(&call)?;
    if is_apply(&call) {
        return apply_part(call, part, format, dry_run, &manager).await;
    }
    if call.query.text("force").is_some() {
        return Err(field_manager::refused(call.verb, vec![applying::force_forbidden()]));
    }
    let validation = body::field_validation(&call.query)?;
    let content = body::read(&call.server, &mut call.request).await?;
    let patch = Patch::parse(&content, call.server.limits())?;
    let write = call.write(&manager, dry_run);
    let limits = call.server.limits();
    let kind = &call.kind;
    let written =
        update_object(&write, &call.name, part, |live| apply(kind, live, &patch, validation, limits)).await?;
    let mut answer = render::object(kind, format, &call.query, &written.shown, StatusCode::OK)?;
    add_warnings(&mut answer, &written.warnings);
    Ok(answer)
}
