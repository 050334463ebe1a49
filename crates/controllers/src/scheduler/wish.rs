//! A pod as the scheduler sees it: what it takes, where it may be, whom it wants near. Made once a pod and version.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, TopologySpreadConstraint};
use lifecycle::Claim;

use super::matching::{Labels, Namespaces, Selector, Term};

/// Node label of topologies that are single nodes.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

/// A group of pods, and what of nodes makes them near: the same value of this label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Near {
    pub(super) term: Term,
    pub(super) topology: String,
}

/// Whether nodes that a pod could not be on count for its spreading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodePolicy {
    /// They do not.
    Honor,
    /// They do.
    Ignore,
}

/// A constraint on how evenly pods are spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spread {
    pub(super) topology: String,
    pub(super) max_skew: i64,
    pub(super) min_domains: i64,
    /// The pods that are counted, in the pod's own namespace.
    pub(super) term: Term,
    /// Whether the pod itself is one of them.
    pub(super) counts_itself: bool,
    /// Whether it must hold (`DoNotSchedule`).
    pub(super) is_hard: bool,
    pub(super) node_affinity: NodePolicy,
    pub(super) node_taints: NodePolicy,
}

/// What a pod wants.
#[derive(Debug)]
pub(crate) struct Wish {
    /// The pod.
    pub(crate) pod: Arc<Pod>,
    pub(super) claim: Claim,
    /// Near whom it must be: required affinity.
    pub(super) near: Vec<Near>,
    /// Near whom it must not be.
    pub(super) apart: Vec<Near>,
    /// Near whom it would rather be, or not be (negative).
    pub(super) rather: Vec<(i64, Near)>,
    pub(super) spread: Vec<Spread>,
    /// If required node affinity names nodes: those.
    pub(super) pinned: Option<BTreeSet<String>>,
    /// Names of its claims of volumes; true for those that are made for the pod.
    pub(super) claims: Vec<(String, bool)>,
    /// Equal for pods that fit the same nodes.
    pub(super) shape: u64,
}

impl Wish {
    pub(crate) fn of(pod: Arc<Pod>) -> Self {
        let (namespace, labels) = (namespace(&pod), labels(&pod));
        let spec = pod.spec.as_ref();
        let affinity = spec.and_then(|spec| spec.affinity.as_ref());
        let near = |term: &PodAffinityTerm| near(term, namespace, &labels);
        let to = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
        let from = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
        let required_near = to
            .into_iter()
            .flat_map(|to| to.required_during_scheduling_ignored_during_execution.iter().flatten())
            .map(near)
            .collect();
        let apart = from
            .into_iter()
            .flat_map(|from| from.required_during_scheduling_ignored_during_execution.iter().flatten())
            .map(near)
            .collect();
        let liked = to
            .into_iter()
            .flat_map(|to| to.preferred_during_scheduling_ignored_during_execution.iter().flatten())
            .map(|one| (i64::from(one.weight), near(&one.pod_affinity_term)));
        let disliked = from
            .into_iter()
            .flat_map(|from| from.preferred_during_scheduling_ignored_during_execution.iter().flatten())
            .map(|one| (-i64::from(one.weight), near(&one.pod_affinity_term)));
        let rather = liked.chain(disliked).collect();
        let constraints = spec.iter().flat_map(|spec| spec.topology_spread_constraints.iter().flatten());
        let spread = constraints.map(|one| spread(one, namespace, &labels)).collect();
        let claim = Claim::of(&pod);
        let claims = claims(&pod);
        let shape = shape(&pod, &claim, &claims);
        let pinned = pinned(&pod);
        Self { claim, near: required_near, apart, rather, spread, pinned, claims, shape, pod }
    }

    pub(super) fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(crate) fn namespace(&self) -> &str {
        namespace(&self.pod)
    }

    pub(crate) fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn priority(&self) -> i32 {
        self.pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
    }

    pub(super) fn created(&self) -> Timestamp {
        self.pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
    }

    pub(super) fn is_going(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }

    /// UID of the object that made it.
    pub(super) fn controller(&self) -> Option<&str> {
        let owners = self.pod.metadata.owner_references.as_deref().unwrap_or_default();
        owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
    }
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

fn labels(pod: &Pod) -> Labels {
    pod.metadata.labels.clone().unwrap_or_default()
}

fn near(term: &PodAffinityTerm, namespace: &str, labels: &Labels) -> Near {
    let mut named: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
    if named.is_empty() && term.namespace_selector.is_none() {
        named.insert(namespace.to_owned());
    }
    let same = term.match_label_keys.as_deref().unwrap_or_default();
    let other = term.mismatch_label_keys.as_deref().unwrap_or_default();
    Near {
        term: Term {
            namespaces: Namespaces { named, selected: Selector::of(term.namespace_selector.as_ref()) },
            selector: Selector::of(term.label_selector.as_ref()).bound_to(labels, same, other),
        },
        topology: term.topology_key.clone(),
    }
}

fn spread(constraint: &TopologySpreadConstraint, namespace: &str, labels: &Labels) -> Spread {
    let same = constraint.match_label_keys.as_deref().unwrap_or_default();
    let selector = Selector::of(constraint.label_selector.as_ref()).bound_to(labels, same, &[]);
    let policy = |said: Option<&String>, usual| match said.map(String::as_str) {
        Some("Honor") => NodePolicy::Honor,
        Some("Ignore") => NodePolicy::Ignore,
        Some(_) | None => usual,
    };
    Spread {
        topology: constraint.topology_key.clone(),
        max_skew: i64::from(constraint.max_skew),
        min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
        counts_itself: selector.selects(labels),
        term: Term { namespaces: Namespaces::only(namespace), selector },
        is_hard: constraint.when_unsatisfiable == "DoNotSchedule",
        node_affinity: policy(constraint.node_affinity_policy.as_ref(), NodePolicy::Honor),
        node_taints: policy(constraint.node_taints_policy.as_ref(), NodePolicy::Ignore),
    }
}

/// The nodes that every term of required node affinity names, if all do.
fn pinned(pod: &Pod) -> Option<BTreeSet<String>> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let mut names = BTreeSet::new();
    for term in &required.node_selector_terms {
        let named = term
            .match_fields
            .iter()
            .flatten()
            .find(|one| one.key == "metadata.name" && one.operator == "In")?;
        names.extend(named.values.iter().flatten().cloned());
    }
    Some(names)
}

fn claims(pod: &Pod) -> Vec<(String, bool)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| {
            if let Some(claim) = &volume.persistent_volume_claim {
                return Some((claim.claim_name.clone(), false));
            }
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            volume.ephemeral.as_ref().map(|_| (format!("{name}-{}", volume.name), true))
        })
        .collect()
}

/// A digest of everything that decides where a pod fits.
fn shape(pod: &Pod, claim: &Claim, claims: &[(String, bool)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    namespace(pod).hash(&mut hasher);
    pod.metadata.labels.hash(&mut hasher);
    claims.hash(&mut hasher);
    for (name, amount) in &claim.requests {
        (name, amount).hash(&mut hasher);
    }
    for port in &claim.ports {
        (&port.protocol, &port.ip, port.port).hash(&mut hasher);
    }
    if let Some(spec) = &pod.spec {
        spec.node_selector.hash(&mut hasher);
        (spec.priority, &spec.preemption_policy).hash(&mut hasher);
        // The types of the API cannot be hashed, but written.
        let text =
            serde_json::to_string(&(&spec.affinity, &spec.tolerations, &spec.topology_spread_constraints));
        text.unwrap_or_default().hash(&mut hasher);
    }
    hasher.finish()
}
