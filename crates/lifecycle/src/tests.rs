//! Tables of the decisions: a small world in which pods, the runtime and time are written down, and what is decided.

mod ephemeral;
mod hooks;
mod placements;
mod plans;
mod restart_rules;
mod statuses;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use serde_json::{Value, json};

use crate::{
    Action, BootTime, ContainerPhase, Health, NodeIdentity, Now, ObservedContainer, ObservedSandbox, Plan,
    PodMemory, PodView, RuntimePod, StartRecord, StopIntent, UnderWay,
};

/// A pod, what runs, what is remembered, and the time.
struct World {
    pod: Pod,
    runtime: RuntimePod,
    memory: PodMemory,
    health: Health,
    under_way: UnderWay,
    now: Now,
}

impl World {
    fn new(spec: Value) -> Self {
        let pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 1}, "spec": spec,
        }))
        .expect("a pod");
        let now =
            Now { wall: Timestamp::from_second(1_700_000_000).expect("a time"), boot: BootTime(1_000_000) };
        let mut world = Self {
            pod,
            runtime: RuntimePod::default(),
            memory: PodMemory::default(),
            health: BTreeMap::new(),
            under_way: UnderWay::default(),
            now,
        };
        world.memory.note_accepted(now);
        world
    }

    /// The same world with a ready sandbox.
    fn with_sandbox(spec: Value) -> Self {
        let mut world = Self::new(spec);
        world.create_sandbox();
        world
    }

    fn create_sandbox(&mut self) {
        let attempt = self.memory.sandboxes;
        self.memory.note_sandbox_created(attempt, format!("sandbox-{attempt}"));
        self.runtime.sandboxes.insert(
            0,
            ObservedSandbox {
                id: format!("sandbox-{attempt}"),
                attempt,
                ready: true,
                ips: vec!["10.42.0.7".to_owned()],
            },
        );
    }

    fn start(&mut self, name: &str) -> String {
        let attempt = self
            .runtime
            .containers
            .iter()
            .filter(|container| container.name == name)
            .map(|container| container.attempt + 1)
            .max()
            .unwrap_or(0);
        let id = format!("{name}-{attempt}");
        self.runtime.containers.push(ObservedContainer {
            id: id.clone(),
            name: name.to_owned(),
            sandbox_id: self.runtime.sandboxes[0].id.clone(),
            attempt,
            spec_hash: None,
            image: "i".to_owned(),
            image_id: "sha256:1".to_owned(),
            phase: ContainerPhase::Running { started_at: Some(self.now.wall) },
        });
        let record =
            StartRecord { id: id.clone(), attempt, image: "i".to_owned(), image_id: "sha256:1".to_owned() };
        self.memory.note_started(name, record, self.now);
        id
    }

    fn end(&mut self, name: &str, code: i32) {
        let finished = self.now.wall;
        let container = self
            .runtime
            .containers
            .iter_mut()
            .filter(|container| container.name == name)
            .max_by_key(|container| container.attempt)
            .expect("it was started");
        container.phase = ContainerPhase::Exited {
            code,
            reason: String::new(),
            message: String::new(),
            started_at: Some(finished),
            finished_at: Some(finished),
        };
    }

    /// A stop that was begun and that the runtime carries out.
    fn stopping(&mut self, id: &str, deadline: BootTime, probe_failed: bool) {
        let intent = StopIntent { deadline, probe_failed, ..StopIntent::default() };
        self.memory.note_stopping(id, intent);
        self.under_way.stops.insert(id.to_owned());
    }

    fn pass(&mut self, seconds: i64) {
        self.now.boot = self.now.boot.plus_seconds(seconds);
        self.now.wall = Timestamp::from_second(self.now.wall.as_second() + seconds).expect("a time");
    }

    fn view(&self) -> PodView<'_> {
        PodView {
            pod: &self.pod,
            runtime: &self.runtime,
            memory: &self.memory,
            health: &self.health,
            under_way: &self.under_way,
            spec_hash: |container: &Container| container.image.clone().unwrap_or_default(),
            now: self.now,
        }
    }

    /// Looks, remembers, decides.
    fn plan(&mut self) -> Plan {
        self.memory.note_observed(&self.pod, &self.runtime, self.now);
        self.memory.note_object(&self.pod, false, self.now);
        self.memory.note_deadline(&self.pod, &self.runtime, self.now);
        self.memory.note_restart_all(&self.pod, &self.runtime);
        crate::plan(self.view())
    }

    /// The plan in short words, for tables.
    fn words(&mut self) -> Vec<String> {
        self.plan().actions.iter().map(word).collect()
    }

    fn status(&mut self) -> Value {
        self.memory.note_observed(&self.pod, &self.runtime, self.now);
        let node =
            NodeIdentity { addresses: vec!["192.0.2.1".to_owned()], runtime_name: "coracle".to_owned() };
        serde_json::to_value(crate::status(&self.view(), &node)).expect("a status is JSON")
    }
}

fn word(action: &Action) -> String {
    match action {
        Action::CreateSandbox { attempt } => format!("sandbox {attempt}"),
        Action::StopSandbox { id } => format!("stop {id}"),
        Action::StartContainer { name, attempt, .. } => format!("start {name}-{attempt}"),
        Action::AnnounceBackOff { name, .. } => format!("back-off {name}"),
        Action::StopContainer { id, grace_seconds, .. } => format!("stop {id} in {grace_seconds}"),
        Action::BeginStop { id, grace_seconds, .. } => format!("begin to stop {id} in {grace_seconds}"),
        Action::RunHook { key, delivery, .. } => {
            format!("{} {}-{} #{delivery}", key.kind.as_str(), key.container, key.attempt)
        }
        Action::AbandonHook { key } => format!("abandon {} {}", key.kind.as_str(), key.container),
        Action::RemoveContainer { id } => format!("remove {id}"),
        Action::ClearVolumes => "clear".to_owned(),
        Action::Forget => "forget".to_owned(),
    }
}

fn container(name: &str) -> Value {
    json!({"name": name, "image": "i"})
}
