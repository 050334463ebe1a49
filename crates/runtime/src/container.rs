//! A container as the daemon knows it.
//!
//! ```text
//! Created --start--> Running --exit--> Exited
//!    +----------------(start failed, removed shim)--^
//! ```

use std::path::PathBuf;

use cri::v1::{ContainerConfig, ContainerState, ContainerUser, LinuxContainerResources};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::launch::{ExitRecord, StartRecord};

/// What has to be known of a container after a restart, besides its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    pub(crate) id: String,
    pub(crate) sandbox: String,
    /// Nanoseconds since 1970.
    pub(crate) created_at: i64,
    /// Digest of the image's configuration.
    pub(crate) image_id: String,
    /// Name with digest, when the image has one; else its identity.
    pub(crate) image_ref: String,
    pub(crate) stop_signal: i32,
    pub(crate) cgroup: String,
    /// Empty when nothing is logged.
    pub(crate) log_path: String,
}

/// Where a container is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    Created,
    Running(StartRecord),
    Exited { started: Option<StartRecord>, exit: ExitRecord },
}

impl Phase {
    pub(crate) fn state(&self) -> ContainerState {
        match self {
            Self::Created => ContainerState::ContainerCreated,
            Self::Running(_) => ContainerState::ContainerRunning,
            Self::Exited { .. } => ContainerState::ContainerExited,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Running(_) => "running",
            Self::Exited { .. } => "exited",
        }
    }
}

/// What whoever manages a container does with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Attention {
    /// Commands that somebody has executed in it and waits for: its hooks, among others.
    pub(crate) commands: usize,
    /// A command was executed, or it was asked to end.
    pub(crate) came: bool,
}

/// A command that somebody waits for, as long as this lives.
#[derive(Debug)]
pub(crate) struct AttendedCommand(watch::Sender<Attention>);

impl Drop for AttendedCommand {
    fn drop(&mut self) {
        self.0.send_modify(|attention| attention.commands = attention.commands.saturating_sub(1));
    }
}

/// One container.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) directory: PathBuf,
    pub(crate) config: ContainerConfig,
    pub(crate) record: ContainerRecord,
    phase: watch::Sender<Phase>,
    attention: watch::Sender<Attention>,
    /// Changed by `UpdateContainerResources`.
    resources: std::sync::Mutex<LinuxContainerResources>,
    /// Who the process runs as, once that was read: a node agent asks for the status of what runs again and again.
    user: std::sync::OnceLock<ContainerUser>,
}

impl Container {
    pub(crate) fn new(
        directory: PathBuf,
        config: ContainerConfig,
        record: ContainerRecord,
        phase: Phase,
    ) -> Self {
        let resources = config.linux.as_ref().and_then(|linux| linux.resources.clone()).unwrap_or_default();
        let (phase, _) = watch::channel(phase);
        Self {
            directory,
            config,
            record,
            phase,
            attention: watch::Sender::default(),
            resources: std::sync::Mutex::new(resources),
            user: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    /// Moves on; an ended container stays ended. False when nothing changed.
    pub(crate) fn advance(&self, next: Phase) -> bool {
        self.phase.send_if_modified(|phase| match phase {
            Phase::Exited { .. } => false,
            Phase::Created | Phase::Running(_) => {
                *phase = next;
                true
            }
        })
    }

    /// Completes when the container has ended.
    pub(crate) async fn ended(&self) {
        let mut phase = self.phase.subscribe();
        // The sender lives in this very container.
        let _ = phase.wait_for(|phase| matches!(phase, Phase::Exited { .. })).await;
    }

    /// Somebody executes a command in it and waits for its end.
    pub(crate) fn attend_command(&self) -> AttendedCommand {
        self.attention.send_modify(|attention| {
            attention.commands += 1;
            attention.came = true;
        });
        AttendedCommand(self.attention.clone())
    }

    /// Somebody wants it to end.
    pub(crate) fn attend_stop(&self) {
        self.attention.send_modify(|attention| attention.came = true);
    }

    /// Completes when the container has ended, or the attention that it gets is as wanted.
    pub(crate) async fn ended_or_attended(&self, wanted: impl Fn(Attention) -> bool) {
        let mut attention = self.attention.subscribe();
        tokio::select! {
            () = self.ended() => {}
            // The sender lives in this very container.
            _ = attention.wait_for(|attention| wanted(*attention)) => {}
        }
    }

    /// From now on it is told anew whether somebody attends to it.
    pub(crate) fn forget_attention(&self) {
        self.attention.send_modify(|attention| attention.came = false);
    }

    /// Who the process runs as; `read` is asked until it knows.
    pub(crate) fn user(&self, read: impl FnOnce() -> Option<ContainerUser>) -> Option<ContainerUser> {
        if let Some(user) = self.user.get() {
            return Some(user.clone());
        }
        let user = read()?;
        Some(self.user.get_or_init(|| user).clone())
    }

    pub(crate) fn resources(&self) -> LinuxContainerResources {
        crate::sandbox::lock(&self.resources).clone()
    }

    pub(crate) fn set_resources(&self, resources: LinuxContainerResources) {
        *crate::sandbox::lock(&self.resources) = resources;
    }
}
