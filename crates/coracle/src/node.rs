//! The composition root: builds API server, kubelet and runtime from one configuration and wires them over memory.
//!
//! It decides nothing about pods. What each part keeps lies below the data directory:
//! `images` and `seccomp` (shared by all nodes of the directory), `state.db`, `pki`, `kubelet`, `runtime`.

pub(crate) mod options;
pub(crate) mod take_down;
mod throwaway;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use ::controllers::{Controllers, Informers, NodeWatch};
use apiserver::{Identity, NodeConnector, NodeIo, ServiceRanges};
use images::ImageStore;
use kubelet::{KubeletConfig, KubeletHandle};
use network::{AddressRange, Network};
use runtime::{Runtime, RuntimeConfig};
use tokio_util::sync::CancellationToken;

use crate::cluster_dns::{self, ClusterDns, Names, Wanted};
use crate::control_plane::{ControlPlane, ControlPlaneConfig, Listening, Objects, in_memory};
use crate::data_directory;
use crate::failure::{CANNOT_START, Failure};
use crate::flag_values::NODE_NAME_BYTES;
use crate::nodes::OwnNode;
use crate::pod_ranges::PodRanges;
use crate::service_proxy::ServiceProxy;
use options::{EnvFileSyntax, NodeOptions};

/// What the kubelet calls itself towards the API server: the manager of what it writes.
pub(crate) const KUBELET_AGENT: &str = concat!("kubelet/", env!("CARGO_PKG_VERSION"));

/// What of a node survives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Nothing but images: a throwaway node, with its objects in memory and its files in a directory of its own.
    Nothing,
    /// Everything: objects, pods and addresses.
    Everything,
}

/// How a node is built.
#[derive(Debug, Clone)]
pub(crate) struct NodeConfig {
    /// Where images lie, and everything else of a node that stays.
    pub(crate) base: PathBuf,
    /// What survives.
    pub(crate) keeping: Keeping,
    /// Where the API listens; nowhere, when it is only used from within.
    pub(crate) listen: Option<SocketAddr>,
    /// Further names of the API in its certificate.
    pub(crate) names: Vec<String>,
    /// Name of the node.
    pub(crate) node_name: String,
    /// Whether pods may use the machine's own file system as an image.
    pub(crate) host_image: bool,
    /// Whether an unresolved reference keeps a container from starting.
    pub(crate) strict_references: bool,
    /// A directory of manifests whose pods run whatever the API says.
    pub(crate) static_pod_dir: Option<PathBuf>,
    /// How other nodes are watched over.
    pub(crate) node_watch: NodeWatch,
    /// What the user chose on the command line.
    pub(crate) options: NodeOptions,
}

impl NodeConfig {
    /// A node with the user's options.
    pub(crate) fn new(options: &NodeOptions, base: &Path) -> Self {
        Self {
            base: base.to_owned(),
            keeping: Keeping::Nothing,
            listen: None,
            names: Vec::new(),
            node_name: machine_name(),
            host_image: false,
            strict_references: false,
            static_pod_dir: None,
            node_watch: NodeWatch::default(),
            options: options.clone().with_services_of_its_pods(),
        }
    }
}

/// A node that runs.
pub(crate) struct Node {
    /// The API.
    control_plane: ControlPlane,
    directory: PathBuf,
    throwaway: Option<throwaway::Directory>,
    kubelet: KubeletHandle,
    runtime: Runtime,
    network: Network,
    services: ServiceProxy,
    controllers: Controllers,
    dns: Option<ClusterDns>,
    /// Ends the controllers, which end first: pods that go with the node are not made again.
    controllers_end: CancellationToken,
    /// Ends the node agent. The API's listener ends after it: until then its watches are served.
    shutdown: CancellationToken,
}

