//! What is a reference, what is an escape, what is left for others, and what is ambiguous.

use serde_json::{Value, json};

use super::{Run, config_map, data, findings, problems, processed, refusal};

#[test]
fn escapes_are_those_of_declared_parameters_only() {
    let rows = [
        ("$$(P)", "$(P)"),
        ("$$((P))", "$((P))"),
        ("$$(OTHER)", "$$(OTHER)"),
        ("$$((OTHER))", "$$((OTHER))"),
        ("$$", "$$"),
        ("$$$$", "$$$$"),
        // A pair stays, as Kubernetes reads pairs; what follows it is looked at for itself.
        ("$$$(P)", "$$v"),
        ("$$$$(P)", "$$$(P)"),
        ("a$$b$(P)", "a$$bv"),
        ("$(P", "$(P"),
        ("$P", "$P"),
        ("$", "$"),
        ("$()", "$()"),
        ("$(())", "$(())"),
        ("$((P)", "$((P)"),
        ("$(P))", "v)"),
        ("$((P)))", "v)"),
        ("$( P )", "$( P )"),
        ("$($(P))", "$(v)"),
        ("$(($(P)))", "$((v))"),
        ("$((1 + $(P)))", "$((1 + v))"),
        ("$(date -u +%s)", "$(date -u +%s)"),
        ("${P}", "${P}"),
        ("£$(P)£", "£v£"),
        ("$£$(P)", "$£v"),
    ];
    for (text, wanted) in rows {
        let run = Run::of_json(&config_map(json!([{"name": "P", "value": "v"}]), json!({"x": text})));
        assert_eq!(data(&run)["x"], wanted, "{text}");
    }
}

#[test]
fn a_value_is_never_read_again() {
    let parameters = json!([{"name": "A", "value": "$(B) $((B)) $$(B)"}, {"name": "B", "value": "$(A)"}]);
    let run = Run::of_json(&config_map(parameters, json!({"x": "$(A)|$(B)|$((A))"})));
    assert_eq!(data(&run)["x"], "$(B) $((B)) $$(B)|$(A)|$(B) $((B)) $$(B)");
}

#[test]
fn keys_message_and_labels_are_substituted_too() {
    let mut template =
        config_map(json!([{"name": "P", "value": "v"}]), json!({"a-$(P)": "1", "$((P))": "2"}));
    template["message"] = "Use $(P), $((P)) or $$(P).".into();
    template["labels"] = json!({"app.$(P)": "$(P)-$((P))"});
    let result = processed(&Run::of_json(&template));
    let object = result.objects[0].to_json();
    assert_eq!(object["data"], json!({"a-v": "1", "v": "2"}));
    assert_eq!(object["metadata"]["labels"], json!({"app.v": "v-v"}));
    assert_eq!(result.message.as_deref(), Some("Use v, v or $(P)."));
}

/// A template of one pod with one container.
fn pod(container: Value, others: &[Value]) -> Value {
    let mut objects = others.to_vec();
    objects.push(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]},
    }));
    json!({
        "kind": "Template", "apiVersion": crate::API_VERSION, "objects": objects,
        "parameters": [{"name": "HOST", "value": "h"}, {"name": "DB_SERVICE_HOST", "value": "d"}, {"name": "COLOR", "value": "red"}],
    })
}

fn ambiguities(template: &Value) -> Vec<String> {
    match Run::of_json(template).process() {
        Ok(_) => Vec::new(),
        Err(refusal) => {
            assert!(
                refusal.problems.iter().all(|each| each.code() == "template-reference-ambiguous"),
                "{refusal}"
            );
            refusal.problems.iter().map(|each| each.place.field.replace("spec.containers[0].", "")).collect()
        }
    }
}

