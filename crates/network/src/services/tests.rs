//! Services in the kernel, between pods in namespaces of a test's own (see [`crate::machine`]).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::*;
use crate::identity::NodeIdentity;
use crate::machine::*;
use crate::netlink::NetlinkSocket;
use crate::nftables::Table;
use crate::pods::{Network, NetworkConfig, NetworkWarning};

const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 43, 0, 7);

fn port(name: &str, protocol: Protocol, number: u16, backends: &[SocketAddr]) -> ServicePort {
    ServicePort {
        name: name.to_owned(),
        family: Family::V4,
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

fn all(ports: Vec<ServicePort>) -> ServiceUpdate {
    ServiceUpdate::All { services: ServiceTable::from([("ns/web".to_owned(), ports)]), ranges: ranges() }
}

fn ranges() -> Vec<AddressRange> {
    ["10.43.0.0/16", "fd43::/112"].map(|text| text.parse().expect("a range")).into()
}

fn some(ports: Vec<ServicePort>) -> ServiceUpdate {
    ServiceUpdate::Some(ServiceTable::from([("ns/web".to_owned(), ports)]))
}

fn route(network: &Network, update: ServiceUpdate) {
    now(network.route_services(update)).expect("routed");
}

fn at(address: impl Into<IpAddr>, port: u16) -> SocketAddr {
    SocketAddr::new(address.into(), port)
}

/// Why a connection over TCP is not made.
fn refusal(client: &OwnedFd, target: SocketAddr) -> Option<io::ErrorKind> {
    let connected = inside(client, || TcpStream::connect_timeout(&target, Duration::from_millis(900)));
    connected.err().map(|error| error.kind())
}

/// Asks over UDP from `client`, and answers what came back.
fn ask(client: &UdpSocket, target: SocketAddr) -> io::Result<String> {
    client.set_read_timeout(Some(Duration::from_millis(400)))?;
    client.send_to(b"who?", target)?;
    let mut text = [0; 16];
    let (length, _) = client.recv_from(&mut text)?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

/// Answers each question over UDP with its name until it is dropped.
struct Answerer {
    socket: UdpSocket,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Answerer {
    fn start(pod: &OwnedFd, port: u16, name: &'static str) -> Self {
        let socket = inside(pod, || UdpSocket::bind(any(port)).expect("bound"));
        let own = socket.try_clone().expect("a copy");
        let thread = std::thread::spawn(move || {
            let mut text = [0; 16];
            while let Ok((length, from)) = own.recv_from(&mut text) {
                if length == 0 {
                    return;
                }
                let _ = own.send_to(name.as_bytes(), from);
            }
        });
        Self { socket, thread: Some(thread) }
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        // An empty question to itself ends it; the socket knows its own port.
        let end = rustix::net::shutdown(self.socket.as_fd(), rustix::net::Shutdown::Both);
        let _ = end;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_service_leads_to_its_pod_from_other_pods_itself_and_the_machine() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let (server, client) = (add_pod(&network, "server", &[]), add_pod(&network, "client", &[]));
    route(&network, all(vec![port("ns/web:http", Protocol::Tcp, 80, &[at(server.address, 8080)])]));
    let target = (SERVICE, 80).into();
    let from = talk(&server.namespace, any(8080), &client.namespace, target);
    assert_eq!(from, Some(client.address.into()), "another pod, under its own address");
    let from = talk(&server.namespace, any(8080), &server.namespace, target);
    assert_eq!(from, Some(network.node_address()), "the pod itself, as the machine");
    assert!(talk(&server.namespace, any(8080), &machine.namespace, target).is_some(), "the machine");
}

#[test]
fn what_has_no_backend_is_refused_and_an_address_of_no_service_has_no_route() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let client = add_pod(&network, "client", &[]);
    let mut web = port("ns/web:http", Protocol::Tcp, 80, &[]);
    web.node_port = Some(30080);
    web.external_addresses = vec![Ipv4Addr::new(203, 0, 113, 9).into()];
    let names = port("ns/web:names", Protocol::Udp, 53, &[]);
    route(&network, all(vec![web, names]));
    for namespace in [&client.namespace, &machine.namespace] {
        for (target, kind) in [
            (at(SERVICE, 80), io::ErrorKind::ConnectionRefused),
            (at(SERVICE, 81), io::ErrorKind::ConnectionRefused),
            (at(Ipv4Addr::new(203, 0, 113, 9), 80), io::ErrorKind::ConnectionRefused),
            (at(MACHINE, 30080), io::ErrorKind::ConnectionRefused),
            (at(Ipv4Addr::new(10, 43, 9, 9), 80), io::ErrorKind::HostUnreachable),
        ] {
            assert_eq!(refusal(namespace, target), Some(kind), "{target}");
        }
        let socket = inside(namespace, || UdpSocket::bind(any(0)).expect("bound"));
        socket.connect((SERVICE, 53)).expect("connected");
        socket.set_read_timeout(Some(Duration::from_secs(2))).expect("set");
        // A process of the machine is told at once, that it may not.
        match socket.send(b"who?") {
            Ok(_) => {
                let refused = socket.recv(&mut [0; 8]).expect_err("nobody");
                assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "over UDP");
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "over UDP"),
        }
    }
    let refused = refusal(&machine.beyond, at(MACHINE, 30080));
    assert_eq!(refused, Some(io::ErrorKind::ConnectionRefused), "from beyond");
}

#[test]
fn all_backends_of_a_service_get_their_share() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let pods = ["a", "b", "c"].map(|name| add_pod(&network, name, &[]));
    let backends = pods.each_ref().map(|pod| at(pod.address, 80));
    let listeners =
        pods.each_ref().map(|pod| inside(&pod.namespace, || TcpListener::bind(any(80)).expect("bound")));
    route(&network, all(vec![port("ns/web:http", Protocol::Tcp, 80, &backends)]));
    let connect = || {
        let stream = inside(&machine.namespace, || TcpStream::connect((SERVICE, 80)).expect("connected"));
        // Whoever has it in its queue is the one.
        let found = listeners.iter().position(|listener| {
            listener.set_nonblocking(true).expect("set");
            listener.accept().is_ok()
        });
        drop(stream);
        found.expect("one of them")
    };
    let seen: Vec<usize> = (0..60).map(|_| connect()).collect();
    for index in 0..3 {
        // That one of three gets less than 5 of 60 happens once in 100,000 runs.
        let share = seen.iter().filter(|one| **one == index).count();
        assert!(share >= 5, "{index} got {share} of {seen:?}");
    }

    let mut sticky = port("ns/web:http", Protocol::Tcp, 80, &backends);
    sticky.affinity_seconds = Some(600);
    route(&network, some(vec![sticky.clone()]));
    let first = connect();
    assert!((0..20).all(|_| connect() == first), "a client with affinity stays");
    sticky.backends.remove(first);
    route(&network, some(vec![sticky.clone()]));
    let second = connect();
    assert_ne!(second, first, "its backend is gone");
    assert!((0..20).all(|_| connect() == second), "and stays with the other");
    sticky.backends = backends.to_vec();
    route(&network, some(vec![sticky]));
    assert!((0..20).all(|_| connect() == second), "also when the first is back");
}

#[test]
fn a_node_port_leads_to_the_pod_from_everywhere() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let (server, client) = (add_pod(&network, "server", &[]), add_pod(&network, "client", &[]));
    let mut web = port("ns/web:http", Protocol::Tcp, 80, &[at(server.address, 8080)]);
    web.node_port = Some(30080);
    web.external_addresses = vec![Ipv4Addr::new(203, 0, 113, 9).into()];
    route(&network, all(vec![web.clone()]));
    let to_server = |from: &OwnedFd, target: SocketAddr| talk(&server.namespace, any(8080), from, target);
    let from = to_server(&machine.beyond, (MACHINE, 30080).into());
    assert_eq!(from, Some(BEYOND.into()), "from beyond, with its address");
    assert!(to_server(&machine.namespace, (MACHINE, 30080).into()).is_some(), "from the machine");
    let from = to_server(&machine.namespace, (Ipv4Addr::LOCALHOST, 30080).into());
    assert_eq!(from, Some(network.node_address()), "from its loopback");
    assert!(to_server(&client.namespace, (MACHINE, 30080).into()).is_some(), "from a pod");
    assert!(
        to_server(&client.namespace, (network.node_address(), 30080).into()).is_some(),
        "at the node's address"
    );
    let external = (Ipv4Addr::new(203, 0, 113, 9), 80).into();
    assert!(to_server(&client.namespace, external).is_some(), "an external address, from a pod");
    assert!(to_server(&machine.namespace, external).is_some(), "and from the machine");

    let again = add_pod(&network, "server", &[]);
    assert_eq!(again.address, server.address);
    let from = talk(&again.namespace, any(8080), &machine.namespace, (Ipv4Addr::LOCALHOST, 30080).into());
    assert!(from.is_some(), "also to a pod that was connected anew");

    web.node_port = None;
    route(&network, some(vec![web]));
    assert_eq!(
        refusal(&machine.beyond, at(MACHINE, 30080)),
        Some(io::ErrorKind::ConnectionRefused),
        "closed"
    );
}

#[test]
fn traffic_policies_keep_to_the_backends_of_the_node_where_they_say_so() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let (near, far, client) =
        (add_pod(&network, "near", &[]), add_pod(&network, "far", &[]), add_pod(&network, "client", &[]));
    // `far` plays a pod of another node.
    let both = [at(near.address, 80), at(far.address, 80)];
    let mut web = port("ns/web:http", Protocol::Tcp, 80, &both);
    web.node_port = Some(30080);
    web.internal_policy = TrafficPolicy::Local;
    web.external_policy = TrafficPolicy::Local;
    web.local_backends = vec![both[0]];
    route(&network, all(vec![web.clone()]));
    let listeners =
        [&near, &far].map(|pod| inside(&pod.namespace, || TcpListener::bind(any(80)).expect("bound")));
    let answering = |from: &OwnedFd, target: SocketAddr| {
        let mut seen = BTreeSet::new();
        for _ in 0..24 {
            let _stream = inside(from, || TcpStream::connect(target).expect("connected"));
            seen.extend(listeners.iter().position(|listener| {
                listener.set_nonblocking(true).expect("set");
                listener.accept().is_ok()
            }));
        }
        seen.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(answering(&client.namespace, at(SERVICE, 80)), [0], "the cluster address");
    assert_eq!(answering(&machine.beyond, at(MACHINE, 30080)), [0], "the node's port, from outside");
    assert_eq!(answering(&client.namespace, at(MACHINE, 30080)), [0, 1], "the node's port, from a pod");
    web.local_backends.clear();
    route(&network, some(vec![web]));
    let refused = Some(io::ErrorKind::ConnectionRefused);
    assert_eq!(refusal(&client.namespace, at(SERVICE, 80)), refused, "no backend on this node");
    assert_eq!(refusal(&machine.beyond, at(MACHINE, 30080)), refused, "nor for those outside");
    assert_eq!(answering(&client.namespace, at(MACHINE, 30080)), [0, 1], "pods are still served");
}

#[test]
fn a_backend_beyond_the_machine_is_reached_and_answers_the_same_way_back() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let client = add_pod(&network, "client", &[]);
    let mut web = port("ns/web:http", Protocol::Tcp, 80, &[at(BEYOND, 8080)]);
    web.node_port = Some(30080);
    route(&network, all(vec![web]));
    for (from, target) in [
        (&client.namespace, at(SERVICE, 80)),
        (&machine.namespace, at(SERVICE, 80)),
        (&client.namespace, at(MACHINE, 30080)),
        (&machine.beyond, at(MACHINE, 30080)),
    ] {
        let seen = talk(&machine.beyond, any(8080), from, target);
        assert_eq!(seen, Some(MACHINE.into()), "{target}");
    }
}

