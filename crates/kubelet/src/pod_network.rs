//! From where hooks and probes of a pod connect: the pod's own network namespace. They reach what the pod could reach,
//! `127.0.0.1` is the pod, and what a manifest names as a host is checked first: link-local addresses are where clouds keep
//! their secrets, and `--hook-hosts=pod` allows the pod itself only.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use cri::v1;
use k8s_openapi::api::core::v1::Pod;
use network::ConnectInsideError;
use tokio::net::TcpStream;

use crate::agent::Agent;
use crate::config::HookHosts;

/// The network of one pod, as hooks and probes see it.
#[derive(Clone, Debug)]
pub(crate) struct PodNetwork {
    /// The sandbox whose network it is; `None`: the host's.
    sandbox: Option<String>,
    addresses: Vec<IpAddr>,
    /// Names that the pod's own hosts file gives.
    names: Vec<(String, IpAddr)>,
    hosts: HookHosts,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PodConnectError {
    /// The pod has no address yet.
    #[error("failed to find networking container: the pod has no address")]
    NoAddress,
    /// No such name.
    #[error("lookup {host}: {message}")]
    Lookup { host: String, message: String },
    /// Refused.
    #[error("{host} is the link-local address {address}: hooks and probes do not connect there")]
    LinkLocal { host: String, address: IpAddr },
    /// Refused.
    #[error(
        "{host} is not the pod itself, and this node lets hooks and probes connect to nothing else (--hook-hosts=pod)"
    )]
    NotThePod { host: String },
    /// The runtime does not say where the pod's network is.
    #[error("the pod's network cannot be entered: {0}")]
    Namespace(String),
    /// Nobody answers.
    #[error("dial tcp {target}: connect: {message}")]
    Connect { target: SocketAddr, message: String },
}

impl PodConnectError {
    /// Whether the node refused, rather than the other side.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::LinkLocal { .. } | Self::NotThePod { .. } => true,
            Self::NoAddress | Self::Lookup { .. } | Self::Namespace(_) | Self::Connect { .. } => false,
        }
    }
}

impl PodNetwork {
    /// The network of a pod with that sandbox and those addresses.
    pub(crate) fn new(agent: &Agent, pod: &Pod, sandbox_id: &str, addresses: &[String]) -> Self {
        let sandbox = (!crate::sandbox::in_host_network(pod)).then(|| sandbox_id.to_owned());
        let aliases = pod.spec.iter().flat_map(|spec| spec.host_aliases.iter().flatten());
        let names = aliases
            .filter_map(|alias| Some((alias.ip.parse::<IpAddr>().ok()?, alias.hostnames.iter().flatten())))
            .flat_map(|(address, names)| names.map(move |name| (name.clone(), address)))
            .collect();
        Self {
            sandbox,
            addresses: addresses.iter().filter_map(|address| address.parse().ok()).collect(),
            names,
            hosts: agent.config.hook_hosts,
        }
    }

    /// The host that is meant when a manifest names none: the pod's first address.
    pub(crate) fn default_host(&self) -> String {
        self.addresses.first().map(ToString::to_string).unwrap_or_default()
    }

    /// Connects as a process of the pod would. Has no time limit of its own.
    pub(crate) async fn connect(
        &self,
        agent: &Agent,
        host: &str,
        port: u16,
    ) -> Result<TcpStream, PodConnectError> {
        let targets = self.look_up(host, port).await?;
        self.check(host, &targets)?;
        let namespace = match &self.sandbox {
            None => None,
            Some(sandbox) => match namespace(agent, sandbox).await {
                Ok(namespace) => Some(namespace),
                // A runtime that keeps it to itself: the pod's own addresses are the same from everywhere.
                Err(_) if targets.iter().all(|target| self.addresses.contains(&target.ip())) => None,
                Err(error) => return Err(PodConnectError::Namespace(error.to_string())),
            },
        };
        let mut failure = PodConnectError::NoAddress;
        for target in targets {
            let connected = match &namespace {
                None => TcpStream::connect(target).await.map_err(|error| (target, error)),
                Some(namespace) => match network::connect_inside(namespace.as_fd(), target).await {
                    Ok(stream) => Ok(stream),
                    Err(ConnectInsideError::Connect { target, source }) => Err((target, source)),
                    Err(ConnectInsideError::LinkLocal(address)) => {
                        return Err(PodConnectError::LinkLocal { host: host.to_owned(), address });
                    }
                    Err(error @ ConnectInsideError::Socket(_)) => {
                        return Err(PodConnectError::Namespace(error.to_string()));
                    }
                },
            };
            match connected {
                Ok(stream) => {
                    // One request, one answer: nothing is gained by waiting for more to send.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err((target, error)) => {
                    failure = PodConnectError::Connect { target, message: words(&error) };
                }
            }
        }
        Err(failure)
    }

    /// The addresses of a host, in order. The pod's own names come before those of the machine's resolver.
    async fn look_up(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, PodConnectError> {
        if host.is_empty() {
            return Err(PodConnectError::NoAddress);
        }
        if let Some(addresses) = self.own_addresses(host) {
            return Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect());
        }
        let failed = |message: String| PodConnectError::Lookup { host: host.to_owned(), message };
        let found: Vec<SocketAddr> = match tokio::net::lookup_host((host, port)).await {
            Ok(found) => found.collect(),
            Err(_) => return Err(failed("no such host".to_owned())),
        };
        if found.is_empty() { Err(failed("no such host".to_owned())) } else { Ok(found) }
    }

