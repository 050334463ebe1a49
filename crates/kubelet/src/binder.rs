//! Binds pods that have no node to this one, as the only node of its API server, if it fits them; says of the others why
//! not, and looks again when node or pods change. An ordinary client of the API: a real scheduler can take its place.
//!
//! Whether a pod fits is decided by [`lifecycle::obstacles`]. Here is who waits, and what others take.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, ResourceExt as _};
use lifecycle::Claim;
use serde_json::json;

use api::reasons::{condition, event};

use crate::agent::SharedAgent;
use crate::pod_source::without_managers;
use events::{EventRecorder, EventType, pod_reference};

/// The scheduler whose pods are bound.
const SCHEDULER: &str = "default-scheduler";

/// A binding that failed is tried again after this.
const RETRY: Duration = Duration::from_secs(1);

/// Whether a pod waits for this scheduler.
fn wants_binding(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else {
        return false;
    };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name.is_empty() || name == SCHEDULER);
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    ours && !gated && !is_bound(pod) && pod.metadata.deletion_timestamp.is_none()
}

fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|name| !name.is_empty())
}

/// What is to be done with a pod that waits.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    /// It fits.
    Bind,
    /// It does not: the scheduler's message.
    Wait(String),
}

/// A pod that waits, and what was said of it last.
#[derive(Debug)]
struct Waiting {
    pod: Arc<Pod>,
    told: Option<String>,
}

/// Who waits and who is there. Nothing here talks to anybody.
#[derive(Debug, Default)]
struct Queue {
    node_name: String,
    waiting: BTreeMap<String, Waiting>,
    /// What the pods of the node take, by UID.
    taken: BTreeMap<String, Claim>,
}

impl Queue {
    /// A pod is there or has changed.
    fn see(&mut self, pod: Pod) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let ended = matches!(phase, Some("Succeeded" | "Failed"));
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if is_bound(&pod) {
            self.waiting.remove(&uid);
            if node == Some(self.node_name.as_str()) && !ended {
                self.taken.insert(uid, Claim::of(&pod));
            } else {
                self.taken.remove(&uid);
            }
        } else if wants_binding(&pod) && !ended {
            // What this scheduler has bound already may still come by as it was before.
            if !self.taken.contains_key(&uid) {
                let told = self.waiting.remove(&uid).and_then(|waiting| waiting.told);
                self.waiting.insert(uid, Waiting { pod: Arc::new(pod), told });
            }
        } else {
            self.gone(&uid);
        }
    }

    /// A pod is gone.
    fn gone(&mut self, uid: &str) {
        self.waiting.remove(uid);
        self.taken.remove(uid);
    }

    /// These are all pods.
    fn keep_only(&mut self, uids: &BTreeSet<String>) {
        self.waiting.retain(|uid, _| uids.contains(uid));
        self.taken.retain(|uid, _| uids.contains(uid));
    }

    /// Decides about everybody who waits; what was said already is not said again. What is to be bound counts as taken at once.
    fn decide(&mut self, node: &Node) -> Vec<(Arc<Pod>, Verdict)> {
        let mut order: Vec<(i64, Option<Time>, String)> = self
            .waiting
            .iter()
            .map(|(uid, waiting)| {
                let priority = waiting.pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0);
                (-i64::from(priority), waiting.pod.metadata.creation_timestamp.clone(), uid.clone())
            })
            .collect();
        order.sort();
        let mut verdicts = Vec::new();
        for (_, _, uid) in order {
            let Some(waiting) = self.waiting.get_mut(&uid) else {
                continue;
            };
            let taken: Vec<&Claim> = self.taken.values().collect();
            let obstacles = lifecycle::obstacles(&waiting.pod, node, &taken);
            if obstacles.is_empty() {
                let pod = waiting.pod.clone();
                self.taken.insert(uid.clone(), Claim::of(&pod));
                self.waiting.remove(&uid);
                verdicts.push((pod, Verdict::Bind));
                continue;
            }
            let message = lifecycle::unschedulable_message(&obstacles);
            if waiting.told.as_ref() != Some(&message) {
                waiting.told = Some(message.clone());
                verdicts.push((waiting.pod.clone(), Verdict::Wait(message)));
            }
        }
        verdicts
    }

    /// A binding did not come about.
    fn put_back(&mut self, pod: Arc<Pod>) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        self.taken.remove(&uid);
        self.waiting.insert(uid, Waiting { pod, told: None });
    }
}

