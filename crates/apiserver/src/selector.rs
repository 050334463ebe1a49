//! Label and field selectors: parsed once, matched against trees.

use serde_json::Value;

mod parse;
mod printed;

pub(crate) use parse::{parse_fields, parse_labels};
pub(crate) use printed::{labels_text, selector_text};

/// One demand of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LabelDemand {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

impl LabelDemand {
    fn accepts(&self, labels: Option<&Value>) -> bool {
        let value = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        match self {
            LabelDemand::In(key, values) => {
                value(key).is_some_and(|value| values.iter().any(|one| one == value))
            }
            LabelDemand::NotIn(key, values) => {
                value(key).is_none_or(|value| values.iter().all(|one| one != value))
            }
            LabelDemand::Exists(key) => value(key).is_some(),
            LabelDemand::Absent(key) => value(key).is_none(),
            LabelDemand::Greater(key, bound) => number(value(key)).is_some_and(|value| value > *bound),
            LabelDemand::Less(key, bound) => number(value(key)).is_some_and(|value| value < *bound),
        }
    }
}

/// Whether a selector as objects hold them (`matchLabels`, `matchExpressions`) selects labels; an empty one selects all.
pub(crate) fn selects_labels(selector: &Value, labels: Option<&Value>) -> bool {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut demands: Vec<LabelDemand> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        demands.push(LabelDemand::In(key.clone(), vec![text(value)]));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = text(&expression["key"]);
        let values = || expression["values"].as_array().into_iter().flatten().map(text).collect();
        match expression["operator"].as_str() {
            Some("In") => demands.push(LabelDemand::In(key, values())),
            Some("NotIn") => demands.push(LabelDemand::NotIn(key, values())),
            Some("Exists") => demands.push(LabelDemand::Exists(key)),
            Some("DoesNotExist") => demands.push(LabelDemand::Absent(key)),
            // What nobody can have written selects nothing.
            Some(_) | None => return false,
        }
    }
    demands.iter().all(|demand| demand.accepts(labels))
}

fn number(text: Option<&str>) -> Option<i64> {
    text?.parse().ok()
}

/// One demand of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldDemand {
    pub(crate) field: String,
    pub(crate) value: String,
    pub(crate) equal: bool,
}

/// A field that a kind can be selected by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SelectableField {
    /// As selectors name it.
    pub(crate) label: &'static str,
    /// Where it stands in the object; the first path that holds something counts.
    pub(crate) paths: &'static [&'static [&'static str]],
    /// What it is when it is absent.
    pub(crate) absent: &'static str,
}

impl SelectableField {
    fn read(&self, object: &Value) -> String {
        let found = self
            .paths
            .iter()
            .filter_map(|path| crate::object::at(object, path))
            .find(|value| !value.is_null() && value.as_str() != Some(""));
        match found {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(value)) => value.to_string(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => self.absent.to_owned(),
        }
    }
}

/// The fields that every object has.
const METADATA_FIELDS: [SelectableField; 2] = [
    SelectableField { label: "metadata.name", paths: &[&["metadata", "name"]], absent: "" },
    SelectableField { label: "metadata.namespace", paths: &[&["metadata", "namespace"]], absent: "" },
];

/// What a list or watch selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<LabelDemand>,
    fields: Vec<(SelectableField, String, bool)>,
    /// Demands on the name, which need no tree.
    name: Option<String>,
}

/// A field that the kind cannot be selected by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownField(pub(crate) String);

impl Selector {
    /// Binds parsed demands to the fields of a kind.
    pub(crate) fn bind(
        labels: Vec<LabelDemand>,
        demands: Vec<FieldDemand>,
        known: &[SelectableField],
    ) -> Result<Selector, UnknownField> {
        let mut selector = Selector { labels, ..Selector::default() };
        for demand in demands {
            let field = METADATA_FIELDS.iter().chain(known).find(|field| field.label == demand.field);
            let Some(field) = field else { return Err(UnknownField(demand.field)) };
            if field.label == "metadata.name" && demand.equal && selector.name.is_none() {
                selector.name = Some(demand.value);
            } else {
                selector.fields.push((*field, demand.value, demand.equal));
            }
        }
        Ok(selector)
    }

    /// Selects one name.
    pub(crate) fn of_name(name: &str) -> Selector {
        Selector { name: Some(name.to_owned()), ..Selector::default() }
    }

    /// Whether everything is selected.
    pub(crate) fn is_empty(&self) -> bool {
        self.name.is_none() && !self.needs_tree()
    }

    fn needs_tree(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// Whether a stored object is selected.
    pub(crate) fn selects(&self, object: &store::Object) -> bool {
        if self.name.as_deref().is_some_and(|name| name != object.key().name()) {
            return false;
        }
        !self.needs_tree() || self.accepts(&crate::object::tree(object))
    }

    fn accepts(&self, object: &Value) -> bool {
        let labels = crate::object::at(object, &["metadata", "labels"]);
        self.labels.iter().all(|demand| demand.accepts(labels))
            && self.fields.iter().all(|(field, value, equal)| (field.read(object) == *value) == *equal)
    }
}

#[cfg(test)]
mod tests;
