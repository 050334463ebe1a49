//! Templates: refused when they could never process; what is wrong with one, as the API says it.

use manifest::Node;
use serde_json::Value;
use template::{Dialect, Problem, ProblemKind, Refusal, Request, Template};

use crate::errors::{BadValue, FieldError, FieldErrorKind, FieldErrors};
use crate::request::Warning;
use crate::tree::text;

/// The language of a stored template's references; `None` when nothing says it and the group and version decide.
#[must_use]
pub fn template_dialect(object: &Value) -> Option<Dialect> {
    Dialect::parse(text(&object["metadata"]["annotations"][api::annotations::TEMPLATE_DIALECT]))
}

/// Every problem of a template with its field, in their order; no text holds a value.
#[must_use]
pub fn template_errors(refusal: &Refusal) -> FieldErrors {
    let mut errors: Vec<FieldError> = refusal.problems.iter().map(field_error).collect();
    if refusal.left_out > 0 {
        errors.push(FieldError {
            kind: FieldErrorKind::TooMany,
            field: String::new(),
            bad_value: BadValue::Omitted,
            detail: format!("{} more problems are not shown", refusal.left_out),
        });
    }
    FieldErrors(errors)
}

fn field_error(problem: &Problem) -> FieldError {
    let field = problem.place.to_string();
    let sentence = problem.to_string();
    let sentence = sentence.strip_prefix(&format!("{field}: ")).unwrap_or(&sentence);
    let hint = problem.hint();
    let detail = if hint.is_empty() { sentence.to_owned() } else { format!("{sentence}; {hint}") };
    FieldError { kind: kind(problem), field, bad_value: BadValue::Omitted, detail }
}

fn kind(problem: &Problem) -> FieldErrorKind {
    if problem.is_required() {
        return FieldErrorKind::Required;
    }
    match &problem.kind {
        ProblemKind::DuplicateParameter { .. }
        | ProblemKind::GivenTwice { .. }
        | ProblemKind::DuplicateKey { .. }
        | ProblemKind::CollidingKeys { .. } => FieldErrorKind::Duplicate,
        ProblemKind::UnknownType | ProblemKind::UnknownGenerator { .. } => FieldErrorKind::NotSupported,
        ProblemKind::FixedField | ProblemKind::SecretDefault { .. } => FieldErrorKind::Forbidden,
        ProblemKind::TooMany { .. } => FieldErrorKind::TooMany,
        ProblemKind::ValueTooLarge { .. } | ProblemKind::OutputTooLarge { .. } => FieldErrorKind::TooLong,
        ProblemKind::NotATemplate
        | ProblemKind::WrongType { .. }
        | ProblemKind::TooDeep { .. }
        | ProblemKind::MixedDialects { .. }
        | ProblemKind::NameMissing
        | ProblemKind::NameInvalid
        | ProblemKind::LabelsTwice
        | ProblemKind::Expression { .. }
        | ProblemKind::WeakSecret { .. }
        | ProblemKind::NoRandomness { .. }
        | ProblemKind::Required { .. }
        | ProblemKind::ValueType { .. }
        | ProblemKind::UnknownParameter { .. }
        | ProblemKind::NotGenerated { .. }
        | ProblemKind::NearMiss { .. }
        | ProblemKind::UnknownWhole { .. }
        | ProblemKind::Ambiguous { .. }
        | ProblemKind::FieldMissing { .. }
        | ProblemKind::LabelKey { .. }
        | ProblemKind::LabelValue { .. }
        | ProblemKind::InstanceName { .. } => FieldErrorKind::Invalid,
    }
}

/// Whether the template could be processed at all, whatever values it gets.
pub(crate) fn validate(errors: &mut FieldErrors, warnings: &mut Vec<Warning>, object: &Value) {
    let root = Node::from_json(object);
    let request = Request { is_stored: true, ..Request::default() };
    let checked = Template::read(&root, template_dialect(object))
        .and_then(|template| template::check(&template, &request));
    match checked {
        Ok(findings) => warnings.extend(
            findings
                .iter()
                .filter(|finding| finding.severity() >= environment::Severity::Warning)
                .map(|finding| Warning(finding.to_string())),
        ),
        Err(refusal) => errors.0.extend(template_errors(&refusal).0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::validate;
    use crate::errors::FieldErrors;

    fn problems(template: Value) -> Vec<String> {
        let mut whole =
            json!({"apiVersion": "template.coracle.dev/v1", "kind": "Template", "metadata": {"name": "t"}});
        whole.as_object_mut().expect("a map").extend(template.as_object().expect("a map").clone());
        let (mut errors, mut warnings) = (FieldErrors::default(), Vec::new());
        validate(&mut errors, &mut warnings, &whole);
        errors.0.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_template_that_only_lacks_values_is_stored() {
        let needs = json!([{"name": "N", "required": true}, {"name": "P", "secret": true, "required": true}]);
        let objects = json!([{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "$(N)"}, "stringData": {"p": "$(P)"}}]);
        assert_eq!(problems(json!({"parameters": needs, "objects": objects})), Vec::<String>::new());
    }

    #[test]
    fn what_could_never_process_is_told_with_every_field_and_without_any_value() {
        let told = problems(json!({
            "parameters": [{"name": "A", "value": "x"}, {"name": "A"}, {"name": "P", "secret": true, "value": "canary"},
                {"name": "T", "type": "number"}],
            "objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "$((B))"}},
                {"kind": "ConfigMap"}],
        }));
        let fields: Vec<&str> = told.iter().filter_map(|each| each.split(": ").next()).collect();
        for field in
            ["parameters[1]", "parameters[2].value", "parameters[3].type", "objects[0].data.k", "objects[1]"]
        {
            assert!(fields.iter().any(|told| told.starts_with(field)), "{field} is missing in {told:#?}");
        }
        assert!(!told.concat().contains("canary"), "{told:#?}");
    }
}
