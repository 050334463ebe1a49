//! Affinity between pods: whom a pod must be near, or not near, and who wants it near, or not.
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity>.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node;

use super::cluster::{Cluster, label};
use super::matching::Labels;
use super::reason::Reason;
use super::tally::{Group, Stance};
use super::wish::{Near, Wish};

/// Values of a node label, by the label.
type Domains = BTreeSet<(String, String)>;

/// What affinity means for one pod in the cluster as it is.
#[derive(Debug, Default)]
pub(super) struct Affinity {
    /// Where pods are that want none like this one near.
    unwelcome: Domains,
    /// Where those are whom the pod must not be near.
    avoided: Domains,
    /// Where those are whom the pod must be near.
    sought: Domains,
    /// The labels by which they are near.
    topologies: Vec<String>,
    /// There are none of those anywhere, but the pod is one of them: it is the first.
    is_first: bool,
    /// What is liked or disliked, by domain.
    liking: BTreeMap<(String, String), i64>,
}

/// The groups whose counts are needed.
pub(super) fn groups(wish: &Wish) -> Vec<Group> {
    let mut groups: Vec<Group> =
        wish.apart.iter().chain(wish.rather.iter().map(|(_, near)| near)).map(one).collect();
    if !wish.near.is_empty() {
        groups.push(all(wish));
    }
    groups
}

fn one(near: &Near) -> Group {
    Group { terms: vec![near.term.clone()], living: false }
}

/// Whoever a pod must be near is meant by all its terms.
fn all(wish: &Wish) -> Group {
    Group { terms: wish.near.iter().map(|near| near.term.clone()).collect(), living: false }
}

impl Affinity {
    pub(super) fn of(wish: &Wish, cluster: &Cluster) -> Self {
        let mut affinity = Self::default();
        let nothing = Labels::new();
        let labels = wish.pod.metadata.labels.as_ref().unwrap_or(&nothing);
        let is_meant = |near: &Near| near.term.covers(wish.namespace(), labels, &cluster.namespaces);
        for (stance, near, nodes) in cluster.tally.said() {
            if !is_meant(near) {
                continue;
            }
            for (value, count) in cluster.by_domain(nodes, &near.topology) {
                let domain = (near.topology.clone(), value.to_owned());
                match stance {
                    Stance::Never => {
                        affinity.unwelcome.insert(domain);
                    }
                    Stance::Rather(weight) => {
                        *affinity.liking.entry(domain).or_default() += weight * count;
                    }
                }
            }
        }
        for near in &wish.apart {
            affinity.avoided.extend(domains(cluster, &one(near), &near.topology));
        }
        for (weight, near) in &wish.rather {
            let Some(nodes) = cluster.tally.of(&one(near)) else { continue };
            for (value, count) in cluster.by_domain(nodes, &near.topology) {
                let domain = (near.topology.clone(), value.to_owned());
                *affinity.liking.entry(domain).or_default() += weight * count;
            }
        }
        if !wish.near.is_empty() {
            let group = all(wish);
            affinity.topologies = wish.near.iter().map(|near| near.topology.clone()).collect();
            for topology in &affinity.topologies {
                affinity.sought.extend(domains(cluster, &group, topology));
            }
            affinity.is_first = affinity.sought.is_empty() && wish.near.iter().all(is_meant);
        }
        affinity
    }

    /// What keeps the pod from a node.
    pub(super) fn obstacle(&self, node: &Node) -> Option<Reason> {
        let is_near = |topology: &String| {
            label(node, topology).is_some_and(|value| {
                self.is_first || self.sought.contains(&(topology.clone(), value.to_owned()))
            })
        };
        if !self.topologies.iter().all(is_near) {
            return Some(Reason::Alone);
        }
        if self.avoided.iter().any(|(topology, value)| label(node, topology) == Some(value)) {
            return Some(Reason::NotApart);
        }
        let is_unwelcome =
            self.unwelcome.iter().any(|(topology, value)| label(node, topology) == Some(value));
        is_unwelcome.then_some(Reason::Unwelcome)
    }

    /// How much the pod is wanted on a node, or wants to be there.
    pub(super) fn liking(&self, node: &Node) -> i64 {
        let here = self.liking.iter().filter(|((topology, value), _)| label(node, topology) == Some(value));
        here.map(|(_, liking)| liking).sum()
    }
}

fn domains(cluster: &Cluster, group: &Group, topology: &str) -> Domains {
    let Some(nodes) = cluster.tally.of(group) else { return Domains::new() };
    let domains = cluster.by_domain(nodes, topology);
    domains.into_keys().map(|value| (topology.to_owned(), value.to_owned())).collect()
}
