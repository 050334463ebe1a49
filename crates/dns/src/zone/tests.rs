//! What each name of a small cluster is answered with, and that changes leave nothing behind.

use std::net::Ipv6Addr;

use hickory_proto::rr::RData;
use k8s_openapi::api::core::v1::PodIP;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

pub(crate) fn service(namespace: &str, name: &str, spec: Value) -> Service {
    let object = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
    serde_json::from_value(object).expect("a service")
}

/// A slice; endpoints are `ADDRESS[=HOST][!]`, the last for one that is not ready.
pub(crate) fn slice(namespace: &str, service: &str, name: &str, endpoints: &[&str]) -> EndpointSlice {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|endpoint| {
            let ready = !endpoint.ends_with('!');
            let text = endpoint.trim_end_matches('!');
            let (address, host) = text.split_once('=').unwrap_or((text, ""));
            let mut object = json!({"addresses": [address], "conditions": {"ready": ready}});
            if !host.is_empty() {
                object["hostname"] = host.into();
            }
            object
        })
        .collect();
    serde_json::from_value(json!({
        "metadata": {"namespace": namespace, "name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "db", "protocol": "TCP", "port": 5432}],
    }))
    .expect("a slice")
}

fn pod(namespace: &str, name: &str, address: &str, phase: &str) -> Pod {
    let object = json!({"metadata": {"namespace": namespace, "name": name},
        "status": {"phase": phase, "podIP": address, "podIPs": [{"ip": address}]}});
    serde_json::from_value(object).expect("a pod")
}

pub(crate) fn empty() -> Zone {
    let ranges = ["10.43.0.0/16", "10.131.32.0/20", "fd00:10:43::/112", "fd00:9::/62"]
        .map(|range| range.parse().expect("a range"));
    let mut zone = Zone::new("cluster.local", [10, 43, 0, 10].into(), ranges.into()).expect("a domain");
    zone.complete();
    zone
}

pub(crate) fn cluster() -> Zone {
    let mut zone = empty();
    let web = json!({"clusterIP": "10.43.0.7", "clusterIPs": ["10.43.0.7"], "ports": [
        {"name": "http", "port": 80}, {"name": "dns", "protocol": "UDP", "port": 53}, {"port": 9}]});
    zone.set_service(&service("shop", "web", web));
    zone.set_slice(&slice("shop", "web", "web-1", &["10.131.32.9=alice"]), None);
    zone.set_service(&service(
        "shop",
        "dual",
        json!({"clusterIPs": ["10.43.0.8", "fd00::8"], "ports": [{"port": 1}]}),
    ));
    zone.set_service(&service(
        "shop",
        "db",
        json!({"clusterIP": "None", "ports": [{"name": "db", "port": 5432}]}),
    ));
    zone.set_slice(
        &slice("shop", "db", "db-1", &["10.131.32.4=db-0", "10.131.32.5=db-1!", "10.131.32.6"]),
        None,
    );
    zone.set_service(&service("shop", "none", json!({"clusterIP": "None"})));
    let early = json!({"clusterIP": "None", "publishNotReadyAddresses": true});
    zone.set_service(&service("shop", "early", early));
    zone.set_slice(&slice("shop", "early", "early-1", &["10.131.32.7=early-0!"]), None);
    zone.set_service(&service(
        "shop",
        "out",
        json!({"type": "ExternalName", "externalName": "www.example.com"}),
    ));
    zone.set_service(&service(
        "shop",
        "number",
        json!({"type": "ExternalName", "externalName": "192.0.2.1"}),
    ));
    zone.set_pod(&pod("shop", "one", "10.131.32.4", "Running"), None);
    zone.set_pod(&pod("shop", "over", "10.131.32.11", "Succeeded"), None);
    zone
}

fn text(record: &Record) -> String {
    match &record.data {
        RData::SOA(_) => format!("SOA of {}", record.name),
        data => format!("{} {data}", record.record_type()),
    }
}

fn texts(records: &[Record]) -> String {
    let mut texts: Vec<String> = records.iter().map(text).collect();
    texts.sort();
    texts.join(", ")
}

