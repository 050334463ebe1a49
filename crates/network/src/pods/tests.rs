//! Pods as they are connected, in namespaces of a test's own (see [`crate::machine`]).

use std::fs;
use std::net::{SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::*;
use crate::identity::NodeIdentity;
use crate::links::{self, LOOPBACK, Routing};
use crate::machine::*;
use crate::netlink::NetlinkSocket;
use crate::nftables::Table;
use crate::range::Family;

#[test]
fn pods_reach_each_other_the_machine_and_what_is_beyond() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    assert_eq!(network.warnings(), []);
    let (one, two) = (add_pod(&network, "one", &[]), add_pod(&network, "two", &[]));
    let node = network.node_address();

    let from = talk(&two.namespace, any(80), &one.namespace, (two.address, 80).into());
    assert_eq!(from, Some(one.address.into()), "pod to pod");
    let from = talk(&machine.namespace, any(80), &one.namespace, (node, 80).into());
    assert_eq!(from, Some(one.address.into()), "pod to machine");
    let from = talk(&one.namespace, any(80), &machine.namespace, (one.address, 80).into());
    assert_eq!(from, Some(node), "machine to pod");
    let from = talk(&machine.beyond, any(80), &one.namespace, (BEYOND, 80).into());
    assert_eq!(from, Some(MACHINE.into()), "pod to the world, masqueraded");
    let from = talk(&one.namespace, any(80), &one.namespace, (Ipv4Addr::LOCALHOST, 80).into());
    assert_eq!(from, Some(Ipv4Addr::LOCALHOST.into()), "pod to its own loopback");

    let mtu = Routing::inside(one.namespace.as_fd()).expect("a socket").link("eth0").expect("eth0").mtu;
    assert_eq!(mtu, 1400, "that of the way out");
}

#[test]
fn a_node_without_pods_is_reached_at_its_address_too_and_nothing_is_left_of_it() {
    let Some(machine) = Machine::new() else { return };
    let before = machine.routing().routes(Family::V4).expect("routes");
    let network = machine.open("node");
    let node = network.node_address();
    let reached = || talk(&machine.namespace, any(80), &machine.namespace, (node, 80).into()).is_some();
    assert!(reached(), "before the first pod");
    drop(add_pod(&network, "one", &[]));
    now(network.teardown_pod("one")).expect("disconnected");
    assert!(reached(), "after the last one");
    drop(network);
    let network = machine.open("node");
    assert!(reached(), "in the next life of the node");
    now(network.cleanup()).expect("cleaned up");
    assert!(!reached());
    assert_eq!(machine.routing().routes(Family::V4).expect("routes"), before);
}

#[test]
fn the_first_packet_to_and_from_a_pod_arrives() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    for round in 0..20 {
        let pod = add_pod(&network, &format!("pod-{round}"), &[]);
        // The kernel sends a lost first packet again after a second, which is longer than `talk` waits.
        let to = talk(&pod.namespace, any(80), &machine.namespace, (pod.address, 80).into());
        assert_eq!(to, Some(network.node_address()), "round {round}");
        let next = add_pod(&network, &format!("next-{round}"), &[]);
        let from = talk(&machine.namespace, any(80), &next.namespace, (network.node_address(), 80).into());
        assert_eq!(from, Some(next.address.into()), "round {round}");
    }
}

#[test]
fn older_kernels_are_told_to_use_a_link_at_once() {
    let Some(machine) = Machine::new() else { return };
    let up0 = machine.routing().link("up0").expect("up0");
    assert!(up0.operational);
    machine.routing().apply(&[links::set_no_queue(up0.index)]).expect("every kernel from 4.2 on takes it");
    assert!(talk(&machine.beyond, any(80), &machine.namespace, (BEYOND, 80).into()).is_some());
}

