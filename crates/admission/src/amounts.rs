//! Amounts of resources by name, and what a pod asks for altogether.

use std::collections::BTreeMap;

use quantity::Quantity;
use serde_json::Value;

use crate::tree::{entries, items, text};

/// Amounts by the name of their resource.
pub type Amounts = BTreeMap<String, Quantity>;

/// The readable amounts of a list of resources.
pub(crate) fn amounts(list: &Value) -> Amounts {
    entries(list)
        .into_iter()
        .filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(text(amount)).ok()?)))
        .collect()
}

/// Adds amounts; a sum that does not fit stays at what it was, which no real cluster reaches.
pub(crate) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let known = sum.entry(name.clone()).or_insert(Quantity::ZERO);
        *known = known.checked_add(amount).unwrap_or(*known);
    }
}

fn raise(highest: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let known = highest.entry(name.clone()).or_insert(*amount);
        *known = (*known).max(*amount);
    }
}

/// What the containers of a pod need at once: `list` is `requests` or `limits`. Init containers run one after the other,
/// beside the sidecars that were started before them.
fn of_containers(spec: &Value, list: &str) -> Amounts {
    let mut sum = Amounts::new();
    for container in items(&spec["containers"]) {
        add(&mut sum, &amounts(&container["resources"][list]));
    }
    let (mut sidecars, mut highest) = (Amounts::new(), Amounts::new());
    for container in items(&spec["initContainers"]) {
        let mut own = amounts(&container["resources"][list]);
        if text(&container["restartPolicy"]) == "Always" {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            raise(&mut highest, &sidecars);
        } else {
            add(&mut own, &sidecars);
            raise(&mut highest, &own);
        }
    }
    raise(&mut sum, &highest);
    sum
}

/// What a pod asks for: as its containers need it, or as it says for itself.
pub(crate) fn asked_by_pod(spec: &Value, list: &str) -> Amounts {
    let mut sum = of_containers(spec, list);
    sum.extend(amounts(&spec["resources"][list]));
    sum
}

/// What a whole pod needs, with its overhead.
pub(crate) fn of_pod(spec: &Value, list: &str) -> Amounts {
    let mut sum = asked_by_pod(spec, list);
    let overhead: Amounts = amounts(&spec["overhead"])
        .into_iter()
        // A limit that nobody set is not made by the overhead.
        .filter(|(name, _)| list == "requests" || sum.contains_key(name))
        .collect();
    add(&mut sum, &overhead);
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_needs_what_runs_at_once() {
        let cpu = |amount: &str| json!({"requests": {"cpu": amount}});
        let spec = json!({
            "containers": [{"resources": cpu("1")}, {"resources": cpu("500m")}, {}],
            "initContainers": [
                {"resources": cpu("3")},
                {"resources": cpu("1"), "restartPolicy": "Always"},
                {"resources": cpu("2500m")},
            ],
        });
        assert_eq!(of_pod(&spec, "requests")["cpu"].to_string(), "3500m");
        assert!(of_pod(&spec, "limits").is_empty());
        let with_overhead = json!({"containers": [{"resources": cpu("1")}], "overhead": {"cpu": "250m"}});
        assert_eq!(of_pod(&with_overhead, "requests")["cpu"].to_string(), "1250m");
        let own = json!({"containers": [{"resources": cpu("1")}], "resources": {"requests": {"cpu": "2"}}});
        assert_eq!(of_pod(&own, "requests")["cpu"].to_string(), "2");
    }
}
