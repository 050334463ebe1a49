//! One pod, all nodes, one verdict.

use std::sync::Arc;

use lifecycle::Load;

use super::affinity::{self, Affinity};
use super::cluster::Cluster;
use super::reason::{self, Reason, Refusal, Unfit};
use super::score;
use super::spread::{self, Spreading};
use super::volumes::{Fulfilment, Needs};
use super::wish::Wish;

/// Where a pod goes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    /// To this node, after these claims are fulfilled.
    To(Arc<str>, Vec<Fulfilment>),
    /// Nowhere.
    Nowhere(Refusal),
}

/// Decides about a pod. The cluster changes only in what it counts.
pub(super) fn decide(wish: &Wish, cluster: &mut Cluster) -> Verdict {
    if cluster.nodes.is_empty() {
        return Verdict::Nowhere(reason::no_nodes());
    }
    let needs = match cluster.volumes.needs(wish) {
        Ok(needs) => needs,
        Err(why) => return Verdict::Nowhere(reason::not_yet(cluster.nodes.len(), &why)),
    };
    for group in affinity::groups(wish).iter().chain(&spread::groups(wish)) {
        cluster.watch(group);
    }
    verdict(wish, cluster, &needs)
}

fn verdict(wish: &Wish, cluster: &Cluster, needs: &Needs) -> Verdict {
    let affinity = Affinity::of(wish, cluster);
    let spreading = Spreading::of(wish, cluster);
    let (mut fitting, mut unfit) = (Vec::new(), Vec::new());
    for name in cluster.nodes.keys() {
        let reasons = obstacles(wish, cluster, name, needs, &affinity, &spreading);
        if reasons.is_empty() {
            fitting.push(&**name);
        } else {
            let priorities = cluster.occupancy(name).map(|on| &on.priorities);
            let least = priorities.and_then(|priorities| priorities.keys().next());
            unfit.push(Unfit {
                reasons,
                has_lesser_pods: least.is_some_and(|least| *least < wish.priority()),
            });
        }
    }
    if fitting.is_empty() {
        let policy = wish.pod.spec.as_ref().and_then(|spec| spec.preemption_policy.as_deref());
        return Verdict::Nowhere(reason::refusal(&unfit, policy != Some("Never")));
    }
    let best = score::best(wish, cluster, &fitting, &affinity, &spreading);
    match cluster.nodes.get_key_value(best) {
        Some((name, state)) => {
            let fulfilments = cluster.volumes.fulfilments(needs, &state.node).unwrap_or_default();
            Verdict::To(Arc::clone(name), fulfilments)
        }
        None => Verdict::Nowhere(reason::no_nodes()),
    }
}

/// What the first check finds that finds something, in the scheduler's order.
fn obstacles(
    wish: &Wish,
    cluster: &Cluster,
    name: &str,
    needs: &Needs,
    affinity: &Affinity,
    spreading: &Spreading,
) -> Vec<Reason> {
    let Some(state) = cluster.nodes.get(name) else { return Vec::new() };
    if wish.pinned.as_ref().is_some_and(|names| !names.contains(name)) {
        return vec![Reason::NotNamed];
    }
    let empty = Load::default();
    let load = cluster.occupancy(name).map_or(&empty, |on| &on.load);
    let found = lifecycle::obstacles(&wish.pod, &wish.claim, &state.node, &state.room, load);
    if !found.is_empty() {
        return found.into_iter().map(Reason::Node).collect();
    }
    if needs.exclusive.iter().any(|claim| cluster.uses(&claim.namespace, &claim.name)) {
        return vec![Reason::ClaimInUse];
    }
    let found = cluster.volumes.obstacles(needs, &state.node);
    if !found.is_empty() {
        return found;
    }
    spreading.obstacle(&state.node).or_else(|| affinity.obstacle(&state.node)).into_iter().collect()
}