#[test]
fn link_local_services_of_the_machine_and_beyond_stay_closed() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let pod = add_pod(&network, "one", &[]);
    let target = (METADATA, 80).into();

    let from = talk(&machine.beyond, any(80), &machine.namespace, target);
    assert_eq!(from, Some(MACHINE.into()), "the machine itself may ask");
    assert_eq!(talk(&machine.beyond, any(80), &pod.namespace, target), None, "a pod may not");

    machine.routing().apply(&[links::add_address(LOOPBACK, METADATA)]).expect("added");
    let from = talk(&machine.namespace, any(80), &machine.namespace, target);
    assert_eq!(from, Some(METADATA.into()), "a service on the machine itself");
    assert_eq!(talk(&machine.namespace, any(80), &pod.namespace, target), None, "is closed as well");
    assert_eq!(
        talk(&machine.namespace, any(80), &pod.namespace, (GATEWAY, 80).into()),
        None,
        "and so is the gateway"
    );
}

#[test]
fn a_pod_cannot_speak_under_the_address_of_another() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let (one, two) = (add_pod(&network, "one", &[]), add_pod(&network, "two", &[]));
    let mut routing = Routing::inside(one.namespace.as_fd()).expect("a socket");
    let eth0 = routing.link("eth0").expect("eth0").index;
    routing.apply(&[links::add_address(eth0, two.address)]).expect("added");
    let received = inside(&machine.namespace, || {
        let receiver = std::net::UdpSocket::bind(any(9)).expect("bound");
        receiver.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
        inside(&one.namespace, || {
            let forged = std::net::UdpSocket::bind((two.address, 0)).expect("bound");
            forged.send_to(b"forged", (network.node_address(), 9)).expect("sent");
            let honest = std::net::UdpSocket::bind((one.address, 0)).expect("bound");
            honest.send_to(b"honest", (network.node_address(), 9)).expect("sent");
        });
        let mut text = [0; 16];
        let (length, from) = receiver.recv_from(&mut text).expect("the honest one arrives");
        (String::from_utf8_lossy(&text[..length]).into_owned(), from.ip())
    });
    assert_eq!(received, ("honest".to_owned(), IpAddr::V4(one.address)));
}

#[test]
fn a_connection_can_begin_inside_a_pod() {
    let Some(pod) = namespace() else { return };
    Routing::inside(pod.as_fd()).expect("a socket").apply(&[links::set_up(LOOPBACK)]).expect("up");
    let listener = inside(&pod, || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound"));
    let target = listener.local_addr().expect("an address");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let connected = runtime.block_on(crate::connect_inside(pod.as_fd(), target)).expect("connected");
    assert_eq!(connected.peer_addr().expect("a peer"), target);
    drop(listener);
    let refused = runtime.block_on(crate::connect_inside(pod.as_fd(), target)).expect_err("nobody listens");
    assert_eq!(refused.to_string(), format!("cannot connect to {target} from inside the pod"));
    for closed in ["169.254.169.254:80", "[fe80::1]:80", "[::ffff:169.254.169.254]:80"] {
        let refused =
            runtime.block_on(crate::connect_inside(pod.as_fd(), closed.parse().expect("an address")));
        assert!(matches!(refused, Err(crate::ConnectInsideError::LinkLocal(_))), "{closed}");
    }
}

#[test]
fn host_ports_lead_to_the_pod_from_everywhere() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let server =
        add_pod(&network, "server", &[tcp(None, 8080, 80), tcp(Some(Ipv4Addr::LOCALHOST), 8081, 80)]);
    let client = add_pod(&network, "client", &[]);
    let node = network.node_address();
    let to_server = |from: &OwnedFd, target: SocketAddr| talk(&server.namespace, any(80), from, target);

    assert_eq!(
        to_server(&machine.beyond, (MACHINE, 8080).into()),
        Some(BEYOND.into()),
        "from beyond, with its address"
    );
    assert_eq!(
        to_server(&machine.namespace, (Ipv4Addr::LOCALHOST, 8080).into()),
        Some(node),
        "from the machine's loopback"
    );
    assert!(
        to_server(&machine.namespace, (MACHINE, 8080).into()).is_some(),
        "from the machine, over its address"
    );
    assert_eq!(
        to_server(&client.namespace, (MACHINE, 8080).into()),
        Some(client.address.into()),
        "from another pod"
    );
    assert_eq!(to_server(&server.namespace, (node, 8080).into()), Some(node), "from the pod itself");
    assert!(
        to_server(&machine.namespace, (Ipv4Addr::LOCALHOST, 8081).into()).is_some(),
        "only loopback: from loopback"
    );
    assert_eq!(to_server(&machine.beyond, (MACHINE, 8081).into()), None, "only loopback: not from beyond");

    let other = namespace().expect("made before");
    let refused = now(network.setup_pod(other.as_fd(), "other", &[tcp(None, 8080, 1)])).expect_err("taken");
    assert_eq!(refused.to_string(), "host port 8080/Tcp is taken by pod sandbox server");
    assert_eq!(now(network.pod("other")), None, "and leaves nothing");

    now(network.teardown_pod("server")).expect("taken down");
    assert_eq!(to_server(&machine.beyond, (MACHINE, 8080).into()), None, "closed with the pod");
}

