//! The parameters of writes: whether it is a rehearsal, and what becomes of unknown fields.

use admission::{BadValue, FieldError, FieldErrorKind};
use serde_json::json;

use crate::field_manager::refused;
use crate::query::Query;
use crate::request::Verb;
use crate::status::ApiError;

/// Checks `dryRun` and, where a body becomes an object, `fieldValidation`; says whether the request is a rehearsal.
pub(crate) fn dry_run(verb: Verb, query: &Query) -> Result<bool, ApiError> {
    let mut problems = Vec::new();
    let mut problem = |field: &str, bad_value: serde_json::Value, supported: &str| {
        problems.push(FieldError {
            kind: FieldErrorKind::NotSupported,
            field: field.to_owned(),
            bad_value: BadValue::Json(bad_value),
            detail: format!("supported values: {supported}"),
        });
    };
    let rehearsals: Vec<&str> = query.all("dryRun").filter(|value| !value.is_empty()).collect();
    if rehearsals.iter().any(|value| *value != "All") {
        problem("dryRun", json!(rehearsals), "\"All\"");
    }
    let makes_objects = match verb {
        Verb::Create | Verb::Update | Verb::Patch => true,
        Verb::Get | Verb::List | Verb::Watch | Verb::Delete | Verb::DeleteCollection => false,
    };
    let validation = query.text("fieldValidation").unwrap_or_default();
    if makes_objects && !matches!(validation, "" | "Ignore" | "Strict" | "Warn") {
        problem("fieldValidation", json!(validation), "\"\", \"Ignore\", \"Strict\", \"Warn\"");
    }
    if problems.is_empty() { Ok(!rehearsals.is_empty()) } else { Err(refused(verb, problems)) }
}

#[cfg(test)]
mod tests {
    use super::dry_run;
    use crate::query::Query;
    use crate::request::Verb;

    #[test]
    fn mistakes_in_the_parameters_of_writes_are_told_in_the_words_of_kubernetes() {
        let read = |verb, query: &str| dry_run(verb, &Query::parse(query)).map_err(|error| error.to_string());
        assert_eq!(read(Verb::Create, ""), Ok(false));
        assert_eq!(read(Verb::Create, "dryRun="), Ok(false));
        assert_eq!(read(Verb::Patch, "dryRun=All&fieldValidation=Strict"), Ok(true));
        assert_eq!(read(Verb::Delete, "fieldValidation=x"), Ok(false));
        assert_eq!(
            read(Verb::Create, "dryRun=All&dryRun=Some"),
            Err(r#"CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["All","Some"]: supported values: "All""#.to_owned())
        );
        assert_eq!(
            read(Verb::Update, "fieldValidation=strict"),
            Err(r#"UpdateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "strict": supported values: "", "Ignore", "Strict", "Warn""#.to_owned())
        );
        assert_eq!(
            read(Verb::Patch, "dryRun=x&fieldValidation=y")
                .expect_err("two problems")
                .matches("Unsupported")
                .count(),
            2
        );
    }
}
