//! Services of IPv6 in the kernel, beside those of IPv4 (see [`crate::machine`]).

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

use super::*;
use crate::machine::*;
use crate::pods::Network;

const SERVICE: Ipv6Addr = Ipv6Addr::new(0xfd43, 0, 0, 0, 0, 0, 0, 7);
const SERVICE_V4: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 43, 0, 7);

fn at(address: impl Into<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(address.into(), port)
}

fn port(protocol: Protocol, number: u16, backends: &[SocketAddr]) -> ServicePort {
    ServicePort {
        name: "ns/web:http".to_owned(),
        family: Family::V6,
        protocol,
        port: number,
        cluster_addresses: vec![SERVICE.into()],
        external_addresses: Vec::new(),
        node_port: None,
        affinity_seconds: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        backends: backends.to_vec(),
        local_backends: Vec::new(),
    }
}

/// The same port over IPv4.
fn over_v4(port: &ServicePort, backends: &[SocketAddr]) -> ServicePort {
    ServicePort {
        family: Family::V4,
        cluster_addresses: vec![SERVICE_V4.into()],
        backends: backends.to_vec(),
        ..port.clone()
    }
}

fn all(ports: Vec<ServicePort>) -> ServiceUpdate {
    let ranges = ["10.43.0.0/16", "fd43::/112"].map(|text| text.parse().expect("a range")).into();
    ServiceUpdate::All { services: ServiceTable::from([("ns/web".to_owned(), ports)]), ranges }
}

fn some(ports: Vec<ServicePort>) -> ServiceUpdate {
    ServiceUpdate::Some(ServiceTable::from([("ns/web".to_owned(), ports)]))
}

fn route(network: &Network, update: ServiceUpdate) {
    now(network.route_services(update)).expect("routed");
}

/// Why a connection over TCP is not made.
fn refusal(client: &OwnedFd, target: SocketAddr) -> Option<io::ErrorKind> {
    let connected = inside(client, || TcpStream::connect_timeout(&target, Duration::from_millis(900)));
    connected.err().map(|error| error.kind())
}

/// Which of these listeners is reached.
fn reached(listeners: &[TcpListener], from: &OwnedFd, target: SocketAddr) -> Option<usize> {
    let _stream = inside(from, || TcpStream::connect_timeout(&target, Duration::from_secs(2))).ok()?;
    listeners.iter().position(|listener| {
        listener.set_nonblocking(true).expect("set");
        listener.accept().is_ok()
    })
}

fn listeners(pods: &[&Pod], port: u16) -> Vec<TcpListener> {
    pods.iter()
        .map(|pod| inside(&pod.namespace, || TcpListener::bind(any_v6(port)).expect("bound")))
        .collect()
}

#[test]
fn a_service_of_both_families_leads_to_its_pod_over_both() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let (server, client) = (add_pod(&network, "server", &[]), add_pod(&network, "client", &[]));
    let web = port(Protocol::Tcp, 80, &[at(server.v6(), 8080)]);
    let web_v4 = over_v4(&web, &[at(server.address, 8080)]);
    route(&network, all(vec![web_v4.clone(), web.clone()]));
    let reaches = |from: &OwnedFd, target| talk(&server.namespace, any_v6(8080), from, target);
    let target = at(SERVICE, 80);
    assert_eq!(reaches(&client.namespace, target), Some(client.v6().into()), "under its own address");
    assert_eq!(
        reaches(&server.namespace, target),
        Some(network.node_addresses()[1]),
        "the pod itself, as the machine"
    );
    assert!(reaches(&machine.namespace, target).is_some(), "the machine");
    let mapped = client.address.to_ipv6_mapped();
    assert_eq!(reaches(&client.namespace, at(SERVICE_V4, 80)), Some(mapped.into()), "over IPv4");
    drop(network);
    assert!(reaches(&client.namespace, target).is_some(), "while no daemon is there");
    let network = machine.open("node");
    assert!(reaches(&client.namespace, target).is_some(), "before the new one knows of services");
    route(&network, all(vec![web_v4, ServicePort { port: 81, ..web }]));
    assert!(reaches(&client.namespace, at(SERVICE, 81)).is_some(), "what it has learned");
    assert!(reaches(&client.namespace, target).is_none(), "instead of what was");
    assert!(reaches(&client.namespace, at(SERVICE_V4, 80)).is_some(), "and IPv4 as it is");
}

