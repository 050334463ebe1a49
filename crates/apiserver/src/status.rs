//! Every way in which a request can fail, and the one place where a failure becomes a `Status` in upstream's words.

use admission::{Cause, FieldErrors};
use http::StatusCode;
use schema::apply::{Conflict, Conflicts};
use serde_json::{Map, Value, json};
use store::{ReadError, WriteError};

use crate::kinds::Kind;

/// Why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("{} \"{name}\" not found", qualified(resource, group))]
    NotFound { group: String, resource: String, name: String },
    #[error("the server could not find the requested resource")]
    NoSuchPath,
    #[error("{} \"{name}\" already exists", qualified(resource, group))]
    AlreadyExists { group: String, resource: String, name: String },
    #[error("Operation cannot be fulfilled on {} \"{name}\": {detail}", qualified(resource, group))]
    Conflict { group: String, resource: String, name: String, detail: String },
    #[error("{conflicts}")]
    ApplyConflict { conflicts: Conflicts },
    #[error("{message}")]
    Unexplained { message: String },
    #[error("{} \"{name}\" is invalid: {errors}", qualified(kind, group))]
    Invalid { group: String, kind: String, name: String, errors: FieldErrors },
    #[error("{message}")]
    BadRequest { message: String },
    #[error("{} is forbidden: {detail}", subject(resource, group, name))]
    Forbidden { group: String, resource: String, name: String, detail: String },
    #[error(
        "{} is forbidden: unable to create new content in namespace {namespace} because it is being terminated",
        subject(resource, group, name)
    )]
    NamespaceTerminating { group: String, resource: String, name: String, namespace: String },
    #[error("Cannot evict pod as it would violate the pod's disruption budget.")]
    BudgetExhausted { budget: String, desired: i64, healthy: i64 },
    #[error(
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )]
    SeveralBudgets,
    #[error("forbidden: User \"{user}\" cannot {verb} path \"{path}\"")]
    PathForbidden { user: String, verb: String, path: String },
    #[error("Unauthorized")]
    Unauthorized,
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    #[error("only the following media types are accepted: {}", accepted.join(", "))]
    NotAcceptable { accepted: Vec<String> },
    #[error("the body of the request was in an unknown format - accepted media types include: {}", accepted.join(", "))]
    UnsupportedMediaType { accepted: Vec<String> },
    #[error("Request entity too large: limit is {limit}")]
    TooLarge { limit: usize },
    #[error("the processed template would have {size} bytes, and the limit is {limit}")]
    ResultTooLarge { size: usize, limit: usize },
    #[error("{message}")]
    PatchTooLarge { message: String },
    #[error("the body of the request took longer than {seconds} seconds to arrive")]
    BodyTimeout { seconds: u64 },
    #[error("{message}")]
    Expired { message: String, continue_token: Option<String> },
    #[error("Timeout: Too large resource version: {requested}, current: {current}")]
    FutureResourceVersion { requested: u64, current: u64 },
    #[error("too many requests of user \"{user}\" at the same time, please try again later")]
    TooManyRequests { user: String },
    #[error(
        "no room to store {}: the disk is full; free some space or delete objects",
        subject(resource, group, name)
    )]
    StorageFull { group: String, resource: String, name: String },
    #[error("the server cannot store anything any more and has to be restarted: {reason}")]
    StorageStopped { reason: String },
    #[error(
        "the host \"{host}\" is not one of this server; use an address of the kubeconfig or add a TLS name"
    )]
    Misdirected { host: String },
    #[error("requests from the web origin \"{origin}\" are not allowed")]
    OriginRefused { origin: String },
    /// Something that upstream has and this server does not do.
    #[error("{message}")]
    NotServed { message: String },
    #[error("{message}")]
    ServiceUnavailable { message: String },
    #[error("the node \"{node}\" cannot be reached: {reason}")]
    NodeUnreachable { node: String, reason: String },
    #[error("{message}")]
    NodeAnswered { code: StatusCode, message: String },
    #[error("Internal error occurred: {message}")]
    Internal { message: String },
}

