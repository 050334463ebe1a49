use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{OpenApi, collect, document_to_protobuf, schema, schema_name};
use crate::{builtin, protobuf};

fn named(package: &str, name: &str) -> crate::Type {
    builtin().type_named(package, name).expect("known")
}

#[test]
fn schemas_have_the_names_that_clients_know() {
    let cases = [
        (named("api/core/v1", "Pod"), "io.k8s.api.core.v1.Pod"),
        (
            named("apimachinery/pkg/apis/meta/v1", "ObjectMeta"),
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
        ),
        (named("api/core/v1", "Template"), "dev.coracle.template.v1.Template"),
    ];
    for (ty, name) in cases {
        assert_eq!(schema_name(ty), name);
    }
}

#[test]
fn fields_say_type_list_keys_default_and_what_is_required() {
    let spec = schema(named("api/core/v1", "PodSpec"), OpenApi::V2);
    assert_eq!(spec["required"], json!(["containers"]));
    let containers = &spec["properties"]["containers"];
    assert_eq!(containers["items"], json!({"$ref": "#/definitions/io.k8s.api.core.v1.Container"}));
    assert_eq!(
        (&containers["x-kubernetes-list-type"], &containers["x-kubernetes-list-map-keys"]),
        (&json!("map"), &json!(["name"]))
    );
    assert_eq!(
        (&containers["x-kubernetes-patch-strategy"], &containers["x-kubernetes-patch-merge-key"]),
        (&json!("merge"), &json!("name"))
    );
    let text = spec["properties"]["restartPolicy"]["description"].as_str().expect("text");
    assert!(text.contains("Known values: Always"), "{text}");
    let port = schema(named("api/core/v1", "ContainerPort"), OpenApi::V3);
    assert_eq!(port["properties"]["protocol"]["default"], "TCP");
    assert_eq!(port["properties"]["containerPort"]["format"], "int32");
    let map = schema(named("api/core/v1", "Secret"), OpenApi::V3);
    assert_eq!(
        map["properties"]["data"]["additionalProperties"],
        json!({"type": "string", "format": "byte"})
    );
    assert_eq!(
        map["properties"]["metadata"]["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}])
    );
    let selector = schema(named("apimachinery/pkg/apis/meta/v1", "LabelSelector"), OpenApi::V3);
    assert_eq!(selector["x-kubernetes-map-type"], "atomic");
}

/// Every reference in a tree.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_to_a_schema_and_every_field_has_words() {
    let mut types = BTreeSet::new();
    for resource in crate::resources() {
        if let Some(ty) = builtin().type_for(resource.group_version, resource.kind) {
            collect(ty, &mut types);
        }
    }
    assert!(types.len() > 400, "{}", types.len());
    for version in [OpenApi::V2, OpenApi::V3] {
        let name = |ty: &crate::Type| version.reference(*ty)["$ref"].as_str().unwrap_or_default().to_owned();
        let names: BTreeSet<String> = types.iter().map(name).collect();
        assert_eq!(names.len(), types.len(), "two types have one name");
        for ty in &types {
            let schema = schema(*ty, version);
            let mut found = Vec::new();
            references(&schema, &mut found);
            assert!(found.into_iter().all(|name| names.contains(&name)), "{schema}");
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                assert!(property["description"].as_str().is_some_and(|text| text.len() > 2), "{ty:?} {name}");
            }
        }
    }
}

#[test]
fn a_document_is_the_message_that_old_clients_read() {
    let document = json!({"swagger": "2.0", "info": {"title": "T", "version": "v"},
        "paths": {"/p": {"patch": {"parameters": [{"name": "dryRun", "in": "query", "type": "string"}],
            "responses": {"200": {"description": "OK"}}, "x-kubernetes-action": "patch"}}},
        "definitions": {"D": {"type": "object", "required": ["a"], "properties": {"a": {"type": "array", "items": {"$ref": "#/definitions/E"}}}}}});
    use crate::protobuf::tests::field;
    let any = |text: &str| field(2, text.as_bytes());
    let named = |name: &str, value: &[u8]| [field(1, name.as_bytes()), field(2, value)].concat();
    let dry_run = [field(2, b"query"), field(4, b"dryRun"), field(6, b"string")].concat();
    let operation = [
        field(8, &field(1, &field(2, &field(3, &dry_run)))),
        field(9, &field(1, &named("200", &field(1, &field(1, b"OK"))))),
        field(13, &named("x-kubernetes-action", &any("\"patch\""))),
    ];
    let a = [field(22, &field(1, b"array")), field(23, &field(1, &field(1, b"#/definitions/E")))].concat();
    let d =
        [field(19, b"a"), field(22, &field(1, b"object")), field(25, &field(1, &named("a", &a)))].concat();
    let want = [
        field(1, b"2.0"),
        field(2, &[field(1, b"T"), field(2, b"v")].concat()),
        field(8, &field(2, &named("/p", &field(8, &operation.concat())))),
        field(9, &field(1, &named("D", &d))),
    ];
    assert_eq!(document_to_protobuf(&document), want.concat());
    assert!(protobuf::read_object(&document_to_protobuf(&document)).is_err());
}
