//! Pods of a machine that has both families, in namespaces of a test's own (see [`crate::machine`]).

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use super::*;
use crate::dual_stack::FORWARDING as FORWARDING_V6;
use crate::identity::NodeIdentity;
use crate::links::{self, LOOPBACK, Routing};
use crate::machine::*;
use crate::netlink::NetlinkSocket;
use crate::nftables::Table;
use crate::range::Family;

fn node_v6(network: &Network) -> IpAddr {
    let [IpAddr::V4(_), node @ IpAddr::V6(_)] = network.node_addresses() else {
        panic!("{:?}", network.node_addresses())
    };
    *node
}

#[test]
fn pods_reach_each_other_the_machine_and_what_is_beyond_over_both_families() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    assert_eq!(network.warnings(), []);
    let (one, two) = (add_pod(&network, "one", &[]), add_pod(&network, "two", &[]));
    let node = node_v6(&network);
    assert!(network.ranges()[1].contains(one.v6()));

    // The kernel sends a lost first packet again after a second, which is longer than `talk` waits.
    let from = talk(&machine.namespace, any_v6(80), &one.namespace, (node, 80).into());
    assert_eq!(from, Some(one.v6().into()), "pod to machine, at once");
    let from = talk(&one.namespace, any_v6(80), &machine.namespace, (one.v6(), 80).into());
    assert_eq!(from, Some(node), "machine to pod");
    let from = talk(&two.namespace, any_v6(80), &one.namespace, (two.v6(), 80).into());
    assert_eq!(from, Some(one.v6().into()), "pod to pod");
    let from = talk(&machine.beyond, any_v6(80), &one.namespace, (BEYOND_V6, 80).into());
    assert_eq!(from, Some(MACHINE_V6.into()), "pod to the world, masqueraded");
    let from = talk(&one.namespace, any_v6(80), &one.namespace, (Ipv6Addr::LOCALHOST, 80).into());
    assert_eq!(from, Some(Ipv6Addr::LOCALHOST.into()), "pod to its own loopback");
    let from = talk(&two.namespace, any(80), &one.namespace, (two.address, 80).into());
    assert_eq!(from, Some(one.address.into()), "and over IPv4");
}

#[test]
fn the_first_packet_over_ipv6_arrives() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    for round in 0..20 {
        let pod = add_pod(&network, &format!("pod-{round}"), &[]);
        let to = talk(&pod.namespace, any_v6(80), &machine.namespace, (pod.v6(), 80).into());
        assert_eq!(to, Some(node_v6(&network)), "round {round}");
        let next = add_pod(&network, &format!("next-{round}"), &[]);
        let from = talk(&machine.namespace, any_v6(80), &next.namespace, (node_v6(&network), 80).into());
        assert_eq!(from, Some(next.v6().into()), "round {round}");
    }
}

#[test]
fn a_pod_has_no_address_of_ipv6_but_its_own() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let pod = add_pod(&network, "one", &[]);
    let mut inside_pod = Routing::inside(pod.namespace.as_fd()).expect("a socket");
    let eth0 = inside_pod.link("eth0").expect("eth0").index;
    let addresses = inside_pod.addresses_v6().expect("listed");
    assert_eq!(addresses, [(LOOPBACK, Ipv6Addr::LOCALHOST), (eth0, pod.v6())]);
    let near: Vec<_> = machine.routing().addresses_v6().expect("listed");
    let links = machine.routing().links().expect("links");
    let prefix =
        NodeIdentity::of_data_dir(&fs::canonicalize(machine.config("node").data_dir).expect("exists"))
            .interface_prefix();
    let of_pods: Vec<u32> =
        links.iter().filter(|link| link.name.starts_with(&prefix)).map(|link| link.index).collect();
    assert_eq!(of_pods.len(), 1);
    assert!(near.iter().all(|(link, _)| !of_pods.contains(link)), "{near:?}");
}

