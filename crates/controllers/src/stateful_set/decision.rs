//! What a StatefulSet needs done about its pods and claims, and what its status is. Pure.
//!
//! With `OrderedReady` one thing is done at a time: each pod waits until those before it are available, and goes after those
//! behind it. With `Parallel` all that is missing or too many is done at once. An update replaces pods from the highest
//! ordinal down; what is unavailable in any case costs nothing to replace.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/> and the behaviour of Kubernetes 1.36.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::identity::{self, spec};
use crate::deletion::Why;
use crate::pod_state::{available_from, has_ended, is_available, is_ready, next_available, phase, until};

/// What is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// The set.
    pub(crate) set: &'a StatefulSet,
    /// What its pods were made of up to now.
    pub(crate) current: &'a ControllerRevision,
    /// What its template is.
    pub(crate) update: &'a ControllerRevision,
    /// How many names of revisions were taken by others.
    pub(crate) collisions: Option<i32>,
    /// Its pods.
    pub(crate) pods: &'a [Arc<Pod>],
    /// The claims of its namespace that may be its own, by name.
    pub(crate) claims: &'a BTreeMap<String, Arc<PersistentVolumeClaim>>,
    /// The time.
    pub(crate) now: Timestamp,
}

/// Something to be done. They are done in their order; when one fails, the rest waits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Create a claim of this pod.
    CreateClaim { claim: Box<PersistentVolumeClaim>, pod: String },
    /// Create a pod.
    CreatePod(Box<Pod>),
    /// Delete a pod.
    DeletePod { pod: Arc<Pod>, why: Why },
    /// Write a pod whose labels were changed.
    UpdatePod(Box<Pod>),
    /// Write a claim that is to have other owners.
    UpdateClaim(Box<PersistentVolumeClaim>),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// In this order.
    pub(crate) actions: Vec<Action>,
    /// The status of the set.
    pub(crate) status: StatefulSetStatus,
    /// Something comes due without a change.
    pub(crate) look_again: Option<Duration>,
    /// A claim that is on its way out keeps a pod from being created.
    pub(crate) waits_for: Option<String>,
}

/// Decides.
pub(crate) fn decide(known: &Known<'_>) -> Decision {
    let mut turn = Turn::of(known);
    turn.go();
    turn.decision
}

/// Most pods that one turn creates: a set may ask for more than any machine can hold.
const MOST_CREATED: usize = 500;

struct Turn<'a> {
    known: &'a Known<'a>,
    /// The wanted ordinals with their pods, from the lowest: all that have one, and the first that lack one.
    wanted: Vec<(u32, Option<Arc<Pod>>)>,
    /// Pods that are not wanted, from the highest.
    unwanted: Vec<(u32, Arc<Pod>)>,
    ordered: bool,
    decision: Decision,
}

/// Whether the turn goes on to the next pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    On,
    Stop,
}

fn revision_name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn min_ready(set: &StatefulSet) -> i32 {
    spec(set).min_ready_seconds.unwrap_or(0)
}

fn count(pods: impl Iterator) -> i32 {
    i32::try_from(pods.count()).unwrap_or(i32::MAX)
}

