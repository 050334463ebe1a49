//! The pods of this node: one task that hands what happens to the worker it concerns, and makes workers when they are needed.

mod statics;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cri::v1;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use lifecycle::{Claim, PodMemory, Refusal};
use tokio::sync::{mpsc, oneshot};

use api::reasons::event;

use crate::agent::SharedAgent;
use crate::clock;
use crate::inbox::{Inbox, Leave};
use crate::labels;
use crate::pod_origin::{is_mirror, is_static};
use crate::pod_store::{LoadPodError, SavedPod};
use crate::references::{SourceKind, referenced_sources};
use crate::status_writer::{StatusChange, delete_finally, write_status};
use crate::worker::{PodWorker, WorkerStart};
use events::EventType;
use fault::contained;

/// What the task is told.
#[derive(Debug)]
pub(crate) enum PodsMessage {
    /// A pod of this node exists, new or changed.
    Seen(Arc<Pod>),
    /// A pod does not exist any more.
    Gone {
        /// Its UID.
        uid: String,
    },
    /// These are all pods of this node; what is not among them is gone.
    Listed {
        /// Their UIDs.
        uids: BTreeSet<String>,
    },
    /// Something has happened in the runtime.
    RuntimeChanged {
        /// Which pod it is about, if the runtime said so.
        uid: Option<String>,
    },
    /// A ConfigMap or Secret has changed.
    SourceChanged {
        /// Its kind.
        kind: SourceKind,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A pod takes more of the disk than it may.
    Evict {
        /// Its UID.
        uid: String,
        /// What it takes too much of.
        message: String,
    },
    /// These are all pods of the directory of static pods.
    StaticPods {
        /// The pods.
        pods: Vec<Arc<Pod>>,
        /// Some files could not be read: what ran from a file before this agent began may be in one of them.
        unreadable: bool,
    },
    /// A step with the mirror of a static pod was made, or has failed.
    MirrorStepMade {
        /// Namespace and name.
        key: PodKey,
        /// The mirror that is there now; `None` if there is none. Nothing when the step has failed.
        mirror: Option<Option<Arc<Pod>>>,
    },
    /// A worker has ended.
    Ended {
        /// Its pod.
        uid: String,
    },
    /// Somebody looks for a pod.
    Find {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Where the answer goes.
        answer: oneshot::Sender<Option<Arc<Pod>>>,
    },
    /// The node is taken down: whatever runs on it stops, and begins again with it.
    Leave {
        /// How.
        leave: Leave,
        /// Where the answer goes when nothing runs any more.
        answer: oneshot::Sender<()>,
    },
    /// Somebody waits until nothing is left of any pod.
    Drain {
        /// Where the answer goes, then.
        answer: oneshot::Sender<()>,
    },
    /// Somebody wants all pods.
    List {
        /// Where the answer goes.
        answer: oneshot::Sender<Vec<Arc<Pod>>>,
    },
}

/// Namespace and name of a pod.
pub(crate) type PodKey = (String, String);

fn key_of(pod: &Pod) -> PodKey {
    let metadata = &pod.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// Talks to the task. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct PodsHandle {
    messages: mpsc::UnboundedSender<PodsMessage>,
}

impl PodsHandle {
    /// Tells the task something. After the agent has ended nobody listens.
    pub(crate) fn tell(&self, message: PodsMessage) {
        let _ = self.messages.send(message);
    }

    /// The pod of that name on this node.
    pub(crate) async fn find(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let (answer, found) = oneshot::channel();
        self.tell(PodsMessage::Find { namespace: namespace.to_owned(), name: name.to_owned(), answer });
        found.await.ok().flatten()
    }

    /// Waits until the API has no pod of this node and nothing is left of those that it had.
    pub(crate) async fn drained(&self) {
        let (answer, drained) = oneshot::channel();
        self.tell(PodsMessage::Drain { answer });
        // When the task has ended, nothing will be taken away any more.
        let _ = drained.await;
    }

    /// Stops all pods of this node, and waits until none runs.
    pub(crate) async fn left(&self, leave: Leave) {
        let (answer, left) = oneshot::channel();
        self.tell(PodsMessage::Leave { leave, answer });
        // When the task has ended, nothing will be stopped any more.
        let _ = left.await;
    }

