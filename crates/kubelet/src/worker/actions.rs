//! Carries out what was planned for a pod, one action at a time, and remembers what came of it.

use std::time::Duration;

use cri::v1;
use lifecycle::{
    Action, BootTime, ContainerPhase, ContainerRole, KillReason, RuntimePod, StopIntent, any_container,
};

use api::reasons::{event, waiting};

use super::{PodWorker, TurnError};
use crate::clock;
use crate::container_config;
use crate::images::ImageError;
use crate::metrics::ContainerType;
use crate::observe::not_found_is_none;
use crate::sandbox::{SandboxPlan, sandbox_plan};
use crate::start::{StartContainerError, StartRequest, start_container};
use crate::status_writer::delete_finally;
use crate::termination_message;
use crate::volumes;
use events::EventType;
use fault::AtEnd;

/// What an action did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Acted {
    /// Something has changed: look and plan again.
    Done,
    /// Nothing has changed.
    Nothing,
    /// The pod is forgotten.
    Gone,
}

impl PodWorker {
    pub(super) async fn act(&mut self, action: &Action) -> Result<Acted, TurnError> {
        match action {
            Action::CreateSandbox { attempt } => self.create_sandbox(*attempt).await,
            Action::StopSandbox { id } => self.stop_sandbox(id).await,
            Action::StartContainer { name, attempt, sandbox_id, .. } => {
                self.start_container(name, *attempt, sandbox_id).await
            }
            Action::AnnounceBackOff { name, role } => Ok(self.announce_back_off(name, *role)),
            Action::BeginStop { id, name, reason, grace_seconds } => {
                Ok(self.begin_stop(id, name, reason, *grace_seconds))
            }
            Action::RunHook { key, id, delivery } => self.run_hook(key, id.as_deref(), *delivery).await,
            Action::AbandonHook { key } => Ok(self.abandon_hook(key)),
            Action::StopContainer { id, name, reason, grace_seconds } => {
                Ok(self.stop_container(id, name, reason, *grace_seconds))
            }
            Action::RemoveContainer { id } => self.remove_container(id).await,
            Action::ClearVolumes => self.clear_volumes().await,
            Action::Forget => self.forget().await,
        }
    }

    /// Fills in the messages that ended containers left behind.
    pub(super) fn read_termination_messages(&self, runtime: &mut RuntimePod) {
        let metadata = &self.pod.metadata;
        let dirs = self.agent.config.pod_dirs(&self.uid);
        let logs = self.agent.config.log_dir(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
            &self.uid,
        );
        for container in &mut runtime.containers {
            let known = self
                .memory
                .containers
                .get(&container.name)
                .and_then(|memory| memory.exit.as_ref())
                .is_some_and(|exit| exit.id == container.id || exit.attempt > container.attempt);
            let ContainerPhase::Exited { code, message, .. } = &mut container.phase else {
                continue;
            };
            if known {
                continue;
            }
            let spec = any_container(&self.pod, &container.name);
            let policy = spec.as_ref().and_then(|found| found.spec.termination_message_policy.as_deref());
            let log = logs.join(container_config::log_path(&container.name, container.attempt));
            let fallback = policy == Some("FallbackToLogsOnError");
            let file = dirs.termination_message(&container.name, container.attempt);
            *message = termination_message::message(&file, fallback.then_some(log.as_path()), *code, message);
        }
    }

    /// Sets up all volumes. Answers whether they are there.
    pub(super) async fn set_up_volumes(&mut self) -> bool {
        let allocatable = self.agent.allocatable();
        let result = match volumes::fetch_volumes(
            &self.agent.client,
            &self.pod,
            &allocatable,
            (&self.tokens, &self.agent.config),
        )
        .await
        {
            Ok(prepared) => {
                fault::point("volumes.fetched");
                let dirs = self.agent.config.pod_dirs(&self.uid);
                let group = crate::security::volume_group(&self.pod);
                self.agent
                    .tasks
                    .spawn_blocking(move || volumes::set_up(&dirs, &prepared, group))
                    .await
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
            }
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => {
                fault::point("volumes.set_up");
                self.volumes_ready = true;
            }
            Err((volume, error)) => {
                let message = format!("MountVolume.SetUp failed for volume \"{volume}\" : {error}");
                self.agent.pod_event(&self.pod, EventType::Warning, event::FAILED_MOUNT, message);
            }
        }
        self.volumes_ready
    }

