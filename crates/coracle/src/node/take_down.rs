//! Takes a node down that does not run: its containers, network, control groups and mounts; its data when that is wanted.
//!
//! Pods end in order: a node agent without an API works on the directory until none runs, with the same decisions, hooks and
//! records as the one that had the pods. What it does not know is stopped by the runtime.
//!
//! Nothing is removed that this program has not made.

use std::path::Path;
use std::time::Duration;

use cri::v1::{
    ContainerFilter, ContainerState, ContainerStateValue, ListContainersRequest, RemovePodSandboxRequest,
    StopContainerRequest, StopPodSandboxRequest,
};
use images::ImageStore;
use kubelet::KubeletConfig;
use network::{Network, NetworkConfig};
use runtime::{Runtime, RuntimeConfig};
use tokio_util::sync::CancellationToken;

use super::options::HookHosts;
use super::throwaway;
use crate::data_directory;
use crate::failure::{CANNOT_START, Failure};
use crate::interrupt::Interrupts;

/// The grace of what no pod is known of.
const USUAL_GRACE: Duration = Duration::from_secs(30);

/// How a node is taken down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TakeDown {
    /// Most time that a pod gets to end, its hooks included; its own grace, if nothing is said.
    pub(crate) longest_grace: Option<Duration>,
    /// Pods are killed: no hook, no stop signal.
    pub(crate) at_once: bool,
    /// Where preStop hooks may connect to.
    pub(crate) hook_hosts: HookHosts,
    /// Whether its data goes as well.
    pub(crate) purge: bool,
}

/// What a node keeps in its data directory, besides its database.
const KEPT: [&str; 10] = [
    "images",
    "kubeconfig",
    "kubelet",
    "kubelet-pki",
    "kubelet.lock",
    "network",
    "pki",
    "runs",
    "runtime",
    "volumes",
];

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
    data_directory::released(base, data_directory::RUNTIME, data_directory::RELEASE).await;
    throwaway::clear_abandoned(base).await;
    let images = ImageStore::open(base.join("images")).map_err(|error| failed(&error))?;
    let network = Network::open(NetworkConfig::new(base)).map_err(|error| failed(&error))?;
    let config = RuntimeConfig::new(base.join("runtime"));
    let runtime = Runtime::open(config, images, network.clone()).await.map_err(|error| failed(&error))?;
    let count = ready_sandboxes(&runtime).await;
    let in_order = !how.at_once && count.as_ref().is_ok_and(|count| *count > 0);
    let left = if in_order { stop_in_order(base, &runtime, how).await? } else { Left::Unasked };
    let pods = stop_pods(&runtime, how, left).await.and(count).map_err(|status| {
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

/// What may still run when the runtime is asked to stop it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Everything.
    Unasked,
    /// Only what no node agent knows: it gets its grace.
    Strangers,
    /// What did not end before somebody lost patience.
    Late,
}

/// Stops the pods as their node would: preStop hooks first, each within its grace. The second Ctrl-C ends the waiting.
async fn stop_in_order(base: &Path, runtime: &Runtime, how: TakeDown) -> Result<Left, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::new(CANNOT_START, error);
    let mut interrupts = Interrupts::listen()?;
    let config = KubeletConfig {
        seccomp_dir: base.join("seccomp"),
        hook_hosts: how.hook_hosts.into(),
        ..KubeletConfig::new("down", base.join("kubelet"))
    };
    let (runtime, images) = cri::in_process(runtime.clone(), runtime.clone());
    let ending = CancellationToken::new();
    let agent = kubelet::spawn_standalone_kubelet(config, runtime, images, ending.clone().cancelled_owned())
        .map_err(|error| failed(&error))?;
    let longest = how.longest_grace.map(|grace| i64::try_from(grace.as_secs()).unwrap_or(i64::MAX));
    let impatience = async {
        interrupts.next().await;
        tracing::warn!("the pods are ending; once more, and they are killed");
        interrupts.next().await;
    };
    let left = tokio::select! {
        () = agent.pods_stopped(longest) => Left::Strangers,
        () = impatience => Left::Late,
    };
    ending.cancel();
    agent.stopped().await;
    Ok(left)
}

async fn ready_sandboxes(runtime: &Runtime) -> Result<usize, tonic::Status> {
    let ready = cri::v1::PodSandboxState::SandboxReady as i32;
    Ok(throwaway::sandboxes(runtime).await?.iter().filter(|sandbox| sandbox.state == ready).count())
}

/// Stops the containers that still run, then all sandboxes; a purge removes these as well.
async fn stop_pods(runtime: &Runtime, how: TakeDown, left: Left) -> Result<(), tonic::Status> {
    let (client, _) = cri::in_process(runtime.clone(), runtime.clone());
    let running = ContainerStateValue { state: ContainerState::ContainerRunning.into() };
    let filter = ContainerFilter { state: Some(running), ..ContainerFilter::default() };
    let request = ListContainersRequest { filter: Some(filter) };
    let containers = client.clone().list_containers(request).await?.into_inner().containers;
    let grace = match left {
        Left::Unasked if how.at_once => Duration::ZERO,
        Left::Late => Duration::ZERO,
        Left::Unasked | Left::Strangers => how.longest_grace.unwrap_or(USUAL_GRACE),
    };
    let timeout = i64::try_from(grace.as_secs()).unwrap_or(i64::MAX);
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
    for sandbox in throwaway::sandboxes(runtime).await? {
        let mut client = client.clone();
        let pod_sandbox_id = sandbox.id;
        client.stop_pod_sandbox(StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() }).await?;
        if how.purge {
            client.remove_pod_sandbox(RemovePodSandboxRequest { pod_sandbox_id }).await?;
        }
    }
    Ok(())
}

/// Removes what a node keeps, and the directory when nothing else is in it.
fn purge(base: &Path) -> std::io::Result<()> {
    let runs = data_directory::runs(base);
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
    fn a_purge_leaves_neither_lock_nor_keys_of_a_node_agent_behind() {
        let place = tempfile::tempdir().expect("a directory");
        let base = place.path().join("node");
        std::fs::create_dir(&base).expect("made");
        for name in ["kubelet.lock", "kubeconfig", "state.db"] {
            std::fs::write(base.join(name), "").expect("written");
        }
        std::fs::create_dir(base.join("kubelet-pki")).expect("made");
        std::fs::write(base.join("kubelet-pki/ca.key"), "").expect("written");
        purge(&base).expect("purged");
        assert!(!base.exists(), "{:?}", std::fs::read_dir(&base).map(Iterator::count));
    }
}
