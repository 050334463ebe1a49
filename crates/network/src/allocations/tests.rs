//! Addresses and ports given, kept, set aside.

use super::*;

fn range(text: &str) -> AddressRange {
    text.parse().expect("a range")
}

fn tcp(host_address: Option<[u8; 4]>, host_port: u16) -> HostPort {
    HostPort {
        protocol: Protocol::Tcp,
        host_address: host_address.map(Ipv4Addr::from),
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
    pods.adopt("a", Ipv4Addr::new(10, 1, 0, 7));
    pods.adopt("b", Ipv4Addr::new(10, 1, 0, 7));
    pods.adopt("c", Ipv4Addr::new(10, 9, 0, 7));
    assert_eq!(pods.ids().collect::<Vec<_>>(), ["a"]);
}
