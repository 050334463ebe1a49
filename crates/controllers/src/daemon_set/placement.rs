//! On which nodes a DaemonSet has pods, and what binds each of them to its node. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#taints-and-tolerations> and the behaviour of
//! Kubernetes 1.36.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration,
};

use super::REVISION;
use crate::ownership::owner_reference;
use crate::pod_control::{PodName, name_beginning, pod_from};

/// What a node is to a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suits {
    /// It has a pod.
    Yes,
    /// A pod that is there stays, but none comes: a taint has come that bears old pods.
    OnlyOld,
    /// It has none.
    No,
}

/// Taints that pods of every DaemonSet bear: key and effect.
const BORNE: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// One more that pods in the node's network bear.
const NO_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

fn bear_taints(spec: &mut PodSpec) {
    let in_host_network = spec.host_network == Some(true);
    let tolerations = spec.tolerations.get_or_insert_default();
    for (key, effect) in BORNE.into_iter().chain(in_host_network.then_some(NO_NETWORK)) {
        let toleration = Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
}

/// The pod of a set for any node.
fn any_pod(set: &DaemonSet) -> Pod {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let beginning = name_beginning(set.metadata.name.as_deref().unwrap_or_default());
    let mut pod = pod_from(&template, namespace, PodName::Beginning(&beginning), owner_reference(set));
    bear_taints(pod.spec.get_or_insert_default());
    pod
}

/// What a node is to a set.
pub(crate) fn suits(set: &DaemonSet, node: &Node) -> Suits {
    let pod = any_pod(set);
    let named = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty());
    if named.is_some_and(|named| Some(named) != node.metadata.name.as_deref()) {
        return Suits::No;
    }
    if !lifecycle::is_wanted(&pod, node) {
        return Suits::No;
    }
    match (
        lifecycle::is_kept_out(&pod, node, &["NoSchedule"]),
        lifecycle::is_kept_out(&pod, node, &["NoExecute"]),
    ) {
        (_, true) => Suits::No,
        (true, false) => Suits::OnlyOld,
        (false, false) => Suits::Yes,
    }
}

/// The field of a node by which a pod asks for it.
const NODE_NAME: &str = "metadata.name";

/// The pod of a set for a node, of the revision with this hash.
pub(crate) fn new_pod(set: &DaemonSet, hash: &str, node: &str) -> Pod {
    let mut pod = any_pod(set);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION.to_owned(), hash.to_owned());
    if let Some(generation) = template_generation(set) {
        labels.insert("pod-template-generation".to_owned(), generation.to_owned());
    }
    let required = pod
        .spec
        .get_or_insert_default()
        .affinity
        .get_or_insert_default()
        .node_affinity
        .get_or_insert_default()
        .required_during_scheduling_ignored_during_execution
        .get_or_insert_with(NodeSelector::default);
    // What the template asks of nodes was looked at already.
    required.node_selector_terms = vec![NodeSelectorTerm {
        match_fields: Some(vec![NodeSelectorRequirement {
            key: NODE_NAME.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![node.to_owned()]),
        }]),
        match_expressions: None,
    }];
    pod
}

/// The generation of the template, as API servers count it for old clients.
fn template_generation(set: &DaemonSet) -> Option<&str> {
    let annotations = set.metadata.annotations.as_ref()?;
    annotations.get("deprecated.daemonset.template.generation").map(String::as_str)
}

/// The node that a pod is on or asks for.
pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    let spec = pod.spec.as_ref()?;
    if let Some(name) = spec.node_name.as_deref().filter(|name| !name.is_empty()) {
        return Some(name);
    }
    let affinity = spec.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let mut fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let field = fields.find(|field| field.key == NODE_NAME && field.operator == "In")?;
    field.values.as_ref()?.first().map(String::as_str)
}

/// Whether a pod is bound to its node.
pub(crate) fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|name| !name.is_empty())
}
