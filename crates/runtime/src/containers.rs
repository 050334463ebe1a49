//! Creating, starting, stopping and removing containers.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use std::time::Duration;

use cri::v1::{ContainerConfig, ContainerEventType, LinuxContainerResources, Signal};
use images::Image;
use prost::Message as _;

use crate::call_error::{CallError, OnPath as _};
use crate::compose::{Surroundings, compose_launch, limits, log_path};
use crate::container::{Container, ContainerRecord, Phase};
use crate::launch::{self, StartRecord, files};
use crate::protocol::{Call, Reply};
use crate::runtime::{Runtime, new_id, now};
use crate::sandbox::{Sandbox, Standing};
use crate::sandboxes::{KILL_DEADLINE, remove_directory, remove_group};
use crate::shim_link::ShimLink;
use crate::state_files::{self, Durability};
use crate::stop_signal::stop_signal;

impl Runtime {
    /// Makes a container, up to the point where its program could begin.
    pub(crate) async fn create_container(
        &self,
        sandbox_id: &str,
        config: ContainerConfig,
    ) -> Result<String, CallError> {
        let sandbox = self.state.sandbox(sandbox_id)?;
        let link = link_of(&sandbox)?;
        if config.metadata.is_none() {
            return Err(CallError::Missing { field: "config.metadata" });
        }
        self.state.anticipate_moves();
        let wanted = config.image.as_ref().map(|image| image.image.clone()).unwrap_or_default();
        let image = self.state.images.find(&wanted)?.ok_or(CallError::NoImage { image: wanted })?;
        let id = new_id();
        let directory = sandbox.containers_directory().join(&id);
        if !self.state.images.hold(&self.state.holder(&id), &image)? {
            // Removed between the look-up and now.
            return Err(CallError::NoImage { image: image.id.to_string() });
        }
        fault::point("container.held");
        match self.build_container(&id, &sandbox, &link, config, &image).await {
            Ok(()) => {
                self.state.publish(&id, &sandbox.id(), ContainerEventType::ContainerCreatedEvent);
                Ok(id)
            }
            Err(error) => {
                let group = format!("{}/{id}", sandbox.record().cgroup_parent);
                remove_group(&self.state.cgroup(&group)).await;
                self.state.release_image(&id);
                if let Err(error) = remove_directory(&directory).await {
                    tracing::warn!(container = %id, %error, "the directory of a container could not be removed");
                }
                Err(error)
            }
        }
    }

    async fn build_container(
        &self,
        id: &str,
        sandbox: &Sandbox,
        link: &ShimLink,
        config: ContainerConfig,
        image: &Image,
    ) -> Result<(), CallError> {
        let state = &self.state;
        let directory = sandbox.containers_directory().join(id);
        let sandbox_record = sandbox.record();
        let mut private_directories = state.config.private_directories.clone();
        private_directories.push(state.config.data_dir.clone());
        private_directories.push(state.images.directory().to_owned());
        private_directories.extend(network::data_directories_on_this_machine());
        let surroundings = Surroundings {
            sandbox: &sandbox.config,
            sandbox_directory: &sandbox.directory,
            hostname: &sandbox_record.hostname,
            container_directory: &directory,
            cgroup: format!("{}/{id}", sandbox_record.cgroup_parent),
            held_capabilities: state.held_capabilities,
            private_directories: &private_directories,
            seccomp_default: state.config.seccomp_default,
            log_max_bytes: state.config.log_max_bytes,
            log_max_files: state.config.log_max_files,
        };
        let composed = compose_launch(&config, image, &surroundings)?;
        for capability in &composed.lacking_capabilities {
            state.warn_once(&format!("the machine does not let containers have the capability {capability}"));
        }
        let record = ContainerRecord {
            id: id.to_owned(),
            sandbox: sandbox_record.id,
            created_at: now(),
            image_id: image.id.to_string(),
            image_ref: image.repo_digests.first().cloned().unwrap_or_else(|| image.id.to_string()),
            stop_signal: stop_signal(config.stop_signal(), image.config.stop_signal.as_deref()),
            cgroup: composed.spec.cgroup.clone(),
            log_path: log_path(&sandbox.config, &config)
                .map(|path| path.display().to_string())
                .unwrap_or_default(),
        };
        fs::DirBuilder::new().mode(0o700).create(&directory).on_path("make", &directory)?;
        fault::point("container.directory");
        state_files::write_file(&directory.join(files::CONFIG), &config.encode_to_vec(), Durability::Cached)?;
        state_files::write_json(&directory.join(files::LAUNCH), &composed.spec, Durability::Cached)?;
        fault::point("container.launch_file");
        state_files::write_json(&directory.join(files::CONTAINER), &record, Durability::Synced)?;
        fault::point("container.described");
        let reply = link.call(Call::Create { container: id.to_owned() }).await?;
        fault::point("container.forked");
        match reply {
            Reply::Created { warnings } => {
                for warning in warnings {
                    state.warn_once(&warning);
                }
            }
            reply => return Err(unexpected(reply, id, CallError::Create)),
        }
        state.add_container(Arc::new(Container::new(directory, config, record, Phase::Created)));
        Ok(())
    }

