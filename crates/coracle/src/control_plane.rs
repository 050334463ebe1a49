//! The API server with what it stands on: store, authority, listener, kubeconfig. A node has one, and `coracle apiserver` is one.
//!
//! What it keeps lies in its directory: `state.db`, `pki`, `kubeconfig`.

mod damage;
pub(crate) mod in_memory;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::controllers::{Clients, Controllers, ControllersConfig, Informers, NodeWatch, Speaker};
use api::FeatureGates;
use apiserver::authority::{Authority, Kubeconfig, write_kubeconfig};
use apiserver::{ApiServer, ApiServerConfig, AuditLog, FixedTokens, Identity, NodePorts, ServiceRanges};
use network::Network;
use store::Store;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::data_directory;
use crate::failure::{CANNOT_START, Failure, INPUT};
use crate::nodes::{Nodes, OwnNode};

/// The flags of every command that serves an API.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ServerOptions {
    /// Feature gates, such as `RelaxedEnvironmentVariableValidation=false,EnvFiles=true`.
    #[arg(long, value_name = "GATES", default_value = "", hide_default_value = true, long_help = gates_help())]
    pub(crate) feature_gates: FeatureGates,
    /// Who may mount the volume of an env file.
    #[arg(long, value_enum, default_value_t = EnvFileMounts::Warn, value_name = "RULE")]
    pub(crate) env_file_mounts: EnvFileMounts,
    /// File of tokens that are good for the API: lines of TOKEN,USER,UID[,"GROUP,GROUP"].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_auth_file: Option<PathBuf>,
    /// Note each request of the API as a line of JSON (audit.k8s.io/v1) in a file, or with `-` on standard output.
    #[arg(long, value_name = "FILE|-")]
    pub(crate) audit_log: Option<PathBuf>,
    /// What the audit log says of a request.
    #[arg(long, value_enum, default_value_t = AuditPolicy::Metadata, value_name = "LEVEL", requires = "audit_log")]
    pub(crate) audit_policy: AuditPolicy,
    /// Addresses of services: a range of IPv4, of IPv6, or one of each with a comma between them; the first one is that of
    /// services that ask for no family [default: 10.43.0.0/16, and fd00:10:43::/112 where the machine has IPv6, too].
    #[arg(long, value_name = "CIDR[,CIDR]")]
    pub(crate) service_cidr: Option<ServiceRanges>,
}

impl ServerOptions {
    /// The addresses of services: those that are wanted, or the usual ones of this machine.
    pub(crate) fn service_ranges(&self) -> ServiceRanges {
        self.service_cidr.unwrap_or_else(|| ServiceRanges::usual(network::has_both_families().is_ok()))
    }
}

/// What the audit log says of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AuditPolicy {
    /// Nothing: the log stays empty.
    None,
    /// Who asked for what, and what came of it; no content.
    Metadata,
}

/// Who may mount the volume of an env file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EnvFileMounts {
    /// Anybody, with a warning.
    Warn,
    /// Init containers only, and no container that also consumes it.
    InitOnly,
}

/// The help of `--feature-gates`: every gate with its stage and default.
fn gates_help() -> String {
    let mut help = "Feature gates, as A=false,B=true. They are:\n".to_owned();
    for gate in api::FEATURES {
        help.push_str(&format!("\n  {}={} ({})", gate.name, gate.default, gate.stage));
    }
    help
}

/// Where objects are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Objects {
    /// In memory: they end with the process.
    InMemory,
    /// In the directory.
    OnDisk,
}

/// A listener that is bound already: an address that is taken leaves nothing behind.
pub(crate) struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listening {
    /// Binds an address; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// When the address cannot be used.
    pub(crate) async fn on(wanted: SocketAddr) -> Result<Self, Failure> {
        let listener = TcpListener::bind(wanted).await.map_err(|error| cannot_listen(wanted, &error))?;
        let address = listener.local_addr().map_err(|error| cannot_listen(wanted, &error))?;
        Ok(Self { listener, address })
    }
}

