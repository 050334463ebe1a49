//! The handle that the runtime uses. Behind it is a thread that owns every network decision of the node: what it is asked is in
//! `commands`, in which order it does that in `order`, how it begins in `opening`, and what it does in `connections`.

mod commands;
mod connections;
mod errors;
mod opening;
mod order;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

use tokio::sync::oneshot;

use self::commands::{Command, serve};
use self::connections::PodConnections;
use crate::allocations::HostPort;
use crate::dns_route::DnsRoute;
use crate::packet_filter::ApiRoute;
use crate::range::AddressRange;
use crate::services::{RouteServicesError, ServiceRouter, ServiceUpdate};

pub use self::errors::{
    NetworkWarning, OpenNetworkError, RouteApiError, RouteDnsError, SetupPodError, TeardownPodError,
};

/// The first station of every packet of a pod: an address that no machine has, the same in every pod.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// The same over IPv6.
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
/// The hardware address of the node's end of every pod's link; each pod knows it for good.
const NODE_HARDWARE: [u8; 6] = [0x02, 0xc0, 0xac, 0x1e, 0x00, 0x01];
const POD_INTERFACE: &str = "eth0";
const ALIAS_PREFIX: &str = "coracle pod ";
const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

/// What [`Network::open`] needs.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// The data directory of the node; exists. Names and address range follow from its path.
    pub data_dir: PathBuf,
    /// The range of IPv4 for pods, if not the one that follows from the data directory.
    pub range: Option<AddressRange>,
    /// Whether pods have IPv6 as well.
    pub ipv6: Ipv6Wish,
    /// The largest packet on a pod's link in bytes, if not that of the machine's way out.
    pub mtu: Option<u32>,
    /// Where the nodes of this machine note which range each has; emptied when the machine restarts.
    pub claims_dir: PathBuf,
    /// Whether the packet filter is used; without it, it is as on a machine that has none.
    pub packet_filter: bool,
}

impl NetworkConfig {
    /// The usual configuration of a node with that data directory.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            range: None,
            ipv6: Ipv6Wish::default(),
            mtu: None,
            claims_dir: PathBuf::from(crate::claims::CLAIMS_DIRECTORY),
            packet_filter: true,
        }
    }
}

/// Whether pods have IPv6 beside IPv4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ipv6Wish {
    /// Where the machine has both ([`crate::has_both_families`]), in a range that follows from the data directory.
    #[default]
    WhereThereIs,
    /// The same, in this range.
    In(AddressRange),
    /// No.
    Never,
}

/// What a pod got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNetwork {
    /// Its addresses, best first. Empty when the machine cannot give one; `limits` then says why.
    pub addresses: Vec<IpAddr>,
    /// The name of the pod's link inside the pod.
    pub interface: &'static str,
    /// The largest packet on it, in bytes.
    pub mtu: u32,
    /// What this pod has to do without.
    pub limits: Vec<NetworkWarning>,
}

/// The pod network of one node. Cheap to clone; the thread behind it ends with the last handle and leaves pods connected.
#[derive(Clone, Debug)]
pub struct Network {
    thread: Arc<NetworkThread>,
    services: Arc<ServiceRouter>,
    facts: Arc<OpenFacts>,
}

#[derive(Debug)]
struct NetworkThread {
    commands: Option<mpsc::Sender<Command>>,
    body: Option<std::thread::JoinHandle<()>>,
}

impl Drop for NetworkThread {
    /// When the last handle is gone, so are the thread and its lock: the data directory can be opened again at once.
    fn drop(&mut self) {
        self.commands = None;
        if let Some(body) = self.body.take() {
            // A thread that panicked has ended too.
            let _ = body.join();
        }
    }
}

#[derive(Debug)]
struct OpenFacts {
    ranges: Vec<AddressRange>,
    node_addresses: Vec<IpAddr>,
    warnings: Vec<NetworkWarning>,
}

impl Network {
    /// Opens the network of a node in the network namespace of the calling thread, and takes over the pods that an earlier
    /// life of the node left connected. Blocks for some milliseconds.
    pub fn open(config: NetworkConfig) -> Result<Self, OpenNetworkError> {
        let (commands, queue) = mpsc::channel();
        let (opened, when_opened) = mpsc::channel();
        let thread = std::thread::Builder::new().name("network".into());
        let body = move || match PodConnections::open(config) {
            Ok((connections, services)) => {
                let facts = OpenFacts {
                    ranges: connections.allocations.ranges(),
                    node_addresses: connections.allocations.node_addresses(),
                    warnings: connections.warnings.clone(),
                };
                let _ = opened.send(Ok((facts, services)));
                serve(connections, &queue);
            }
            Err(error) => {
                let _ = opened.send(Err(error));
            }
        };
        let body = thread.spawn(body).map_err(OpenNetworkError::Thread)?;
        let thread = Arc::new(NetworkThread { commands: Some(commands), body: Some(body) });
        let (facts, services) =
            when_opened.recv().map_err(|_| OpenNetworkError::Thread(io::ErrorKind::BrokenPipe.into()))??;
        for warning in &facts.warnings {
            tracing::warn!("{warning}");
        }
        Ok(Self { thread, services, facts: Arc::new(facts) })
    }

