//! How many pods of each node belong to a group, kept as pods come and go: nobody counts all pods for each decision.
//!
//! A group is counted from when it is first asked for. The pods of one template ask for the same groups.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::matching::{NamespaceLabels, Term};
use super::wish::{Near, Wish};

/// Groups that are kept counted; the one that was asked for longest ago is dropped first.
const GROUPS: usize = 512;

/// Pods by node; nodes with none are left out.
pub(super) type ByNode = BTreeMap<Arc<str>, i64>;

/// Pods that all these terms cover.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) terms: Vec<Term>,
    /// Pods that are being deleted do not count.
    pub(super) living: bool,
}

impl Group {
    fn holds(&self, wish: &Wish, namespaces: &NamespaceLabels) -> bool {
        if self.living && wish.is_going() {
            return false;
        }
        let nothing = BTreeMap::new();
        let labels = wish.pod.metadata.labels.as_ref().unwrap_or(&nothing);
        self.terms.iter().all(|term| term.covers(wish.namespace(), labels, namespaces))
    }
}

/// What pods that are placed say about others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stance {
    /// They must not be near.
    Never,
    /// They are welcome, or not (negative), by so much.
    Rather(i64),
}

/// The counts.
#[derive(Debug, Default)]
pub(super) struct Tally {
    groups: BTreeMap<Group, ByNode>,
    asked: VecDeque<Group>,
    /// What placed pods say, and how many on each node say it.
    said: BTreeMap<(Stance, Near), ByNode>,
}

impl Tally {
    /// Counts a group from now on; `placed` are all pods with their nodes.
    pub(super) fn watch<'p>(
        &mut self,
        group: &Group,
        placed: impl Iterator<Item = (&'p Arc<Wish>, &'p Arc<str>)>,
        namespaces: &NamespaceLabels,
    ) {
        if self.groups.contains_key(group) {
            return;
        }
        let mut counts = ByNode::new();
        for (_, node) in placed.filter(|(wish, _)| group.holds(wish, namespaces)) {
            *counts.entry(Arc::clone(node)).or_default() += 1;
        }
        if self.asked.len() >= GROUPS
            && let Some(oldest) = self.asked.pop_front()
        {
            self.groups.remove(&oldest);
        }
        self.asked.push_back(group.clone());
        self.groups.insert(group.clone(), counts);
    }

    /// The pods of a group that was asked for.
    pub(super) fn of(&self, group: &Group) -> Option<&ByNode> {
        self.groups.get(group)
    }

    /// What placed pods say about others.
    pub(super) fn said(&self) -> impl Iterator<Item = (Stance, &Near, &ByNode)> {
        self.said.iter().map(|((stance, near), nodes)| (*stance, near, nodes))
    }

    /// A pod is on a node (`by` 1), or no longer (-1).
    pub(super) fn count(&mut self, wish: &Wish, node: &Arc<str>, by: i64, namespaces: &NamespaceLabels) {
        for (group, nodes) in &mut self.groups {
            if group.holds(wish, namespaces) {
                change(nodes, node, by);
            }
        }
        let never = wish.apart.iter().map(|near| (Stance::Never, near));
        // Whoever must be near others is a little glad of them.
        let glad = wish.near.iter().map(|near| (Stance::Rather(1), near));
        let rather = wish.rather.iter().map(|(weight, near)| (Stance::Rather(*weight), near));
        for (stance, near) in never.chain(glad).chain(rather) {
            let key = (stance, near.clone());
            let nodes = self.said.entry(key.clone()).or_default();
            change(nodes, node, by);
            if nodes.is_empty() {
                self.said.remove(&key);
            }
        }
    }

    /// The labels of a namespace have changed: what depends on them is counted anew when it is asked for.
    pub(super) fn forget_namespaces(&mut self) {
        let stays = |group: &Group| !group.terms.iter().any(|term| term.namespaces.asks_for_labels());
        self.groups.retain(|group, _| stays(group));
        self.asked.retain(stays);
    }
}

fn change(nodes: &mut ByNode, node: &Arc<str>, by: i64) {
    let count = nodes.entry(Arc::clone(node)).or_default();
    *count += by;
    if *count == 0 {
        nodes.remove(node);
    }
}
