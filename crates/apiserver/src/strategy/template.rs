//! Template of `template.coracle.dev`, and the kind whose creation processes one.

use jiff::Timestamp;
use manifest::Node;
use serde_json::{Value, json};
use template::{Dialect, Template};

use super::Strategy;
use crate::object::{at, list, metadata_mut, text};
use crate::table::{age_cell, name_cell};

pub(crate) struct Templates;

/// Longest description in a table.
const DESCRIPTION: usize = 80;

impl Strategy for Templates {
    fn subresources(&self) -> &'static [&'static str] {
        &["processed"]
    }

    fn keeps_order(&self) -> bool {
        true
    }

    /// A template of `v1` may be OpenShift's; its own group has no such doubt, so the answer is noted.
    fn adopt(&self, object: &mut Value) {
        if at(object, &["metadata", "annotations", api::annotations::TEMPLATE_DIALECT]).is_some() {
            return;
        }
        let root = Node::from_json(object);
        if Template::read(&root, None).is_ok_and(|read| read.dialect == Dialect::OpenShift) {
            let annotations = metadata_mut(object).entry("annotations").or_insert_with(|| json!({}));
            annotations[api::annotations::TEMPLATE_DIALECT] = json!(Dialect::OpenShift.as_str());
        }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(vec![
            name_cell(object),
            description(object).into(),
            parameters(object).into(),
            list(object, &["objects"]).len().into(),
            age_cell(object, now),
        ])
    }
}

/// The first line of the annotation `description`.
fn description(object: &Value) -> String {
    let whole = text(object, &["metadata", "annotations", "description"]);
    let line = whole.lines().next().unwrap_or_default();
    if line.chars().count() <= DESCRIPTION && line.len() == whole.trim_end().len() {
        return line.to_owned();
    }
    line.chars().take(DESCRIPTION - 3).chain("...".chars()).collect()
}

/// How many parameters there are, and how many of them somebody has to give: `4 (1 required)`.
fn parameters(object: &Value) -> String {
    let parameters = list(object, &["parameters"]);
    let has = |parameter: &Value, field| !text(parameter, &[field]).is_empty();
    let is_open = |parameter: &&Value| {
        parameter["required"] == true && !has(parameter, "value") && !has(parameter, "generate")
    };
    match (parameters.len(), parameters.iter().filter(is_open).count()) {
        (count, 0) => count.to_string(),
        (count, open) => format!("{count} ({open} required)"),
    }
}

pub(crate) struct ProcessedTemplates;

impl Strategy for ProcessedTemplates {
    fn is_stored(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_says_what_has_to_be_given() {
        let object = json!({"metadata": {"name": "t", "annotations": {"description": "one\ntwo"}}, "objects": [{}, {}],
            "parameters": [{"name": "A", "required": true}, {"name": "B", "required": true, "value": "x"},
                {"name": "C", "required": true, "generate": "expression"}, {"name": "D"}]});
        let cells = Templates.cells(&object, Timestamp::UNIX_EPOCH).expect("cells");
        assert_eq!(cells[..4], [json!("t"), json!("one..."), json!("4 (1 required)"), json!(2)]);
    }

    #[test]
    fn a_template_of_openshift_keeps_its_language_in_our_group() {
        let dialect = |parameters: Value| {
            let mut object = json!({"kind": "Template", "apiVersion": "v1", "metadata": {"name": "t"},
                "parameters": parameters, "objects": [{"kind": "ConfigMap", "metadata": {"name": "${N}"}}]});
            Templates.adopt(&mut object);
            text(&object, &["metadata", "annotations", api::annotations::TEMPLATE_DIALECT]).to_owned()
        };
        assert_eq!(dialect(json!([{"name": "N", "value": "x"}])), "openshift");
        assert_eq!(dialect(json!([{"name": "M", "value": "x"}])), "", "no parameter is meant");
    }
}