#[test]
fn a_backend_on_the_machine_itself_is_reached() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let client = add_pod(&network, "client", &[]);
    route(&network, all(vec![port("ns/web:http", Protocol::Tcp, 80, &[at(MACHINE, 8080)])]));
    for from in [&client.namespace, &machine.namespace] {
        assert!(talk(&machine.namespace, any(8080), from, (SERVICE, 80).into()).is_some());
    }
}

#[test]
fn a_udp_client_that_keeps_its_port_is_led_to_a_new_backend_when_its_own_is_gone() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let (one, two, client) =
        (add_pod(&network, "one", &[]), add_pod(&network, "two", &[]), add_pod(&network, "client", &[]));
    let _answering =
        [Answerer::start(&one.namespace, 5353, "one"), Answerer::start(&two.namespace, 5353, "two")];
    let mut names = port("ns/web:names", Protocol::Udp, 53, &[]);
    names.node_port = Some(30053);
    let with = |pod: &Pod| ServicePort { backends: vec![at(pod.address, 5353)], ..names.clone() };
    route(&network, all(vec![names.clone()]));
    let socket = inside(&client.namespace, || UdpSocket::bind(any(0)).expect("bound"));
    let outside = inside(&machine.beyond, || UdpSocket::bind(any(0)).expect("bound"));
    assert!(ask(&socket, at(SERVICE, 53)).is_err(), "nobody is there yet");
    assert!(ask(&outside, at(MACHINE, 30053)).is_err(), "nor at the node's port");
    route(&network, some(vec![with(&one)]));
    assert_eq!(ask(&socket, at(SERVICE, 53)).expect("answered"), "one");
    assert_eq!(ask(&outside, at(MACHINE, 30053)).expect("answered"), "one");
    route(&network, some(vec![with(&two)]));
    assert_eq!(ask(&socket, at(SERVICE, 53)).expect("answered"), "two");
    assert_eq!(ask(&outside, at(MACHINE, 30053)).expect("answered"), "two");
    route(&network, some(Vec::new()));
    assert!(ask(&socket, at(SERVICE, 53)).is_err(), "the service is gone");
    assert!(ask(&outside, at(MACHINE, 30053)).is_err(), "and its port");
}

