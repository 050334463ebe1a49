//! Inputs, made by rule so that every run measures the same.

use std::fmt::Write;
use std::sync::Arc;

use environment::{ClusterAddress, PortSource, ServiceSource, Services, Sources};
use k8s_openapi::api::core::v1::{Container, EnvVar, Pod, PodSpec};
use serde_json::json;

/// Text with a reference about every hundred bytes; some are escaped, some name nothing.
pub fn mixed_input(length: usize) -> String {
    let mut text = String::with_capacity(length + 128);
    let mut number = 0;
    while text.len() < length {
        text.push_str(
            "some ordinary text as it stands in a command line, with a path /usr/local/share/application ",
        );
        match number % 8 {
            0 => text.push_str("$$(ESCAPED)"),
            1 => text.push_str("$(NAMES_NOTHING)"),
            _ => {
                let _ = write!(text, "$(VARIABLE_{})", number % 64);
            }
        }
        number += 1;
    }
    text.truncate(length);
    text
}

/// Openers without a closer.
pub fn hostile_input(length: usize) -> String {
    "$(".repeat(length / 2)
}

/// A pod with one container of many variables; every second one refers to two that stand before it.
pub fn pod_with_variables(count: usize) -> Pod {
    let value = |number: usize| match number % 2 {
        0 => format!("value number {number}"),
        _ => format!("http://$(VARIABLE_{}):$(SERVICE_{number}_SERVICE_PORT)/$(VARIABLE_0)", number - 1),
    };
    let variable =
        |number| EnvVar { name: format!("VARIABLE_{number}"), value: Some(value(number)), value_from: None };
    let container = Container {
        name: "container".to_owned(),
        env: Some((0..count).map(variable).collect()),
        ..Container::default()
    };
    let mut pod = Pod::default();
    pod.metadata.name = Some("pod".to_owned());
    pod.metadata.namespace = Some("default".to_owned());
    pod.spec =
        Some(PodSpec { containers: vec![container], enable_service_links: Some(true), ..PodSpec::default() });
    pod
}

/// Sources that hold nothing but services of one port each.
pub fn services(count: usize) -> Sources {
    let service = |number: usize| {
        Arc::new(ServiceSource {
            namespace: "default".into(),
            name: format!("service-{number}").into(),
            cluster_address: ClusterAddress::Known(
                format!("10.43.{}.{}", number / 250, number % 250 + 1).into(),
            ),
            ports: vec![PortSource { name: "http".to_owned(), port: 80, protocol: "TCP".to_owned() }],
        })
    };
    let mut sources = Sources::of_node();
    sources.services = Services::Complete((0..count).map(service).collect());
    sources
}

/// Deployments as a chart writes them, one document each.
pub fn deployments_in_yaml(length: usize) -> String {
    let mut text = String::with_capacity(length + 2048);
    let mut number = 0;
    while text.len() < length {
        let _ = write!(
            text,
            "---\n# Source: chart/templates/deployment-{number}.yaml\napiVersion: apps/v1\nkind: Deployment\n\
             metadata:\n  name: web-{number}\n  labels:\n    app.kubernetes.io/name: web\n    \
             app.kubernetes.io/instance: \"web-{number}\"\nspec:\n  replicas: 2\n  selector:\n    matchLabels:\n      \
             app.kubernetes.io/name: web\n  template:\n    metadata:\n      labels:\n        \
             app.kubernetes.io/name: web\n    spec:\n      containers:\n        - name: web\n          \
             image: \"registry.example/web:{number}\"\n          args: [\"--port=$(PORT)\", '--verbose']\n          \
             ports:\n            - name: http\n              containerPort: 8080\n          env:\n"
        );
        for variable in 0..12 {
            let _ = write!(
                text,
                "            - name: VARIABLE_{variable}\n              value: \"http://$(HOST_{variable}):8080/path\"\n"
            );
        }
        text.push_str("          resources:\n            limits:\n              cpu: 500m\n              memory: 128Mi\n");
        number += 1;
    }
    text
}

/// The same deployments as one indented JSON list.
pub fn deployments_in_json(length: usize) -> String {
    let mut items = Vec::new();
    let mut size = 0;
    while size < length {
        let number = items.len();
        let env: Vec<_> = (0..12)
            .map(|variable| json!({"name": format!("VARIABLE_{variable}"), "value": format!("http://$(HOST_{variable}):8080/path")}))
            .collect();
        let item = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": format!("web-{number}"), "labels": {"app.kubernetes.io/name": "web"}},
            "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "web", "env": env}]}}},
        });
        size += serde_json::to_string_pretty(&item).map_or(0, |text| text.len());
        items.push(item);
    }
    format!("{:#}", json!({"apiVersion": "v1", "kind": "List", "items": items}))
}

/// A template of deployments: each variable has two references, each object gets a label; about 10 KB an object.
pub fn template_in_yaml(objects: usize, parameters: usize) -> String {
    let mut text = String::from(
        "kind: Template\napiVersion: template.coracle.dev/v1\nmetadata: {name: bench}\n\
         labels: {team: $(PARAMETER_NAME_000)}\nparameters:\n",
    );
    for number in 0..parameters {
        let _ = writeln!(text, "- {{name: PARAMETER_NAME_{number:03}, value: value-{number}}}");
    }
    text.push_str("objects:\n");
    for object in 0..objects {
        let _ = writeln!(
            text,
            "- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {{name: web-{object}}}\n  spec:\n    \
             replicas: 1\n    selector: {{matchLabels: {{app: web-{object}}}}}\n    template:\n      \
             metadata: {{labels: {{app: web-{object}}}}}\n      spec:\n        containers:\n        - name: c\n          \
             image: registry.example/web:$(PARAMETER_NAME_{:03})\n          env:",
            object % parameters
        );
        for entry in 0..100 {
            let (one, other) = ((object + entry) % parameters, (object * entry) % parameters);
            let _ = writeln!(
                text,
                "          - {{name: VARIABLE_{entry}, value: 'some text before $(PARAMETER_NAME_{one:03}) and more text \
                 behind $(PARAMETER_NAME_{other:03})'}}"
            );
        }
    }
    text
}