    async fn create_sandbox(&mut self, attempt: u32) -> Result<Acted, TurnError> {
        if !self.set_up_volumes().await {
            self.memory.note_sandbox_failed("volumes are not set up".to_owned(), clock::now());
            return Ok(Acted::Done);
        }
        let failure = match sandbox_plan(&self.agent, &self.pod, attempt) {
            Ok(plan) => match self.run_sandbox(plan).await {
                Ok(id) => {
                    self.memory.note_sandbox_created(attempt, id);
                    fault::point("sandbox.noted");
                    return Ok(Acted::Done);
                }
                Err(status) => status.message().to_owned(),
            },
            Err(error) => error.to_string(),
        };
        let message = format!("Failed to create pod sandbox: {failure}");
        self.agent.pod_event(&self.pod, EventType::Warning, event::FAILED_CREATE_POD_SANDBOX, message);
        self.memory.note_sandbox_failed(failure, clock::now());
        Ok(Acted::Done)
    }

    async fn run_sandbox(&mut self, plan: SandboxPlan) -> Result<String, tonic::Status> {
        if plan.missing_cluster_dns {
            let metadata = &self.pod.metadata;
            let pod = format!(
                "{}_{}({})",
                metadata.name.as_deref().unwrap_or_default(),
                metadata.namespace.as_deref().unwrap_or_default(),
                self.uid
            );
            let message = network::missing_cluster_dns_message(Some(&pod));
            self.agent.pod_event(&self.pod, EventType::Warning, event::MISSING_CLUSTER_DNS, message);
        }
        for message in &plan.dns_limits {
            self.agent.pod_event(&self.pod, EventType::Warning, event::DNS_CONFIG_FORMING, message.clone());
        }
        if let Err(error) = crate::files::create_dirs(std::path::Path::new(&plan.config.log_directory)) {
            return Err(tonic::Status::internal(format!("cannot make the directory of the logs: {error}")));
        }
        if self.memory.sandboxes > 0 {
            let message = "Pod sandbox changed, it will be killed and re-created.";
            self.agent.pod_event(&self.pod, EventType::Normal, event::SANDBOX_CHANGED, message);
        }
        let handler = self.pod.spec.as_ref().and_then(|spec| spec.runtime_class_name.clone());
        let request = v1::RunPodSandboxRequest {
            config: Some(plan.config.clone()),
            runtime_handler: handler.unwrap_or_default(),
        };
        fault::point("sandbox.planned");
        self.agent.metrics.pod_begun();
        let answer = self.agent.runtime.run_pod_sandbox(request).await;
        let answer = answer.inspect_err(|_| self.agent.metrics.pod_failed())?.into_inner();
        fault::point("sandbox.answered");
        self.sandbox = Some(plan.config);
        Ok(answer.pod_sandbox_id)
    }

    async fn stop_sandbox(&mut self, id: &str) -> Result<Acted, TurnError> {
        let request = v1::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        fault::point("sandbox.stopping");
        not_found_is_none(self.agent.runtime.stop_pod_sandbox(request).await)?;
        fault::point("sandbox.stopped");
        Ok(Acted::Done)
    }

    async fn start_container(
        &mut self,
        name: &str,
        attempt: u32,
        sandbox_id: &str,
    ) -> Result<Acted, TurnError> {
        let pod = self.pod.clone();
        let Some(container) = any_container(&pod, name) else {
            return Ok(Acted::Nothing);
        };
        let target = match container.target.map(|target| (target, self.newest_instance(target))) {
            None => None,
            Some((_, Some(id))) => Some(id),
            Some((target, None)) => {
                let reason = waiting::CREATE_CONTAINER_CONFIG_ERROR;
                let message = format!("unable to find target container {target}");
                let event = format!("Error: {message}");
                self.agent.container_event(&pod, name, EventType::Warning, event::FAILED, event);
                self.memory.note_start_failed(name, reason, message, clock::now());
                return Ok(Acted::Done);
            }
        };
        if !self.can_start(name).await {
            return Ok(Acted::Done);
        }
        let sandbox = match &self.sandbox {
            Some(sandbox) => sandbox.clone(),
            None => match sandbox_plan(&self.agent, &pod, self.memory.sandboxes.saturating_sub(1)) {
                Ok(plan) => self.sandbox.insert(plan.config).clone(),
                Err(error) => {
                    let reason = waiting::CREATE_CONTAINER_CONFIG_ERROR;
                    self.memory.note_start_failed(name, reason, error.to_string(), clock::now());
                    return Ok(Acted::Done);
                }
            },
        };
        let pod_ips = self.pod_ips().await?;
        let request = StartRequest {
            pod: &pod,
            container: &container.spec,
            target: target.as_deref(),
            attempt,
            sandbox_id,
            sandbox: &sandbox,
            pod_ips: &pod_ips,
        };
        let inbox = self.inbox.clone();
        self.agent.metrics.container_begun(ContainerType::of(&pod, name));
        match start_container(&self.agent, request, inbox.stop_wanted()).await {
            Ok(record) => {
                self.memory.note_started(name, record, clock::now());
                fault::point("start.noted");
            }
            Err(error) => self.note_start_failed(name, &error),
        }
        Ok(Acted::Done)
    }

