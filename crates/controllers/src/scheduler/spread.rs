//! How evenly the pods of a group are spread over zones, nodes or whatever else labels of nodes tell apart.
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/>.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;

use super::cluster::{Cluster, label};
use super::reason::Reason;
use super::tally::Group;
use super::wish::{HOSTNAME, NodePolicy, Spread, Wish};

/// One constraint, and how many pods are where.
#[derive(Debug)]
struct Counted {
    constraint: Spread,
    /// By value of the label, over the nodes that count.
    domains: BTreeMap<String, i64>,
}

/// The constraints of one pod in the cluster as it is.
#[derive(Debug, Default)]
pub(super) struct Spreading {
    hard: Vec<Counted>,
    soft: Vec<Counted>,
}

fn group(constraint: &Spread) -> Group {
    Group { terms: vec![constraint.term.clone()], living: true }
}

/// The groups whose counts are needed.
pub(super) fn groups(wish: &Wish) -> Vec<Group> {
    wish.spread.iter().map(group).collect()
}

impl Spreading {
    pub(super) fn of(wish: &Wish, cluster: &Cluster) -> Self {
        let mut spreading = Self::default();
        if wish.spread.is_empty() {
            return spreading;
        }
        for constraint in &wish.spread {
            // A node that lacks a label of one of the constraints counts for none of its kind.
            let has_all_labels = |node: &Node| {
                let alike = wish.spread.iter().filter(|other| other.is_hard == constraint.is_hard);
                alike.into_iter().all(|other| label(node, &other.topology).is_some())
            };
            let counts = |node: &Node| {
                has_all_labels(node)
                    && (constraint.node_affinity == NodePolicy::Ignore
                        || lifecycle::is_wanted(&wish.pod, node))
                    && (constraint.node_taints == NodePolicy::Ignore
                        || !lifecycle::is_kept_out(&wish.pod, node, &["NoSchedule", "NoExecute"]))
            };
            let pods = cluster.tally.of(&group(constraint));
            let mut domains = BTreeMap::new();
            for (name, state) in cluster.nodes.iter().filter(|(_, state)| counts(&state.node)) {
                let Some(value) = label(&state.node, &constraint.topology) else { continue };
                let here = pods.and_then(|pods| pods.get(name)).copied().unwrap_or(0);
                *domains.entry(value.to_owned()).or_insert(0) += here;
            }
            let counted = Counted { constraint: constraint.clone(), domains };
            if constraint.is_hard {
                spreading.hard.push(counted);
            } else {
                spreading.soft.push(counted);
            }
        }
        spreading
    }

    /// What keeps the pod from a node.
    pub(super) fn obstacle(&self, node: &Node) -> Option<Reason> {
        for counted in &self.hard {
            let constraint = &counted.constraint;
            let Some(value) = label(node, &constraint.topology) else {
                return Some(Reason::NoSpreadLabel);
            };
            let domains = i64::try_from(counted.domains.len()).unwrap_or(i64::MAX);
            let least = if domains < constraint.min_domains {
                0
            } else {
                counted.domains.values().copied().min().unwrap_or(0)
            };
            let here = counted.domains.get(value).copied().unwrap_or(0);
            if here + i64::from(constraint.counts_itself) - least > constraint.max_skew {
                return Some(Reason::Spread);
            }
        }
        None
    }

    /// Whether there is anything to compare nodes by.
    pub(super) fn compares(&self) -> bool {
        !self.soft.is_empty()
    }

    /// How full the domains of a node are; less is better. Nothing for a node that lacks a label.
    pub(super) fn crowd(&self, node: &Node) -> Option<f64> {
        let mut sum = 0.0;
        for counted in &self.soft {
            let value = label(node, &counted.constraint.topology)?;
            let here = counted.domains.get(value).copied().unwrap_or(0);
            // With more domains there are fewer pods in each: a difference weighs more.
            #[allow(clippy::cast_precision_loss, reason = "numbers of pods and of nodes")]
            let (here, domains) = (here as f64, counted.domains.len() as f64);
            #[allow(clippy::cast_precision_loss, reason = "a 32-bit number")]
            let skew = (counted.constraint.max_skew - 1) as f64;
            let few = if counted.constraint.topology == HOSTNAME { 1.0 } else { 0.0 };
            sum += here * (domains + 2.0 + few).ln() + skew;
        }
        Some(sum)
    }
}