#[test]
fn a_node_that_starts_again_keeps_services_routed_and_takes_them_over() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let (server, client) = (add_pod(&network, "server", &[]), add_pod(&network, "client", &[]));
    let web = port("ns/web:http", Protocol::Tcp, 80, &[at(server.address, 8080)]);
    route(&network, all(vec![web.clone()]));
    let reaches = |target| talk(&server.namespace, any(8080), &client.namespace, target).is_some();
    drop(network);
    assert!(reaches((SERVICE, 80).into()), "while no daemon is there");
    let network = machine.open("node");
    assert!(reaches((SERVICE, 80).into()), "before the new one knows of services");
    let other = ServicePort { port: 81, ..web };
    route(&network, all(vec![other]));
    assert!(reaches((SERVICE, 81).into()), "what it has learned");
    assert!(!reaches((SERVICE, 80).into()), "instead of what was");
}

#[test]
fn a_client_keeps_its_backend_over_a_restart_of_the_node() {
    let Some(machine) = Machine::new() else { return };
    let mut network = machine.open("node");
    let pods = ["a", "b", "c", "d"].map(|name| add_pod(&network, name, &[]));
    let backends = pods.each_ref().map(|pod| at(pod.address, 80));
    let listeners =
        pods.each_ref().map(|pod| inside(&pod.namespace, || TcpListener::bind(any(80)).expect("bound")));
    let sticky =
        ServicePort { affinity_seconds: Some(600), ..port("ns/web:http", Protocol::Tcp, 80, &backends) };
    let connect = || {
        let _stream = inside(&machine.namespace, || TcpStream::connect((SERVICE, 80)).expect("connected"));
        listeners.iter().position(|listener| {
            listener.set_nonblocking(true).expect("set");
            listener.accept().is_ok()
        })
    };
    route(&network, all(vec![sticky.clone()]));
    let first = connect();
    for _ in 0..8 {
        drop(network);
        network = machine.open("node");
        route(&network, all(vec![sticky.clone()]));
        assert_eq!(connect(), first);
    }
}