    /// Whether the pod's volumes are there; that a container cannot start without them is noted.
    pub(super) async fn can_start(&mut self, name: &str) -> bool {
        if self.volumes_ready || self.set_up_volumes().await {
            return true;
        }
        let message = "volumes are not set up".to_owned();
        self.memory.note_start_failed(name, waiting::CONTAINER_CREATING, message, clock::now());
        false
    }

    /// The newest instance of a container that the runtime has.
    fn newest_instance(&self, name: &str) -> Option<String> {
        let instances = self.runtime.containers.iter().filter(|instance| instance.name == name);
        instances.max_by_key(|instance| instance.attempt).map(|instance| instance.id.clone())
    }

    /// The pod's addresses. Right after the sandbox was made, the last look does not know them yet.
    pub(super) async fn pod_ips(&mut self) -> Result<Vec<String>, TurnError> {
        if crate::sandbox::in_host_network(&self.pod) {
            return Ok(self.agent.config.addresses.clone());
        }
        if self.runtime.ready_sandbox().is_none_or(|sandbox| sandbox.ips.is_empty()) {
            self.look_again().await?;
        }
        Ok(self.runtime.ready_sandbox().map(|sandbox| sandbox.ips.clone()).unwrap_or_default())
    }

    async fn look_again(&mut self) -> Result<(), TurnError> {
        self.runtime =
            crate::observe::observe_pod(&self.agent.runtime, &self.uid, &self.memory, &self.runtime).await?;
        Ok(())
    }

    pub(super) fn note_start_failed(&mut self, name: &str, error: &StartContainerError) {
        let Some(reason) = error.waiting_reason() else {
            return;
        };
        self.agent.metrics.container_failed(ContainerType::of(&self.pod, name), reason);
        error.announce(&self.agent, &self.pod, name);
        let now = clock::now();
        match error {
            StartContainerError::Image(ImageError::Pull { image, message }) => {
                self.memory.note_pull_failed(name, reason, message.clone(), now);
                let quoted = crate::downward::go_quote(image);
                let waiting_message = format!("Back-off pulling image {quoted}: {message}");
                self.back_off_pull(name, &quoted, waiting_message);
            }
            StartContainerError::Run { message, record } => {
                let pod = self.pod.clone();
                self.memory.note_run_failed(&pod, name, record.clone(), message.clone(), now);
            }
            StartContainerError::Image(_)
            | StartContainerError::Config(_)
            | StartContainerError::Create { .. } => {
                self.memory.note_start_failed(name, reason, error.to_string(), now);
            }
        }
    }

    /// After a failed pull the container shows the failure for one status, then that it waits.
    fn back_off_pull(&mut self, name: &str, quoted: &str, waiting_message: String) {
        let message = format!("Back-off pulling image {quoted}");
        self.agent.container_event(&self.pod, name, EventType::Normal, event::BACK_OFF, message);
        let message = format!("Error: {}", waiting::IMAGE_PULL_BACK_OFF);
        self.agent.container_event(&self.pod, name, EventType::Warning, event::FAILED, message);
        let failures = self.memory.containers.get(name).and_then(|memory| memory.failure.as_ref());
        let first = failures.is_none_or(|failure| failure.failures < 2);
        if let Some(failure) = self.memory.containers.get_mut(name).and_then(|memory| memory.failure.as_mut())
            && !first
        {
            failure.reason = waiting::IMAGE_PULL_BACK_OFF.to_owned();
            failure.message = waiting_message;
        }
    }

    fn announce_back_off(&mut self, name: &str, _role: ContainerRole) -> Acted {
        let exit = self.memory.containers.get(name).and_then(|memory| memory.exit.as_ref());
        let key = (name.to_owned(), exit.map_or(0, |exit| exit.attempt));
        if self.announced.contains(&key) {
            return Acted::Nothing;
        }
        self.announced.retain(|(other, _)| other != name);
        self.announced.push(key);
        fault::point("back_off.told");
        let metadata = &self.pod.metadata;
        let message = format!(
            "Back-off restarting failed container {name} in pod {}_{}({})",
            metadata.name.as_deref().unwrap_or_default(),
            metadata.namespace.as_deref().unwrap_or_default(),
            self.uid
        );
        self.agent.container_event(&self.pod, name, EventType::Warning, event::BACK_OFF, message);
        Acted::Nothing
    }

