//! The handle that the runtime uses, and the thread behind it that owns every network decision of the node.

mod order;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use tokio::sync::oneshot;

use crate::allocations::{AllocateError, Allocation, Allocations, AllocationsError, HostPort, Loaded};
use crate::claims::{Claim, ClaimRangeError, Claims};
use crate::dns_route::DnsRoute;
use crate::identity::NodeIdentity;
use crate::links::{self, LOOPBACK, Link, NamespaceError, PodLink, Routing};
use crate::netlink::NetlinkError;
use crate::packet_filter::{ApiRoute, PacketFilter};
use crate::range::AddressRange;
use crate::services::{
    LoopbackReach, RouteServicesError, RouterConfig, ServiceRouter, ServiceUpdate, remove_services_of,
};

/// The first station of every packet of a pod: an address that no machine has, the same in every pod.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// The hardware address of the node's end of every pod's link; each pod knows it for good.
const NODE_HARDWARE: [u8; 6] = [0x02, 0xc0, 0xac, 0x1e, 0x00, 0x01];
const POD_INTERFACE: &str = "eth0";
const ALIAS_PREFIX: &str = "coracle pod ";

/// What [`Network::open`] needs.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// The data directory of the node; exists. Names and address range follow from its path.
    pub data_dir: PathBuf,
    /// The range for pods, if not the one that follows from the data directory.
    pub range: Option<AddressRange>,
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
            mtu: None,
            claims_dir: PathBuf::from(crate::claims::CLAIMS_DIRECTORY),
            packet_filter: true,
        }
    }
}

