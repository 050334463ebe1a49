//! Which pods nobody will ever end. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-garbage-collection> and the behaviour of
//! Kubernetes 1.36.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};

use crate::backends::{has_ended, node_name};

/// So many pods that have ended may stay.
pub(crate) const KEPT: usize = 12_500;
/// A node is away for so long before its pods are taken for lost.
pub(crate) const QUARANTINE: SignedDuration = SignedDuration::from_secs(40);
/// The taint by which people say that a node will not come back as it is.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Why a pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// It has ended, and there are too many like it.
    Ended,
    /// Its node is no more.
    NodeGone,
    /// Its node is out of service, and it is to end.
    OutOfService,
    /// It is to end, and no node has it.
    NeverScheduled,
}

impl Reason {
    /// What the pod's condition says of it, if it says something.
    pub(crate) fn message(self) -> Option<&'static str> {
        match self {
            Reason::NodeGone => Some("PodGC: node no longer exists"),
            Reason::OutOfService => Some("PodGC: node is out of service"),
            Reason::Ended | Reason::NeverScheduled => None,
        }
    }

    /// Whether the pod is marked as failed before it goes.
    pub(crate) fn fails(self) -> bool {
        match self {
            Reason::NodeGone | Reason::OutOfService | Reason::NeverScheduled => true,
            Reason::Ended => false,
        }
    }
}

/// What is to be done.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decision {
    /// The pods that go.
    pub(crate) remove: Vec<(Arc<Pod>, Reason)>,
    /// Since when each missing node that has pods is missing.
    pub(crate) missing: BTreeMap<String, Timestamp>,
    /// When to look again.
    pub(crate) again: Option<Timestamp>,
}

/// Decides about all pods. `missing` is what the last decision noted.
pub(crate) fn decide(
    pods: &[Arc<Pod>],
    nodes: &[Arc<Node>],
    missing: &BTreeMap<String, Timestamp>,
    kept: usize,
    now: Timestamp,
) -> Decision {
    let by_name: BTreeMap<&str, &Node> =
        nodes.iter().filter_map(|node| Some((node.metadata.name.as_deref()?, &**node))).collect();
    let mut decision = Decision::default();
    let mut ended: Vec<&Arc<Pod>> = Vec::new();
    for pod in pods {
        let is_going = pod.metadata.deletion_timestamp.is_some();
        match node_name(pod) {
            None if is_going => decision.remove.push((Arc::clone(pod), Reason::NeverScheduled)),
            None => {}
            Some(name) => match by_name.get(name) {
                None => {
                    let since = missing.get(name).copied().unwrap_or(now);
                    decision.missing.insert(name.to_owned(), since);
                    let due = since.checked_add(QUARANTINE).unwrap_or(Timestamp::MAX);
                    if due <= now {
                        decision.remove.push((Arc::clone(pod), Reason::NodeGone));
                        continue;
                    }
                    decision.again = Some(decision.again.map_or(due, |other| other.min(due)));
                }
                Some(node) if is_going && is_out_of_service(node) => {
                    decision.remove.push((Arc::clone(pod), Reason::OutOfService));
                    continue;
                }
                Some(_) => {}
            },
        }
        if has_ended(pod) && !is_going {
            ended.push(pod);
        }
    }
    let surplus = ended.len().saturating_sub(kept);
    if surplus > 0 {
        // Those that were evicted first, then the oldest.
        let is_evicted =
            |pod: &Pod| pod.status.as_ref().and_then(|status| status.reason.as_deref()) == Some("Evicted");
        ended.sort_by_key(|pod| {
            let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (!is_evicted(pod), created, pod.metadata.namespace.clone(), pod.metadata.name.clone())
        });
        decision.remove.extend(ended.into_iter().take(surplus).map(|pod| (Arc::clone(pod), Reason::Ended)));
    }
    decision
}

/// Whether a node is not ready and somebody said that it stays so.
fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions.into_iter().any(|one| one.type_ == "Ready" && one.status == "True");
    !is_ready && taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE)
}
