//! Creates the planned objects through the API, as any client would, and passes its warnings on.

use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::plan::Plan;
use super::report::{Happening, Report};
use super::roots::Root;
use crate::cluster::warning_text;
use crate::env;
use crate::input::Input;

/// Why an object was not created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    /// The API refused it.
    #[error("{place}: {message}")]
    Refused {
        /// `file:line:column` of the field that is meant, or of the object.
        place: String,
        /// What the API says.
        message: String,
        /// What to do, if it is known.
        hint: Option<String>,
        /// HTTP status.
        code: u16,
    },
    /// The API could not be asked.
    #[error("the API of the throwaway node does not answer")]
    Unreachable(#[source] kube::Error),
}

/// Creates everything; answers what runs.
///
/// # Errors
///
/// The first object that is refused.
pub(crate) async fn create(
    client: &kube::Client,
    input: &Input,
    plan: &Plan,
    report: &Report,
) -> Result<Vec<Root>, CreateError> {
    for namespace in &plan.missing_namespaces {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let answer = post(client, "/api/v1/namespaces", &body).await?;
        if let Some(message) = answer.refusal() {
            let place = input.files.first().map(|file| file.name.clone()).unwrap_or_default();
            return Err(CreateError::Refused { place, message, hint: None, code: answer.code });
        }
        report.tell(&Happening::Created { kind: "Namespace", namespace: None, name: namespace });
    }
    let mut roots = Vec::new();
    for planned in &plan.objects {
        let object = &input.objects[planned.object];
        let answer = post(client, &planned.collection, &object.document.root.to_json()).await?;
        let shown = format!("{}/{}", object.kind.to_lowercase(), object.name);
        for message in &answer.warnings {
            report.tell(&Happening::Warning { object: &shown, message });
        }
        if let Some(message) = answer.refusal() {
            let is_of_type = message.contains("cannot be handled as") || message.contains("cannot unmarshal");
            let mistake = if is_of_type { env::mistake_place(input, object) } else { None };
            let (place, hint) = match mistake {
                Some((place, hint)) => (place, Some(hint)),
                None => (input.place(object, answer.field().unwrap_or("metadata.name")), None),
            };
            return Err(CreateError::Refused { place, message, hint, code: answer.code });
        }
        let name = answer.body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        report.tell(&Happening::Created {
            kind: &object.kind,
            namespace: planned.namespace.as_deref(),
            name,
        });
        if let (Some(runs), Some(namespace)) = (planned.runs, &planned.namespace) {
            roots.push(Root {
                runs,
                kind: object.kind.clone(),
                namespace: namespace.clone(),
                name: name.to_owned(),
            });
        }
    }
    Ok(roots)
}

/// What the API answered.
struct Answer {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

impl Answer {
    /// The message of a refusal.
    fn refusal(&self) -> Option<String> {
        let message = self.body.get("message").and_then(Value::as_str).unwrap_or("refused without a message");
        (self.code >= 300).then(|| message.to_owned())
    }

    /// The first field that is meant: a cause names it, and so does the text about an unknown field.
    fn field(&self) -> Option<&str> {
        let cause = self.body.pointer("/details/causes/0/field").and_then(Value::as_str);
        cause.or_else(|| {
            let message = self.body.get("message")?.as_str()?;
            message.split_once("field \"")?.1.split_once('"').map(|(field, _)| field)
        })
    }
}

async fn post(client: &kube::Client, path: &str, body: &Value) -> Result<Answer, CreateError> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{path}?fieldManager=coracle-run&fieldValidation=Strict"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(kube::client::Body::from(body.to_string().into_bytes()))
        .expect("the path was escaped, so the request is well formed");
    let response = client.send(request).await.map_err(CreateError::Unreachable)?;
    let warnings = response.headers().get_all(http::header::WARNING).iter();
    let warnings = warnings.filter_map(|value| value.to_str().ok()).map(warning_text).collect();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.map_err(CreateError::Unreachable)?.to_bytes();
    Ok(Answer { code, warnings, body: serde_json::from_slice(&bytes).unwrap_or_default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_of_a_refusal_is_found_in_causes_and_in_the_text() {
        let answer = |body| Answer { code: 422, warnings: Vec::new(), body };
        let causes = answer(json!({"message": "x", "details": {"causes": [{"field": "spec.a"}]}}));
        assert_eq!(causes.field(), Some("spec.a"));
        let text =
            answer(json!({"message": "strict decoding error: unknown field \"spec.containers[0].foo\""}));
        assert_eq!(text.field(), Some("spec.containers[0].foo"));
    }
}
