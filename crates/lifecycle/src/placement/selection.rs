//! Which nodes a pod wants, and which pods a node lets in: node selectors, required node affinity, taints and tolerations.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint, Toleration};

/// Taint of a node that is marked as unschedulable.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Whether the node is one that the pod's node selector and required node affinity ask for.
pub fn is_wanted(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else {
        return true;
    };
    let nothing = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&nothing);
    let selected = spec.node_selector.iter().flatten().all(|(name, value)| labels.get(name) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let name = node.metadata.name.as_deref().unwrap_or_default();
    selected
        && required
            .is_none_or(|required| required.node_selector_terms.iter().any(|term| holds(term, labels, name)))
}

/// Whether the node is one that a term selects. A term without requirements selects none.
pub fn selects_node(term: &NodeSelectorTerm, node: &Node) -> bool {
    let nothing = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&nothing);
    holds(term, labels, node.metadata.name.as_deref().unwrap_or_default())
}

/// All requirements of a term hold. A term without any selects nothing.
fn holds(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    if expressions.is_empty() && fields.is_empty() {
        return false;
    }
    let by_label = |one: &NodeSelectorRequirement| meets(one, labels.get(&one.key).map(String::as_str));
    let by_field = |one: &NodeSelectorRequirement| meets(one, (one.key == "metadata.name").then_some(name));
    expressions.iter().all(by_label) && fields.iter().all(by_field)
}

fn meets(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let listed = || value.is_some_and(|value| values.iter().any(|one| one == value));
    let number = |text: &str| text.parse::<i64>().ok();
    let compare = |holds: fn(&i64, &i64) -> bool| match (value.and_then(number), values) {
        (Some(value), [bound]) => number(bound).is_some_and(|bound| holds(&value, &bound)),
        (Some(_) | None, _) => false,
    };
    match requirement.operator.as_str() {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => false,
    }
}

/// Whether a toleration is about a taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    if !effect.is_empty() && effect != taint.effect || !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or_default() {
        "Exists" => true,
        "" | "Equal" => {
            !key.is_empty()
                && toleration.value.as_deref().unwrap_or_default()
                    == taint.value.as_deref().unwrap_or_default()
        }
        _ => false,
    }
}

fn is_borne(pod: &Pod, taint: &Taint) -> bool {
    let mut tolerations = pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten());
    tolerations.any(|toleration| tolerates(toleration, taint))
}

/// Whether a taint of one of these effects keeps the pod out.
pub(super) fn is_kept_out(pod: &Pod, node: &Node, effects: &[&str]) -> bool {
    let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.any(|taint| effects.contains(&taint.effect.as_str()) && !is_borne(pod, taint))
}

/// Whether the node takes no new pods, and the pod does not bear that.
pub(super) fn is_cordoned(pod: &Pod, node: &Node) -> bool {
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    let taint = Taint { key: UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    cordoned && !is_borne(pod, &taint)
}
