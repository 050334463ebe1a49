//! Test only: real pods in namespaces of their own. A namespace plays the machine, another the world beyond it.
//!
//! Everything a test makes lives in namespaces that end with its descriptors. Traffic never leaves them.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::allocations::{HostPort, Protocol};
use crate::links::{self, LOOPBACK, PodLink, Routing};
use crate::netlink::{DUMP, Message, NetlinkSocket};
use crate::pods::{Network, NetworkConfig, OpenNetworkError};

pub(crate) const MACHINE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const BEYOND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// The same of a machine with both families.
pub(crate) const MACHINE_V6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1);
pub(crate) const BEYOND_V6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 2);
pub(crate) const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// Runs `body` on a thread of its own inside a namespace.
pub(crate) fn inside<T: Send>(namespace: &OwnedFd, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("entered");
            body()
        });
        thread.join().expect("the body does not panic")
    })
}

/// A new namespace, or `None` (with the reason printed) where this user may not make one.
pub(crate) fn namespace() -> Option<OwnedFd> {
    let made = std::thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET)
            .map(|()| fs::File::open("/proc/thread-self/ns/net").expect("its file").into())
    });
    match made.join().expect("no panic") {
        Ok(namespace) => Some(namespace),
        Err(error) => {
            assert!(
                std::env::var_os("REQUIRE_PRIVILEGED").is_none(),
                "cannot make a network namespace: {error}"
            );
            eprintln!("skipped: cannot make a network namespace: {error}");
            None
        }
    }
}

/// Whether the kernel has no IPv6, with the reason printed.
pub(crate) fn skipped_without_ipv6() -> bool {
    let lacks = !Path::new("/proc/sys/net/ipv6").exists();
    if lacks {
        eprintln!("skipped: the kernel has no IPv6");
    }
    lacks
}

/// A machine with a way out, and directories for its nodes.
pub(crate) struct Machine {
    pub(crate) namespace: OwnedFd,
    pub(crate) beyond: OwnedFd,
    pub(crate) directories: tempfile::TempDir,
}

impl Machine {
    pub(crate) fn new() -> Option<Self> {
        let (machine, beyond) = (namespace()?, namespace()?);
        let mut outer = Routing::inside(machine.as_fd()).expect("a socket");
        let mut inner = Routing::inside(beyond.as_fd()).expect("a socket");
        let link = PodLink {
            name: "up0",
            hardware: [2, 0, 0, 0, 0, 1],
            peer_name: "eth0",
            peer_hardware: [2, 0, 0, 0, 0, 2],
            peer_namespace: beyond.as_fd(),
            mtu: 1400,
            group: 0,
        };
        outer.apply(&[links::set_up(LOOPBACK), links::make_pod_link(&link)]).expect("a way out");
        let (near, far) = (outer.link("up0").expect("it").index, inner.link("eth0").expect("it").index);
        outer
            .apply(&[
                links::add_address(near, MACHINE),
                links::add_pod_route(near, BEYOND, MACHINE),
                links::add_default_route(near, BEYOND, MACHINE),
            ])
            .expect("addresses");
        // The world beyond knows the machine and nothing behind it: only masqueraded packets are answered.
        inner
            .apply(&[
                links::set_up(LOOPBACK),
                links::set_up(far),
                links::add_address(far, BEYOND),
                links::add_address(far, METADATA),
                links::add_pod_route(far, MACHINE, BEYOND),
            ])
            .expect("addresses");
        outer.await_operation("up0").expect("it is there");
        Some(Self { namespace: machine, beyond, directories: tempfile::tempdir().expect("a directory") })
    }

    /// One that has IPv6 as well, if the kernel does.
    pub(crate) fn with_both_families() -> Option<Self> {
        if skipped_without_ipv6() {
            return None;
        }
        let made = Self::new()?;
        let mut inner = Routing::inside(made.beyond.as_fd()).expect("a socket");
        let (near, far) =
            (made.routing().link("up0").expect("it").index, inner.link("eth0").expect("it").index);
        let outer = [
            links::add_address(near, MACHINE_V6),
            links::add_local_route(near, MACHINE_V6),
            links::add_pod_route(near, BEYOND_V6, MACHINE_V6),
            links::add_default_route(near, BEYOND_V6, MACHINE_V6),
            links::add_neighbour(near, BEYOND_V6, [2, 0, 0, 0, 0, 2]),
        ];
        made.routing().apply(&outer).expect("addresses");
        let inner_ones = [
            links::add_address(far, BEYOND_V6),
            links::add_local_route(far, BEYOND_V6),
            links::add_pod_route(far, MACHINE_V6, BEYOND_V6),
            links::add_neighbour(far, MACHINE_V6, [2, 0, 0, 0, 0, 1]),
        ];
        inner.apply(&inner_ones).expect("addresses");
        Some(made)
    }

