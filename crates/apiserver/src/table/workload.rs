//! Cells that the kinds with pod templates share: containers, images, selectors, counts.

use serde_json::Value;

use super::or_none;
use crate::object::{at, list, text};
use crate::selector::{labels_text, selector_text};

/// The names and the images of the containers of a pod template.
pub(crate) fn container_cells(template: Option<&Value>) -> [Value; 2] {
    let containers = template.map(|template| list(template, &["spec", "containers"])).unwrap_or_default();
    ["name", "image"].map(|field| {
        let shown: Vec<&str> = containers.iter().map(|container| text(container, &[field])).collect();
        shown.join(",").into()
    })
}

/// A label selector as clients write it on the command line.
pub(crate) fn selector_cell(selector: Option<&Value>) -> Value {
    or_none(selector.map(selector_text).unwrap_or_default()).into()
}

/// Labels as clients write them on the command line.
pub(crate) fn labels_cell(labels: Option<&Value>) -> Value {
    or_none(labels.map(labels_text).unwrap_or_default()).into()
}

/// A number; 0 when absent.
pub(crate) fn number(object: &Value, path: &[&str]) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

/// The same as a cell.
pub(crate) fn number_cell(object: &Value, path: &[&str]) -> Value {
    number(object, path).into()
}
