//! The recorded tables: composition, service variables, resource fields, fields that are expanded.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, Service};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Value as Json, json};

use super::{codes, errors, on_node, pod_with, resolved, resolved_with};
use crate::{
    Availability, ConfigMapSource, ContainerView, EnvFileKey, EnvFileSource, Options, Resolved, SecretBytes,
    SecretSource, ServiceLinksDefault, ServiceSource, Services, Sources, containers, expand_exec_probe,
    expand_sub_path, resolve,
};

fn table(text: &str) -> Json {
    serde_json::from_str(text).expect("the vectors are JSON")
}

/// Services in the short form of the tables.
pub(super) fn services(list: &Json) -> Vec<Arc<ServiceSource>> {
    let service = |row: &Json| {
        let object = json!({
            "metadata": {"name": row["name"], "namespace": row.get("namespace").cloned().unwrap_or(json!("default"))},
            "spec": {"clusterIP": row["clusterIP"], "ports": row["ports"]},
        });
        let service: Service = serde_json::from_value(object).expect("a service");
        Arc::new(ServiceSource::from_live(&service))
    };
    list.as_array().into_iter().flatten().map(service).collect()
}

fn sources_of(case: &Json) -> Sources {
    let mut sources = on_node();
    sources.services = match case["servicesSynced"].as_bool() {
        Some(false) => Services::NotYetRead,
        _ => Services::Complete(services(&case["services"])),
    };
    for row in case["configMaps"].as_array().into_iter().flatten() {
        let data = serde_json::from_value(row["data"].clone()).expect("data");
        let name = row["metadata"]["name"].as_str().expect("a name").to_owned();
        let source = ConfigMapSource { data, ..ConfigMapSource::default() };
        sources.config_maps.insert(name, Availability::Present(source));
    }
    for row in case["secrets"].as_array().into_iter().flatten() {
        let data: BTreeMap<String, String> = serde_json::from_value(row["stringData"].clone()).expect("data");
        let data = data.into_iter().map(|(key, value)| (key, SecretBytes::new(value.into_bytes()))).collect();
        let name = row["metadata"]["name"].as_str().expect("a name").to_owned();
        sources.secrets.insert(name, Availability::Present(SecretSource { resource_version: None, data }));
    }
    for variable in case["container"]["env"].as_array().into_iter().flatten() {
        let reference = &variable["valueFrom"]["fileKeyRef"];
        let (Some(volume), Some(path)) = (reference["volumeName"].as_str(), reference["path"].as_str())
        else {
            continue;
        };
        let found = match case["emptyDirs"].get(volume).map(|files| files.get(path)) {
            None => EnvFileSource::VolumeNotFound,
            Some(None) => EnvFileSource::NotFound,
            Some(Some(content)) => {
                EnvFileSource::Content(SecretBytes::new(content.as_str().expect("text").as_bytes()))
            }
        };
        sources.env_files.insert(EnvFileKey { volume: volume.to_owned(), path: path.to_owned() }, found);
    }
    sources
}

#[test]
fn every_composition_of_the_table_is_right() {
    let table = table(include_str!("../../../tests/vectors/envcompose.json"));
    let cases = table["cases"].as_array().expect("cases");
    assert!(cases.len() > 50, "the table has {} cases", cases.len());
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let mut pod: Pod = serde_json::from_value(case["pod"].clone()).expect("a pod");
        if case["staticPod"] == true {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert("kubernetes.io/config.source".to_owned(), "file".to_owned());
        }
        let container: Container = serde_json::from_value(case["container"].clone()).expect("a container");
        let mut options = Options::default();
        if case["mode"] == "upstream" {
            options.env_file_syntax = envfile::Syntax::Kubernetes;
            options.service_links_default = ServiceLinksDefault::Refused;
        }
        let view = ContainerView::of_container(0, &container);
        let resolved = resolve(&pod, &view, &sources_of(case), &options);
        match case["error"].as_str() {
            Some(expected) => {
                let first = resolved.errors.first().unwrap_or_else(|| panic!("{name}: no error"));
                let contains = case["errorContains"].is_string() || case["mode"] == "upstream";
                let found = first.to_string();
                let fits = if contains { found.contains(expected) } else { found == expected };
                assert!(fits, "{name}: {found:?}, expected {expected:?}");
            }
            None => {
                assert_eq!(errors(&resolved), [""; 0], "{name}");
                assert_eq!(pairs_sorted(&resolved), expected_pairs(&case["want"]), "{name}");
            }
        }
    }
}

fn pairs(resolved: &Resolved) -> Vec<(String, String)> {
    resolved.resolution.environment.exposed_pairs().expect("all values are known")
}

fn pairs_sorted(resolved: &Resolved) -> Vec<(String, String)> {
    let mut pairs = pairs(resolved);
    pairs.sort();
    pairs
}

fn expected_pairs(want: &Json) -> Vec<(String, String)> {
    let text = |row: &Json, key: &str| row[key].as_str().expect("text").to_owned();
    want.as_array().expect("rows").iter().map(|row| (text(row, "name"), text(row, "value"))).collect()
}

