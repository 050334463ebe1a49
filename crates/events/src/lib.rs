//! Events of the API, as a node and as controllers record them: one task writes them to the API, those of one object in order; the same event again only raises its count.
//!
//! Objects do not wait for each other: a pod is forgotten only after its events are written, and when all were written one by
//! one on a busy machine, pods that were long gone stayed in memory, waiting for their turn.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use fault::contained;

/// How many different events are remembered for counting.
const REMEMBERED: usize = 4096;
/// How many events are taken up at once.
const BATCH: usize = 256;
/// Of how many objects events are written at once.
const OBJECTS_AT_ONCE: usize = 8;

/// Whether an event is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something went its way.
    Normal,
    /// Something needs a look.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EventKey {
    uid: String,
    field_path: String,
    type_: EventType,
    reason: String,
    message: String,
}

enum Command {
    Record(Record),
    Flush(oneshot::Sender<()>),
}

struct Record {
    object: Box<ObjectReference>,
    type_: EventType,
    reason: Cow<'static, str>,
    message: String,
    at: Timestamp,
}

/// Hands events to the task that writes them. Cheap to clone; never waits, never fails.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    commands: mpsc::UnboundedSender<Command>,
}

impl EventRecorder {
    /// Records an event about an object.
    pub fn record(
        &self,
        object: ObjectReference,
        type_: EventType,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) {
        let reason = reason.into();
        let mut message = message.into();
        if message.len() > api::limits::EVENT_MESSAGE {
            let mut end = api::limits::EVENT_MESSAGE - 3;
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
            message.push_str("...");
        }
        // The task ends only with the agent; then nobody is left to read the event.
        let record = Record { object: Box::new(object), type_, reason, message, at: Timestamp::now() };
        let _ = self.commands.send(Command::Record(record));
    }

    /// Waits until everything recorded so far has been sent.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        if self.commands.send(Command::Flush(done)).is_ok() {
            let _ = wait.await;
        }
    }
}

/// The reference by which events name a pod, or one of its containers.
pub fn pod_reference(pod: &Pod, field_path: Option<String>) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        api_version: Some("v1".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        resource_version: pod.metadata.resource_version.clone(),
        field_path,
    }
}

/// The reference by which events name a node: its UID is its name, as Kubernetes has it.
pub fn node_reference(node: &Node) -> ObjectReference {
    ObjectReference {
        kind: Some("Node".to_owned()),
        api_version: Some("v1".to_owned()),
        name: node.metadata.name.clone(),
        uid: node.metadata.name.clone(),
        ..ObjectReference::default()
    }
}

/// Makes a recorder and the future that writes its events, until the last recorder is dropped.
pub fn event_recorder(
    client: Option<kube::Client>,
    component: &'static str,
    host: String,
) -> (EventRecorder, impl Future<Output = ()>) {
    let (commands, inbox) = mpsc::unbounded_channel();
    let task = EventTask { client, component, host, remembered: Mutex::default() };
    (EventRecorder { commands }, task.run(inbox))
}

struct Written {
    name: String,
    namespace: String,
    count: i32,
}

struct EventTask {
    /// A node without an API server writes its events to its log.
    client: Option<kube::Client>,
    component: &'static str,
    host: String,
    remembered: Mutex<Remembered>,
}

/// Which events were written, for counting.
#[derive(Default)]
struct Remembered {
    written: HashMap<EventKey, Written>,
    order: VecDeque<EventKey>,
    serial: u32,
}

impl Remembered {
    fn forget(&mut self, key: &EventKey) {
        self.written.remove(key);
        self.order.retain(|other| other != key);
    }

    fn note(&mut self, key: EventKey, written: Written) {
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.written.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.written.insert(key, written);
    }
}

impl EventTask {
    async fn run(self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        let mut batch = Vec::new();
        while inbox.recv_many(&mut batch, BATCH).await > 0 {
            let mut objects: BTreeMap<String, Vec<Record>> = BTreeMap::new();
            let mut waiting = Vec::new();
            for command in batch.drain(..) {
                match command {
                    Command::Record(record) => {
                        objects
                            .entry(record.object.uid.clone().unwrap_or_default())
                            .or_default()
                            .push(record);
                    }
                    Command::Flush(done) => waiting.push(done),
                }
            }
            futures::stream::iter(objects.into_values())
                .for_each_concurrent(OBJECTS_AT_ONCE, |records| self.write_in_order(records))
                .await;
            for done in waiting {
                let _ = done.send(());
            }
        }
    }

    async fn write_in_order(&self, records: Vec<Record>) {
        for record in records {
            let reason = record.reason.clone();
            if let Some(Err(error)) = contained("events", self.write(record)).await {
                // The namespace may be gone, or the API server away: events are best effort.
                tracing::debug!(%error, %reason, "event was not written");
            }
        }
    }

