//! The documents of OpenAPI, as a client takes them apart.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeSet;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use support::{Running, request};

/// Every reference in a tree.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_references(document: &Value, place: &str, schemas: &Value) {
    let mut found = BTreeSet::new();
    references(document, &mut found);
    for reference in found {
        let name = reference.strip_prefix(place).unwrap_or_else(|| panic!("{reference}"));
        assert!(schemas.get(name).is_some(), "{reference} leads nowhere");
    }
}

/// The kinds that discovery names, with their resources: group version, plural, kind.
async fn discovered(running: &Running) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    let (_, groups) = running.get("/apis").await;
    let versions = groups["groups"].as_array().expect("groups").iter().map(|group| {
        let version = group["preferredVersion"]["groupVersion"].as_str().expect("a version");
        format!("apis/{version}")
    });
    for root in std::iter::once("api/v1".to_owned()).chain(versions) {
        let (_, list) = running.get(&format!("/{root}")).await;
        for resource in list["resources"].as_array().expect("resources") {
            let text = |key: &str| resource[key].as_str().expect("text").to_owned();
            found.push((root.clone(), text("name"), text("kind")));
        }
    }
    found
}

#[tokio::test]
async fn every_kind_of_discovery_has_its_schema_and_its_paths_in_both_versions() {
    let running = Running::start().await;
    let (_, index) = running.get("/openapi/v3").await;
    let (_, version_2) = running.get("/openapi/v2").await;
    assert_eq!(version_2["swagger"], "2.0");
    check_references(&version_2, "#/definitions/", &version_2["definitions"]);
    let discovered = discovered(&running).await;
    for (root, url) in index["paths"].as_object().expect("paths") {
        let url = url["serverRelativeURL"].as_str().expect("an address");
        let (code, document) = running.get(url).await;
        assert_eq!((code.as_u16(), &document["openapi"]), (200, &json!("3.0.0")), "{url}");
        let schemas = &document["components"]["schemas"];
        check_references(&document, "#/components/schemas/", schemas);
        let kinds: BTreeSet<&str> = schemas
            .as_object()
            .expect("schemas")
            .values()
            .flat_map(|schema| schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten())
            .filter_map(|gvk| gvk["kind"].as_str())
            .collect();
        for (_, name, kind) in discovered.iter().filter(|(own, name, _)| own == root && !name.contains('/')) {
            assert!(kinds.contains(kind.as_str()), "{root} {kind} has no schema");
            for paths in [&document["paths"], &version_2["paths"]] {
                let of_kind = |path: &&String| path.starts_with(&format!("/{root}/")) && path.contains(name);
                assert!(paths.as_object().expect("paths").keys().any(|path| of_kind(&path)), "{root} {name}");
            }
        }
    }
}

#[tokio::test]
async fn patches_say_that_they_know_dry_runs_and_field_validation() {
    let running = Running::start().await;
    let (_, document) = running.get("/openapi/v3/api/v1").await;
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "", "version": "v1", "kind": "Pod"})
    );
    let names: Vec<&Value> =
        patch["parameters"].as_array().expect("parameters").iter().map(|own| &own["name"]).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let get = &document["paths"]["/api/v1/pods"]["get"];
    assert_eq!(
        (&get["x-kubernetes-action"], &get["operationId"]),
        (&json!("list"), &json!("listCoreV1PodForAllNamespaces"))
    );
    let (_, old) = running.get("/openapi/v2").await;
    let patch = &old["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]["parameters"];
    assert!(patch.as_array().expect("parameters").iter().any(|own| own["name"] == "dryRun"));
    let mut ids = BTreeSet::new();
    for item in old["paths"].as_object().expect("paths").values() {
        for operation in item.as_object().expect("operations").values().filter(|value| value.is_object()) {
            let id = operation["operationId"].as_str().expect("an id");
            assert!(ids.insert(id.to_owned()), "{id} stands twice");
        }
    }
}

#[tokio::test]
async fn documents_are_told_apart_by_their_hash() {
    let running = Running::start().await;
    let (_, index) = running.get("/openapi/v3").await;
    let url = index["paths"]["api/v1"]["serverRelativeURL"].as_str().expect("an address");
    let hash = url.strip_prefix("/openapi/v3/api/v1?hash=").expect("a hash");
    let response = running.send(request("GET", url, &[("accept-encoding", "gzip")], b"")).await;
    assert_eq!(response.headers()["etag"], format!("\"{hash}\""));
    assert_eq!(response.headers()["cache-control"], "public, immutable");
    assert_eq!(response.headers()["content-encoding"], "gzip");
    let other = running.send(request("GET", "/openapi/v3/api/v1?hash=0", &[], b"")).await;
    assert_eq!(other.headers()["cache-control"], "no-cache, private");
    assert_eq!(running.get("/openapi/v3/apis/none/v1").await.0, 404);
}

#[tokio::test]
async fn the_old_document_is_protobuf_for_who_asks_for_it() {
    let running = Running::start().await;
    for accept in [
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    ] {
        let response = running.send(request("GET", "/openapi/v2", &[("accept", accept)], b"")).await;
        // What stands there must not contain an `@`, which old clients cannot read.
        assert_eq!(
            response.headers()["content-type"],
            "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
        );
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(&bytes[..5], b"\x0a\x032.0");
        assert!(bytes.windows(22).any(|own| own == b"io.k8s.api.core.v1.Pod"));
    }
    let response =
        running.send(request("GET", "/openapi/v2", &[("accept", "application/json, */*")], b"")).await;
    assert_eq!(response.headers()["content-type"], "application/json");
}