    /// All pods of this node.
    pub(crate) async fn list(&self) -> Vec<Arc<Pod>> {
        let (answer, list) = oneshot::channel();
        self.tell(PodsMessage::List { answer });
        list.await.unwrap_or_default()
    }
}

/// Makes the channel to the task.
pub(crate) fn pods_channel() -> (PodsHandle, mpsc::UnboundedReceiver<PodsMessage>) {
    let (messages, inbox) = mpsc::unbounded_channel();
    (PodsHandle { messages }, inbox)
}

enum Worker {
    /// It works, and its pod takes this of the node.
    Running(Inbox, Claim),
    /// Nothing is left of the pod here; the object may stay for its finalizers.
    Ended,
}

/// What a worker is told before it begins.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// The pod is to run.
    Stays,
    /// Its object is gone.
    Vanished,
    /// The node is taken down.
    Leaves(Leave),
}

/// The task's state.
pub(crate) struct PodsTask {
    agent: SharedAgent,
    handle: PodsHandle,
    workers: HashMap<String, Worker>,
    pods: BTreeMap<String, Arc<Pod>>,
    /// Pods that the API does not have any more, while their workers take away what is left of them.
    vanished: BTreeSet<String>,
    drains: Vec<oneshot::Sender<()>>,
    statics: StaticPods,
    /// The UIDs of the API's first list; nothing before it.
    listed: Option<BTreeSet<String>>,
    adopted: bool,
}

/// What is known of pods that come from files.
#[derive(Debug, Default)]
struct StaticPods {
    /// Those of the files, by UID.
    wanted: BTreeMap<String, Arc<Pod>>,
    /// Those that ran before this agent began, and that may be in a file that cannot be read.
    unclaimed: BTreeSet<String>,
    /// The directory was read, with or without files that cannot be.
    listed: Option<bool>,
    /// The API's mirrors, whatever they show.
    mirrors: BTreeMap<PodKey, Arc<Pod>>,
    /// Mirrors with which a step is under way.
    busy: BTreeSet<PodKey>,
}

impl PodsTask {
    pub(crate) fn new(agent: SharedAgent, handle: PodsHandle) -> Self {
        Self {
            agent,
            handle,
            workers: HashMap::new(),
            pods: BTreeMap::new(),
            vanished: BTreeSet::new(),
            drains: Vec::new(),
            statics: StaticPods::default(),
            listed: None,
            adopted: false,
        }
    }

    /// Works until the agent ends. Workers end with it; containers go on.
    pub(crate) async fn run(mut self, mut messages: mpsc::UnboundedReceiver<PodsMessage>) {
        while let Some(message) = messages.recv().await {
            // What one message is about must not keep the others from being heard.
            let _ = contained("pods of this node", self.hear(message)).await;
            self.answer_drains();
        }
    }

    async fn hear(&mut self, message: PodsMessage) {
        match message {
            PodsMessage::Seen(pod) => self.seen(pod),
            PodsMessage::Gone { uid } => self.gone(&uid),
            PodsMessage::Listed { uids } => self.listed(uids).await,
            PodsMessage::StaticPods { pods, unreadable } => self.static_pods(pods, unreadable).await,
            PodsMessage::MirrorStepMade { key, mirror } => self.mirror_step_made(key, mirror),
            PodsMessage::RuntimeChanged { uid } => self.runtime_changed(uid.as_deref()),
            PodsMessage::SourceChanged { kind, namespace, name } => {
                self.source_changed(kind, &namespace, &name);
            }
            PodsMessage::Evict { uid, message } => {
                if let Some(Worker::Running(inbox, _)) = self.workers.get(&uid) {
                    inbox.put_eviction(message);
                }
            }
            PodsMessage::Ended { uid } => self.ended(&uid),
            PodsMessage::Find { namespace, name, answer } => {
                let _ = answer.send(self.find(&namespace, &name));
            }
            PodsMessage::List { answer } => {
                let _ = answer.send(self.pods.values().cloned().collect());
            }
            PodsMessage::Leave { leave, answer } => {
                self.leave(leave).await;
                self.drains.push(answer);
            }
            PodsMessage::Drain { answer } => self.drains.push(answer),
        }
    }

    fn answer_drains(&mut self) {
        let works = self.workers.values().any(|worker| matches!(worker, Worker::Running(..)));
        if self.pods.is_empty() && !works {
            for answer in self.drains.drain(..) {
                let _ = answer.send(());
            }
        }
    }

    fn find(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let named = |pod: &&Arc<Pod>| {
            pod.metadata.namespace.as_deref() == Some(namespace) && pod.metadata.name.as_deref() == Some(name)
        };
        // A pod that has vanished may still be stopping beside its successor: the successor is the one that is meant.
        let mut found: Vec<&Arc<Pod>> = self.pods.values().filter(named).collect();
        found.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
        found.last().map(|pod| Arc::clone(pod))
    }

