use serde_json::{Value, json};

use admission::IpFamily;

use super::{ServiceAddresses, free_address};

fn service(cluster_ip: &str, kind: &str) -> Value {
    json!({"spec": {"type": kind, "clusterIP": cluster_ip, "ports": [{"port": 80}]}})
}

#[test]
fn addresses_come_from_the_range_and_each_once() {
    let addresses = ServiceAddresses::new("10.9.0.7/28".parse().expect("a range"));
    assert_eq!(addresses.ranges().kubernetes().to_string(), "10.9.0.1");
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..13 {
        let mut one = service("", "ClusterIP");
        addresses.allocate(&mut one, None).expect("there is room").keep();
        assert!(seen.insert(one["spec"]["clusterIP"].as_str().expect("text").to_owned()));
        assert_eq!(one["spec"]["clusterIPs"], json!([one["spec"]["clusterIP"]]));
    }
    assert!(!seen.contains("10.9.0.1"), "reserved");
    let error = addresses.allocate(&mut service("", "ClusterIP"), None).expect_err("full");
    assert!(error.to_string().contains("range 10.9.0.0/28 is full"), "{error}");
    let back = seen.first().expect("some");
    addresses.release_service(&service(back, "ClusterIP"));
    addresses.allocate(&mut service(back, "ClusterIP"), None).expect("free again");
}

#[test]
fn the_lowest_addresses_are_left_to_those_who_ask_for_them_until_there_are_no_others() {
    let addresses = ServiceAddresses::new("10.9.0.0/26".parse().expect("a range"));
    assert_eq!(addresses.ranges().dns().map(|dns| dns.to_string()).as_deref(), Some("10.9.0.10"));
    let mut given = Vec::new();
    for _ in 0..61 {
        let mut one = service("", "ClusterIP");
        addresses.allocate(&mut one, None).expect("there is room").keep();
        let address: std::net::Ipv4Addr =
            one["spec"]["clusterIP"].as_str().and_then(|text| text.parse().ok()).expect("an address");
        given.push(address.octets()[3]);
    }
    let low = |last: &u8| *last < 18;
    assert!(!given[..45].iter().any(low), "{given:?}");
    assert!(given[45..].iter().all(low), "{given:?}");
}

#[test]
fn wanted_addresses_are_given_or_refused_by_name() {
    let addresses = ServiceAddresses::new("10.9.0.0/24".parse().expect("a range"));
    addresses.allocate(&mut service("10.9.0.9", "ClusterIP"), None).expect("free").keep();
    let error = addresses.allocate(&mut service("10.9.0.9", "ClusterIP"), None).expect_err("taken");
    assert!(error.to_string().contains("already allocated"), "{error}");
    let error = addresses.allocate(&mut service("10.8.0.9", "ClusterIP"), None).expect_err("outside");
    assert!(error.to_string().contains("not in the valid range"), "{error}");
    for (wanted, kind) in [("None", "ClusterIP"), ("", "ExternalName")] {
        let mut one = service(wanted, kind);
        addresses.allocate(&mut one, None).expect("needs none");
        assert_eq!(one["spec"]["clusterIP"], wanted);
    }
}

#[test]
fn node_ports_are_given_kept_and_returned() {
    let addresses = ServiceAddresses::new("10.9.0.0/24".parse().expect("a range"));
    let mut one = service("", "NodePort");
    let allocation = addresses.allocate(&mut one, None).expect("room");
    let port = one["spec"]["ports"][0]["nodePort"].as_u64().expect("a port");
    assert!((30_000..=32_767).contains(&port));
    let mut again = one.clone();
    addresses.allocate(&mut again, Some(&one)).expect("keeps its own");
    assert_eq!(again, one);
    let mut other = service("", "NodePort");
    other["spec"]["ports"][0]["nodePort"] = json!(port);
    assert!(addresses.allocate(&mut other, None).is_err());
    drop(allocation);
    addresses.allocate(&mut other, None).expect("returned");
}

