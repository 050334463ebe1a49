//! By the documents' contract a container is stopped, and its preStop hook told so, when something that it depends on fails: a
//! directory, file, socket or device of the machine that one of its volumes is. Kubernetes looks only when a pod starts, and
//! so does this node without that contract.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lifecycle::{ContainerPhase, HookSettings, any_container};

use super::PodWorker;
use crate::{clock, volumes};

/// How often such a pod is looked at when nothing happens.
const LOOK: Duration = Duration::from_secs(5);

/// A file system that does not answer for so long has failed.
const PATIENCE: Duration = Duration::from_secs(2);

impl PodWorker {
    /// How long the pod may be left alone.
    pub(super) fn resync(&self) -> Duration {
        let resync = self.agent.config.resync;
        let renewal = self.tokens.until_renewal(clock::now()).map_or(resync, Duration::from_millis);
        // Not at once again, should the renewal have failed.
        let resync = resync.min(renewal.max(Duration::from_secs(1)));
        if self.typed_host_paths().is_empty() { resync } else { resync.min(LOOK) }
    }

    /// Volumes that are a path of the machine of a known type: name, path, type. None without the documents' contract.
    fn typed_host_paths(&self) -> Vec<(String, PathBuf, String)> {
        if !HookSettings::of(&self.pod).document {
            return Vec::new();
        }
        let volumes = self.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        volumes
            .filter_map(|volume| {
                let source = volume.host_path.as_ref()?;
                let type_ = source.type_.clone().filter(|type_| !type_.is_empty())?;
                Some((volume.name.clone(), PathBuf::from(&source.path), type_))
            })
            .collect()
    }

    /// Notes which running containers have lost a volume.
    pub(super) async fn check_dependencies(&mut self) {
        let paths = self.typed_host_paths();
        if paths.is_empty() || self.memory.stop.is_some() {
            return;
        }
        let names: Vec<String> = paths.iter().map(|(name, _, _)| name.clone()).collect();
        let failed = if self.looking.swap(true, Ordering::AcqRel) {
            // The last look hangs in a file system that does not answer: one thread is enough for that.
            names
        } else {
            let looking = self.looking.clone();
            let look = self.agent.tasks.spawn_blocking(move || {
                let failed = paths.into_iter().filter(|(_, path, type_)| !volumes::still_holds(path, type_));
                let failed: Vec<String> = failed.map(|(name, _, _)| name).collect();
                looking.store(false, Ordering::Release);
                failed
            });
            match tokio::time::timeout(PATIENCE, look).await {
                Ok(looked) => looked.unwrap_or_default(),
                Err(_) => names,
            }
        };
        if !failed.is_empty() {
            // What starts again has to wait until they are back.
            self.volumes_ready = false;
        }
        for instance in &self.runtime.containers {
            match instance.phase {
                ContainerPhase::Running { .. } => {}
                ContainerPhase::Created | ContainerPhase::Exited { .. } | ContainerPhase::Unknown => continue,
            }
            let container = any_container(&self.pod, &instance.name);
            let mounts = container.iter().flat_map(|container| container.spec.volume_mounts.iter().flatten());
            let lost = mounts.map(|mount| &mount.name).find(|name| failed.contains(name)).cloned();
            if lost.is_some() || self.health.contains_key(&instance.id) {
                self.health.entry(instance.id.clone()).or_default().lost_volume = lost;
            }
        }
    }
}
