//! Who orders a pod to stop, and which order is in force: deletion, deadline, eviction, the end of the node, or that everything
//! has ended.

use k8s_openapi::api::core::v1::Pod;

use crate::clock::{BootTime, Now};
use crate::memory::{PodMemory, StopCause, StopOrder};
use crate::observed::{ContainerPhase, RuntimePod};
use crate::phase::outcome;
use crate::view::PodView;

/// The grace of a pod that is evicted for the disk that it takes, as in Kubernetes.
const EVICTION_GRACE_SECONDS: i64 = 1;

/// Seconds of `activeDeadlineSeconds` that are left, and when they end.
pub(crate) fn active_deadline(view: &PodView<'_>) -> Option<BootTime> {
    let seconds = view.pod.spec.as_ref()?.active_deadline_seconds?;
    view.memory.active_until(seconds)
}

/// The order to stop that is in force.
pub(crate) fn stop_order(view: &PodView<'_>) -> Option<StopOrder> {
    let finished = || outcome(view.pod, view.memory, view.runtime).is_some();
    let grace = view.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
    let deadline = view.now.boot.plus_seconds(grace.max(1));
    if let Some(order) = view.memory.stop {
        return Some(order);
    }
    if view.pod.metadata.deletion_timestamp.is_some() || view.memory.vanished {
        // The agent normally writes the order into memory first; this is the same decision without it.
        return Some(StopOrder { cause: StopCause::Delete, deadline });
    }
    if active_deadline(view).is_some_and(|deadline| deadline <= view.now.boot) && !finished() {
        return Some(StopOrder { cause: StopCause::Deadline, deadline });
    }
    finished().then_some(StopOrder { cause: StopCause::Finished, deadline })
}

/// The order to stop that a changed object gives: the agent writes it into memory before it plans. `None` when the
/// object does not ask for a stop.
fn requested_stop(pod: &Pod) -> Option<i64> {
    pod.metadata.deletion_timestamp.as_ref()?;
    let spec_grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    Some(pod.metadata.deletion_grace_period_seconds.or(spec_grace).unwrap_or(30).max(1))
}

impl PodMemory {
    /// Orders the pod to stop. A later order may only bring the deadline forward.
    pub fn order_stop(&mut self, cause: StopCause, grace_seconds: i64, now: Now) {
        let deadline = now.boot.plus_seconds(grace_seconds);
        match &mut self.stop {
            Some(order) => order.deadline = order.deadline.min(deadline),
            None => self.stop = Some(StopOrder { cause, deadline }),
        }
    }

    /// Notes that the pod takes more of the disk than it may: it is stopped, and has failed. Returns whether this call ordered
    /// the stop.
    pub fn note_evicted(&mut self, message: &str, now: Now) -> bool {
        if self.stop.is_some() {
            return false;
        }
        self.eviction = Some(message.to_owned());
        self.order_stop(StopCause::Eviction, EVICTION_GRACE_SECONDS, now);
        true
    }

    /// Notes that the node is taken down: the pod stops within its own grace, or within that many seconds if these are fewer.
    pub fn note_node_leaves(&mut self, pod: &Pod, longest_grace: Option<i64>, now: Now) {
        let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        self.node_leaves = true;
        self.order_stop(StopCause::Shutdown, grace.min(longest_grace.unwrap_or(grace)).max(1), now);
    }

    /// Notes that the node is back. What was stopped only because it left begins again; every other order stands.
    pub fn note_node_back(&mut self) {
        self.node_leaves = false;
        self.stop = self.stop.filter(|order| order.cause != StopCause::Shutdown);
    }

    /// Whether the node is taken down, and nothing of the pod runs on it any more.
    pub fn has_left(&self, runtime: &RuntimePod) -> bool {
        let runs = |phase: &ContainerPhase| match phase {
            ContainerPhase::Running { .. } => true,
            ContainerPhase::Created | ContainerPhase::Exited { .. } | ContainerPhase::Unknown => false,
        };
        let stands = runtime.sandboxes.iter().any(|sandbox| sandbox.ready);
        self.node_leaves && !stands && !runtime.containers.iter().any(|container| runs(&container.phase))
    }

    /// Notes the object as the API shows it: a deletion mark becomes an order to stop, whose deadline a later mark may
    /// only bring forward. `vanished` says that the object is gone: then the pod's own grace applies.
    pub fn note_object(&mut self, pod: &Pod, vanished: bool, now: Now) {
        if let Some(grace) = requested_stop(pod) {
            self.order_stop(StopCause::Delete, grace, now);
        }
        if vanished && !self.vanished {
            self.vanished = true;
            let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
            self.order_stop(StopCause::Delete, grace.unwrap_or(30).max(1), now);
        }
    }

    /// Notes that the deadline of an active pod is over, if it is. Returns whether this call ordered the stop.
    pub fn note_deadline(&mut self, pod: &Pod, runtime: &RuntimePod, now: Now) -> bool {
        let Some(seconds) = pod.spec.as_ref().and_then(|spec| spec.active_deadline_seconds) else {
            return false;
        };
        let over = self.active_until(seconds).is_some_and(|until| until <= now.boot);
        if !over || self.stop.is_some() || outcome(pod, self, runtime).is_some() {
            return false;
        }
        let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        self.order_stop(StopCause::Deadline, grace.max(1), now);
        true
    }

    /// When a pod that may be active for `seconds` has been.
    fn active_until(&self, seconds: i64) -> Option<BootTime> {
        Some(self.active_since?.plus_seconds(seconds).minus_millis(self.active_before_boot))
    }
}
