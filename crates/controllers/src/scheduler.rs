//! The scheduler: gives each pod that has no node one that fits it, and says of the others why there is none.
//!
//! One task owns the [`Board`]: caches tell it what has changed, it decides, and bindings and messages go out side by side. A pod
//! that was given a node counts as being there at once; the API refuses a second binding, whoever asks and whenever the process
//! was killed.
//!
//! | file | decides or holds |
//! |---|---|
//! | `board.rs` | who waits, in which order and for what; who was given a node |
//! | `decision.rs` | one pod, all nodes, one verdict |
//! | `cluster.rs`, `tally.rs` | nodes, what is on them, and how many pods of which group; kept as sums |
//! | `wish.rs`, `matching.rs` | what a pod asks for |
//! | `affinity.rs`, `spread.rs`, `volumes.rs` | what keeps a pod from a node, beyond what [`lifecycle::obstacles`] knows |
//! | `score.rs` | which of the nodes that fit is best |
//! | `reason.rs`, `occasions.rs` | what is said when none fits, and what may help |

mod affinity;
mod board;
mod cluster;
mod decision;
mod matching;
mod occasions;
mod reason;
mod score;
mod spread;
mod tally;
mod volumes;
mod wish;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use api::reasons::{condition, event};
use events::{EventRecorder, EventType, pod_reference};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use informer::{Change, Informer, Kind, ObjectKey};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Binding, Namespace, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::{Informers, Speaker, Start};
use board::{Act, Board};
use volumes::{Fulfilment, SELECTED_NODE};
use wish::Wish;

/// Bindings under way at once.
const BINDINGS: usize = 32;
/// Messages under way at once.
const MESSAGES: usize = 4;
/// News that are taken up at once.
const BATCH: usize = 1024;

/// Waited after an internal error.
const AFTER_A_FAULT: Duration = Duration::from_secs(1);

/// What a cache tells.
enum News {
    Pod(Change<Pod>),
    Node(Change<Node>),
    Namespace(Change<Namespace>),
    Claim(Change<PersistentVolumeClaim>),
    Volume(Change<PersistentVolume>),
    Class(Change<StorageClass>),
}

/// Starts the scheduler.
pub(crate) fn start(start: &Start<'_>) {
    let (client, events) = start.speaker(Speaker::Scheduler);
    let informers = start.informers().clone();
    let (news, inbox) = mpsc::unbounded_channel();
    tell(&informers.pods, &news, News::Pod, pod_matters);
    tell(&informers.nodes, &news, News::Node, node_matters);
    tell(&informers.namespaces, &news, News::Namespace, |_| true);
    tell(&informers.persistent_volume_claims, &news, News::Claim, |_| true);
    tell(&informers.persistent_volumes, &news, News::Volume, |_| true);
    tell(&informers.storage_classes, &news, News::Class, |_| true);
    let shutdown = start.shutdown.clone();
    let desk = Arc::new(Desk { client, events, informers });
    start.task(async move {
        let mut under_way = UnderWay::default();
        let mut inbox = inbox;
        let work = async {
            // After an internal error it begins anew, with what the caches know.
            while fault::contained("scheduler", run(&desk, &mut inbox, &mut under_way)).await.is_none() {
                tokio::time::sleep(AFTER_A_FAULT).await;
            }
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = work => {}
        }
        // What has begun is brought to its end, and told.
        while under_way.bindings.next().await.is_some() {}
    });
}

/// Has an informer tell of the changes that matter.
fn tell<K: Kind>(
    informer: &Informer<K>,
    news: &mpsc::UnboundedSender<News>,
    name: fn(Change<K>) -> News,
    matters: fn(&Change<K>) -> bool,
) {
    let news = news.clone();
    informer.on_change(move |change| {
        if matters(change) {
            // The receiver ends with the process.
            let _ = news.send(name(change.clone()));
        }
    });
}

