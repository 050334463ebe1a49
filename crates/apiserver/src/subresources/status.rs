//! `status`: what the object's keeper says about it; nothing else of the object changes.

use http::StatusCode;

use crate::gatekeeper::Call;
use crate::media::object_format;
use crate::render::{self, Shown};
use crate::request::Verb;
use crate::responses::Answer;
use crate::status::ApiError;
use crate::verbs::{patch_part, update_part};
use crate::writing::Part;

pub(super) async fn run(call: Call) -> Result<Answer, ApiError> {
    match call.verb {
        Verb::Get => {
            let format = object_format(call.request.headers())?;
            let object = call
                .server
                .store
                .get(&call.key())
                .ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
            render::object(&call.kind, format, &call.query, &Shown::Stored(object), StatusCode::OK)
        }
        Verb::Update => update_part(call, Part::Status).await,
        Verb::Patch => patch_part(call, Part::Status).await,
        Verb::Create | Verb::List | Verb::Watch | Verb::Delete | Verb::DeleteCollection => {
            Err(ApiError::MethodNotAllowed)
        }
    }
}