/// Binds, for ever.
pub(crate) async fn bind_unscheduled(agent: SharedAgent, events: EventRecorder) {
    let api: Api<Pod> = Api::all(agent.client.clone());
    let mut pods = std::pin::pin!(watcher::watcher(api, watcher::Config::default()).default_backoff());
    let mut nodes = agent.node.subscribe();
    let mut queue = Queue { node_name: agent.config.node_name.clone(), ..Queue::default() };
    let (mut listed, mut complete, mut retry) = (BTreeSet::new(), false, false);
    loop {
        tokio::select! {
            event = pods.next() => match event {
                Some(Ok(Event::Apply(pod))) => queue.see(without_managers(pod)),
                Some(Ok(Event::Delete(pod))) => queue.gone(pod.metadata.uid.as_deref().unwrap_or_default()),
                Some(Ok(Event::Init)) => listed.clear(),
                Some(Ok(Event::InitApply(pod))) => {
                    listed.extend(pod.metadata.uid.clone());
                    queue.see(without_managers(pod));
                    continue;
                }
                Some(Ok(Event::InitDone)) => {
                    queue.keep_only(&std::mem::take(&mut listed));
                    complete = true;
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "the scheduler's watch of pods was interrupted");
                    continue;
                }
                None => return,
            },
            changed = nodes.changed() => if changed.is_err() {
                return;
            },
            () = tokio::time::sleep(RETRY), if retry => {}
        }
        let node = nodes.borrow_and_update().clone();
        let Some(node) = node.filter(|_| complete) else {
            continue;
        };
        retry = false;
        for (pod, verdict) in queue.decide(&node) {
            match verdict {
                Verdict::Bind => {
                    if !bind(&agent, &pod, &events).await {
                        queue.put_back(pod);
                        retry = true;
                    }
                }
                Verdict::Wait(message) => tell(&agent, &pod, message, &events).await,
            }
        }
    }
}

/// Says in the pod's status and by an event why it waits.
async fn tell(agent: &SharedAgent, pod: &Pod, message: String, events: &EventRecorder) {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let before = conditions.into_iter().find(|one| one.type_ == "PodScheduled" && one.status == "False");
    let since = before.and_then(|one| one.last_transition_time.clone()).unwrap_or(Time(Timestamp::now()));
    let patch = json!({
        "metadata": {"uid": pod.metadata.uid},
        "status": {"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": condition::UNSCHEDULABLE, "message": message,
            "lastTransitionTime": since, "observedGeneration": pod.metadata.generation,
        }]},
    });
    let api: Api<Pod> = Api::namespaced(agent.client.clone(), &pod.namespace().unwrap_or_default());
    match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(&patch)).await {
        Ok(_) => {}
        // Somebody else bound or deleted it.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409 | 422) => return,
        Err(error) => tracing::warn!(%error, "why a pod waits could not be written to it"),
    }
    events.record(pod_reference(pod, None), EventType::Warning, event::FAILED_SCHEDULING, message);
}