#[test]
fn a_reference_that_the_container_could_resolve_too_is_refused() {
    let above = json!({"env": [{"name": "HOST", "value": "a"}, {"name": "URL", "value": "http://$(HOST)"}]});
    assert_eq!(ambiguities(&pod(above.clone(), &[])), ["objects[0].env[1].value"]);
    let said = refusal(&Run::of_json(&pod(above, &[]))).problems[0].to_string();
    assert!(said.ends_with(
        "$(HOST) resolves both to a parameter and to an environment variable: parameters[0] and env[0] of the container"
    ), "{said}");
    // The entry's own name, as in the document's example, and one further down are none.
    let own = json!({"env": [{"name": "HOST", "value": "$(HOST)"}]});
    assert_eq!(ambiguities(&pod(own, &[])), [""; 0]);
    let below = json!({"env": [{"name": "URL", "value": "$(HOST)"}, {"name": "HOST", "value": "a"}]});
    assert_eq!(ambiguities(&pod(below, &[])), [""; 0]);
    // Command and arguments see all of them; so do mounts; probes see the entries.
    let whole = json!({
        "env": [{"name": "HOST", "value": "$(HOST)"}], "command": ["a", "$(HOST)"], "args": ["$(HOST)", "$((HOST))"],
        "volumeMounts": [{"subPathExpr": "x/$(HOST)", "mountPath": "/$(HOST)"}],
        "livenessProbe": {"exec": {"command": ["$(HOST)"]}},
        "lifecycle": {"preStop": {"exec": {"command": ["$(HOST)"]}}},
        "workingDir": "/$(HOST)",
    });
    assert_eq!(
        ambiguities(&pod(whole, &[])),
        [
            "objects[0].args[0]",
            "objects[0].command[1]",
            "objects[0].livenessProbe.exec.command[0]",
            "objects[0].volumeMounts[0].subPathExpr"
        ]
    );
    // Where no container can resolve anything, nothing is ambiguous; and an escape leaves it to the container.
    let escaped = json!({"env": [{"name": "HOST", "value": "a"}, {"name": "URL", "value": "$$(HOST)$((HOST))"}], "image": "$(HOST)"});
    assert_eq!(ambiguities(&pod(escaped, &[])), [""; 0]);
}

#[test]
fn sources_and_services_of_the_template_make_a_reference_ambiguous() {
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"OR": "x"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"$(COLOR)": "x", "HOST": "x"}});
    let uses = json!({"envFrom": [{"prefix": "COL", "configMapRef": {"name": "c"}}], "env": [{"name": "A", "value": "$(COLOR) $(HOST)"}]});
    assert_eq!(
        ambiguities(&pod(uses.clone(), &[config.clone(), secret.clone()])),
        ["objects[2].env[0].value"]
    );
    let both = json!({"envFrom": [{"secretRef": {"name": "s"}}, {"prefix": "COL", "configMapRef": {"name": "c"}}], "args": ["$(COLOR) $(HOST)"]});
    assert_eq!(
        ambiguities(&pod(both, &[config.clone(), secret])),
        ["objects[2].args[0]", "objects[2].args[0]"]
    );
    assert_eq!(ambiguities(&pod(uses, &[])), [""; 0], "a source that the template does not hold");

    let service = |name: &str, more: Value| {
        let mut spec = json!({"ports": [{"port": 80}]});
        spec.as_object_mut().expect("a map").extend(more.as_object().expect("a map").clone());
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
    };
    let uses = json!({"env": [{"name": "A", "value": "$(DB_SERVICE_HOST)"}]});
    assert_eq!(ambiguities(&pod(uses.clone(), &[service("db", json!({}))])), ["objects[1].env[0].value"]);
    assert_eq!(ambiguities(&pod(uses.clone(), &[service("other", json!({}))])), [""; 0]);
    assert_eq!(ambiguities(&pod(uses.clone(), &[service("db", json!({"clusterIP": "None"}))])), [""; 0]);
    assert_eq!(ambiguities(&pod(uses.clone(), &[service("db", json!({"type": "ExternalName"}))])), [""; 0]);
    let mut without_links = pod(uses, &[service("db", json!({}))]);
    without_links["objects"][1]["spec"]["enableServiceLinks"] = false.into();
    assert_eq!(ambiguities(&without_links), [""; 0]);
}

#[test]
fn ambiguity_is_found_in_every_kind_with_a_pod_template() {
    let env = json!([{"name": "HOST", "value": "a"}, {"name": "URL", "value": "$(HOST)"}]);
    let spec = json!({"initContainers": [{"env": env}], "containers": [{"env": env}]});
    let template = json!({"spec": spec});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Pod", "spec": spec}),
        json!({"apiVersion": "v1", "kind": "PodTemplate", "template": template}),
        json!({"apiVersion": "v1", "kind": "ReplicationController", "spec": {"template": template}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}}),
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"template": template}}),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"template": template}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": {"template": template}}),
        json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}}),
    ];
    for object in objects {
        let all = json!({
            "kind": "Template", "apiVersion": crate::API_VERSION, "objects": [object], "parameters": [{"name": "HOST", "value": "h"}],
        });
        assert_eq!(refusal(&Run::of_json(&all)).problems.len(), 2, "{object}");
    }
}

