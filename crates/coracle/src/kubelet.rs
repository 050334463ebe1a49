//! The command `coracle kubelet`: the node agent alone. Without an API server it runs the pods of a directory; with one it is
//! one of its nodes. Its container runtime is in this process, or any other that speaks the standard interface.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::kubelet::{KubeletHandle, PortTls};
use apiserver::authority::Authority;
use informer::Informer;
use k8s_openapi::api::core::v1::Service;
use network::Network;
use runtime::Runtime;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::api_elsewhere::ApiElsewhere;
use crate::cluster_dns::{self, ClusterDns, Names, Wanted};
use crate::control_plane::cannot_listen;
use crate::data_directory;
use crate::failure::{CANNOT_START, Failure, INPUT, exit_code};
use crate::flag_values;
use crate::interrupt::Interrupts;
use crate::node::options::NodeOptions;
use crate::node::{
    KUBELET_AGENT, Keeping, NodeConfig, kubelet_config, leave_pods, open_runtime, service_ranges, texts,
};
use crate::service_proxy::ServiceProxy;

/// Arguments of `coracle kubelet`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  coracle kubelet --pod-manifest-path /etc/coracle/pods       run the pods of a directory, without any API
  coracle kubelet --kubeconfig node.conf --node-name node-2   be a node of an API server, reached at port 10250
  coracle kubelet --pod-manifest-path DIR --container-runtime-endpoint unix:///run/containerd/containerd.sock")]
pub(crate) struct KubeletArgs {
    /// Directory of manifests whose pods run here.
    #[arg(long, value_name = "DIR", value_parser = flag_values::existing_directory(), required_unless_present = "kubeconfig")]
    pod_manifest_path: Option<PathBuf>,
    /// How to reach the API server, whose node this is; without it there is no API.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Socket of another container runtime (CRI) [default: the one of this process].
    #[arg(long, value_name = "unix:///PATH")]
    container_runtime_endpoint: Option<String>,
    /// Allow pods to use the machine's own root file system as image `coracle.dev/host`.
    #[arg(long, conflicts_with = "container_runtime_endpoint")]
    allow_host_image: bool,
    /// Let a container with an unresolved reference wait with CreateContainerConfigError.
    #[arg(long)]
    strict_references: bool,
    /// Name of the node [default: the host name].
    #[arg(long, alias = "hostname-override", value_name = "NAME", value_parser = flag_values::node_name)]
    node_name: Option<String>,
    /// Where the API server and tools reach this node: logs, exec, port-forward [default: 0.0.0.0:10250, or a free port].
    #[arg(long, value_name = "ADDR:PORT", requires = "kubeconfig")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    node: NodeOptions,
}

/// Runs the command.
pub(crate) fn run(args: KubeletArgs) -> ExitCode {
    exit_code(start(&args))
}

fn start(args: &KubeletArgs) -> Result<(), Failure> {
    let socket = args.container_runtime_endpoint.as_deref().map(socket_path).transpose()?;
    crate::prerequisites::require_root("kubelet")?;
    let base = args.node.data_dir();
    let mut config = NodeConfig {
        keeping: Keeping::Everything,
        host_image: args.allow_host_image,
        strict_references: args.strict_references,
        static_pod_dir: args.pod_manifest_path.clone(),
        ..NodeConfig::new(&args.node, &base)
    };
    if let Some(name) = &args.node_name {
        config.node_name.clone_from(name);
    }
    crate::prerequisites::stay(stay(args, config, socket))
}

/// The path of a `unix://` address.
fn socket_path(address: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(address.strip_prefix("unix://").unwrap_or(address));
    if path.is_absolute() && !address.contains('\0') {
        return Ok(path.to_owned());
    }
    Err(Failure::text(INPUT, format!("`{address}` is not the address of a Unix socket"))
        .place("--container-runtime-endpoint")
        .hint("write it as unix:///run/containerd/containerd.sock"))
}

/// The runtime of this process, if it is that one.
struct OwnRuntime {
    runtime: Runtime,
    network: Network,
}

