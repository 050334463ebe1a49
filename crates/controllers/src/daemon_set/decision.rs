//! What a DaemonSet needs done about its pods, and what its status is. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/>,
//! <https://kubernetes.io/docs/tasks/manage-daemon/update-daemon-set/> and the behaviour of Kubernetes 1.36.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::REVISION;
use super::placement::{Suits, is_bound, node_of, suits};
use crate::deletion::Why;
use crate::pod_state::{is_available, is_ready, next_available, phase};

/// What is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// The set.
    pub(crate) set: &'a DaemonSet,
    /// The hash of its template.
    pub(crate) hash: &'a str,
    /// How many names of revisions were taken by others.
    pub(crate) collisions: Option<i32>,
    /// Its pods.
    pub(crate) pods: &'a [Arc<Pod>],
    /// All nodes.
    pub(crate) nodes: &'a [Arc<Node>],
    /// The time.
    pub(crate) now: Timestamp,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    /// Pods that go.
    pub(crate) deletions: Vec<(Arc<Pod>, Why)>,
    /// Nodes that get a pod.
    pub(crate) creations: Vec<String>,
    /// The status of the set.
    pub(crate) status: DaemonSetStatus,
    /// Something comes due without a change.
    pub(crate) look_again: Option<Duration>,
}

/// Most pods that one turn creates or deletes.
const BURST: usize = 250;

/// Decides.
pub(crate) fn decide(known: &Known<'_>) -> Decision {
    let turn = Turn::of(known);
    let mut decision =
        Decision { deletions: Vec::new(), creations: Vec::new(), status: turn.status(), look_again: None };
    let up = known.pods.iter().filter(|pod| !is_leaving(pod)).map(|pod| &**pod);
    decision.look_again = next_available(up, turn.min_ready, known.now);
    let has_selector = known.set.spec.as_ref().is_some_and(|spec| {
        let selector = &spec.selector;
        selector.match_labels.as_ref().is_some_and(|labels| !labels.is_empty())
            || selector.match_expressions.as_ref().is_some_and(|expressions| !expressions.is_empty())
    });
    if known.set.metadata.deletion_timestamp.is_some() || !has_selector {
        return decision;
    }
    turn.settle(&mut decision);
    turn.roll(&mut decision);
    decision.deletions.truncate(BURST);
    decision.creations.truncate(BURST);
    decision
}

fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn count(items: impl Iterator) -> i32 {
    i32::try_from(items.count()).unwrap_or(i32::MAX)
}

struct Turn<'a> {
    known: &'a Known<'a>,
    /// Each node with what it is to the set and its pods, those that are bound first and then the oldest.
    places: BTreeMap<&'a str, (Suits, Vec<&'a Arc<Pod>>)>,
    /// Pods that ask for a node that does not exist, and are on none.
    stray: Vec<&'a Arc<Pod>>,
    min_ready: i32,
    /// How many nodes are to have a pod.
    wanted: usize,
    surge: usize,
    unavailable: usize,
}

