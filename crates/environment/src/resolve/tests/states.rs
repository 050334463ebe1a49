//! Order, origin, what is hidden, and values that are secret or not known yet.

use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use super::{codes, complete, config_map, errors, lines, on_node, pod_with, pod_with_env, resolved, secret};
use crate::{
    Availability, ClusterAddress, PortSource, ReferenceTarget, Reveal, ServiceSource, Services, Sources,
    State, containers, resolve,
};

#[test]
fn the_order_is_services_then_env_from_then_env_each_name_at_the_place_of_the_winner() {
    let services = json!([
        {"namespace": "ns1", "name": "zeta", "clusterIP": "10.0.0.2", "ports": []},
        {"namespace": "ns1", "name": "alpha", "clusterIP": "10.0.0.1", "ports": []},
    ]);
    let mut sources = Sources { services: complete(services), ..on_node() };
    sources.config_maps.insert("cm".to_owned(), config_map(&[("b", "1"), ("B", "2"), ("a", "3")]));
    sources.secrets.insert("s".to_owned(), secret(&[("a", "secret")]));
    let pod = pod_with(json!({
        "envFrom": [{"configMapRef": {"name": "cm"}}, {"secretRef": {"name": "s"}}],
        "env": [
            {"name": "Z", "value": "1"},
            {"name": "ZETA_SERVICE_HOST", "value": "mine"},
            {"name": "b", "value": "[$(b)]"},
            {"name": "Z", "value": "$(Z)2"},
        ],
    }));
    let resolved = resolved(&pod, &sources);
    assert_eq!(errors(&resolved), [""; 0]);
    assert_eq!(
        lines(&resolved),
        ["ALPHA_SERVICE_HOST=10.0.0.1", "B=2", "a=****", "ZETA_SERVICE_HOST=mine", "b=[1]", "Z=12"]
    );
    let environment = &resolved.resolution.environment;
    let told = |name: &str| {
        let entry = environment.get(name).expect("defined");
        let shadowed: Vec<_> = entry.shadowed.iter().map(|shadowed| shadowed.origin.to_string()).collect();
        format!("{} hides {}", entry.origin, shadowed.join(", "))
    };
    assert_eq!(told("a"), "envFrom[1] secret s key a @8 hides envFrom[0] configMap cm key a @7");
    assert_eq!(told("ZETA_SERVICE_HOST"), "env[1] value hides service zeta");
    assert_eq!(told("Z"), "env[3] value hides env[0] value");
    assert_eq!(told("b"), "env[2] value hides envFrom[0] configMap cm key b @7");
}

#[test]
fn a_service_of_both_families_is_told_by_its_first_address_and_one_of_ipv6_stands_in_brackets_in_urls() {
    let of = |first: &str, other: &str| {
        let service = json!({"metadata": {"namespace": "ns1", "name": "web"}, "spec": {
            "clusterIP": first, "clusterIPs": [first, other],
            "ports": [{"name": "http", "port": 80}, {"port": 53, "protocol": "UDP"}]}});
        let service: Service = serde_json::from_value(service).expect("a service");
        let services = Services::Complete(vec![ServiceSource::from_live(&service).into()]);
        lines(&resolved(&pod_with(json!({})), &Sources { services, ..on_node() }))
    };
    let expected = |host: &str, in_url: &str| {
        [
            format!("WEB_SERVICE_HOST={host}"),
            "WEB_SERVICE_PORT=80".to_owned(),
            "WEB_SERVICE_PORT_HTTP=80".to_owned(),
            format!("WEB_PORT=tcp://{in_url}:80"),
            format!("WEB_PORT_80_TCP=tcp://{in_url}:80"),
            "WEB_PORT_80_TCP_PROTO=tcp".to_owned(),
            "WEB_PORT_80_TCP_PORT=80".to_owned(),
            format!("WEB_PORT_80_TCP_ADDR={host}"),
            format!("WEB_PORT_53_UDP=udp://{in_url}:53"),
            "WEB_PORT_53_UDP_PROTO=udp".to_owned(),
            "WEB_PORT_53_UDP_PORT=53".to_owned(),
            format!("WEB_PORT_53_UDP_ADDR={host}"),
        ]
    };
    assert_eq!(of("fd00::1", "10.43.0.7"), expected("fd00::1", "[fd00::1]"));
    assert_eq!(of("10.43.0.7", "fd00::1"), expected("10.43.0.7", "10.43.0.7"));
}

#[test]
fn of_several_hidden_definitions_the_strongest_comes_first() {
    let services = json!([{"namespace": "ns1", "name": "x", "clusterIP": "10.0.0.2", "ports": []}]);
    let mut sources = Sources { services: complete(services), ..on_node() };
    sources.config_maps.insert("cm".to_owned(), config_map(&[("X_SERVICE_HOST", "cm")]));
    let entry = |value: &str| json!({"name": "X_SERVICE_HOST", "value": value});
    let pod = pod_with(json!({
        "envFrom": [{"configMapRef": {"name": "cm"}}],
        "env": [entry("1"), entry("2"), entry("3")],
    }));
    let resolved = resolved(&pod, &sources);
    let entry = &resolved.resolution.environment.entries()[0];
    let hidden: Vec<_> =
        entry.shadowed.iter().map(|shadowed| shadowed.value.display(Reveal::Nothing)).collect();
    assert_eq!(hidden, ["2", "1", "cm", "10.0.0.2"]);
}