#[test]
fn link_local_addresses_and_those_of_clouds_stay_closed_over_ipv6() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let pod = add_pod(&network, "one", &[]);
    let metadata: Ipv6Addr = "fd00:ec2::254".parse().expect("an address");
    let mut beyond = Routing::inside(machine.beyond.as_fd()).expect("a socket");
    let far = beyond.link("eth0").expect("eth0").index;
    let added = [links::add_address(far, metadata), links::add_local_route(far, metadata)];
    beyond.apply(&added).expect("added");
    let target = (metadata, 80).into();
    let from = talk(&machine.beyond, any_v6(80), &machine.namespace, target);
    assert_eq!(from, Some(MACHINE_V6.into()), "the machine itself may ask");
    assert_eq!(talk(&machine.beyond, any_v6(80), &pod.namespace, target), None, "a pod may not");
    let mut inside_pod = Routing::inside(pod.namespace.as_fd()).expect("a socket");
    let scope = inside_pod.link("eth0").expect("eth0").index;
    let gateway = SocketAddr::V6(std::net::SocketAddrV6::new(GATEWAY_V6, 80, 0, scope));
    let near = machine.link_names().into_iter().find(|name| name.starts_with("co")).expect("the pod's link");
    let near = machine.routing().link(&near).expect("it").index;
    let added = [links::add_address(near, GATEWAY_V6), links::add_local_route(near, GATEWAY_V6)];
    machine.routing().apply(&added).expect("added");
    assert_eq!(talk(&machine.namespace, any_v6(80), &pod.namespace, gateway), None, "the gateway");
}

#[test]
fn a_pod_cannot_speak_under_the_ipv6_address_of_another() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let (one, two) = (add_pod(&network, "one", &[]), add_pod(&network, "two", &[]));
    let mut routing = Routing::inside(one.namespace.as_fd()).expect("a socket");
    let eth0 = routing.link("eth0").expect("eth0").index;
    let stranger: Ipv6Addr = "2001:db8::7".parse().expect("an address");
    let link_local: Ipv6Addr = "fe80::77".parse().expect("an address");
    for forged in [two.v6(), stranger, MACHINE_V6, link_local] {
        routing.apply(&[links::add_address(eth0, forged)]).expect("added");
    }
    let received = inside(&machine.namespace, || {
        let receiver = std::net::UdpSocket::bind(any_v6(9)).expect("bound");
        receiver.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
        inside(&one.namespace, || {
            for forged in [two.v6(), stranger, MACHINE_V6] {
                let socket = std::net::UdpSocket::bind((forged, 0)).expect("bound");
                socket.send_to(b"forged", (node_v6(&network), 9)).expect("sent");
            }
            let from = std::net::SocketAddrV6::new(link_local, 0, 0, eth0);
            let socket = std::net::UdpSocket::bind(from).expect("bound");
            let _ = socket.send_to(b"forged", (node_v6(&network), 9));
            let honest = std::net::UdpSocket::bind((one.v6(), 0)).expect("bound");
            honest.send_to(b"honest", (node_v6(&network), 9)).expect("sent");
        });
        let mut text = [0; 16];
        let (length, from) = receiver.recv_from(&mut text).expect("the honest one arrives");
        (String::from_utf8_lossy(&text[..length]).into_owned(), from.ip())
    });
    assert_eq!(received, ("honest".to_owned(), IpAddr::V6(one.v6())));
}

#[test]
fn host_ports_lead_to_the_pod_over_ipv6_too() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let only_loopback = HostPort { host_address: Some(Ipv6Addr::LOCALHOST.into()), ..tcp(None, 8081, 80) };
    let only_v4 = tcp(Some(Ipv4Addr::LOCALHOST), 8082, 80);
    let server = add_pod(&network, "server", &[tcp(None, 8080, 80), only_loopback, only_v4]);
    let client = add_pod(&network, "client", &[]);
    let node = node_v6(&network);
    let to_server = |from: &OwnedFd, target: SocketAddr| talk(&server.namespace, any_v6(80), from, target);

    let from = to_server(&machine.beyond, (MACHINE_V6, 8080).into());
    assert_eq!(from, Some(BEYOND_V6.into()), "from beyond, with its address");
    let from = to_server(&machine.namespace, (Ipv6Addr::LOCALHOST, 8080).into());
    assert_eq!(from, Some(node), "from the machine's loopback");
    assert!(to_server(&machine.namespace, (MACHINE_V6, 8080).into()).is_some(), "over its address");
    let from = to_server(&client.namespace, (MACHINE_V6, 8080).into());
    assert_eq!(from, Some(client.v6().into()), "from another pod");
    assert_eq!(to_server(&server.namespace, (node, 8080).into()), Some(node), "from the pod itself");
    assert!(to_server(&machine.namespace, (Ipv6Addr::LOCALHOST, 8081).into()).is_some(), "only loopback");
    assert_eq!(to_server(&machine.beyond, (MACHINE_V6, 8081).into()), None, "only loopback: not from beyond");
    assert_eq!(to_server(&machine.namespace, (Ipv6Addr::LOCALHOST, 8082).into()), None, "only IPv4");
    let v4 = talk(&server.namespace, any(80), &machine.beyond, (MACHINE, 8080).into());
    assert_eq!(v4, Some(BEYOND.into()), "over IPv4");

    now(network.teardown_pod("server")).expect("taken down");
    assert_eq!(to_server(&machine.beyond, (MACHINE_V6, 8080).into()), None, "closed with the pod");
}