#[test]
fn routes_emptied_by_another_program_come_back_with_the_next_change_and_the_next_pod() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let (server, client) = (add_pod(&network, "server", &[]), add_pod(&network, "client", &[]));
    let web = port("ns/web:http", Protocol::Tcp, 80, &[at(server.address, 8080)]);
    route(&network, all(vec![web.clone()]));
    let data_dir = fs::canonicalize(machine.config("node").data_dir).expect("exists");
    let identity = NodeIdentity::of_data_dir(&data_dir);
    let remove = |tables: &[String]| {
        inside(&machine.namespace, || {
            let mut socket =
                NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER).expect("a socket");
            let removals = tables
                .iter()
                .map(|table| crate::nftables::remove_table(&Table::new(Family::V4, table.clone())))
                .collect();
            crate::nftables::commit(&mut socket, removals).expect("removed");
        });
    };
    let reaches =
        |port| talk(&server.namespace, any(8080), &client.namespace, (SERVICE, port).into()).is_some();
    remove(&[identity.services_table()]);
    route(&network, some(vec![web.clone(), ServicePort { name: "ns/web:more".into(), port: 81, ..web }]));
    assert!(reaches(80) && reaches(81));
    remove(&[identity.table(), identity.services_table()]);
    let _another = add_pod(&network, "another", &[]);
    now(network.route_services(some(Vec::new()))).expect("after what the pod asked for");
    assert_eq!(refusal(&client.namespace, at(SERVICE, 80)), Some(io::ErrorKind::HostUnreachable));
}