#[test]
fn a_range_that_is_used_up_says_so_and_what_to_do() {
    let addresses = ServiceAddresses::new("10.9.0.0/24".parse().expect("a range"));
    let ports: Vec<Value> = (0..2768).map(|port| json!({"port": port + 1})).collect();
    let mut all = json!({"spec": {"type": "NodePort", "ports": ports}});
    addresses.allocate(&mut all, None).expect("there is room").keep();
    let error = addresses.allocate(&mut service("", "NodePort"), None).expect_err("full").to_string();
    assert!(
        error.contains("spec.ports[0].nodePort") && error.contains("range 30000-32767 is full"),
        "{error}"
    );
    let mut without = service("", "LoadBalancer");
    without["spec"]["allocateLoadBalancerNodePorts"] = json!(false);
    addresses.allocate(&mut without, None).expect("it asks for none");
}

#[test]
fn node_ports_come_from_the_upper_part_until_it_is_full() {
    let addresses = ServiceAddresses::new("10.9.0.0/24".parse().expect("a range"));
    let given = |count: usize| {
        let mut one = json!({"spec": {"type": "NodePort", "ports": vec![json!({"port": 80}); count]}});
        addresses.allocate(&mut one, None).expect("there is room").keep();
        let ports = one["spec"]["ports"].as_array().cloned().unwrap_or_default();
        ports.iter().filter_map(|port| port["nodePort"].as_u64()).collect::<std::collections::BTreeSet<u64>>()
    };
    let upper = given(2768 - 86);
    assert_eq!((upper.len(), upper.first()), (2682, Some(&30_086)));
    assert_eq!(given(86).last(), Some(&30_085));
}

#[test]
fn a_balancer_that_keeps_to_its_nodes_has_a_port_for_health_checks_which_it_gives_back() {
    let addresses = ServiceAddresses::new("10.9.0.0/24".parse().expect("a range"));
    let mut one = service("", "LoadBalancer");
    one["spec"]["externalTrafficPolicy"] = json!("Local");
    addresses.allocate(&mut one, None).expect("room").keep();
    let port = one["spec"]["healthCheckNodePort"].as_u64().expect("a port");
    assert_ne!(one["spec"]["ports"][0]["nodePort"], json!(port));
    let mut again = one.clone();
    addresses.allocate(&mut again, Some(&one)).expect("keeps its own");
    assert_eq!(again, one);
    let mut other = service("", "NodePort");
    other["spec"]["ports"][0]["nodePort"] = json!(port);
    let error = addresses.allocate(&mut other, None).expect_err("taken").to_string();
    assert!(error.contains("provided port is already allocated"), "{error}");
    let mut plain = one.clone();
    plain["spec"]["externalTrafficPolicy"] = json!("Cluster");
    plain["spec"].as_object_mut().expect("a map").remove("healthCheckNodePort");
    addresses.replace(&one, &plain);
    addresses.allocate(&mut other, None).expect("returned");
}

#[test]
fn a_range_with_a_million_addresses_is_given_out_to_the_last_one() {
    let addresses = ServiceAddresses::new("10.0.0.0/12".parse().expect("a range"));
    let mut one = service("", "ClusterIP");
    for _ in 0..(1_u32 << 20) - 3 {
        // Without the object around it, which is no part of the search.
        free_address(&mut addresses.taken(), IpFamily::V4).expect("there is room");
    }
    assert!(addresses.allocate(&mut one, None).is_err());
}

fn of_both(ranges: &str) -> ServiceAddresses {
    ServiceAddresses::new(ranges.parse().expect("ranges"))
}

fn dual(cluster_ips: &[&str]) -> Value {
    json!({"spec": {"type": "ClusterIP", "ipFamilies": ["IPv4", "IPv6"], "clusterIPs": cluster_ips,
        "clusterIP": cluster_ips.first().unwrap_or(&""), "ports": [{"port": 80}]}})
}

