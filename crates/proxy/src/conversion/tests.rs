//! Services and slices as people write them, and the routes that follow.

use serde_json::{Value, json};

use super::*;

fn slice(name: &str, ports: Value, endpoints: Value) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns"}, "addressType": "IPv4", "ports": ports, "endpoints": endpoints,
    }))
    .expect("a slice")
}

fn service(spec: Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": spec}))
        .expect("a service")
}

/// The backends of each port, and those of the node `here` if others: `NAME PORT/PROTOCOL: BACKENDS [| BACKENDS]`.
fn shown(service: &Service, slices: &[EndpointSlice]) -> Vec<String> {
    let list =
        |backends: &[SocketAddr]| backends.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let each = |port: ServicePort| {
        let mut text = format!("{} {}/{:?}: {}", port.name, port.port, port.protocol, list(&port.backends));
        if port.local_backends != port.backends {
            text += &format!(" | {}", list(&port.local_backends));
        }
        text
    };
    service_ports(service, slices.iter(), "here").into_iter().map(each).collect()
}

fn simple() -> Service {
    service(json!({"clusterIP": "10.43.0.7", "clusterIPs": ["10.43.0.7"], "ports": [{"port": 80}]}))
}

#[test]
fn who_is_ready_gets_connections_and_if_nobody_is_who_ends_and_still_answers() {
    let cases = [
        ("ready", json!({"ready": true}), true),
        ("nothing is said", json!({}), true),
        ("not ready", json!({"ready": false}), false),
        ("ends and answers", json!({"ready": false, "serving": true, "terminating": true}), true),
        ("ends and does not answer", json!({"ready": false, "serving": false, "terminating": true}), false),
        // The service wants addresses published in any case.
        ("ends and is called ready", json!({"ready": true, "serving": false, "terminating": true}), true),
    ];
    for (what, conditions, gets) in cases {
        let one = json!([{"addresses": ["10.128.0.2"], "nodeName": "here", "conditions": conditions}]);
        let shown_alone = shown(&simple(), &[slice("a", json!([{"name": "", "port": 8080}]), one)]);
        let expected = if gets { "ns/web 80/Tcp: 10.128.0.2:8080" } else { "ns/web 80/Tcp: " };
        assert_eq!(shown_alone, [expected], "{what}");
    }
    let both = json!([
        {"addresses": ["10.128.0.2"], "nodeName": "here", "conditions": {"ready": false, "serving": true, "terminating": true}},
        {"addresses": ["10.128.0.3"], "nodeName": "there", "conditions": {"ready": true}},
    ]);
    assert_eq!(
        shown(&simple(), &[slice("a", json!([{"port": 8080}]), both)]),
        ["ns/web 80/Tcp: 10.128.0.3:8080 | 10.128.0.2:8080"],
        "on this node there is nobody better than the one that ends"
    );
}

#[test]
fn ports_are_found_by_name_and_protocol_over_all_slices() {
    let two = service(json!({"clusterIP": "10.43.0.7", "ports": [
        {"name": "http", "port": 80, "targetPort": "web"},
        {"name": "names", "port": 53, "protocol": "UDP"},
        {"name": "none", "port": 99},
    ]}));
    let here = |address: &str| json!([{"addresses": [address], "nodeName": "here"}]);
    let slices = [
        slice(
            "a",
            json!([{"name": "http", "port": 8080}, {"name": "names", "port": 5353, "protocol": "UDP"}]),
            here("10.128.0.2"),
        ),
        slice(
            "b",
            json!([{"name": "http", "port": 9090}, {"name": "names", "port": 5353, "protocol": "TCP"}]),
            here("10.128.0.3"),
        ),
        slice("c", json!([{"name": "http", "port": 8080}, {"name": "none"}]), here("10.128.0.2")),
    ];
    assert_eq!(
        shown(&two, &slices),
        [
            "ns/web:http 80/Tcp: 10.128.0.2:8080 10.128.0.3:9090",
            "ns/web:names 53/Udp: 10.128.0.2:5353",
            "ns/web:none 99/Tcp: ",
        ]
    );
}