    /// Lets the program begin.
    pub(crate) async fn start_container(&self, id: &str) -> Result<(), CallError> {
        let container = self.state.container(id)?;
        let id = container.record.id.clone();
        if container.phase() != Phase::Created {
            let state = container.phase().name().to_owned();
            return Err(CallError::WrongState { kind: "container", id, state });
        }
        let sandbox = self.state.sandbox(&container.record.sandbox)?;
        let link = link_of(&sandbox)?;
        fault::point("container.starting");
        let reply = link.call(Call::Start { container: id.clone() }).await?;
        fault::point("container.begun");
        match reply {
            Reply::Done => {
                let started = state_files::read_json(&container.directory.join(files::STARTED))?;
                let started = started.unwrap_or(StartRecord { started_at: now(), pid: 0 });
                // It may have ended already; then it stays ended.
                if container.advance(Phase::Running(started)) {
                    self.state.publish(
                        &id,
                        &container.record.sandbox,
                        ContainerEventType::ContainerStartedEvent,
                    );
                }
                Ok(())
            }
            reply => {
                let failed = matches!(reply, Reply::Failed { .. });
                let error = unexpected(reply, &id, CallError::Start);
                if failed {
                    // The status that is read next must say the same as this error.
                    let _ = tokio::time::timeout(Duration::from_secs(2), container.ended()).await;
                }
                Err(error)
            }
        }
    }

