//! The shape of the record is a contract: it is written out here in full.

use serde_json::json;

use super::*;
use crate::{
    Availability, ClusterAddress, ConfigMapSource, Options, RuntimeFacts, SecretBytes, SecretSource,
    ServiceSource, Sources, compose_process_environment, containers, resolve,
};

fn record(reveal: Reveal) -> ContainerRecord {
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": [{
            "name": "c",
            "envFrom": [{"configMapRef": {"name": "cm"}}],
            "env": [
                {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "MODE", "value": "[$(PASSWORD)$(NOPE_X)]"},
            ],
            "command": ["run", "$(MODE)"],
        }]},
    }))
    .expect("a pod");
    let mut sources = Sources::of_node();
    let map = ConfigMapSource {
        resource_version: Some("7".to_owned()),
        data: [("MODE".to_owned(), "cm".to_owned())].into(),
        ..ConfigMapSource::default()
    };
    sources.config_maps.insert("cm".to_owned(), Availability::Present(map));
    let data = [("k".to_owned(), SecretBytes::new(b"hunter2".to_vec()))].into();
    let secret = SecretSource { resource_version: Some("8".to_owned()), data };
    sources.secrets.insert("s".to_owned(), Availability::Present(secret));
    let views = containers(pod.spec.as_ref().expect("a spec"));
    let resolved = resolve(&pod, &views[0], &sources, &Options::default());
    let facts = RuntimeFacts { hostname: Some("p".to_owned()), tty: false, home: Some("/".to_owned()) };
    let image = ["PATH=/bin".to_owned()];
    let environment = compose_process_environment(&facts, &image, resolved.resolution.environment.clone());
    let place = |_: &Finding| Some(PositionRecord { file: "pod.yaml".to_owned(), line: 12, column: 18 });
    ContainerRecord::new(&views[0], &environment, &resolved, reveal, place)
}

#[test]
fn the_record_has_the_documented_shape() {
    let known = |name: &str, value: &str, origin: serde_json::Value| {
        json!({"name": name, "value": value, "display": value, "state": "known", "origin": origin, "references": [],
               "shadowed": []})
    };
    let secret = json!({"kind": "secretKeyRef", "index": 0, "name": "s", "key": "k", "resourceVersion": "8"});
    assert_eq!(
        serde_json::to_value(record(Reveal::Nothing)).expect("it serialises"),
        json!({
            "name": "c",
            "type": "container",
            "environment": [
                known("HOSTNAME", "p", json!({"kind": "runtime"})),
                known("PATH", "/bin", json!({"kind": "image"})),
                {"name": "PASSWORD", "value": null, "display": "****", "state": "masked", "origin": secret,
                 "references": [], "shadowed": []},
                {
                    "name": "MODE", "value": null, "display": "[****$(NOPE_X)]", "state": "masked",
                    "origin": {"kind": "value", "index": 1},
                    "references": [
                        {"name": "PASSWORD", "start": 1, "end": 12, "found": "variable", "origin": secret},
                        {"name": "NOPE_X", "start": 12, "end": 21, "found": "nothing"},
                    ],
                    "shadowed": [{
                        "origin": {"kind": "envFrom", "index": 0, "source": "configMap", "name": "cm", "key": "MODE",
                                   "resourceVersion": "7"},
                        "value": "cm", "display": "cm", "state": "known",
                    }],
                },
                known("HOME", "/", json!({"kind": "runtime"})),
            ],
            "command": [
                {"value": "run", "display": "run", "state": "known", "references": []},
                {
                    "value": null, "display": "[****$(NOPE_X)]", "state": "masked",
                    "references": [
                        {"name": "MODE", "start": 0, "end": 7, "found": "variable",
                         "origin": {"kind": "value", "index": 1}},
                    ],
                },
            ],
            "args": null,
            "findings": [{
                "code": "reference-undefined", "severity": "warning",
                "fieldPath": "spec.containers[0].env[1].value", "variable": "NOPE_X",
                "message": "$(NOPE_X) stays as it is: \"NOPE_X\" is not defined by the pod or a service",
                "hint": "declare \"NOPE_X\" above (a variable of the image cannot be referenced), or write $$(NOPE_X) to keep the text",
                "position": {"file": "pod.yaml", "line": 12, "column": 18},
            }],
        })
    );
}

#[test]
fn secrets_are_shown_only_when_asked_for() {
    let text = serde_json::to_string(&record(Reveal::Nothing)).expect("it serialises");
    assert!(!text.contains("hunter2"), "{text}");
    let shown = record(Reveal::Secrets);
    assert_eq!(shown.environment[2].value.as_deref(), Some("hunter2"));
    assert_eq!(shown.environment[3].display, "[hunter2$(NOPE_X)]");
    assert_eq!(shown.environment[3].state, State::Masked, "the state tells where it comes from all the same");
}

#[test]
fn a_record_survives_the_disk() {
    let whole = EnvironmentRecord {
        pods: vec![PodRecord {
            namespace: "ns".to_owned(),
            name: "p".to_owned(),
            source: Some(SourceRecord { file: "-".to_owned(), line: 1 }),
            containers: vec![record(Reveal::Nothing)],
        }],
        objects: vec![ObjectRecord {
            kind: "ConfigMap".to_owned(),
            findings: record(Reveal::Nothing).findings,
            ..ObjectRecord::default()
        }],
    };
    let text = serde_json::to_string(&whole).expect("it serialises");
    assert_eq!(serde_json::from_str::<EnvironmentRecord>(&text).expect("it reads"), whole);
}

