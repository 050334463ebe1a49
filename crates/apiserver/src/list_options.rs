//! The parameters of list, watch and deletecollection, checked as upstream checks them.

use admission::{BadValue, FieldError, FieldErrorKind};
use serde_json::json;

use crate::kinds::Kind;
use crate::query::Query;
use crate::selector::{SelectableField, Selector, UnknownField, parse_fields, parse_labels};
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

fn problem(kind: FieldErrorKind, field: &str, bad_value: BadValue, detail: impl Into<String>) -> FieldError {
    FieldError { kind, field: field.to_owned(), bad_value, detail: detail.into() }
}

/// What upstream refuses about the parameters of a list or watch as a whole, in its order.
fn problems(query: &Query, watch: bool) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let mut forbidden = |field: &str, detail: &str| {
        problems.push(problem(FieldErrorKind::Forbidden, field, BadValue::Omitted, detail));
    };
    let matching = query.text("resourceVersionMatch");
    let sends_initial = query.text("sendInitialEvents").is_some();
    let supported: &[&str] = if watch { &["NotOlderThan"] } else { &["Exact", "NotOlderThan", ""] };
    if watch && sends_initial && matching != Some("NotOlderThan") {
        forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        );
    }
    if let Some(matching) = matching {
        if watch && !sends_initial {
            forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        if !watch && query.text("resourceVersion").is_none() {
            forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            );
        }
        if !watch && query.text("continue").is_some() {
            forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
        }
        if !supported.contains(&matching) {
            let quoted: Vec<String> = supported.iter().map(|one| format!("\"{one}\"")).collect();
            problems.push(problem(
                FieldErrorKind::NotSupported,
                "resourceVersionMatch",
                BadValue::Json(json!(matching)),
                format!("supported values: {}", quoted.join(", ")),
            ));
        }
        if watch && query.text("continue").is_some() {
            problems.push(problem(
                FieldErrorKind::Forbidden,
                "resourceVersionMatch",
                BadValue::Omitted,
                "resourceVersionMatch is forbidden when continue is provided",
            ));
        }
        if !watch && matching == "Exact" && query.get("resourceVersion") == Some("0") {
            problems.push(problem(
                FieldErrorKind::Forbidden,
                "resourceVersionMatch",
                BadValue::Omitted,
                "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ));
        }
    }
    if !watch && sends_initial {
        problems.push(problem(
            FieldErrorKind::Forbidden,
            "sendInitialEvents",
            BadValue::Omitted,
            "sendInitialEvents is forbidden for list",
        ));
    }
    problems
}

/// Reads a resource version; `None` for the empty one.
pub(crate) fn resource_version(query: &Query) -> Result<Option<u64>, ApiError> {
    let Some(text) = query.text("resourceVersion") else { return Ok(None) };
    let canonical = text == "0" || !text.starts_with('0');
    match text.parse() {
        Ok(number) if canonical && text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(number)),
        _ => Err(ApiError::of_options(
            "ListOptions",
            vec![problem(
                FieldErrorKind::Invalid,
                "resourceVersion",
                BadValue::Json(json!(text)),
                format!("strconv.ParseUint: parsing {}: invalid syntax", schema::go_quote(text)),
            )],
        )),
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

/// A kind that can be selected by more than its metadata says so in its own words, upstream too.
fn unknown_field(unknown: &UnknownField, known: &[SelectableField]) -> String {
    if known.is_empty() {
        return format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            schema::go_quote(&unknown.0)
        );
    }
    format!("field label not supported: {}", unknown.0)
}

impl ListOptions {
    /// Reads the parameters for a list of `kind`, or for a watch.
    pub(crate) fn parse(kind: &Kind, query: &Query, watch: bool) -> Result<ListOptions, ApiError> {
        let labels = parse_labels(query.get("labelSelector").unwrap_or_default())
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let fields = parse_fields(query.get("fieldSelector").unwrap_or_default())
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let known = kind.strategy().fields();
        let selector = Selector::bind(labels, fields, known)
            .map_err(|unknown| ApiError::bad_request(unknown_field(&unknown, known)))?;
        let problems = problems(query, watch);
        if !problems.is_empty() {
            return Err(ApiError::of_options("ListOptions", problems));
        }
        let version = resource_version(query)?;
        let limit = number(query, "limit")?.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let continue_token = query.text("continue").map(str::to_owned);
        let initial_events = query.text("sendInitialEvents").map(|_| query.is_true("sendInitialEvents"));
        let matching = query.text("resourceVersionMatch");
        if continue_token.is_some() && version.is_some_and(|version| version != 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let wanted = match (version, matching) {
            (None, _) => Wanted::Newest,
            (Some(0), _) => Wanted::Any,
            (Some(version), Some("Exact")) => Wanted::Exact(version),
            // With a limit and no match, upstream reads exactly this version.
            (Some(version), None) if limit.is_some() && !watch => Wanted::Exact(version),
            (Some(version), _) => Wanted::NotOlderThan(version),
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

#[cfg(test)]
mod tests {
    use super::{ListOptions, Wanted};
    use crate::kinds::KindTable;
    use crate::query::Query;

    fn read(query: &str, watch: bool) -> Result<ListOptions, String> {
        let kinds = KindTable::builtin().expect("the schema has them");
        let kind = kinds.core("configmaps").expect("served");
        ListOptions::parse(kind, &Query::parse(query), watch).map_err(|error| error.to_string())
    }

    #[test]
    fn the_state_that_a_client_wants_follows_from_version_match_and_limit() {
        let table = [
            ("", Wanted::Newest),
            ("resourceVersion=0", Wanted::Any),
            ("resourceVersion=0&resourceVersionMatch=NotOlderThan", Wanted::Any),
            ("resourceVersion=5", Wanted::NotOlderThan(5)),
            ("resourceVersion=5&resourceVersionMatch=NotOlderThan&limit=2", Wanted::NotOlderThan(5)),
            ("resourceVersion=5&resourceVersionMatch=Exact", Wanted::Exact(5)),
            ("resourceVersion=5&limit=2", Wanted::Exact(5)),
        ];
        for (query, expected) in table {
            assert_eq!(read(query, false).expect(query).wanted, expected, "{query}");
        }
    }

    #[test]
    fn mistakes_are_told_in_the_words_of_kubernetes() {
        let list = [
            (
                "resourceVersionMatch=Exact",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (
                "resourceVersion=1&resourceVersionMatch=Nonsense",
                "resourceVersionMatch: Unsupported value: \"Nonsense\": supported values: \"Exact\", \"NotOlderThan\", \"\"",
            ),
            (
                "resourceVersion=0&resourceVersionMatch=Exact",
                "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
            ),
            (
                "sendInitialEvents=true",
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ),
            (
                "resourceVersion=abc",
                "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax",
            ),
        ];
        for (query, expected) in list {
            let told = read(query, false).expect_err(query);
            assert_eq!(told, format!("ListOptions.meta.k8s.io \"\" is invalid: {expected}"), "{query}");
        }
        let watch = [
            (
                "sendInitialEvents=true",
                "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ),
            (
                "resourceVersionMatch=NotOlderThan",
                "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
        ];
        for (query, expected) in watch {
            let told = read(query, true).expect_err(query);
            assert_eq!(told, format!("ListOptions.meta.k8s.io \"\" is invalid: {expected}"), "{query}");
        }
        let plain = [
            (
                "fieldSelector=spec.x%3D1",
                "\"spec.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            ),
            ("fieldSelector=nonsense", "invalid selector: 'nonsense'; can't understand 'nonsense'"),
            ("labelSelector=a%3Db%3Dc", "found '=', expected: ',' or 'end of string'"),
            (
                "continue=x&resourceVersion=5",
                "specifying resource version is not allowed when using continue",
            ),
            ("limit=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ];
        for (query, expected) in plain {
            assert_eq!(read(query, false).expect_err(query), expected, "{query}");
        }
        let kinds = KindTable::builtin().expect("the schema has them");
        let pods = kinds.core("pods").expect("served");
        let told = ListOptions::parse(pods, &Query::parse("fieldSelector=spec.x%3D1"), false);
        assert_eq!(
            told.map_err(|error| error.to_string()).expect_err("unknown"),
            "field label not supported: spec.x"
        );
    }
}
