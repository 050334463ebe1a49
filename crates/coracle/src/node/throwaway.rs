//! The directory of a throwaway node: made for it, locked while it lives, taken away with it.
//!
//! A node that was killed leaves its directory behind, unlocked; the next one clears it, with the containers in it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use cri::v1::{ListPodSandboxRequest, PodSandbox, RemovePodSandboxRequest};
use images::ImageStore;
use network::{Network, NetworkConfig};
use runtime::{Runtime, RuntimeConfig};
use rustix::fs::{FlockOperation, flock};

use crate::data_directory;

/// The directory of one throwaway node.
pub(super) struct Directory {
    path: PathBuf,
    /// Held open: the lock is what says that the node lives.
    _lock: File,
}

impl Directory {
    /// Makes a directory for a new node.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub(super) fn create(base: &Path) -> io::Result<Self> {
        let parent = data_directory::runs(base);
        data_directory::make_private(&parent)?;
        for number in 0_u32.. {
            let path = parent.join(format!("{:x}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => {
                    let lock = lock(&path)?.ok_or(io::ErrorKind::WouldBlock)?;
                    return Ok(Self { path, _lock: lock });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes it away with everything in it.
    pub(super) fn remove(self) {
        remove_tree(&self.path);
    }
}

/// Locks a node's directory; nothing when its node lives.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = File::create(path.join("lock"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Clears what killed throwaway nodes left: containers, links, directories.
pub(super) async fn clear_abandoned(base: &Path) {
    let Ok(entries) = std::fs::read_dir(data_directory::runs(base)) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let Ok(Some(_lock)) = lock(&path) else { continue };
        if path.join("runtime").exists()
            && let Err(error) = clear(base, &path).await
        {
            tracing::warn!(directory = %path.display(), error, "an abandoned node could not be cleared");
            continue;
        }
        remove_tree(&path);
    }
}

async fn clear(base: &Path, path: &Path) -> Result<(), String> {
    let images = ImageStore::open(base.join("images")).map_err(|error| error.to_string())?;
    let network = Network::open(NetworkConfig::new(path)).map_err(|error| error.to_string())?;
    let config = RuntimeConfig::new(path.join("runtime"));
    let runtime = Runtime::open(config, images, network.clone()).await.map_err(|error| error.to_string())?;
    remove_pods(&runtime).await;
    clear_volumes(path);
    network.cleanup().await.map_err(|error| error.to_string())
}

/// The sandboxes of a runtime.
pub(super) async fn sandboxes(runtime: &Runtime) -> Result<Vec<PodSandbox>, tonic::Status> {
    let (client, _) = cri::in_process(runtime.clone(), runtime.clone());
    Ok(client.clone().list_pod_sandbox(ListPodSandboxRequest::default()).await?.into_inner().items)
}

/// Stops and removes every sandbox of a runtime, with the containers in it, at once.
pub(super) async fn remove_pods(runtime: &Runtime) {
    let (client, _) = cri::in_process(runtime.clone(), runtime.clone());
    let listed = match sandboxes(runtime).await {
        Ok(listed) => listed,
        Err(status) => {
            tracing::warn!(%status, "the pods of a throwaway node cannot be listed");
            return;
        }
    };
    let removals = listed.into_iter().map(|sandbox| {
        let mut client = client.clone();
        async move {
            // Removal stops at once what still runs.
            let request = RemovePodSandboxRequest { pod_sandbox_id: sandbox.id };
            if let Err(status) = client.remove_pod_sandbox(request).await {
                tracing::warn!(%status, "a pod of a throwaway node could not be removed");
            }
        }
    });
    futures::future::join_all(removals).await;
}

/// Unmounts and removes the volumes of pods that are gone.
pub(super) fn clear_volumes(directory: &Path) {
    if let Err(error) = kubelet::remove_everything(&directory.join("kubelet")) {
        tracing::warn!(%error, "volumes of a throwaway node could not be taken away");
    }
}

/// Removes a tree. While something is mounted in it, it stays: removing would reach into what is mounted, and that may be
/// the machine's own files.
fn remove_tree(path: &Path) {
    if let Err(error) = remove_unmounted(path) {
        tracing::warn!(directory = %path.display(), %error, "the directory of a throwaway node could not be removed");
    }
}

/// Removes a tree in which nothing is mounted.
///
/// # Errors
///
/// What is still mounted in it, or what the system says.
pub(super) fn remove_unmounted(path: &Path) -> io::Result<()> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    match mount_below(&mounts, path) {
        Some(mount) => Err(io::Error::other(format!("something is still mounted at {mount}"))),
        None => std::fs::remove_dir_all(path),
    }
}

/// The first mount point at or below a path, in the text of `mountinfo`. Pure.
fn mount_below(mounts: &str, path: &Path) -> Option<String> {
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped);
    points.into_iter().find(|point| Path::new(point).starts_with(path))
}

/// A path as `mountinfo` writes it: blanks, tabs, newlines and backslashes are octal.
fn unescaped(text: &str) -> String {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_a_mount_in_it_is_not_removed() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/vda rw\n40 22 0:3 / /data/my\\040runs/1/root rw - overlay overlay rw\n";
        assert_eq!(
            mount_below(mounts, Path::new("/data/my runs/1")).as_deref(),
            Some("/data/my runs/1/root")
        );
        assert_eq!(mount_below(mounts, Path::new("/data/my runs/2")), None);
    }
}
