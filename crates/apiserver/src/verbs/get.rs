//! `get`: one object, as it is stored.

use http::StatusCode;

use crate::gatekeeper::Call;
use crate::media::object_format;
use crate::render::{self, Shown};
use crate::responses::Answer;
use crate::status::ApiError;

pub(super) fn run(call: &Call) -> Result<Answer, ApiError> {
    let format = object_format(call.request.headers())?;
    let object =
        call.server.store.get(&call.key()).ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
    render::object(&call.kind, format, &call.query, &Shown::Stored(object), StatusCode::OK)
}