/// Whether a change of a pod can change a decision. Most are of its status.
fn pod_matters(change: &Change<Pod>) -> bool {
    let Change::Changed { before, now } = change else { return true };
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    before.metadata.uid != now.metadata.uid
        || before.metadata.labels != now.metadata.labels
        || before.metadata.deletion_timestamp != now.metadata.deletion_timestamp
        || before.spec != now.spec
        || phase(before) != phase(now)
}

fn node_matters(change: &Change<Node>) -> bool {
    let Change::Changed { before, now } = change else { return true };
    let room = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
    before.metadata.labels != now.metadata.labels || before.spec != now.spec || room(before) != room(now)
}

/// What the scheduler does with the API.
struct Desk {
    client: kube::Client,
    events: EventRecorder,
    informers: Informers,
}

/// What has come of an act.
enum Outcome {
    Bound { uid: String },
    NotBound { uid: String },
    Preparing { uid: String },
}

type Work<T> = FuturesUnordered<Pin<Box<dyn Future<Output = T> + Send>>>;

/// What is under way.
#[derive(Default)]
struct UnderWay {
    bindings: Work<Outcome>,
    /// By UID; with the binding that waits for the message, so that the message does not arrive after it.
    messages: Work<String>,
    spoken_of: HashMap<String, Option<Act>>,
    unspoken: VecDeque<(Arc<Wish>, String)>,
}

async fn run(desk: &Arc<Desk>, inbox: &mut mpsc::UnboundedReceiver<News>, under_way: &mut UnderWay) {
    let informers = &desk.informers;
    tokio::join!(
        informers.nodes.synced(),
        informers.pods.synced(),
        informers.namespaces.synced(),
        informers.persistent_volume_claims.synced(),
        informers.persistent_volumes.synced(),
        informers.storage_classes.synced(),
    );
    let mut board = Board::beginning(Instant::now());
    fill(&mut board, informers);
    let mut batch = Vec::new();
    loop {
        // Everything that is known by now, before anything is decided.
        while let Ok(news) = inbox.try_recv() {
            take_up(&mut board, news);
        }
        while under_way.bindings.len() < BINDINGS
            && let Some(act) = board.next(Instant::now())
        {
            under_way.begin(desk, act);
        }
        let now = Instant::now();
        let due = board.due(now);
        tokio::select! {
            count = inbox.recv_many(&mut batch, BATCH) => {
                if count == 0 {
                    return;
                }
                for news in batch.drain(..) {
                    take_up(&mut board, news);
                }
            }
            Some(outcome) = under_way.bindings.next() => {
                // What the act has learned comes before what comes of it.
                while let Ok(news) = inbox.try_recv() {
                    take_up(&mut board, news);
                }
                match outcome {
                    Outcome::Bound { uid } => board.bound(&uid),
                    Outcome::NotBound { uid } => board.not_bound(&uid, Instant::now()),
                    Outcome::Preparing { uid } => board.preparing(&uid),
                }
            }
            Some(uid) = under_way.messages.next() => under_way.spoken(desk, &uid),
            () = tokio::time::sleep_until(due.unwrap_or(now)), if due.is_some() => {}
        }
    }
}

impl UnderWay {
    fn begin(&mut self, desk: &Arc<Desk>, act: Act) {
        match act {
            Act::Bind { ref wish, .. } | Act::Prepare { ref wish, .. }
                if self.spoken_of.contains_key(wish.uid()) =>
            {
                let uid = wish.uid().to_owned();
                self.spoken_of.insert(uid, Some(act));
            }
            Act::Bind { wish, node } => self.bindings.push(Box::pin(Arc::clone(desk).bind(wish, node))),
            Act::Prepare { wish, node, claims } => {
                self.bindings.push(Box::pin(Arc::clone(desk).prepare(wish, node, claims)));
            }
            Act::Tell { wish, message } => {
                self.unspoken.push_back((wish, message));
                self.speak(desk);
            }
        }
    }

    fn speak(&mut self, desk: &Arc<Desk>) {
        while self.messages.len() < MESSAGES
            && let Some((wish, message)) = self.unspoken.pop_front()
        {
            self.spoken_of.insert(wish.uid().to_owned(), None);
            self.messages.push(Box::pin(Arc::clone(desk).explain(wish, message)));
        }
    }

