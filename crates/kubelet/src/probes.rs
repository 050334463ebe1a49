//! Runs the probes of running containers: one task a container, which tells its pod's worker what it found.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cri::v1;
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use lifecycle::{
    ContainerHealth, ContainerPhase, HookSettings, PodMemory, ProbeCounter, ProbeKind, ProbeTiming,
    RuntimePod, StartHooks, pod_container, start_hooks,
};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use api::reasons::event;

use crate::agent::{Agent, SharedAgent};
use crate::environment_record;
use crate::events::EventType;
use crate::handlers::{self, HandlerError, HandlerTarget};
use crate::hook_environment;
use crate::inbox::Inbox;
use crate::pod_network::PodNetwork;

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
                    () = prober.run() => {}
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
    network: PodNetwork,
    health: watch::Sender<ContainerHealth>,
}

impl Prober {
    async fn run(self) {
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
        tokio::time::sleep(Duration::from_secs(u64::from(timing.initial_delay))).await;
        let mut counter = ProbeCounter::new(timing);
        loop {
            // During termination readiness goes on being probed, the others do not.
            if kind != ProbeKind::Readiness && self.inbox.is_stopping() {
                return;
            }
            self.inbox.health_checks_allowed().await;
            if let Some(verdict) = self.once(kind, probe, timing, &mut counter).await
                && !self.apply(kind, probe, verdict)
            {
                return;
            }
            tokio::time::sleep(Duration::from_secs(u64::from(timing.period))).await;
        }
    }

    /// Runs the probe once and counts the result. What cannot be run at all changes nothing.
    async fn once(
        &self,
        kind: ProbeKind,
        probe: &Probe,
        timing: ProbeTiming,
        counter: &mut ProbeCounter,
    ) -> Option<bool> {
        match self.outcome(probe, timing).await {
            Ok(()) => counter.note(true),
            Err(ProbeFailure::Failed(output)) => {
                let message = format!("{} probe failed: {output}", kind.title());
                let name = &self.container.name;
                self.agent.container_event(&self.pod, name, EventType::Warning, event::UNHEALTHY, message);
                counter.note(false)
            }
            // A probe that met the end of its container says nothing about it.
            Err(ProbeFailure::Unknown(_)) if !self.is_running().await => None,
            Err(ProbeFailure::Unknown(error)) => {
                let message =
                    format!("{} probe errored and resulted in unknown state: {error}", kind.title());
                let name = &self.container.name;
                self.agent.container_event(&self.pod, name, EventType::Warning, event::UNHEALTHY, message);
                None
            }
        }
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
                false
            }
        };
        if health != before {
            self.health.send_replace(health);
            self.tell();
        }
        goes_on
    }

    async fn outcome(&self, probe: &Probe, timing: ProbeTiming) -> Result<(), ProbeFailure> {
        let target = HandlerTarget {
            pod: &self.pod,
            container: &self.container,
            container_id: &self.id,
            network: &self.network,
            agent_name: "kube-probe",
        };
        let timeout = Duration::from_secs(u64::from(timing.timeout));
        if let Some(exec) = &probe.exec {
            let env = self.container.env.as_deref().unwrap_or_default();
            let written = exec.command.as_deref().unwrap_or_default();
            let command = if HookSettings::of(&self.pod).expand {
                let variables = environment_record::variables(&self.agent, &self.pod, &self.container.name);
                written.iter().map(|text| hook_environment::expand(text, &variables)).collect()
            } else {
                environment::expand_exec_probe(written, env)
            };
            return match handlers::exec(&self.agent, target, command, timeout).await {
                Ok(outcome) if outcome.exit_code == 0 => Ok(()),
                Ok(outcome) => Err(ProbeFailure::Failed(format!("{}{}", outcome.stdout, outcome.stderr))),
                Err(error @ HandlerError::TimedOut { .. }) => Err(ProbeFailure::Failed(error.to_string())),
                Err(error) => Err(ProbeFailure::Unknown(error.to_string())),
            };
        }
        if let Some(action) = &probe.http_get {
            let question = handlers::http_question(target, action)
                .map_err(|error| ProbeFailure::Unknown(error.to_string()))?;
            return match handlers::http_get(&self.agent, target, question, Some(timeout)).await {
                Ok(answer) if (200..400).contains(&answer.status) => Ok(()),
                Ok(answer) => {
                    Err(ProbeFailure::Failed(format!("HTTP probe failed with statuscode: {}", answer.status)))
                }
                Err(error) => Err(ProbeFailure::Failed(error.to_string())),
            };
        }
        if let Some(action) = &probe.tcp_socket {
            let port = handlers::resolve_port(&self.container, &action.port)
                .map_err(|error| ProbeFailure::Unknown(error.to_string()))?;
            let host = match action.host.as_deref().filter(|host| !host.is_empty()) {
                Some(host) => host.to_owned(),
                None => self.network.default_host(),
            };
            return match handlers::connect(&self.agent, target, &host, port, timeout).await {
                Ok(_) => Ok(()),
                Err(error) => Err(ProbeFailure::Failed(error.to_string())),
            };
        }
        Err(ProbeFailure::Unknown(HandlerError::Unsupported("this kind of probe").to_string()))
    }
}

/// How a run of a probe went wrong.
enum ProbeFailure {
    /// The container is not well.
    Failed(String),
    /// The probe itself could not be run.
    Unknown(String),
}
