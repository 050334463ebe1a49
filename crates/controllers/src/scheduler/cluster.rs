//! The nodes and what is on them, as the scheduler knows them; changes cost as much as they change.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use lifecycle::{Amounts, Load};

use super::matching::{Labels, NamespaceLabels};
use super::occasions::Occasions;
use super::tally::{ByNode, Group, Tally};
use super::volumes::Volumes;
use super::wish::Wish;

/// What a pod that asks for nothing counts when nodes are compared: a tenth of a CPU, and 200 MiB.
const USUAL: [(&str, i128); 2] = [("cpu", 100), ("memory", 200 << 20)];

/// A node.
#[derive(Debug)]
pub(super) struct NodeState {
    /// Its object.
    pub(super) node: Arc<Node>,
    /// What it offers.
    pub(super) room: Amounts,
}

/// What is on a node, whether the node is known or not.
#[derive(Debug, Default)]
pub(super) struct Occupancy {
    pub(super) load: Load,
    /// Of CPU and memory, where pods that ask for none count as usual ones.
    pub(super) weighed: [i128; 2],
    /// Pods by priority.
    pub(super) priorities: BTreeMap<i32, usize>,
    /// Pods by the UID of what made them.
    pub(super) of_controller: BTreeMap<String, i64>,
}

/// What there is.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    pub(super) nodes: BTreeMap<Arc<str>, NodeState>,
    occupancy: HashMap<Arc<str>, Occupancy>,
    placed: HashMap<String, (Arc<Wish>, Arc<str>)>,
    /// How many placed pods use a claim.
    claim_users: BTreeMap<(String, String), usize>,
    pub(super) namespaces: NamespaceLabels,
    pub(super) tally: Tally,
    pub(super) volumes: Volumes,
    /// Changes with everything that a decision may depend on.
    pub(super) version: u64,
}

impl Cluster {
    /// A node is there or has changed.
    pub(super) fn see_node(&mut self, node: Arc<Node>) -> Occasions {
        let name: Arc<str> = node.metadata.name.as_deref().unwrap_or_default().into();
        let room = lifecycle::allocatable(&node);
        let occasions = match self.nodes.get(&name) {
            None => Occasions::NODE,
            Some(before) => differences(before, &node, &room),
        };
        self.nodes.insert(name, NodeState { node, room });
        if occasions != Occasions::NONE {
            self.version += 1;
        }
        occasions
    }

    /// A node is gone.
    pub(super) fn forget_node(&mut self, name: &str) -> Occasions {
        self.version += 1;
        self.nodes.remove(name);
        // Where pods are to be spread evenly, it no longer counts.
        Occasions::NODE_LABELS
    }

    /// A pod is on a node, or is assumed to be.
    pub(super) fn place(&mut self, wish: Arc<Wish>, node: &str) {
        self.version += 1;
        let node: Arc<str> = match self.nodes.get_key_value(node) {
            Some((name, _)) => Arc::clone(name),
            None => node.into(),
        };
        let on = self.occupancy.entry(Arc::clone(&node)).or_default();
        on.load.add(&wish.claim);
        on.weigh(&wish, 1);
        *on.priorities.entry(wish.priority()).or_default() += 1;
        if let Some(controller) = wish.controller() {
            *on.of_controller.entry(controller.to_owned()).or_default() += 1;
        }
        for (claim, _) in &wish.claims {
            *self.claim_users.entry((wish.namespace().to_owned(), claim.clone())).or_default() += 1;
        }
        self.tally.count(&wish, &node, 1, &self.namespaces);
        self.placed.insert(wish.uid().to_owned(), (wish, node));
    }

    /// A pod is on no node any more. Answers where it was.
    pub(super) fn take_away(&mut self, uid: &str) -> Option<(Arc<Wish>, Arc<str>)> {
        let (wish, node) = self.placed.remove(uid)?;
        self.version += 1;
        if let Some(on) = self.occupancy.get_mut(&node) {
            on.load.remove(&wish.claim);
            on.weigh(&wish, -1);
            decrease(&mut on.priorities, &wish.priority());
            if let Some(controller) = wish.controller()
                && let Some(count) = on.of_controller.get_mut(controller)
            {
                *count -= 1;
                if *count == 0 {
                    on.of_controller.remove(controller);
                }
            }
            if on.load.pods() == 0 {
                self.occupancy.remove(&node);
            }
        }
        for (claim, _) in &wish.claims {
            decrease(&mut self.claim_users, &(wish.namespace().to_owned(), claim.clone()));
        }
        self.tally.count(&wish, &node, -1, &self.namespaces);
        Some((wish, node))
    }

    /// Where a pod is.
    pub(super) fn node_of(&self, uid: &str) -> Option<(&Arc<Wish>, &Arc<str>)> {
        self.placed.get(uid).map(|(wish, node)| (wish, node))
    }

    /// A namespace is as told; gone without labels.
    pub(super) fn see_namespace(&mut self, name: &str, labels: Option<Labels>) -> Occasions {
        if self.namespaces.get(name) == labels.as_ref() {
            return Occasions::NONE;
        }
        self.version += 1;
        match labels {
            Some(labels) => self.namespaces.insert(name.to_owned(), labels),
            None => self.namespaces.remove(name),
        };
        self.tally.forget_namespaces();
        Occasions::LABELS
    }

    /// What is on a node.
    pub(super) fn occupancy(&self, node: &str) -> Option<&Occupancy> {
        self.occupancy.get(node)
    }

    /// Whether a placed pod uses a claim.
    pub(super) fn uses(&self, namespace: &str, claim: &str) -> bool {
        self.claim_users.contains_key(&(namespace.to_owned(), claim.to_owned()))
    }

    /// Begins to count a group, if that is not done yet.
    pub(super) fn watch(&mut self, group: &Group) {
        let placed = self.placed.values().map(|(wish, node)| (wish, node));
        self.tally.watch(group, placed, &self.namespaces);
    }

    /// The value of a node's label.
    pub(super) fn label(&self, node: &str, key: &str) -> Option<&str> {
        label(&self.nodes.get(node)?.node, key)
    }

    /// Sums counts of nodes over the values of a label; nodes without it do not count.
    pub(super) fn by_domain<'c>(&'c self, nodes: &ByNode, topology: &str) -> BTreeMap<&'c str, i64> {
        let mut domains = BTreeMap::new();
        for (node, count) in nodes {
            if let Some(value) = self.label(node, topology) {
                *domains.entry(value).or_insert(0) += count;
            }
        }
        domains
    }
}

impl Occupancy {
    fn weigh(&mut self, wish: &Wish, by: i128) {
        for (sum, asked) in self.weighed.iter_mut().zip(weights(wish)) {
            *sum = sum.saturating_add(asked.saturating_mul(by));
        }
    }
}

/// What a pod counts when nodes are compared, of CPU and memory.
pub(super) fn weights(wish: &Wish) -> [i128; 2] {
    USUAL.map(|(name, usual)| match wish.claim.requests.get(name) {
        Some(asked) if *asked > 0 => *asked,
        Some(_) | None => usual,
    })
}

/// The value of a label.
pub(super) fn label<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn decrease<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// What the change of a node may help.
fn differences(before: &NodeState, node: &Node, room: &Amounts) -> Occasions {
    let mut occasions = Occasions::NONE;
    if before.node.metadata.labels != node.metadata.labels {
        occasions |= Occasions::NODE_LABELS;
    }
    if before.node.spec != node.spec {
        occasions |= Occasions::NODE_TAINTS;
    }
    if before.room != *room {
        occasions |= Occasions::NODE_ROOM;
    }
    occasions
}