    fn seen(&mut self, pod: Arc<Pod>) {
        let Some(uid) = pod.metadata.uid.clone() else {
            return;
        };
        if is_mirror(&pod) {
            return self.mirror_seen(pod);
        }
        let pod = as_of_api(pod);
        self.pods.insert(uid.clone(), pod.clone());
        match self.workers.get(&uid) {
            Some(Worker::Running(inbox, _)) => {
                if pod.metadata.deletion_timestamp.is_some() {
                    self.agent.ends.note(&uid, true);
                }
                inbox.put_pod(pod);
            }
            Some(Worker::Ended) => {}
            None => self.begin(&uid, pod),
        }
    }

    /// Makes a worker for a pod of the API.
    fn begin(&mut self, uid: &str, pod: Arc<Pod>) {
        let saved = self.load(uid, &pod);
        if saved.is_none() && has_ended(&pod) {
            // It ended before this agent knew it, and nothing of it is here.
            self.workers.insert(uid.to_owned(), Worker::Ended);
            if pod.metadata.deletion_timestamp.is_some() {
                let agent = self.agent.clone();
                self.agent.spawn(async move {
                    if let Err(error) = delete_finally(&agent.client, &pod).await {
                        tracing::warn!(error = %crate::api_error::Brief(&error), "an ended pod could not be deleted");
                    }
                });
            }
            return;
        }
        if saved.is_none()
            && let Some(refusal) = self.refusal(&pod)
        {
            return self.refuse(uid, pod, refusal);
        }
        fault::point("pod.begun");
        let memory = saved.map(|saved| saved.memory).unwrap_or_default();
        self.spawn(uid, WorkerStart { pod, memory }, Fate::Stays);
    }

    /// Why a pod that was bound to this node does not fit it. One that was taken up before is not asked again.
    fn refusal(&self, pod: &Pod) -> Option<Refusal> {
        let taken_up = pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        if taken_up || pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let node = self.agent.node.borrow().clone()?;
        let taken: Vec<&Claim> = self
            .workers
            .iter()
            // What has ended or is gone in the API has made room, as the scheduler sees it.
            .filter(|(uid, _)| {
                !self.vanished.contains(*uid) && !self.pods.get(*uid).is_some_and(|pod| has_ended(pod))
            })
            .filter_map(|(_, worker)| match worker {
                Worker::Running(_, claim) => Some(claim),
                Worker::Ended => None,
            })
            .collect();
        lifecycle::refusal(pod, &node, &taken).or_else(|| crate::sysctls::refusal(pod))
    }

