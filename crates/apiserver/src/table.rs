//! Server-side printing: the tables that `kubectl get` shows.

mod pod;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::media::MetaVersion;
use crate::object::{at, list, name, text};
use crate::timestamps::age;

pub(crate) use pod::pod_cells;
pub(crate) use workload::{container_cells, labels_cell, number, number_cell, selector_cell};

/// What a row says about its object besides the cells: `includeObject`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn parse(text: Option<&str>) -> Option<Include> {
        match text {
            None | Some("" | "Metadata") => Some(Include::Metadata),
            Some("None") => Some(Include::Nothing),
            Some("Object") => Some(Include::Object),
            Some(_) => None,
        }
    }
}

/// The cell of the name column.
pub(crate) fn name_cell(object: &Value) -> Value {
    name(object).into()
}

/// The cell of the age column.
pub(crate) fn age_cell(object: &Value, now: Timestamp) -> Value {
    age(at(object, &["metadata", "creationTimestamp"]).and_then(Value::as_str), now).into()
}

/// How many entries the map at a path has.
pub(crate) fn count(object: &Value, path: &[&str]) -> usize {
    at(object, path).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

/// `<none>` for nothing.
pub(crate) fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// `<unset>` for nothing.
pub(crate) fn or_unset(text: &str) -> String {
    if text.is_empty() { "<unset>".to_owned() } else { text.to_owned() }
}

/// Whether an object is marked as deleted.
pub(crate) fn is_going(object: &Value) -> bool {
    !text(object, &["metadata", "deletionTimestamp"]).is_empty()
}

/// The first three of some texts, and how many more there are.
pub(crate) fn first_three(texts: &[String]) -> String {
    const SHOWN: usize = 3;
    match texts.split_at_checked(SHOWN) {
        Some((first, more)) if !more.is_empty() => format!("{} + {} more...", first.join(","), more.len()),
        _ => texts.join(","),
    }
}

/// A label selector as selectors are written; `<none>` for one that demands nothing.
pub(crate) fn label_selector(selector: &Value) -> String {
    let mut demands: Vec<String> = Vec::new();
    for (key, value) in at(selector, &["matchLabels"]).and_then(Value::as_object).into_iter().flatten() {
        demands.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for expression in list(selector, &["matchExpressions"]) {
        let key = text(expression, &["key"]);
        let mut values: Vec<&str> = list(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        demands.push(match text(expression, &["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    demands.sort();
    or_none(demands.join(","))
}

/// The definitions of the columns of a kind.
pub(crate) fn column_definitions(kind: &Kind) -> Value {
    let mut columns = schema::table_columns(kind.group_version(), kind.plural());
    if columns.is_empty() {
        columns = kind.strategy().columns().to_vec();
    }
    if columns.is_empty() {
        return json!([
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0},
        ]);
    }
    columns
        .iter()
        .map(|column| {
            json!({
                "name": column.name,
                "type": column.kind,
                "format": column.format,
                "description": "",
                "priority": column.priority,
            })
        })
        .collect()
}

/// One row.
pub(crate) fn row(
    kind: &Kind,
    object: &Value,
    include: Include,
    version: MetaVersion,
    now: Timestamp,
) -> Value {
    let cells = match kind.strategy().cells(object, now) {
        Some(cells) => cells,
        None => vec![name_cell(object), text(object, &["metadata", "creationTimestamp"]).into()],
    };
    match include {
        Include::Nothing => json!({"cells": cells, "object": null}),
        Include::Metadata => json!({"cells": cells, "object": partial_metadata(object, version)}),
        Include::Object => json!({"cells": cells, "object": kind.shown(object.clone())}),
    }
}

/// An object with its metadata only.
pub(crate) fn partial_metadata(object: &Value, version: MetaVersion) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": version.api_version(),
        "metadata": object.get("metadata").unwrap_or(&Value::Null),
    })
}

/// A table.
pub(crate) fn table(
    list_metadata: Value,
    columns: Option<Value>,
    rows: Vec<Value>,
    version: MetaVersion,
) -> Value {
    let mut table = json!({
        "kind": "Table",
        "apiVersion": version.api_version(),
        "metadata": list_metadata,
    });
    table["columnDefinitions"] = columns.unwrap_or_else(|| json!([]));
    table["rows"] = Value::Array(rows);
    table
}