    fn spoken(&mut self, desk: &Arc<Desk>, uid: &str) {
        if let Some(Some(act)) = self.spoken_of.remove(uid) {
            self.begin(desk, act);
        }
        self.speak(desk);
    }
}

/// Writes down what the caches know. What they have told and was not read yet says the same, or less, and is followed by
/// the rest.
fn fill(board: &mut Board, informers: &Informers) {
    informers.nodes.all().into_iter().for_each(|node| take_up(board, News::Node(Change::Added(node))));
    let namespaces = informers.namespaces.all();
    namespaces.into_iter().for_each(|one| take_up(board, News::Namespace(Change::Added(one))));
    let claims = informers.persistent_volume_claims.all();
    claims.into_iter().for_each(|claim| take_up(board, News::Claim(Change::Added(claim))));
    let volumes = informers.persistent_volumes.all();
    volumes.into_iter().for_each(|volume| take_up(board, News::Volume(Change::Added(volume))));
    let classes = informers.storage_classes.all();
    classes.into_iter().for_each(|class| take_up(board, News::Class(Change::Added(class))));
    informers.pods.all().into_iter().for_each(|pod| take_up(board, News::Pod(Change::Added(pod))));
}

/// Writes down what a cache has told.
fn take_up(board: &mut Board, news: News) {
    match news {
        News::Pod(Change::Removed(pod)) => board.forget_pod(pod.metadata.uid.as_deref().unwrap_or_default()),
        News::Pod(Change::Added(pod)) => board.see_pod(pod),
        News::Pod(Change::Changed { before, now }) => {
            if before.metadata.uid != now.metadata.uid {
                board.forget_pod(before.metadata.uid.as_deref().unwrap_or_default());
            }
            board.see_pod(now);
        }
        News::Node(Change::Removed(node)) => {
            board.forget_node(node.metadata.name.as_deref().unwrap_or_default());
        }
        News::Node(Change::Added(node) | Change::Changed { now: node, .. }) => board.see_node(node),
        News::Namespace(change) => {
            let name = name_of(change.object().metadata.name.as_ref());
            let labels = there(&change).map(|now| now.metadata.labels.clone().unwrap_or_default());
            board.see_namespace(&name, labels);
        }
        News::Claim(change) => board.see_claim(ObjectKey::of(&**change.object()), there(&change)),
        News::Volume(change) => {
            board.see_volume(name_of(change.object().metadata.name.as_ref()), there(&change));
        }
        News::Class(change) => {
            board.see_class(name_of(change.object().metadata.name.as_ref()), there(&change));
        }
    }
}

/// The object, if it is not gone.
fn there<K>(change: &Change<K>) -> Option<Arc<K>> {
    match change {
        Change::Added(now) | Change::Changed { now, .. } => Some(Arc::clone(now)),
        Change::Removed(_) => None,
    }
}

fn name_of(name: Option<&String>) -> String {
    name.cloned().unwrap_or_default()
}