#[test]
fn over_ipv6_what_has_no_backend_is_refused_and_so_is_an_address_of_no_service() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let client = add_pod(&network, "client", &[]);
    let external: Ipv6Addr = "2001:db8::9".parse().expect("an address");
    let mut web = port(Protocol::Tcp, 80, &[]);
    web.node_port = Some(30080);
    web.external_addresses = vec![external.into()];
    let names = ServicePort { name: "ns/web:names".to_owned(), ..port(Protocol::Udp, 53, &[]) };
    route(&network, all(vec![web, names]));
    let unused: Ipv6Addr = "fd43::99".parse().expect("an address");
    for (who, namespace) in [("a pod", &client.namespace), ("the machine", &machine.namespace)] {
        for (target, kind) in [
            (at(SERVICE, 80), io::ErrorKind::ConnectionRefused),
            (at(SERVICE, 81), io::ErrorKind::ConnectionRefused),
            (at(external, 80), io::ErrorKind::ConnectionRefused),
            (at(MACHINE_V6, 30080), io::ErrorKind::ConnectionRefused),
            (at(unused, 80), io::ErrorKind::ConnectionRefused),
        ] {
            assert_eq!(refusal(namespace, target), Some(kind), "{who} to {target}");
        }
    }
    let socket = inside(&client.namespace, || UdpSocket::bind(any_v6(0)).expect("bound"));
    socket.connect((SERVICE, 53)).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("set");
    socket.send(b"who?").expect("sent");
    let refused = socket.recv(&mut [0; 8]).expect_err("nobody");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "over UDP");
}

#[test]
fn a_node_port_leads_to_the_pod_over_ipv6_from_everywhere_loopback_included() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let (server, client) = (add_pod(&network, "server", &[]), add_pod(&network, "client", &[]));
    let web = ServicePort { node_port: Some(30080), ..port(Protocol::Tcp, 80, &[at(server.v6(), 8080)]) };
    let web_v4 = over_v4(&web, &[at(server.address, 8080)]);
    route(&network, all(vec![web_v4, web]));
    let reaches = |from: &OwnedFd, target| talk(&server.namespace, any_v6(8080), from, target);
    let node = network.node_addresses()[1];
    assert_eq!(reaches(&machine.beyond, at(MACHINE_V6, 30080)), Some(BEYOND_V6.into()), "from beyond");
    assert_eq!(reaches(&client.namespace, at(MACHINE_V6, 30080)), Some(client.v6().into()), "from a pod");
    assert_eq!(
        reaches(&client.namespace, at(node, 30080)),
        Some(client.v6().into()),
        "at the node's address"
    );
    assert_eq!(reaches(&machine.namespace, at(Ipv6Addr::LOCALHOST, 30080)), Some(node), "at [::1]");
    assert!(reaches(&machine.namespace, at(MACHINE_V6, 30080)).is_some(), "from the machine");
    assert_eq!(
        reaches(&client.namespace, at(Ipv6Addr::LOCALHOST, 30080)),
        None,
        "a pod's loopback is its own"
    );
    let v4 = reaches(&machine.beyond, at(MACHINE, 30080));
    assert_eq!(v4, Some(BEYOND.to_ipv6_mapped().into()), "over IPv4");
}

#[test]
fn backends_beyond_and_on_the_machine_are_reached_over_ipv6() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let client = add_pod(&network, "client", &[]);
    route(&network, all(vec![port(Protocol::Tcp, 80, &[at(BEYOND_V6, 8080)])]));
    for from in [&client.namespace, &machine.namespace] {
        let seen = talk(&machine.beyond, any_v6(8080), from, at(SERVICE, 80));
        assert_eq!(seen, Some(MACHINE_V6.into()));
    }
    route(&network, some(vec![port(Protocol::Tcp, 80, &[at(MACHINE_V6, 8080)])]));
    for from in [&client.namespace, &machine.namespace] {
        assert!(talk(&machine.namespace, any_v6(8080), from, at(SERVICE, 80)).is_some());
    }
}

#[test]
fn a_client_over_ipv6_keeps_its_backend_and_gets_another_when_that_is_gone() {
    let Some(machine) = Machine::with_both_families() else { return };
    let mut network = machine.open("node");
    let pods = ["a", "b", "c", "d"].map(|name| add_pod(&network, name, &[]));
    let listening = listeners(&pods.each_ref(), 80);
    let backends = pods.each_ref().map(|pod| at(pod.v6(), 80));
    let sticky = |backends: &[SocketAddr]| ServicePort {
        affinity_seconds: Some(600),
        node_port: Some(30080),
        ..port(Protocol::Tcp, 80, backends)
    };
    route(&network, all(vec![sticky(&backends)]));
    for target in [at(SERVICE, 80), at(MACHINE_V6, 30080)] {
        let first = reached(&listening, &machine.namespace, target).expect("somebody");
        for _ in 0..6 {
            assert_eq!(reached(&listening, &machine.namespace, target), Some(first));
        }
        drop(network);
        network = machine.open("node");
        route(&network, all(vec![sticky(&backends)]));
        assert_eq!(reached(&listening, &machine.namespace, target), Some(first), "over a restart");
        let others: Vec<_> = (0..4).filter(|place| *place != first).map(|place| backends[place]).collect();
        route(&network, some(vec![sticky(&others)]));
        let next = reached(&listening, &machine.namespace, target).expect("another");
        assert_ne!(next, first);
        assert_eq!(reached(&listening, &machine.namespace, target), Some(next));
    }
}