#[test]
fn a_variable_whose_object_has_changed_is_stale_and_so_is_what_used_it() {
    let mut record = record(Reveal::Nothing);
    let now = |kind: SourceKind, _: &str| match kind {
        SourceKind::ConfigMap => Some("7".to_owned()),
        SourceKind::Secret => Some("9".to_owned()),
    };
    record.mark_stale(now);
    assert_eq!(stale(&record), ["PASSWORD", "MODE"]);
}

fn stale(record: &ContainerRecord) -> Vec<&str> {
    let stale = record.environment.iter().filter(|variable| variable.stale);
    stale.map(|variable| variable.name.as_str()).collect()
}

fn service(
    namespace: &str,
    name: &str,
    address: &str,
    ports: &[(&str, i32)],
) -> std::sync::Arc<ServiceSource> {
    let port = |(name, port): &(&str, i32)| crate::PortSource {
        name: (*name).to_owned(),
        port: *port,
        protocol: "TCP".to_owned(),
    };
    std::sync::Arc::new(ServiceSource {
        namespace: namespace.into(),
        name: name.into(),
        cluster_address: ClusterAddress::Known(address.into()),
        ports: ports.iter().map(port).collect(),
    })
}

/// The record of a container that found a service `db`, uses it in a URL, and hides the variables of `cache`.
fn record_with_services() -> ContainerRecord {
    let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"enableServiceLinks": true, "containers": [{
            "name": "c",
            "env": [
                {"name": "URL", "value": "sql://$(DB_SERVICE_HOST)"},
                {"name": "URLS", "value": "$(URL),other"},
                {"name": "OLD", "value": "$(CACHE_SERVICE_HOST)"},
                {"name": "CACHE_SERVICE_HOST", "value": "mine"},
            ],
        }]},
    }))
    .expect("a pod");
    let mut sources = Sources::of_node();
    sources.services = crate::Services::Complete(vec![
        service("ns", "db", "10.43.0.7", &[("sql", 5432)]),
        service("ns", "cache", "10.43.0.8", &[]),
        service("default", "kubernetes", "10.43.0.1", &[("https", 443)]),
    ]);
    let views = containers(pod.spec.as_ref().expect("a spec"));
    let resolved = resolve(&pod, &views[0], &sources, &Options::default());
    let facts = RuntimeFacts { hostname: Some("p".to_owned()), tty: false, home: None };
    let environment = compose_process_environment(&facts, &[], resolved.resolution.environment.clone());
    ContainerRecord::new(&views[0], &environment, &resolved, Reveal::Nothing, |_| None)
}

#[test]
fn a_service_variable_that_leads_elsewhere_is_stale_and_so_is_what_used_it() {
    let kubernetes = || service("default", "kubernetes", "10.43.0.1", &[("https", 443)]);
    let db = |address: &str, port: i32| service("ns", "db", address, &[("sql", port)]);
    let cache = || service("ns", "cache", "10.43.0.8", &[]);
    let of_db = [
        "DB_SERVICE_HOST",
        "DB_SERVICE_PORT",
        "DB_SERVICE_PORT_SQL",
        "DB_PORT",
        "DB_PORT_5432_TCP",
        "DB_PORT_5432_TCP_PROTO",
        "DB_PORT_5432_TCP_PORT",
        "DB_PORT_5432_TCP_ADDR",
    ];
    let moved = ["DB_SERVICE_HOST", "DB_PORT", "DB_PORT_5432_TCP", "DB_PORT_5432_TCP_ADDR", "URL", "URLS"];
    let gone: Vec<&str> = of_db.into_iter().chain(["URL", "URLS"]).collect();
    let other_port: Vec<&str> = of_db.into_iter().filter(|name| *name != "DB_SERVICE_HOST").collect();
    for (what, services, links, expected) in [
        ("nothing has changed", vec![db("10.43.0.7", 5432), cache(), kubernetes()], true, vec![]),
        ("another address", vec![db("10.43.0.9", 5432), cache(), kubernetes()], true, moved.to_vec()),
        ("another port", vec![db("10.43.0.7", 5433), cache(), kubernetes()], true, other_port),
        ("gone", vec![cache(), kubernetes()], true, gone.clone()),
        (
            "of another namespace",
            vec![service("other", "db", "10.43.0.7", &[("sql", 5432)]), cache(), kubernetes()],
            true,
            gone,
        ),
        (
            "hidden from the process, but used by another",
            vec![db("10.43.0.7", 5432), kubernetes()],
            true,
            vec!["OLD"],
        ),
    ] {
        let mut record = record_with_services();
        record.mark_services(&services, "ns", links);
        assert_eq!(stale(&record), expected, "{what}");
    }
}

#[test]
fn variables_of_services_that_came_later_are_absent() {
    let mut record = record_with_services();
    let services = [
        service("ns", "db", "10.43.0.7", &[("sql", 5432), ("admin", 81)]),
        service("ns", "cache", "10.43.0.8", &[]),
        service("ns", "late", "10.43.0.9", &[]),
        service("other", "late", "10.43.0.10", &[]),
        service("default", "kubernetes", "10.43.0.1", &[("https", 443)]),
    ];
    record.mark_services(&services, "ns", true);
    assert_eq!(
        serde_json::to_value(&record).expect("it serialises")["absentServiceVariables"],
        json!([
            {"namespace": "ns", "name": "db", "variables":
                ["DB_SERVICE_PORT_ADMIN", "DB_PORT_81_TCP", "DB_PORT_81_TCP_PROTO", "DB_PORT_81_TCP_PORT", "DB_PORT_81_TCP_ADDR"]},
            {"namespace": "ns", "name": "late", "variables": ["LATE_SERVICE_HOST"]},
        ])
    );
    assert_eq!(stale(&record), Vec::<&str>::new());
    record.mark_services(&services, "ns", false);
    assert!(record.absent_service_variables.is_empty(), "a pod without links misses nothing");
}
