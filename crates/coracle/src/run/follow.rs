//! Follows the pods of a throwaway node through the API: tells each change once, streams every log,
//! and answers when nothing more is to be expected. It only reads.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use futures::{AsyncBufReadExt, AsyncReadExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::LogParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::task::JoinSet;

use super::outcome::{ContainerChange, Standing, Told, standing};
use super::report::{Happening, Report};

/// A longer line is printed in pieces of this many bytes.
const LINE_BYTES: u64 = 64 * 1024;

/// A pod that is followed, in the order of the input.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodKey {
    /// Namespace of the pod.
    pub(crate) namespace: String,
    /// Name of the pod.
    pub(crate) name: String,
}

/// What is known of one pod.
#[derive(Default)]
struct Followed {
    told: Told,
    phase: String,
    standing: Option<Standing>,
}

/// Follows the pods until each has come to its end; the answer holds the end of each.
///
/// With `wait`, a pod that cannot be started is waited for all the same.
pub(crate) async fn follow(
    client: kube::Client,
    pods: Vec<PodKey>,
    wait: bool,
    report: Arc<Report>,
) -> BTreeMap<PodKey, Standing> {
    let mut followed: BTreeMap<PodKey, Followed> =
        pods.into_iter().map(|key| (key, Followed::default())).collect();
    let mut logs = JoinSet::new();
    let (troubles, mut trouble) = tokio::sync::mpsc::unbounded_channel();
    let keys = followed.keys().cloned().collect();
    let events = tokio::spawn(tell_events(client.clone(), keys, Arc::clone(&report), troubles));
    let everywhere = Api::<Pod>::all(client.clone());
    let mut changes =
        pin!(watcher(everywhere, watcher::Config::default()).default_backoff().applied_objects());
    while followed.values().any(|pod| !pod.standing.as_ref().is_some_and(|end| end.is_final(wait))) {
        let change = tokio::select! {
            change = changes.next() => change,
            Some((key, standing)) = trouble.recv() => {
                if let Some(state) = followed.get_mut(&key) {
                    state.standing = Some(standing);
                }
                continue;
            }
        };
        let pod = match change {
            Some(Ok(pod)) => pod,
            // The watcher starts again by itself.
            Some(Err(_)) => continue,
            None => break,
        };
        let key = PodKey { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() };
        let Some(state) = followed.get_mut(&key) else { continue };
        tell_pod(&client, &key, &pod, state, &report, &mut logs);
    }
    // Whatever was written before the end belongs to the output.
    while logs.join_next().await.is_some() {}
    events.abort();
    followed.into_iter().map(|(key, pod)| (key, pod.standing.unwrap_or(Standing::Underway))).collect()
}

fn tell_pod(
    client: &kube::Client,
    key: &PodKey,
    pod: &Pod,
    state: &mut Followed,
    report: &Arc<Report>,
    logs: &mut JoinSet<()>,
) {
    for change in state.told.changes(pod) {
        report.tell(&Happening::Container { namespace: &key.namespace, pod: &key.name, change: &change });
        if let ContainerChange::Started { container, .. } = &change {
            logs.spawn(tell_log(client.clone(), key.clone(), container.clone(), Arc::clone(report)));
        }
    }
    let phase = pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
    if phase != state.phase && !phase.is_empty() {
        report.tell(&Happening::Phase { namespace: &key.namespace, pod: &key.name, phase: &phase });
        state.phase = phase;
    }
    state.standing = Some(standing(pod));
}

/// Streams the log of one container from its beginning until it ends.
async fn tell_log(client: kube::Client, key: PodKey, container: String, report: Arc<Report>) {
    let pods = Api::<Pod>::namespaced(client, &key.namespace);
    let params = LogParams { container: Some(container.clone()), follow: true, ..LogParams::default() };
    let Ok(stream) = pods.log_stream(&key.name, &params).await else { return };
    let mut stream = pin!(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        // A container may write a line without end.
        match stream.as_mut().take(LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                let text = line.strip_suffix(b"\n").unwrap_or(&line);
                report.tell(&Happening::Log {
                    namespace: &key.namespace,
                    pod: &key.name,
                    container: &container,
                    line: text,
                });
            }
        }
    }
}

/// Reasons of events that the container changes tell already, or that nobody can do anything about on a throwaway node.
const TOLD_ELSEWHERE: [&str; 8] =
    ["Scheduled", "Pulled", "Created", "Started", "Killing", "Failed", "BackOff", "MissingClusterDNS"];

/// Reasons of events after which the pod as a whole does not start: its volumes or its sandbox cannot be made.
const POD_TROUBLES: [&str; 2] = ["FailedMount", "FailedCreatePodSandBox"];

/// Tells what the node reports about the followed pods, each report once; and hands on what keeps a pod from starting.
async fn tell_events(
    client: kube::Client,
    pods: Vec<PodKey>,
    report: Arc<Report>,
    troubles: tokio::sync::mpsc::UnboundedSender<(PodKey, Standing)>,
) {
    let events = Api::<Event>::all(client);
    let mut stream = pin!(watcher(events, watcher::Config::default()).default_backoff().applied_objects());
    let mut told = std::collections::BTreeSet::new();
    while let Ok(Some(event)) = stream.try_next().await {
        let object = &event.involved_object;
        let key = PodKey {
            namespace: object.namespace.clone().unwrap_or_default(),
            name: object.name.clone().unwrap_or_default(),
        };
        let reason = event.reason.clone().unwrap_or_default();
        let message = event.message.clone().unwrap_or_default();
        let repeated = !told.insert((key.clone(), reason.clone(), message.clone()));
        if repeated || !pods.contains(&key) || TOLD_ELSEWHERE.contains(&reason.as_str()) {
            continue;
        }
        let severity = event.type_.as_deref().unwrap_or("Normal");
        if POD_TROUBLES.contains(&reason.as_str()) {
            let standing = Standing::CannotStart {
                container: "(all)".to_owned(),
                reason: reason.clone(),
                message: message.clone(),
            };
            // Nobody listens any more when the pods have ended.
            let _ = troubles.send((key.clone(), standing));
        }
        report.tell(&Happening::Event {
            namespace: &key.namespace,
            pod: &key.name,
            severity,
            reason: &reason,
            message: &message,
        });
    }
}
