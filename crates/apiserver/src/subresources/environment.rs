//! `environment`: what each container of a pod got, as the kubelet has recorded it. Values of Secrets only for those who may read
//! Secrets.

use super::node_request::{get, node, pod};
use crate::authorize::may_read_secrets;
use crate::gatekeeper::Call;
use crate::query::percent_encode;
use crate::request::Verb;
use crate::responses::Answer;
use crate::status::ApiError;

pub(super) async fn run(call: Call) -> Result<Answer, ApiError> {
    if call.verb != Verb::Get {
        return Err(ApiError::MethodNotAllowed);
    }
    let pod = pod(&call)?;
    let shows_secrets = call.query.is_true("showSecrets");
    if shows_secrets && !may_read_secrets(&call.server, &call.identity, &call.namespace) {
        return Err(ApiError::forbidden(
            &call.kind,
            &call.name,
            format!(
                "User \"{}\" cannot get resource \"secrets\" in API group \"\" in the namespace \"{}\", so their values are not shown",
                call.identity.name(),
                call.namespace
            ),
        ));
    }
    let Some(node) = node(&pod) else {
        return Err(ApiError::bad_request(format!(
            "pod {} has not been given to a node yet, so no container has an environment",
            call.name
        )));
    };
    let mut path = format!(
        "/environment/{}/{}?showSecrets={shows_secrets}",
        percent_encode(&call.namespace),
        percent_encode(&call.name)
    );
    if let Some(container) = call.query.text("container") {
        path.push_str(&format!("&container={}", percent_encode(container)));
    }
    let node = node.to_owned();
    get(call, &node, &path).await
}