/// How a control plane is built.
pub(crate) struct ControlPlaneConfig<'c> {
    /// Its directory; it exists.
    pub(crate) directory: &'c Path,
    /// Where objects are kept.
    pub(crate) objects: Objects,
    /// Where it listens; nowhere, when it is only used from within.
    pub(crate) listening: Option<Listening>,
    /// Further names of the API in its certificate.
    pub(crate) names: Vec<String>,
    /// What the user chose on the command line.
    pub(crate) options: &'c ServerOptions,
    /// Where pods of other nodes reach the API; by default at the address on which it listens.
    pub(crate) advertise: Option<IpAddr>,
    /// The node of this process; others are reached by their ports.
    pub(crate) own_node: Option<OwnNode>,
}

/// Why a listener cannot be served: one of several kinds of errors that are only told.
type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// An API server that runs.
pub(crate) struct ControlPlane {
    /// The server.
    pub(crate) server: ApiServer,
    /// A client with all rights, over memory.
    pub(crate) client: kube::Client,
    /// The kubeconfig, where it listens.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The addresses that services have.
    pub(crate) service_ranges: ServiceRanges,
    store: Store,
    database: PathBuf,
    authority: Authority,
    /// What clients may call it.
    names: Vec<String>,
    /// Where it listens to the world.
    address: Option<SocketAddr>,
    /// Ends the listeners.
    closing: CancellationToken,
    tasks: JoinSet<()>,
}

impl ControlPlane {
    /// Builds and starts it; when this returns, the API is ready.
    ///
    /// # Errors
    ///
    /// What could not be built, with what to do about it.
    pub(crate) async fn start(config: ControlPlaneConfig<'_>) -> Result<Self, Failure> {
        let failed = |error: &dyn std::error::Error| Failure::new(CANNOT_START, error);
        let database = config.directory.join("state.db");
        if config.objects == Objects::OnDisk {
            data_directory::released(config.directory, data_directory::STORE, data_directory::RELEASE).await;
        }
        let store = open_store(config.objects, &database)?;
        // Also one that does not listen has an authority: pods find its certificate in `kube-root-ca.crt`.
        let pki = config.directory.join("pki");
        let authority = Authority::open(&pki).map_err(|error| failed(&error))?;
        if let Some(replaced) = authority.replaced() {
            damage::authority_replaced(&pki, replaced).warn();
        }
        let token_key = authority.token_key().map_err(|error| failed(&error))?;
        if !token_key.replaced().is_empty() {
            damage::token_key_replaced(&pki, token_key.replaced()).warn();
        }
        let fixed_tokens = match &config.options.token_auth_file {
            Some(path) => FixedTokens::read(path).map_err(|error| Failure::new(INPUT, &error))?,
            None => FixedTokens::default(),
        };
        let service_ranges = config.options.service_ranges();
        let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
        names.extend(apiserver::SERVICE_NAMES.map(str::to_owned));
        names.push(service_ranges.kubernetes().to_string());
        names.extend(config.names.iter().cloned());
        let server_config = ApiServerConfig {
            gates: config.options.feature_gates,
            env_file_mounts: match config.options.env_file_mounts {
                EnvFileMounts::Warn => admission::EnvFileMounts::Warn,
                EnvFileMounts::InitOnly => admission::EnvFileMounts::InitOnly,
            },
            advertise: config.listening.as_ref().map(|listening| listening.address),
            hosts: config.names.clone(),
            token_key: Some(Arc::new(token_key)),
            fixed_tokens,
            audit: open_audit_log(config.options)?,
            authority_pem: Some(authority.certificate_pem().to_owned()),
            service_ranges,
            ..ApiServerConfig::default()
        };
        let ports = match config.listening {
            None => None,
            Some(_) => {
                let credential = authority
                    .client("kubelet-client", &Identity::api_server())
                    .map_err(|error| failed(&error))?;
                Some(NodePorts::new(store.clone(), &credential).map_err(|error| failed(&error))?)
            }
        };
        let has_node = config.own_node.is_some();
        let nodes = Nodes { own: config.own_node, ports };
        let server = ApiServer::new(server_config, store.clone(), Arc::new(nodes))
            .await
            .map_err(|error| failed(&error))?;
        let client = in_memory::client(&server, Identity::admin(), "coracle");
        let mut control_plane = Self {
            server,
            client,
            kubeconfig: None,
            service_ranges,
            store,
            database,
            authority,
            names,
            address: None,
            closing: CancellationToken::new(),
            tasks: JoinSet::new(),
        };
        if let Some(listening) = config.listening {
            let (address, port) = (listening.address.ip(), listening.address.port());
            control_plane.open_to_the_world(config.directory, listening)?;
            if !has_node {
                let address = config.advertise.or_else(|| seen_from_outside(address));
                if let Some(address) = address {
                    control_plane.server.advertise(SocketAddr::new(address, port)).await;
                }
            }
        }
        Ok(control_plane)
    }

