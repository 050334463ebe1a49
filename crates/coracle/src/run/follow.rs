//! Follows what runs on a throwaway node through the API: every pod, whoever made it, and the jobs. Tells each change once, streams every
//! log, and answers when nothing more is to be expected. It only reads.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncBufReadExt, AsyncReadExt, StreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::LogParams;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinSet;

use super::outcome::{ContainerChange, Standing, Told, standing};
use super::report::{Happening, Report};
use super::roots::{self, JobEnd, Root, RootKind};

/// A longer line is printed in pieces of this many bytes.
const LINE_BYTES: u64 = 64 * 1024;

/// The place of an object in the API.
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

/// How everything ended.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// What of the input runs, and how it ended.
    pub(crate) roots: Vec<(Root, Standing)>,
    /// The pods that could not be started, whoever made them.
    pub(crate) stuck: Vec<(PodKey, Standing)>,
}

/// Follows what runs, and every pod that comes from it, until all of it has come to its end: for what goes on, that is never, unless
/// none of its pods can be started.
///
/// With `wait`, what cannot be started is waited for all the same.
pub(crate) async fn follow(client: kube::Client, roots: Vec<Root>, wait: bool, report: Arc<Report>) -> Ends {
    let (stands, mut stand) = mpsc::unbounded_channel();
    let mut follower = Follower {
        client: client.clone(),
        report,
        wait,
        stands,
        pods: BTreeMap::new(),
        jobs: BTreeMap::new(),
        early: BTreeMap::new(),
        told: BTreeSet::new(),
        tellers: JoinSet::new(),
        roots: roots.into_iter().map(|root| (root, Standing::Underway)).collect(),
        statuses: BTreeMap::new(),
    };
    let config = watcher::Config::default;
    let mut pods = pin!(watcher(Api::<Pod>::all(client.clone()), config()).default_backoff());
    let mut jobs = pin!(watcher(Api::<Job>::all(client.clone()), config()).default_backoff());
    let mut events = pin!(watcher(Api::<Event>::all(client), config()).default_backoff().applied_objects());
    // The watchers start again by themselves when they fail.
    while !follower.is_over() {
        tokio::select! {
            Some((key, standing)) = stand.recv() => follower.stands(key, standing),
            Some(change) = pods.next() => match change {
                Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod)) => follower.pod_changed(pod),
                Ok(watcher::Event::Delete(pod)) => follower.pod_gone(&pod),
                Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
            },
            Some(change) = jobs.next(), if follower.has_jobs() => match change {
                Ok(watcher::Event::Apply(job) | watcher::Event::InitApply(job)) => {
                    follower.job_changed(&job, JobEnd::of(&job));
                }
                Ok(watcher::Event::Delete(job)) => {
                    let message = "it was deleted before its end".to_owned();
                    let deleted = JobEnd { is_complete: false, reason: "Deleted".to_owned(), message };
                    follower.job_changed(&job, Some(JobEnd::of(&job).unwrap_or(deleted)));
                }
                Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => {}
            },
            Some(event) = events.next() => {
                if let Ok(event) = event {
                    follower.reported(&event);
                }
            }
            // A teller of a pod that is gone has ended.
            Some(_) = follower.tellers.join_next() => {}
            else => break,
        }
    }
    follower.end().await
}

/// A pod that is followed.
struct Followed {
    /// Where it stands, as far as that was told.
    standing: Standing,
    /// The root that it comes from: its place in the list.
    root: Option<usize>,
    teller: UnboundedSender<News>,
}

/// What has been heard of everything that runs.
struct Follower {
    client: kube::Client,
    report: Arc<Report>,
    wait: bool,
    stands: UnboundedSender<Stand>,
    roots: Vec<(Root, Standing)>,
    pods: BTreeMap<PodKey, Followed>,
    /// The exit status of the last pod of each root that has failed.
    statuses: BTreeMap<usize, i32>,
    /// How jobs have ended, by the place of their root.
    jobs: BTreeMap<usize, JobEnd>,
    /// What was reported about pods that nobody has seen yet.
    early: BTreeMap<PodKey, Vec<Occurrence>>,
    /// Which events were told, so that each is told once.
    told: BTreeSet<(String, PodKey, String, String)>,
    tellers: JoinSet<()>,
}

/// Pods that nobody has seen, about which reports are kept.
const EARLY: usize = 100;

impl Follower {
    fn is_over(&self) -> bool {
        self.roots.iter().all(|(_, standing)| standing.is_final(self.wait))
    }

    fn has_jobs(&self) -> bool {
        self.roots.iter().any(|(root, _)| root.runs == RootKind::Job)
    }

    fn pod_changed(&mut self, pod: Pod) {
        let key = PodKey { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() };
        let root = self.roots.iter().position(|(root, _)| root.has(&pod));
        if let (Some(root), Standing::Failed { status }) = (root, standing(&pod)) {
            self.statuses.insert(root, status);
        }
        let followed = self.pods.entry(key.clone()).or_insert_with(|| {
            let (teller, news) = mpsc::unbounded_channel();
            let teller_task = Teller::new(self.client.clone(), key.clone(), Arc::clone(&self.report));
            self.tellers.spawn(teller_task.tell(news, self.stands.clone()));
            for occurrence in self.early.remove(&key).into_iter().flatten() {
                let _ = teller.send(News::Reported(occurrence));
            }
            Followed { standing: Standing::Underway, root, teller }
        });
        followed.root = root;
        // A teller ends only after its sender.
        let _ = followed.teller.send(News::Changed(Box::new(pod)));
    }

