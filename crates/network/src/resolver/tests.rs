//! The machine's file, the policies, the limits.

use super::*;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn machine() -> ResolvConf {
    ResolvConf::parse("nameserver 192.0.2.53\nsearch office.example\noptions timeout:2\n")
}

fn cluster() -> ClusterDns {
    ClusterDns { addresses: vec!["10.43.0.10".parse().expect("an address")], domain: "cluster.local".into() }
}

#[test]
fn a_resolver_file_is_read_as_resolvers_read_it() {
    let text = "# comment\n; other\n\nnameserver 192.0.2.1\n\tnameserver\t192.0.2.2 trailing\nnameserver\nsearch a.example b.example.\n\
        search c.example. .\noptions ndots:2\noptions ndots:3 rotate\nsortlist 1.2.3.4\n";
    let found = ResolvConf::parse(text);
    assert_eq!(found.nameservers, ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(found.searches, ["c.example", "."]);
    assert_eq!(found.options, ["ndots:3", "rotate"]);
    assert_eq!(
        found.to_string(),
        "search c.example .\nnameserver 192.0.2.1\nnameserver 192.0.2.2\noptions ndots:3 rotate\n"
    );
    assert_eq!(ResolvConf::parse("domain d.example e.example").searches, ["d.example"]);
    assert_eq!(ResolvConf::default().to_string(), "");
}

#[test]
fn only_loopback_servers_are_a_stub() {
    for (text, stub) in [
        ("nameserver 127.0.0.53", true),
        ("nameserver 127.0.0.1\nnameserver ::1", true),
        ("nameserver 127.0.0.53\nnameserver 192.0.2.1", false),
        ("nameserver 192.0.2.1", false),
        ("nameserver not-an-address", false),
        ("", false),
    ] {
        assert_eq!(ResolvConf::parse(text).is_local_stub(), stub, "{text}");
    }
}

#[test]
fn the_real_servers_behind_a_stub_are_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let (first, real) = (directory.path().join("resolv.conf"), directory.path().join("real"));
    let read = || read_resolv_conf(&first, &real).expect("readable").nameservers;
    assert_eq!(read(), Vec::<String>::new(), "no file at all");
    std::fs::write(&first, "nameserver 127.0.0.53\n").expect("written");
    assert_eq!(read(), ["127.0.0.53"], "a stub of another kind");
    std::fs::write(&real, "nameserver 127.0.0.1\n").expect("written");
    assert_eq!(read(), ["127.0.0.53"], "a stub behind a stub");
    std::fs::write(&real, "nameserver 192.0.2.1\n").expect("written");
    assert_eq!(read(), ["192.0.2.1"]);
    std::fs::write(&first, "nameserver 192.0.2.9\n").expect("written");
    assert_eq!(read(), ["192.0.2.9"]);
    std::fs::remove_file(&first).expect("removed");
    std::fs::create_dir(&first).expect("made");
    let refused = read_resolv_conf(&first, &real).expect_err("a directory is no file");
    assert_eq!(refused.path, first);
}

#[test]
fn without_cluster_dns_a_pod_falls_back_and_says_so() {
    for (policy, host_network, missing) in [
        (DnsPolicy::ClusterFirst, false, true),
        (DnsPolicy::ClusterFirst, true, false),
        (DnsPolicy::ClusterFirstWithHostNet, true, true),
        (DnsPolicy::Default, false, false),
    ] {
        let dns = pod_dns(policy, host_network, "shop", None, None, &machine());
        assert_eq!(dns.resolv_conf, machine(), "{policy:?}");
        assert_eq!(dns.missing_cluster_dns, missing, "{policy:?}");
    }
}

#[test]
fn with_cluster_dns_short_names_are_completed_in_the_cluster_first() {
    let dns = pod_dns(DnsPolicy::ClusterFirst, false, "shop", None, Some(&cluster()), &machine());
    assert!(!dns.missing_cluster_dns);
    assert_eq!(dns.resolv_conf.nameservers, ["10.43.0.10"]);
    assert_eq!(
        dns.resolv_conf.searches,
        ["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "office.example"]
    );
    assert_eq!(dns.resolv_conf.options, ["ndots:5"]);
    let host = pod_dns(DnsPolicy::ClusterFirst, true, "shop", None, Some(&cluster()), &machine());
    assert_eq!(host.resolv_conf, machine());
}

#[test]
fn what_the_pod_adds_comes_behind_and_its_options_win() {
    let config = DnsConfig {
        nameservers: words(&["192.0.2.53", "192.0.2.54"]),
        searches: words(&["office.example", "more.example"]),
        options: vec![
            ("timeout".into(), Some("9".into())),
            ("rotate".into(), None),
            ("edns0".into(), Some(String::new())),
        ],
    };
    let dns = pod_dns(DnsPolicy::Default, false, "shop", Some(&config), None, &machine());
    assert_eq!(dns.resolv_conf.nameservers, ["192.0.2.53", "192.0.2.54"]);
    assert_eq!(dns.resolv_conf.searches, ["office.example", "more.example"]);
    assert_eq!(dns.resolv_conf.options, ["timeout:9", "rotate", "edns0"]);
    let alone = pod_dns(DnsPolicy::None, false, "shop", Some(&config), Some(&cluster()), &machine());
    assert_eq!(alone.resolv_conf.nameservers, ["192.0.2.53", "192.0.2.54"]);
    assert_eq!(alone.resolv_conf.options, ["timeout:9", "rotate", "edns0"]);
    assert!(!alone.missing_cluster_dns);
}

#[test]
fn more_than_a_resolver_takes_is_left_out_and_reported() {
    let config = DnsConfig {
        nameservers: words(&["192.0.2.1", "192.0.2.2", "192.0.2.3"]),
        searches: (0..40).map(|number| format!("d{number}.example")).chain(["x".repeat(254)]).collect(),
        options: Vec::new(),
    };
    let dns = pod_dns(DnsPolicy::Default, false, "shop", Some(&config), None, &machine());
    assert_eq!(dns.resolv_conf.nameservers, ["192.0.2.53", "192.0.2.1", "192.0.2.2"]);
    assert_eq!(dns.resolv_conf.searches.len(), 32);
    assert_eq!(dns.limits.len(), 2);
    assert_eq!(
        dns.limits[0].to_string(),
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 192.0.2.53 \
         192.0.2.1 192.0.2.2"
    );
    let long = DnsConfig {
        searches: (0..30).map(|number| format!("{number}{}", "y".repeat(99))).collect(),
        ..config
    };
    let dns = pod_dns(DnsPolicy::None, false, "shop", Some(&long), None, &machine());
    assert!(dns.resolv_conf.searches.join(" ").len() <= 2048);
    assert!(dns.resolv_conf.searches.len() >= 20);
}

#[test]
fn the_event_reads_as_a_kubelet_writes_it() {
    assert_eq!(
        missing_cluster_dns_message(Some("web_shop(1234)")),
        "pod: \"web_shop(1234)\". kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" \
         policy. Falling back to \"Default\" policy."
    );
    assert!(missing_cluster_dns_message(None).starts_with("kubelet does not have"));
}
