//! `log`: the output of a container, as the kubelet has it.

use admission::{BadValue, FieldError, FieldErrorKind, FieldErrors};
use http::StatusCode;

use super::node_request::{chosen_query, container, get, node, pod};
use crate::gatekeeper::Call;
use crate::query::{Query, percent_encode};
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
    check(&call.query, &call.name)?;
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

/// The options as upstream judges them: what is no number cannot be read (400), what is out of its range is invalid (422).
fn check(query: &Query, pod: &str) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let error = |kind, field: &str, bad_value, detail: &str| FieldError {
        kind,
        field: field.to_owned(),
        bad_value,
        detail: detail.to_owned(),
    };
    for (name, least, words) in [
        ("tailLines", 0, "must be greater than or equal to 0"),
        ("limitBytes", 1, "must be greater than 0"),
        ("sinceSeconds", 1, "must be greater than 0"),
    ] {
        let Some(value) = query.text(name).filter(|value| !value.is_empty()) else { continue };
        let number: i64 = value.parse().map_err(|_| {
            ApiError::bad_request(format!("{name}: {} is not a number", schema::go_quote(value)))
        })?;
        if number < least {
            errors.push(error(FieldErrorKind::Invalid, name, BadValue::Json(number.into()), words));
        }
    }
    if query.text("sinceSeconds").is_some() && query.text("sinceTime").is_some() {
        let words = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(error(FieldErrorKind::Forbidden, "", BadValue::Omitted, words));
    }
    if let Some(stream) =
        query.text("stream").filter(|name| !matches!(*name, "" | "All" | "Stdout" | "Stderr"))
    {
        let words = "supported values: \"All\", \"Stderr\", \"Stdout\"";
        errors.push(error(FieldErrorKind::NotSupported, "stream", BadValue::Json(stream.into()), words));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid {
        group: String::new(),
        kind: "PodLogOptions".to_owned(),
        name: pod.to_owned(),
        errors: FieldErrors(errors),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_judged_as_upstream_judges_them() {
        let judged = |query: &str| {
            check(&Query::parse(query), "p").map_err(|error| (error.code().as_u16(), error.to_string()))
        };
        for good in ["", "tailLines=0", "limitBytes=1&sinceSeconds=1&stream=Stdout", "stream=All&follow=true"]
        {
            assert_eq!(judged(good), Ok(()), "{good}");
        }
        for (query, code, words) in [
            ("tailLines=x", 400, "tailLines: \"x\" is not a number"),
            ("tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
            ("limitBytes=0", 422, "limitBytes: Invalid value: 0: must be greater than 0"),
            ("sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
            (
                "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z",
                422,
                "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
            ),
            (
                "stream=stdin",
                422,
                "stream: Unsupported value: \"stdin\": supported values: \"All\", \"Stderr\", \"Stdout\"",
            ),
        ] {
            let (found, text) = judged(query).expect_err(query);
            assert_eq!(found, code, "{query}");
            assert!(text.contains(words), "{query}: {text}");
        }
    }
}