    /// What this machine lacks (already logged once).
    #[must_use]
    pub fn warnings(&self) -> &[NetworkWarning] {
        &self.facts.warnings
    }

    /// The addresses of IPv4 from which pods get theirs.
    #[must_use]
    pub fn range(&self) -> AddressRange {
        self.facts.ranges[0]
    }

    /// The ranges from which pods get their addresses: that of IPv4, and that of IPv6 where pods have both.
    #[must_use]
    pub fn ranges(&self) -> &[AddressRange] {
        &self.facts.ranges
    }

    /// The address of IPv4 under which the machine talks to its pods and they may talk to it.
    #[must_use]
    pub fn node_address(&self) -> IpAddr {
        self.facts.node_addresses[0]
    }

    /// The addresses under which the machine talks to its pods: one of each of [`ranges`](Self::ranges).
    #[must_use]
    pub fn node_addresses(&self) -> &[IpAddr] {
        &self.facts.node_addresses
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.thread.commands.as_ref()?.send(command(reply)).ok()?;
        answer.await.ok()
    }

    /// Connects the pod sandbox `id`, whose network namespace is `namespace`. A second call with the same `id` connects it
    /// anew under the same address. When the future is dropped, the work is still done; [`Network::teardown_pod`] undoes it.
    pub async fn setup_pod(
        &self,
        namespace: BorrowedFd<'_>,
        id: &str,
        ports: &[HostPort],
    ) -> Result<PodNetwork, SetupPodError> {
        let namespace = namespace.try_clone_to_owned().map_err(SetupPodError::Descriptor)?;
        let (id, ports) = (id.to_owned(), ports.to_vec());
        self.ask(|reply| Command::Setup { namespace, id, ports, reply })
            .await
            .unwrap_or(Err(SetupPodError::Closed))
    }

    /// What the pod sandbox `id` has, also after a restart of the node.
    pub async fn pod(&self, id: &str) -> Option<PodNetwork> {
        let id = id.to_owned();
        self.ask(|reply| Command::Find { id, reply }).await.flatten()
    }

    /// Disconnects the pod sandbox `id` and frees its address. A pod that is not known is already disconnected.
    pub async fn teardown_pod(&self, id: &str) -> Result<(), TeardownPodError> {
        let id = id.to_owned();
        self.ask(|reply| Command::Teardown { id, reply }).await.unwrap_or(Err(TeardownPodError::Closed))
    }

    /// Disconnects every pod that is not among `ids`: what an earlier life of the node left behind. Answers whom it
    /// disconnected. Touches nothing that this node did not make.
    pub async fn retain_pods(&self, ids: BTreeSet<String>) -> Result<Vec<String>, TeardownPodError> {
        self.ask(|reply| Command::Retain { ids, reply }).await.unwrap_or(Err(TeardownPodError::Closed))
    }

    /// Opens the way from pods to the API, instead of the one that was there.
    ///
    /// # Errors
    /// Where the machine has no packet filter, or it refuses the rules.
    pub async fn route_api(&self, api: ApiRoute) -> Result<(), RouteApiError> {
        self.ask(|reply| Command::RouteApi { api, reply }).await.unwrap_or(Err(RouteApiError::Closed))
    }

    /// Opens the way to the cluster's DNS, instead of the one that was there.
    ///
    /// # Errors
    /// Where the machine has no packet filter, or it refuses the rules.
    pub async fn route_dns(&self, dns: DnsRoute) -> Result<(), RouteDnsError> {
        self.ask(|reply| Command::RouteDns { dns, reply }).await.unwrap_or(Err(RouteDnsError::Closed))
    }

    /// Routes services as they are from now on. Changes of many at once are cheaper than one after the other; connections that
    /// exist go on, but flows of UDP to backends that are gone begin anew. Routes stay when the network is dropped, until the next start
    /// has said what [all](ServiceUpdate::All) services are, or [`Network::cleanup`].
    ///
    /// # Errors
    /// Where the machine has no packet filter (addresses of services are then closed), or it refuses the routes.
    pub async fn route_services(&self, update: ServiceUpdate) -> Result<(), RouteServicesError> {
        self.services.update(update).await
    }

    /// Removes everything of this node from the machine: links, routes, the tables, the claim, and forwarding if the first
    /// node switched it on and this is the last. For a throwaway node.
    pub async fn cleanup(self) -> Result<(), TeardownPodError> {
        self.ask(|reply| Command::Cleanup { reply }).await.unwrap_or(Err(TeardownPodError::Closed))
    }
}

#[cfg(test)]
mod both_families;
#[cfg(test)]
mod tests;
