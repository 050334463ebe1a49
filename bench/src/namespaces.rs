//! A node's network with pods, in namespaces of a benchmark's own: one plays the machine, and each pod has another. Their
//! descriptors keep them; nothing is left of them when those are dropped.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd as _, OwnedFd};

use network::{Network, NetworkConfig};
use nix::sched::{CloneFlags, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::Outcome;

/// Runs `body` on a thread of its own inside a namespace.
///
/// # Errors
///
/// When the namespace cannot be entered; what `body` fails with.
pub fn inside<T: Send>(namespace: &OwnedFd, body: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(namespace)?;
            body()
        });
        thread.join().map_err(|_| "a thread panicked")?
    })
}

/// Moves the calling thread into a namespace, for good.
///
/// # Errors
///
/// When the kernel refuses.
pub fn enter(namespace: &OwnedFd) -> Outcome<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

fn new_namespace() -> Outcome<OwnedFd> {
    let made = std::thread::spawn(|| -> Outcome<OwnedFd> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        Ok(fs::File::open("/proc/thread-self/ns/net")?.into())
    });
    made.join().map_err(|_| "a thread panicked")?
}

/// A machine with the network of one node.
#[derive(Debug)]
pub struct Machine {
    /// Of the machine itself.
    pub namespace: OwnedFd,
    /// Of the node.
    pub network: Network,
    _directories: tempfile::TempDir,
}

/// A pod without processes.
#[derive(Debug)]
pub struct Pod {
    /// In which sockets are the pod's.
    pub namespace: OwnedFd,
    /// Its own.
    pub address: Ipv4Addr,
}

impl Machine {
    /// Makes one. Needs root.
    ///
    /// # Errors
    ///
    /// When namespaces, links, or the packet filter cannot be used.
    pub fn new() -> Outcome<Self> {
        let directories = tempfile::tempdir()?;
        let data_dir = directories.path().join("node");
        fs::create_dir(&data_dir)?;
        let claims_dir = directories.path().join("claims");
        let config = NetworkConfig { claims_dir, ..NetworkConfig::new(data_dir) };
        let namespace = new_namespace()?;
        let network = inside(&namespace, || Ok(Network::open(config)?))?;
        if let Some(lack) = network.warnings().first() {
            return Err(format!("this machine cannot be measured: {lack}").into());
        }
        Ok(Self { namespace, network, _directories: directories })
    }

    /// Connects one more pod.
    ///
    /// # Errors
    ///
    /// When it gets no address.
    pub async fn pod(&self, id: &str) -> Outcome<Pod> {
        let namespace = new_namespace()?;
        let connected = self.network.setup_pod(namespace.as_fd(), id, &[]).await?;
        let Some(IpAddr::V4(address)) = connected.addresses.first().copied() else {
            return Err("a pod has no address".into());
        };
        Ok(Pod { namespace, address })
    }
}
