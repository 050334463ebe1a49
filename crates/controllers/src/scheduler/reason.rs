//! Why a pod is on no node: one list of reasons a node, and the message that users know.
//!
//! Source of the words: messages of `FailedScheduling` of Kubernetes 1.36.

use std::collections::BTreeMap;

use lifecycle::Obstacle;

use super::occasions::Occasions;

/// One thing that keeps a pod from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// What the node itself would say.
    Node(Obstacle),
    /// Required node affinity names other nodes.
    NotNamed,
    /// The node has not the label by which pods are to be spread.
    NoSpreadLabel,
    /// There would be too many pods here.
    Spread,
    /// A pod that is there already wants none like this near.
    Unwelcome,
    /// None of those are here whom the pod must be near.
    Alone,
    /// Some of those are here whom the pod must not be near.
    NotApart,
    /// Another pod has the claim for itself.
    ClaimInUse,
    /// A volume of the pod is elsewhere.
    VolumeElsewhere,
    /// A claim cannot be fulfilled here.
    NoVolume,
    /// A claim names a volume that does not exist.
    VolumeMissing,
}

impl Reason {
    fn text(&self) -> String {
        match self {
            Self::Node(obstacle) => return obstacle.reason(),
            Self::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::NoSpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::Unwelcome => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::Alone => "node(s) didn't match pod affinity rules",
            Self::NotApart => "node(s) didn't match pod anti-affinity rules",
            Self::ClaimInUse => {
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            }
            Self::VolumeElsewhere => "node(s) didn't match PersistentVolume's node affinity",
            Self::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Self::VolumeMissing => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
        }
        .to_owned()
    }

    /// Whether it would go if pods of the node did.
    fn goes_with_others(&self) -> bool {
        match self {
            Self::Node(obstacle) => obstacle.goes_with_others(),
            Self::Spread | Self::Unwelcome | Self::NotApart | Self::ClaimInUse => true,
            Self::NotNamed
            | Self::NoSpreadLabel
            | Self::Alone
            | Self::VolumeElsewhere
            | Self::NoVolume
            | Self::VolumeMissing => false,
        }
    }

    /// What may take it away.
    fn helped_by(&self) -> Occasions {
        match self {
            Self::Node(Obstacle::Cordoned | Obstacle::Taint) => Occasions::NODE_TAINTS,
            Self::Node(Obstacle::OtherNode | Obstacle::NotWanted) | Self::NoSpreadLabel => {
                Occasions::NODE_LABELS
            }
            Self::Node(Obstacle::PortTaken) | Self::ClaimInUse => Occasions::POD_GONE,
            Self::Node(Obstacle::TooManyPods { .. } | Obstacle::Insufficient { .. }) => {
                Occasions::POD_GONE | Occasions::NODE_ROOM
            }
            Self::NotNamed => Occasions::NONE,
            Self::Spread => {
                Occasions::POD_PLACED
                    | Occasions::POD_GONE
                    | Occasions::LABELS
                    | Occasions::NODE_LABELS
                    | Occasions::NODE_TAINTS
            }
            Self::Unwelcome | Self::NotApart => {
                Occasions::POD_GONE | Occasions::LABELS | Occasions::NODE_LABELS
            }
            Self::Alone => Occasions::POD_PLACED | Occasions::LABELS | Occasions::NODE_LABELS,
            Self::VolumeElsewhere | Self::NoVolume => Occasions::VOLUMES | Occasions::NODE_LABELS,
            Self::VolumeMissing => Occasions::VOLUMES,
        }
    }
}

/// What is said of a pod that no node can take, and what may help it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The message.
    pub(super) message: String,
    /// What may help; a new node may always.
    pub(super) helped_by: Occasions,
    /// Another controller is about to help: it is said only if that does not come about.
    pub(super) may_pass: bool,
}

/// What is known of one node that cannot take a pod.
#[derive(Clone, Debug)]
pub(super) struct Unfit {
    /// Why not: at least one.
    pub(super) reasons: Vec<Reason>,
    /// Whether less important pods are there, which another scheduler would send away.
    pub(super) has_lesser_pods: bool,
}

/// There is no node at all.
pub(super) fn no_nodes() -> Refusal {
    Refusal {
        message: "no nodes available to schedule pods".to_owned(),
        helped_by: Occasions::NODE,
        may_pass: false,
    }
}

/// Every node was refused for the same reason, which is not one of nodes.
pub(super) fn not_yet(nodes: usize, why: &str) -> Refusal {
    let message = format!(
        "0/{nodes} nodes are available: {why}. no new claims to deallocate, preemption: 0/{nodes} nodes are available: \
         {nodes} {NOT_HELPFUL}."
    );
    Refusal { message, helped_by: Occasions::VOLUMES, may_pass: true }
}

const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";

/// What is said when no node fits.
pub(super) fn refusal(unfit: &[Unfit], may_preempt: bool) -> Refusal {
    let nodes = unfit.len();
    let mut helped_by = Occasions::NODE;
    let (mut reasons, mut preemption) = (BTreeMap::new(), BTreeMap::new());
    for node in unfit {
        for reason in &node.reasons {
            helped_by |= reason.helped_by();
            *reasons.entry(reason.text()).or_insert(0_usize) += 1;
        }
        let word = match (node.reasons.iter().all(Reason::goes_with_others), node.has_lesser_pods) {
            (false, _) => NOT_HELPFUL,
            (true, false) => "No preemption victims found for incoming pod",
            (true, true) => "Preemption is not done by this scheduler",
        };
        *preemption.entry(word.to_owned()).or_insert(0_usize) += 1;
    }
    let preemption = if may_preempt {
        format!("0/{nodes} nodes are available: {}", counted(&preemption))
    } else {
        "not eligible due to preemptionPolicy=Never".to_owned()
    };
    let message = format!(
        "0/{nodes} nodes are available: {}. no new claims to deallocate, preemption: {preemption}.",
        counted(&reasons)
    );
    Refusal { message, helped_by, may_pass: false }
}

/// `2 this, 1 that`, sorted as texts.
fn counted(reasons: &BTreeMap<String, usize>) -> String {
    let mut words: Vec<String> = reasons.iter().map(|(text, count)| format!("{count} {text}")).collect();
    words.sort();
    words.join(", ")
}