    /// Addresses that need no resolver: literal ones, loopback, the pod's host aliases.
    fn own_addresses(&self, host: &str) -> Option<Vec<IpAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Some(vec![address]);
        }
        let aliases: Vec<IpAddr> = self
            .names
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(host))
            .map(|(_, address)| *address)
            .collect();
        if !aliases.is_empty() {
            return Some(aliases);
        }
        host.trim_end_matches('.')
            .eq_ignore_ascii_case("localhost")
            .then(|| vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST)])
    }

    fn check(&self, host: &str, targets: &[SocketAddr]) -> Result<(), PodConnectError> {
        let host = || host.to_owned();
        for target in targets {
            let address = target.ip();
            if network::is_link_local(address) {
                return Err(PodConnectError::LinkLocal { host: host(), address });
            }
            let is_pod = address.is_loopback() || self.addresses.contains(&address);
            match self.hosts {
                HookHosts::Any => {}
                HookHosts::Pod if is_pod => {}
                HookHosts::Pod => return Err(PodConnectError::NotThePod { host: host() }),
            }
        }
        Ok(())
    }
}

/// The system's error in the words that users of Kubernetes know.
fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => error.to_string(),
    }
}

/// The network namespace of a sandbox, as its runtime tells it: by path, or by a process that lives in it.
async fn namespace(agent: &Agent, sandbox: &str) -> io::Result<File> {
    let request = v1::PodSandboxStatusRequest { pod_sandbox_id: sandbox.to_owned(), verbose: true };
    let answer = agent.runtime.pod_sandbox_status(request).await;
    let info = answer.map_err(|status| io::Error::other(status.message().to_owned()))?.into_inner().info;
    let info = info.get("info").and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    let path = info
        .as_ref()
        .and_then(namespace_path)
        .ok_or_else(|| io::Error::other("the runtime does not say where it is"))?;
    let namespace = File::open(path)?;
    let (inside, own) = (namespace.metadata()?, std::fs::metadata("/proc/self/ns/net")?);
    // The process may have ended, and its number belong to another one.
    if (inside.dev(), inside.ino()) == (own.dev(), own.ino()) {
        return Err(io::Error::other("the sandbox has ended"));
    }
    Ok(namespace)
}

fn namespace_path(info: &serde_json::Value) -> Option<String> {
    let namespaces = info.pointer("/runtimeSpec/linux/namespaces").and_then(serde_json::Value::as_array);
    let named = namespaces.into_iter().flatten().find(|namespace| namespace["type"] == "network");
    let path = named.and_then(|namespace| namespace["path"].as_str()).filter(|path| !path.is_empty());
    let pid = info["pid"].as_u64().filter(|pid| *pid > 0);
    path.map(str::to_owned).or_else(|| Some(format!("/proc/{}/ns/net", pid?)))
}

#[cfg(test)]
mod tests {
    use super::{PodConnectError, PodNetwork, namespace_path};
    use crate::config::HookHosts;
    use serde_json::json;
    use std::net::SocketAddr;

    fn network(hosts: HookHosts) -> PodNetwork {
        PodNetwork {
            sandbox: None,
            addresses: vec!["10.42.0.5".parse().expect("an address")],
            names: vec![("meta".to_owned(), "169.254.169.254".parse().expect("an address"))],
            hosts,
        }
    }

    #[test]
    fn hosts_are_allowed_or_refused_by_their_address() {
        let rows = [
            ("10.42.0.5:80", true, true),
            ("127.0.0.1:80", true, true),
            ("[::1]:80", true, true),
            ("192.0.2.1:80", true, false),
            ("169.254.169.254:80", false, false),
            ("[fe80::1]:80", false, false),
            ("[::ffff:169.254.169.254]:80", false, false),
        ];
        for (target, any, pod) in rows {
            let target: SocketAddr = target.parse().expect("an address");
            for (hosts, allowed) in [(HookHosts::Any, any), (HookHosts::Pod, pod)] {
                let checked = network(hosts).check("h", &[target]);
                assert_eq!(checked.is_ok(), allowed, "{target} {hosts:?}: {checked:?}");
                assert!(checked.err().is_none_or(|error| error.is_refusal()));
            }
        }
    }

    #[test]
    fn the_pods_own_names_need_no_resolver_and_hide_nothing() {
        let network = network(HookHosts::Any);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let found = runtime.block_on(network.look_up("localhost", 1)).expect("known");
        assert_eq!(found[0].to_string(), "127.0.0.1:1");
        let found = runtime.block_on(network.look_up("META", 1)).expect("an alias");
        assert!(matches!(network.check("META", &found), Err(PodConnectError::LinkLocal { .. })));
        assert_eq!(runtime.block_on(network.look_up("", 1)), Err(PodConnectError::NoAddress));
    }

    #[test]
    fn runtimes_tell_the_namespace_by_path_or_by_process() {
        let rows = [
            (
                json!({"pid": 7, "runtimeSpec": {"linux": {"namespaces": [{"type": "ipc"}, {"type": "network", "path": "/run/netns/a"}]}}}),
                Some("/run/netns/a"),
            ),
            (json!({"pid": 7}), Some("/proc/7/ns/net")),
            (json!({"pid": 0}), None),
            (json!({}), None),
        ];
        for (info, expected) in rows {
            assert_eq!(namespace_path(&info).as_deref(), expected, "{info}");
        }
    }
}