/// Binds a pod. Answers whether that is settled.
async fn bind(agent: &SharedAgent, pod: &Pod, events: &EventRecorder) -> bool {
    let node = &agent.config.node_name;
    let namespace = pod.namespace().unwrap_or_default();
    let name = pod.name_any();
    let binding = Binding {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            uid: pod.metadata.uid.clone(),
            ..ObjectMeta::default()
        },
        target: ObjectReference {
            kind: Some("Node".to_owned()),
            api_version: Some("v1".to_owned()),
            name: Some(node.to_owned()),
            ..ObjectReference::default()
        },
    };
    let api: Api<Pod> = Api::namespaced(agent.client.clone(), &namespace);
    fault::point("bind.due");
    let result = api
        .create_subresource::<_, k8s_openapi::apimachinery::pkg::apis::meta::v1::Status>(
            "binding",
            &name,
            &PostParams::default(),
            &binding,
        )
        .await;
    fault::point("bind.done");
    match result {
        Ok(_) => {
            let message = format!("Successfully assigned {namespace}/{name} to {node}");
            events.record(pod_reference(pod, None), EventType::Normal, event::SCHEDULED, message);
            true
        }
        // Somebody else bound or deleted it: the watch says which.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => true,
        Err(error) => {
            let message = format!("binding rejected: {error}");
            events.record(pod_reference(pod, None), EventType::Warning, event::FAILED_SCHEDULING, message);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Queue, Verdict, wants_binding};
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::{Value, json};

    fn node(cpu: &str) -> Node {
        let node = json!({"metadata": {"name": "n", "labels": {"disk": "ssd"}}, "status": {"allocatable": {"cpu": cpu}}});
        serde_json::from_value(node).expect("a node")
    }

    fn pod(name: &str, cpu: &str, fields: Value) -> Pod {
        let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
        for (field, value) in fields.as_object().expect("fields") {
            spec[field] = value.clone();
        }
        let metadata = json!({"name": name, "namespace": "ns", "uid": name});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a pod")
    }

    fn words(queue: &mut Queue, node: &Node) -> Vec<String> {
        let word = |verdict| match verdict {
            Verdict::Bind => "bind".to_owned(),
            Verdict::Wait(message) => message.split(". no new").next().unwrap_or_default().to_owned(),
        };
        let decided = queue.decide(node).into_iter();
        decided
            .map(|(pod, verdict)| {
                format!("{}: {}", pod.metadata.uid.clone().unwrap_or_default(), word(verdict))
            })
            .collect()
    }

    fn queue() -> Queue {
        Queue { node_name: "n".to_owned(), ..Queue::default() }
    }

    #[test]
    fn only_pods_that_wait_for_the_default_scheduler_are_bound() {
        let wants = |spec: Value| {
            wants_binding(&serde_json::from_value(json!({"metadata": {}, "spec": spec})).expect("a pod"))
        };
        assert!(wants(json!({"containers": []})));
        assert!(wants(json!({"containers": [], "schedulerName": "default-scheduler"})));
        assert!(!wants(json!({"containers": [], "schedulerName": "mine"})));
        assert!(!wants(json!({"containers": [], "nodeName": "n"})));
        assert!(!wants(json!({"containers": [], "schedulingGates": [{"name": "g"}]})));
    }

    #[test]
    fn a_pod_that_does_not_fit_is_told_once_and_bound_when_another_goes() {
        let (mut queue, node) = (queue(), node("1"));
        queue.see(pod("a", "700m", json!({})));
        queue.see(pod("b", "700m", json!({})));
        assert_eq!(words(&mut queue, &node), ["a: bind", "b: 0/1 nodes are available: 1 Insufficient cpu"]);
        assert!(words(&mut queue, &node).is_empty(), "it was said");
        queue.see(pod("a", "700m", json!({})));
        assert!(words(&mut queue, &node).is_empty(), "an old version of a bound pod is not bound again");
        queue.see(pod("a", "700m", json!({"nodeName": "n"})));
        assert!(words(&mut queue, &node).is_empty());
        let mut ended = pod("a", "700m", json!({"nodeName": "n"}));
        ended.status.get_or_insert_default().phase = Some("Succeeded".to_owned());
        queue.see(ended);
        assert_eq!(words(&mut queue, &node), ["b: bind"]);
    }

    #[test]
    fn a_pod_is_bound_when_its_node_or_itself_has_changed() {
        let mut queue = queue();
        queue.see(pod("big", "4", json!({})));
        queue.see(pod("picky", "1m", json!({"nodeSelector": {"disk": "hdd"}})));
        queue.see(pod("gated", "1m", json!({"schedulingGates": [{"name": "g"}]})));
        assert_eq!(words(&mut queue, &node("2")).len(), 2);
        queue.see(pod("gated", "1m", json!({})));
        assert_eq!(words(&mut queue, &node("2")), ["gated: bind"]);
        let mut larger = node("8");
        assert_eq!(words(&mut queue, &larger), ["big: bind"]);
        larger.metadata.labels = Some([("disk".to_owned(), "hdd".to_owned())].into());
        assert_eq!(words(&mut queue, &larger), ["picky: bind"]);
    }

    #[test]
    fn more_important_pods_come_first_and_then_older_ones() {
        let (mut queue, node) = (queue(), node("1"));
        let at = |name: &str, priority: i32, time: &str| {
            let mut pod = pod(name, "700m", json!({"priority": priority}));
            pod.metadata.creation_timestamp = serde_json::from_value(json!(time)).expect("a time");
            pod
        };
        queue.see(at("a", 0, "2026-01-02T00:00:00Z"));
        queue.see(at("b", 0, "2026-01-01T00:00:00Z"));
        assert_eq!(words(&mut queue, &node)[0], "b: bind");
        queue.gone("b");
        queue.see(at("c", 5, "2026-01-03T00:00:00Z"));
        assert_eq!(words(&mut queue, &node)[0], "c: bind");
    }

    #[test]
    fn a_binding_that_failed_is_tried_again() {
        let (mut queue, node) = (queue(), node("1"));
        queue.see(pod("a", "700m", json!({})));
        let (pod, _) = queue.decide(&node).remove(0);
        queue.put_back(pod);
        assert_eq!(words(&mut queue, &node), ["a: bind"]);
    }
}