#[test]
fn pods_survive_the_node_and_a_damaged_file() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let range = network.range();
    let pod = add_pod(&network, "one", &[tcp(None, 8080, 80)]);
    drop(network);

    let network = machine.open("node");
    assert_eq!(network.range(), range);
    assert_eq!(now(network.pod("one")).expect("known").addresses, [IpAddr::V4(pod.address)]);
    let from = talk(&pod.namespace, any(80), &machine.beyond, (MACHINE, 8080).into());
    assert_eq!(from, Some(BEYOND.into()), "host ports are open again");
    drop(network);

    let file = machine.config("node").data_dir.join("network/pods.json");
    fs::write(&file, "{\"version\":1,\"ra").expect("damaged");
    let network = machine.open("node");
    assert!(
        matches!(network.warnings(), [NetworkWarning::AllocationsDamaged { .. }]),
        "{:?}",
        network.warnings()
    );
    assert_eq!(network.range(), range, "the claim remembers the range");
    assert_eq!(
        now(network.pod("one")).expect("the link remembers the pod").addresses,
        [IpAddr::V4(pod.address)]
    );
    assert_ne!(add_pod(&network, "two", &[]).address, pod.address);
    assert!(talk(&pod.namespace, any(80), &machine.namespace, (pod.address, 80).into()).is_some());
}

#[test]
fn what_a_former_life_left_is_taken_down_and_nothing_else() {
    let Some(machine) = Machine::new() else { return };
    let (network, neighbour) = (machine.open("node"), machine.open("neighbour"));
    assert!(!network.range().overlaps(&neighbour.range()));
    let _pods =
        [add_pod(&network, "stays", &[]), add_pod(&network, "goes", &[]), add_pod(&neighbour, "other", &[])];
    let before = machine.link_names().len();
    let gone = now(network.retain_pods(BTreeSet::from(["stays".to_owned()]))).expect("retained");
    assert_eq!(gone, ["goes"]);
    assert_eq!(machine.link_names().len(), before - 1);
    assert!(now(network.pod("stays")).is_some());
    assert!(now(neighbour.pod("other")).is_some());
}

#[test]
fn a_pod_is_connected_again_and_taken_down_twice() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let pod = add_pod(&network, "one", &[]);
    let restarted = add_pod(&network, "one", &[]);
    assert_eq!(restarted.address, pod.address, "a sandbox keeps its address in a new namespace");
    assert!(talk(&restarted.namespace, any(80), &machine.namespace, (pod.address, 80).into()).is_some());
    now(network.teardown_pod("one")).expect("once");
    now(network.teardown_pod("one")).expect("twice");
    now(network.teardown_pod("never")).expect("or never");

    let pod = add_pod(&network, "two", &[]);
    drop(pod);
    now(network.teardown_pod("two")).expect("also when its namespace went first");
}

