//! `log`: the output of a container, as the kubelet has it.

use http::StatusCode;

use super::node_request::{chosen_query, container, get, node, pod};
use crate::gatekeeper::Call;
use crate::query::percent_encode;
use crate::request::Verb;
use crate::responses::{Answer, text};
use crate::status::ApiError;

const PARAMETERS: [&str; 9] = [
    "follow",
    // Coracle's own: the log of a hook of the container.
    "hook",
    "limitBytes",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "stream",
    "tailLines",
    "timestamps",
];

pub(super) async fn run(call: Call) -> Result<Answer, ApiError> {
    if call.verb != Verb::Get {
        return Err(ApiError::MethodNotAllowed);
    }
    check(&call)?;
    let pod = pod(&call)?;
    let container = container(&call, &pod)?;
    // Before a pod is on a node there is nothing to show.
    let Some(node) = node(&pod) else { return Ok(text(StatusCode::OK, "")) };
    let path = format!(
        "/containerLogs/{}/{}/{}?{}",
        percent_encode(&call.namespace),
        percent_encode(&call.name),
        percent_encode(&container),
        chosen_query(&call, &PARAMETERS)
    );
    let node = node.to_owned();
    get(call, &node, &path).await
}

fn check(call: &Call) -> Result<(), ApiError> {
    for name in ["tailLines", "sinceSeconds", "limitBytes"] {
        let least = if name == "tailLines" { 0 } else { 1 };
        if let Some(value) = call.query.text(name) {
            let fits = value.parse::<i64>().is_ok_and(|number| number >= least);
            if !fits {
                return Err(ApiError::bad_request(format!(
                    "{name}: Invalid value: {}: must be a number of at least {least}",
                    schema::go_quote(value)
                )));
            }
        }
    }
    if call.query.text("sinceSeconds").is_some() && call.query.text("sinceTime").is_some() {
        return Err(ApiError::bad_request("at most one of `sinceTime` or `sinceSeconds` may be specified"));
    }
    Ok(())
}
