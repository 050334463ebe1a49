//! The shape of the record is a contract: it is written out here in full.

use serde_json::json;

use super::*;
use crate::{
    Availability, ConfigMapSource, Options, RuntimeFacts, SecretBytes, SecretSource, Sources,
    compose_process_environment, containers, resolve,
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
fn a_variable_whose_object_has_changed_is_stale() {
    let mut record = record(Reveal::Nothing);
    let now = |kind: SourceKind, _: &str| match kind {
        SourceKind::ConfigMap => Some("7".to_owned()),
        SourceKind::Secret => Some("9".to_owned()),
    };
    record.mark_stale(now);
    let stale: Vec<_> = record
        .environment
        .iter()
        .filter(|variable| variable.stale)
        .map(|variable| variable.name.as_str())
        .collect();
    assert_eq!(stale, ["PASSWORD"]);
}