    /// A pod of the input is remembered as it was; others were made to come and go.
    fn pod_gone(&mut self, pod: &Pod) {
        let key = PodKey { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any() };
        let is_input =
            |root: Option<usize>| root.is_some_and(|root| self.roots[root].0.runs == RootKind::Pod);
        let Some(root) = self.pods.get(&key).map(|followed| followed.root) else { return };
        if !is_input(root) {
            if let Some(followed) = self.pods.remove(&key) {
                let _ = followed.teller.send(News::Changed(Box::new(pod.clone())));
            }
            self.stand_anew(root);
        }
    }

    fn stands(&mut self, key: PodKey, standing: Standing) {
        if let Some(followed) = self.pods.get_mut(&key) {
            followed.standing = standing;
            let root = followed.root;
            self.stand_anew(root);
        }
    }

    fn job_changed(&mut self, job: &Job, end: Option<JobEnd>) {
        let is_it = |root: &Root| {
            root.runs == RootKind::Job
                && Some(&root.name) == job.metadata.name.as_ref()
                && Some(&root.namespace) == job.metadata.namespace.as_ref()
        };
        let Some(root) = self.roots.iter().position(|(root, _)| is_it(root)) else { return };
        if let (Some(end), false) = (end, self.jobs.contains_key(&root)) {
            self.jobs.insert(root, end);
        }
        self.stand_anew(Some(root));
    }

    /// Notes where a root stands now, and tells when it is a job that has come to its end.
    fn stand_anew(&mut self, place: Option<usize>) {
        let Some(place) = place else { return };
        let pods: Vec<&Standing> = self
            .pods
            .values()
            .filter(|followed| followed.root == Some(place))
            .map(|followed| &followed.standing)
            .collect();
        let (root, before) = &self.roots[place];
        let end = self.jobs.get(&place);
        let now = roots::stand(root, &pods, end, self.statuses.get(&place).copied());
        let has_ended = *before == Standing::Underway && now != Standing::Underway;
        if let (true, Some(end)) = (has_ended, end) {
            self.report.tell(&Happening::JobEnded {
                namespace: &root.namespace,
                job: &root.name,
                is_complete: end.is_complete,
                reason: &end.reason,
                message: &end.message,
            });
        }
        self.roots[place].1 = now;
    }

    /// What a node or a controller has reported, each report once.
    fn reported(&mut self, event: &Event) {
        let object = &event.involved_object;
        let key = PodKey {
            namespace: object.namespace.clone().unwrap_or_default(),
            name: object.name.clone().unwrap_or_default(),
        };
        let kind = object.kind.clone().unwrap_or_default();
        let reason = event.reason.clone().unwrap_or_default();
        let message = event.message.clone().unwrap_or_default();
        let severity = event.type_.clone().unwrap_or_else(|| "Normal".to_owned());
        if !self.told.insert((kind.clone(), key.clone(), reason.clone(), message.clone())) {
            return;
        }
        if kind != "Pod" {
            if is_worth_telling(&kind, &severity, &reason) {
                self.report.tell(&Happening::ObjectEvent {
                    namespace: &key.namespace,
                    kind: &kind,
                    name: &key.name,
                    severity: &severity,
                    reason: &reason,
                    message: &message,
                });
            }
            return;
        }
        if TOLD_ELSEWHERE.contains(&reason.as_str()) {
            return;
        }
        let container = object.field_path.as_deref().and_then(container_of).map(str::to_owned);
        let occurrence = Occurrence { severity, reason, message, container };
        match self.pods.get(&key) {
            // A teller ends only after its sender.
            Some(followed) => drop(followed.teller.send(News::Reported(occurrence))),
            None if self.early.len() < EARLY => self.early.entry(key).or_default().push(occurrence),
            None => {}
        }
    }

    /// Waits until everything was told.
    async fn end(mut self) -> Ends {
        let stuck = self.pods.iter().filter(|(_, followed)| is_stuck(&followed.standing));
        let stuck = stuck.map(|(key, followed)| (key.clone(), followed.standing.clone())).collect();
        // Whatever was written before the end belongs to the output.
        self.pods.clear();
        while self.tellers.join_next().await.is_some() {}
        Ends { roots: self.roots, stuck }
    }
}

fn is_stuck(standing: &Standing) -> bool {
    matches!(standing, Standing::CannotStart { .. })
}

/// Whether an event of something that makes pods, or that pods use, is told: what went wrong, and what nothing else shows.
fn is_worth_telling(kind: &str, severity: &str, reason: &str) -> bool {
    match kind {
        // Its end is told from its status.
        "Job" if severity == "Warning" => !JOB_ENDS.contains(&reason),
        "Job" => ["Suspended", "Resumed"].contains(&reason),
        "CronJob" => severity == "Warning" || reason == "SuccessfulCreate",
        "ReplicationController"
        | "ReplicaSet"
        | "Deployment"
        | "StatefulSet"
        | "DaemonSet"
        | "PersistentVolumeClaim"
        | "Service" => severity == "Warning",
        _ => false,
    }
}

/// Reasons for which a job fails.
const JOB_ENDS: [&str; 5] = [
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
];

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
