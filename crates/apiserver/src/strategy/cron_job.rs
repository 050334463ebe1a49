//! CronJob.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::{at, list, text};
use crate::table::{age_cell, container_cells, name_cell, or_none, selector_cell};
use crate::timestamps::age;

pub(crate) struct CronJobs;

impl Strategy for CronJobs {
    fn subresources(&self) -> &'static [&'static str] {
        &["status"]
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let job = ["spec", "jobTemplate", "spec"];
        let [names, images] = container_cells(at(object, &[job[0], job[1], job[2], "template"]));
        let last = at(object, &["status", "lastScheduleTime"]).and_then(Value::as_str);
        let suspend = match at(object, &["spec", "suspend"]).and_then(Value::as_bool) {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        Some(vec![
            name_cell(object),
            text(object, &["spec", "schedule"]).into(),
            or_none(text(object, &["spec", "timeZone"]).to_owned()).into(),
            suspend.into(),
            list(object, &["status", "active"]).len().into(),
            last.map_or_else(|| "<none>".to_owned(), |last| age(Some(last), now)).into(),
            age_cell(object, now),
            names,
            images,
            selector_cell(at(object, &[job[0], job[1], job[2], "selector"])),
        ])
    }
}