    /// Fails a pod that does not fit: nothing of it is ever made here.
    fn refuse(&mut self, uid: &str, pod: Arc<Pod>, refusal: Refusal) {
        self.workers.insert(uid.to_owned(), Worker::Ended);
        let agent = self.agent.clone();
        self.agent.spawn(async move {
            agent.pod_event(&pod, EventType::Warning, refusal.reason.clone(), refusal.message.clone());
            let mut status = pod.status.clone().unwrap_or_default();
            status.phase = Some(lifecycle::PodPhase::Failed.as_str().to_owned());
            status.message = Some(refusal.status_message());
            status.reason = Some(refusal.reason);
            let change = || StatusChange { pod: &pod, from: pod.status.as_ref(), to: &status };
            while let Err(error) = write_status(&agent.client, change()).await {
                tracing::warn!(%error, "that a pod was refused could not be written to it");
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        });
    }

    fn load(&self, uid: &str, pod: &Pod) -> Option<SavedPod> {
        match self.agent.store.load(uid) {
            Ok(saved) => saved,
            Err(error @ LoadPodError::Damaged(_)) => {
                self.agent.pod_event(pod, EventType::Warning, event::STATE_QUARANTINED, error.to_string());
                Some(SavedPod { pod: pod.clone(), ..SavedPod::default() })
            }
            Err(error @ LoadPodError::Unreadable(_)) => {
                tracing::warn!(uid, %error, "the pod begins without what was remembered");
                None
            }
        }
    }

    fn spawn(&mut self, uid: &str, start: WorkerStart, fate: Fate) {
        let inbox = Inbox::default();
        inbox.put_pod(start.pod.clone());
        // Before it looks for the first time: what stops is not mounted and probed again.
        match fate {
            Fate::Stays => {}
            Fate::Vanished => inbox.put_vanished(),
            Fate::Leaves(leave) => inbox.put_leave(leave),
        }
        let claim = Claim::of(&start.pod);
        let worker = PodWorker::new(self.agent.clone(), inbox.clone(), uid.to_owned(), start);
        let (handle, ended) = (self.handle.clone(), uid.to_owned());
        // The worker ends at its next await when the agent ends: containers go on, and the next agent adopts them.
        self.agent.spawn(async move {
            worker.run().await;
            handle.tell(PodsMessage::Ended { uid: ended });
        });
        self.workers.insert(uid.to_owned(), Worker::Running(inbox, claim));
    }

    fn gone(&mut self, uid: &str) {
        let mirrors = self.statics.mirrors.iter();
        let mirror = mirrors.into_iter().find(|(_, mirror)| mirror.metadata.uid.as_deref() == Some(uid));
        if let Some(key) = mirror.map(|(key, _)| key.clone()) {
            self.statics.mirrors.remove(&key);
            return self.follow_mirror(&key);
        }
        match self.workers.get(uid) {
            Some(Worker::Running(inbox, _)) => {
                self.agent.ends.note(uid, true);
                inbox.put_vanished();
                self.vanished.insert(uid.to_owned());
            }
            Some(Worker::Ended) => {
                self.workers.remove(uid);
                self.pods.remove(uid);
            }
            None => {
                self.pods.remove(uid);
            }
        }
    }

    fn ended(&mut self, uid: &str) {
        self.agent.ends.note(uid, false);
        self.workers.insert(uid.to_owned(), Worker::Ended);
        // If the API still has the object, its deletion will come; if not, it has come already.
        if self.vanished.remove(uid) || !self.pods.contains_key(uid) {
            self.workers.remove(uid);
            if let Some(pod) = self.pods.remove(uid).filter(|pod| is_static(pod)) {
                self.static_pod_ended(&key_of(&pod));
            }
        }
    }

    async fn listed(&mut self, uids: BTreeSet<String>) {
        let from_api = self.pods.iter().filter(|(_, pod)| !is_static(pod)).map(|(uid, _)| uid);
        let mirrors = self.statics.mirrors.values().filter_map(|mirror| mirror.metadata.uid.as_ref());
        let missing: Vec<String> =
            from_api.chain(mirrors).filter(|uid| !uids.contains(*uid)).cloned().collect();
        for uid in missing {
            self.gone(&uid);
        }
        self.listed = Some(uids);
        self.adopt_when_all_is_known().await;
    }

    /// What neither the API nor a file has is an orphan; before both were read nobody is one.
    async fn adopt_when_all_is_known(&mut self) {
        let has_directory = self.agent.config.static_pod_dir.is_some();
        let api_known = self.listed.is_some() || !self.agent.has_api;
        let files_known = self.statics.listed.is_some() || !has_directory;
        if self.adopted || !api_known || !files_known {
            return;
        }
        self.adopted = true;
        let mut uids = self.listed.clone().unwrap_or_default();
        uids.extend(self.statics.wanted.keys().cloned());
        self.adopt_orphans(&uids).await;
        let mirrors: Vec<PodKey> = self.statics.mirrors.keys().cloned().collect();
        for key in mirrors {
            self.follow_mirror(&key);
        }
    }

    /// Stops everything that the disk or the runtime know, without forgetting it.
    async fn leave(&mut self, leave: Leave) {
        // From here on nothing is an orphan.
        self.adopted = true;
        for (uid, from_runtime) in self.known_pods().await {
            if self.workers.contains_key(&uid) {
                continue;
            }
            let saved = self.load(&uid, &from_runtime.clone().unwrap_or_default());
            if let Some((pod, memory)) = begun_before(saved, from_runtime) {
                self.spawn(&uid, WorkerStart { pod: Arc::new(pod), memory }, Fate::Leaves(leave));
            }
        }
        for worker in self.workers.values() {
            if let Worker::Running(inbox, _) = worker {
                inbox.put_leave(leave);
            }
        }
    }

    /// What the disk and the runtime know of pods; from the runtime as much of the object as there is.
    async fn known_pods(&self) -> BTreeMap<String, Option<Pod>> {
        let mut orphans: BTreeMap<String, Option<Pod>> = BTreeMap::new();
        for uid in self.agent.store.known_uids() {
            orphans.insert(uid, None);
        }
        let request = v1::ListPodSandboxRequest::default();
        match self.agent.runtime.list_pod_sandbox(request).await {
            Ok(answer) => {
                for sandbox in answer.into_inner().items {
                    if let Some(pod) = pod_of_sandbox(&sandbox) {
                        orphans.insert(pod.metadata.uid.clone().unwrap_or_default(), Some(pod));
                    }
                }
            }
            Err(status) => {
                tracing::warn!(error = status.message(), "orphaned sandboxes cannot be listed");
            }
        }
        orphans
    }

    /// Pods that only the disk or the runtime know: they were deleted while no agent ran. They are stopped with their grace.
    async fn adopt_orphans(&mut self, uids: &BTreeSet<String>) {
        for (uid, from_runtime) in self.known_pods().await {
            if uids.contains(&uid) || self.workers.contains_key(&uid) {
                continue;
            }
            let placeholder = from_runtime.clone().unwrap_or_default();
            let saved = self.load(&uid, &placeholder);
            let Some((pod, memory)) = begun_before(saved, from_runtime) else {
                // A directory without state and without containers: only what was mounted in it is left.
                self.clear_directory(uid);
                continue;
            };
            let pod = Arc::new(pod);
            if is_static(&pod) && self.statics.listed == Some(true) {
                // Its file may be one of those that cannot be read now.
                self.statics.unclaimed.insert(uid.clone());
                self.statics.wanted.insert(uid.clone(), pod.clone());
                self.pods.insert(uid.clone(), pod.clone());
                self.spawn(&uid, WorkerStart { pod, memory }, Fate::Stays);
                continue;
            }
            tracing::info!(uid, "stopping a pod that was deleted while the node agent was away");
            self.spawn(&uid, WorkerStart { pod, memory }, Fate::Vanished);
        }
    }

    fn clear_directory(&self, uid: String) {
        let agent = self.agent.clone();
        self.agent.tasks.spawn_blocking(move || {
            let dirs = agent.config.pod_dirs(&uid);
            let cleared = crate::volumes::tear_down(&dirs).and_then(|()| agent.store.remove(&uid));
            if let Err(error) = cleared {
                tracing::warn!(uid, %error, "the directory of a forgotten pod cannot be removed");
            }
        });
    }

    fn runtime_changed(&self, uid: Option<&str>) {
        self.agent.note_runtime_change();
        for (key, worker) in &self.workers {
            if uid.is_none_or(|uid| uid == key)
                && let Worker::Running(inbox, _) = worker
            {
                inbox.wake();
            }
        }
    }

    fn source_changed(&self, kind: SourceKind, namespace: &str, name: &str) {
        let key = (kind, name.to_owned());
        for (uid, pod) in &self.pods {
            if pod.metadata.namespace.as_deref() == Some(namespace)
                && let Some(Worker::Running(inbox, _)) = self.workers.get(uid)
                && referenced_sources(pod).contains(&key)
            {
                inbox.put_sources_changed();
            }
        }
    }
}

/// A pod that an earlier agent began: as it was saved, or as much as its sandbox tells.
fn begun_before(saved: Option<SavedPod>, from_runtime: Option<Pod>) -> Option<(Pod, PodMemory)> {
    match (saved, from_runtime) {
        (Some(saved), _) if saved.pod.metadata.uid.is_some() => Some((saved.pod, saved.memory)),
        (saved, Some(pod)) => Some((pod, saved.map(|saved| saved.memory).unwrap_or_default())),
        (_, None) => None,
    }
}

/// Whoever writes a pod into the API cannot make it look as if it came from a file of the node.
fn as_of_api(pod: Arc<Pod>) -> Arc<Pod> {
    if !is_static(&pod) {
        return pod;
    }
    let mut pod = Arc::unwrap_or_clone(pod);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(api::annotations::CONFIG_SOURCE.to_owned(), "api".to_owned());
    Arc::new(pod)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// As much of a pod as its sandbox tells: enough to stop it.
fn pod_of_sandbox(sandbox: &v1::PodSandbox) -> Option<Pod> {
    let label = |name: &str| sandbox.labels.get(name).cloned();
    let uid = label(labels::POD_UID)?;
    let mut pod = Pod::default();
    pod.metadata.uid = Some(uid);
    pod.metadata.name = label(labels::POD_NAME);
    pod.metadata.namespace = label(labels::POD_NAMESPACE);
    pod.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
        clock::from_nanos(sandbox.created_at).unwrap_or_default(),
    ));
    pod.spec = Some(PodSpec { containers: Vec::<Container>::new(), ..PodSpec::default() });
    Some(pod)
}