impl<'a> Turn<'a> {
    fn of(known: &'a Known<'a>) -> Turn<'a> {
        let set = known.set;
        let range = identity::ordinals(set);
        let mut by_ordinal: BTreeMap<u32, Arc<Pod>> = known
            .pods
            .iter()
            .filter_map(|pod| Some((identity::ordinal_of(set, pod)?, Arc::clone(pod))))
            .collect();
        let mut unwanted = by_ordinal.clone();
        unwanted.retain(|ordinal, _| !range.contains(ordinal));
        let mut wanted = Vec::new();
        let mut missing = 0;
        for ordinal in range.clone() {
            let pod = by_ordinal.remove(&ordinal);
            missing += usize::from(pod.is_none());
            wanted.push((ordinal, pod));
            if missing == MOST_CREATED {
                break;
            }
        }
        let others = by_ordinal.into_iter().filter(|(ordinal, _)| range.contains(ordinal));
        wanted.extend(others.map(|(ordinal, pod)| (ordinal, Some(pod))));
        Turn {
            known,
            wanted,
            unwanted: unwanted.into_iter().rev().collect(),
            ordered: spec(set).pod_management_policy.as_deref() != Some("Parallel"),
            decision: Decision {
                actions: Vec::new(),
                status: StatefulSetStatus::default(),
                look_again: None,
                waits_for: None,
            },
        }
    }

    fn go(&mut self) {
        self.decision.status = self.status();
        if self.known.set.metadata.deletion_timestamp.is_some() {
            return;
        }
        self.give_claims_their_owners();
        for (ordinal, pod) in self.wanted.clone() {
            match self.keep(ordinal, pod) {
                Flow::On => {}
                Flow::Stop if self.ordered => return,
                Flow::Stop => {}
            }
        }
        let first_unhealthy = self.first_unhealthy();
        for (_, pod) in self.unwanted.clone() {
            match self.let_go(&pod, first_unhealthy.as_ref()) {
                Flow::On => {}
                Flow::Stop if self.ordered => return,
                Flow::Stop => {}
            }
        }
        self.roll();
    }

    fn is_available(&mut self, pod: &Pod) -> bool {
        let Some(from) = available_from(pod, min_ready(self.known.set)) else { return false };
        if from > self.known.now {
            let left = until(from, self.known.now);
            let soonest = self.decision.look_again.map_or(left, |soonest| soonest.min(left));
            self.decision.look_again = Some(soonest);
        }
        from <= self.known.now
    }

    /// Running, ready for long enough, and not on its way out.
    fn is_well(&mut self, pod: &Pod) -> bool {
        phase(pod) == "Running" && self.is_available(pod) && !is_leaving(pod)
    }

    /// Claims that are to go with the set or with a pod belong to it.
    fn give_claims_their_owners(&mut self) {
        let known = self.known;
        let wanted = self.wanted.iter().filter_map(|(ordinal, pod)| Some((*ordinal, pod.clone()?, true)));
        let unwanted = self.unwanted.iter().map(|(ordinal, pod)| (*ordinal, Arc::clone(pod), false));
        for (ordinal, pod, is_wanted) in wanted.chain(unwanted).collect::<Vec<_>>() {
            for name in identity::claim_names(known.set, ordinal) {
                let Some(claim) = known.claims.get(&name) else { continue };
                if let Some(claim) = identity::with_owner(known.set, &pod, is_wanted, claim) {
                    self.decision.actions.push(Action::UpdateClaim(Box::new(claim)));
                }
            }
        }
    }

    /// Sees to a pod that is wanted.
    fn keep(&mut self, ordinal: u32, pod: Option<Arc<Pod>>) -> Flow {
        let Some(pod) = pod else { return self.create(ordinal) };
        if has_ended(&pod) {
            if !is_leaving(&pod) {
                let why = if phase(&pod) == "Failed" { Why::Failed } else { Why::Ended };
                self.decision.actions.push(Action::DeletePod { pod, why });
            }
            // It is made again when it is gone.
            return Flow::Stop;
        }
        if phase(&pod) == "Pending" && !is_leaving(&pod) {
            // A claim that was deleted is made again, or the pod would wait for it for ever.
            self.create_claims(ordinal);
        }
        if !is_leaving(&pod) && !identity::has_labels(self.known.set, &pod, ordinal) {
            let mut labelled = Pod::clone(&pod);
            identity::set_labels(self.known.set, &mut labelled, ordinal);
            self.decision.actions.push(Action::UpdatePod(Box::new(labelled)));
        }
        if self.is_well(&pod) { Flow::On } else { Flow::Stop }
    }

    fn create(&mut self, ordinal: u32) -> Flow {
        let set = self.known.set;
        let name = identity::pod_name(set, ordinal);
        for claim in identity::claim_names(set, ordinal) {
            let Some(found) = self.known.claims.get(&claim) else { continue };
            if found.metadata.deletion_timestamp.is_some() || identity::is_stale(found, &name, None) {
                self.decision.waits_for = Some(claim);
                return Flow::Stop;
            }
        }
        self.create_claims(ordinal);
        let revision = if self.is_kept_back(ordinal) { self.known.current } else { self.known.update };
        let pod = identity::new_pod(set, revision, ordinal);
        self.decision.actions.push(Action::CreatePod(Box::new(pod)));
        Flow::Stop
    }

    fn create_claims(&mut self, ordinal: u32) {
        let set = self.known.set;
        for template in spec(set).volume_claim_templates.iter().flatten() {
            let claim = identity::new_claim(set, template, ordinal);
            if !self.known.claims.contains_key(claim.metadata.name.as_deref().unwrap_or_default()) {
                let pod = identity::pod_name(set, ordinal);
                self.decision.actions.push(Action::CreateClaim { claim: Box::new(claim), pod });
            }
        }
    }

    /// Where the part begins that an update reaches: the partition, counted from the first ordinal.
    fn first_updated(&self) -> u32 {
        let rolling =
            spec(self.known.set).update_strategy.as_ref().and_then(|one| one.rolling_update.as_ref());
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
        identity::ordinals(self.known.set).start.saturating_add(u32::try_from(partition).unwrap_or(0))
    }

    fn is_rolling(&self) -> bool {
        let strategy = spec(self.known.set).update_strategy.as_ref().and_then(|one| one.type_.as_deref());
        matches!(strategy, None | Some("RollingUpdate"))
    }

    /// Whether a new pod of this ordinal is still to be of the current revision.
    fn is_kept_back(&self, ordinal: u32) -> bool {
        self.is_rolling() && ordinal < self.first_updated()
    }

    fn first_unhealthy(&self) -> Option<Arc<Pod>> {
        let wanted = self.wanted.iter().filter_map(|(_, pod)| pod.as_ref());
        let unwanted = self.unwanted.iter().rev().map(|(_, pod)| pod);
        let is_healthy = |pod: &Pod| phase(pod) == "Running" && is_ready(pod) && !is_leaving(pod);
        wanted.chain(unwanted).find(|pod| !is_healthy(pod)).cloned()
    }

    /// Sees to a pod that is not wanted.
    fn let_go(&mut self, pod: &Arc<Pod>, first_unhealthy: Option<&Arc<Pod>>) -> Flow {
        if is_leaving(pod) {
            return Flow::Stop;
        }
        let is_first_unhealthy = first_unhealthy.is_some_and(|first| first.metadata.uid == pod.metadata.uid);
        if self.ordered && !is_first_unhealthy && !has_ended(pod) && !self.is_well(pod) {
            return Flow::Stop;
        }
        self.decision.actions.push(Action::DeletePod { pod: Arc::clone(pod), why: Why::Unwanted });
        Flow::Stop
    }

    /// How many pods of the part that is updated may be unavailable.
    fn most_unavailable(&self) -> usize {
        let rolling =
            spec(self.known.set).update_strategy.as_ref().and_then(|one| one.rolling_update.as_ref());
        let replicas = identity::ordinals(self.known.set).len();
        let most = match rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) {
            None => 1,
            Some(IntOrString::Int(number)) => usize::try_from(*number).unwrap_or(1),
            Some(IntOrString::String(text)) => {
                let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<usize>().ok());
                // Rounded down.
                percent.map_or(1, |percent| replicas.saturating_mul(percent) / 100)
            }
        };
        most.max(1)
    }

    /// Replaces pods of old revisions.
    fn roll(&mut self) {
        if !self.is_rolling() {
            return;
        }
        let (first, most) = (self.first_updated(), self.most_unavailable());
        let reached: Vec<Arc<Pod>> = self
            .wanted
            .iter()
            .filter(|(ordinal, _)| *ordinal >= first)
            .filter_map(|(_, pod)| pod.clone())
            .collect();
        let range = identity::ordinals(self.known.set);
        let mut unavailable = (first.max(range.start)..range.end).len().saturating_sub(reached.len());
        for pod in &reached {
            unavailable += usize::from(!self.is_well(pod));
        }
        // Unavailable pods above the one that is looked at: what is new has to come up first.
        let mut waited_for = 0;
        for pod in reached.iter().rev() {
            if waited_for >= most {
                return;
            }
            let is_well = self.is_well(pod);
            let is_old = identity::revision_of(pod) != revision_name(self.known.update);
            if is_old && !is_leaving(pod) && !has_ended(pod) && (!is_well || unavailable < most) {
                let why = Why::Outdated;
                self.decision.actions.push(Action::DeletePod { pod: Arc::clone(pod), why });
                unavailable += usize::from(is_well);
                waited_for += 1;
            } else if !is_well {
                waited_for += 1;
            }
        }
    }

    fn status(&mut self) -> StatefulSetStatus {
        let known = self.known;
        let (current, update) = (revision_name(known.current), revision_name(known.update));
        let pods: Vec<&Arc<Pod>> = self
            .wanted
            .iter()
            .filter_map(|(_, pod)| pod.as_ref())
            .chain(self.unwanted.iter().map(|(_, pod)| pod))
            .filter(|pod| !phase(pod).is_empty())
            .collect();
        let is_up = |pod: &&&Arc<Pod>| phase(pod) == "Running" && is_ready(pod);
        let of = |revision: &str| {
            count(pods.iter().filter(|pod| !is_leaving(pod) && identity::revision_of(pod) == revision))
        };
        let up: Vec<&Pod> = pods.iter().filter(is_up).map(|pod| &***pod).collect();
        let min_ready = min_ready(known.set);
        let available = count(up.iter().filter(|pod| is_available(pod, min_ready, known.now)));
        let look_again = next_available(up.iter().copied(), min_ready, known.now);
        let mut status = StatefulSetStatus {
            available_replicas: Some(available),
            collision_count: known.collisions,
            conditions: known.set.status.as_ref().and_then(|status| status.conditions.clone()),
            current_replicas: Some(of(current)),
            current_revision: Some(current.to_owned()),
            observed_generation: known.set.metadata.generation,
            ready_replicas: Some(count(up.iter())),
            replicas: count(pods.iter()),
            update_revision: Some(update.to_owned()),
            updated_replicas: Some(of(update)),
        };
        self.decision.look_again = look_again;
        let wanted = count(identity::ordinals(known.set));
        let is_complete = [Some(status.replicas), status.updated_replicas, status.ready_replicas]
            .iter()
            .all(|count| *count == Some(wanted));
        if self.is_rolling() && is_complete {
            // From now on the new revision is the current one.
            status.current_revision = status.update_revision.clone();
            status.current_replicas = status.updated_replicas;
        }
        status
    }
}