    pub(crate) fn config(&self, node: &str) -> NetworkConfig {
        let data_dir = self.directories.path().join(node);
        fs::create_dir_all(&data_dir).expect("made");
        NetworkConfig { claims_dir: self.directories.path().join("claims"), ..NetworkConfig::new(data_dir) }
    }

    pub(crate) fn open(&self, node: &str) -> Network {
        self.open_with(self.config(node)).expect("the network opens")
    }

    pub(crate) fn open_with(&self, config: NetworkConfig) -> Result<Network, OpenNetworkError> {
        inside(&self.namespace, || Network::open(config))
    }

    pub(crate) fn routing(&self) -> Routing {
        Routing::inside(self.namespace.as_fd()).expect("a socket")
    }

    pub(crate) fn link_names(&self) -> Vec<String> {
        self.routing().links().expect("links").into_iter().map(|link| link.name).collect()
    }

    pub(crate) fn tables(&self) -> usize {
        inside(&self.namespace, || {
            let mut socket =
                NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER).expect("a socket");
            socket
                .dump(&Message::new("list the tables", (10 << 8) | 1, DUMP, &[0, 0, 0, 0]))
                .expect("tables")
                .len()
        })
    }
}

pub(crate) struct Pod {
    pub(crate) namespace: OwnedFd,
    pub(crate) address: Ipv4Addr,
    pub(crate) address_v6: Option<Ipv6Addr>,
}

impl Pod {
    /// Its second address.
    pub(crate) fn v6(&self) -> Ipv6Addr {
        self.address_v6.expect("a machine with both families")
    }
}

pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

pub(crate) fn add_pod(network: &Network, id: &str, ports: &[HostPort]) -> Pod {
    let namespace = namespace().expect("made before");
    let pod = now(network.setup_pod(namespace.as_fd(), id, ports)).expect("connected");
    assert_eq!(pod.limits, [], "this machine has all that pods need");
    let (address, address_v6) = match pod.addresses[..] {
        [IpAddr::V4(address)] => (address, None),
        [IpAddr::V4(address), IpAddr::V6(address_v6)] => (address, Some(address_v6)),
        _ => panic!("one address of each family: {pod:?}"),
    };
    Pod { namespace, address, address_v6 }
}

/// Listens in `server` and connects from `client` to `target`; answers whom the server saw, or `None` if nobody came.
pub(crate) fn talk(
    server: &OwnedFd,
    bind: SocketAddr,
    client: &OwnedFd,
    target: SocketAddr,
) -> Option<IpAddr> {
    let listener = inside(server, || TcpListener::bind(bind).expect("bound"));
    let connected = inside(client, || TcpStream::connect_timeout(&target, Duration::from_millis(900)));
    let mut stream = connected.ok()?;
    // Connected to somebody, but was it this listener? If so, its end is in the queue, or about to be.
    let patience = Some(Duration::from_secs(2));
    rustix::net::sockopt::set_socket_timeout(&listener, rustix::net::sockopt::Timeout::Recv, patience)
        .expect("set");
    let (mut accepted, peer) = listener.accept().ok()?;
    stream.write_all(b"hello").expect("sent");
    stream.shutdown(Shutdown::Write).expect("shut");
    let mut text = String::new();
    accepted.read_to_string(&mut text).expect("received");
    assert_eq!(text, "hello");
    Some(peer.ip())
}

pub(crate) fn any(port: u16) -> SocketAddr {
    (Ipv4Addr::UNSPECIFIED, port).into()
}

pub(crate) fn any_v6(port: u16) -> SocketAddr {
    (Ipv6Addr::UNSPECIFIED, port).into()
}

pub(crate) fn tcp(host_address: Option<Ipv4Addr>, host_port: u16, pod_port: u16) -> HostPort {
    HostPort { protocol: Protocol::Tcp, host_address: host_address.map(IpAddr::V4), host_port, pod_port }
}
