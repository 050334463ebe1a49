//! `get`: one object, as it is stored.

use http::StatusCode;

use crate::gatekeeper::Call;
use crate::list_options::resource_version;
use crate::media::object_format;
use crate::render::{self, Shown};
use crate::responses::Answer;
use crate::status::ApiError;

pub(super) fn run(call: &Call) -> Result<Answer, ApiError> {
    let format = object_format(call.request.headers())?;
    if let Some(requested) = resource_version(&call.query)? {
        let current = call.server.store.revision();
        if requested > current {
            return Err(ApiError::FutureResourceVersion { requested, current });
        }
    }
    let object =
        call.server.store.get(&call.key()).ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
    render::object(&call.kind, format, &call.query, &Shown::Stored(object), StatusCode::OK)
}