fn found(zone: &Zone, question: &str) -> String {
    let (name, kind) = question.split_once(' ').expect("name and type");
    let name = Name::from_ascii(format!("{name}.")).expect("a name");
    match zone.look_up(&name, kind.parse().expect("a type")) {
        Found::Elsewhere => "elsewhere".to_owned(),
        Found::NotYet => "not yet".to_owned(),
        Found::NoName(authority) => format!("no name, {}", text(&authority)),
        Found::NoData(authority) => format!("no data, {}", text(&authority)),
        Found::Records(records, further) => {
            assert!(records.iter().all(|record| record.name == name && record.ttl == TTL), "{records:?}");
            let further = if further.is_empty() { String::new() } else { format!(" + {}", texts(&further)) };
            format!("{}{further}", texts(&records))
        }
        Found::Alias(record, target) => format!("{} -> {target}", text(&record)),
    }
}

const NO_NAME: &str = "no name, SOA of cluster.local.";
const NO_DATA: &str = "no data, SOA of cluster.local.";

fn check(zone: &Zone, rows: &[(&str, &str)]) {
    for (question, expected) in rows {
        assert_eq!(found(zone, question), *expected, "{question}");
    }
}

#[test]
fn a_service_has_its_addresses_its_ports_and_its_name_back() {
    check(
        &cluster(),
        &[
            ("web.shop.svc.cluster.local A", "A 10.43.0.7"),
            ("WEB.Shop.svc.CLUSTER.local A", "A 10.43.0.7"),
            ("web.shop.svc.cluster.local AAAA", NO_DATA),
            ("web.shop.svc.cluster.local MX", NO_DATA),
            ("dual.shop.svc.cluster.local A", "A 10.43.0.8"),
            ("dual.shop.svc.cluster.local AAAA", "AAAA fd00::8"),
            ("dual.shop.svc.cluster.local ANY", "A 10.43.0.8, AAAA fd00::8"),
            (
                "_http._tcp.web.shop.svc.cluster.local SRV",
                "SRV 0 100 80 web.shop.svc.cluster.local. + A 10.43.0.7",
            ),
            ("_http._tcp.web.shop.svc.cluster.local A", NO_DATA),
            ("_http._udp.web.shop.svc.cluster.local SRV", NO_NAME),
            (
                "_dns._udp.web.shop.svc.cluster.local SRV",
                "SRV 0 100 53 web.shop.svc.cluster.local. + A 10.43.0.7",
            ),
            ("_._tcp.web.shop.svc.cluster.local SRV", NO_NAME),
            ("_tcp.web.shop.svc.cluster.local SRV", NO_DATA),
            ("_sctp.web.shop.svc.cluster.local SRV", NO_NAME),
            (
                "web.shop.svc.cluster.local SRV",
                "SRV 0 33 53 web.shop.svc.cluster.local., SRV 0 33 80 web.shop.svc.cluster.local., \
                 SRV 0 33 9 web.shop.svc.cluster.local. + A 10.43.0.7",
            ),
            ("alice.web.shop.svc.cluster.local A", "A 10.131.32.9"),
            ("7.0.43.10.in-addr.arpa PTR", "PTR web.shop.svc.cluster.local."),
            ("7.0.43.10.in-addr.arpa A", "no data, SOA of 43.10.in-addr.arpa."),
            ("9.32.131.10.in-addr.arpa PTR", "no name, SOA of 32.131.10.in-addr.arpa."),
            (
                "8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa PTR",
                "PTR dual.shop.svc.cluster.local.",
            ),
        ],
    );
}

#[test]
fn a_headless_service_is_its_ready_endpoints() {
    check(
        &cluster(),
        &[
            ("db.shop.svc.cluster.local A", "A 10.131.32.4, A 10.131.32.6"),
            ("db.shop.svc.cluster.local AAAA", NO_DATA),
            ("db-0.db.shop.svc.cluster.local A", "A 10.131.32.4"),
            ("DB-0.db.shop.svc.cluster.local A", "A 10.131.32.4"),
            ("db-1.db.shop.svc.cluster.local A", NO_NAME),
            ("10-131-32-6.db.shop.svc.cluster.local A", "A 10.131.32.6"),
            (
                "_db._tcp.db.shop.svc.cluster.local SRV",
                "SRV 0 50 5432 10-131-32-6.db.shop.svc.cluster.local., SRV 0 50 5432 db-0.db.shop.svc.cluster.local. \
                 + A 10.131.32.4, A 10.131.32.6",
            ),
            ("4.32.131.10.in-addr.arpa PTR", "PTR db-0.db.shop.svc.cluster.local."),
            ("5.32.131.10.in-addr.arpa PTR", "no name, SOA of 32.131.10.in-addr.arpa."),
            // As the specification says: not even the name is there without an endpoint.
            ("none.shop.svc.cluster.local A", NO_NAME),
            ("_db._tcp.none.shop.svc.cluster.local SRV", NO_NAME),
            ("early.shop.svc.cluster.local A", "A 10.131.32.7"),
            ("early-0.early.shop.svc.cluster.local A", "A 10.131.32.7"),
        ],
    );
}