#[test]
fn references_tell_what_they_found() {
    let services = json!([{"namespace": "ns1", "name": "db", "clusterIP": "10.0.0.1", "ports": []}]);
    let sources = Sources { services: complete(services), ..on_node() };
    let env = json!([{"name": "A", "value": "1"}, {"name": "X", "value": "$(A)$(DB_SERVICE_HOST)$(NOPE)"}]);
    let resolved = resolved(&pod_with_env(env), &sources);
    let entry = resolved.resolution.environment.get("X").expect("defined");
    let found: Vec<_> = entry
        .references
        .iter()
        .map(|reference| match &reference.target {
            ReferenceTarget::Resolved(origin) => format!("{} {:?} {origin}", reference.name, reference.span),
            ReferenceTarget::Undecided => format!("{} undecided", reference.name),
            ReferenceTarget::Unresolved => format!("{} unresolved", reference.name),
        })
        .collect();
    assert_eq!(found, ["A 0..4 env[0] value", "DB_SERVICE_HOST 4..22 service db", "NOPE unresolved"]);
}

#[test]
fn secrets_stay_masked_through_references_and_arguments() {
    let mut sources = on_node();
    sources.secrets.insert("s".to_owned(), secret(&[("password", "hunter2")]));
    let pod = pod_with(json!({
        "env": [
            {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
            {"name": "URL", "value": "postgres://app:$(PASSWORD)@10.43.0.7"},
            {"name": "TWICE", "value": "$(URL)"},
        ],
        "command": ["connect", "--to=$(TWICE)"],
    }));
    let resolved = resolved(&pod, &sources);
    assert_eq!(
        lines(&resolved),
        ["PASSWORD=****", "URL=postgres://app:****@10.43.0.7", "TWICE=postgres://app:****@10.43.0.7"]
    );
    assert!(resolved.resolution.environment.entries().iter().all(|entry| entry.state() == State::Masked));
    let command = resolved.resolution.command.as_ref().expect("a command");
    assert_eq!(command[1].value.display(Reveal::Nothing), "--to=postgres://app:****@10.43.0.7");
    assert_eq!(command[1].value.shown(Reveal::Nothing), None);
    assert_eq!(command[1].value.exposed().as_deref(), Some("--to=postgres://app:hunter2@10.43.0.7"));
    let shown = resolved.resolution.environment.entries()[1].value.shown(Reveal::Secrets);
    assert_eq!(shown.as_deref(), Some("postgres://app:hunter2@10.43.0.7"));
    assert!(!format!("{resolved:?}").contains("hunter2"));
}

#[test]
fn what_is_not_known_yet_is_shown_by_name() {
    let service = ServiceSource {
        namespace: "ns1".into(),
        name: "gitserver".into(),
        cluster_address: ClusterAddress::NotYetAllocated,
        ports: vec![PortSource { name: String::new(), port: 80, protocol: "TCP".to_owned() }],
    };
    let sources = Sources { services: Services::Partial(vec![service.into()]), ..Sources::of_files() };
    let mut pod = pod_with_env(json!([
        {"name": "URL", "value": "http://$(GITSERVER_SERVICE_HOST):$(GITSERVER_SERVICE_PORT)"},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LISTEN", "value": "$(IP):8080"},
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "ACCOUNT", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    ]));
    pod.metadata.name = None;
    pod.metadata.generate_name = Some("web-".to_owned());
    let resolved = resolved(&pod, &sources);
    assert_eq!(errors(&resolved), [""; 0]);
    let lines = lines(&resolved);
    assert_eq!(lines[0], "GITSERVER_SERVICE_HOST=<cluster address of service gitserver>");
    assert_eq!(lines[2], "GITSERVER_PORT=tcp://<GITSERVER_SERVICE_HOST>:80");
    assert_eq!(
        lines[7..],
        [
            "URL=http://<GITSERVER_SERVICE_HOST>:80",
            "IP=<status.podIP>",
            "LISTEN=<IP>:8080",
            "NAME=web-<suffix>",
            "ACCOUNT=default",
            "CPU=<node allocatable cpu>",
        ]
    );
    let unknown = resolved.resolution.environment.get("URL").expect("defined");
    assert_eq!((unknown.state(), unknown.value.exposed()), (State::UnknownUntilRun, None));
    assert_eq!(resolved.resolution.environment.exposed_pairs(), None);
}

#[test]
fn what_is_not_in_the_input_is_missing_with_one_info() {
    let pod = pod_with(json!({
        "env": [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "a"}}},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "b"}}},
            {"name": "C", "value": "$(A)/$(B)"},
            {"name": "D", "value": "http://$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)"},
        ],
    }));
    let resolved = resolved(&pod, &Sources::of_files());
    assert_eq!(
        lines(&resolved),
        [
            "A=<configMap cm key a>",
            "B=<configMap cm key b>",
            "C=<A>/<B>",
            "D=http://<DB_SERVICE_HOST>:<DB_SERVICE_PORT>"
        ]
    );
    assert_eq!(codes(&resolved.findings()), ["source-not-in-input", "source-not-in-input"]);
    assert!(resolved.resolution.environment.entries().iter().all(|entry| entry.state() == State::Missing));
}