/// Why the network could not be opened. What the machine merely lacks is a [`NetworkWarning`] instead.
#[derive(Debug, thiserror::Error)]
pub enum OpenNetworkError {
    /// The data directory cannot be used.
    #[error("cannot use {path} for the pod network")]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another process, or another handle of this one, has the network of this data directory open.
    #[error(
        "the pod network in {path} is in use by another process; stop it or choose another data directory"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// There is no range for the pods.
    #[error(transparent)]
    Range(#[from] ClaimRangeError),
    /// The allocations cannot be written.
    #[error(transparent)]
    Allocations(#[from] AllocationsError),
    /// The thread could not be started.
    #[error("cannot start the network thread")]
    Thread(#[source] io::Error),
}

/// Something that this machine lacks, and what it means for pods. Found when the network is opened and said once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkWarning {
    /// Links cannot be made at all.
    #[error("pods get no network but loopback: {reason}; run as root with CAP_NET_ADMIN to give them one")]
    NoLinks {
        /// What the kernel said.
        reason: String,
    },
    /// The packet filter cannot be used.
    #[error(
        "pods reach this machine and each other but nothing beyond, services have no route, host ports do not work and \
         link-local addresses are not closed: {reason}; the kernel needs nf_tables with NAT"
    )]
    NoPacketFilter {
        /// What the kernel said.
        reason: String,
    },
    /// Packets are not forwarded.
    #[error(
        "pods reach this machine but neither each other nor anything beyond: {path} is 0 and cannot be set ({reason}); set it \
         to 1"
    )]
    NoForwarding {
        /// The switch.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The file of allocations was damaged.
    #[error(
        "the list of pod addresses {path} is damaged ({reason}); it was {} and made anew from the links that exist",
        moved_to.as_ref().map_or("left".to_owned(), |to| format!("moved to {}", to.display()))
    )]
    AllocationsDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// Where it is now.
        moved_to: Option<PathBuf>,
    },
    /// The common directory of claims cannot be used.
    #[error(
        "cannot note the pod address range in {path} ({reason}): another node that starts at the same moment may choose the \
         same one"
    )]
    NoClaims {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
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

/// Why a pod got no network.
#[derive(Debug, thiserror::Error)]
pub enum SetupPodError {
    /// No address, or a host port that is taken.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// The allocation could not be written; without it a restart would forget the pod.
    #[error(transparent)]
    Save(#[from] AllocationsError),
    /// The pod's namespace could not be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The kernel refused a link, address or route.
    #[error("cannot connect the pod")]
    Kernel(#[source] NetlinkError),
    /// The kernel refused a rule.
    #[error("cannot open the host ports of the pod")]
    HostPorts(#[source] NetlinkError),
    /// Host ports need the packet filter, and there is none.
    #[error("the pod asks for host ports, which need nf_tables in the kernel")]
    HostPortsUnsupported,
    /// The descriptor of the namespace could not be copied.
    #[error("cannot keep the pod's network namespace open")]
    Descriptor(#[source] io::Error),
    /// The network was closed.
    #[error("the pod network is closed")]
    Closed,
}

impl From<NetlinkError> for SetupPodError {
    fn from(error: NetlinkError) -> Self {
        Self::Kernel(error)
    }
}

/// Why a pod's network could not be taken down in full.
#[derive(Debug, thiserror::Error)]
pub enum TeardownPodError {
    /// The kernel refused to remove something.
    #[error("cannot disconnect the pod")]
    Kernel(#[source] NetlinkError),
    /// The allocation could not be written.
    #[error(transparent)]
    Save(#[from] AllocationsError),
    /// The network was closed.
    #[error("the pod network is closed")]
    Closed,
}

enum Command {
    Setup {
        namespace: OwnedFd,
        id: String,
        ports: Vec<HostPort>,
        reply: oneshot::Sender<Result<PodNetwork, SetupPodError>>,
    },
    Teardown {
        id: String,
        reply: oneshot::Sender<Result<(), TeardownPodError>>,
    },
    Retain {
        ids: BTreeSet<String>,
        reply: oneshot::Sender<Result<Vec<String>, TeardownPodError>>,
    },
    RouteApi {
        api: ApiRoute,
        reply: oneshot::Sender<Result<(), RouteApiError>>,
    },
    RouteDns {
        dns: DnsRoute,
        reply: oneshot::Sender<Result<(), RouteDnsError>>,
    },
    Find {
        id: String,
        reply: oneshot::Sender<Option<PodNetwork>>,
    },
    Cleanup {
        reply: oneshot::Sender<Result<(), TeardownPodError>>,
    },
}

impl Command {
    fn urgency(&self) -> order::Urgency {
        match self {
            // A port of the machine may still belong to a pod that ends.
            Self::Setup { ports, .. } if ports.is_empty() => order::Urgency::Start,
            Self::Teardown { .. } => order::Urgency::End,
            Self::Setup { .. }
            | Self::Retain { .. }
            | Self::RouteApi { .. }
            | Self::RouteDns { .. }
            | Self::Find { .. }
            | Self::Cleanup { .. } => order::Urgency::InTurn,
        }
    }
}

/// Why pods cannot reach the API.
#[derive(Debug, thiserror::Error)]
pub enum RouteApiError {
    /// Redirections need nf_tables.
    #[error("this machine has no packet filter to redirect with")]
    Unsupported,
    /// The kernel refused.
    #[error("cannot open the way from pods to the API")]
    Kernel(#[source] NetlinkError),
    /// The network is closed.
    #[error("the network of the node is closed")]
    Closed,
}

/// Why pods cannot reach the cluster's DNS.
#[derive(Debug, thiserror::Error)]
pub enum RouteDnsError {
    /// Redirections need nf_tables.
    #[error("this machine has no packet filter to redirect with")]
    Unsupported,
    /// The kernel refused.
    #[error("cannot open the way from pods to the DNS")]
    Kernel(#[source] NetlinkError),
    /// The network is closed.
    #[error("the network of the node is closed")]
    Closed,
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
    range: AddressRange,
    node_address: Ipv4Addr,
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
                    range: connections.allocations.range(),
                    node_address: connections.allocations.node_address(),
                    warnings: connections.warnings.clone(),
                };
                let _ = opened.send(Ok((facts, services)));
                connections.serve(&queue);
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

    /// The addresses from which pods get theirs.
    #[must_use]
    pub fn range(&self) -> AddressRange {
        self.facts.range
    }

    /// The address under which the machine talks to its pods and they may talk to it.
    #[must_use]
    pub fn node_address(&self) -> IpAddr {
        IpAddr::V4(self.facts.node_address)
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

/// Whether pods can be connected.
enum Kernel {
    Usable { routing: Routing, filter: Option<PacketFilter> },
    Unusable,
}

struct PodConnections {
    identity: NodeIdentity,
    file: PathBuf,
    allocations: Allocations,
    claims: Option<Claims>,
    kernel: Kernel,
    mtu: u32,
    warnings: Vec<NetworkWarning>,
    /// How pods reach the API, once that is known.
    api: Option<ApiRoute>,
    /// How the cluster's DNS is reached, once there is one.
    dns: Option<DnsRoute>,
    /// Routes services, on a thread of its own.
    services: Arc<ServiceRouter>,
    /// Pods behind ports of the machine, which its loopback addresses reach.
    loopback: LoopbackReach,
    /// Held as long as the thread lives: two writers of one list would give an address twice.
    _lock: fs::File,
}

/// What the kernel had when the node started.
#[derive(Default)]
struct Found {
    links: Vec<Link>,
    routes: Vec<links::Route>,
}

impl PodConnections {
    /// The connections, and the router of services beside them.
    fn open(config: NetworkConfig) -> Result<(Self, Arc<ServiceRouter>), OpenNetworkError> {
        let unusable = |source| OpenNetworkError::DataDir { path: config.data_dir.clone(), source };
        let data_dir = fs::canonicalize(&config.data_dir).map_err(unusable)?;
        let directory = data_dir.join("network");
        fs::create_dir_all(&directory).map_err(unusable)?;
        let lock = lock(&directory)?;
        let file = directory.join("pods.json");
        let identity = NodeIdentity::of_data_dir(&data_dir);
        let mut warnings = Vec::new();

        let (mut routing, found) = match look_around() {
            Ok((routing, found)) => (Some(routing), found),
            Err(error) => {
                warnings.push(NetworkWarning::NoLinks { reason: chain(&error) });
                (None, Found::default())
            }
        };
        let claims = match Claims::here(&config.claims_dir) {
            Ok(claims) => Some(claims),
            Err(error) => {
                let reason = error.to_string();
                warnings.push(NetworkWarning::NoClaims { path: config.claims_dir.clone(), reason });
                None
            }
        };
        if let (Some(claims), Some(usable)) = (&claims, &mut routing) {
            for (range, data_dir) in claims.take_abandoned() {
                clear_abandoned(usable, range, &data_dir);
            }
        }
        let remembered = match Allocations::load(&file) {
            Loaded::Absent => None,
            Loaded::Present(allocations) => Some(allocations),
            Loaded::Quarantined { reason, moved_to } => {
                warnings.push(NetworkWarning::AllocationsDamaged { path: file.clone(), reason, moved_to });
                None
            }
        };
        let prefix = identity.interface_prefix();
        let own_links: Vec<&Link> =
            found.links.iter().filter(|link| link.name.starts_with(&prefix)).collect();
        let wish = Wish {
            configured: config.range,
            remembered: remembered.as_ref().map(Allocations::range),
            own_links: own_links.iter().map(|link| link.index).collect(),
        };
        let range = choose_range(&identity, &data_dir, claims.as_ref(), &found.routes, &wish)?;
        if let (Some(usable), Some(former)) =
            (&mut routing, wish.remembered.filter(|former| *former != range))
        {
            // What cannot be removed is a route to nowhere.
            let _ = usable.remove_held_range(former);
        }
        let mut allocations =
            remembered.filter(|known| known.range() == range).unwrap_or_else(|| Allocations::new(range));
        for (link, id) in
            own_links.iter().filter_map(|link| Some((link, link.alias.as_ref()?.strip_prefix(ALIAS_PREFIX)?)))
        {
            let offset =
                link.name.strip_prefix(&prefix).and_then(|digits| u64::from_str_radix(digits, 16).ok());
            if let Some(address) = offset.and_then(|offset| range.nth(offset)) {
                allocations.adopt(id, address);
            }
        }
        allocations.save(&file)?;

        let mtu = config.mtu.unwrap_or_else(|| {
            let uplink = links::uplink(&found.routes);
            found.links.iter().find(|link| Some(link.index) == uplink).map_or(1500, |link| link.mtu)
        });
        let mut filter = None;
        if let Some(usable) = &mut routing {
            if let Err(error) = usable.apply(&[links::hold_range(range)]) {
                warnings.push(NetworkWarning::NoLinks { reason: chain(&error) });
                routing = None;
            } else {
                // An older version made links without a group.
                let _ = usable
                    .apply(&own_links.iter().map(|link| links::join_group(link.index)).collect::<Vec<_>>());
                if config.packet_filter {
                    match PacketFilter::install(identity.table(), prefix, range, &allocations, None, None) {
                        Ok(installed) => filter = Some(installed),
                        Err(error) => {
                            warnings.push(NetworkWarning::NoPacketFilter { reason: chain(&error) });
                        }
                    }
                } else {
                    let reason = "it is switched off".to_owned();
                    warnings.push(NetworkWarning::NoPacketFilter { reason });
                }
                warnings.extend(switch_forwarding_on(claims.as_ref()));
            }
        }
        let kernel = routing.map_or(Kernel::Unusable, |routing| Kernel::Usable { routing, filter });
        let loopback = LoopbackReach::default();
        let services = ServiceRouter::start(RouterConfig {
            identity: identity.clone(),
            pods: range,
            has_filter: matches!(kernel, Kernel::Usable { filter: Some(_), .. }),
            has_links: matches!(kernel, Kernel::Usable { .. }),
            loopback: loopback.clone(),
        });
        let services = Arc::new(services.map_err(OpenNetworkError::Thread)?);
        let connections = Self {
            identity,
            file,
            allocations,
            claims,
            kernel,
            mtu,
            warnings,
            api: None,
            dns: None,
            services: Arc::clone(&services),
            loopback,
            _lock: lock,
        };
        Ok((connections, services))
    }

    fn serve(mut self, queue: &mpsc::Receiver<Command>) {
        let mut order = order::Order::default();
        while let Some(command) = order.next(queue) {
            // Whoever asked may have gone; the work is done all the same.
            match command {
                Command::Setup { namespace, id, ports, reply } => {
                    let _ = reply.send(self.connect(namespace.as_fd(), &id, &ports));
                }
                Command::Teardown { id, reply } => {
                    let _ = reply.send(self.disconnect(&id));
                }
                Command::Retain { ids, reply } => {
                    let _ = reply.send(self.retain(&ids));
                }
                Command::RouteApi { api, reply } => {
                    let _ = reply.send(self.route_api(api));
                }
                Command::RouteDns { dns, reply } => {
                    let _ = reply.send(self.route_dns(dns));
                }
                Command::Find { id, reply } => {
                    let _ = reply.send(self.find(&id));
                }
                Command::Cleanup { reply } => {
                    let _ = reply.send(self.cleanup());
                    return;
                }
            }
        }
    }

    fn find(&self, id: &str) -> Option<PodNetwork> {
        self.allocations.get(id).map(|allocation| self.describe(Some(allocation.address)))
    }

    fn describe(&self, address: Option<Ipv4Addr>) -> PodNetwork {
        let limits = self
            .warnings
            .iter()
            .filter(|warning| match warning {
                NetworkWarning::NoLinks { .. }
                | NetworkWarning::NoPacketFilter { .. }
                | NetworkWarning::NoForwarding { .. } => true,
                NetworkWarning::AllocationsDamaged { .. } | NetworkWarning::NoClaims { .. } => false,
            })
            .cloned()
            .collect();
        PodNetwork {
            addresses: address.map(IpAddr::V4).into_iter().collect(),
            interface: POD_INTERFACE,
            mtu: self.mtu,
            limits,
        }
    }

    fn connect(
        &mut self,
        namespace: BorrowedFd<'_>,
        id: &str,
        ports: &[HostPort],
    ) -> Result<PodNetwork, SetupPodError> {
        let Kernel::Usable { filter, .. } = &self.kernel else {
            // Without rights over links even loopback may be refused; the pod runs all the same.
            let _ = Routing::inside(namespace)?.apply(&[links::set_up(LOOPBACK)]);
            return Ok(self.describe(None));
        };
        if filter.is_none() && !ports.is_empty() {
            return Err(SetupPodError::HostPortsUnsupported);
        }
        let allocation = self.allocations.allocate(id, ports)?;
        // Written before anything is made: what exists is always known to the next life of the node.
        let connected = self
            .allocations
            .save(&self.file)
            .map_err(SetupPodError::from)
            .inspect(|()| fault::point("network.allocated"))
            .and_then(|()| self.connect_links(namespace, id, &allocation))
            .inspect(|()| fault::point("network.linked"))
            .and_then(|()| self.open_filter(&allocation));
        match connected {
            Ok(()) => Ok(self.describe(Some(allocation.address))),
            Err(error) => {
                // The first error is the one that matters; what cannot be undone now is undone by `retain_pods`.
                let _ = self.disconnect(id);
                Err(error)
            }
        }
    }

    fn connect_links(
        &mut self,
        namespace: BorrowedFd<'_>,
        id: &str,
        allocation: &Allocation,
    ) -> Result<(), SetupPodError> {
        let node_address = self.allocations.node_address();
        let name = self.interface(allocation.address);
        let Kernel::Usable { routing, .. } = &mut self.kernel else { return Ok(()) };
        let pod = allocation.address;
        let pod_hardware = pod_hardware(pod);
        let mut inside = Routing::inside(namespace)?;
        routing.remove_link(&name)?;
        routing.apply(&[links::make_pod_link(&PodLink {
            name: &name,
            hardware: NODE_HARDWARE,
            peer_name: POD_INTERFACE,
            peer_hardware: pod_hardware,
            peer_namespace: namespace,
            mtu: self.mtu,
            group: links::LINK_GROUP,
        })])?;
        fault::point("network.link_made");
        restrict_link(&name);
        let outer = routing.link(&name)?.index;
        routing.apply(&[
            links::set_alias(outer, &alias(id)),
            links::add_address(outer, node_address),
            links::add_neighbour(outer, pod, pod_hardware),
            links::add_pod_route(outer, pod, node_address),
        ])?;
        let inner = inside.link(POD_INTERFACE)?.index;
        inside.apply(&[
            links::set_up(LOOPBACK),
            links::set_up(inner),
            links::add_address(inner, pod),
            links::add_neighbour(inner, GATEWAY, NODE_HARDWARE),
            links::add_default_route(inner, GATEWAY, pod),
        ])?;
        routing.await_operation(&name)?;
        if !allocation.ports.is_empty() || self.loopback.holds(pod) {
            // Lets 127.0.0.1:PORT of the machine lead to the pod; the guard chain keeps pods away from 127.0.0.0/8.
            let _ = links::set_link_switch("ipv4", &name, "route_localnet", "1");
        }
        Ok(())
    }

    fn open_filter(&mut self, allocation: &Allocation) -> Result<(), SetupPodError> {
        let range = self.allocations.range();
        let Kernel::Usable { filter: Some(filter), .. } = &mut self.kernel else { return Ok(()) };
        match filter.add_pod(allocation.address) {
            Ok(()) => {}
            // Somebody emptied the packet filter (a firewall that was started again): ours comes back with every pod.
            Err(error) if error.is_absent() => {
                tracing::warn!(
                    "the packet filter table of this node was removed by another program; making it anew"
                );
                *filter = PacketFilter::install(
                    self.identity.table(),
                    self.identity.interface_prefix(),
                    range,
                    &self.allocations,
                    self.api.as_ref(),
                    self.dns.as_ref(),
                )?;
                self.services.write_anew();
            }
            Err(error) => return Err(error.into()),
        }
        if !allocation.ports.is_empty() {
            filter.set_host_ports(&self.allocations).map_err(SetupPodError::HostPorts)?;
        }
        Ok(())
    }

    fn disconnect(&mut self, id: &str) -> Result<(), TeardownPodError> {
        let Some(allocation) = self.allocations.get(id).cloned() else { return Ok(()) };
        let name = self.interface(allocation.address);
        if let Kernel::Usable { routing, filter } = &mut self.kernel {
            // The link takes its addresses, its routes and its other end with it.
            routing.remove_link(&name).map_err(TeardownPodError::Kernel)?;
            self.loopback.forget(allocation.address);
            fault::point("network.unlinked");
            if let Some(filter) = filter {
                filter.remove_pod(allocation.address).map_err(TeardownPodError::Kernel)?;
            }
        }
        self.allocations.release(id);
        if let Kernel::Usable { filter: Some(filter), .. } = &mut self.kernel
            && !allocation.ports.is_empty()
        {
            match filter.set_host_ports(&self.allocations) {
                // A table that is gone has no open ports.
                Err(error) if !error.is_absent() => return Err(TeardownPodError::Kernel(error)),
                _ => {}
            }
        }
        self.allocations.save(&self.file)?;
        fault::point("network.freed");
        Ok(())
    }

    fn route_api(&mut self, api: ApiRoute) -> Result<(), RouteApiError> {
        let Kernel::Usable { filter: Some(filter), .. } = &mut self.kernel else {
            return Err(RouteApiError::Unsupported);
        };
        filter.set_api(&api).map_err(RouteApiError::Kernel)?;
        self.api = Some(api);
        Ok(())
    }

    fn route_dns(&mut self, dns: DnsRoute) -> Result<(), RouteDnsError> {
        let Kernel::Usable { filter: Some(filter), .. } = &mut self.kernel else {
            return Err(RouteDnsError::Unsupported);
        };
        filter.set_dns(&dns).map_err(RouteDnsError::Kernel)?;
        self.dns = Some(dns);
        Ok(())
    }

    fn retain(&mut self, ids: &BTreeSet<String>) -> Result<Vec<String>, TeardownPodError> {
        let gone: Vec<String> =
            self.allocations.ids().filter(|id| !ids.contains(*id)).map(str::to_owned).collect();
        for id in &gone {
            self.disconnect(id)?;
        }
        // Links with our name that no allocation explains: a node that died between two steps.
        let prefix = self.identity.interface_prefix();
        let known: BTreeSet<String> =
            self.allocations.addresses().map(|address| self.interface(address)).collect();
        if let Kernel::Usable { routing, .. } = &mut self.kernel {
            let links = routing.links().map_err(TeardownPodError::Kernel)?;
            for link in
                links.iter().filter(|link| link.name.starts_with(&prefix) && !known.contains(&link.name))
            {
                routing.remove_link(&link.name).map_err(TeardownPodError::Kernel)?;
            }
        }
        Ok(gone)
    }

    /// Does as much as can be done, and answers the first thing that could not.
    fn cleanup(&mut self) -> Result<(), TeardownPodError> {
        let mut outcome = self.retain(&BTreeSet::new()).map(drop);
        let range = self.allocations.range();
        outcome = outcome.and(self.services.remove().map_err(TeardownPodError::Kernel));
        if let Kernel::Usable { routing, filter } = &mut self.kernel {
            if let Some(filter) = filter {
                outcome = outcome.and(filter.remove().map_err(TeardownPodError::Kernel));
            }
            outcome = outcome.and(routing.remove_held_range(range).map_err(TeardownPodError::Kernel));
        }
        if let Some(claims) = &self.claims {
            if claims.release(range) && claims.take_forwarding_was_off() {
                let _ = fs::write(FORWARDING, "0");
            }
            claims.remove_if_empty();
        }
        let _ = fs::remove_file(&self.file);
        outcome
    }

    fn interface(&self, address: Ipv4Addr) -> String {
        let offset = self.allocations.range().offset_of(address).expect("allocations are inside their range");
        self.identity.interface(offset)
    }
}

fn lock(directory: &Path) -> Result<fs::File, OpenNetworkError> {
    let path = directory.join("lock");
    let failed = |source| OpenNetworkError::DataDir { path: path.clone(), source };
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenNetworkError::InUse { path: directory.to_owned() }),
        Err(error) => Err(failed(error.into())),
    }
}

fn look_around() -> Result<(Routing, Found), NetlinkError> {
    let mut routing = Routing::here()?;
    let found = Found { links: routing.links()?, routes: routing.routes()? };
    Ok((routing, found))
}

/// Removes what is left of a node whose data directory is gone: nobody else ever will. Its names follow from the path.
fn clear_abandoned(routing: &mut Routing, range: AddressRange, data_dir: &Path) {
    let identity = NodeIdentity::of_data_dir(data_dir);
    let prefix = identity.interface_prefix();
    let links = routing.links().unwrap_or_default();
    let outcomes = links
        .iter()
        .filter(|link| link.name.starts_with(&prefix))
        .map(|link| routing.remove_link(&link.name).map(drop))
        .collect::<Vec<_>>()
        .into_iter()
        .chain([
            PacketFilter::remove_table_of(&identity),
            remove_services_of(routing, &identity),
            routing.remove_held_range(range),
        ]);
    for error in outcomes.filter_map(Result::err) {
        tracing::debug!(data_dir = %data_dir.display(), %error, "something of an abandoned node could not be removed");
    }
    tracing::info!(data_dir = %data_dir.display(), "removed the network of a node whose data directory is gone");
}

/// What is known about the range before it is chosen.
struct Wish {
    configured: Option<AddressRange>,
    remembered: Option<AddressRange>,
    own_links: Vec<u32>,
}

/// The configured range, else the one that this node had, else the first free one that follows from the data directory.
fn choose_range(
    identity: &NodeIdentity,
    data_dir: &Path,
    claims: Option<&Claims>,
    routes: &[links::Route],
    wish: &Wish,
) -> Result<AddressRange, ClaimRangeError> {
    let claimed_before = claims.and_then(|claims| claims.held_by(data_dir));
    let try_range = |range: AddressRange| -> Result<(), ClaimRangeError> {
        // A hold of the same range is ours if we are known to have had it.
        // Whether another node has it by now is the claim's question below.
        let own = (claimed_before == Some(range) || wish.remembered == Some(range)).then_some(range);
        if let Some(route) = links::overlapping_route(routes, range, own, &wish.own_links) {
            return Err(ClaimRangeError::Taken {
                range,
                holder: format!("the route to {}", route.destination),
            });
        }
        match claims.map(|claims| claims.claim(range, data_dir)) {
            Some(Ok(Claim::Taken(holder))) => {
                Err(ClaimRangeError::Taken { range, holder: format!("the node in {}", holder.display()) })
            }
            // A claim that cannot be written has had its warning with the directory.
            Some(Ok(Claim::Ours) | Err(_)) | None => Ok(()),
        }
    };
    if let Some(range) = wish.configured {
        return try_range(range).map(|()| range);
    }
    claimed_before
        .into_iter()
        .chain(wish.remembered)
        .chain(identity.candidate_ranges())
        .find(|range| try_range(*range).is_ok())
        .inspect(|range| {
            if let (Some(claims), Some(before)) = (claims, claimed_before)
                && before != *range
            {
                claims.release(before);
            }
        })
        .ok_or(ClaimRangeError::Exhausted)
}

const FORWARDING: &str = "/proc/sys/net/ipv4/ip_forward";

fn switch_forwarding_on(claims: Option<&Claims>) -> Option<NetworkWarning> {
    let warning = |error: io::Error| NetworkWarning::NoForwarding {
        path: FORWARDING.into(),
        reason: error.to_string(),
    };
    match fs::read_to_string(FORWARDING) {
        Ok(text) if text.trim() == "1" => None,
        Ok(_) => match fs::write(FORWARDING, "1") {
            Ok(()) => {
                tracing::info!(
                    "switched {FORWARDING} on, which pods need to reach each other and what is beyond this machine"
                );
                if let Some(claims) = claims {
                    claims.remember_forwarding_was_off();
                }
                None
            }
            Err(error) => Some(warning(error)),
        },
        Err(error) => Some(warning(error)),
    }
}

/// A pod can send only from its own address, and has no second way to the machine over IPv6. Where the switches cannot be
/// written (a read-only /proc/sys) the pod still works.
fn restrict_link(name: &str) {
    for (family, switch, value) in [("ipv4", "rp_filter", "1"), ("ipv6", "disable_ipv6", "1")] {
        if let Err(error) = links::set_link_switch(family, name, switch, value) {
            tracing::debug!(link = name, switch, %error, "cannot set a switch of the link");
        }
    }
}

/// Locally administered, and different for each address of the range.
fn pod_hardware(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0xc0, a, b, c, d]
}

/// The kernel keeps up to 255 bytes; sandbox identifiers are shorter.
fn alias(id: &str) -> String {
    let mut alias = format!("{ALIAS_PREFIX}{id}");
    alias.truncate(255);
    alias
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