#[test]
fn an_external_name_is_an_alias() {
    check(
        &cluster(),
        &[
            ("out.shop.svc.cluster.local A", "CNAME www.example.com. -> www.example.com."),
            ("out.shop.svc.cluster.local CNAME", "CNAME www.example.com. -> www.example.com."),
            ("number.shop.svc.cluster.local A", NO_DATA),
            ("_http._tcp.out.shop.svc.cluster.local SRV", NO_NAME),
        ],
    );
}

#[test]
fn names_between_the_names_exist_and_others_do_not() {
    check(
        &cluster(),
        &[
            ("cluster.local SOA", "SOA of cluster.local."),
            ("cluster.local NS", "NS ns.dns.cluster.local."),
            ("cluster.local A", NO_DATA),
            ("ns.dns.cluster.local A", "A 10.43.0.10"),
            ("dns-version.cluster.local TXT", "TXT 1.1.0"),
            ("dns-version.cluster.local A", NO_DATA),
            ("svc.cluster.local A", NO_DATA),
            ("shop.svc.cluster.local A", NO_DATA),
            ("nobody.svc.cluster.local A", NO_NAME),
            ("web.nobody.svc.cluster.local A", NO_NAME),
            ("nothing.shop.svc.cluster.local A", NO_NAME),
            ("x.y.z.web.shop.svc.cluster.local A", NO_NAME),
            ("example.com.shop.svc.cluster.local A", NO_NAME),
            ("web.shop.cluster.local A", NO_NAME),
            ("web.shop.svc.cluster.localx A", "elsewhere"),
            ("local A", "elsewhere"),
            ("xcluster.local A", "elsewhere"),
            ("example.com A", "elsewhere"),
        ],
    );
}

#[test]
fn a_pod_has_a_name_of_its_address_while_it_exists() {
    check(
        &cluster(),
        &[
            ("10-131-32-4.shop.pod.cluster.local A", "A 10.131.32.4"),
            ("10-131-32-4.shop.pod.cluster.local AAAA", NO_DATA),
            ("10-131-32-4.other.pod.cluster.local A", NO_NAME),
            ("10-131-32-11.shop.pod.cluster.local A", NO_NAME),
            ("10-131-32-99.shop.pod.cluster.local A", NO_NAME),
            ("one.shop.pod.cluster.local A", NO_NAME),
            ("shop.pod.cluster.local A", NO_DATA),
            ("pod.cluster.local A", NO_DATA),
        ],
    );
}

