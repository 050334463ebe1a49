//! Follows the pods of a throwaway node through the API: tells each change once, streams every log,
//! and answers when nothing more is to be expected. It only reads.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufReadExt, AsyncReadExt, StreamExt};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::LogParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
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

/// The log of a container is waited for this long before its end is told; a reader that is slower sees the end first.
const LOG_END: Duration = Duration::from_secs(5);

/// How long an event that only follows a start waits for that start to be told.
const HELD: Duration = Duration::from_secs(2);

/// Reasons of events that are written before the status that shows the start which they follow.
const AFTER_START: [&str; 1] = ["FailedPostStartHook"];

/// What a pod's teller hears.
enum News {
    /// The pod has changed.
    Changed(Box<Pod>),
    /// The node reported something about it.
    Reported(Occurrence),
}

/// What the node reported about a pod.
struct Occurrence {
    severity: String,
    reason: String,
    message: String,
    /// The container that it is about.
    container: Option<String>,
}

/// Where a pod stands now.
type Stand = (PodKey, Standing);

/// Follows the pods until each has come to its end; the answer holds the end of each.
///
/// With `wait`, a pod that cannot be started is waited for all the same.
pub(crate) async fn follow(
    client: kube::Client,
    pods: Vec<PodKey>,
    wait: bool,
    report: Arc<Report>,
) -> BTreeMap<PodKey, Standing> {
    let mut standings: BTreeMap<PodKey, Standing> =
        pods.into_iter().map(|key| (key, Standing::Underway)).collect();
    let (stands, mut stand) = mpsc::unbounded_channel();
    let mut listeners = BTreeMap::new();
    let mut tellers = JoinSet::new();
    for key in standings.keys() {
        let (listener, news) = mpsc::unbounded_channel();
        listeners.insert(key.clone(), listener);
        tellers
            .spawn(Teller::new(client.clone(), key.clone(), Arc::clone(&report)).tell(news, stands.clone()));
    }
    let mut reports = JoinSet::new();
    reports.spawn(hear_events(client.clone(), listeners.clone()));
    let everywhere = Api::<Pod>::all(client);
    let mut changes =
        pin!(watcher(everywhere, watcher::Config::default()).default_backoff().applied_objects());
    while !standings.values().all(|standing| standing.is_final(wait)) {
        tokio::select! {
            Some((key, standing)) = stand.recv() => {
                standings.insert(key, standing);
            }
            change = changes.next() => match change {
                Some(Ok(pod)) => {
                    let key = PodKey { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() };
                    if let Some(listener) = listeners.get(&key) {
                        // A teller ends only after its listeners.
                        let _ = listener.send(News::Changed(Box::new(pod)));
                    }
                }
                // The watcher starts again by itself.
                Some(Err(_)) => {}
                None => break,
            },
        }
    }
    // Whatever was written before the end belongs to the output.
    drop(reports);
    drop(listeners);
    while tellers.join_next().await.is_some() {}
    standings
}

/// Tells what happens to one pod, in order: what a container wrote comes before its end.
struct Teller {
    client: kube::Client,
    key: PodKey,
    report: Arc<Report>,
    told: Told,
    phase: String,
    logs: BTreeMap<String, JoinSet<()>>,
    held: Vec<Occurrence>,
}

impl Teller {
    fn new(client: kube::Client, key: PodKey, report: Arc<Report>) -> Self {
        let (told, phase) = (Told::default(), String::new());
        Self { client, key, report, told, phase, logs: BTreeMap::new(), held: Vec::new() }
    }

    async fn tell(mut self, mut news: UnboundedReceiver<News>, stands: UnboundedSender<Stand>) {
        loop {
            let next = if self.held.is_empty() {
                news.recv().await
            } else {
                match tokio::time::timeout(HELD, news.recv()).await {
                    Ok(next) => next,
                    Err(_) => {
                        self.release(None);
                        continue;
                    }
                }
            };
            let standing = match next {
                Some(News::Changed(pod)) => Some(self.changed(&pod).await),
                Some(News::Reported(occurrence)) => self.reported(occurrence),
                None => break,
            };
            if let Some(standing) = standing {
                // Nobody listens any more when all pods have ended.
                let _ = stands.send((self.key.clone(), standing));
            }
        }
        self.release(None);
        for mut logs in std::mem::take(&mut self.logs).into_values() {
            while logs.join_next().await.is_some() {}
        }
    }

