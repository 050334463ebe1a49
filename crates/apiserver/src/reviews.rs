//! Questions about who somebody is and what he may do: `kubectl auth can-i`, `whoami`, and what other servers ask.

use admission::{BadValue, FieldError, FieldErrorKind, FieldErrors};
use http::StatusCode;
use serde_json::{Value, json};

use crate::authorize::{self, Attributes};
use crate::body;
use crate::gatekeeper::Call;
use crate::identity::Identity;
use crate::media::object_format;
use crate::object::{list, text};
use crate::render::{self, Shown};
use crate::request::Verb;
use crate::responses::{Answer, add_warnings};
use crate::status::ApiError;
use crate::tokens;

/// Which question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    /// May I?
    SelfSubjectAccess,
    /// May somebody?
    SubjectAccess,
    /// May somebody, in this namespace?
    LocalSubjectAccess,
    /// What may I, in a namespace?
    SelfSubjectRules,
    /// Who am I?
    SelfSubject,
    /// Whom does a token name?
    Token,
}

/// Answers a question.
pub(crate) async fn run(mut call: Call, review: Review) -> Result<Answer, ApiError> {
    if call.verb != Verb::Create || !call.name.is_empty() {
        return Err(ApiError::MethodNotAllowed);
    }
    let format = object_format(call.request.headers())?;
    let content = body::read(&call.server, &mut call.request).await?;
    let decoded = body::decode(&call.kind, &content, &call.query)?;
    let mut object = decoded.value;
    object["status"] = match review {
        Review::SelfSubjectAccess => access(&call, &call.identity, &object)?,
        Review::SubjectAccess => access(&call, &subject(&object), &object)?,
        Review::LocalSubjectAccess => {
            let told = text(&object, &["spec", "resourceAttributes", "namespace"]);
            if told != call.namespace {
                return Err(invalid(
                    &call,
                    "spec.resourceAttributes.namespace",
                    json!(told),
                    "must match metadata.namespace",
                ));
            }
            access(&call, &subject(&object), &object)?
        }
        Review::SelfSubjectRules => rules(&call, &object)?,
        Review::Token => token(&call, &object)?,
        Review::SelfSubject => json!({"userInfo": call.identity.user_info()}),
    };
    let shown = Shown::Tree(object);
    let mut answer = render::object(&call.kind, format, &call.query, &shown, StatusCode::CREATED)?;
    add_warnings(&mut answer, &decoded.warnings);
    Ok(answer)
}

fn invalid(call: &Call, field: &str, value: Value, detail: &str) -> ApiError {
    let error = FieldError {
        kind: FieldErrorKind::Invalid,
        field: field.to_owned(),
        bad_value: BadValue::Json(value),
        detail: detail.to_owned(),
    };
    ApiError::invalid(&call.kind, "", FieldErrors(vec![error]))
}

/// Whom a review is about.
fn subject(review: &Value) -> Identity {
    let groups = list(review, &["spec", "groups"]).iter().filter_map(Value::as_str).map(str::to_owned);
    Identity::new(text(review, &["spec", "user"]), groups.collect())
}

fn access(call: &Call, identity: &Identity, review: &Value) -> Result<Value, ApiError> {
    let (resource, path) = (&review["spec"]["resourceAttributes"], &review["spec"]["nonResourceAttributes"]);
    match (resource.is_object(), path.is_object()) {
        (true, true) => {
            return Err(invalid(
                call,
                "spec.nonResourceAttributes",
                path.clone(),
                "cannot be specified in combination with resourceAttributes",
            ));
        }
        (false, false) => {
            return Err(invalid(
                call,
                "spec.resourceAttributes",
                Value::Null,
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ));
        }
        (true, false) | (false, true) => {}
    }
    if identity.name().is_empty() && identity.groups().is_empty() {
        return Err(invalid(call, "spec.user", json!(""), "at least one of user or group must be specified"));
    }
    let asked = if resource.is_object() {
        Attributes::resource(
            text(resource, &["verb"]),
            text(resource, &["group"]),
            text(resource, &["resource"]),
        )
        .within(text(resource, &["namespace"]))
        .sub(text(resource, &["subresource"]))
        .named(text(resource, &["name"]))
    } else {
        Attributes::path(text(path, &["verb"]), text(path, &["path"]))
    };
    let decision = authorize::decide(&call.server, identity, &asked);
    let mut status = json!({"allowed": decision.allowed});
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    if !decision.allowed && !decision.reason.is_empty() {
        status["evaluationError"] = json!(decision.reason.trim_start_matches("RBAC: "));
    }
    Ok(status)
}

/// Whom the token of a review names.
fn token(call: &Call, review: &Value) -> Result<Value, ApiError> {
    let token = text(review, &["spec", "token"]);
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let told = list(review, &["spec", "audiences"]).iter().filter_map(Value::as_str).map(str::to_owned);
    let mut audiences: Vec<String> = told.collect();
    if audiences.is_empty() {
        audiences.push(tokens::ISSUER.to_owned());
    }
    Ok(match tokens::prove(&call.server, token, &audiences) {
        Ok(proven) => json!({
            "authenticated": true,
            "user": proven.identity.user_info(),
            "audiences": proven.audiences,
        }),
        Err(error) => json!({"user": {}, "error": error.to_string()}),
    })
}

fn rules(call: &Call, review: &Value) -> Result<Value, ApiError> {
    let namespace = text(review, &["spec", "namespace"]);
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let identity = &call.identity;
    let (rules, mut errors) =
        call.server.roles.read(|index| index.rules(identity.name(), identity.groups(), namespace));
    if identity.node_name().is_some() {
        errors.push("node authorizer does not support user rule resolution".to_owned());
    }
    let (paths, resources): (Vec<_>, Vec<_>) = rules.iter().partition(|rule| !rule.urls.is_empty());
    let shown =
        |rules: Vec<&crate::rbac::Rule>| rules.into_iter().map(crate::rbac::Rule::shown).collect::<Vec<_>>();
    let mut status = json!({
        "resourceRules": shown(resources),
        "nonResourceRules": shown(paths),
        "incomplete": !errors.is_empty(),
    });
    if !errors.is_empty() {
        status["evaluationError"] = json!(errors.join(", "));
    }
    Ok(status)
}