impl<'a> Turn<'a> {
    fn of(known: &'a Known<'a>) -> Turn<'a> {
        let mut places: BTreeMap<&str, (Suits, Vec<&Arc<Pod>>)> = known
            .nodes
            .iter()
            .filter_map(|node| Some((node.metadata.name.as_deref()?, (suits(known.set, node), Vec::new()))))
            .collect();
        let mut stray = Vec::new();
        for pod in known.pods {
            match node_of(pod).and_then(|node| places.get_mut(node)) {
                Some((_, pods)) => pods.push(pod),
                // Those that were on a node are removed by who clears up after nodes.
                None if is_bound(pod) => {}
                None => stray.push(pod),
            }
        }
        for (_, pods) in places.values_mut() {
            pods.sort_by_key(|pod| {
                let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
                (!is_bound(pod), created, pod.metadata.name.clone())
            });
        }
        let wanted = places.values().filter(|(suits, _)| *suits == Suits::Yes).count();
        let spec = known.set.spec.as_ref();
        let rolling = spec
            .and_then(|spec| spec.update_strategy.as_ref())
            .and_then(|strategy| strategy.rolling_update.as_ref());
        let of = |amount: Option<&IntOrString>| amount.map(|amount| part_of(amount, wanted));
        let surge = of(rolling.and_then(|rolling| rolling.max_surge.as_ref())).unwrap_or(0);
        let unavailable = of(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()));
        let unavailable = match (unavailable, surge) {
            (None | Some(0), 0) => 1,
            (None, _) => 0,
            (Some(unavailable), _) => unavailable,
        };
        let min_ready = spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        Turn { known, places, stray, min_ready, wanted, surge, unavailable }
    }

    fn is_available(&self, pod: &Pod) -> bool {
        is_available(pod, self.min_ready, self.known.now)
    }

    fn is_new(&self, pod: &Pod) -> bool {
        let labels = pod.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(REVISION)).is_some_and(|hash| hash == self.known.hash)
    }

    /// Gives each node the pods that it is to have.
    fn settle(&self, decision: &mut Decision) {
        let unwanted = |pod: &Arc<Pod>| (Arc::clone(pod), Why::Unwanted);
        decision.deletions.extend(self.stray.iter().filter(|pod| !is_leaving(pod)).map(|pod| unwanted(pod)));
        for (node, (suits, pods)) in &self.places {
            let staying = || pods.iter().copied().filter(|pod| !is_leaving(pod));
            match suits {
                Suits::No => {
                    decision.deletions.extend(staying().map(unwanted));
                    continue;
                }
                // One that is on its way out is waited for.
                Suits::Yes if pods.is_empty() => decision.creations.push((*node).to_owned()),
                Suits::Yes | Suits::OnlyOld => {}
            }
            let mut running = Vec::new();
            for pod in staying() {
                match phase(pod) {
                    "Failed" => decision.deletions.push((Arc::clone(pod), Why::Failed)),
                    "Succeeded" => decision.deletions.push((Arc::clone(pod), Why::Ended)),
                    _ => running.push(pod),
                }
            }
            decision.deletions.extend(self.too_many(&running).into_iter().map(unwanted));
        }
    }

    /// Which of the pods of a node are too many: all but the first, or with a surge all but the first of the new and the first of
    /// the old, which goes when the new one is available.
    fn too_many(&self, running: &[&'a Arc<Pod>]) -> Vec<&'a Arc<Pod>> {
        if self.surge == 0 {
            return running.iter().skip(1).copied().collect();
        }
        let (new, old): (Vec<&Arc<Pod>>, Vec<&Arc<Pod>>) = running.iter().partition(|pod| self.is_new(pod));
        let mut too_many: Vec<&Arc<Pod>> = new.iter().skip(1).chain(old.iter().skip(1)).copied().collect();
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!is_ready(old) || self.is_available(new))
        {
            too_many.push(old);
        }
        too_many
    }

    /// Replaces pods of old revisions.
    fn roll(&self, decision: &mut Decision) {
        let strategy = self.known.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        if strategy
            .and_then(|strategy| strategy.type_.as_deref())
            .is_some_and(|type_| type_ != "RollingUpdate")
        {
            return;
        }
        let gone: Vec<Option<String>> =
            decision.deletions.iter().map(|(pod, _)| pod.metadata.uid.clone()).collect();
        let mut unavailable = 0_usize;
        let mut surging = 0_usize;
        // What costs nothing, and what costs a pod that works.
        let mut free: Vec<(&str, &Arc<Pod>)> = Vec::new();
        let mut dear = Vec::new();
        for (node, (suits, pods)) in &self.places {
            // Where no new pod may come, the old one is better than none.
            if *suits != Suits::Yes {
                continue;
            }
            let staying: Vec<&Arc<Pod>> = pods.iter().copied().filter(|pod| !is_leaving(pod)).collect();
            let (new, old): (Vec<&Arc<Pod>>, Vec<&Arc<Pod>>) =
                staying.into_iter().partition(|pod| self.is_new(pod));
            match (new.as_slice(), old.as_slice()) {
                ([], [old]) if !gone.contains(&old.metadata.uid) => {
                    let place = if self.is_available(old) { &mut dear } else { &mut free };
                    place.push((node, old));
                }
                ([new], []) => unavailable += usize::from(!self.is_available(new)),
                ([new], [_]) => surging += usize::from(!self.is_available(new)),
                // There is something to settle first.
                (_, _) => unavailable += 1,
            }
        }
        if self.surge == 0 {
            let left = self.unavailable.saturating_sub(unavailable);
            let old = free.into_iter().chain(dear.into_iter().take(left));
            decision.deletions.extend(old.map(|(_, pod)| (Arc::clone(pod), Why::Outdated)));
        } else {
            let left = self.surge.saturating_sub(surging);
            let nodes = free.into_iter().chain(dear.into_iter().take(left));
            decision.creations.extend(nodes.map(|(node, _)| node.to_owned()));
        }
    }

    fn status(&self) -> DaemonSetStatus {
        let mut status = DaemonSetStatus {
            collision_count: self.known.collisions,
            conditions: self.known.set.status.as_ref().and_then(|status| status.conditions.clone()),
            desired_number_scheduled: count(0..self.wanted),
            observed_generation: self.known.set.metadata.generation,
            ..DaemonSetStatus::default()
        };
        let (mut updated, mut available) = (0, 0);
        for (suits, pods) in self.places.values() {
            // With a surge the pod that works counts.
            let pod = pods
                .iter()
                .filter(|pod| !is_leaving(pod))
                .max_by_key(|pod| (self.is_available(pod), is_ready(pod), self.is_new(pod)));
            match (suits, pod.or(pods.first())) {
                (_, None) => {}
                (Suits::No | Suits::OnlyOld, Some(_)) => status.number_misscheduled += 1,
                (Suits::Yes, Some(pod)) => {
                    status.current_number_scheduled += 1;
                    status.number_ready += i32::from(is_ready(pod));
                    available += i32::from(self.is_available(pod));
                    updated += i32::from(pods.iter().any(|pod| self.is_new(pod)));
                }
            }
        }
        status.updated_number_scheduled = Some(updated);
        status.number_available = Some(available);
        status.number_unavailable = Some(status.desired_number_scheduled - available);
        status
    }
}

/// A number, or a percentage of `all` rounded up.
fn part_of(amount: &IntOrString, all: usize) -> usize {
    match amount {
        IntOrString::Int(number) => usize::try_from(*number).unwrap_or(0),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<usize>().ok()).unwrap_or(0);
            percent.saturating_mul(all).div_ceil(100)
        }
    }
}
