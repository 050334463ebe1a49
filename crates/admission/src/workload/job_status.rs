//! What a status of a job may say: counts, and conditions that fit each other and what was said before.

use serde_json::Value;

use super::{counts, index_list};
use crate::errors::FieldErrors;
use crate::path::Path;
use crate::tree::{is_set, items, text};

/// Conditions that never go away again.
const LASTING: [&str; 3] = ["Failed", "Complete", "FailureTarget"];

/// Checks a new status; a rule counts only where what it looks at has changed.
pub(super) fn validate(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let (path, status) = (Path::root("status"), &new["status"]);
    counts(errors, &path, status, &["active", "succeeded", "failed", "ready", "terminating"]);
    pods_to_count(errors, &path.child("uncountedTerminatedPods"), &status["uncountedTerminatedPods"]);
    conditions(errors, &path, old, new);
    times(errors, &path, old, new);
    finished(errors, &path, old, new);
    indexes(errors, &path, old, new);
    only_forward(errors, &path, old, new);
}

fn is(job: &Value, condition: &str) -> bool {
    items(&job["status"]["conditions"]).iter().any(|one| one["type"] == condition && one["status"] == "True")
}

fn is_finished(job: &Value) -> bool {
    is(job, "Complete") || is(job, "Failed")
}

fn pods_to_count(errors: &mut FieldErrors, path: &Path, pods: &Value) {
    let mut seen = std::collections::BTreeSet::new();
    for list in ["succeeded", "failed"] {
        for (index, uid) in items(&pods[list]).iter().enumerate() {
            let at = path.child(list).index(index);
            if text(uid).is_empty() {
                errors.invalid(&at, "", "must not be empty");
            } else if !seen.insert(text(uid)) {
                errors.duplicate(&at, text(uid));
            }
        }
    }
}

fn conditions(errors: &mut FieldErrors, path: &Path, old: &Value, new: &Value) {
    let at = path.child("conditions");
    let has_changed = |name: &str| is(old, name) != is(new, name);
    let pairs = [
        ("Complete", "Failed", "cannot set Complete=True and Failed=true conditions"),
        ("Complete", "FailureTarget", "cannot set Complete=True and FailureTarget=true conditions"),
    ];
    for (one, other, detail) in pairs {
        if (has_changed(one) || has_changed(other)) && is(new, one) && is(new, other) {
            errors.invalid_unseen(&at, detail);
        }
    }
    let met = is(new, "SuccessCriteriaMet");
    for (other, detail) in [
        ("Failed", "cannot set SuccessCriteriaMet=True and Failed=true conditions"),
        ("FailureTarget", "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"),
    ] {
        if met && is(new, other) {
            errors.invalid_unseen(&at, detail);
        }
    }
    if is_set(&new["spec"]["successPolicy"]) && !met && is(new, "Complete") {
        errors.invalid_unseen(
            &at,
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        );
    }
}

fn times(errors: &mut FieldErrors, path: &Path, old: &Value, new: &Value) {
    let (before, after) = (&old["status"], &new["status"]);
    let (start, end) = (&after["startTime"], &after["completionTime"]);
    let at = path.child("completionTime");
    let is_complete = is(new, "Complete");
    let is_ended_anew = before["completionTime"] != *end;
    if is_ended_anew || is(old, "Complete") != is_complete {
        if is_set(end) && !is_complete {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.invalid(&at, end.clone(), detail);
        }
        if !is_set(end) && is_complete {
            errors.required(&at, "completionTime is required for Complete jobs");
        }
    }
    // Times of one form compare as text.
    let is_changed = is_ended_anew || before["startTime"] != *start;
    if is_changed && is_set(start) && is_set(end) && text(end) < text(start) {
        errors.invalid(&at, end.clone(), "completionTime cannot be set before startTime");
    }
}