#[test]
fn an_env_from_source_outside_of_the_input_may_define_anything_behind_its_prefix() {
    let pod = pod_with(json!({
        "envFrom": [{"configMapRef": {"name": "cm"}, "prefix": "CM_"}],
        "env": [{"name": "X", "value": "$(CM_HOST) $(OTHER_X)"}],
    }));
    let resolved = resolved(&pod, &Sources::of_files());
    assert_eq!(lines(&resolved), ["X=<CM_HOST> $(OTHER_X)"]);
    assert_eq!(codes(&resolved.findings()), ["source-not-in-input", "reference-undefined"]);
}

#[test]
fn without_service_links_only_kubernetes_may_come_from_outside() {
    let mut pod =
        pod_with_env(json!([{"name": "X", "value": "$(DB_SERVICE_HOST) $(KUBERNETES_SERVICE_HOST)"}]));
    pod.spec.as_mut().expect("a spec").enable_service_links = Some(false);
    let resolved = resolved(&pod, &Sources::of_files());
    assert_eq!(lines(&resolved), ["X=$(DB_SERVICE_HOST) <KUBERNETES_SERVICE_HOST>"]);
    let findings = resolved.findings();
    assert_eq!(codes(&findings), ["reference-undefined", "source-not-in-input"]);
    assert!(findings[0].hint.as_deref().expect("a hint").contains("enableServiceLinks is false"));
}

#[test]
fn the_annotation_lets_references_find_services_first() {
    let services = json!([{"namespace": "ns1", "name": "db", "clusterIP": "10.0.0.1", "ports": []}]);
    let sources = Sources { services: complete(services), ..on_node() };
    let mut pod = pod_with(json!({
        "env": [{"name": "DB_SERVICE_HOST", "value": "fallback"}, {"name": "URL", "value": "$(DB_SERVICE_HOST)"}],
        "args": ["$(DB_SERVICE_HOST)"],
    }));
    let without = resolved(&pod, &sources);
    assert_eq!(lines(&without), ["DB_SERVICE_HOST=fallback", "URL=fallback"]);
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(crate::SERVICE_VARIABLES_ANNOTATION.to_owned(), "prefer".to_owned());
    let with = resolved(&pod, &sources);
    // What the process sees under the name itself does not change.
    assert_eq!(lines(&with), ["DB_SERVICE_HOST=fallback", "URL=10.0.0.1"]);
    let args = with.resolution.args.as_ref().expect("args");
    assert_eq!(args[0].value.exposed().as_deref(), Some("10.0.0.1"));
    let preferred =
        codes(&with.findings()).iter().filter(|code| **code == "service-variable-preferred").count();
    assert_eq!(preferred, 2);
}

#[test]
fn every_kind_of_container_is_resolved_alike() {
    let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}]);
    let container = |name: &str| json!({"name": name, "env": env});
    let mut sidecar = container("sidecar");
    sidecar["restartPolicy"] = json!("Always");
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(json!({
        "metadata": {"name": "p"},
        "spec": {
            "initContainers": [container("init"), sidecar],
            "containers": [container("app")],
            "ephemeralContainers": [container("debug")],
        },
    }))
    .expect("a pod");
    let views = containers(pod.spec.as_ref().expect("a spec"));
    let kinds: Vec<_> = views.iter().map(|view| view.kind.as_str()).collect();
    assert_eq!(kinds, ["init", "sidecar", "container", "ephemeral"]);
    let paths: Vec<_> = views.iter().map(|view| view.path_in_spec()).collect();
    assert_eq!(paths, ["initContainers[0]", "initContainers[1]", "containers[0]", "ephemeralContainers[0]"]);
    assert_eq!(views[1].event_field_path(), "spec.initContainers{sidecar}");
    for view in &views {
        let resolved = resolve(&pod, view, &on_node(), &crate::Options::default());
        assert_eq!(lines(&resolved), ["A=1", "B=1"]);
    }
}

#[test]
fn addresses_of_the_caller_win_over_those_of_the_status() {
    let mut sources = on_node();
    sources.pod_ips =
        Availability::Present(vec!["fd00::6".to_owned(), "10.1.0.7".to_owned(), "10.1.0.8".to_owned()]);
    sources.host_ips = Availability::Present(vec!["192.0.2.1".to_owned()]);
    let entry =
        |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let env = json!([entry("A", "status.podIP"), entry("B", "status.podIPs"), entry("C", "status.hostIP")]);
    let resolved = resolved(&pod_with_env(env), &sources);
    assert_eq!(lines(&resolved), ["A=10.1.0.7", "B=10.1.0.7,fd00::6", "C=192.0.2.1"]);
}