/// Each link took the kernel some 20 ms, so that the last of a hundred pods that were deleted at once waited two seconds.
#[test]
fn pods_that_end_at_once_lose_their_links_together_and_others_keep_theirs() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let links = || machine.routing().links().expect("links");
    let before = links().len();
    let names: Vec<String> = (0..40).map(|number| format!("pod-{number}")).collect();
    let pods: Vec<_> = names.iter().map(|name| add_pod(&network, name, &[])).collect();
    let stays = add_pod(&network, "stays", &[]);
    assert_eq!(links().len(), before + 41);
    let ended = now(futures::future::join_all(names.iter().map(|name| network.teardown_pod(name))));
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert_eq!(links().len(), before + 1);
    for pod in &pods {
        let inside = Routing::inside(pod.namespace.as_fd()).expect("a socket").link("eth0");
        assert!(inside.is_err(), "both ends go");
    }
    assert!(talk(&stays.namespace, any(80), &machine.namespace, (stays.address, 80).into()).is_some());
    // A link that somebody took away, beside others.
    let again: Vec<_> = names[..3].iter().map(|name| add_pod(&network, name, &[])).collect();
    drop(again);
    let ended = now(futures::future::join_all(names[..3].iter().map(|name| network.teardown_pod(name))));
    assert!(ended.iter().all(Result::is_ok), "{ended:?}");
    assert_eq!(links().len(), before + 1);
}

#[test]
fn a_data_directory_has_one_network_at_a_time() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let refused = machine.open_with(machine.config("node")).expect_err("in use");
    assert!(refused.to_string().contains("is in use by another process"), "{refused}");
    let other_handle = network.clone();
    drop(network);
    assert!(machine.open_with(machine.config("node")).is_err(), "as long as one handle lives");
    drop(other_handle);
    machine.open("node");
}

#[test]
fn two_nodes_never_share_a_range() {
    let Some(machine) = Machine::new() else { return };
    let second = fs::canonicalize(machine.config("second").data_dir).expect("exists");
    let wish = NodeIdentity::of_data_dir(&second).candidate_ranges().next().expect("a candidate");
    let first =
        machine.open_with(NetworkConfig { range: Some(wish), ..machine.config("first") }).expect("opens");
    let other = machine.open("second");
    assert_eq!(first.range(), wish);
    assert_ne!(other.range(), wish, "its first wish is taken");
    let refused =
        machine.open_with(NetworkConfig { range: Some(wish), ..machine.config("third") }).expect_err("taken");
    assert!(refused.to_string().contains(&wish.to_string()), "{refused}");

    let (one, two) = (add_pod(&first, "one", &[]), add_pod(&other, "two", &[]));
    assert!(
        talk(&two.namespace, any(80), &one.namespace, (two.address, 80).into()).is_some(),
        "they reach each other"
    );
}

#[test]
fn a_range_that_the_machine_routes_elsewhere_is_left_alone() {
    let Some(machine) = Machine::new() else { return };
    let data_dir = fs::canonicalize(machine.config("node").data_dir).expect("exists");
    let wish = NodeIdentity::of_data_dir(&data_dir).candidate_ranges().next().expect("a candidate");
    let up0 = machine.routing().link("up0").expect("up0").index;
    let office = wish.nth(77).expect("inside");
    machine.routing().apply(&[links::add_pod_route(up0, office, MACHINE)]).expect("a route of the office");
    assert_ne!(machine.open("node").range(), wish);
}

/// Sends from `client` to `target` and answers as the DNS would, from `server`; what `client` received and from whom.
fn ask(server: &std::net::UdpSocket, client: &std::net::UdpSocket, target: SocketAddr) -> Option<SocketAddr> {
    client.send_to(b"question", target).expect("sent");
    let mut buffer = [0; 64];
    let (_, asker) = server.recv_from(&mut buffer).ok()?;
    server.send_to(b"answer", asker).expect("sent");
    client.recv_from(&mut buffer).ok().map(|(_, from)| from)
}

