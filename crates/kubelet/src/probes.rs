//! Runs the probes of running containers: one task a container, which tells its pod's worker what it found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cri::v1;
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use lifecycle::{
    ContainerHealth, ContainerPhase, PodMemory, ProbeCounter, ProbeKind, ProbeTiming, RuntimePod, StartHooks,
    pod_container, start_hooks,
};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use api::reasons::event;

use crate::agent::{Agent, SharedAgent};
use crate::environment_record;
use crate::handlers::HandlerTarget;
use crate::hook_environment::secret_values;
use crate::inbox::Inbox;
use crate::pod_network::PodNetwork;
use crate::probe_attempt::{ProbeOutcome, attempt};
use events::EventType;
use fault::carried_on;

/// How many times a probe that cannot be run is tried before its turn is over.
const ATTEMPTS: usize = 3;

/// The tasks of one pod's probes; each ends when its container is no longer among the running ones.
#[derive(Debug, Default)]
pub(crate) struct PodProbes {
    tasks: BTreeMap<String, DropGuard>,
}

impl PodProbes {
    /// Makes a task for every running container that has probes and none yet, and ends those of containers that do not run.
    pub(crate) fn follow(
        &mut self,
        agent: &SharedAgent,
        inbox: &Inbox,
        pod: &Arc<Pod>,
        runtime: &RuntimePod,
        memory: &PodMemory,
    ) {
        let running = |id: &str| {
            runtime.container(id).is_some_and(|container| match container.phase {
                ContainerPhase::Running { .. } => true,
                ContainerPhase::Created | ContainerPhase::Exited { .. } | ContainerPhase::Unknown => false,
            })
        };
        if memory.node_leaves {
            // Nobody asks any more whether it is well.
            self.tasks.clear();
            return;
        }
        self.tasks.retain(|id, _| running(id));
        let Some(network) = pod_network(agent, pod, runtime) else {
            return;
        };
        for instance in &runtime.containers {
            if !running(&instance.id) || self.tasks.contains_key(&instance.id) {
                continue;
            }
            let Some(found) = pod_container(pod, &instance.name) else {
                continue;
            };
            let spec = found.spec;
            // Probes of a container begin when its start hooks have returned.
            if start_hooks(pod, memory, &instance.name, instance.attempt) != StartHooks::Done {
                continue;
            }
            if spec.startup_probe.is_none() && spec.liveness_probe.is_none() && spec.readiness_probe.is_none()
            {
                continue;
            }
            let prober = Prober {
                agent: agent.clone(),
                inbox: inbox.clone(),
                pod: pod.clone(),
                container: spec.clone(),
                id: instance.id.clone(),
                started_at: match &instance.phase {
                    ContainerPhase::Running { started_at } => *started_at,
                    ContainerPhase::Created | ContainerPhase::Exited { .. } | ContainerPhase::Unknown => None,
                },
                network: network.clone(),
                health: watch::Sender::new(ContainerHealth {
                    started: spec.startup_probe.is_none(),
                    ready: false,
                    ..ContainerHealth::default()
                }),
            };
            let stop = CancellationToken::new();
            let stopped = stop.clone();
            agent.spawn(async move {
                tokio::select! {
                    () = carried_on("probes of a container", || prober.run()) => {}
                    () = stopped.cancelled() => {}
                }
            });
            self.tasks.insert(instance.id.clone(), stop.drop_guard());
        }
    }
}

/// The network of a pod whose sandbox is ready.
pub(crate) fn pod_network(agent: &Agent, pod: &Pod, runtime: &RuntimePod) -> Option<PodNetwork> {
    let sandbox = runtime.ready_sandbox()?;
    let host_network = crate::sandbox::in_host_network(pod);
    let addresses = if host_network { &agent.config.addresses } else { &sandbox.ips };
    Some(PodNetwork::new(agent, pod, &sandbox.id, addresses))
}

struct Prober {
    agent: SharedAgent,
    inbox: Inbox,
    pod: Arc<Pod>,
    container: Container,
    id: String,
    started_at: Option<jiff::Timestamp>,
    network: PodNetwork,
    health: watch::Sender<ContainerHealth>,
}

impl Prober {
    async fn run(&self) {
        self.tell();
        let run = async |kind: ProbeKind, probe: &Option<Probe>| {
            if let Some(probe) = probe {
                self.repeat(kind, probe).await;
            }
        };
        tokio::join!(
            run(ProbeKind::Startup, &self.container.startup_probe),
            run(ProbeKind::Liveness, &self.container.liveness_probe),
            run(ProbeKind::Readiness, &self.container.readiness_probe),
        );
    }

    fn tell(&self) {
        self.inbox.put_health(self.id.clone(), self.health.borrow().clone());
    }