#[test]
fn pods_of_each_node_of_a_machine_find_their_own_services_and_the_machine_those_of_the_first() {
    let Some(machine) = Machine::new() else { return };
    let (first, second) = (machine.open("first"), machine.open("second"));
    let (one, two) = (add_pod(&first, "one", &[]), add_pod(&second, "two", &[]));
    let web = |pod: &Pod| ServicePort {
        node_port: Some(30080),
        ..port("ns/web:http", Protocol::Tcp, 80, &[at(pod.address, 80)])
    };
    let listeners =
        [&one, &two].map(|pod| inside(&pod.namespace, || TcpListener::bind(any(80)).expect("bound")));
    let reached = |from: &OwnedFd, target: SocketAddr| {
        let _stream = inside(from, || TcpStream::connect_timeout(&target, Duration::from_secs(2))).ok()?;
        listeners.iter().position(|listener| {
            listener.set_nonblocking(true).expect("set");
            listener.accept().is_ok()
        })
    };
    route(&first, all(vec![web(&one)]));
    route(&second, all(vec![web(&two)]));
    let mut first = first;
    for round in 0..3 {
        assert_eq!(reached(&one.namespace, at(SERVICE, 80)), Some(0), "round {round}");
        assert_eq!(reached(&two.namespace, at(SERVICE, 80)), Some(1), "round {round}");
        assert_eq!(reached(&one.namespace, at(MACHINE, 30080)), Some(0), "round {round}");
        assert_eq!(reached(&two.namespace, at(MACHINE, 30080)), Some(1), "round {round}");
        assert_eq!(reached(&machine.namespace, at(SERVICE, 80)), Some(0), "round {round}");
        assert_eq!(reached(&machine.beyond, at(MACHINE, 30080)), Some(0), "round {round}");
        drop(first);
        first = machine.open("first");
        route(&first, all(vec![web(&one)]));
    }
    route(&first, all(Vec::new()));
    assert_eq!(reached(&two.namespace, at(SERVICE, 80)), Some(1), "what the first lacks");
    route(&second, all(Vec::new()));
    assert_eq!(reached(&two.namespace, at(SERVICE, 80)), None);
    now(first.cleanup()).expect("cleaned up");
    now(second.cleanup()).expect("cleaned up");
    assert_eq!(machine.tables(), 0);
}

