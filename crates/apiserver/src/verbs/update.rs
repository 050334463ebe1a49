//! `update`: replaces an object, or one part of it.

use http::StatusCode;

use crate::gatekeeper::Call;
use crate::media::object_format;
use crate::render;
use crate::responses::{Answer, add_warnings};
use crate::status::ApiError;
use crate::writing::{Candidate, Part, Write, create_object, update_object};
use crate::{body, field_manager};

pub(super) async fn run(call: Call) -> Result<Answer, ApiError> {
    update_part(call, Part::Main).await
}

/// Replaces `part` of an object by the request's body.
pub(crate) async fn update_part(mut call: Call, part: Part) -> Result<Answer, ApiError> {
    let format = object_format(call.request.headers())?;
    let dry_run = call.dry_run()?;
    let manager = field_manager::named(&call)?;
    let content = body::read(&call.server, &mut call.request).await?;
    let (decoded, order) = body::decode_whole(&call, content).await?;
    let told = crate::object::name(&decoded.value);
    if told.is_empty() || told != call.name {
        return Err(ApiError::bad_request(if told.is_empty() {
            "the name of the object (based on the URL) was undeterminable: name must be provided".to_owned()
        } else {
            format!("the name of the object ({told}) does not match the name on the URL ({})", call.name)
        }));
    }
    let write = Write { order: order.as_ref(), ..call.write(&manager, dry_run) };
    let is_new = part == Part::Main
        && call.kind.strategy().creates_on_update()
        && call.server.store.get(&call.key()).is_none();
    let (mut written, code) = if is_new {
        call.demand_create()?;
        (create_object(&write, decoded.value).await?, StatusCode::CREATED)
    } else {
        let make = |_: &serde_json::Value| {
            Ok(Candidate { object: decoded.value.clone(), warnings: Vec::new(), keeps_version: true })
        };
        (update_object(&write, &call.name, part, make).await?, StatusCode::OK)
    };
    written.warnings.splice(0..0, decoded.warnings);
    let mut answer = render::object(&call.kind, format, &call.query, &written.shown, code)?;
    add_warnings(&mut answer, &written.warnings);
    Ok(answer)
}
