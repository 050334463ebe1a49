//! Takes a node down that does not run: its containers, network, control groups and mounts; its data when that is wanted.
//!
//! Nothing is removed that this program has not made.

use std::path::Path;
use std::time::Duration;

use cri::v1::{
    ContainerFilter, ContainerState, ContainerStateValue, ListContainersRequest, RemovePodSandboxRequest,
    StopContainerRequest, StopPodSandboxRequest,
};
use images::ImageStore;
use network::{Network, NetworkConfig};
use runtime::{Runtime, RuntimeConfig};

use super::throwaway;
use crate::failure::{CANNOT_START, Failure};

/// How a node is taken down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakeDown {
    /// Between the stop signal and the kill signal.
    pub(crate) grace: Duration,
    /// Whether its data goes as well.
    pub(crate) purge: bool,
}

/// What a node keeps in its data directory, besides its database.
const KEPT: [&str; 8] =
    ["images", "kubeconfig", "kubelet", "kubelet.lock", "network", "pki", "runs", "runtime"];

/// What the names of the database's files begin with, damaged ones included.
const DATABASE: &str = "state.db";

/// Takes down the node of a data directory; answers how many pods ran.
///
/// # Errors
///
/// When the node runs, or something of it cannot be taken away.
pub(crate) async fn take_down(base: &Path, how: TakeDown) -> Result<usize, Failure> {
    let failed =
        |error: &dyn std::error::Error| Failure::new(CANNOT_START, error).place(base.display().to_string());
    throwaway::clear_abandoned(base).await;
    let images = ImageStore::open(base.join("images")).map_err(|error| failed(&error))?;
    let network = Network::open(NetworkConfig::new(base)).map_err(|error| failed(&error))?;
    let config = RuntimeConfig::new(base.join("runtime"));
    let runtime = Runtime::open(config, images, network.clone()).await.map_err(|error| failed(&error))?;
    let pods = stop_pods(&runtime, how).await.map_err(|status| {
        Failure::text(CANNOT_START, format!("the pods cannot be stopped: {}", status.message()))
            .place(base.display().to_string())
    })?;
    runtime.remove_control_groups().await;
    kubelet::unmount_everything(&base.join("kubelet")).map_err(|error| failed(&error))?;
    network.cleanup().await.map_err(|error| failed(&error))?;
    drop(runtime);
    if how.purge {
        purge(base).map_err(|error| failed(&error).hint("what is left can be removed by hand"))?;
    }
    Ok(pods)
}

/// Stops all containers with grace, then their sandboxes; a purge removes these as well.
async fn stop_pods(runtime: &Runtime, how: TakeDown) -> Result<usize, tonic::Status> {
    let (client, _) = cri::in_process(runtime.clone(), runtime.clone());
    let running = ContainerStateValue { state: ContainerState::ContainerRunning.into() };
    let filter = ContainerFilter { state: Some(running), ..ContainerFilter::default() };
    let request = ListContainersRequest { filter: Some(filter) };
    let containers = client.clone().list_containers(request).await?.into_inner().containers;
    let timeout = i64::try_from(how.grace.as_secs()).unwrap_or(i64::MAX);
    let stops =
        containers.into_iter().map(|container| {
            let mut client = client.clone();
            async move {
                client.stop_container(StopContainerRequest { container_id: container.id, timeout }).await
            }
        });
    for stopped in futures::future::join_all(stops).await {
        stopped?;
    }
    let sandboxes = throwaway::sandboxes(runtime).await?;
    let ready = cri::v1::PodSandboxState::SandboxReady as i32;
    let count = sandboxes.iter().filter(|sandbox| sandbox.state == ready).count();
    for sandbox in sandboxes {
        let mut client = client.clone();
        let pod_sandbox_id = sandbox.id;
        client.stop_pod_sandbox(StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() }).await?;
        if how.purge {
            client.remove_pod_sandbox(RemovePodSandboxRequest { pod_sandbox_id }).await?;
        }
    }
    Ok(count)
}

/// Removes what a node keeps, and the directory when nothing else is in it.
fn purge(base: &Path) -> std::io::Result<()> {
    let runs = crate::run::runs_dir(base);
    if std::fs::read_dir(&runs).is_ok_and(|mut runs| runs.next().is_some()) {
        return Err(std::io::Error::other("a `coracle run` uses this data directory"));
    }
    let is_ours = |name: &str| KEPT.contains(&name) || name.starts_with(DATABASE);
    for entry in std::fs::read_dir(base)?.filter_map(Result::ok) {
        if !entry.file_name().to_str().is_some_and(is_ours) {
            continue;
        }
        let path = entry.path();
        let removed = match std::fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => throwaway::remove_unmounted(&path),
            Ok(_) => std::fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    // Whatever else lies there belongs to somebody else.
    let _ = std::fs::remove_dir(base);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::purge;

    #[test]
    fn a_purge_leaves_no_lock_of_a_node_agent_behind() {
        let place = tempfile::tempdir().expect("a directory");
        let base = place.path().join("node");
        std::fs::create_dir(&base).expect("made");
        for name in ["kubelet.lock", "kubeconfig", "state.db"] {
            std::fs::write(base.join(name), "").expect("written");
        }
        purge(&base).expect("purged");
        assert!(!base.exists(), "{:?}", std::fs::read_dir(&base).map(Iterator::count));
    }
}
