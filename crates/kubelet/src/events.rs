//! Events of the node: one task writes them to the API in order; the same event again only raises its count.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::faults::contained;

/// How many different events are remembered for counting.
const REMEMBERED: usize = 4096;

/// Whether an event is good news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventType {
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
    Record { object: Box<ObjectReference>, type_: EventType, reason: Cow<'static, str>, message: String },
    Flush(oneshot::Sender<()>),
}

/// Hands events to the task that writes them. Cheap to clone; never waits, never fails.
#[derive(Clone, Debug)]
pub(crate) struct EventRecorder {
    commands: mpsc::UnboundedSender<Command>,
}

impl EventRecorder {
    /// Records an event about an object.
    pub(crate) fn record(
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
        let _ = self.commands.send(Command::Record { object: Box::new(object), type_, reason, message });
    }

    /// Waits until everything recorded so far has been sent.
    pub(crate) async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        if self.commands.send(Command::Flush(done)).is_ok() {
            let _ = wait.await;
        }
    }
}

/// The reference by which events name a pod, or one of its containers.
pub(crate) fn pod_reference(pod: &Pod, field_path: Option<String>) -> ObjectReference {
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
pub(crate) fn node_reference(node: &Node) -> ObjectReference {
    ObjectReference {
        kind: Some("Node".to_owned()),
        api_version: Some("v1".to_owned()),
        name: node.metadata.name.clone(),
        uid: node.metadata.name.clone(),
        ..ObjectReference::default()
    }
}

/// Makes a recorder and the future that writes its events, until the last recorder is dropped.
pub(crate) fn event_recorder(
    client: Option<kube::Client>,
    component: &'static str,
    host: String,
) -> (EventRecorder, impl Future<Output = ()>) {
    let (commands, inbox) = mpsc::unbounded_channel();
    let task =
        EventTask { client, component, host, written: HashMap::new(), order: VecDeque::new(), serial: 0 };
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
    written: HashMap<EventKey, Written>,
    order: VecDeque<EventKey>,
    serial: u32,
}

impl EventTask {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        while let Some(command) = inbox.recv().await {
            match command {
                Command::Record { object, type_, reason, message } => {
                    let written = self.write(*object, type_, &reason, message);
                    if let Some(Err(error)) = contained("events", written).await {
                        // The namespace may be gone, or the API server away: events are best effort.
                        tracing::debug!(%error, %reason, "event was not written");
                    }
                }
                Command::Flush(done) => {
                    let _ = done.send(());
                }
            }
        }
    }

    async fn write(
        &mut self,
        object: ObjectReference,
        type_: EventType,
        reason: &str,
        message: String,
    ) -> kube::Result<()> {
        let Some(client) = self.client.clone() else {
            let object =
                format!("{}/{}", object.namespace.unwrap_or_default(), object.name.unwrap_or_default());
            match type_ {
                EventType::Normal => tracing::info!(object, reason, "{message}"),
                EventType::Warning => tracing::warn!(object, reason, "{message}"),
            }
            return Ok(());
        };
        let now = Timestamp::now();
        let key = EventKey {
            uid: object.uid.clone().unwrap_or_default(),
            field_path: object.field_path.clone().unwrap_or_default(),
            type_,
            reason: reason.to_owned(),
            message: message.clone(),
        };
        if let Some(written) = self.written.get_mut(&key) {
            written.count = written.count.saturating_add(1);
            let events: Api<Event> = Api::namespaced(client.clone(), &written.namespace);
            let patch = json!({"count": written.count, "lastTimestamp": Time(now)});
            match events.patch(&written.name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => return Ok(()),
                // It expired or was deleted: begin anew.
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    self.written.remove(&key);
                    self.order.retain(|other| *other != key);
                }
                Err(error) => return Err(error),
            }
        }
        let namespace = object.namespace.clone().unwrap_or_else(|| "default".to_owned());
        self.serial = self.serial.wrapping_add(1);
        let name = format!(
            "{}.{:x}{:04x}",
            object.name.as_deref().unwrap_or("node"),
            now.as_microsecond(),
            self.serial & 0xffff
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
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.written.remove(&oldest);
        }
        self.order.push_back(key.clone());
        self.written.insert(key, Written { name, namespace, count: 1 });
        Ok(())
    }
}