#[test]
fn all_backends_of_ipv6_get_their_share_and_policies_hold() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let pods = ["near", "far", "client"].map(|name| add_pod(&network, name, &[]));
    let listening = listeners(&[&pods[0], &pods[1]], 80);
    let both = [at(pods[0].v6(), 80), at(pods[1].v6(), 80)];
    let mut web = ServicePort { node_port: Some(30080), ..port(Protocol::Tcp, 80, &both) };
    web.internal_policy = TrafficPolicy::Local;
    web.external_policy = TrafficPolicy::Local;
    web.local_backends = vec![both[0]];
    route(&network, all(vec![web]));
    let answering = |from: &OwnedFd, target| -> Vec<usize> {
        let seen: BTreeSet<_> = (0..24).filter_map(|_| reached(&listening, from, target)).collect();
        seen.into_iter().collect()
    };
    assert_eq!(answering(&pods[2].namespace, at(SERVICE, 80)), [0], "the cluster address");
    assert_eq!(answering(&machine.beyond, at(MACHINE_V6, 30080)), [0], "the node's port, from outside");
    assert_eq!(answering(&pods[2].namespace, at(MACHINE_V6, 30080)), [0, 1], "the node's port, from a pod");
}

#[test]
fn a_udp_client_over_ipv6_that_keeps_its_port_is_led_to_a_new_backend() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let pods = ["one", "two", "client"].map(|name| add_pod(&network, name, &[]));
    let servers = [&pods[0], &pods[1]]
        .map(|pod| inside(&pod.namespace, || UdpSocket::bind(any_v6(5353)).expect("bound")));
    let mut names = ServicePort { node_port: Some(30053), ..port(Protocol::Udp, 53, &[]) };
    route(&network, all(vec![names.clone()]));
    let clients = [(&pods[2].namespace, at(SERVICE, 53)), (&machine.beyond, at(MACHINE_V6, 30053))]
        .map(|(from, target)| (inside(from, || UdpSocket::bind(any_v6(0)).expect("bound")), target));
    for (socket, target) in &clients {
        let _ = socket.send_to(b"who?", target);
    }
    for (place, pod) in pods[..2].iter().enumerate() {
        names.backends = vec![at(pod.v6(), 5353)];
        route(&network, some(vec![names.clone()]));
        for (socket, target) in &clients {
            socket.send_to(b"who?", target).expect("sent");
            servers[place].set_read_timeout(Some(Duration::from_millis(900))).expect("set");
            let received = servers[place].recv_from(&mut [0; 8]);
            assert!(received.is_ok(), "{target} leads to {place}: {received:?}");
        }
    }
}

#[test]
fn the_nft_program_can_show_the_table_of_ipv6() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let backends = [at(BEYOND_V6, 8080), at(MACHINE_V6, 8080)];
    let mut web = ServicePort { node_port: Some(30080), ..port(Protocol::Tcp, 80, &backends) };
    web.external_policy = TrafficPolicy::Local;
    web.local_backends = vec![at(MACHINE_V6, 8080)];
    let sticky = ServicePort {
        affinity_seconds: Some(600),
        port: 81,
        node_port: Some(30081),
        name: "ns/web:sticky".to_owned(),
        ..web.clone()
    };
    route(&network, all(vec![web, sticky]));
    let shown =
        inside(&machine.namespace, || std::process::Command::new("nft").args(["list", "ruleset"]).output());
    let Ok(shown) = shown else {
        eprintln!("skipped: there is no nft program");
        return;
    };
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    assert!(text.contains("fd43::7 . tcp . 80 comment \"ns/web:http\" : goto of_2"), "{text}");
    assert!(text.contains("fd43::7 . tcp . 80 . 0x00000000 : fd99::2 . 8080"), "{text}");
    assert!(
        text.contains("fib saddr . iif oif 0 drop") || text.contains("fib saddr . iif oif missing drop"),
        "{text}"
    );
}

/// Sends over SCTP, where the kernel has such sockets.
#[test]
fn a_service_over_sctp_leads_to_its_pod_where_the_kernel_has_sctp() {
    const SCTP: i32 = 132;
    let protocol =
        rustix::net::Protocol::from_raw(std::num::NonZeroU32::new(SCTP.unsigned_abs()).expect("not 0"));
    let socket = || {
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM, Some(protocol))
    };
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let (server, client) = (add_pod(&network, "server", &[]), add_pod(&network, "client", &[]));
    let target = at(SERVICE_V4, 80);
    let names = over_v4(&port(Protocol::Sctp, 80, &[]), &[at(server.address, 8080)]);
    // The rules are written in any case.
    route(&network, all(vec![names]));
    let listener = match inside(&server.namespace, socket) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("skipped: this kernel has no SCTP sockets ({error}); nothing was sent");
            return;
        }
    };
    rustix::net::bind(&listener, &any(8080)).expect("bound");
    rustix::net::listen(&listener, 1).expect("listening");
    let sender = inside(&client.namespace, socket).expect("a socket");
    rustix::net::connect(&sender, &target).expect("connected through the service");
}
