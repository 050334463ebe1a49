//! `ephemeralcontainers`: adds containers to a pod that exists; nothing else of the pod changes.

use crate::gatekeeper::Call;
use crate::request::Verb;
use crate::responses::Answer;
use crate::status::ApiError;
use crate::verbs::{self, patch_part, update_part};
use crate::writing::Part;

pub(super) async fn run(call: Call) -> Result<Answer, ApiError> {
    match call.verb {
        // The subresource shows the whole pod.
        Verb::Get => verbs::dispatch(call).await,
        Verb::Update => update_part(call, Part::EphemeralContainers).await,
        Verb::Patch => patch_part(call, Part::EphemeralContainers).await,
        Verb::Create | Verb::List | Verb::Watch | Verb::Delete | Verb::DeleteCollection => {
            Err(ApiError::MethodNotAllowed)
        }
    }
}
