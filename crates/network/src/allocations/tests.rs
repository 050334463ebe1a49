//! Addresses and ports given, kept, set aside.

use super::*;

fn range(text: &str) -> AddressRange {
    text.parse().expect("a range")
}

fn tcp(host_address: Option<[u8; 4]>, host_port: u16) -> HostPort {
    HostPort {
        protocol: Protocol::Tcp,
        host_address: host_address.map(IpAddr::from),
        host_port,
        pod_port: 80,
    }
}

#[test]
fn a_pod_keeps_its_address_and_an_address_rests_before_it_is_given_again() {
    let mut pods = Allocations::new(range("10.1.0.0/29"));
    let first = pods.allocate("a", &[]).expect("an address").address;
    assert_eq!(first, Ipv4Addr::new(10, 1, 0, 2));
    assert_eq!(pods.allocate("a", &[]).expect("the same").address, first);
    pods.release("a");
    assert_eq!(pods.allocate("b", &[]).expect("the next").address, Ipv4Addr::new(10, 1, 0, 3));
}

#[test]
fn the_range_ends_before_the_broadcast_address_and_begins_anew() {
    let mut pods = Allocations::new(range("10.1.0.0/29"));
    for (id, last) in [("a", 2), ("b", 3), ("c", 4), ("d", 5), ("e", 6)] {
        assert_eq!(pods.allocate(id, &[]).expect("an address").address, Ipv4Addr::new(10, 1, 0, last));
    }
    assert_eq!(pods.allocate("f", &[]), Err(AllocateError::Exhausted(range("10.1.0.0/29"))));
    pods.release("c");
    assert_eq!(pods.allocate("f", &[]).expect("the one set free").address, Ipv4Addr::new(10, 1, 0, 4));
}

#[test]
fn a_host_port_belongs_to_one_pod() {
    let mut pods = Allocations::new(range("10.1.0.0/24"));
    pods.allocate("a", &[tcp(None, 8080)]).expect("free");
    pods.allocate("b", &[tcp(Some([127, 0, 0, 1]), 8081)]).expect("free");
    for (port, free) in [
        (tcp(None, 8080), false),
        (tcp(Some([127, 0, 0, 1]), 8080), false),
        (tcp(Some([10, 0, 0, 1]), 8081), true),
        (tcp(None, 8081), false),
        (HostPort { protocol: Protocol::Udp, ..tcp(None, 8080) }, true),
    ] {
        let mut trial = pods.clone();
        assert_eq!(trial.allocate("c", std::slice::from_ref(&port)).is_ok(), free, "{port:?}");
    }
    pods.allocate("a", &[tcp(None, 8080)]).expect("one's own port is no collision");
    let refused = pods.allocate("c", &[tcp(None, 8080)]).expect_err("taken");
    assert_eq!(refused.to_string(), "host port 8080/Tcp is taken by pod sandbox a");
}

#[test]
fn what_is_written_is_read_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pods.json");
    let mut pods = Allocations::new(range("10.1.0.0/24"));
    pods.allocate("a", &[tcp(Some([127, 0, 0, 1]), 8080)]).expect("free");
    pods.save(&path).expect("saved");
    let Loaded::Present(found) = Allocations::load(&path) else { panic!("the file is good") };
    assert_eq!(found, pods);
}

#[test]
fn no_file_is_a_new_node() {
    let directory = tempfile::tempdir().expect("a directory");
    assert!(matches!(Allocations::load(&directory.path().join("pods.json")), Loaded::Absent));
}

