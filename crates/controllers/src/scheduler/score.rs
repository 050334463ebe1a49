//! Which of the nodes that fit is the best: each view gives points from 0 to 100, and some views weigh more.

use k8s_openapi::api::core::v1::Node;

use super::affinity::Affinity;
use super::cluster::{Cluster, weights};
use super::spread::Spreading;
use super::wish::Wish;

/// Points of the best node in one view.
const MOST: i64 = 100;

/// Weights of the views, as Kubernetes has them.
mod weight {
    pub(super) const TAINTS: i64 = 3;
    pub(super) const NODE_AFFINITY: i64 = 2;
    pub(super) const SPREAD: i64 = 2;
    pub(super) const POD_AFFINITY: i64 = 2;
    pub(super) const ROOM: i64 = 1;
    pub(super) const BALANCE: i64 = 1;
    /// Pods of one controller go to different nodes.
    pub(super) const SIBLINGS: i64 = 2;
}

/// The best of the nodes that fit, by name; the first of several that are equally good. There is at least one.
pub(super) fn best<'c>(
    wish: &Wish,
    cluster: &'c Cluster,
    fitting: &[&'c str],
    affinity: &Affinity,
    spreading: &Spreading,
) -> &'c str {
    let [first, others @ ..] = fitting else { return "" };
    if others.is_empty() {
        return first;
    }
    let mut points = vec![0_i64; fitting.len()];
    let mut add = |weight: i64, view: Vec<i64>| {
        for (sum, points) in points.iter_mut().zip(view) {
            *sum += weight * points;
        }
    };
    let nodes: Vec<&Node> =
        fitting.iter().filter_map(|name| Some(&*cluster.nodes.get(*name)?.node)).collect();
    let each = |view: &dyn Fn(&Node) -> i64| nodes.iter().map(|node| view(node)).collect::<Vec<i64>>();
    add(weight::TAINTS, fewest(&each(&|node| disliked_taints(wish, node))));
    add(weight::NODE_AFFINITY, most(&each(&|node| preference(wish, node))));
    add(weight::POD_AFFINITY, between(&each(&|node| affinity.liking(node))));
    if spreading.compares() {
        add(weight::SPREAD, uncrowded(&nodes.iter().map(|node| spreading.crowd(node)).collect::<Vec<_>>()));
    } else if let Some(controller) = wish.controller() {
        let siblings = fitting.iter().map(|name| {
            let on = cluster.occupancy(name);
            on.and_then(|on| on.of_controller.get(controller)).copied().unwrap_or(0)
        });
        add(weight::SIBLINGS, fewest(&siblings.collect::<Vec<_>>()));
    }
    let used: Vec<[Option<(i128, i128)>; 2]> = fitting.iter().map(|name| used(wish, cluster, name)).collect();
    add(weight::ROOM, used.iter().map(room).collect());
    add(weight::BALANCE, used.iter().map(balance).collect());
    let pods = |name: &str| cluster.occupancy(name).map_or(0, |on| on.load.pods());
    let best = points.iter().zip(fitting).min_by_key(|(points, name)| (-**points, pods(name), **name));
    best.map_or(first, |(_, name)| name)
}

/// Taints that would rather have no such pod.
fn disliked_taints(wish: &Wish, node: &Node) -> i64 {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let tolerations = wish.pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let disliked = taints
        .filter(|taint| taint.effect == "PreferNoSchedule")
        .filter(|taint| !tolerations.iter().any(|toleration| lifecycle::tolerates(toleration, taint)));
    i64::try_from(disliked.count()).unwrap_or(i64::MAX)
}

/// The weights of the preferred terms that select the node.
fn preference(wish: &Wish, node: &Node) -> i64 {
    let affinity = wish.pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
    let preferred = affinity
        .into_iter()
        .flat_map(|affinity| affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten());
    let selecting = preferred.filter(|term| lifecycle::selects_node(&term.preference, node));
    selecting.map(|term| i64::from(term.weight)).sum()
}

/// What would be used of CPU and memory with the pod, and what there is.
fn used(wish: &Wish, cluster: &Cluster, node: &str) -> [Option<(i128, i128)>; 2] {
    let here = cluster.occupancy(node).map_or([0, 0], |on| on.weighed);
    let asked = weights(wish);
    let room = cluster.nodes.get(node).map(|state| &state.room);
    let one = |index: usize, name: &str| {
        let capacity = room.and_then(|room| room.get(name)).copied().filter(|capacity| *capacity > 0)?;
        Some((here[index].saturating_add(asked[index]).min(capacity), capacity))
    };
    [one(0, "cpu"), one(1, "memory")]
}

fn share(part: i128, whole: i128) -> i64 {
    i64::try_from(part.saturating_mul(i128::from(MOST)) / whole.max(1)).unwrap_or(MOST)
}

/// The more is left, the better.
fn room(used: &[Option<(i128, i128)>; 2]) -> i64 {
    let left: Vec<i64> =
        used.iter().flatten().map(|(used, capacity)| share(capacity - used, *capacity)).collect();
    let kinds = i64::try_from(left.len()).unwrap_or(1).max(1);
    left.iter().sum::<i64>() / kinds
}

/// The more alike the shares of CPU and memory that are used, the better.
fn balance(used: &[Option<(i128, i128)>; 2]) -> i64 {
    match used {
        [Some(cpu), Some(memory)] => MOST - (share(cpu.0, cpu.1) - share(memory.0, memory.1)).abs() / 2,
        _ => MOST,
    }
}

/// Points in proportion to the largest.
fn most(values: &[i64]) -> Vec<i64> {
    let largest = values.iter().copied().max().unwrap_or(0);
    let points = |value: &i64| if largest == 0 { 0 } else { value * MOST / largest };
    values.iter().map(points).collect()
}

/// The other way round: the largest gets nothing.
fn fewest(values: &[i64]) -> Vec<i64> {
    most(values).into_iter().map(|points| MOST - points).collect()
}

/// Points between the smallest and the largest.
fn between(values: &[i64]) -> Vec<i64> {
    let (least, largest) = (values.iter().min().copied(), values.iter().max().copied());
    let (Some(least), Some(largest)) = (least, largest) else { return Vec::new() };
    let points = |value: &i64| if largest == least { 0 } else { (value - least) * MOST / (largest - least) };
    values.iter().map(points).collect()
}

/// Points for little crowd; nodes that lack a label get none.
fn uncrowded(crowds: &[Option<f64>]) -> Vec<i64> {
    let known = || crowds.iter().flatten().copied();
    let largest = known().fold(0.0, f64::max);
    let least = known().fold(f64::INFINITY, f64::min);
    let points = |crowd: &Option<f64>| match crowd {
        None => 0,
        Some(_) if largest == 0.0 => MOST,
        #[allow(clippy::cast_possible_truncation, reason = "between 0 and 100")]
        Some(crowd) => (100.0 * (largest + least - crowd) / largest) as i64,
    };
    crowds.iter().map(points).collect()
}