#[test]
fn references_that_name_no_parameter_stay_with_a_finding_where_nobody_expands_them() {
    let parameters = json!([{"name": "P", "value": "v"}]);
    let object = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$(UNKNOWN)", "annotations": {"a": "$(date)"}},
        "spec": {"containers": [{
            "name": "$(P)", "env": [{"name": "A", "value": "$(UNKNOWN) $((UNKNOWN)) x"}], "args": ["-c", "echo $(date) $((i)) $((i+1))"],
            "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "kill $(pidof)"]}}},
        }]},
    });
    let template = json!({"kind": "Template", "apiVersion": crate::API_VERSION, "objects": [object], "parameters": parameters});
    let result = processed(&Run::of_json(&template));
    let seen: Vec<String> =
        result.findings.iter().map(|each| format!("{:?} {}", each.severity(), each.place.field)).collect();
    assert_eq!(
        seen,
        [
            "Warning objects[0].metadata.annotations.a",
            "Warning objects[0].metadata.name",
            "Info objects[0].spec.containers[0].lifecycle.preStop.exec.command[2]",
        ]
    );
    assert_eq!(result.objects[0].to_json()["metadata"]["name"], "$(UNKNOWN)");
    let args = &result.objects[0].to_json()["spec"]["containers"][0]["args"][1];
    assert_eq!(args, "echo $(date) $((i)) $((i+1))");
    // The same text in another group's kind, or in a script of a ConfigMap, is only worth an info.
    let script = Run::of_json(&config_map(json!([]), json!({"run.sh": "#!/bin/sh\necho $(hostname)\n"})));
    assert_eq!(
        findings(&processed(&script).findings),
        ["objects[0].data['run.sh'] template-reference-unknown"]
    );
}

#[test]
fn a_reference_that_almost_names_a_parameter_is_refused_with_the_name() {
    let near = |name: &str, text: &str| {
        let run = Run::of_json(&config_map(
            json!([{"name": name, "value": "v"}]),
            json!({"x": text, "y": format!("$({name})")}),
        ));
        match run.process() {
            Ok(_) => None,
            Err(refusal) => {
                Some((refusal.problems[0].code(), refusal.problems[0].parameter().map(str::to_owned)))
            }
        }
    };
    let rows = [
        ("DATABASE_NAME", "a $(DATABASE_NAMES)"),
        ("DATABASE_NAME", "$(DATABSE_NAME)"),
        ("DATABASE_NAME", "$(DATABASE_NMAE)"),
        ("DATABASE_NAME", "$(database_name)"),
        ("DATABASE_NAME", "$(DATABASE-NAME)"),
        ("DATABASE_NAME", "x $((DATABASE_NAM)) y"),
        ("DATABASE_NAME", "$(DATABAS_NAM)"),
        ("HOST", "$(Host)"),
        ("HOST", "$(HOTS)"),
        ("REPLICAS", "$(REPLICA)"),
    ];
    for (name, text) in rows {
        assert_eq!(
            near(name, text),
            Some(("template-reference-near", Some(name.to_owned()))),
            "{name} {text}"
        );
    }
    for (name, text) in [
        ("HOST", "$(PORT)"),
        ("DATE", "$( date )"),
        ("DATE", "$(date -u)"),
        ("A", "$(B)"),
        ("FILES", "$(file)"),
    ] {
        assert_eq!(near(name, text), None, "{name} {text}");
    }
    assert_eq!(near("COUNT", "$((COUNTS))"), Some(("template-reference-whole", Some("COUNT".to_owned()))));
    assert_eq!(near("COUNT", "$((SOMETHING))"), Some(("template-reference-whole", None)));
}

#[test]
fn a_variable_of_the_container_is_no_mistyped_parameter() {
    let container = json!({
        "env": [{"name": "HOSTS", "value": "a"}, {"name": "A", "value": "$(HOSTS) $(HOST)"}], "args": ["$(HOSTS)", "$(COLOUR)"],
    });
    assert_eq!(
        problems(&Run::of_json(&pod(container, &[]))),
        ["objects[0].spec.containers[0].args[1] template-reference-near COLOR"]
    );
}

#[test]
fn openshift_has_no_escape_no_ambiguity_and_refuses_no_unknown_name() {
    let container = json!({
        "name": "c", "env": [{"name": "HOST", "value": "$${HOST}"}, {"name": "URL", "value": "${HOST} $(HOST)"}],
        "args": ["${HOSTS}", "${{HOSTS}}", "${x}"], "image": "${HOSTS}",
    });
    let mut template = pod(container, &[]);
    template["apiVersion"] = crate::OPENSHIFT_API_VERSION.into();
    let result = processed(&Run::of_json(&template));
    let container = &result.objects[0].to_json()["spec"]["containers"][0];
    assert_eq!(container["env"][0]["value"], "$h");
    assert_eq!(container["env"][1]["value"], "h $(HOST)");
    assert_eq!(container["args"], json!(["${HOSTS}", "${{HOSTS}}", "${x}"]));
    let near =
        findings(&result.findings).iter().filter(|each| each.ends_with("template-reference-near")).count();
    assert_eq!(near, 3);
}