#[test]
fn names_lead_to_the_addresses_of_both_families() {
    let mut zone = empty();
    let ports = json!([{"name": "http", "port": 80}]);
    let both = json!({"clusterIP": "fd00::8", "clusterIPs": ["fd00::8", "10.43.0.8"], "ports": ports});
    zone.set_service(&service("shop", "web", both));
    zone.set_service(&service("shop", "six", json!({"clusterIP": "fd00::9", "ports": ports})));
    zone.set_service(&service(
        "shop",
        "db",
        json!({"clusterIP": "None", "ports": [{"name": "db", "port": 5432}]}),
    ));
    zone.set_slice(&slice("shop", "db", "db-1", &["10.131.32.4=db-0", "10.131.32.5"]), None);
    zone.set_slice(&slice("shop", "db", "db-2", &["fd00:1::4=db-0", "fd00:1::5"]), None);
    let mut running = pod("shop", "one", "10.131.32.4", "Running");
    let status = running.status.as_mut().expect("a status");
    status.pod_ips.get_or_insert_default().push(PodIP { ip: "fd00:1::4".to_owned() });
    zone.set_pod(&running, None);
    check(
        &zone,
        &[
            ("web.shop.svc.cluster.local A", "A 10.43.0.8"),
            ("web.shop.svc.cluster.local AAAA", "AAAA fd00::8"),
            ("web.shop.svc.cluster.local ANY", "A 10.43.0.8, AAAA fd00::8"),
            (
                "_http._tcp.web.shop.svc.cluster.local SRV",
                "SRV 0 100 80 web.shop.svc.cluster.local. + A 10.43.0.8, AAAA fd00::8",
            ),
            ("six.shop.svc.cluster.local A", NO_DATA),
            ("six.shop.svc.cluster.local AAAA", "AAAA fd00::9"),
            ("db.shop.svc.cluster.local A", "A 10.131.32.4, A 10.131.32.5"),
            ("db.shop.svc.cluster.local AAAA", "AAAA fd00:1::4, AAAA fd00:1::5"),
            ("db-0.db.shop.svc.cluster.local A", "A 10.131.32.4"),
            ("db-0.db.shop.svc.cluster.local AAAA", "AAAA fd00:1::4"),
            ("fd00-1--5.db.shop.svc.cluster.local AAAA", "AAAA fd00:1::5"),
            (
                "_db._tcp.db.shop.svc.cluster.local SRV",
                "SRV 0 33 5432 10-131-32-5.db.shop.svc.cluster.local., SRV 0 33 5432 db-0.db.shop.svc.cluster.local., \
                 SRV 0 33 5432 fd00-1--5.db.shop.svc.cluster.local. \
                 + A 10.131.32.4, A 10.131.32.5, AAAA fd00:1::4, AAAA fd00:1::5",
            ),
            ("fd00-1--4.shop.pod.cluster.local AAAA", "AAAA fd00:1::4"),
            ("fd00-1--4.shop.pod.cluster.local A", NO_DATA),
            ("fd00-1--5.shop.pod.cluster.local AAAA", NO_NAME),
            (&format!("{} PTR", reverse("fd00::8")), "PTR web.shop.svc.cluster.local."),
            (&format!("{} PTR", reverse("fd00:1::4")), "PTR db-0.db.shop.svc.cluster.local."),
            (&format!("{} PTR", reverse("fd00:1::5")), "PTR fd00-1--5.db.shop.svc.cluster.local."),
            ("8.0.43.10.in-addr.arpa PTR", "PTR web.shop.svc.cluster.local."),
        ],
    );
    zone.remove_pod(&running);
    zone.remove_slice(&slice("shop", "db", "db-2", &[]));
    check(
        &zone,
        &[
            ("db-0.db.shop.svc.cluster.local AAAA", NO_DATA),
            ("fd00-1--4.shop.pod.cluster.local AAAA", NO_NAME),
            (&format!("{} PTR", reverse("fd00:1::5")), "elsewhere"),
            ("db-0.db.shop.svc.cluster.local A", "A 10.131.32.4"),
        ],
    );
}

/// The name under which an address is looked back.
fn reverse(address: &str) -> String {
    let address: Ipv6Addr = address.parse().expect("an address");
    let digits = address.octets().into_iter().flat_map(|octet| [octet >> 4, octet & 15]);
    let mut labels: Vec<String> = digits.map(|digit| format!("{digit:x}")).collect();
    labels.reverse();
    format!("{}.ip6.arpa", labels.join("."))
}

#[test]
fn reverse_names_of_the_clusters_ranges_are_nobody_elses() {
    check(
        &cluster(),
        &[
            ("200.0.43.10.in-addr.arpa PTR", "no name, SOA of 43.10.in-addr.arpa."),
            ("0.43.10.in-addr.arpa PTR", "no data, SOA of 43.10.in-addr.arpa."),
            ("43.10.in-addr.arpa PTR", "no data, SOA of 43.10.in-addr.arpa."),
            ("10.in-addr.arpa PTR", "elsewhere"),
            ("1.40.131.10.in-addr.arpa PTR", "no name, SOA of 40.131.10.in-addr.arpa."),
            ("1.48.131.10.in-addr.arpa PTR", "elsewhere"),
            ("007.0.43.10.in-addr.arpa PTR", "elsewhere"),
            ("1.2.0.43.10.in-addr.arpa PTR", "elsewhere"),
            ("300.0.43.10.in-addr.arpa PTR", "elsewhere"),
            ("1.0.0.127.in-addr.arpa PTR", "elsewhere"),
        ],
    );
}

