//! ClusterRoles that gather the rules of others by their labels: written anew whenever a ClusterRole has changed, before that
//! change is answered.

use std::sync::Arc;

use serde_json::{Value, json};

use super::GROUP;
use crate::object::{self, list, text};
use crate::server::Server;
use crate::status::ApiError;
use crate::writing::{Candidate, Part, Write, update_object};

/// How many times over the roles may gather from each other: `view` into `edit` into `admin` takes three.
const ROUNDS: usize = 8;

/// Brings every gathering role up to date.
pub(crate) async fn refresh_aggregated(server: &Arc<Server>) -> Result<(), ApiError> {
    let Some(kind) = server.kinds.find(GROUP, "v1", "clusterroles") else { return Ok(()) };
    for _ in 0..ROUNDS {
        let listing = server.store.list(kind.collection(), None, None, None).map_err(ApiError::from_read)?;
        let roles: Vec<Value> = listing.objects.iter().map(|stored| object::tree(stored)).collect();
        let mut is_settled = true;
        for role in roles.iter().filter(|role| role["aggregationRule"].is_object()) {
            let rules = gathered(role, &roles);
            if list(role, &["rules"]) == rules {
                continue;
            }
            is_settled = false;
            let write = Write::of_server(server, kind, "");
            let make = |old: &Value| {
                let mut object = old.clone();
                object["rules"] = json!(rules);
                Ok(Candidate { object, warnings: Vec::new(), keeps_version: false })
            };
            match Box::pin(update_object(&write, object::name(role), Part::Main, make)).await {
                Ok(_) | Err(ApiError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if is_settled {
            return Ok(());
        }
    }
    Ok(())
}

/// The rules of the roles that `role` selects, each once. `roles` is sorted by name.
pub(super) fn gathered(role: &Value, roles: &[Value]) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    for selector in list(role, &["aggregationRule", "clusterRoleSelectors"]) {
        let chosen = roles.iter().filter(|other| {
            object::name(other) != object::name(role) && selects(selector, &other["metadata"]["labels"])
        });
        for rule in chosen.flat_map(|other| list(other, &["rules"])) {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    rules
}

/// Whether a label selector of an object chooses these labels; an empty one chooses everything.
fn selects(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let pairs = selector["matchLabels"].as_object();
    pairs.into_iter().flatten().all(|(key, value)| label(key) == value.as_str())
        && list(selector, &["matchExpressions"]).iter().all(|demand| {
            let own = label(text(demand, &["key"]));
            let is_listed = own.is_some_and(|own| list(demand, &["values"]).iter().any(|value| value == own));
            match text(demand, &["operator"]) {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => own.is_some(),
                "DoesNotExist" => own.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{gathered, selects};

    #[test]
    fn a_selector_of_an_object_chooses_by_labels() {
        let labels = json!({"a": "1", "b": "2"});
        let table = [
            (json!({}), true),
            (json!({"matchLabels": {"a": "1"}}), true),
            (json!({"matchLabels": {"a": "2"}}), false),
            (json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["0", "1"]}]}), true),
            (json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), false),
            (json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]}), true),
            (json!({"matchExpressions": [{"key": "c", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "c", "operator": "DoesNotExist"}]}), true),
        ];
        for (selector, chosen) in table {
            assert_eq!(selects(&selector, &labels), chosen, "{selector}");
        }
    }

    #[test]
    fn a_gathering_role_has_each_rule_once_and_none_of_its_own() {
        let role = |name: &str, label: &str, rules: Value| json!({"metadata": {"name": name, "labels": {label: "true"}}, "rules": rules});
        let mut all = role("all", "to-all", json!([{"verbs": ["own"]}]));
        all["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"to-all": "true"}}]});
        let roles = [
            all.clone(),
            role("b", "to-all", json!([{"verbs": ["get"]}, {"verbs": ["list"]}])),
            role("c", "to-all", json!([{"verbs": ["get"]}])),
            role("d", "elsewhere", json!([{"verbs": ["delete"]}])),
        ];
        assert_eq!(gathered(&all, &roles), [json!({"verbs": ["get"]}), json!({"verbs": ["list"]})]);
    }
}
