//! Protobuf, YAML and gzip: what clients written in Go send and read.
#![allow(missing_docs)]

mod support;

use std::io::Read;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use schema::protobuf::{read_message, read_object, write_object};
use serde_json::{Value, json};
use support::{Running, config_map, pod, request};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// What kubectl and controllers accept.
const GO: &str = "application/vnd.kubernetes.protobuf,application/json";

/// An answer: its code, content type and bytes.
async fn ask(
    running: &Running,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> (u16, String, Bytes) {
    let response = running.send(request(method, path, headers, body)).await;
    let content_type = response.headers()["content-type"].to_str().expect("text").to_owned();
    let code = response.status().as_u16();
    (code, content_type, response.into_body().collect().await.expect("a body").to_bytes())
}

/// The object of an answer in protobuf.
async fn go(running: &Running, method: &str, path: &str, media_type: &str, body: &[u8]) -> (u16, Value) {
    let headers = [("accept", GO), ("content-type", media_type)];
    let (code, content_type, bytes) = ask(running, method, path, &headers, body).await;
    assert_eq!(content_type, PROTOBUF, "{method} {path}: {}", String::from_utf8_lossy(&bytes));
    (code, read_object(&bytes).expect("well formed"))
}

fn protobuf(value: &Value) -> Vec<u8> {
    write_object(value.to_string().as_bytes()).expect("of a known kind")
}

#[tokio::test]
async fn every_verb_is_answered_in_protobuf_to_who_asks_for_it_first() {
    let running = Running::start().await;
    let (code, made) = go(&running, "POST", MAPS, PROTOBUF, &protobuf(&config_map("c"))).await;
    assert_eq!((code, &made["kind"], &made["data"]), (201, &json!("ConfigMap"), &json!({"k": "v"})));
    let version = made["metadata"]["resourceVersion"].clone();
    let one = format!("{MAPS}/c");
    let (code, read) = go(&running, "GET", &one, "", b"").await;
    assert_eq!((code, &read["metadata"]["resourceVersion"]), (200, &version));
    assert_eq!(
        read["metadata"]["creationTimestamp"],
        running.get(&one).await.1["metadata"]["creationTimestamp"]
    );
    let mut changed = made.clone();
    changed["data"] = json!({"k": "w"});
    assert_eq!(go(&running, "PUT", &one, PROTOBUF, &protobuf(&changed)).await.1["data"], json!({"k": "w"}));
    let (code, conflict) = go(&running, "PUT", &one, PROTOBUF, &protobuf(&changed)).await;
    assert_eq!((code, &conflict["kind"], &conflict["reason"]), (409, &json!("Status"), &json!("Conflict")));
    assert_eq!((&conflict["details"]["name"], &conflict["code"]), (&json!("c"), &json!(409)));
    let merge = "application/merge-patch+json";
    let (_, patched) = go(&running, "PATCH", &one, merge, br#"{"data":{"k":null,"l":"x"}}"#).await;
    assert_eq!(patched["data"], json!({"l": "x"}));
    let (code, list) = go(&running, "GET", MAPS, "", b"").await;
    assert_eq!((code, &list["kind"], &list["apiVersion"]), (200, &json!("ConfigMapList"), &json!("v1")));
    assert!(list["items"].as_array().expect("items").iter().any(|item| item["data"] == json!({"l": "x"})));
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}});
    assert_eq!(go(&running, "DELETE", &one, PROTOBUF, &protobuf(&options)).await.0, 409);
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    let (code, status) = go(&running, "DELETE", &one, PROTOBUF, &protobuf(&options)).await;
    assert_eq!((code, &status["kind"], &status["status"]), (200, &json!("Status"), &json!("Success")));
    assert_eq!(go(&running, "GET", &one, "", b"").await.1["message"], json!("configmaps \"c\" not found"));

    assert_eq!(go(&running, "POST", PODS, PROTOBUF, &protobuf(&pod("p"))).await.0, 201);
    let status =
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}, "status": {"phase": "Running"}});
    let (code, told) = go(&running, "PUT", &format!("{PODS}/p/status"), PROTOBUF, &protobuf(&status)).await;
    assert_eq!((code, &told["status"]["phase"]), (200, &json!("Running")));
    let (code, gone) = go(&running, "DELETE", PODS, "", b"").await;
    assert_eq!(
        (code, &gone["kind"], &gone["items"][0]["metadata"]["name"]),
        (200, &json!("PodList"), &json!("p"))
    );
    assert_eq!(go(&running, "GET", "/api/v1", "", b"").await.1["kind"], "APIResourceList");
    assert_eq!(ask(&running, "GET", "/version", &[("accept", GO)], b"").await.1, "application/json");
}