fn finished(errors: &mut FieldErrors, path: &Path, old: &Value, new: &Value) {
    if !is_finished(new) {
        return;
    }
    let (before, after) = (&old["status"], &new["status"]);
    let is_news = !is_finished(old);
    let active = after["active"].as_i64().unwrap_or(0);
    if active > 0 && (is_news || before["active"] != after["active"]) {
        errors.invalid(&path.child("active"), active, "active>0 is invalid for finished job");
    }
    if !is_set(&after["startTime"]) && (is_news || before["startTime"] != after["startTime"]) {
        errors.required(&path.child("startTime"), "startTime is required for finished job");
    }
    let pods = &after["uncountedTerminatedPods"];
    let has_pods = !items(&pods["failed"]).is_empty() || !items(&pods["succeeded"]).is_empty();
    if has_pods && (is_news || before["uncountedTerminatedPods"] != *pods) {
        let detail = "uncountedTerminatedPods needs to be empty for finished job";
        errors.invalid(&path.child("uncountedTerminatedPods"), pods.clone(), detail);
    }
}

fn indexes(errors: &mut FieldErrors, path: &Path, old: &Value, new: &Value) {
    let spec = &new["spec"];
    for (name, is_allowed, detail) in [
        (
            "completedIndexes",
            spec["completionMode"] == "Indexed",
            "cannot set non-empty completedIndexes when non-indexed completion mode",
        ),
        (
            "failedIndexes",
            is_set(&spec["backoffLimitPerIndex"]),
            "cannot set non-null failedIndexes when backoffLimitPerIndex is null",
        ),
    ] {
        let list = &new["status"][name];
        if old["status"][name] == *list || !is_set(list) || (name == "completedIndexes" && list == "") {
            continue;
        }
        let at = path.child(name);
        if let Some(completions) = spec["completions"].as_i64()
            && let Err(problem) = index_list::count(text(list), completions)
        {
            errors.invalid(&at, list.clone(), format!("error parsing {name}: {problem}"));
        }
        if !is_allowed {
            errors.invalid(&at, list.clone(), detail);
        }
    }
    let (completed, failed) = (&new["status"]["completedIndexes"], &new["status"]["failedIndexes"]);
    let is_changed =
        old["status"]["completedIndexes"] != *completed || old["status"]["failedIndexes"] != *failed;
    if is_changed
        && let Some(completions) = spec["completions"].as_i64()
        && let Some(index) = index_list::shared(text(completed), text(failed), completions)
    {
        let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.invalid(&path.child("failedIndexes"), failed.clone(), detail);
    }
}

fn only_forward(errors: &mut FieldErrors, path: &Path, old: &Value, new: &Value) {
    let (before, after, spec) = (&old["status"], &new["status"], &new["spec"]);
    let at = path.child("conditions");
    for name in LASTING {
        if is(old, name) && !is(new, name) {
            errors.invalid_unseen(&at, format!("cannot disable the terminal {name}=True condition"));
        }
    }
    let shrinks = spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
    for (name, is_counted) in [("failed", true), ("succeeded", !shrinks)] {
        let count = after[name].as_i64().unwrap_or(0);
        if is_counted && count < before[name].as_i64().unwrap_or(0) {
            errors.invalid(&path.child(name), count, format!("cannot decrease the {name} counter"));
        }
    }
    let end = &after["completionTime"];
    if is_set(end) && is_set(&before["completionTime"]) && before["completionTime"] != *end {
        errors.invalid(&path.child("completionTime"), end.clone(), "completionTime cannot be mutated");
    }
    let start = &before["startTime"];
    // A job that is resumed begins anew.
    let is_resumed = is(old, "Suspended") && is_set(&after["startTime"]);
    if is_set(start) && *start != after["startTime"] && spec["suspend"] != true && !is_resumed {
        errors.required(&path.child("startTime"), "startTime cannot be removed for unsuspended job");
    }
    if is(old, "SuccessCriteriaMet") && !is(new, "SuccessCriteriaMet") {
        errors.invalid_unseen(&at, "cannot disable the SuccessCriteriaMet=True condition");
    }
    if is(old, "Complete") && !is(old, "SuccessCriteriaMet") && is(new, "SuccessCriteriaMet") {
        let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.invalid_unseen(&at, detail);
    }
}