fn addresses_of(service: &Value) -> Vec<&str> {
    service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn a_service_of_both_families_has_an_address_of_each_and_gives_back_the_one_that_it_loses() {
    let addresses = of_both("fd00::/124,10.9.0.0/28");
    assert_eq!(addresses.ranges().kubernetes().to_string(), "10.9.0.1");
    let mut one = dual(&[]);
    addresses.allocate(&mut one, None).expect("room").keep();
    let [v4, v6] = addresses_of(&one)[..] else { panic!("{one}") };
    assert!(v4.starts_with("10.9.0.") && v6.starts_with("fd00::"), "{one}");
    assert_eq!(one["spec"]["clusterIP"], v4);
    let mut again = one.clone();
    addresses.allocate(&mut again, Some(&one)).expect("keeps its own").keep();
    assert_eq!(again, one);
    let wanted = |address: &str| service(address, "ClusterIP");
    let error = addresses.allocate(&mut wanted(v6), None).expect_err("taken").to_string();
    assert_eq!(
        error,
        format!(
            "spec.clusterIPs: Invalid value: [\"{v6}\"]: failed to allocate IP {v6}: provided IP is already allocated"
        )
    );
    let mut less = one.clone();
    less["spec"]["ipFamilies"] = json!(["IPv4"]);
    less["spec"]["clusterIPs"] = json!([v4]);
    addresses.allocate(&mut less, Some(&one)).expect("nothing new").keep();
    assert!(addresses.allocate(&mut wanted(v6), None).is_err(), "until the new version is stored");
    addresses.replace(&one, &less);
    addresses.allocate(&mut wanted(v6), None).expect("given back");
    assert!(addresses.allocate(&mut wanted(v4), None).is_err(), "the other one stays");
    addresses.release_service(&less);
    addresses.allocate(&mut wanted(v4), None).expect("given back");
}

#[test]
fn what_a_failed_allocation_took_of_one_family_is_given_back_when_the_other_is_used_up() {
    let addresses = of_both("10.9.0.0/24,fd00::/124");
    for _ in 0..14 {
        addresses.allocate(&mut dual(&[]), None).expect("room").keep();
    }
    let taken = |addresses: &ServiceAddresses| {
        let mut taken = addresses.taken();
        let pool = taken.pool(IpFamily::V4).expect("there is one");
        (0..256).filter(|place| pool.places.has(*place)).count()
    };
    assert_eq!(taken(&addresses), 14);
    let error = addresses.allocate(&mut dual(&[]), None).expect_err("used up").to_string();
    assert!(error.contains("failed to allocate IP: range fd00::/124 is full; delete a service"), "{error}");
    let error =
        addresses.allocate(&mut dual(&["10.9.0.77", "fd01::1"]), None).expect_err("outside").to_string();
    assert!(error.contains("failed to allocate IP fd01::1: the provided IP (fd01::1) is not in the valid range. The range of valid IPs is fd00::/124"), "{error}");
    assert_eq!(taken(&addresses), 14, "nothing is lost");
    addresses.allocate(&mut service("", "ClusterIP"), None).expect("IPv4 is not used up");
}

#[test]
fn a_stored_address_of_no_range_is_told_and_harms_nothing() {
    let addresses = of_both("10.9.0.0/24");
    let stored = dual(&["10.9.0.9", "fd00::9"]);
    let outside: Vec<String> = addresses.note(&stored).iter().map(ToString::to_string).collect();
    assert_eq!(outside, ["fd00::9"]);
    assert!(addresses.allocate(&mut service("10.9.0.9", "ClusterIP"), None).is_err(), "it is noted");
    let mut again = stored.clone();
    addresses.allocate(&mut again, Some(&stored)).expect("it keeps what it has").keep();
    assert_eq!(again, stored);
    addresses.release_service(&stored);
    addresses.allocate(&mut service("10.9.0.9", "ClusterIP"), None).expect("given back");
}

#[test]
fn the_last_address_of_an_ipv6_range_is_one_and_the_lowest_are_left_to_those_who_ask() {
    let addresses = of_both("fd00::/122");
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..62 {
        let mut one = json!({"spec": {"type": "ClusterIP", "ipFamilies": ["IPv6"], "ports": [{"port": 80}]}});
        addresses.allocate(&mut one, None).expect("there is room").keep();
        let address: std::net::Ipv6Addr =
            one["spec"]["clusterIP"].as_str().and_then(|text| text.parse().ok()).expect("an address");
        let place = address.octets()[15];
        assert_eq!(place < 18, number >= 46, "{number}: {address}");
        seen.insert(place);
    }
    assert_eq!((seen.len(), seen.first(), seen.last()), (62, Some(&2), Some(&63)));
}

#[test]
fn an_address_stays_as_it_was_written() {
    let addresses = of_both("fd00::/112");
    let mut one = service("FD00:0::0A", "ClusterIP");
    addresses.allocate(&mut one, None).expect("room").keep();
    assert_eq!(addresses_of(&one), ["FD00:0::0A"]);
    assert!(addresses.allocate(&mut service("fd00::a", "ClusterIP"), None).is_err(), "it is the same one");
}