#[tokio::test]
async fn bodies_that_do_not_fit_their_path_are_refused_in_protobuf_too() {
    let running = Running::start().await;
    let (code, status) = go(&running, "POST", MAPS, PROTOBUF, &protobuf(&pod("p"))).await;
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")));
    let (code, status) = go(&running, "POST", MAPS, "application/cbor", b"x").await;
    assert_eq!((code, &status["reason"]), (415, &json!("UnsupportedMediaType")));
    let accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    assert!(status["message"].as_str().expect("text").ends_with(accepted), "{status}");
    let mut invalid = pod("p");
    invalid["spec"]["containers"][0]["env"] = json!([{"name": "a=b"}]);
    let (code, status) = go(&running, "POST", PODS, PROTOBUF, &protobuf(&invalid)).await;
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    assert_eq!(status["details"]["causes"][0]["field"], "spec.containers[0].env[0].name");
}

/// A field with bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(length.to_le_bytes()[0] | 0x80);
        length >>= 7;
    }
    bytes.push(length.to_le_bytes()[0]);
    [bytes, content.to_vec()].concat()
}

/// An object in its envelope.
fn sealed(kind: &[u8], raw: &[u8]) -> Vec<u8> {
    [b"k8s\0".to_vec(), field(1, &[field(1, b"v1"), field(2, kind)].concat()), field(2, raw)].concat()
}

#[tokio::test]
async fn hostile_protobuf_is_refused_in_words_and_nothing_else_suffers() {
    let running = Running::start().await;
    let deep = (0..2_000).fold(Vec::new(), |inner, _| sealed(b"List", &field(2, &field(1, &inner))));
    let bodies: [(&str, Vec<u8>, &str); 6] = [
        ("nothing but the beginning", b"k8s\0".to_vec(), "no kind"),
        ("envelopes in envelopes", deep, "deeper than 100 levels"),
        (
            "a million empty items",
            sealed(b"Pod", &field(2, &[0x12, 0].repeat(1_000_000))),
            "more than 500000 values",
        ),
        (
            "a length past the end",
            sealed(b"ConfigMap", &[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]),
            "middle of a field",
        ),
        ("a number without an end", sealed(b"ConfigMap", &[0xff; 64]), "middle of a field"),
        ("a name that is no text", sealed(b"ConfigMap", &field(1, &field(1, &[0xff, 0xfe]))), "not UTF-8"),
    ];
    for (what, body, words) in bodies {
        let (code, status) = go(&running, "POST", MAPS, PROTOBUF, &body).await;
        let message = status["message"].as_str().expect("text");
        assert!(code == 400 && message.contains(words), "{what}: {code} {message}");
        let (code, status) = go(&running, "DELETE", &format!("{MAPS}/none"), PROTOBUF, &body).await;
        assert_eq!((code, &status["kind"]), (400, &json!("Status")), "{what}");
    }
    assert_eq!(go(&running, "POST", MAPS, PROTOBUF, &protobuf(&config_map("c"))).await.0, 201);
}

#[tokio::test]
async fn our_own_kinds_have_no_protobuf_and_say_so_before_anything_is_done() {
    let running = Running::start().await;
    let path = "/apis/template.coracle.dev/v1/namespaces/default/templates";
    let template =
        json!({"apiVersion": "template.coracle.dev/v1", "kind": "Template", "metadata": {"name": "t"}})
            .to_string();
    let headers = [("accept", PROTOBUF), ("content-type", "application/json")];
    let (code, _, bytes) = ask(&running, "POST", path, &headers, template.as_bytes()).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(code == 406 && text.contains("application/json, application/yaml"), "{code} {text}");
    let (_, _, list) = ask(&running, "GET", path, &[("accept", GO)], b"").await;
    assert_eq!(serde_json::from_slice::<Value>(&list).expect("JSON")["items"], json!([]));
    let headers = [("content-type", PROTOBUF)];
    let raw =
        [b"k8s\0\x0a\x23\x0a\x17template.coracle.dev/v1\x12\x08Template".as_slice(), b"\x12\x00"].concat();
    assert_eq!(ask(&running, "POST", path, &headers, &raw).await.0, 415);
}

/// The events of a watch in frames.
fn events(mut bytes: &[u8]) -> Vec<Value> {
    let ty = schema::builtin().type_for("v1", "WatchEvent").expect("known");
    let mut events = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (event, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        events.push(read_message(ty, event).expect("well formed"));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "{bytes:?}");
    events
}