#[test]
fn without_a_packet_filter_services_have_no_route_and_pods_still_reach_each_other() {
    let Some(machine) = Machine::new() else { return };
    let config = NetworkConfig { packet_filter: false, ..machine.config("node") };
    let network = machine.open_with(config).expect("opens all the same");
    let [warning @ NetworkWarning::NoPacketFilter { .. }] = network.warnings() else {
        panic!("{:?}", network.warnings())
    };
    assert!(warning.to_string().contains("services have no route"), "{warning}");
    let connect = |id: &str| {
        let namespace = namespace().expect("made before");
        let pod = now(network.setup_pod(namespace.as_fd(), id, &[])).expect("connected");
        let [IpAddr::V4(address)] = pod.addresses[..] else { panic!("one address: {pod:?}") };
        Pod { namespace, address, address_v6: None }
    };
    let (one, two) = (connect("one"), connect("two"));
    let web = port("ns/web:http", Protocol::Tcp, 80, &[at(two.address, 80)]);
    let refused = now(network.route_services(all(vec![web]))).expect_err("no packet filter");
    assert!(matches!(refused, RouteServicesError::Unsupported), "{refused}");
    assert!(talk(&two.namespace, any(80), &one.namespace, (two.address, 80).into()).is_some());
    for namespace in [&one.namespace, &machine.namespace] {
        assert_eq!(refusal(namespace, at(SERVICE, 80)), Some(io::ErrorKind::HostUnreachable));
    }
    let routes = || machine.routing().routes(Family::V4).expect("routes").len();
    let before = routes();
    drop(network);
    let network = machine.open("node");
    assert_eq!(network.warnings(), []);
    route(&network, all(vec![port("ns/web:http", Protocol::Tcp, 80, &[at(two.address, 80)])]));
    assert_eq!(routes(), before - 1, "with a packet filter the way is open again");
    now(network.cleanup()).expect("cleaned up");
}

#[test]
fn five_thousand_services_are_routed_and_nothing_is_left_of_them() {
    let Some(machine) = Machine::new() else { return };
    let before = (machine.tables(), machine.link_names());
    let network = machine.open("node");
    let (server, client) = (add_pod(&network, "server", &[]), add_pod(&network, "client", &[]));
    let address = |number: u32| Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 43, 16, 0)) + number);
    let one = |number: u32| {
        let backends: Vec<_> = (0..3).map(|place| at(server.address, 8080 + place)).collect();
        let web = port("http", Protocol::Tcp, 80, &backends);
        (
            format!("ns/web-{number}"),
            vec![ServicePort { cluster_addresses: vec![address(number).into()], ..web }],
        )
    };
    route(&network, ServiceUpdate::All { services: (0..5000).map(one).collect(), ranges: ranges() });
    let listeners: Vec<_> = (0..3)
        .map(|place| inside(&server.namespace, || TcpListener::bind(any(8080 + place)).expect("bound")))
        .collect();
    let reaches = |number| refusal(&client.namespace, at(address(number), 80)).is_none();
    for number in [0, 1, 2500, 4999] {
        assert!(reaches(number), "{number}");
    }
    assert!(!reaches(5000));
    route(&network, ServiceUpdate::Some(ServiceTable::from([one(5000)])));
    assert!(reaches(5000));
    route(
        &network,
        ServiceUpdate::Some((0..5000).map(|number| (format!("ns/web-{number}"), Vec::new())).collect()),
    );
    assert!(!reaches(0) && !reaches(4999) && reaches(5000));
    drop(listeners);
    now(network.cleanup()).expect("cleaned up");
    assert_eq!((machine.tables(), machine.link_names()), before);
}

/// The nft program ends itself when it meets what it cannot say in its own words, and then nobody can look at any table.
#[test]
fn the_nft_program_can_show_the_table() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let mut web = port("ns/web:http", Protocol::Tcp, 80, &[at(BEYOND, 8080), at(MACHINE, 8080)]);
    web.node_port = Some(30080);
    web.external_policy = TrafficPolicy::Local;
    web.local_backends = vec![at(MACHINE, 8080)];
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
    assert!(text.contains("10.43.0.7 . tcp . 80 comment \"ns/web:http\" : goto of_2"), "{text}");
    assert!(text.contains("10.43.0.7 . tcp . 80 . 0x00000000 : 192.0.2.2 . 8080"), "{text}");
}