/// `pods`, `deployments.apps`.
fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn subject(resource: &str, group: &str, name: &str) -> String {
    let resource = qualified(resource, group);
    if name.is_empty() { resource } else { format!("{resource} \"{name}\"") }
}

impl ApiError {
    pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::BadRequest { message: message.into() }
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> ApiError {
        ApiError::NotFound {
            group: kind.group().to_owned(),
            resource: kind.plural().to_owned(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn forbidden(kind: &Kind, name: &str, detail: impl Into<String>) -> ApiError {
        ApiError::Forbidden {
            group: kind.group().to_owned(),
            resource: kind.plural().to_owned(),
            name: name.to_owned(),
            detail: detail.into(),
        }
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, detail: impl Into<String>) -> ApiError {
        ApiError::Conflict {
            group: kind.group().to_owned(),
            resource: kind.plural().to_owned(),
            name: name.to_owned(),
            detail: detail.into(),
        }
    }

    /// The object has changed since the client read it.
    pub(crate) fn stale(kind: &Kind, name: &str) -> ApiError {
        ApiError::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn invalid(kind: &Kind, name: &str, errors: FieldErrors) -> ApiError {
        ApiError::Invalid {
            group: kind.group().to_owned(),
            kind: kind.kind().to_owned(),
            name: name.to_owned(),
            errors,
        }
    }

    /// Options of a request (`ListOptions`, `DeleteOptions`, ...) that make no sense.
    pub(crate) fn of_options(kind: &str, errors: Vec<admission::FieldError>) -> ApiError {
        ApiError::Invalid {
            group: "meta.k8s.io".to_owned(),
            kind: kind.to_owned(),
            name: String::new(),
            errors: FieldErrors(errors),
        }
    }

    /// A write that the store refused.
    pub(crate) fn from_write(kind: &Kind, name: &str, error: WriteError) -> ApiError {
        match error {
            WriteError::Exists { .. } => ApiError::AlreadyExists {
                group: kind.group().to_owned(),
                resource: kind.plural().to_owned(),
                name: name.to_owned(),
            },
            WriteError::Missing { .. } => ApiError::not_found(kind, name),
            WriteError::Conflict { .. } => ApiError::stale(kind, name),
            WriteError::Full { .. } => ApiError::StorageFull {
                group: kind.group().to_owned(),
                resource: kind.plural().to_owned(),
                name: name.to_owned(),
            },
            WriteError::Stopped { reason } => ApiError::StorageStopped { reason },
            WriteError::Closed => ApiError::StorageStopped { reason: "the store is closed".to_owned() },
        }
    }

    /// A list or watch at a revision that is not there.
    pub(crate) fn from_read(error: ReadError) -> ApiError {
        match error {
            ReadError::Expired { requested, oldest } => ApiError::Expired {
                message: format!("too old resource version: {requested} ({oldest})"),
                continue_token: None,
            },
            ReadError::Future { requested, current } => {
                ApiError::FutureResourceVersion { requested, current }
            }
        }
    }

    pub(crate) fn code(&self) -> StatusCode {
        match self {
            ApiError::NotFound { .. } | ApiError::NoSuchPath => StatusCode::NOT_FOUND,
            ApiError::AlreadyExists { .. } | ApiError::Conflict { .. } | ApiError::ApplyConflict { .. } => {
                StatusCode::CONFLICT
            }
            ApiError::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            ApiError::BadRequest { .. } => StatusCode::BAD_REQUEST,
            ApiError::Forbidden { .. }
            | ApiError::NamespaceTerminating { .. }
            | ApiError::PathForbidden { .. }
            | ApiError::OriginRefused { .. } => StatusCode::FORBIDDEN,
            ApiError::Unauthorized => StatusCode::UNAUTHORIZED,
            ApiError::MethodNotAllowed | ApiError::NotServed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            ApiError::NotAcceptable { .. } => StatusCode::NOT_ACCEPTABLE,
            ApiError::UnsupportedMediaType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ApiError::TooLarge { .. } | ApiError::ResultTooLarge { .. } | ApiError::PatchTooLarge { .. } => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            ApiError::BodyTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            ApiError::Expired { .. } => StatusCode::GONE,
            ApiError::FutureResourceVersion { .. } => StatusCode::GATEWAY_TIMEOUT,
            ApiError::TooManyRequests { .. } | ApiError::BudgetExhausted { .. } => {
                StatusCode::TOO_MANY_REQUESTS
            }
            ApiError::StorageFull { .. } => StatusCode::INSUFFICIENT_STORAGE,
            ApiError::StorageStopped { .. } => StatusCode::SERVICE_UNAVAILABLE,
            ApiError::Misdirected { .. } => StatusCode::MISDIRECTED_REQUEST,
            ApiError::NodeUnreachable { .. } | ApiError::ServiceUnavailable { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            ApiError::NodeAnswered { code, .. } => *code,
            ApiError::Internal { .. } | ApiError::SeveralBudgets | ApiError::Unexplained { .. } => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            ApiError::NotFound { .. } | ApiError::NoSuchPath => "NotFound",
            ApiError::AlreadyExists { .. } => "AlreadyExists",
            ApiError::Conflict { .. } | ApiError::ApplyConflict { .. } => "Conflict",
            // Upstream has no reason for what it did not foresee.
            ApiError::Unexplained { .. } => "",
            ApiError::Invalid { .. } => "Invalid",
            ApiError::BadRequest { .. } | ApiError::Misdirected { .. } => "BadRequest",
            ApiError::Forbidden { .. }
            | ApiError::NamespaceTerminating { .. }
            | ApiError::PathForbidden { .. }
            | ApiError::OriginRefused { .. } => "Forbidden",
            ApiError::Unauthorized => "Unauthorized",
            ApiError::MethodNotAllowed | ApiError::NotServed { .. } => "MethodNotAllowed",
            ApiError::NotAcceptable { .. } => "NotAcceptable",
            ApiError::UnsupportedMediaType { .. } => "UnsupportedMediaType",
            ApiError::TooLarge { .. } | ApiError::ResultTooLarge { .. } | ApiError::PatchTooLarge { .. } => {
                "RequestEntityTooLarge"
            }
            ApiError::BodyTimeout { .. } | ApiError::FutureResourceVersion { .. } => "Timeout",
            ApiError::Expired { .. } => "Expired",
            ApiError::TooManyRequests { .. } | ApiError::BudgetExhausted { .. } => "TooManyRequests",
            ApiError::StorageFull { .. } => "InsufficientStorage",
            ApiError::StorageStopped { .. }
            | ApiError::NodeUnreachable { .. }
            | ApiError::ServiceUnavailable { .. } => "ServiceUnavailable",
            ApiError::NodeAnswered { code, .. } => match *code {
                StatusCode::BAD_REQUEST => "BadRequest",
                StatusCode::FORBIDDEN => "Forbidden",
                StatusCode::NOT_FOUND => "NotFound",
                _ => "InternalError",
            },
            ApiError::Internal { .. } | ApiError::SeveralBudgets => "InternalError",
        }
    }

    /// After how many seconds it makes sense to try again.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        matches!(self, ApiError::TooManyRequests { .. } | ApiError::FutureResourceVersion { .. }).then_some(1)
    }

    /// The object that clients get.
    pub(crate) fn status(&self) -> Value {
        let mut metadata = Map::new();
        if let ApiError::Expired { continue_token: Some(token), .. } = self {
            metadata.insert("continue".to_owned(), json!(token));
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.to_string(),
        });
        if !self.reason().is_empty() {
            status["reason"] = json!(self.reason());
        }
        if let Some(details) = self.details() {
            status["details"] = details;
        }
        status["code"] = json!(self.code().as_u16());
        status
    }

    fn details(&self) -> Option<Value> {
        let mut details = Map::new();
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                details.insert(key.to_owned(), json!(value));
            }
        };
        match self {
            ApiError::NotFound { group, resource, name }
            | ApiError::AlreadyExists { group, resource, name }
            | ApiError::Conflict { group, resource, name, .. }
            | ApiError::Forbidden { group, resource, name, .. }
            | ApiError::StorageFull { group, resource, name } => {
                put("name", name);
                put("group", group);
                put("kind", resource);
            }
            ApiError::Invalid { group, kind, name, errors } => {
                put("name", name);
                put("group", group);
                put("kind", kind);
                let causes: Vec<Value> = errors
                    .causes()
                    .into_iter()
                    .map(|Cause { reason, message, field }| json!({"reason": reason, "message": message, "field": field}))
                    .collect();
                details.insert("causes".to_owned(), Value::Array(causes));
            }
            ApiError::NamespaceTerminating { group, resource, name, namespace } => {
                put("name", name);
                put("group", group);
                put("kind", resource);
                let cause = json!({"reason": "NamespaceTerminating", "field": "metadata.namespace",
                    "message": format!("namespace {namespace} is being terminated")});
                details.insert("causes".to_owned(), json!([cause]));
            }
            ApiError::BudgetExhausted { budget, desired, healthy } => {
                let message = format!(
                    "The disruption budget {budget} needs {desired} healthy pods and has {healthy} currently"
                );
                details
                    .insert("causes".to_owned(), json!([{"reason": "DisruptionBudget", "message": message}]));
            }
            ApiError::FutureResourceVersion { .. } => {
                let cause =
                    json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
                details.insert("causes".to_owned(), Value::Array(vec![cause]));
            }
            ApiError::NoSuchPath | ApiError::PathForbidden { .. } | ApiError::TooManyRequests { .. } => {}
            ApiError::ApplyConflict { conflicts } => {
                let cause = |conflict: &Conflict| {
                    json!({
                        "reason": "FieldManagerConflict",
                        "message": format!("conflict with {}", conflict.manager),
                        "field": conflict.path,
                    })
                };
                details.insert("causes".to_owned(), conflicts.0.iter().map(cause).collect());
            }
            ApiError::Internal { message } => {
                details.insert("causes".to_owned(), json!([{"message": message}]));
            }
            ApiError::BadRequest { .. }
            | ApiError::SeveralBudgets
            | ApiError::Unexplained { .. }
            | ApiError::Unauthorized
            | ApiError::MethodNotAllowed
            | ApiError::NotAcceptable { .. }
            | ApiError::UnsupportedMediaType { .. }
            | ApiError::TooLarge { .. }
            | ApiError::ResultTooLarge { .. }
            | ApiError::PatchTooLarge { .. }
            | ApiError::BodyTimeout { .. }
            | ApiError::Expired { .. }
            | ApiError::StorageStopped { .. }
            | ApiError::Misdirected { .. }
            | ApiError::OriginRefused { .. }
            | ApiError::NodeUnreachable { .. }
            | ApiError::ServiceUnavailable { .. }
            | ApiError::NotServed { .. }
            | ApiError::NodeAnswered { .. } => return None,
        }
        if let Some(seconds) = self.retry_after() {
            details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        }
        Some(Value::Object(details))
    }
}

/// The answer to a deletion that left no object to show.
pub(crate) fn deleted_status(kind: &Kind, name: &str, uid: &str) -> Value {
    let mut details = json!({"name": name});
    if !kind.group().is_empty() {
        details["group"] = json!(kind.group());
    }
    details["kind"] = json!(kind.plural());
    details["uid"] = json!(uid);
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

#[cfg(test)]
mod tests {
    use super::ApiError;

    #[test]
    fn a_missing_pod_is_told_as_kubernetes_tells_it() {
        let error =
            ApiError::NotFound { group: String::new(), resource: "pods".to_owned(), name: "x".to_owned() };
        assert_eq!(
            error.status().to_string(),
            serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "pods \"x\" not found", "reason": "NotFound",
                "details": {"name": "x", "kind": "pods"}, "code": 404})
            .to_string()
        );
    }

    #[test]
    fn groups_stand_behind_the_resource() {
        let error = ApiError::Conflict {
            group: "apps".to_owned(),
            resource: "deployments".to_owned(),
            name: "d".to_owned(),
            detail: "gone".to_owned(),
        };
        assert_eq!(error.to_string(), "Operation cannot be fulfilled on deployments.apps \"d\": gone");
    }
}
