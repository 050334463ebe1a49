//! A pod sandbox as the daemon knows it: what was asked for, what it got, and whether it still stands.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cri::v1::{NamespaceMode, NamespaceOption, PodSandboxConfig};
use serde::{Deserialize, Serialize};

use crate::shim_link::ShimLink;

/// File names of the daemon inside a sandbox's directory.
pub(crate) mod files {
    pub(crate) const CONFIG: &str = "sandbox.pb";
    pub(crate) const RECORD: &str = "sandbox.json";
}

/// What has to be known of a sandbox after a restart, besides its configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SandboxRecord {
    pub(crate) id: String,
    /// Nanoseconds since 1970.
    pub(crate) created_at: i64,
    pub(crate) runtime_handler: String,
    pub(crate) shim_pid: i32,
    /// Host name that containers see.
    pub(crate) hostname: String,
    pub(crate) addresses: Vec<String>,
    /// Control group that holds those of the containers.
    pub(crate) cgroup_parent: String,
    /// We made it, and remove it.
    pub(crate) made_cgroup_parent: bool,
    pub(crate) stopped: bool,
}

/// Whether the sandbox still stands.
#[derive(Debug, Clone)]
pub(crate) enum Standing {
    /// Its shim answers.
    Ready(ShimLink),
    /// Stopped, or its shim is gone.
    NotReady,
}

/// One pod sandbox.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) directory: PathBuf,
    pub(crate) config: PodSandboxConfig,
    record: Mutex<SandboxRecord>,
    standing: Mutex<Standing>,
    /// It is being stopped: it still stands, and is not ready for anything new.
    leaving: AtomicBool,
}

impl Sandbox {
    pub(crate) fn new(
        directory: PathBuf,
        config: PodSandboxConfig,
        record: SandboxRecord,
        standing: Standing,
    ) -> Self {
        let leaving = AtomicBool::new(false);
        Self { directory, config, record: Mutex::new(record), standing: Mutex::new(standing), leaving }
    }

    pub(crate) fn record(&self) -> SandboxRecord {
        lock(&self.record).clone()
    }

    /// Changes the record and answers what it is now.
    pub(crate) fn change_record(&self, change: impl FnOnce(&mut SandboxRecord)) -> SandboxRecord {
        let mut record = lock(&self.record);
        change(&mut record);
        record.clone()
    }

    pub(crate) fn id(&self) -> String {
        lock(&self.record).id.clone()
    }

    pub(crate) fn standing(&self) -> Standing {
        lock(&self.standing).clone()
    }

    pub(crate) fn set_standing(&self, standing: Standing) {
        *lock(&self.standing) = standing;
    }

    pub(crate) fn is_ready(&self) -> bool {
        matches!(*lock(&self.standing), Standing::Ready(_)) && !self.leaving.load(Ordering::Relaxed)
    }

    /// From now on it is shown as not ready, although it still stands.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    pub(crate) fn namespace_options(&self) -> NamespaceOption {
        namespace_options(&self.config)
    }

    pub(crate) fn host_network(&self) -> bool {
        self.namespace_options().network() == NamespaceMode::Node
    }

    pub(crate) fn containers_directory(&self) -> PathBuf {
        self.directory.join(crate::protocol::files::CONTAINERS)
    }
}

/// The namespaces that a sandbox is asked to have.
pub(crate) fn namespace_options(config: &PodSandboxConfig) -> NamespaceOption {
    config
        .linux
        .as_ref()
        .and_then(|linux| linux.security_context.as_ref())
        .and_then(|security| security.namespace_options.clone())
        .unwrap_or_default()
}

/// The record's file.
pub(crate) fn record_path(directory: &Path) -> PathBuf {
    directory.join(files::RECORD)
}

/// No holder of these locks can panic half-way through a change, so a poisoned one is as good as any.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
