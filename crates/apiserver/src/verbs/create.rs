//! `create`: a new object, with everything that only the server may say.

use http::StatusCode;

use crate::gatekeeper::Call;
use crate::media::object_format;
use crate::render;
use crate::responses::{Answer, add_warnings};
use crate::status::ApiError;
use crate::writing::{Write, create_object};
use crate::{body, field_manager};

pub(super) async fn run(mut call: Call) -> Result<Answer, ApiError> {
    if !call.name.is_empty() {
        return Err(ApiError::MethodNotAllowed);
    }
    let format = object_format(call.request.headers())?;
    let dry_run = call.dry_run()?;
    let manager = field_manager::named(&call)?;
    let content = body::read(&call.server, &mut call.request).await?;
    let (decoded, order) = body::decode_whole(&call, content).await?;
    let write = Write { order: order.as_ref(), ..call.write(&manager, dry_run) };
    let mut written = create_object(&write, decoded.value).await?;
    written.warnings.splice(0..0, decoded.warnings);
    let mut answer = render::object(&call.kind, format, &call.query, &written.shown, StatusCode::CREATED)?;
    add_warnings(&mut answer, &written.warnings);
    Ok(answer)
}
