//! Whether a pod fits a node. The scheduler asks before it binds a pod; the node asks again before it takes one up that was
//! bound by somebody else, and refuses one that does not fit.
//!
//! | file | decides |
//! |---|---|
//! | `placement/claim.rs` | what a pod takes of a node |
//! | `placement/selection.rs` | node selectors, affinity, taints |

mod claim;
mod selection;

use k8s_openapi::api::core::v1::{Node, Pod};

pub use claim::{Amounts, Claim, HostPort, Load};
pub use selection::{is_wanted, selects_node, tolerates};

use claim::amount;

/// One thing that keeps a pod from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The node is marked as unschedulable.
    Cordoned,
    /// The pod names another node.
    OtherNode,
    /// A taint that the pod does not bear.
    Taint,
    /// Node selector or required affinity ask for another node.
    NotWanted,
    /// A port of the node is taken.
    PortTaken,
    /// There are as many pods as the node takes.
    TooManyPods {
        /// How many there are.
        used: i128,
        /// How many it takes.
        capacity: i128,
    },
    /// Too little of a resource is left.
    Insufficient {
        /// Its name.
        resource: String,
        /// What the pod requests, in thousandths for `cpu`.
        requested: i128,
        /// What others have requested.
        used: i128,
        /// What the node has.
        capacity: i128,
    },
}

impl Obstacle {
    /// The scheduler's words.
    pub fn reason(&self) -> String {
        match self {
            Self::Cordoned => "node(s) were unschedulable".to_owned(),
            Self::OtherNode => "node(s) didn't match the requested node name".to_owned(),
            Self::Taint => "node(s) had untolerated taint(s)".to_owned(),
            Self::NotWanted => "node(s) didn't match Pod's node affinity/selector".to_owned(),
            Self::PortTaken => "node(s) didn't have free ports for the requested pod ports".to_owned(),
            Self::TooManyPods { .. } => "Too many pods".to_owned(),
            Self::Insufficient { resource, .. } => format!("Insufficient {resource}"),
        }
    }

    /// Whether it would go if other pods did.
    pub fn goes_with_others(&self) -> bool {
        match self {
            Self::Cordoned | Self::OtherNode | Self::Taint | Self::NotWanted => false,
            Self::PortTaken | Self::TooManyPods { .. } => true,
            Self::Insufficient { requested, capacity, .. } => requested <= capacity,
        }
    }
}

/// What a node offers to pods.
pub fn allocatable(node: &Node) -> Amounts {
    let offered = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    offered.into_iter().flatten().map(|(name, quantity)| (name.clone(), amount(name, quantity))).collect()
}

/// What keeps `pod`, which takes `claim`, from `node`, which offers `room` ([`allocatable`]) and bears `load` already: everything
/// that the first check in the scheduler's order finds that finds something. Empty: it fits.
pub fn obstacles(pod: &Pod, claim: &Claim, node: &Node, room: &Amounts, load: &Load) -> Vec<Obstacle> {
    let named = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty());
    let single: [(Obstacle, &dyn Fn() -> bool); 5] = [
        (Obstacle::Cordoned, &|| selection::is_cordoned(pod, node)),
        (Obstacle::OtherNode, &|| named.is_some_and(|name| Some(name) != node.metadata.name.as_deref())),
        (Obstacle::Taint, &|| selection::is_kept_out(pod, node, &["NoSchedule", "NoExecute"])),
        (Obstacle::NotWanted, &|| !selection::is_wanted(pod, node)),
        (Obstacle::PortTaken, &|| load.has_port_of(claim)),
    ];
    match single.into_iter().find(|(_, is_there)| is_there()) {
        Some((obstacle, _)) => vec![obstacle],
        None => shortages(claim, room, load),
    }
}

/// Whether a taint of one of these effects keeps the pod out of the node.
pub fn is_kept_out(pod: &Pod, node: &Node, effects: &[&str]) -> bool {
    selection::is_kept_out(pod, node, effects)
}

/// What there is too little of.
fn shortages(claim: &Claim, room: &Amounts, load: &Load) -> Vec<Obstacle> {
    let mut found = Vec::new();
    let used = i128::try_from(load.pods()).unwrap_or(i128::MAX);
    if let Some(capacity) = room.get("pods").copied().filter(|capacity| used + 1 > *capacity) {
        found.push(Obstacle::TooManyPods { used, capacity });
    }
    // In the order in which the scheduler names them.
    let order = |name: &str| match name {
        "cpu" => 0,
        "memory" => 1,
        "ephemeral-storage" => 2,
        _ => 3,
    };
    let mut wanted: Vec<(&String, &i128)> = claim.requests.iter().collect();
    wanted.sort_by_key(|(name, _)| order(name));
    for (resource, requested) in wanted {
        if *requested <= 0 {
            continue;
        }
        let used = load.of(resource);
        // A node that does not say how much of one of the three it has is not known yet; it lacks what it does not name.
        let Some(capacity) = room.get(resource).copied().or((order(resource) == 3).then_some(0)) else {
            continue;
        };
        if used.saturating_add(*requested) > capacity {
            found.push(Obstacle::Insufficient {
                resource: resource.clone(),
                requested: *requested,
                used,
                capacity,
            });
        }
    }
    found
}

/// Why a node refuses a pod that was bound to it: the reason that the failed pod shows, and the message of the event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `OutOfcpu`, `NodeAffinity`, ...
    pub reason: String,
    /// What does not fit.
    pub message: String,
}

impl Refusal {
    /// The message of the failed pod.
    pub fn status_message(&self) -> String {
        format!("Pod was rejected: {}", self.message)
    }
}

/// Whether a node takes up a pod that was bound to it, where the `taken` run already. Of taints, only those that would drive
/// it away again count.
pub fn refusal(pod: &Pod, node: &Node, taken: &[&Claim]) -> Option<Refusal> {
    let predicate = |name: &str, obstacle: &Obstacle| Refusal {
        reason: name.to_owned(),
        message: format!("Predicate {name} failed: {}", obstacle.reason()),
    };
    let claim = Claim::of(pod);
    let mut load = Load::default();
    for other in taken {
        load.add(other);
    }
    if let Some(shortage) = shortages(&claim, &allocatable(node), &load).into_iter().next() {
        let (resource, requested, used, capacity) = match shortage {
            Obstacle::Insufficient { resource, requested, used, capacity } => {
                (resource, requested, used, capacity)
            }
            Obstacle::TooManyPods { used, capacity } => ("pods".to_owned(), 1, used, capacity),
            Obstacle::Cordoned
            | Obstacle::OtherNode
            | Obstacle::Taint
            | Obstacle::NotWanted
            | Obstacle::PortTaken => return None,
        };
        return Some(Refusal {
            reason: format!("OutOf{resource}"),
            message: format!(
                "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
            ),
        });
    }
    if !selection::is_wanted(pod, node) {
        return Some(predicate("NodeAffinity", &Obstacle::NotWanted));
    }
    if load.has_port_of(&claim) {
        return Some(predicate("NodePorts", &Obstacle::PortTaken));
    }
    selection::is_kept_out(pod, node, &["NoExecute"]).then(|| predicate("TaintToleration", &Obstacle::Taint))
}