#[test]
fn pods_keep_both_addresses_over_a_restart_and_a_damaged_file() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let ranges = network.ranges().to_vec();
    let pod = add_pod(&network, "one", &[tcp(None, 8080, 80)]);
    let both = [IpAddr::V4(pod.address), IpAddr::V6(pod.v6())];
    drop(network);

    let network = machine.open("node");
    assert_eq!(network.ranges(), ranges);
    assert_eq!(now(network.pod("one")).expect("known").addresses, both);
    let from = talk(&pod.namespace, any_v6(80), &machine.beyond, (MACHINE_V6, 8080).into());
    assert_eq!(from, Some(BEYOND_V6.into()), "host ports are open again");
    drop(network);

    fs::write(machine.config("node").data_dir.join("network/pods.json"), "{").expect("damaged");
    let network = machine.open("node");
    assert_eq!(network.ranges(), ranges, "the claims remember them");
    assert_eq!(now(network.pod("one")).expect("the link remembers it").addresses, both);
    assert!(talk(&pod.namespace, any_v6(80), &machine.namespace, (pod.v6(), 80).into()).is_some());
}

#[test]
fn a_machine_that_gets_ipv6_gives_it_to_new_pods_and_one_that_loses_it_to_none() {
    let Some(machine) = Machine::with_both_families() else { return };
    let without = NetworkConfig { ipv6: Ipv6Wish::Never, ..machine.config("node") };
    let network = machine.open_with(without.clone()).expect("opens");
    let old = add_pod(&network, "old", &[]);
    assert_eq!((old.address_v6, network.ranges().len(), machine.tables()), (None, 1, 1));
    drop(network);

    let network = machine.open("node");
    let new = add_pod(&network, "new", &[]);
    assert_eq!(now(network.pod("old")).expect("known").addresses, [IpAddr::V4(old.address)]);
    assert!(talk(&new.namespace, any_v6(80), &machine.namespace, (new.v6(), 80).into()).is_some());
    assert!(talk(&new.namespace, any(80), &old.namespace, (new.address, 80).into()).is_some());
    drop(network);

    let network = machine.open_with(without).expect("opens");
    assert_eq!(add_pod(&network, "newer", &[]).address_v6, None);
    assert!(
        machine
            .routing()
            .routes(Family::V6)
            .expect("routes")
            .iter()
            .all(|route| route.link.is_none_or(|link| link != LOOPBACK) || !route.ours)
    );
    now(network.cleanup()).expect("cleaned up");
    assert_eq!(machine.tables(), 0);
}

#[test]
fn a_machine_without_ipv6_has_pods_as_before_and_a_wish_for_it_is_answered_once() {
    let Some(machine) = Machine::with_both_families() else { return };
    inside(&machine.namespace, || {
        fs::write("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1").expect("switched off");
    });
    let network = machine.open("node");
    assert_eq!((network.warnings(), network.ranges().len(), machine.tables()), ([].as_slice(), 1, 1));
    let (one, two) = (add_pod(&network, "one", &[]), add_pod(&network, "two", &[]));
    assert_eq!(one.address_v6, None);
    assert!(talk(&two.namespace, any(80), &one.namespace, (two.address, 80).into()).is_some());
    drop(network);
    let wish = Ipv6Wish::In("fd12::/64".parse().expect("a range"));
    let network = machine.open_with(NetworkConfig { ipv6: wish, ..machine.config("node") }).expect("opens");
    let [warning @ NetworkWarning::NoIpv6 { .. }] = network.warnings() else {
        panic!("{:?}", network.warnings())
    };
    assert_eq!(
        warning.to_string(),
        "pods have IPv4 only, although IPv6 is wanted: IPv6 is switched off (/proc/sys/net/ipv6/conf/all/disable_ipv6 is 1)"
    );
    assert_eq!(add_pod(&network, "three", &[]).address_v6, None);
}

