//! Event: of the core group, as it is stored, and of `events.k8s.io`, which shows the same objects with other names.

use jiff::Timestamp;
use serde_json::Value;

use super::{DefaultPropagation, Strategy};
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

    fn propagation(&self) -> DefaultPropagation {
        DefaultPropagation::Unsupported
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

/// Events by their newer names. Selectors and cells read the stored form.
pub(crate) struct RegardingEvents;

/// Fields with two names: in the core group, and in `events.k8s.io`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn rename(object: &mut Value, names: impl Iterator<Item = (&'static str, &'static str)>) {
    let Some(fields) = object.as_object_mut() else { return };
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

macro_rules! regarding {
    ($($name:literal),*) => {
        &[
            $(SelectableField {
                label: concat!("regarding.", $name),
                paths: &[&["involvedObject", $name]],
                absent: "",
            },)*
            SelectableField { label: "reason", paths: &[&["reason"]], absent: "" },
            SelectableField { label: "type", paths: &[&["type"]], absent: "" },
            SelectableField { label: "reportingController", paths: &[&["reportingComponent"]], absent: "" },
        ]
    };
}

impl Strategy for RegardingEvents {
    fn fields(&self) -> &'static [SelectableField] {
        regarding!("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    }

    fn creates_on_update(&self) -> bool {
        Events.creates_on_update()
    }

    fn converts(&self) -> bool {
        true
    }

    fn adopt(&self, object: &mut Value) {
        rename(object, RENAMED.into_iter().map(|(stored, shown)| (shown, stored)));
    }

    fn present(&self, object: &mut Value) {
        rename(object, RENAMED.into_iter());
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Events.cells(object, now)
    }
}

fn first_text<'v>(object: &'v Value, paths: &[&[&str]]) -> Option<&'v str> {
    paths.iter().map(|path| text(object, path)).find(|found| !found.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_is_the_same_by_its_old_and_its_new_names() {
        let stored = json!({"kind": "Event", "involvedObject": {"name": "p"}, "message": "m", "reason": "R",
            "reportingComponent": "c", "reportingInstance": "i", "source": {"component": "x"}, "count": 2,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": null, "series": {"count": 3}, "action": "a"});
        let mut object = stored.clone();
        RegardingEvents.present(&mut object);
        assert_eq!(
            object,
            json!({"kind": "Event", "regarding": {"name": "p"}, "note": "m", "reason": "R",
                "reportingController": "c", "reportingInstance": "i", "deprecatedSource": {"component": "x"},
                "deprecatedCount": 2, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
                "deprecatedLastTimestamp": null, "series": {"count": 3}, "action": "a"})
        );
        RegardingEvents.adopt(&mut object);
        assert_eq!(object, stored);
    }
}