    /// No holder of the lock can panic half-way through a change.
    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(&self, record: Record) -> kube::Result<()> {
        let Record { object, type_, reason, message, at: now } = record;
        let (object, reason) = (*object, &*reason);
        let Some(client) = self.client.clone() else {
            let object =
                format!("{}/{}", object.namespace.unwrap_or_default(), object.name.unwrap_or_default());
            match type_ {
                EventType::Normal => tracing::info!(object, reason, "{message}"),
                EventType::Warning => tracing::warn!(object, reason, "{message}"),
            }
            return Ok(());
        };
        let key = EventKey {
            uid: object.uid.clone().unwrap_or_default(),
            field_path: object.field_path.clone().unwrap_or_default(),
            type_,
            reason: reason.to_owned(),
            message: message.clone(),
        };
        let again = self.remembered().written.get_mut(&key).map(|written| {
            written.count = written.count.saturating_add(1);
            (written.name.clone(), written.namespace.clone(), written.count)
        });
        if let Some((name, namespace, count)) = again {
            let events: Api<Event> = Api::namespaced(client.clone(), &namespace);
            let patch = json!({"count": count, "lastTimestamp": Time(now)});
            match events.patch(&name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => return Ok(()),
                // It expired or was deleted: begin anew.
                Err(kube::Error::Api(status)) if status.code == 404 => self.remembered().forget(&key),
                Err(error) => return Err(error),
            }
        }
        let namespace = object.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let serial = {
            let mut remembered = self.remembered();
            remembered.serial = remembered.serial.wrapping_add(1);
            remembered.serial
        };
        let name = format!(
            "{}.{:x}{:04x}",
            object.name.as_deref().unwrap_or("node"),
            now.as_microsecond(),
            serial & 0xffff
        );
        let event = Event {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            involved_object: object,
            type_: Some(type_.as_str().to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource {
                component: Some(self.component.to_owned()),
                host: Some(self.host.clone()),
            }),
            reporting_component: Some(self.component.to_owned()),
            reporting_instance: Some(self.host.clone()),
            ..Event::default()
        };
        let events: Api<Event> = Api::namespaced(client, &namespace);
        events.create(&PostParams::default(), &event).await?;
        self.remembered().note(key, Written { name, namespace, count: 1 });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http_body_util::BodyExt as _;
    use k8s_openapi::api::core::v1::ObjectReference;
    use kube::client::Body;
    use serde_json::Value;
    use tokio::sync::Barrier;

    use super::{EventType, OBJECTS_AT_ONCE, event_recorder};

    /// Answers only when events of this many objects are being written; notes the messages.
    fn client(together: usize, messages: Arc<Mutex<Vec<String>>>) -> kube::Client {
        let barrier = Arc::new(Barrier::new(together));
        let answer = tower::service_fn(move |request: http::Request<Body>| {
            let (barrier, messages) = (barrier.clone(), messages.clone());
            async move {
                let body = request.into_body().collect().await.expect("whole").to_bytes();
                let event: Value = serde_json::from_slice(&body).expect("JSON");
                barrier.wait().await;
                messages
                    .lock()
                    .expect("whole")
                    .push(event["message"].as_str().unwrap_or_default().to_owned());
                Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(body.to_vec())))
            }
        });
        kube::Client::new(answer, "default")
    }

    fn pod(number: usize) -> ObjectReference {
        ObjectReference {
            name: Some(format!("p{number}")),
            uid: Some(format!("u{number}")),
            namespace: Some("default".to_owned()),
            ..ObjectReference::default()
        }
    }

    /// On a busy machine the daemon kept every pod of a churn in memory, each waiting for the events of all others.
    #[tokio::test]
    async fn the_events_of_one_pod_do_not_wait_for_those_of_another_and_stay_in_order() {
        let messages = Arc::default();
        let client = client(OBJECTS_AT_ONCE, Arc::clone(&messages));
        let (recorder, task) = event_recorder(Some(client), "kubelet", "node".to_owned());
        for step in ["first", "second"] {
            for number in 0..OBJECTS_AT_ONCE {
                recorder.record(pod(number), EventType::Normal, "Reason", format!("{step} of {number}"));
            }
        }
        let writing = tokio::spawn(task);
        tokio::time::timeout(std::time::Duration::from_secs(30), recorder.flush())
            .await
            .expect("all together");
        drop(recorder);
        writing.await.expect("no panic");
        let messages = messages.lock().expect("whole");
        assert_eq!(messages.len(), 2 * OBJECTS_AT_ONCE);
        for number in 0..OBJECTS_AT_ONCE {
            let place = |step: &str| messages.iter().position(|one| *one == format!("{step} of {number}"));
            assert!(place("first") < place("second") && place("first").is_some(), "{messages:?}");
        }
    }
}
