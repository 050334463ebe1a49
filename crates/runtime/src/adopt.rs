//! Taking over what an earlier life of the runtime left on the disk and running.
//!
//! A sandbox whose shim answers goes on. One whose shim is gone is kept as not ready, its containers as ended. One that
//! was never finished is removed. What cannot be read is set aside: never deleted, never a reason not to start.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use cri::v1::{ContainerConfig, PodSandboxConfig};
use prost::Message as _;

use crate::container::{Container, ContainerRecord, Phase};
use crate::launch::{StartRecord, files};
use crate::runtime::{Runtime, read_exit};
use crate::sandbox::{self, Sandbox, SandboxRecord, Standing, record_path};
use crate::shim_link;
use crate::state_files;

impl Runtime {
    pub(crate) async fn adopt(&self) {
        let directory = self.state.sandboxes_directory();
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(path = %directory.display(), %error, "the sandboxes cannot be listed; none is adopted");
                return;
            }
        };
        for entry in entries.filter_map(Result::ok) {
            fault::point("adopt.sandbox_found");
            self.adopt_sandbox(&entry.path()).await;
            fault::point("adopt.sandbox_adopted");
        }
        let known: BTreeSet<String> = self
            .state
            .sandboxes()
            .iter()
            .map(|sandbox| sandbox.record())
            .filter(|record| !record.stopped)
            .map(|record| record.id)
            .collect();
        let prefix = self.state.holder_prefix();
        for holder in self.state.images.holders() {
            if let Some(container) = holder.strip_prefix(&prefix)
                && self.state.container(container).is_err()
            {
                self.state.release_image(container);
            }
        }
        match self.state.network.retain_pods(known).await {
            Ok(removed) if removed.is_empty() => {}
            Ok(removed) => {
                tracing::warn!(pods = removed.len(), "networks of pods that are gone were removed")
            }
            Err(error) => tracing::warn!(%error, "networks of pods that are gone could not be removed"),
        }
    }

    async fn adopt_sandbox(&self, directory: &Path) {
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let record = match state_files::read_json::<SandboxRecord>(&record_path(directory)) {
            Ok(Some(record)) if record.id == name => record,
            Ok(None) if was_never_finished(directory) => {
                tracing::warn!(sandbox = %name, "a sandbox was never finished; what there is of it is removed");
                return self.discard_sandbox(&name, directory).await;
            }
            Ok(Some(_)) => return self.set_aside(directory, "its record is that of another sandbox").await,
            Ok(None) => return self.set_aside(directory, "its record is missing").await,
            Err(error) => return self.set_aside(directory, &error.to_string()).await,
        };
        let config_path = directory.join(sandbox::files::CONFIG);
        let config = match fs::read(&config_path).map(|content| PodSandboxConfig::decode(content.as_slice()))
        {
            Ok(Ok(config)) => config,
            Ok(Err(error)) => return self.set_aside(directory, &error.to_string()).await,
            Err(error) => return self.set_aside(directory, &error.to_string()).await,
        };
        let id = record.id.clone();
        let (stopped, shim_pid) = (record.stopped, record.shim_pid);
        let sandbox = Arc::new(Sandbox::new(directory.to_owned(), config, record, Standing::NotReady));
        self.state.add_sandbox(Arc::clone(&sandbox));
        self.adopt_containers(&sandbox).await;
        fault::point("adopt.containers_adopted");
        if stopped {
            // The earlier life may have ended after it wrote that down, and before it ended the shim.
            if let Ok(link) = shim_link::connect(directory, |_| {}).await {
                crate::sandboxes::end_shim(&link, shim_pid).await;
            }
            self.state.shim_gone(&id);
            return;
        }
        // Connected after the containers are known: what ends from now on is an event about one of them.
        match shim_link::connect(directory, self.state.event_handler(id.clone())).await {
            Ok(link) => {
                sandbox.set_standing(Standing::Ready(link));
                // What ended between reading the disk and connecting was written down before anybody was told.
                for container in self.state.containers_of(&id) {
                    if !matches!(container.phase(), Phase::Exited { .. })
                        && let Some(exit) = read_exit(&container)
                    {
                        self.state.container_exited(&container.record.id, exit);
                    }
                }
            }
            Err(_) => {
                tracing::warn!(sandbox = %id, "a pod's shim is gone; its containers are marked as ended");
                self.state.shim_gone(&id);
            }
        }
    }

    async fn adopt_containers(&self, sandbox: &Sandbox) {
        let Ok(entries) = fs::read_dir(sandbox.containers_directory()) else { return };
        for entry in entries.filter_map(Result::ok) {
            let directory = entry.path();
            let adopted = read_container(&directory);
            match adopted {
                Ok(Some(container)) => self.state.add_container(Arc::new(container)),
                Ok(None) => {
                    // Its creation was never answered, so nobody knows its name.
                    if let Err(error) = fs::remove_dir_all(&directory) {
                        tracing::warn!(path = %directory.display(), %error, "a half-made container could not be removed");
                    }
                }
                Err(problem) => self.set_container_aside(sandbox, &directory, &problem).await,
            }
        }
    }

    /// Moves a container that cannot be read away, and ends what runs of it: nobody could stop it any more, and the kubelet
    /// will start another.
    async fn set_container_aside(&self, sandbox: &Sandbox, directory: &Path, problem: &str) {
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.is_empty() {
            let group = format!("{}/{name}", sandbox.record().cgroup_parent);
            crate::sandboxes::remove_group(&self.state.cgroup(&group)).await;
        }
        match state_files::quarantine(directory, &self.state.quarantine_directory()) {
            Ok(moved) => {
                self.state.note_set_aside(name, problem, &moved);
                tracing::warn!(
                    from = %directory.display(), to = %moved.display(), problem,
                    "a damaged container was set aside"
                );
            }
            Err(error) => {
                self.state.note_set_aside(name, problem, directory);
                tracing::warn!(path = %directory.display(), problem, %error, "a damaged container was left where it is");
            }
        }
    }

    /// Moves a sandbox that cannot be read away, and ends what runs in it: nobody could stop it any more, and the kubelet
    /// will make the pod anew. Whoever asks for it, or for one of its containers, is told.
    async fn set_aside(&self, directory: &Path, problem: &str) {
        if let Ok(link) = shim_link::connect(directory, |_| {}).await {
            let _ = link.call(crate::protocol::Call::Quit { kill: true }).await;
        }
        if let Some(name) = directory.file_name().and_then(|name| name.to_str()) {
            // Made by us under this name; what runs in it is the rest of that pod.
            let group = self.state.cgroup(&format!("{}/{name}", self.state.cgroup_root()));
            crate::sandboxes::remove_group(&group).await;
        }
        let mut lost: Vec<String> =
            directory.file_name().and_then(|name| name.to_str()).map(str::to_owned).into_iter().collect();
        let containers =
            fs::read_dir(directory.join(crate::protocol::files::CONTAINERS)).into_iter().flatten();
        lost.extend(containers.filter_map(|entry| entry.ok()?.file_name().into_string().ok()));
        let kept = match state_files::quarantine(directory, &self.state.quarantine_directory()) {
            Ok(moved) => {
                tracing::warn!(
                    from = %directory.display(), to = %moved.display(), problem,
                    "a damaged sandbox was set aside"
                );
                moved
            }
            Err(error) => {
                tracing::warn!(path = %directory.display(), problem, %error, "a damaged sandbox was left where it is");
                directory.to_owned()
            }
        };
        for id in lost {
            self.state.note_set_aside(&id, problem, &kept);
        }
    }
}