    async fn repeat(&self, kind: ProbeKind, probe: &Probe) {
        let timing = ProbeTiming::of(probe);
        if kind != ProbeKind::Startup {
            let mut health = self.health.subscribe();
            if health.wait_for(|health| health.started).await.is_err() {
                return;
            }
        }
        tokio::time::sleep(self.left_of(timing.initial_delay)).await;
        let mut counter = ProbeCounter::new(timing);
        let mut ticks = tokio::time::interval(Duration::from_secs(u64::from(timing.period)));
        // An attempt that takes longer than a period puts off the next one.
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // During termination readiness goes on being probed, the others do not.
            if kind != ProbeKind::Readiness && self.inbox.is_stopping() {
                return;
            }
            self.inbox.health_checks_allowed().await;
            if let Some(verdict) = self.once(kind, probe, &mut counter).await
                && !self.apply(kind, probe, verdict)
            {
                return;
            }
        }
    }

    /// What is left of a delay that began with the container, also for an agent that came later.
    fn left_of(&self, delay: u32) -> Duration {
        let delay = Duration::from_secs(u64::from(delay));
        let running = self.started_at.map(|began| jiff::Timestamp::now().duration_since(began));
        // A clock that was put back makes nobody wait for longer than the delay.
        let running = running.and_then(|time| Duration::try_from(time).ok()).unwrap_or_default();
        delay.saturating_sub(running)
    }

    /// Runs the probe once and counts the result. What cannot be run at all, a few times over, changes nothing.
    async fn once(&self, kind: ProbeKind, probe: &Probe, counter: &mut ProbeCounter) -> Option<bool> {
        let target = HandlerTarget {
            pod: &self.pod,
            container: &self.container,
            container_id: &self.id,
            network: &self.network,
            agent_name: "kube-probe",
        };
        let mut outcome = attempt(&self.agent, target, probe).await;
        for _ in 1..ATTEMPTS {
            if !matches!(outcome, ProbeOutcome::Unknown(_)) {
                break;
            }
            // A probe that met the end of its container says nothing about it.
            if !self.is_running().await {
                return None;
            }
            outcome = attempt(&self.agent, target, probe).await;
        }
        let title = kind.title();
        match outcome {
            ProbeOutcome::Success => counter.note(true),
            ProbeOutcome::Warning(output) => {
                self.warn(event::PROBE_WARNING, format!("{title} probe warning: {output}")).await;
                counter.note(true)
            }
            // A command of it ended with its container, too.
            ProbeOutcome::Failure(_) if !self.is_running().await => None,
            ProbeOutcome::Failure(output) => {
                self.warn(event::UNHEALTHY, format!("{title} probe failed: {output}")).await;
                counter.note(false)
            }
            ProbeOutcome::Unknown(_) if !self.is_running().await => None,
            ProbeOutcome::Unknown(error) => {
                let message = format!("{title} probe errored and resulted in unknown state: {error}");
                self.warn(event::UNHEALTHY, message).await;
                None
            }
        }
    }

    /// Tells what a probe found out. What it printed is the container's, which may print its secrets; everybody who sees
    /// events would see them.
    async fn warn(&self, reason: &'static str, message: String) {
        if self.inbox.is_stopping() {
            // It was told to end: that it is not ready is as it should be.
            return;
        }
        let variables = environment_record::variables(&self.agent, &self.pod, &self.container.name);
        let secrets = secret_values(&self.agent, &self.pod, &self.container, &variables).await;
        let message = secrets.hide(&message);
        self.agent.container_event(&self.pod, &self.container.name, EventType::Warning, reason, message);
    }

    async fn is_running(&self) -> bool {
        let request = v1::ContainerStatusRequest { container_id: self.id.clone(), verbose: false };
        let answer = self.agent.runtime.container_status(request).await;
        let status = answer.ok().and_then(|answer| answer.into_inner().status);
        status.is_some_and(|status| status.state == v1::ContainerState::ContainerRunning as i32)
    }

    /// Answers whether the probe goes on.
    fn apply(&self, kind: ProbeKind, probe: &Probe, success: bool) -> bool {
        let before = self.health.borrow().clone();
        let mut health = before.clone();
        let goes_on = match (kind, success) {
            (ProbeKind::Startup, true) => {
                health.started = true;
                false
            }
            (ProbeKind::Readiness, ready) => {
                health.ready = ready;
                true
            }
            (ProbeKind::Liveness, true) => true,
            (ProbeKind::Startup | ProbeKind::Liveness, false) => {
                let restarts = pod_container(&self.pod, &self.container.name)
                    .is_some_and(|container| lifecycle::will_restart(&self.pod, container, 1, true));
                health.failed = Some(kind.kill_message(&self.container.name, restarts));
                health.grace_seconds = probe.termination_grace_period_seconds;
                fault::point("probe.failed");
                false
            }
        };
        if health != before {
            self.health.send_replace(health);
            self.tell();
        }
        goes_on
    }
}