    /// Asks the container to end, kills it after `timeout`, and waits for its end.
    pub(crate) async fn stop_container(&self, id: &str, timeout: Duration) -> Result<(), CallError> {
        let container = self.state.container(id)?;
        if matches!(container.phase(), Phase::Exited { .. }) {
            return Ok(());
        }
        container.attend_stop();
        let sandbox = self.state.sandbox(&container.record.sandbox)?;
        let Standing::Ready(link) = sandbox.standing() else {
            // Without a shim it was killed, and is about to be noted as ended.
            self.state.cgroup(&container.record.cgroup).kill();
            return Ok(());
        };
        let call = Call::Stop {
            container: container.record.id.clone(),
            signal: container.record.stop_signal,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        fault::point("container.stopping");
        let limit = timeout.saturating_add(KILL_DEADLINE);
        let answered = tokio::time::timeout(limit, async {
            let reply = link.call(call).await;
            // Unknown: it was described, and the daemon ended before it was made. There is no end to wait for.
            // Otherwise the event that it ended comes before the answer, but is handled beside it.
            if !matches!(reply, Ok(Reply::Unknown)) {
                container.ended().await;
            }
            reply
        });
        let answered = answered.await;
        fault::point("container.stopped");
        match answered {
            // Gone or unknown: then it has ended, one way or the other.
            Ok(Ok(Reply::Done | Reply::Unknown) | Err(_)) => Ok(()),
            Ok(Ok(reply)) => Err(unexpected(reply, &container.record.id, CallError::Start)),
            Err(_) => Err(CallError::Deadline { what: "the end of the container", seconds: limit.as_secs() }),
        }
    }

    /// Removes the container, killed first if it still runs. Removing what is not there does nothing.
    pub(crate) async fn remove_container(&self, id: &str) -> Result<(), CallError> {
        let Ok(container) = self.state.container(id) else { return Ok(()) };
        self.stop_container(id, Duration::ZERO).await?;
        let id = &container.record.id;
        let sandbox = self.state.sandbox(&container.record.sandbox)?;
        if let Standing::Ready(link) = sandbox.standing() {
            // Gone or unknown is as good as forgotten.
            let _ = link.call(Call::Forget { container: id.clone() }).await;
        }
        fault::point("container.forgotten");
        remove_group(&self.state.cgroup(&container.record.cgroup)).await;
        fault::point("container.group_removed");
        remove_directory(&container.directory).await.on_path("remove", &container.directory)?;
        fault::point("container.directory_removed");
        self.state.release_image(id);
        fault::point("container.released");
        self.state.forget_container(id);
        self.state.publish(id, &container.record.sandbox, ContainerEventType::ContainerDeletedEvent);
        Ok(())
    }

    /// Changes the limits of a container.
    pub(crate) fn update_resources(
        &self,
        id: &str,
        resources: &LinuxContainerResources,
    ) -> Result<(), CallError> {
        let container = self.state.container(id)?;
        if matches!(container.phase(), Phase::Exited { .. }) {
            let state = container.phase().name().to_owned();
            return Err(CallError::WrongState { kind: "container", id: container.record.id.clone(), state });
        }
        let limits: launch::Resources = limits(resources);
        let refused = self.state.cgroup(&container.record.cgroup).limit(&limits);
        if let Some(warning) = refused.first() {
            return Err(CallError::Invalid { field: "linux", problem: warning.to_string() });
        }
        container.set_resources(merged(container.resources(), resources));
        Ok(())
    }

    /// Lets the shim open the log again by name.
    pub(crate) async fn reopen_log(&self, id: &str) -> Result<(), CallError> {
        let container = self.state.container(id)?;
        let sandbox = self.state.sandbox(&container.record.sandbox)?;
        let call = Call::ReopenLog { container: container.record.id.clone() };
        match link_of(&sandbox)?.call(call).await? {
            Reply::Done => Ok(()),
            reply => Err(unexpected(reply, &container.record.id, CallError::Log)),
        }
    }
}

/// Fields that are set replace; zero and empty leave what was.
fn merged(mut old: LinuxContainerResources, new: &LinuxContainerResources) -> LinuxContainerResources {
    let numbers = [
        (&mut old.cpu_period, new.cpu_period),
        (&mut old.cpu_quota, new.cpu_quota),
        (&mut old.cpu_shares, new.cpu_shares),
        (&mut old.memory_limit_in_bytes, new.memory_limit_in_bytes),
        (&mut old.memory_swap_limit_in_bytes, new.memory_swap_limit_in_bytes),
    ];
    for (old, new) in numbers {
        if new != 0 {
            *old = new;
        }
    }
    for (old, new) in [(&mut old.cpuset_cpus, &new.cpuset_cpus), (&mut old.cpuset_mems, &new.cpuset_mems)] {
        if !new.is_empty() {
            old.clone_from(new);
        }
    }
    old.unified.extend(new.unified.clone());
    old
}

/// The connection to a sandbox that stands.
pub(crate) fn link_of(sandbox: &Sandbox) -> Result<ShimLink, CallError> {
    match sandbox.standing() {
        Standing::Ready(link) => Ok(link),
        Standing::NotReady => Err(CallError::WrongState {
            kind: "pod sandbox",
            id: sandbox.id(),
            state: "not ready".to_owned(),
        }),
    }
}

/// A reply that is not the one hoped for.
pub(crate) fn unexpected(reply: Reply, id: &str, failed: impl FnOnce(String) -> CallError) -> CallError {
    match reply {
        Reply::Failed { message } => failed(message),
        Reply::Unknown => CallError::NotFound { kind: "container", id: id.to_owned() },
        Reply::WrongState { state } => CallError::WrongState { kind: "container", id: id.to_owned(), state },
        reply @ (Reply::Done | Reply::Created { .. } | Reply::DoneWithDescriptors) => {
            failed(format!("the pod's shim gave an answer to another question: {reply:?}"))
        }
    }
}

/// The protocol's name of a signal's number.
pub(crate) fn signal_of(number: i32) -> Signal {
    crate::stop_signal::protocol_signal(number)
}