#[test]
fn services_without_addresses_and_those_of_other_proxies_are_left_alone() {
    for spec in [
        json!({"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"port": 80}]}),
        json!({"type": "ExternalName", "externalName": "example.com", "ports": [{"port": 80}]}),
        json!({"clusterIP": "", "ports": [{"port": 80}]}),
        json!({"clusterIP": "10.43.0.7"}),
    ] {
        assert_eq!(shown(&service(spec.clone()), &[]), Vec::<String>::new(), "{spec}");
    }
    for label in NOT_OURS {
        let mut other = simple();
        other.metadata.labels = Some(BTreeMap::from([(label.to_owned(), String::new())]));
        assert_eq!(shown(&other, &[]), Vec::<String>::new(), "{label}");
    }
}

#[test]
fn addresses_that_only_the_machine_reaches_are_no_backends() {
    let endpoints: Vec<Value> = [
        "127.0.0.1",
        "169.254.169.254",
        "fd00::1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "x",
        "10.128.0.2",
    ]
    .iter()
    .map(|address| json!({"addresses": [address], "nodeName": "here"}))
    .collect();
    let slice = slice("a", json!([{"port": 80}]), Value::Array(endpoints));
    assert_eq!(shown(&simple(), &[slice]), ["ns/web 80/Tcp: 10.128.0.2:80"]);
    let six: EndpointSlice = serde_json::from_value(json!({
        "addressType": "IPv6", "ports": [{"port": 80}], "endpoints": [
            {"addresses": ["::1"]}, {"addresses": ["::"]}, {"addresses": ["fe80::1"]}, {"addresses": ["ff02::1"]},
            {"addresses": ["::ffff:127.0.0.1"]}, {"addresses": ["fd00:ec2::254"]}, {"addresses": ["10.128.0.2"]},
            {"addresses": ["fd12::2"]},
        ],
    }))
    .expect("a slice");
    assert_eq!(shown(&simple(), std::slice::from_ref(&six)), ["ns/web 80/Tcp: "], "a service of IPv4");
    let of_six = service(json!({"clusterIP": "fd43::7", "clusterIPs": ["fd43::7"], "ports": [{"port": 80}]}));
    assert_eq!(shown(&of_six, &[six]), ["ns/web 80/Tcp: [fd12::2]:80 | "]);
}

#[test]
fn a_service_of_both_families_has_each_port_once_for_each() {
    let both = service(json!({
        "type": "NodePort", "clusterIP": "10.43.0.7", "clusterIPs": ["10.43.0.7", "fd43::7"],
        "externalIPs": ["2001:db8::9", "203.0.113.9"], "ports": [{"name": "http", "port": 80, "nodePort": 30080}],
    }));
    let port = json!([{"name": "http", "port": 8080}]);
    let four = slice("a", port.clone(), json!([{"addresses": ["10.128.0.2"], "nodeName": "here"}]));
    let mut six = slice("b", port, json!([{"addresses": ["fd12::2"], "nodeName": "here"}]));
    six.address_type = "IPv6".to_owned();
    let slices = [six, four];
    assert_eq!(
        shown(&both, &slices),
        ["ns/web:http 80/Tcp: 10.128.0.2:8080", "ns/web:http 80/Tcp: [fd12::2]:8080"]
    );
    let ports = service_ports(&both, slices.iter(), "here");
    let texts = |addresses: &[IpAddr]| addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (port, family, own, external) in [
        (&ports[0], Family::V4, "10.43.0.7", "203.0.113.9"),
        (&ports[1], Family::V6, "fd43::7", "2001:db8::9"),
    ] {
        assert_eq!((port.family, port.node_port), (family, Some(30080)));
        assert_eq!(
            (texts(&port.cluster_addresses), texts(&port.external_addresses)),
            (vec![own.to_owned()], vec![external.to_owned()])
        );
    }
}

#[test]
fn the_ways_in_and_their_rules_follow_from_the_service() {
    let ports = |spec: Value, status: Value| {
        let whole = json!({"metadata": {"name": "web", "namespace": "ns"}, "spec": spec, "status": status});
        let service: Service = serde_json::from_value(whole).expect("a service");
        service_ports(&service, std::iter::empty(), "here").remove(0)
    };
    let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
    let ingress = json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.5"}, {"ip": "203.0.113.6", "ipMode": "Proxy"}, {"hostname": "x"}]}});
    let whole = ports(
        json!({
            "type": "LoadBalancer", "clusterIP": "10.43.0.7", "clusterIPs": ["10.43.0.7", "fd00::7"],
            "ports": [{"port": 80, "nodePort": 30080}], "externalIPs": ["203.0.113.9", "127.0.0.1"],
            "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
            "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local",
        }),
        ingress.clone(),
    );
    assert_eq!(whole.cluster_addresses, [address("10.43.0.7")]);
    assert_eq!(whole.external_addresses, [address("203.0.113.5"), address("203.0.113.9")]);
    assert_eq!((whole.node_port, whole.affinity_seconds), (Some(30080), Some(60)));
    assert_eq!((whole.internal_policy, whole.external_policy), (TrafficPolicy::Local, TrafficPolicy::Local));

    let plain = ports(
        json!({"type": "ClusterIP", "clusterIP": "10.43.0.7", "ports": [{"port": 80, "nodePort": 30080}], "sessionAffinity": "ClientIP"}),
        ingress.clone(),
    );
    assert_eq!(
        (plain.node_port, plain.affinity_seconds),
        (None, Some(10_800)),
        "no node port without that type"
    );
    assert!(plain.external_addresses.is_empty(), "without that type");
    assert_eq!(
        (plain.internal_policy, plain.external_policy),
        (TrafficPolicy::Cluster, TrafficPolicy::Cluster)
    );

    let closed = ports(
        json!({"type": "LoadBalancer", "clusterIP": "10.43.0.7", "ports": [{"port": 80}], "loadBalancerSourceRanges": ["198.51.100.0/24"]}),
        ingress,
    );
    assert!(closed.external_addresses.is_empty(), "what only some may use is not opened for all");
}