impl Desk {
    /// Binds a pod.
    async fn bind(self: Arc<Self>, wish: Arc<Wish>, node: Arc<str>) -> Outcome {
        let (namespace, name) = (wish.namespace(), wish.name());
        let uid = wish.pod.metadata.uid.clone();
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                uid: uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                api_version: Some("v1".to_owned()),
                name: Some(node.as_ref().to_owned()),
                ..ObjectReference::default()
            },
        };
        let uid = uid.unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        fault::point("bind.due");
        let params = PostParams::default();
        let result = fault::contained(
            "binding",
            pods.create_subresource::<_, Status>("binding", name, &params, &binding),
        )
        .await;
        fault::point("bind.done");
        match result {
            Some(Ok(_)) => {
                let message = format!("Successfully assigned {namespace}/{name} to {node}");
                self.events.record(
                    pod_reference(&wish.pod, None),
                    EventType::Normal,
                    event::SCHEDULED,
                    message,
                );
                Outcome::Bound { uid }
            }
            // Somebody else bound or deleted it: the watch says which, or it is tried again.
            Some(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                Outcome::NotBound { uid }
            }
            Some(Err(error)) => {
                self.warn(&wish, format!("binding rejected: {error}"));
                Outcome::NotBound { uid }
            }
            None => Outcome::NotBound { uid },
        }
    }

    /// Tells the claims of a pod its node.
    async fn prepare(self: Arc<Self>, wish: Arc<Wish>, node: Arc<str>, claims: Vec<Fulfilment>) -> Outcome {
        let uid = wish.uid().to_owned();
        for claim in claims {
            if let Err(error) = self.fulfil(&claim, &node).await {
                self.warn(&wish, format!("binding volumes: {error}"));
                return Outcome::NotBound { uid };
            }
        }
        Outcome::Preparing { uid }
    }

    async fn fulfil(&self, claim: &Fulfilment, node: &str) -> kube::Result<()> {
        match claim {
            Fulfilment::Provision(key) => {
                let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &key.namespace);
                let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
                let written = claims.patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
                self.informers.persistent_volume_claims.learn(written);
            }
            Fulfilment::Give(key, volume) => {
                let claim = self.informers.persistent_volume_claims.get(key);
                let uid = claim.and_then(|claim| claim.metadata.uid.clone());
                let known = self.informers.persistent_volumes.get(&ObjectKey::new("", volume));
                let version = known.and_then(|volume| volume.metadata.resource_version.clone());
                // Somebody else may have taken it meanwhile: then the version is another.
                let patch = json!({
                    "metadata": {"resourceVersion": version},
                    "spec": {"claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1",
                        "namespace": key.namespace, "name": key.name, "uid": uid}},
                });
                let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
                let written = volumes.patch(volume, &PatchParams::default(), &Patch::Merge(&patch)).await?;
                self.informers.persistent_volumes.learn(written);
            }
        }
        Ok(())
    }

    /// Says in the pod's status and by an event why it waits. Answers its UID.
    async fn explain(self: Arc<Self>, wish: Arc<Wish>, message: String) -> String {
        let pod = &wish.pod;
        let written =
            fault::contained("message of the scheduler", self.write_condition(&wish, &message)).await;
        match written {
            Some(Ok(())) => self.warn(&wish, message),
            // Somebody else bound or deleted it.
            Some(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409 | 422) => {}
            Some(Err(error)) => {
                tracing::warn!(pod = pod.metadata.name, %error, "why a pod waits could not be written to it");
                self.warn(&wish, message);
            }
            None => {}
        }
        wish.uid().to_owned()
    }

    async fn write_condition(&self, wish: &Wish, message: &str) -> kube::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), wish.namespace());
        let known = self.informers.pods.get(&ObjectKey::of(&*wish.pod));
        let pod = known.as_ref().filter(|known| known.metadata.uid == wish.pod.metadata.uid);
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        let before =
            conditions.into_iter().flatten().find(|one| one.type_ == "PodScheduled" && one.status == "False");
        let since = before.and_then(|one| one.last_transition_time.clone()).unwrap_or(Time(Timestamp::now()));
        let patch = json!({
            "metadata": {"uid": wish.pod.metadata.uid},
            "status": {"conditions": [{
                "type": "PodScheduled", "status": "False", "reason": condition::UNSCHEDULABLE, "message": message,
                "lastTransitionTime": since, "observedGeneration": wish.pod.metadata.generation,
            }]},
        });
        let params = PatchParams::default();
        let written = pods.patch_status(wish.name(), &params, &Patch::Strategic(&patch)).await?;
        self.informers.pods.learn(written);
        Ok(())
    }

    fn warn(&self, wish: &Wish, message: String) {
        self.events.record(
            pod_reference(&wish.pod, None),
            EventType::Warning,
            event::FAILED_SCHEDULING,
            message,
        );
    }
}