async fn stay(args: &KubeletArgs, config: NodeConfig, socket: Option<PathBuf>) -> Result<(), Failure> {
    let mut interrupts = Interrupts::listen()?;
    let failed = |error: &dyn std::error::Error| Failure::new(CANNOT_START, error);
    let directory = config.base.clone();
    // What can be wrong with the arguments is found before anything is made: nothing is left behind then.
    let api = match &args.kubeconfig {
        Some(file) => Some(ApiElsewhere::of_kubeconfig(file, KUBELET_AGENT).await?),
        None => None,
    };
    let foreign = match socket {
        Some(socket) => Some(cri::connect(&socket).await.map_err(|error| {
            failed(&error)
                .place("--container-runtime-endpoint")
                .hint("start the container runtime first, or leave the flag out to use the one of coracle")
        })?),
        None => None,
    };
    let port = match &api {
        // Without an authority nobody could be known who knocks.
        Some(api) if api.authorities.is_empty() => {
            tracing::warn!(
                "the kubeconfig names no certificate authority: logs, exec and port-forward are not served"
            );
            None
        }
        Some(_) => Some(listen(args.listen).await?),
        None => None,
    };
    data_directory::make_private(&directory)
        .map_err(|error| data_directory::cannot_use(&directory, &error))?;
    data_directory::released(&directory, data_directory::AGENT, data_directory::RELEASE).await;
    let lock = lock(&directory)?;
    let (own, clients, addresses) = match foreign {
        Some(clients) => (None, clients, machine_addresses()),
        None => {
            let (runtime, network) = open_runtime(&config, &directory).await?;
            let addresses = texts(network.node_addresses());
            let clients = cri::in_process(runtime.clone(), runtime.clone());
            (Some(OwnRuntime { runtime, network }), clients, addresses)
        }
    };
    let shutdown = CancellationToken::new();
    let mut settings = kubelet_config(&config, &directory, addresses);
    settings.pod_cidrs = own.iter().flat_map(|own| texts(own.network.ranges())).collect();
    if let Some(listener) = &port {
        // Who joins a cluster is reached from other machines.
        settings.addresses = machine_addresses();
        settings.port = listener.local_addr().map_err(|error| failed(&error))?.port();
    }
    let (dns_address, dns) = start_dns(&config, own.as_ref(), api.as_ref(), &shutdown).await;
    settings.cluster_dns = dns_address.iter().map(ToString::to_string).collect();
    let known_services = Informer::idle();
    if let Some(api) = &api {
        let all = kube::Api::all(api.client.clone());
        tokio::spawn(known_services.clone().follow(all, "", shutdown.clone()));
        settings.services = Some(known_services.clone());
    }
    let addresses = settings.addresses.clone();
    let (runtime, images) = clients;
    let ending = shutdown.clone().cancelled_owned();
    let handle: KubeletHandle = match &api {
        Some(api) => ::kubelet::spawn_kubelet(settings, api.client.clone(), runtime, images, ending),
        None => ::kubelet::spawn_standalone_kubelet(settings, runtime, images, ending),
    }
    .map_err(|error| failed(&error))?;
    if let (Some(api), Some(listener)) = (&api, port) {
        let tls = port_tls(&directory, &config.node_name, &addresses, &api.authorities)?;
        tracing::info!(address = ?listener.local_addr().ok(), "the node's port is open to the API server");
        handle.serve(listener, tls);
    }
    let services = match (&api, &own) {
        (Some(api), Some(own)) => {
            Some(route_services(api, &known_services, &config.node_name, &own.network, &shutdown))
        }
        // Without an API there are no services; another runtime has another network.
        (None, _) | (_, None) => None,
    };
    tracing::info!(node = config.node_name, "the node agent runs");
    interrupts.next().await;
    handle.ends_finished().await;
    shutdown.cancel();
    handle.stopped().await;
    if let Some(dns) = dns {
        dns.stop().await;
    }
    if let Some(services) = services {
        services.stop().await;
    }
    if let Some(own) = own {
        leave_pods(&own.runtime, own.network).await;
    }
    drop(lock);
    Ok(())
}