fn udp(namespace: &OwnedFd, address: SocketAddr) -> std::net::UdpSocket {
    inside(namespace, || {
        let socket = std::net::UdpSocket::bind(address).expect("bound");
        socket.set_read_timeout(Some(Duration::from_millis(900))).expect("set");
        socket
    })
}

#[test]
fn pods_and_the_machine_find_the_dns_at_its_service() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let service = Ipv4Addr::new(10, 43, 0, 10);
    let IpAddr::V4(node) = network.node_address() else { panic!("IPv4") };
    let loopback = Ipv4Addr::new(127, 9, 8, 7);
    let route =
        DnsRoute { service, pods: SocketAddrV4::new(node, 5353), machine: SocketAddrV4::new(loopback, 5454) };
    now(network.route_dns(route)).expect("routed");
    let pod = add_pod(&network, "one", &[]);

    let at_service = SocketAddr::from((service, 53));
    let for_pods = udp(&machine.namespace, (node, 5353).into());
    let for_machine = udp(&machine.namespace, (loopback, 5454).into());
    let client = udp(&pod.namespace, any(0));
    assert_eq!(ask(&for_pods, &client, at_service), Some(at_service), "answered under the service's address");
    let client = udp(&machine.namespace, any(0));
    assert_eq!(ask(&for_machine, &client, at_service), Some(at_service), "a process of the machine");
    let over_tcp = talk(&machine.namespace, (node, 5353).into(), &pod.namespace, at_service);
    assert_eq!(over_tcp, Some(pod.address.into()));
    assert_eq!(
        talk(&machine.namespace, any(443), &pod.namespace, (service, 443).into()),
        None,
        "port 53 only"
    );
}

#[test]
fn a_pod_that_floods_the_dns_is_stopped_by_the_kernel_and_another_is_not() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let service = SocketAddr::from((Ipv4Addr::new(10, 43, 0, 10), 53));
    let IpAddr::V4(node) = network.node_address() else { panic!("IPv4") };
    now(network.route_dns(DnsRoute {
        service: Ipv4Addr::new(10, 43, 0, 10),
        pods: SocketAddrV4::new(node, 5353),
        machine: SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5353),
    }))
    .expect("routed");
    let (flooder, other) = (add_pod(&network, "flooder", &[]), add_pod(&network, "other", &[]));
    let server = udp(&machine.namespace, (node, 5353).into());
    server.set_nonblocking(true).expect("set");
    let client = udp(&flooder.namespace, any(0));
    let mut buffer = [0; 64];
    let mut arrived = 0;
    let began = std::time::Instant::now();
    for _ in 0..60_000 {
        client.send_to(b"question", service).expect("sent");
        while server.recv_from(&mut buffer).is_ok() {
            arrived += 1;
        }
    }
    // What it may ask in that time, and what it may ask at once.
    let allowed = 10_000.0 * (began.elapsed().as_secs_f64() + 1.1);
    assert!(arrived > 0 && f64::from(arrived) <= allowed, "{arrived} of at most {allowed}");
    server.set_nonblocking(false).expect("set");
    let client = udp(&other.namespace, any(0));
    assert!(ask(&server, &client, service).is_some(), "the other pod is answered");
}

