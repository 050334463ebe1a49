//! Selectors as text: `app=web,tier in (a,b),!old`.

use serde_json::Value;

use crate::object::{at, list, text};

/// Labels, or a selector that is a map, by key.
pub(crate) fn labels_text(labels: &Value) -> String {
    let mut shown: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    shown.sort();
    shown.join(",")
}

/// A label selector, its demands by key.
pub(crate) fn selector_text(selector: &Value) -> String {
    let mut demands: Vec<(String, String)> = at(selector, &["matchLabels"])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in list(selector, &["matchExpressions"]) {
        let key = text(expression, &["key"]);
        let mut values: Vec<&str> = list(expression, &["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        values.dedup();
        let values = values.join(",");
        let demand = match text(expression, &["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".to_owned(),
        };
        demands.push((key.to_owned(), demand));
    }
    demands.sort_by(|left, right| left.0.cmp(&right.0));
    demands.into_iter().map(|(_, demand)| demand).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{labels_text, selector_text};

    #[test]
    fn selectors_are_printed_as_kubernetes_prints_them() {
        let selector = json!({
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [
                {"key": "z", "operator": "DoesNotExist"},
                {"key": "tier", "operator": "In", "values": ["y", "x", "y"]},
                {"key": "c", "operator": "Exists"},
                {"key": "env", "operator": "NotIn", "values": ["dev"]}
            ]
        });
        assert_eq!(selector_text(&selector), "a=1,b=2,c,env notin (dev),tier in (x,y),!z");
        assert_eq!(selector_text(&json!({})), "");
        assert_eq!(labels_text(&json!({"b": "2", "a": "1"})), "a=1,b=2");
        assert_eq!(labels_text(&json!(null)), "");
    }
}