#[test]
fn a_damaged_file_is_set_aside_and_never_refuses_the_start() {
    let good = r#"{"version":1,"range":"10.1.0.0/24","next":3,"pods":{"a":{"address":"10.1.0.2"}}}"#;
    let damaged: [(&str, String); 8] = [
        ("empty", String::new()),
        ("cut short", good[..40].to_owned()),
        ("not JSON", "\u{0}\u{0}\u{0}".to_owned()),
        ("a future version", good.replace("\"version\":1", "\"version\":9")),
        ("address outside", good.replace("10.1.0.2", "10.2.0.2")),
        ("range too small", good.replace("10.1.0.0/24", "10.1.0.2/32")),
        ("host bits", good.replace("10.1.0.0/24", "10.1.0.1/24")),
        ("address twice", good.replace("}}}", r#"},"b":{"address":"10.1.0.2"}}}"#)),
    ];
    for (what, text) in damaged {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("pods.json");
        fs::write(&path, &text).expect("written");
        let Loaded::Quarantined { moved_to: Some(moved_to), .. } = Allocations::load(&path) else {
            panic!("{what} is damaged")
        };
        assert!(!path.exists(), "{what}");
        assert_eq!(fs::read_to_string(moved_to).expect("kept"), text, "{what}");
    }
}

#[test]
fn what_the_kernel_remembers_is_adopted_unless_it_contradicts() {
    let mut pods = Allocations::new(range("10.1.0.0/24"));
    pods.adopt("a", Ipv4Addr::new(10, 1, 0, 7), None);
    pods.adopt("b", Ipv4Addr::new(10, 1, 0, 7), None);
    pods.adopt("c", Ipv4Addr::new(10, 9, 0, 7), None);
    assert_eq!(pods.ids().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn a_pod_has_the_same_place_in_both_ranges() {
    let mut pods = Allocations::new(range("10.1.0.0/24"));
    pods.allocate("old", &[]).expect("an address");
    assert_eq!(pods.get("old").expect("it").address_v6, None, "made before there was IPv6");
    pods.set_range_v6(Some(range("fd12::/64")));
    assert_eq!(pods.node_address_v6(), Some("fd12::1".parse().expect("an address")));
    let two = pods.allocate("two", &[]).expect("an address");
    let [Some(IpAddr::V4(_)), Some(v6)] = [Family::V4, Family::V6].map(|family| two.of_family(family)) else {
        panic!("{two:?}")
    };
    assert_eq!((two.address, v6.to_string()), (Ipv4Addr::new(10, 1, 0, 3), "fd12::3".to_owned()));
    assert_eq!(pods.get("old").expect("it").address_v6, None, "a pod that runs stays as it is");
    let again = pods.allocate("old", &[]).expect("connected anew");
    assert_eq!(again.address_v6, Some("fd12::2".parse().expect("an address")));
    pods.set_range_v6(Some(range("fd13::/64")));
    assert_eq!(pods.addresses_of(Family::V6).count(), 0, "of another range");
}

#[test]
fn a_file_of_a_version_without_ipv6_is_read_and_one_with_it_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("pods.json");
    let old = r#"{"version":1,"range":"10.1.0.0/24","next":3,"pods":{"a":{"address":"10.1.0.2"}}}"#;
    fs::write(&path, old).expect("written");
    let Loaded::Present(mut pods) = Allocations::load(&path) else { panic!("the file is good") };
    assert_eq!(pods.range_v6(), None);
    pods.set_range_v6(Some(range("fd12::/64")));
    pods.allocate("b", &[]).expect("an address");
    pods.save(&path).expect("saved");
    let Loaded::Present(found) = Allocations::load(&path) else { panic!("the file is good") };
    assert_eq!(found, pods);
    assert_eq!(found.get("b").and_then(|pod| pod.address_v6), Some("fd12::3".parse().expect("an address")));
}

#[test]
fn a_host_port_is_open_at_the_addresses_of_its_family() {
    let mut pods = Allocations::new(range("10.1.0.0/24"));
    pods.set_range_v6(Some(range("fd12::/64")));
    let at = |address: Option<&str>, port| HostPort {
        host_address: address.map(|text| text.parse().expect("an address")),
        ..tcp(None, port)
    };
    let ports = [at(None, 80), at(Some("127.0.0.1"), 81), at(Some("::1"), 81)];
    pods.allocate("a", &ports).expect("the third is another address than the second");
    let open = |family| {
        pods.host_ports(family).map(|(to, port)| (to.to_string(), port.host_port)).collect::<Vec<_>>()
    };
    assert_eq!(open(Family::V4), [("10.1.0.2".to_owned(), 80), ("10.1.0.2".to_owned(), 81)]);
    assert_eq!(open(Family::V6), [("fd12::2".to_owned(), 80), ("fd12::2".to_owned(), 81)]);
}
