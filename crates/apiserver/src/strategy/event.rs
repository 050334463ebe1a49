//! Event of the core group.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::{at, text};
use crate::selector::SelectableField;
use crate::timestamps::age;

pub(crate) struct Events;

macro_rules! involved {
    ($($name:literal),*) => {
        &[
            $(SelectableField {
                label: concat!("involvedObject.", $name),
                paths: &[&["involvedObject", $name]],
                absent: "",
            },)*
            SelectableField { label: "reason", paths: &[&["reason"]], absent: "" },
            SelectableField { label: "type", paths: &[&["type"]], absent: "" },
            SelectableField {
                label: "source",
                paths: &[&["source", "component"], &["reportingComponent"]],
                absent: "",
            },
            SelectableField { label: "reportingComponent", paths: &[&["reportingComponent"]], absent: "" },
        ]
    };
}

impl Strategy for Events {
    fn fields(&self) -> &'static [SelectableField] {
        involved!("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    }

    fn creates_on_update(&self) -> bool {
        true
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let first = first_text(object, &[&["firstTimestamp"], &["eventTime"]]);
        let last = first_text(object, &[&["series", "lastObservedTime"], &["lastTimestamp"]]).or(first);
        let count = at(object, &["series", "count"])
            .or_else(|| object.get("count"))
            .and_then(Value::as_i64)
            .unwrap_or(0);
        let component =
            first_text(object, &[&["source", "component"], &["reportingComponent"]]).unwrap_or_default();
        let host = first_text(object, &[&["source", "host"], &["reportingInstance"]]);
        let source = match host {
            Some(host) => format!("{component}, {host}"),
            None => component.to_owned(),
        };
        let involved = format!(
            "{}/{}",
            text(object, &["involvedObject", "kind"]).to_ascii_lowercase(),
            text(object, &["involvedObject", "name"])
        );
        Some(vec![
            age(last, now).into(),
            text(object, &["type"]).into(),
            text(object, &["reason"]).into(),
            involved.into(),
            text(object, &["involvedObject", "fieldPath"]).into(),
            source.into(),
            text(object, &["message"]).trim().into(),
            age(first, now).into(),
            count.max(1).into(),
            crate::object::name(object).into(),
        ])
    }
}

fn first_text<'v>(object: &'v Value, paths: &[&[&str]]) -> Option<&'v str> {
    paths.iter().map(|path| text(object, path)).find(|found| !found.is_empty())
}