impl Node {
    /// Builds and starts all parts; when this returns, the API is ready.
    ///
    /// # Errors
    ///
    /// What could not be built, with what to do about it.
    pub(crate) async fn start(config: NodeConfig) -> Result<Self, Failure> {
        // Before anything is made: an address that is taken leaves no empty directory.
        config.options.check_services()?;
        let listening = match config.listen {
            None => None,
            Some(wanted) => Some(Listening::on(wanted).await?),
        };
        let (directory, throwaway) = match config.keeping {
            Keeping::Everything => (config.base.clone(), None),
            Keeping::Nothing => {
                throwaway::clear_abandoned(&config.base).await;
                let own = throwaway::Directory::create(&config.base)
                    .map_err(|error| data_directory::cannot_use(&config.base, &error))?;
                (own.path().to_owned(), Some(own))
            }
        };
        data_directory::make_private(&directory)
            .map_err(|error| data_directory::cannot_use(&directory, &error))?;
        let shutdown = CancellationToken::new();
        let connector = Arc::new(KubeletConnector::default());
        let mut names = vec![config.node_name.clone()];
        names.extend(config.names.iter().cloned());
        if config.options.cluster_domain != cluster_dns::USUAL_DOMAIN {
            names.push(format!("kubernetes.default.svc.{}", config.options.cluster_domain));
        }
        let mut control_plane = ControlPlane::start(ControlPlaneConfig {
            directory: &directory,
            objects: match config.keeping {
                Keeping::Nothing => Objects::InMemory,
                Keeping::Everything => Objects::OnDisk,
            },
            listening,
            names,
            options: &config.options.server,
            advertise: None,
            own_node: Some(OwnNode {
                name: config.node_name.clone(),
                connector: Arc::clone(&connector) as Arc<dyn NodeConnector>,
            }),
        })
        .await?;
        let dns_address = Wanted::or_usual(config.options.cluster_dns, control_plane.service_ranges);
        let make_dns_service = async {
            if let Some(address) = dns_address {
                cluster_dns::ensure_service(&control_plane.client, address).await;
            }
        };
        let (opened, ()) = tokio::join!(open_runtime(&config, &directory), make_dns_service);
        let (runtime, network) = opened?;
        control_plane.serve_pods(&network).await;
        let controllers_end = CancellationToken::new();
        let informers = Informers::idle();
        let sources = dns::Sources {
            services: informers.services.clone(),
            endpoint_slices: informers.endpoint_slices.clone(),
            pods: informers.pods.clone(),
        };
        let known_services = informers.services.clone();
        let services = ServiceProxy::start(
            &informers.services,
            &informers.endpoint_slices,
            &config.node_name,
            service_ranges(control_plane.service_ranges),
            &network,
        );
        // It lives as long as the controllers do.
        let node_watch = NodeWatch { own: Some(config.node_name.clone()), ..config.node_watch.clone() };
        let controllers = control_plane.start_controllers(informers, node_watch, &controllers_end).await;
        let mut dns = match dns_address {
            Some(address) => {
                let services = service_ranges(control_plane.service_ranges);
                let names = Names { domain: &config.options.cluster_domain, address, services };
                ClusterDns::start(names, &network, sources).await
            }
            None => None,
        };
        if let Some(dns) = &mut dns {
            dns.publish(control_plane.client.clone());
        }
        let (runtime_client, image_client) = cri::in_process(runtime.clone(), runtime.clone());
        let kubelet_config = KubeletConfig {
            // The controllers of this process know that it lives.
            renews_lease: false,
            services: Some(known_services),
            pod_cidrs: texts(network.ranges()),
            cluster_dns: dns.iter().map(|dns| dns.asked_at().to_string()).collect(),
            ..kubelet_config(&config, &directory, texts(network.node_addresses()))
        };
        let node_client =
            in_memory::client(&control_plane.server, Identity::node(&config.node_name), KUBELET_AGENT);
        let kubelet = kubelet::spawn_kubelet(
            kubelet_config,
            node_client,
            runtime_client,
            image_client,
            shutdown.clone().cancelled_owned(),
        )
        .map_err(|error| Failure::new(CANNOT_START, &error))?;
        connector.serve_with(kubelet.clone());
        Ok(Self {
            control_plane,
            directory,
            throwaway,
            kubelet,
            runtime,
            network,
            services,
            controllers,
            dns,
            controllers_end,
            shutdown,
        })
    }

    /// Waits for trouble that ends the node: a store that can no longer keep what it is told.
    pub(crate) async fn failed(&self) -> Failure {
        self.control_plane.failed().await
    }

    /// A client with all rights, over memory.
    pub(crate) fn client(&self) -> &kube::Client {
        &self.control_plane.client
    }

    /// The kubeconfig of a node that listens.
    pub(crate) fn kubeconfig(&self) -> Option<&Path> {
        self.control_plane.kubeconfig.as_deref()
    }

    /// Ends the controllers: what they have begun is done, and nothing new begins.
    pub(crate) async fn end_controllers(&self) {
        self.controllers_end.cancel();
        self.controllers.stopped().await;
    }

    /// Ends the DNS, after which names are not found.
    async fn end_dns(&mut self) {
        if let Some(dns) = self.dns.take() {
            dns.stop().await;
        }
    }

    /// Ends a node that stays; its pods go on, and those on their way out are out first if that takes a moment only. Without pods, its network has no use until the next start: it goes as well.
    pub(crate) async fn stop(mut self) {
        self.end_controllers().await;
        self.kubelet.ends_finished().await;
        self.shutdown.cancel();
        self.kubelet.stopped().await;
        self.end_dns().await;
        self.control_plane.stop_listening().await;
        self.services.stop().await;
        leave_pods(&self.runtime, self.network).await;
        self.control_plane.close().await;
    }

    /// Waits until nothing is left of pods that were deleted.
    pub(crate) async fn drained(&self) {
        self.kubelet.drained().await;
    }

