//! Whether a label selector chooses an object.
//!
//! Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors>

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels, or what a simple selector asks of them.
pub(crate) type Labels = BTreeMap<String, String>;

/// Whether all the pairs are among the labels. Nothing asked for chooses nothing: so it is for services and replication
/// controllers.
pub(crate) fn pairs_choose(pairs: Option<&Labels>, labels: Option<&Labels>) -> bool {
    let Some(pairs) = pairs.filter(|pairs| !pairs.is_empty()) else { return false };
    pairs.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
}

/// Whether a selector chooses an object with these labels. An empty selector chooses everything, and so does none nothing. A requirement
/// that cannot be understood chooses nothing; the API lets none in.
pub(crate) fn chooses(selector: Option<&LabelSelector>, labels: Option<&Labels>) -> bool {
    let Some(selector) = selector else { return false };
    let value = |key: &str| labels.and_then(|labels| labels.get(key));
    let pairs = selector.match_labels.iter().flatten().all(|(key, wanted)| value(key) == Some(wanted));
    pairs
        && selector.match_expressions.iter().flatten().all(|requirement| {
            let values = requirement.values.as_deref().unwrap_or_default();
            match (requirement.operator.as_str(), value(&requirement.key)) {
                ("In", Some(value)) => values.contains(value),
                ("NotIn", Some(value)) => !values.contains(value),
                ("NotIn" | "DoesNotExist", None) | ("Exists", Some(_)) => true,
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_selector_chooses() {
        let labels: Labels = serde_json::from_value(json!({"app": "web", "tier": "front"})).unwrap();
        let rows = [
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchLabels": {"absent": ""}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "web"]}]}), true),
            (json!({"matchExpressions": [{"key": "x", "operator": "In", "values": ["web"]}]}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}), false),
            (json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["web"]}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}), false),
            (json!({"matchExpressions": [{"key": "tier", "operator": "Gt", "values": ["1"]}]}), false),
            (
                json!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "Exists"}]}),
                false,
            ),
        ];
        for (selector, expected) in rows {
            let read: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(chooses(Some(&read), Some(&labels)), expected, "{selector}");
        }
        assert!(!chooses(None, Some(&labels)));
        assert!(!pairs_choose(Some(&Labels::new()), Some(&labels)));
        assert!(pairs_choose(Some(&labels), Some(&labels)));
        assert!(!pairs_choose(Some(&labels), None));
    }
}