/// Whether a directory without a record is a sandbox that never stood. A container is only made in one that does; and what
/// has no place for containers and yet something in it is nothing of ours, and not to be deleted.
fn was_never_finished(directory: &Path) -> bool {
    let containers = directory.join(crate::protocol::files::CONTAINERS);
    is_empty(directory) || (containers.is_dir() && is_empty(&containers))
}

/// Whether nothing is in a directory, or it is not there.
fn is_empty(directory: &Path) -> bool {
    match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// `None` when the container never came to be; an error when it cannot be read.
fn read_container(directory: &Path) -> Result<Option<Container>, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let record: Option<ContainerRecord> =
        state_files::read_json(&directory.join(files::CONTAINER)).map_err(|error| text(&error))?;
    let Some(record) = record else {
        // What was started was finished before.
        let started = directory.join(files::STARTED).exists();
        return if started { Err("its record is missing".to_owned()) } else { Ok(None) };
    };
    let config = fs::read(directory.join(files::CONFIG)).map_err(|error| text(&error))?;
    let config = ContainerConfig::decode(config.as_slice()).map_err(|error| text(&error))?;
    let started: Option<StartRecord> =
        state_files::read_json(&directory.join(files::STARTED)).map_err(|error| text(&error))?;
    let exit = state_files::read_json(&directory.join(files::EXIT)).map_err(|error| text(&error))?;
    let phase = match (exit, started) {
        (Some(exit), started) => Phase::Exited { started, exit },
        (None, Some(started)) => Phase::Running(started),
        (None, None) => Phase::Created,
    };
    Ok(Some(Container::new(directory.to_owned(), config, record, phase)))
}