    /// Ends a throwaway node and takes away everything that it made on this machine, but the images.
    pub(crate) async fn remove(mut self) {
        self.end_controllers().await;
        self.shutdown.cancel();
        self.kubelet.stopped().await;
        self.end_dns().await;
        self.control_plane.stop_listening().await;
        throwaway::remove_pods(&self.runtime).await;
        throwaway::clear_volumes(&self.directory);
        self.services.stop().await;
        if let Err(error) = self.network.cleanup().await {
            tracing::warn!(%error, "the network of the node could not be taken away");
        }
        self.control_plane.close().await;
        if let Some(directory) = self.throwaway.take() {
            directory.remove();
        }
    }
}

/// The addresses that services of an API server have, as the network writes them.
pub(crate) fn service_ranges(ranges: ServiceRanges) -> Vec<AddressRange> {
    ranges.all().filter_map(|range| range.to_string().parse().ok()).collect()
}

/// The end of a runtime whose pods go on. Without pods, its network has no use until the next start: it goes as well.
pub(crate) async fn leave_pods(runtime: &Runtime, network: Network) {
    let pods = throwaway::sandboxes(runtime).await.map_or(1, |sandboxes| sandboxes.len());
    if pods > 0 {
        tracing::info!(
            pods,
            "the pods go on; the next start on this data directory adopts them, and `coracle down` ends them"
        );
    } else if let Err(error) = network.cleanup().await {
        tracing::warn!(%error, "the network of the node could not be taken away");
    }
}

/// Addresses or ranges as objects of the API have them.
pub(crate) fn texts(list: &[impl ToString]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

/// What a node agent on `directory` is told, whoever its API server and its runtime are.
pub(crate) fn kubelet_config(config: &NodeConfig, directory: &Path, addresses: Vec<String>) -> KubeletConfig {
    KubeletConfig {
        addresses,
        feature_gates: config.options.server.feature_gates,
        env_file_syntax: match config.options.env_file_syntax {
            EnvFileSyntax::Default => envfile::Syntax::Default,
            EnvFileSyntax::Rfc2 => envfile::Syntax::Rfc2,
            EnvFileSyntax::Kubernetes => envfile::Syntax::Kubernetes,
        },
        strict_references: config.strict_references,
        seccomp_default: config.options.seccomp_default,
        // Throwaway nodes share the profiles of their directory, as they share its images.
        seccomp_dir: config.base.join("seccomp"),
        claims_dir: directory.join("volumes"),
        hook_hosts: config.options.hook_hosts.into(),
        static_pod_dir: config.static_pod_dir.clone(),
        cluster_domain: config.options.cluster_domain.clone(),
        ..KubeletConfig::new(config.node_name.clone(), directory.join("kubelet"))
    }
}

/// Opens the container runtime of this process.
///
/// # Errors
///
/// What cannot be opened.
pub(crate) async fn open_runtime(
    config: &NodeConfig,
    directory: &Path,
) -> Result<(Runtime, Network), Failure> {
    let failed = |error: &dyn std::error::Error| Failure::new(CANNOT_START, error);
    let mut images = ImageStore::open(config.base.join("images")).map_err(|error| failed(&error))?;
    if config.host_image {
        images = images.with_host_image();
    }
    data_directory::released(directory, data_directory::RUNTIME, data_directory::RELEASE).await;
    let network = Network::open(PodRanges::network(config.options.pod_cidr, directory))
        .map_err(|error| failed(&error))?;
    let runtime_config = RuntimeConfig {
        pod_max_pids: config.options.pod_max_pids.most(),
        private_directories: vec![config.base.clone(), directory.to_owned()],
        ..RuntimeConfig::new(directory.join("runtime"))
    };
    let runtime =
        Runtime::open(runtime_config, images, network.clone()).await.map_err(|error| failed(&error))?;
    Ok((runtime, network))
}

/// The way from the API server to the kubelet of this process, which is made after the server.
#[derive(Default)]
struct KubeletConnector {
    kubelet: OnceLock<KubeletHandle>,
}

impl KubeletConnector {
    fn serve_with(&self, kubelet: KubeletHandle) {
        // There is one kubelet, and it is set once.
        let _ = self.kubelet.set(kubelet);
    }
}

impl NodeConnector for KubeletConnector {
    fn connect<'c>(
        &'c self,
        _node: &'c str,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn NodeIo>>> + Send + 'c>> {
        Box::pin(async move {
            let Some(kubelet) = self.kubelet.get() else {
                return Err(io::Error::new(io::ErrorKind::NotConnected, "the node is not ready yet"));
            };
            let (near, far) = tokio::io::duplex(64 * 1024);
            let kubelet = kubelet.clone();
            tokio::spawn(async move { kubelet.serve_connection(far).await });
            Ok(Box::new(near) as Box<dyn NodeIo>)
        })
    }
}

fn machine_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    let name: String = name
        .chars()
        .map(|each| if each.is_ascii_alphanumeric() || each == '.' { each } else { '-' })
        .collect();
    let name: String = name.trim_matches(['-', '.']).chars().take(NODE_NAME_BYTES).collect();
    let name = name.trim_end_matches(['-', '.']);
    if name.is_empty() { "node".to_owned() } else { name.to_owned() }
}