#[test]
fn a_range_of_ipv6_can_be_chosen_and_is_nobody_elses() {
    let Some(machine) = Machine::with_both_families() else { return };
    let range: AddressRange = "fd12:7::/112".parse().expect("a range");
    let with = |node: &str, range| NetworkConfig { ipv6: Ipv6Wish::In(range), ..machine.config(node) };
    let first = machine.open_with(with("first", range)).expect("opens");
    assert_eq!(first.ranges()[1], range);
    let second = machine.open_with(with("second", range)).expect("opens all the same");
    let [NetworkWarning::NoIpv6 { reason }] = second.warnings() else { panic!("{:?}", second.warnings()) };
    assert!(reason.contains("the address range fd12:7::/112 for pods is taken by"), "{reason}");
    let third = machine.open("third");
    let (one, two) = (add_pod(&first, "one", &[]), add_pod(&third, "two", &[]));
    assert!(
        talk(&two.namespace, any_v6(80), &one.namespace, (two.v6(), 80).into()).is_some(),
        "pods of two nodes reach each other"
    );
    let wrong = NetworkConfig { range: Some(range), ..machine.config("fourth") };
    let refused = machine.open_with(wrong).expect_err("of the other family").to_string();
    assert_eq!(refused, "fd12:7::/112 is not a range of IPv4");
}

#[test]
fn both_tables_emptied_by_another_program_come_back_with_the_next_pod() {
    let Some(machine) = Machine::with_both_families() else { return };
    let network = machine.open("node");
    let one = add_pod(&network, "one", &[tcp(None, 8080, 80)]);
    let data_dir = fs::canonicalize(machine.config("node").data_dir).expect("exists");
    let name = NodeIdentity::of_data_dir(&data_dir).table();
    let reaches = || talk(&one.namespace, any_v6(80), &machine.beyond, (MACHINE_V6, 8080).into()).is_some();
    assert!(reaches());
    inside(&machine.namespace, || {
        let mut socket = NetlinkSocket::open(netlink_sys::protocols::NETLINK_NETFILTER).expect("a socket");
        let tables = [Family::V4, Family::V6].map(|family| Table::new(family, name.clone()));
        let removals = tables.iter().map(crate::nftables::remove_table).collect();
        crate::nftables::commit(&mut socket, removals).expect("removed");
    });
    assert!(!reaches());
    let two = add_pod(&network, "two", &[]);
    assert!(reaches());
    assert!(talk(&machine.beyond, any_v6(80), &two.namespace, (BEYOND_V6, 80).into()).is_some());
}

#[test]
fn cleaning_up_leaves_a_machine_with_both_families_as_it_was() {
    let Some(machine) = Machine::with_both_families() else { return };
    let state = || {
        let switches = inside(&machine.namespace, || {
            [FORWARDING_V6, "/proc/sys/net/ipv6/conf/up0/accept_ra"]
                .map(|path| fs::read_to_string(path).expect("readable").trim().to_owned())
        });
        let routes: Vec<_> = [Family::V4, Family::V6]
            .map(|family| {
                machine.routing().routes(family).expect("routes").iter().filter(|one| one.ours).count()
            })
            .into();
        let addresses = machine.routing().addresses_v6().expect("addresses");
        (machine.link_names(), routes, addresses, machine.tables(), switches)
    };
    let before = state();
    assert_eq!(before.4, ["0", "1"]);
    let lost = machine.open("lost");
    let _pod = add_pod(&lost, "one", &[tcp(None, 8080, 80)]);
    let switches = state().4;
    assert_eq!(switches, ["1", "2"], "packets are forwarded, and the machine still hears its router");
    drop(lost);
    fs::remove_dir_all(machine.config("lost").data_dir).expect("removed by hand");
    let (network, neighbour) = (machine.open("node"), machine.open("neighbour"));
    let _pods = [add_pod(&network, "one", &[tcp(None, 8080, 80)]), add_pod(&neighbour, "two", &[])];
    now(network.cleanup()).expect("cleaned up");
    assert_eq!(state().4, ["1", "2"], "the neighbour still needs it");
    now(neighbour.cleanup()).expect("cleaned up");
    assert_eq!(state(), before);
    assert!(!machine.directories.path().join("claims").exists());
}
