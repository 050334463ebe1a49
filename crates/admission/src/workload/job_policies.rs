//! What a job makes of failed and successful pods.

use std::collections::BTreeSet;

use names::QualifiedName;
use serde_json::Value;

use super::index_list;
use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::{messages, not_negative};
use crate::tree::{is_set, items, text};

/// Most rules of a policy.
const RULES: usize = 20;
/// Most exit codes of a rule.
const CODES: usize = 255;
/// Most conditions of a rule.
const CONDITIONS: usize = 20;
/// Longest list of indexes.
const INDEX_BYTES: usize = 64 * 1024;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

/// Which pods are replaced, and when.
pub(super) fn replacement_policy(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let policy = text(&spec["podReplacementPolicy"]);
    let supported: &[&str] =
        if is_set(&spec["podFailurePolicy"]) { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if is_set(&spec["podReplacementPolicy"]) && !supported.contains(&policy) {
        errors.not_supported(path, policy, supported);
    }
}

/// `podFailurePolicy`.
pub(super) fn failure_policy(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let (at, rules) = (path.child("rules"), items(&spec["podFailurePolicy"]["rules"]));
    if rules.len() > RULES {
        errors.too_many(&at, rules.len(), RULES);
    }
    let containers: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|list| items(&spec["template"]["spec"][*list]))
        .map(|container| text(&container["name"]))
        .collect();
    for (index, rule) in rules.iter().enumerate() {
        failure_rule(errors, &at.index(index), rule, spec, &containers);
    }
}

fn failure_rule(
    errors: &mut FieldErrors,
    path: &Path,
    rule: &Value,
    spec: &Value,
    containers: &BTreeSet<&str>,
) {
    let (at, action) = (path.child("action"), text(&rule["action"]));
    match action {
        "" => errors.required(&at, format!("valid values: {}", listed(&ACTIONS))),
        "FailIndex" if !is_set(&spec["backoffLimitPerIndex"]) => {
            errors.invalid(&at, action, "requires the backoffLimitPerIndex to be set");
        }
        action if !ACTIONS.contains(&action) => errors.not_supported(&at, action, &ACTIONS),
        _ => {}
    }
    let conditions = items(&rule["onPodConditions"]);
    if is_set(&rule["onExitCodes"]) {
        exit_codes(errors, &path.child("onExitCodes"), &rule["onExitCodes"], containers);
    }
    if conditions.len() > CONDITIONS {
        errors.too_many(&path.child("onPodConditions"), conditions.len(), CONDITIONS);
    }
    for (index, condition) in conditions.iter().enumerate() {
        pod_condition(errors, &path.child("onPodConditions").index(index), condition);
    }
    match (is_set(&rule["onExitCodes"]), conditions.is_empty()) {
        (true, false) => {
            errors.invalid_unseen(path, "specifying both OnExitCodes and OnPodConditions is not supported");
        }
        (false, true) => {
            errors.invalid_unseen(path, "specifying one of OnExitCodes and OnPodConditions is required");
        }
        (true, true) | (false, false) => {}
    }
}

fn pod_condition(errors: &mut FieldErrors, path: &Path, condition: &Value) {
    const STATES: [&str; 3] = ["False", "True", "Unknown"];
    let kind = text(&condition["type"]);
    errors.invalid_each(&path.child("type"), kind, messages(QualifiedName::parse(kind)));
    let (at, status) = (path.child("status"), text(&condition["status"]));
    if status.is_empty() {
        errors.required(&at, format!("valid values: {}", listed(&STATES)));
    } else if !STATES.contains(&status) {
        errors.not_supported(&at, status, &STATES);
    }
}

fn exit_codes(errors: &mut FieldErrors, path: &Path, codes: &Value, containers: &BTreeSet<&str>) {
    const OPERATORS: [&str; 2] = ["In", "NotIn"];
    let (at, operator) = (path.child("operator"), text(&codes["operator"]));
    if operator.is_empty() {
        errors.required(&at, format!("valid values: {}", listed(&OPERATORS)));
    } else if !OPERATORS.contains(&operator) {
        errors.not_supported(&at, operator, &OPERATORS);
    }
    let container = &codes["containerName"];
    if is_set(container) && !containers.contains(text(container)) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&path.child("containerName"), text(container), detail);
    }
    let (at, values) = (path.child("values"), items(&codes["values"]));
    if values.is_empty() {
        errors.invalid(&at, codes["values"].clone(), "at least one value is required");
    } else if values.len() > CODES {
        errors.too_many(&at, values.len(), CODES);
    }
    let numbers: Vec<i64> = values.iter().map(|value| value.as_i64().unwrap_or(0)).collect();
    let mut seen = BTreeSet::new();
    for (index, number) in numbers.iter().enumerate() {
        if operator == "In" && *number == 0 {
            errors.invalid(&at.index(index), 0, "must not be 0 for the In operator");
        }
        if !seen.insert(number) {
            errors.duplicate(&at.index(index), *number);
        }
    }
    if !numbers.is_sorted() {
        errors.invalid(&at, codes["values"].clone(), "must be ordered");
    }
}

/// `successPolicy` of an indexed job.
pub(super) fn success_policy(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let (at, rules) = (path.child("rules"), items(&spec["successPolicy"]["rules"]));
    if rules.is_empty() {
        errors.required(&at, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > RULES {
        errors.too_many(&at, rules.len(), RULES);
    }
    let completions = spec["completions"].as_i64().unwrap_or(0);
    for (index, rule) in rules.iter().enumerate() {
        success_rule(errors, &at.index(index), rule, completions);
    }
}

fn success_rule(errors: &mut FieldErrors, path: &Path, rule: &Value, completions: i64) {
    let (count, indexes) = (rule["succeededCount"].as_i64(), rule["succeededIndexes"].as_str());
    if count.is_none() && indexes.is_none() {
        errors.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let at = path.child("succeededIndexes");
        if indexes.len() > INDEX_BYTES {
            errors.too_long(&at, INDEX_BYTES);
        }
        match index_list::count(indexes, completions) {
            Ok(found) => total = found,
            Err(problem) => {
                errors.invalid(&at, indexes, format!("error parsing succeededIndexes: {problem}"));
            }
        }
    }
    let Some(count) = count else { return };
    let at = path.child("succeededCount");
    not_negative(errors, &at, &count.into());
    if count > completions {
        let detail =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.invalid(&at, count, detail);
    }
    if indexes.is_some() && count > total {
        let detail = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.invalid(&at, count, detail);
    }
}

/// As Go prints a list of quoted texts.
fn listed(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| schema::go_quote(value)).collect();
    format!("[{}]", quoted.join(" "))
}
