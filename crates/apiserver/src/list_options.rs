//! The parameters of list, watch and deletecollection, checked as upstream checks them.

use admission::{BadValue, FieldError, FieldErrorKind, FieldErrors};
use serde_json::json;

use crate::kinds::Kind;
use crate::query::Query;
use crate::selector::{Selector, parse_fields, parse_labels};
use crate::status::ApiError;

/// Which state a client wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The newest.
    Newest,
    /// Any; the newest is one.
    Any,
    /// Not older than this.
    NotOlderThan(u64),
    /// Exactly this.
    Exact(u64),
}

/// Checked parameters.
#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    pub(crate) selector: Selector,
    pub(crate) limit: Option<usize>,
    pub(crate) continue_token: Option<String>,
    pub(crate) wanted: Wanted,
    pub(crate) timeout_seconds: Option<u64>,
    pub(crate) bookmarks: bool,
    /// `sendInitialEvents`, when given.
    pub(crate) initial_events: Option<bool>,
}

fn invalid(field: &str, kind: FieldErrorKind, detail: &str) -> ApiError {
    ApiError::Invalid {
        group: "meta.k8s.io".to_owned(),
        kind: "ListOptions".to_owned(),
        name: String::new(),
        errors: FieldErrors(vec![FieldError {
            kind,
            field: field.to_owned(),
            bad_value: BadValue::Omitted,
            detail: detail.to_owned(),
        }]),
    }
}

/// Reads a resource version; `None` for the empty one.
fn resource_version(query: &Query) -> Result<Option<u64>, ApiError> {
    let Some(text) = query.text("resourceVersion") else { return Ok(None) };
    let canonical = text == "0" || !text.starts_with('0');
    match text.parse() {
        Ok(number) if canonical && text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(number)),
        _ => Err(ApiError::Invalid {
            group: "meta.k8s.io".to_owned(),
            kind: "ListOptions".to_owned(),
            name: String::new(),
            errors: FieldErrors(vec![FieldError {
                kind: FieldErrorKind::Invalid,
                field: "resourceVersion".to_owned(),
                bad_value: BadValue::Json(json!(text)),
                detail: format!("strconv.ParseUint: parsing {}: invalid syntax", schema::go_quote(text)),
            }]),
        }),
    }
}

fn number(query: &Query, name: &str) -> Result<Option<u64>, ApiError> {
    let Some(text) = query.text(name) else { return Ok(None) };
    let number: i64 = text.parse().map_err(|_| {
        ApiError::bad_request(format!("strconv.ParseInt: parsing {}: invalid syntax", schema::go_quote(text)))
    })?;
    // Zero and less mean no limit, as upstream has it.
    Ok(u64::try_from(number).ok().filter(|number| *number > 0))
}

impl ListOptions {
    /// Reads the parameters for a list of `kind`, or for a watch.
    pub(crate) fn parse(kind: &Kind, query: &Query, watch: bool) -> Result<ListOptions, ApiError> {
        let labels = parse_labels(query.get("labelSelector").unwrap_or_default())
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let fields = parse_fields(query.get("fieldSelector").unwrap_or_default())
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let selector = Selector::bind(labels, fields, kind.strategy().fields())
            .map_err(|unknown| ApiError::bad_request(format!("field label not supported: {}", unknown.0)))?;
        let version = resource_version(query)?;
        let limit = number(query, "limit")?.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let continue_token = query.text("continue").map(str::to_owned);
        let initial_events = query.get("sendInitialEvents").map(|_| query.is_true("sendInitialEvents"));
        let matching = query.text("resourceVersionMatch");
        let verb = if watch { "watch" } else { "list" };
        if initial_events.is_some() {
            if !watch {
                return Err(invalid(
                    "sendInitialEvents",
                    FieldErrorKind::Forbidden,
                    "sendInitialEvents is forbidden for list",
                ));
            }
            if matching != Some("NotOlderThan") {
                return Err(invalid(
                    "resourceVersionMatch",
                    FieldErrorKind::Forbidden,
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ));
            }
        } else if matching.is_some() {
            if watch {
                return Err(invalid(
                    "resourceVersionMatch",
                    FieldErrorKind::Forbidden,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ));
            }
            if version.is_none() {
                return Err(invalid(
                    "resourceVersionMatch",
                    FieldErrorKind::Forbidden,
                    &format!(
                        "resourceVersionMatch is forbidden for {verb} unless resourceVersion is provided"
                    ),
                ));
            }
            if continue_token.is_some() {
                return Err(invalid(
                    "resourceVersionMatch",
                    FieldErrorKind::Forbidden,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
        }
        if continue_token.is_some() && version.is_some_and(|version| version != 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let wanted = match (version, matching) {
            (None, _) => Wanted::Newest,
            (Some(0), Some("Exact")) => {
                return Err(invalid(
                    "resourceVersionMatch",
                    FieldErrorKind::Forbidden,
                    "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
            (Some(0), _) => Wanted::Any,
            (Some(version), Some("Exact")) => Wanted::Exact(version),
            (Some(version), Some("NotOlderThan")) => Wanted::NotOlderThan(version),
            // With a limit and no match, upstream reads exactly this version.
            (Some(version), None) if limit.is_some() && !watch => Wanted::Exact(version),
            (Some(version), None) => Wanted::NotOlderThan(version),
            (Some(_), Some(other)) => {
                return Err(ApiError::Invalid {
                    group: "meta.k8s.io".to_owned(),
                    kind: "ListOptions".to_owned(),
                    name: String::new(),
                    errors: FieldErrors(vec![FieldError {
                        kind: FieldErrorKind::NotSupported,
                        field: "resourceVersionMatch".to_owned(),
                        bad_value: BadValue::Json(json!(other)),
                        detail: "supported values: \"Exact\", \"NotOlderThan\", \"\"".to_owned(),
                    }]),
                });
            }
        };
        Ok(ListOptions {
            selector,
            limit,
            continue_token,
            wanted,
            timeout_seconds: number(query, "timeoutSeconds")?,
            bookmarks: query.is_true("allowWatchBookmarks"),
            initial_events,
        })
    }
}