    /// Begins to stop a container. The worker does not wait for it: the runtime reports the end.
    fn stop_container(&mut self, id: &str, name: &str, reason: &KillReason, grace_seconds: i64) -> Acted {
        let begun = self.memory.stopping.get(id).copied();
        if begun.is_none() {
            self.announce_stop(name, reason);
        }
        let deadline: BootTime = clock::now().boot.plus_seconds(grace_seconds);
        let intent = begun.unwrap_or(StopIntent {
            deadline,
            probe_failed: reason.is_failure(),
            reason: reason.hook_reason(),
            with_hook: false,
        });
        self.memory.note_stopping(id, StopIntent { deadline, ..intent });
        self.under_way.stops.insert(id.to_owned());
        fault::point("stop.noted");
        let request = v1::StopContainerRequest {
            container_id: id.to_owned(),
            timeout: grace_seconds.max(api::limits::MINIMUM_STOP_SECONDS),
        };
        let (agent, inbox) = (self.agent.clone(), self.inbox.clone());
        self.agent.spawn(async move {
            let id = request.container_id.clone();
            let ended = id.clone();
            let _end = AtEnd::new(move || inbox.put_ended_stop(ended));
            match agent.runtime.stop_container(request).await {
                Ok(_) => {}
                Err(status) if status.code() == tonic::Code::NotFound => {}
                Err(status) => {
                    tracing::warn!(container = id, error = status.message(), "the container was not stopped");
                    // Not at once again: a runtime that refuses everything must not be asked without end.
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            fault::point("stop.answered");
        });
        Acted::Done
    }

    async fn remove_container(&mut self, id: &str) -> Result<Acted, TurnError> {
        let request = v1::RemoveContainerRequest { container_id: id.to_owned() };
        not_found_is_none(self.agent.runtime.remove_container(request).await)?;
        Ok(Acted::Done)
    }

    async fn clear_volumes(&mut self) -> Result<Acted, TurnError> {
        fault::point("volumes.clearing");
        let dirs = self.agent.config.pod_dirs(&self.uid);
        self.agent
            .tasks
            .spawn_blocking(move || volumes::tear_down(&dirs))
            .await
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
            .map_err(|source| TurnError::FileSystem { action: "volumes cannot be taken down", source })?;
        fault::point("volumes.cleared");
        self.memory.cleared = true;
        self.volumes_ready = false;
        Ok(Acted::Done)
    }

    /// The last status, the end of everything that the node holds for the pod, and of its object. Each step can be repeated:
    /// an agent that ends in between begins again at the first.
    async fn forget(&mut self) -> Result<Acted, TurnError> {
        self.look_again().await?;
        if self.runtime.ready_sandbox().is_some() {
            return Ok(Acted::Done);
        }
        fault::point("forget.looked");
        self.agent.events.flush().await;
        fault::point("forget.told");
        self.show_status().await?;
        fault::point("forget.shown");
        let runtime = self.agent.runtime.clone();
        for container in &self.runtime.containers {
            let request = v1::RemoveContainerRequest { container_id: container.id.clone() };
            not_found_is_none(runtime.remove_container(request).await)?;
        }
        fault::point("forget.containers_removed");
        for sandbox in &self.runtime.sandboxes {
            let request = v1::RemovePodSandboxRequest { pod_sandbox_id: sandbox.id.clone() };
            not_found_is_none(runtime.remove_pod_sandbox(request).await)?;
        }
        fault::point("forget.sandboxes_removed");
        let metadata = &self.pod.metadata;
        let logs = self.agent.config.log_dir(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
            &self.uid,
        );
        let failed =
            |source| TurnError::FileSystem { action: "the pod's directory cannot be removed", source };
        crate::files::remove_dir_all(&logs).map_err(failed)?;
        fault::point("forget.logs_removed");
        // Whoever sees the object gone may rely on everything else being gone, but for what is remembered of it: that goes
        // last, so that an agent that ends here knows what it was about.
        if !self.memory.vanished {
            delete_finally(&self.agent.client, &self.pod).await?;
        }
        fault::point("forget.object_deleted");
        self.agent.store.remove(&self.uid).map_err(failed)?;
        fault::point("forget.state_removed");
        Ok(Acted::Gone)
    }
}