#[test]
fn service_variables_follow_the_table() {
    let table = table(include_str!("../../../tests/vectors/service_env.json"));
    let rows = table.as_array().expect("rows");
    assert!(rows.len() >= 4, "the table has {} rows", rows.len());
    for row in rows {
        let name = row["name"].as_str().expect("a name");
        let mut pod = pod_with(json!({}));
        pod.metadata.namespace = Some("default".to_owned());
        // The table keeps the order of its list, while an environment has services by name: one at a time.
        let mut found = Vec::new();
        for service in row["services"].as_array().expect("services") {
            let sources = Sources { services: Services::Complete(services(&json!([service]))), ..on_node() };
            found.extend(pairs(&resolved(&pod, &sources)));
        }
        assert_eq!(found, expected_pairs(&row["want"]), "{name}");
    }
}

#[test]
fn resource_fields_follow_the_table() {
    let table = table(include_str!("../../../tests/vectors/resource_field_divisor.json"));
    let rows = table.as_array().expect("rows");
    assert!(rows.len() > 30, "the table has {} rows", rows.len());
    for row in rows {
        let container = json!({
            "name": "c",
            "resources": row["resources"],
            "env": [{"name": "X", "valueFrom": {"resourceFieldRef": {
                "containerName": "c", "resource": row["resource"], "divisor": row["divisor"]}}}],
        });
        let is_init = row["container"] == "init container";
        let list = if is_init { "initContainers" } else { "containers" };
        let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": []}});
        pod["spec"][list] = json!([container]);
        if let Some(resources) = row.get("podLevel") {
            pod["spec"]["resources"] = resources.clone();
        }
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let mut sources = on_node();
        sources.node_allocatable = match row.get("nodeAllocatable") {
            Some(list) => {
                let list: BTreeMap<String, Quantity> =
                    serde_json::from_value(list.clone()).expect("quantities");
                Availability::Present(list)
            }
            None => Availability::Absent,
        };
        let resolved = resolved(&pod, &sources);
        match row["error"].as_str() {
            Some(expected) => {
                assert_eq!(resolved.errors[0].to_string(), expected, "{row}");
            }
            None => assert_eq!(
                pairs(&resolved),
                [("X".to_owned(), row["want"].as_str().expect("text").to_owned())],
                "{row}"
            ),
        }
    }
}

#[test]
fn command_and_args_see_the_whole_environment() {
    let table = table(include_str!("../../../tests/vectors/expansion_fields.json"));
    let rows = table["commandArgs"].as_array().expect("rows");
    assert_eq!(rows.len(), 5);
    for row in rows {
        let pod = pod_with(json!({"command": row["command"], "args": row["args"], "env": row["env"]}));
        let resolved = resolved(&pod, &on_node());
        let texts = |list: &Option<Vec<crate::Argument>>| -> Vec<String> {
            let arguments = list.iter().flatten();
            arguments.map(|argument| argument.value.exposed().expect("known").into_owned()).collect()
        };
        let resolution = &resolved.resolution;
        assert_eq!(json!(texts(&resolution.command)), row["wantCommand"], "{row}");
        assert_eq!(json!(texts(&resolution.args)), row["wantArgs"], "{row}");
    }
}

#[test]
fn env_values_are_expanded_in_order() {
    let table = table(include_str!("../../../tests/vectors/expansion_fields.json"));
    let rows = table["ordered"].as_array().expect("rows");
    assert_eq!(rows.len(), 3);
    for row in rows {
        let resolved = resolved(&super::pod_with_env(row["env"].clone()), &on_node());
        let found: BTreeMap<String, String> = pairs(&resolved).into_iter().collect();
        assert_eq!(json!(found), row["want"], "{row}");
    }
}

#[test]
fn sub_paths_refuse_what_has_no_value() {
    let table = table(include_str!("../../../tests/vectors/expansion_fields.json"));
    let rows = table["subPathExpr"].as_array().expect("rows");
    assert_eq!(rows.len(), 12);
    for row in rows {
        let resolved = resolved(&super::pod_with_env(row["env"].clone()), &on_node());
        let expression = row["subPathExpr"].as_str().expect("text");
        let found = expand_sub_path(expression, &resolved.resolution.environment);
        match row["error"].as_str() {
            Some(expected) => assert_eq!(found.expect_err("refused").to_string(), expected, "{row}"),
            None => assert_eq!(found.as_deref(), Ok(row["want"].as_str().expect("text")), "{row}"),
        }
    }
}

#[test]
fn exec_probes_see_literal_values_only() {
    let table = table(include_str!("../../../tests/vectors/expansion_fields.json"));
    let rows = table["staticExecProbe"].as_array().expect("rows");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let pod = super::pod_with_env(row["env"].clone());
        let views = containers(pod.spec.as_ref().expect("a spec"));
        let command: Vec<String> = serde_json::from_value(row["command"].clone()).expect("texts");
        assert_eq!(json!(expand_exec_probe(&command, views[0].env)), row["want"], "{row}");
    }
}

#[test]
fn vectors_of_the_default_mode_hold_without_findings_of_errors() {
    // The seed example of the expansion document: a default declared before it is used.
    let env = json!([{"name": "SERVICE_HOST", "value": "fallback"}, {"name": "URL", "value": "http://$(SERVICE_HOST)"}]);
    let resolved = resolved_with(&super::pod_with_env(env), &on_node(), &Options::default());
    assert_eq!(codes(&resolved.findings()), [""; 0]);
}
