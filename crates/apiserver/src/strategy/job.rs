//! Job.

use jiff::Timestamp;
use serde_json::Value;

use super::{DefaultPropagation, Strategy};
use crate::object::{at, list, text};
use crate::selector::SelectableField;
use crate::table::{age_cell, container_cells, name_cell, number, selector_cell};
use crate::timestamps::human_duration;

pub(crate) struct Jobs;

impl Strategy for Jobs {
    fn subresources(&self) -> &'static [&'static str] {
        &["status"]
    }

    fn fields(&self) -> &'static [SelectableField] {
        &[SelectableField { label: "status.successful", paths: &[&["status", "succeeded"]], absent: "0" }]
    }

    fn propagation(&self) -> DefaultPropagation {
        DefaultPropagation::Orphan
    }

    fn propagation_warning(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
             propagationPolicy=Orphan to suppress this warning",
        )
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let [names, images] = container_cells(at(object, &["spec", "template"]));
        Some(vec![
            name_cell(object),
            status(object).into(),
            completions(object).into(),
            duration(object, now).into(),
            age_cell(object, now),
            names,
            images,
            selector_cell(at(object, &["spec", "selector"])),
        ])
    }
}

fn status(job: &Value) -> &'static str {
    let is = |kind: &str| {
        let condition =
            list(job, &["status", "conditions"]).iter().find(|condition| text(condition, &["type"]) == kind);
        condition.is_some_and(|condition| text(condition, &["status"]) == "True")
    };
    if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if at(job, &["metadata", "deletionTimestamp"]).is_some_and(Value::is_string) {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let succeeded = number(job, &["status", "succeeded"]);
    if let Some(wanted) = at(job, &["spec", "completions"]).and_then(Value::as_i64) {
        return format!("{succeeded}/{wanted}");
    }
    match number(job, &["spec", "parallelism"]) {
        parallelism if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        _ => format!("{succeeded}/1"),
    }
}

/// From the start to the end, or until now; empty before the start.
fn duration(job: &Value, now: Timestamp) -> String {
    let time = |name: &str| text(job, &["status", name]).parse::<Timestamp>().ok();
    let Some(start) = time("startTime") else { return String::new() };
    let end = time("completionTime").unwrap_or(now);
    human_duration(end.as_second() - start.as_second())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::{completions, duration, status};

    #[test]
    fn a_job_is_shown_as_kubectl_shows_it() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().expect("a time");
        let is = |kind: &str| json!([{"type": kind, "status": "True"}]);
        let table = [
            (json!({"spec": {"completions": 1, "parallelism": 1}}), "Running 0/1 "),
            (
                json!({"spec": {"parallelism": 3}, "status": {"succeeded": 1, "startTime": "2026-01-01T00:59:00Z"}}),
                "Running 1/1 of 3 60s",
            ),
            (
                json!({"spec": {"completions": 2}, "status": {"succeeded": 2, "conditions": is("Complete"),
                    "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:02:05Z"}}),
                "Complete 2/2 2m5s",
            ),
            (json!({"spec": {"completions": 1}, "status": {"conditions": is("Failed")}}), "Failed 0/1 "),
            (
                json!({"spec": {"completions": 1}, "status": {"conditions": is("Suspended")}}),
                "Suspended 0/1 ",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}),
                "Terminating 0/1 ",
            ),
        ];
        for (job, expected) in table {
            let shown = format!("{} {} {}", status(&job), completions(&job), duration(&job, now));
            assert_eq!(shown, expected, "{job}");
        }
    }
}