    async fn changed(&mut self, pod: &Pod) -> Standing {
        for change in self.told.changes(pod) {
            match &change {
                ContainerChange::Started { container, .. } => {
                    self.tell_change(&change);
                    let log = tell_log(
                        self.client.clone(),
                        self.key.clone(),
                        container.clone(),
                        Arc::clone(&self.report),
                    );
                    self.logs.entry(container.clone()).or_default().spawn(log);
                    self.release(Some(container));
                }
                ContainerChange::Ended { container, .. } => {
                    if let Some(mut logs) = self.logs.remove(container) {
                        let last_words = async { while logs.join_next().await.is_some() {} };
                        if tokio::time::timeout(LOG_END, last_words).await.is_err() {
                            self.logs.insert(container.clone(), logs);
                        }
                    }
                    self.release(Some(container));
                    self.tell_change(&change);
                }
                ContainerChange::Waits { container, .. } => {
                    self.release(Some(container));
                    self.tell_change(&change);
                }
            }
        }
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.clone()).unwrap_or_default();
        if phase != self.phase && !phase.is_empty() {
            let (namespace, pod) = (&self.key.namespace, &self.key.name);
            let reason = status.and_then(|status| status.reason.as_deref());
            let message = status.and_then(|status| status.message.as_deref());
            self.report.tell(&Happening::Phase { namespace, pod, phase: &phase, reason, message });
            self.phase = phase;
        }
        standing(pod)
    }

    /// Tells a report, or holds it back; answers where the pod stands when it does not start after this.
    fn reported(&mut self, occurrence: Occurrence) -> Option<Standing> {
        if occurrence.container.is_some() && AFTER_START.contains(&occurrence.reason.as_str()) {
            self.held.push(occurrence);
            return None;
        }
        self.tell_occurrence(&occurrence);
        POD_TROUBLES.contains(&occurrence.reason.as_str()).then_some(Standing::CannotStart {
            container: None,
            reason: occurrence.reason,
            message: occurrence.message,
        })
    }

    /// Tells what was held back: of one container, or all.
    fn release(&mut self, container: Option<&str>) {
        let (told, held): (Vec<Occurrence>, Vec<Occurrence>) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|each| container.is_none() || each.container.as_deref() == container);
        self.held = held;
        for occurrence in told {
            self.tell_occurrence(&occurrence);
        }
    }

    fn tell_change(&self, change: &ContainerChange) {
        let (namespace, pod) = (&self.key.namespace, &self.key.name);
        self.report.tell(&Happening::Container { namespace, pod, change });
    }

    fn tell_occurrence(&self, occurrence: &Occurrence) {
        self.report.tell(&Happening::Event {
            namespace: &self.key.namespace,
            pod: &self.key.name,
            severity: &occurrence.severity,
            reason: &occurrence.reason,
            message: &occurrence.message,
        });
    }
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

/// Hands what the node reports about the followed pods to their tellers, each report once.
async fn hear_events(client: kube::Client, listeners: BTreeMap<PodKey, UnboundedSender<News>>) {
    let events = Api::<Event>::all(client);
    let mut stream = pin!(watcher(events, watcher::Config::default()).default_backoff().applied_objects());
    let mut told = std::collections::BTreeSet::new();
    while let Some(event) = stream.next().await {
        // The watcher starts again by itself.
        let Ok(event) = event else { continue };
        let object = &event.involved_object;
        let key = PodKey {
            namespace: object.namespace.clone().unwrap_or_default(),
            name: object.name.clone().unwrap_or_default(),
        };
        let reason = event.reason.clone().unwrap_or_default();
        let message = event.message.clone().unwrap_or_default();
        let Some(listener) = listeners.get(&key) else { continue };
        let repeated = !told.insert((key, reason.clone(), message.clone()));
        if repeated || TOLD_ELSEWHERE.contains(&reason.as_str()) {
            continue;
        }
        let severity = event.type_.clone().unwrap_or_else(|| "Normal".to_owned());
        let container = object.field_path.as_deref().and_then(container_of).map(str::to_owned);
        // A teller ends only after its listeners.
        let _ = listener.send(News::Reported(Occurrence { severity, reason, message, container }));
    }
}

/// The container in a field path such as `spec.containers{app}`.
fn container_of(field_path: &str) -> Option<&str> {
    field_path.split_once('{')?.1.strip_suffix('}')
}

#[cfg(test)]
mod tests {
    use super::container_of;

    #[test]
    fn an_event_of_a_container_names_it_in_braces() {
        assert_eq!(container_of("spec.initContainers{first}"), Some("first"));
        assert_eq!(container_of("spec.containers"), None);
        assert_eq!(container_of(""), None);
    }
}