#[test]
fn reverse_names_of_the_clusters_ipv6_ranges_are_nobody_elses() {
    let mut zone = empty();
    zone.set_service(&service("shop", "six", json!({"clusterIP": "fd00:10:43::7"})));
    let services = "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.4.0.0.0.1.0.0.0.0.d.f.ip6.arpa";
    check(
        &zone,
        &[
            (&format!("{} PTR", reverse("fd00:10:43::7")), "PTR six.shop.svc.cluster.local."),
            (&format!("{} AAAA", reverse("fd00:10:43::7")), &format!("no data, SOA of {services}.")),
            (&format!("{} PTR", reverse("fd00:10:43::8")), &format!("no name, SOA of {services}.")),
            (&format!("{services} PTR"), &format!("no data, SOA of {services}.")),
            (&format!("1.{services} PTR"), &format!("no data, SOA of {services}.")),
            (&format!("{} PTR", &services[2..]), "elsewhere"),
            (&format!("{} PTR", reverse("fd00:10:44::7")), "elsewhere"),
            // Of a range that ends between two labels, the next one is asked for.
            (
                &format!("{} PTR", reverse("fd00:9:0:3::1")),
                "no name, SOA of 3.0.0.0.0.0.0.0.9.0.0.0.0.0.d.f.ip6.arpa.",
            ),
            (&format!("{} PTR", reverse("fd00:9:0:4::1")), "elsewhere"),
            ("g.0.d.f.ip6.arpa PTR", "elsewhere"),
            ("10.0.d.f.ip6.arpa PTR", "elsewhere"),
            ("ip6.arpa PTR", "elsewhere"),
            (&format!("0.{} PTR", reverse("fd00:10:43::7")), "elsewhere"),
        ],
    );
}

#[test]
fn nothing_is_said_to_be_missing_before_everything_is_known() {
    let zone =
        Zone::new("cluster.local.", [10, 43, 0, 10].into(), vec!["10.43.0.0/16".parse().expect("a range")]);
    check(
        &zone.expect("a domain"),
        &[
            ("web.shop.svc.cluster.local A", "not yet"),
            ("7.0.43.10.in-addr.arpa PTR", "not yet"),
            ("example.com A", "elsewhere"),
        ],
    );
}

#[test]
fn domains_of_other_lengths_hold_the_same_names() {
    for domain in ["local", "A.b.c.example.org"] {
        let mut zone = Zone::new(domain, [10, 43, 0, 10].into(), Vec::new()).expect("a domain");
        zone.complete();
        zone.set_service(&service("n", "s", json!({"clusterIP": "10.43.0.1"})));
        assert_eq!(found(&zone, &format!("s.n.svc.{domain} A")), "A 10.43.0.1");
    }
    for wrong in ["", ".", "a..b", &"x".repeat(64), &"abcdefghi.".repeat(11)] {
        assert!(Zone::new(wrong, [10, 43, 0, 10].into(), Vec::new()).is_err(), "{wrong}");
    }
}

#[test]
fn changes_are_seen_at_once_and_leave_nothing_behind() {
    let mut zone = empty();
    let none = |zone: &Zone| zone.namespaces.is_empty() && zone.reverse.is_empty() && zone.pods.is_empty();
    let db = service("shop", "db", json!({"clusterIP": "None"}));
    // A slice may come before its service.
    let first = slice("shop", "db", "db-1", &["10.131.32.4=db-0"]);
    zone.set_slice(&first, None);
    check(&zone, &[("db.shop.svc.cluster.local A", NO_NAME), ("db-0.db.shop.svc.cluster.local A", NO_NAME)]);
    zone.set_service(&db);
    check(
        &zone,
        &[
            ("db.shop.svc.cluster.local A", "A 10.131.32.4"),
            ("4.32.131.10.in-addr.arpa PTR", "PTR db-0.db.shop.svc.cluster.local."),
        ],
    );
    let second = slice("shop", "db", "db-1", &["10.131.32.5=db-0"]);
    zone.set_slice(&second, Some(&first));
    check(
        &zone,
        &[
            ("db.shop.svc.cluster.local A", "A 10.131.32.5"),
            ("4.32.131.10.in-addr.arpa PTR", "no name, SOA of 32.131.10.in-addr.arpa."),
            ("5.32.131.10.in-addr.arpa PTR", "PTR db-0.db.shop.svc.cluster.local."),
        ],
    );
    // The service gets an address of its own.
    zone.set_service(&service("shop", "db", json!({"clusterIP": "10.43.0.9"})));
    check(
        &zone,
        &[
            ("db.shop.svc.cluster.local A", "A 10.43.0.9"),
            ("9.0.43.10.in-addr.arpa PTR", "PTR db.shop.svc.cluster.local."),
            ("5.32.131.10.in-addr.arpa PTR", "no name, SOA of 32.131.10.in-addr.arpa."),
        ],
    );
    // The slice belongs to another service now.
    let third = slice("shop", "other", "db-1", &["10.131.32.5=db-0"]);
    zone.set_slice(&third, Some(&second));
    check(&zone, &[("db-0.db.shop.svc.cluster.local A", NO_NAME)]);
    zone.remove_service(&db);
    zone.remove_slice(&third);
    assert!(none(&zone), "{zone:?}");

    let (one, two) =
        (pod("shop", "one", "10.131.32.4", "Running"), pod("shop", "two", "10.131.32.4", "Running"));
    zone.set_pod(&one, None);
    zone.set_pod(&two, None);
    zone.set_pod(&one, Some(&one));
    zone.remove_pod(&one);
    check(&zone, &[("10-131-32-4.shop.pod.cluster.local A", "A 10.131.32.4")]);
    zone.set_pod(&pod("shop", "two", "10.131.32.4", "Failed"), Some(&two));
    assert!(none(&zone), "{zone:?}");
}

