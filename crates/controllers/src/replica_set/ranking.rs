//! Which pods of a controller that has too many are deleted. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/replicaset/#scaling-a-replicaset>

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::jiff::Timestamp;

use crate::pod_state::{is_active, is_ready, phase, ready_since};

/// What makes a pod cheaper or dearer to lose: a number, 0 where there is none.
pub(crate) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The pods to delete, so many, the first first. `related` are the pods, these among them, that should not share a node.
pub(crate) fn victims<'p>(
    pods: impl IntoIterator<Item = &'p Arc<Pod>>,
    related: &[Arc<Pod>],
    count: usize,
    now: Timestamp,
) -> Vec<Arc<Pod>> {
    let mut neighbours: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in related.iter().filter(|pod| is_active(pod)) {
        *neighbours.entry(node(pod)).or_default() += 1;
    }
    let mut ranked: Vec<Rank<'_>> = pods
        .into_iter()
        .map(|pod| Rank::of(pod, neighbours.get(node(pod)).copied().unwrap_or(0), now))
        .collect();
    ranked.sort();
    ranked.truncate(count);
    ranked.into_iter().map(|rank| Arc::clone(rank.pod)).collect()
}

fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// What decides about a pod, the most important first; the smallest goes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Worth {
    is_assigned: bool,
    phase: u8,
    is_ready: bool,
    cost: i32,
    neighbours: Reverse<usize>,
    /// Ages count by their order of magnitude only, so that not always the youngest have to go.
    ready_for: u32,
    restarts: Reverse<(i32, i32)>,
    age: u32,
}

struct Rank<'p> {
    worth: Worth,
    uid: &'p str,
    pod: &'p Arc<Pod>,
}

impl<'p> Rank<'p> {
    fn of(pod: &'p Arc<Pod>, neighbours: usize, now: Timestamp) -> Rank<'p> {
        let worth = Worth {
            is_assigned: !node(pod).is_empty(),
            phase: match phase(pod) {
                "Running" => 2,
                "Unknown" => 1,
                _ => 0,
            },
            is_ready: is_ready(pod),
            cost: cost(pod),
            neighbours: Reverse(neighbours),
            ready_for: magnitude(ready_since(pod), now),
            restarts: Reverse(restarts(pod)),
            age: magnitude(pod.metadata.creation_timestamp.as_ref().map(|time| time.0), now),
        };
        Rank { worth, uid: pod.metadata.uid.as_deref().unwrap_or_default(), pod }
    }
}

impl Ord for Rank<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.worth.cmp(&other.worth).then_with(|| self.uid.cmp(other.uid))
    }
}

impl PartialOrd for Rank<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Rank<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Rank<'_> {}

/// A cost that is no number costs nothing; the API refuses one.
fn cost(pod: &Pod) -> i32 {
    let told = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(DELETION_COST));
    told.and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// How often the container that was restarted most often was, and the same of init containers.
fn restarts(pod: &Pod) -> (i32, i32) {
    let most = |statuses: Option<&Vec<ContainerStatus>>| {
        statuses.into_iter().flatten().map(|status| status.restart_count).max().unwrap_or(0)
    };
    let status = pod.status.as_ref();
    (
        most(status.and_then(|status| status.container_statuses.as_ref())),
        most(status.and_then(|status| status.init_container_statuses.as_ref())),
    )
}

/// How long something lasts, as the number of binary digits of its nanoseconds; 0 for what has not begun.
fn magnitude(since: Option<Timestamp>, now: Timestamp) -> u32 {
    let Some(since) = since else { return 0 };
    let nanoseconds = now.duration_since(since).as_nanos().max(1);
    i128::BITS - nanoseconds.leading_zeros()
}