/// Where pods ask for names, and the DNS that answers there if it is this process: it is where the runtime and the API are
/// known. Pods of another runtime are told the address only.
async fn start_dns(
    config: &NodeConfig,
    own: Option<&OwnRuntime>,
    api: Option<&ApiElsewhere>,
    shutdown: &CancellationToken,
) -> (Option<Ipv4Addr>, Option<ClusterDns>) {
    let address = match config.options.cluster_dns {
        Some(Wanted::At(address)) => address,
        Some(Wanted::Nowhere) | None => return (None, None),
    };
    let (Some(own), Some(api)) = (own, api) else { return (Some(address), None) };
    let sources = cluster_dns::own_sources(&api.client, shutdown);
    let services = service_ranges(config.options.server.service_ranges());
    let names = Names { domain: &config.options.cluster_domain, address, services };
    let dns = ClusterDns::start(names, &own.network, sources).await;
    (dns.as_ref().map(ClusterDns::asked_at), dns)
}

/// Routes the services of the cluster for the pods of this node.
fn route_services(
    api: &ApiElsewhere,
    services: &Informer<Service>,
    node: &str,
    network: &Network,
    shutdown: &CancellationToken,
) -> ServiceProxy {
    let slices = Informer::idle();
    tokio::spawn(slices.clone().follow(kube::Api::all(api.client.clone()), "", shutdown.clone()));
    // Which addresses services may have is the other server's affair.
    ServiceProxy::start(services, &slices, node, Vec::new(), network)
}

/// One node agent a data directory. The lock ends with the process.
fn lock(directory: &Path) -> Result<std::fs::File, Failure> {
    let path = directory.join("kubelet.lock");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
    let file = file.map_err(|error| data_directory::cannot_use(&path, &error))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Failure::text(CANNOT_START, "another node agent runs on this directory")
            .place(directory.display().to_string())
            .hint("choose another directory with --data-dir")
    })?;
    Ok(file)
}

/// The port of a kubelet, unless another is wanted.
const USUAL_PORT: u16 = 10250;

/// Listens where the user wants; else at the usual port, or at a free one when another node of this machine has that.
async fn listen(wanted: Option<SocketAddr>) -> Result<TcpListener, Failure> {
    if let Some(address) = wanted {
        return TcpListener::bind(address).await.map_err(|error| cannot_listen(address, &error));
    }
    let any = |port| SocketAddr::from(([0, 0, 0, 0], port));
    match TcpListener::bind(any(USUAL_PORT)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(any(0)).await.map_err(|error| cannot_listen(any(0), &error)),
    }
}

/// TLS of the node's port, with a certificate that the node makes for itself.
fn port_tls(
    directory: &Path,
    node_name: &str,
    addresses: &[String],
    authorities: &[Vec<u8>],
) -> Result<PortTls, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::new(CANNOT_START, error);
    let authority = Authority::open(&directory.join("kubelet-pki")).map_err(|error| failed(&error))?;
    let mut names = vec![node_name.to_owned(), "localhost".to_owned(), "127.0.0.1".to_owned()];
    names.extend(addresses.iter().cloned());
    let own = authority.server(&names).map_err(|error| failed(&error))?;
    ::kubelet::port_tls(authorities, own.certificate_pem(), own.key_pem()).map_err(|error| failed(&error))
}

/// The addresses from which the machine would go to the world, one of each family that it has; nothing is sent.
fn machine_addresses() -> Vec<String> {
    // Addresses for documentation: only the routes to them count.
    let first = address_towards("0.0.0.0:0", "192.0.2.1:9").unwrap_or_else(|| "127.0.0.1".to_owned());
    let second =
        network::has_both_families().ok().and_then(|()| address_towards("[::]:0", "[2001:db8::1]:9"));
    [first].into_iter().chain(second).collect()
}

fn address_towards(any: &str, target: &str) -> Option<String> {
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    socket.local_addr().ok().map(|address| address.ip().to_string())
}

#[cfg(test)]
mod tests {
    use super::socket_path;

    #[test]
    fn a_runtime_is_reached_by_the_absolute_path_of_its_socket() {
        for (address, path) in [
            ("unix:///run/containerd/containerd.sock", Some("/run/containerd/containerd.sock")),
            ("/run/x.sock", Some("/run/x.sock")),
            ("unix://run/x.sock", None),
            ("tcp://127.0.0.1:1", None),
            ("", None),
        ] {
            assert_eq!(socket_path(address).ok().as_deref(), path.map(std::path::Path::new), "{address}");
        }
    }
}