#[test]
fn a_packet_filter_emptied_by_another_program_comes_back_with_the_next_pod() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let one = add_pod(&network, "one", &[tcp(None, 8080, 80)]);
    let data_dir = fs::canonicalize(machine.config("node").data_dir).expect("exists");
    let table = NodeIdentity::of_data_dir(&data_dir).table();
    inside(&machine.namespace, || {
        let mut socket = NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER).expect("a socket");
        crate::nftables::commit(
            &mut socket,
            vec![crate::nftables::remove_table(&Table::new(Family::V4, table.clone()))],
        )
        .expect("removed");
    });
    assert_eq!(talk(&one.namespace, any(80), &machine.beyond, (MACHINE, 8080).into()), None);
    let two = add_pod(&network, "two", &[]);
    assert!(
        talk(&one.namespace, any(80), &machine.beyond, (MACHINE, 8080).into()).is_some(),
        "also the older pod's"
    );
    assert_eq!(talk(&machine.beyond, any(80), &two.namespace, (BEYOND, 80).into()), Some(MACHINE.into()));
}

#[test]
fn what_is_left_of_a_node_whose_data_directory_is_gone_is_removed_by_the_next() {
    let Some(machine) = Machine::new() else { return };
    let routes = || machine.routing().routes(Family::V4).expect("routes").len();
    let before = (machine.link_names(), routes(), machine.tables());
    let lost = machine.open("lost");
    let _pod = add_pod(&lost, "one", &[tcp(None, 8080, 80)]);
    drop(lost);
    fs::remove_dir_all(machine.config("lost").data_dir).expect("removed by hand");
    let next = machine.open("next");
    now(next.cleanup()).expect("cleaned up");
    assert_eq!((machine.link_names(), routes(), machine.tables()), before);
}

#[test]
fn a_node_keeps_its_range_although_the_common_claims_were_lost() {
    let Some(machine) = Machine::new() else { return };
    let network = machine.open("node");
    let range = network.range();
    drop(network);
    fs::remove_dir_all(machine.directories.path().join("claims")).expect("removed by hand");
    assert_eq!(machine.open("node").range(), range);
}

#[test]
fn without_rights_over_links_pods_run_without_a_network_and_the_reason_is_said_once() {
    let Some(machine) = Machine::new() else { return };
    let network = inside(&machine.namespace, || {
        // Rights are a thread's own, and the thread of the network gets those of the one that opens it.
        caps::drop(None, caps::CapSet::Effective, caps::Capability::CAP_NET_ADMIN).expect("dropped");
        Network::open(machine.config("node")).expect("opens all the same")
    });
    let [warning @ NetworkWarning::NoLinks { .. }] = network.warnings() else {
        panic!("{:?}", network.warnings())
    };
    assert!(warning.to_string().ends_with("run as root with CAP_NET_ADMIN to give them one"), "{warning}");
    let pod = namespace().expect("made before");
    let given = now(network.setup_pod(pod.as_fd(), "one", &[tcp(None, 8080, 80)])).expect("no failure");
    assert!(given.addresses.is_empty(), "{given:?}");
    assert_eq!(given.limits, std::slice::from_ref(warning));
    now(network.teardown_pod("one")).expect("nothing to take down");
    now(network.cleanup()).expect("nothing to clean");
}

#[test]
fn cleaning_up_leaves_the_machine_as_it_was() {
    let Some(machine) = Machine::new() else { return };
    let routes = || machine.routing().routes(Family::V4).expect("routes").len();
    let forwarding = || inside(&machine.namespace, || fs::read_to_string(FORWARDING).expect("readable"));
    inside(&machine.namespace, || fs::write(FORWARDING, "0")).expect("set");
    let before = (machine.link_names(), routes(), machine.tables(), forwarding());
    let (network, neighbour) = (machine.open("node"), machine.open("neighbour"));
    let _pods = [add_pod(&network, "one", &[tcp(None, 8080, 80)]), add_pod(&network, "two", &[])];
    assert_eq!(machine.tables(), 2);
    assert_eq!(forwarding().trim(), "1");
    now(network.cleanup()).expect("cleaned up");
    assert_eq!(forwarding().trim(), "1", "the neighbour still needs it");
    now(neighbour.cleanup()).expect("cleaned up");
    assert_eq!((machine.link_names(), routes(), machine.tables(), forwarding()), before);
    assert!(!machine.directories.path().join("claims").exists());
}