    /// Starts the controllers, each as a client of its own, until `shutdown`. They share `informers` with who else reads
    /// them.
    pub(crate) async fn start_controllers(
        &self,
        informers: Informers,
        node_watch: NodeWatch,
        shutdown: &CancellationToken,
    ) -> Controllers {
        ::controllers::provide_default_class(&self.client).await;
        ::controllers::spawn(&self.controllers_config(informers, node_watch), shutdown)
    }

    /// Starts those controllers that an API server alone has, in the same way.
    pub(crate) fn start_housekeeping(&self, shutdown: &CancellationToken) -> Controllers {
        let config = self.controllers_config(Informers::idle(), NodeWatch::default());
        ::controllers::spawn_housekeeping(&config, shutdown)
    }

    fn controllers_config(&self, informers: Informers, node_watch: NodeWatch) -> ControllersConfig {
        let clients = Arc::new(ControllerClients { server: self.server.clone() });
        let root_certificates = Some(self.authority.certificate_pem().to_owned());
        ControllersConfig { clients, informers, node_watch, root_certificates }
    }

    /// Waits for trouble that ends it: a store that can no longer keep what it is told.
    pub(crate) async fn failed(&self) -> Failure {
        let reason = self.store.stopped().await;
        Failure::text(CANNOT_START, format!("the store has stopped: {reason}"))
            .place(self.database.display().to_string())
            .hint("check the disk; nothing that was acknowledged is lost, and it can be started again")
    }

    /// Opens the listener to the world: certificates, kubeconfig, the task that serves.
    fn open_to_the_world(&mut self, directory: &Path, listening: Listening) -> Result<(), Failure> {
        let Listening { listener, address } = listening;
        if !address.ip().is_unspecified() {
            self.names.push(address.ip().to_string());
        }
        let admin = self
            .authority
            .client("admin", &Identity::admin())
            .map_err(|error| Failure::new(CANNOT_START, &error))?;
        let host = if address.ip().is_unspecified() {
            SocketAddr::from(([127, 0, 0, 1], address.port()))
        } else {
            address
        };
        let path = directory.join("kubeconfig");
        let kubeconfig = Kubeconfig {
            name: "coracle",
            server: &format!("https://{host}"),
            authority_pem: self.authority.certificate_pem(),
            credential: &admin,
        };
        write_kubeconfig(&path, &kubeconfig).map_err(|error| data_directory::cannot_use(&path, &error))?;
        self.serve_on(listener).map_err(|error| Failure::new(CANNOT_START, &*error))?;
        self.kubeconfig = Some(path);
        self.address = Some(address);
        Ok(())
    }

    /// Serves on a further listener until [`ControlPlane::stop_listening`].
    ///
    /// # Errors
    ///
    /// When there can be no certificate.
    fn serve_on(&mut self, listener: TcpListener) -> Result<(), Trouble> {
        let credential = self.authority.server(&self.names)?;
        let tls = apiserver::server_tls(self.authority.certificate_pem(), &credential)?;
        let (server, closing) = (self.server.clone(), self.closing.clone());
        self.tasks.spawn(async move { server.serve(listener, tls, closing.cancelled_owned()).await });
        Ok(())
    }

    /// Lets the pods of a network reach the API at the address of its service. Without a packet filter they cannot; that is
    /// said, and everything else goes on.
    pub(crate) async fn serve_pods(&mut self, network: &Network) {
        if let Err(error) = self.try_to_serve_pods(network).await {
            tracing::warn!(error, "pods of this node cannot reach the API");
        }
    }