#[tokio::test]
async fn a_watch_in_protobuf_has_frames_with_envelopes() {
    let running = Running::start().await;
    running.post(MAPS, &config_map("a")).await;
    let (_, b) = running.post(MAPS, &config_map("b")).await;
    running.call("DELETE", &format!("{MAPS}/a"), &[], b"").await;
    let from = b["metadata"]["resourceVersion"].as_str().expect("a version");
    let selector = "fieldSelector=metadata.namespace=default";
    let path = format!("{MAPS}?watch=true&allowWatchBookmarks=true&timeoutSeconds=1&{selector}");
    let accept = [("accept", "application/vnd.kubernetes.protobuf;stream=watch,application/json")];
    let (code, content_type, bytes) =
        ask(&running, "GET", &format!("{path}&resourceVersion={from}"), &accept, b"").await;
    assert_eq!((code, content_type.as_str()), (200, "application/vnd.kubernetes.protobuf;stream=watch"));
    let seen = events(&bytes);
    assert_eq!((&seen[0]["type"], &seen[0]["object"]["kind"]), (&json!("DELETED"), &json!("ConfigMap")));
    assert_eq!(seen[0]["object"]["metadata"]["name"], "a");
    let last = seen.last().expect("a bookmark");
    assert_eq!((&last["type"], &last["object"]["apiVersion"]), (&json!("BOOKMARK"), &json!("v1")));

    let initial = format!("{path}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let (_, _, bytes) = ask(&running, "GET", &initial, &accept, b"").await;
    let seen = events(&bytes);
    let names: Vec<&Value> = seen
        .iter()
        .filter(|event| event["type"] == "ADDED")
        .map(|event| &event["object"]["metadata"]["name"])
        .collect();
    assert_eq!(names, ["b", "kube-root-ca.crt"]);
    let end = seen.iter().find(|event| event["type"] == "BOOKMARK").expect("a bookmark");
    assert_eq!(end["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));

    let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let (_, _, bytes) = ask(&running, "GET", &initial, &[("accept", partial)], b"").await;
    let first = &events(&bytes)[0]["object"];
    assert_eq!(
        (&first["kind"], &first["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!((&first["metadata"]["name"], first.get("data")), (&json!("b"), None));

    let (code, _, bytes) = ask(&running, "GET", &path, &[("accept", "application/yaml")], b"").await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(code == 406 && text.contains("stream=watch"), "{code} {text}");
}

#[tokio::test]
async fn metadata_comes_in_both_versions_and_notations() {
    let running = Running::start().await;
    running.post(MAPS, &config_map("c")).await;
    for version in ["v1", "v1beta1"] {
        let accept =
            format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v={version},application/json");
        let (_, content_type, bytes) = ask(&running, "GET", MAPS, &[("accept", &accept)], b"").await;
        assert_eq!(content_type, PROTOBUF);
        let list = read_object(&bytes).expect("well formed");
        assert_eq!(
            (&list["kind"], &list["apiVersion"]),
            (&json!("PartialObjectMetadataList"), &json!(format!("meta.k8s.io/{version}")))
        );
        assert_eq!(list["items"][0]["metadata"]["name"], "c");
        assert!(!list["metadata"]["resourceVersion"].as_str().expect("a version").is_empty());
        let (_, _, bytes) = ask(&running, "GET", &format!("{MAPS}/c"), &[("accept", &accept)], b"").await;
        assert_eq!(read_object(&bytes).expect("well formed")["metadata"]["name"], "c");
    }
    let table = format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1");
    assert_eq!(ask(&running, "GET", MAPS, &[("accept", &table)], b"").await.0, 406);
    let both = format!("{table},application/json;as=Table;g=meta.k8s.io;v=v1");
    assert_eq!(ask(&running, "GET", MAPS, &[("accept", &both)], b"").await.1, "application/json");
}

#[tokio::test]
async fn yaml_is_answered_in_yaml() {
    let running = Running::start().await;
    let headers = [("accept", "application/yaml"), ("content-type", "application/yaml")];
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: \"yes\", b: \"1\\n2\\n\"}\n";
    let (code, content_type, bytes) = ask(&running, "POST", MAPS, &headers, text.as_bytes()).await;
    assert_eq!((code, content_type.as_str()), (201, "application/yaml"));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(text.contains("\ndata:\n  a: \"yes\"\n  b: |\n    1\n    2\n"), "{text}");
    let (code, content_type, bytes) = ask(&running, "GET", &format!("{MAPS}/none"), &headers, b"").await;
    assert_eq!((code, content_type.as_str()), (404, "application/yaml"));
    assert!(String::from_utf8_lossy(&bytes).contains("reason: NotFound"));
    let (_, _, bytes) = ask(&running, "GET", MAPS, &headers, b"").await;
    assert!(String::from_utf8_lossy(&bytes).contains("kind: ConfigMapList"));
}

#[tokio::test]
async fn large_answers_are_packed_and_the_same() {
    let running = Running::start().await;
    let mut map = config_map("large");
    map["data"] = json!({"k": "x".repeat(200_000)});
    running.post(MAPS, &map).await;
    for accept in ["application/json", PROTOBUF, "application/yaml"] {
        for path in [MAPS.to_owned(), format!("{MAPS}/large")] {
            let (_, _, plain) = ask(&running, "GET", &path, &[("accept", accept)], b"").await;
            let headers = [("accept", accept), ("accept-encoding", "gzip")];
            let response = running.send(request("GET", &path, &headers, b"")).await;
            assert_eq!(response.headers()["content-encoding"], "gzip", "{accept} {path}");
            assert_eq!(response.headers()["vary"], "Accept-Encoding");
            let packed = response.into_body().collect().await.expect("a body").to_bytes();
            let mut unpacked = Vec::new();
            GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).expect("gzip");
            assert!(plain == unpacked && packed.len() < plain.len() / 10, "{accept} {path}");
        }
    }
}