#[test]
fn a_change_among_ten_thousand_services_costs_what_it_costs_among_ten() {
    let mut zone = empty();
    for number in 0..10_000_u32 {
        let address = std::net::Ipv4Addr::from(0x0a2b_0000 + number);
        zone.set_service(&service("shop", &format!("s{number}"), json!({"clusterIP": address.to_string()})));
    }
    assert_eq!(found(&zone, "s9999.shop.svc.cluster.local A"), "A 10.43.39.15");
    assert_eq!(found(&zone, "15.39.43.10.in-addr.arpa PTR"), "PTR s9999.shop.svc.cluster.local.");
    zone.remove_service(&service("shop", "s9999", json!({})));
    assert_eq!(found(&zone, "s9999.shop.svc.cluster.local A"), NO_NAME);
    assert_eq!(zone.reverse.len(), 9_999);
}

/// A step of a history: which service or slice, and what becomes of it.
#[derive(Clone, Debug)]
enum Step {
    Service(u8, Option<&'static str>),
    Slice(u8, u8, Option<Vec<u8>>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let address = prop_oneof![Just("None"), Just("10.43.0.1"), Just("10.43.0.2")];
    let step = prop_oneof![
        (0..3_u8, proptest::option::of(address))
            .prop_map(|(service, address)| Step::Service(service, address)),
        (0..3_u8, 0..3_u8, proptest::option::of(proptest::collection::vec(1..6_u8, 0..4)))
            .prop_map(|(slice, service, endpoints)| Step::Slice(slice, service, endpoints)),
    ];
    proptest::collection::vec(step, 0..30)
}

proptest! {
    /// However it came about, a zone is what it would be if it were made anew from what there is.
    #[test]
    fn a_zone_that_changed_is_one_that_is_made_anew(steps in steps()) {
        let mut zone = empty();
        let mut services: BTreeMap<u8, Service> = BTreeMap::new();
        let mut slices: BTreeMap<u8, EndpointSlice> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Service(number, Some(address)) => {
                    let one = service("shop", &format!("s{number}"), json!({"clusterIP": address}));
                    zone.set_service(&one);
                    services.insert(number, one);
                }
                Step::Service(number, None) => {
                    if let Some(one) = services.remove(&number) {
                        zone.remove_service(&one);
                    }
                }
                Step::Slice(number, of, Some(endpoints)) => {
                    let endpoints: Vec<String> =
                        endpoints.iter().map(|last| format!("10.131.32.{last}=h{last}")).collect();
                    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
                    let one = slice("shop", &format!("s{of}"), &format!("slice{number}"), &endpoints);
                    zone.set_slice(&one, slices.get(&number));
                    slices.insert(number, one);
                }
                Step::Slice(number, _, None) => {
                    if let Some(one) = slices.remove(&number) {
                        zone.remove_slice(&one);
                    }
                }
            }
        }
        let mut anew = empty();
        slices.values().for_each(|slice| anew.set_slice(slice, None));
        services.values().for_each(|service| anew.set_service(service));
        let mut questions: Vec<String> = (0..3).flat_map(|service| {
            let name = format!("s{service}.shop.svc.cluster.local");
            let hosts = (1..6).map(|last| format!("h{last}.s{service}.shop.svc.cluster.local A")).collect::<Vec<_>>();
            [format!("{name} A"), format!("_db._tcp.{name} SRV")].into_iter().chain(hosts)
        }).collect();
        questions.extend((1..6).map(|last| format!("{last}.32.131.10.in-addr.arpa PTR")));
        questions.extend((1..3).map(|last| format!("{last}.0.43.10.in-addr.arpa PTR")));
        for question in questions {
            prop_assert_eq!(found(&zone, &question), found(&anew, &question), "{}", question);
        }
        prop_assert_eq!(zone.reverse.len(), anew.reverse.len());
        prop_assert_eq!(zone.namespaces.len(), anew.namespaces.len());
    }
}