    async fn try_to_serve_pods(&mut self, network: &Network) -> Result<(), Trouble> {
        let IpAddr::V4(address) = network.node_address() else {
            return Err("the node has no IPv4 address for its pods".into());
        };
        let IpAddr::V4(service) = self.service_ranges.kubernetes() else {
            return Err("services have IPv6 addresses only, and pods reach the API over IPv4".into());
        };
        let listener = listen_before_the_first_pod(address)?;
        let port = listener.local_addr()?.port();
        self.serve_on(listener)?;
        let service = SocketAddrV4::new(service, 443);
        let closed_ports = self.address.iter().map(SocketAddr::port).collect();
        let route = network::ApiRoute { service, port, closed_ports };
        network.route_api(route).await?;
        self.server.advertise(SocketAddr::from((address, port))).await;
        Ok(())
    }

    /// Ends the listeners and waits for open requests.
    pub(crate) async fn stop_listening(&mut self) {
        self.closing.cancel();
        while self.tasks.join_next().await.is_some() {}
    }

    /// Closes the store: everything that was acknowledged is on the disk.
    pub(crate) async fn close(self) {
        self.store.close().await;
    }
}

/// The clients of controllers in the process of their API server.
struct ControllerClients {
    server: ApiServer,
}

impl Clients for ControllerClients {
    fn client(&self, speaker: Speaker) -> kube::Client {
        let identity = match speaker {
            Speaker::ControllerManager => Identity::controller_manager(),
            Speaker::Scheduler => Identity::scheduler(),
            Speaker::Controller(name) => Identity::controller(name),
        };
        in_memory::client(&self.server, identity, speaker.component())
    }
}

/// The address at which others reach what listens on `address`: for all addresses, the one by which this machine would reach
/// others.
fn seen_from_outside(address: IpAddr) -> Option<IpAddr> {
    if !address.is_unspecified() {
        return Some(address);
    }
    let (own, other) = match address {
        IpAddr::V4(_) => ("0.0.0.0:0", "192.0.2.1:9"),
        IpAddr::V6(_) => ("[::]:0", "[2001:db8::1]:9"),
    };
    // Nothing is sent: a datagram socket that is connected only asks for the way.
    let socket = std::net::UdpSocket::bind(own).ok()?;
    socket.connect(other).ok()?;
    socket.local_addr().ok().map(|own| own.ip())
}

/// A listener on the node's own address, which exists on the links of pods only: before the first one, it is bound all the
/// same.
fn listen_before_the_first_pod(address: Ipv4Addr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    rustix::net::sockopt::set_ip_freebind(&socket, true)?;
    socket.bind(SocketAddr::from((address, 0)))?;
    socket.listen(1024)
}

fn open_audit_log(options: &ServerOptions) -> Result<Option<AuditLog>, Failure> {
    let Some(path) = &options.audit_log else { return Ok(None) };
    let opened = match options.audit_policy {
        AuditPolicy::None => return Ok(None),
        AuditPolicy::Metadata if path.as_os_str() == "-" => AuditLog::to_standard_output(),
        AuditPolicy::Metadata => AuditLog::to_file(path),
    };
    opened.map(Some).map_err(|error| {
        Failure::text(INPUT, format!("cannot write the audit log: {error}"))
            .place(path.display().to_string())
            .hint("name a file that can be written, or - for standard output")
    })
}

fn open_store(objects: Objects, path: &Path) -> Result<Store, Failure> {
    match objects {
        Objects::InMemory => Store::in_memory().map_err(|error| Failure::new(CANNOT_START, &error)),
        Objects::OnDisk => {
            let opened = Store::open(path).map_err(|error| {
                Failure::new(CANNOT_START, &error)
                    .place(path.display().to_string())
                    .hint("is another one running on this data directory? choose one with --data-dir")
            })?;
            if let Some(quarantine) = &opened.quarantine {
                damage::database_replaced(quarantine).warn();
            }
            Ok(opened.store)
        }
    }
}

pub(crate) fn cannot_listen(address: SocketAddr, error: &io::Error) -> Failure {
    let failure = Failure::text(INPUT, format!("cannot listen on {address}: {error}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            failure.hint("another program (another node?) listens there; choose a free port with --listen")
        }
        _ => failure.hint("choose an address of this machine with --listen"),
    }
}
