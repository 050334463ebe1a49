//! How a client wants something deleted: from the body, or from the query where there is no body.

use admission::{BadValue, FieldError, FieldErrorKind};
use schema::FieldValidation;
use serde_json::{Value, json};

use crate::body::{Content, tree};
use crate::object::{at, list, text};
use crate::query::Query;
use crate::status::ApiError;

/// What becomes of the objects that an object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted after it.
    Background,
    /// It goes after them.
    Foreground,
    /// They stay and lose their owner.
    Orphan,
}

impl Propagation {
    fn parse(text: &str) -> Option<Propagation> {
        match text {
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            "Orphan" => Some(Propagation::Orphan),
            _ => None,
        }
    }
}

/// How something shall be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) propagation: Option<Propagation>,
    /// The older way of saying `Orphan`, or, with `false`, `Background`.
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// With this propagation, and nothing else.
    pub(crate) fn propagating(propagation: Propagation) -> DeleteOptions {
        DeleteOptions { propagation: Some(propagation), ..DeleteOptions::default() }
    }

    /// Whether the client said what becomes of dependents.
    pub(crate) fn says_propagation(&self) -> bool {
        self.propagation.is_some() || self.orphan_dependents.is_some()
    }

    /// Reads the options. A body counts alone, as it does upstream; only a dry run is one wherever it is asked for.
    pub(crate) fn parse(content: &Content, query: &Query) -> Result<DeleteOptions, ApiError> {
        let told = if content.bytes.is_empty() { from_query(query)? } else { from_body(content)? };
        check(&told)?;
        let own =
            |path: &[&str]| Some(text(&told, path)).filter(|found| !found.is_empty()).map(str::to_owned);
        Ok(DeleteOptions {
            grace_seconds: told.get("gracePeriodSeconds").and_then(Value::as_i64),
            uid: own(&["preconditions", "uid"]),
            resource_version: own(&["preconditions", "resourceVersion"]),
            propagation: Propagation::parse(text(&told, &["propagationPolicy"])),
            orphan_dependents: told.get("orphanDependents").and_then(Value::as_bool),
            dry_run: list(&told, &["dryRun"]).iter().any(|value| value == "All"),
        })
    }
}

fn from_body(content: &Content) -> Result<Value, ApiError> {
    let body = tree(content)?;
    if body.is_null() {
        return Ok(body);
    }
    if !body.is_object() || !matches!(text(&body, &["kind"]), "" | "DeleteOptions") {
        return Err(ApiError::bad_request("decoded object cannot be converted to DeleteOptions"));
    }
    let Some(ty) = schema::builtin().type_for("v1", "DeleteOptions") else { return Ok(body) };
    let decoded = schema::decode_value(ty, &body, FieldValidation::Ignore).map_err(|error| {
        ApiError::bad_request(format!(
            "DeleteOptions in version \"v1\" cannot be handled as a DeleteOptions: {error}"
        ))
    })?;
    Ok(decoded.value)
}

fn from_query(query: &Query) -> Result<Value, ApiError> {
    let mut told = json!({});
    if let Some(seconds) = query.text("gracePeriodSeconds") {
        let seconds: i64 = seconds.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "strconv.ParseInt: parsing {}: invalid syntax",
                schema::go_quote(seconds)
            ))
        })?;
        told["gracePeriodSeconds"] = json!(seconds);
    }
    if let Some(policy) = query.text("propagationPolicy") {
        told["propagationPolicy"] = json!(policy);
    }
    if query.get("orphanDependents").is_some() {
        told["orphanDependents"] = json!(query.is_true("orphanDependents"));
    }
    if let Some(uid) = query.text("uid") {
        told["preconditions"] = json!({"uid": uid});
    }
    Ok(told)
}

fn check(told: &Value) -> Result<(), ApiError> {
    let mut errors = Vec::new();
    let mut refuse = |kind, field: &str, bad_value: &Value, detail: String| {
        errors.push(FieldError {
            kind,
            field: field.to_owned(),
            bad_value: BadValue::Json(bad_value.clone()),
            detail,
        });
    };
    let policy = at(told, &["propagationPolicy"]).filter(|policy| !policy.is_null());
    if let Some(policy) = policy {
        if at(told, &["orphanDependents"]).is_some_and(Value::is_boolean) {
            let detail = "orphanDependents and deletionPropagation cannot be both set".to_owned();
            refuse(FieldErrorKind::Invalid, "propagationPolicy", policy, detail);
        }
        if Propagation::parse(policy.as_str().unwrap_or_default()).is_none() {
            let detail = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"".to_owned();
            refuse(FieldErrorKind::NotSupported, "propagationPolicy", policy, detail);
        }
    }
    let dry_run = list(told, &["dryRun"]);
    if dry_run.iter().any(|value| value != "All") {
        let detail = "supported values: \"All\"".to_owned();
        refuse(FieldErrorKind::NotSupported, "dryRun", &json!(dry_run), detail);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(ApiError::of_options("DeleteOptions", errors))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{DeleteOptions, Propagation};
    use crate::body::Content;
    use crate::query::Query;

    fn read(body: &str, query: &str) -> Result<DeleteOptions, String> {
        let content = Content { bytes: Bytes::from(body.to_owned()), media_type: None };
        DeleteOptions::parse(&content, &Query::parse(query)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_body_counts_alone_and_the_query_where_there_is_none() {
        let query = "gracePeriodSeconds=3&propagationPolicy=Orphan&uid=u";
        let told = read("", query).expect("valid");
        assert_eq!(told.grace_seconds, Some(3));
        assert_eq!(told.propagation, Some(Propagation::Orphan));
        assert_eq!(told.uid.as_deref(), Some("u"));
        let body = r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":7,"preconditions":{"resourceVersion":"9"},"dryRun":["All"]}"#;
        let told = read(body, query).expect("valid");
        assert_eq!((told.grace_seconds, told.propagation, told.uid), (Some(7), None, None));
        assert_eq!(told.resource_version.as_deref(), Some("9"));
        assert!(told.dry_run);
        assert_eq!(read("", "orphanDependents=true").expect("valid").orphan_dependents, Some(true));
        assert_eq!(read("{}", "").expect("valid"), DeleteOptions::default());
    }

    #[test]
    fn mistakes_are_told_in_the_words_of_kubernetes() {
        let table = [
            (
                r#"{"propagationPolicy":"Nonsense"}"#,
                r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Nonsense": supported values: "Foreground", "Background", "Orphan", "nil""#,
            ),
            (
                r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#,
                r#"DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set"#,
            ),
            (
                r#"{"dryRun":["Some"]}"#,
                r#"DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All""#,
            ),
            (r#"{"kind":"Pod"}"#, "decoded object cannot be converted to DeleteOptions"),
            ("[]", "decoded object cannot be converted to DeleteOptions"),
        ];
        for (body, expected) in table {
            assert_eq!(read(body, "").expect_err(body), expected);
        }
        assert!(read(r#"{"gracePeriodSeconds":"x"}"#, "").is_err());
        assert!(read("", "gracePeriodSeconds=x").is_err());
    }
}
