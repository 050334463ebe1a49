//! Requests that mean no good, or that are simply wrong: each has its fixed answer.
#![allow(missing_docs)]

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::{ApiServerConfig, Identity, Limits, NoNodes};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use support::{Running, config_map, request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A TLS connection without a client certificate.
async fn stranger(running: &Running) -> TlsStream<TcpStream> {
    use rustls_pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let pem = running.authority.certificate_pem();
    roots
        .add(rustls_pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM"))
        .expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(running.address).await.expect("connects");
    let name = "localhost".try_into().expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake")
}

async fn ask_as_stranger(running: &Running, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Value) {
    let io = TokioIo::new(stranger(running).await);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.expect("HTTP");
    tokio::spawn(connection);
    let response = sender.send_request(request("GET", path, headers, b"")).await.expect("an answer");
    let status = response.status();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))))
}

#[tokio::test]
async fn strangers_see_health_and_version_only() {
    let running = Running::start().await;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(ask_as_stranger(&running, path, &[]).await.0, 200, "{path}");
    }
    for path in [
        "/",
        "/api",
        "/apis",
        "/api/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/metrics",
        "/nonsense",
        "/api/v1/pods",
        MAPS,
        "/api/v1/nonsense",
    ] {
        assert_eq!(ask_as_stranger(&running, path, &[]).await.0, 403, "{path}");
    }
    let (_, status) = ask_as_stranger(&running, "/api/v1/pods", &[]).await;
    assert_eq!(
        status["message"],
        r#"pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope"#
    );
    let (code, status) = ask_as_stranger(&running, MAPS, &[("authorization", "Bearer forged")]).await;
    assert_eq!((code.as_u16(), &status["reason"]), (401, &json!("Unauthorized")));
    let forged = [
        ("x-remote-user", "kubernetes-admin"),
        ("x-remote-group", "system:masters"),
        ("impersonate-user", "kubernetes-admin"),
    ];
    assert_eq!(ask_as_stranger(&running, MAPS, &forged).await.0, 403, "headers say nothing about who speaks");
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_sent_away() {
    let running = Running::start().await;
    let ask = async |host: &str, origin: Option<&str>| {
        let io = TokioIo::new(stranger(&running).await);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.expect("HTTP");
        tokio::spawn(connection);
        let mut builder = http::Request::get("/version").header("host", host);
        if let Some(origin) = origin {
            builder = builder.header("origin", origin);
        }
        let request = builder.body(http_body_util::Empty::<bytes::Bytes>::new()).expect("a request");
        sender.send_request(request).await.expect("an answer").status().as_u16()
    };
    for host in
        ["localhost", "127.0.0.1:6443", "[::1]:6443", "LOCALHOST.", "kubernetes.default.svc", "10.43.0.1:443"]
    {
        assert_eq!(ask(host, None).await, 200, "{host}");
    }
    for host in
        ["evil.example", "evil.example:6443", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1"]
    {
        assert_eq!(ask(host, None).await, 421, "{host}");
    }
    assert_eq!(ask("localhost", Some("https://evil.example")).await, 403);
    assert_eq!(ask("localhost", Some("null")).await, 403);
    for (host, origin, code) in [
        ("127.0.0.1:6443", "https://127.0.0.1:6443", 200),
        ("127.0.0.1:6443", "http://127.0.0.1:6443", 200),
        ("localhost", "https://localhost", 200),
        // A page of another server of this machine.
        ("localhost", "http://localhost", 403),
        ("localhost:6443", "http://localhost:3000", 403),
        ("127.0.0.1:6443", "https://localhost:6443", 403),
        ("evil.example:6443", "https://evil.example:6443", 421),
    ] {
        assert_eq!(ask(host, Some(origin)).await, code, "{host} {origin}");
    }
}

#[tokio::test]
async fn bodies_of_the_wrong_kind_are_refused() {
    let running = Running::start().await;
    let map = config_map("c").to_string();
    let table: Vec<(&str, Vec<u8>, u16)> = vec![
        ("text/plain", map.clone().into_bytes(), 415),
        ("application/x-www-form-urlencoded", map.clone().into_bytes(), 415),
        ("multipart/form-data", map.clone().into_bytes(), 415),
        ("application/json", vec![b'['; 1_000_000], 400),
        ("application/json", format!("{{\"data\":{{\"a\":{}}}}}", "[".repeat(20_000)).into_bytes(), 400),
        ("application/json", b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"n\"},\"immutable\":1e400}".to_vec(), 400),
        ("application/json", b"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"\xff\"}}".to_vec(), 400),
        ("application/json", b"".to_vec(), 400),
        ("application/json", b"null".to_vec(), 422),
        ("application/json", b"[]".to_vec(), 400),
        ("application/json", map.replace("ConfigMap", "Secret").into_bytes(), 400),
        ("application/json", map.replace("v1", "v2").into_bytes(), 400),
        ("application/yaml", b"a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g]\n".to_vec(), 400),
        ("application/vnd.kubernetes.protobuf", b"k8s\0nonsense".to_vec(), 400),
        ("application/json", vec![b' '; 3 * 1024 * 1024 + 1], 413),
    ];
    for (media_type, body, expected) in table {
        let begin = Instant::now();
        let (code, status) = running.call("POST", MAPS, &[("content-type", media_type)], &body).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(code.as_u16(), expected, "{media_type} {shown}: {status}");
        assert_eq!(status["kind"], "Status");
        assert!(begin.elapsed() < Duration::from_secs(5), "{media_type} {shown}");
    }
    let large = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"k": "x".repeat(1_100_000)}});
    assert_eq!(running.post(MAPS, &large).await.0, 422, "values of a ConfigMap end at 1 MiB");
    let yaml = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: from-yaml}\ndata: {a: \"1\"}\n";
    assert_eq!(running.call("POST", MAPS, &[("content-type", "application/yaml")], yaml).await.0, 201);
    assert_eq!(running.call("POST", MAPS, &[], map.as_bytes()).await.0, 201, "old kubectl names no type");
}

#[tokio::test]
async fn unknown_and_duplicate_fields_are_told_or_refused_as_asked() {
    let running = Running::start().await;
    let body = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"dat":{},"data":{"a":"1"},"data":{"a":"2"}}"#;
    let json_type = [("content-type", "application/json")];
    let (code, status) =
        running.call("POST", &format!("{MAPS}?fieldValidation=Strict"), &json_type, body).await;
    assert_eq!(code, 400);
    let message = status["message"].as_str().expect("a message");
    assert!(
        message.starts_with(
            r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: "#
        ),
        "{message}"
    );
    assert!(
        message.contains(r#"unknown field "dat""#) && message.contains(r#"duplicate field "data""#),
        "{message}"
    );
    let response = running.send(request("POST", &format!("{MAPS}?dryRun=All"), &json_type, body)).await;
    assert_eq!(response.status(), 201);
    let warnings: Vec<_> = response
        .headers()
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().expect("text").to_owned())
        .collect();
    assert!(warnings.contains(&r#"299 - "unknown field \"dat\"""#.to_owned()), "{warnings:?}");
    let response =
        running.send(request("POST", &format!("{MAPS}?fieldValidation=Ignore"), &json_type, body)).await;
    assert_eq!((response.status().as_u16(), response.headers().get("warning")), (201, None));
    assert_eq!(running.get(&format!("{MAPS}/c")).await.1["data"]["a"], "2", "the last one wins");
    let (code, _) = running.call("POST", &format!("{MAPS}?fieldValidation=Maybe"), &json_type, body).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn paths_names_and_methods_cannot_be_bent() {
    let running = Running::start().await;
    for path in [
        "/api/v1/namespaces/default/configmaps/..%2f..%2fkube-system",
        "/api/v1//pods",
        "/api/v1/namespaces/default/../pods",
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v2/pods",
        "/api/v1/watch/pods",
        "/apis/apps/v1beta1/deployments",
        "/apis/apps/v1/namespaces/default/deployments/d/nonsense",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/pods/p/nonsense",
    ] {
        assert_eq!(running.get(path).await.0, 404, "{path}");
    }
    for name in ["../../etc", "A", "a/b", "", "a\u{1b}[31m"] {
        let (code, status) = running.post(MAPS, &config_map(name)).await;
        assert_eq!((code.as_u16(), &status["reason"]), (422, &json!("Invalid")), "{name:?}");
    }
    assert_eq!(running.call("POST", "/api/v1/configmaps", &[], b"{}").await.0, 405);
    assert_eq!(running.call("TRACE", MAPS, &[], b"").await.0, 405);
    assert_eq!(running.call("POST", "/healthz", &[], b"").await.0, 405);
    let elsewhere = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "kube-system"}});
    let (code, status) = running.post(MAPS, &elsewhere).await;
    assert_eq!(code, 400);
    assert!(status["message"].as_str().expect("text").starts_with(
        "the namespace of the provided object does not match the namespace sent on the request"
    ));
    let (code, status) = running.post("/api/v1/namespaces/nowhere/configmaps", &config_map("c")).await;
    assert_eq!((code.as_u16(), &status["message"]), (404, &json!(r#"namespaces "nowhere" not found"#)));
}

#[tokio::test]
async fn patches_have_limits() {
    let running = Running::start().await;
    running.post(MAPS, &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "x".repeat(1000)}})).await;
    let path = format!("{MAPS}/c");
    let patch = async |media_type: &str, body: Value| {
        running.call("PATCH", &path, &[("content-type", media_type)], body.to_string().as_bytes()).await
    };
    let many: Vec<Value> =
        (0..10_001).map(|_| json!({"op": "test", "path": "/kind", "value": "ConfigMap"})).collect();
    assert_eq!(patch("application/json-patch+json", json!(many)).await.0, 413);
    // Each copies everything before it: after 30 operations a million times as much.
    let bomb: Vec<Value> = (0..30)
        .map(|count| json!({"op": "copy", "from": "/data", "path": format!("/data/c{count}")}))
        .collect();
    let begin = Instant::now();
    let (code, status) = patch("application/json-patch+json", json!(bomb)).await;
    assert_eq!(code, 422, "{status}");
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert_eq!(
        patch("application/json-patch+json", json!([{"op": "test", "path": "/kind", "value": "Pod"}]))
            .await
            .0,
        422
    );
    assert_eq!(
        patch("application/json-patch+json", json!([{"op": "remove", "path": "/data/none"}])).await.0,
        422
    );
    assert_eq!(patch("application/json-patch+json", json!({"op": "remove"})).await.0, 400);
    assert_eq!(patch("application/merge-patch+json", json!([])).await.0, 400);
    assert_eq!(patch("application/json", json!({})).await.0, 415);
    let (code, status) = patch("application/apply-patch+cbor", json!({})).await;
    assert_eq!((code.as_u16(), &status["reason"]), (415, &json!("UnsupportedMediaType")));
    assert_eq!(patch("application/merge-patch+json", json!({"metadata": {"name": "other"}})).await.0, 400);
    assert_eq!(patch("application/merge-patch+json", json!({"metadata": {"uid": "other"}})).await.0, 409);
    assert_eq!(
        patch("application/merge-patch+json", json!({"metadata": {"resourceVersion": "1"}})).await.0,
        409
    );
    let (code, status) = patch("application/strategic-merge-patch+json", json!({"data": {"a": 1}})).await;
    assert!(code == 422 || code == 400, "{code} {status}");
    assert_eq!(running.get(&path).await.1["data"]["a"], "x".repeat(1000), "nothing of all that was stored");
}

#[tokio::test]
async fn list_parameters_are_checked() {
    let running = Running::start().await;
    let table = [
        ("labelSelector=a%3Db%3Dc", 400),
        ("fieldSelector=spec.nonsense%3D1", 400),
        ("resourceVersion=abc", 422),
        ("resourceVersion=007", 422),
        ("resourceVersion=-1", 422),
        ("resourceVersion=999999999", 504),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersion=1&resourceVersionMatch=Nonsense", 422),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("continue=nonsense", 400),
        ("limit=x", 400),
        ("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 422),
        ("watch=true&sendInitialEvents=true", 422),
        ("watch=true&resourceVersionMatch=NotOlderThan", 422),
        ("resourceVersion=0&resourceVersionMatch=NotOlderThan&limit=1", 200),
    ];
    for (query, expected) in table {
        let (code, status) = running.get(&format!("{MAPS}?{query}")).await;
        assert_eq!(code.as_u16(), expected, "{query}: {status}");
    }
}

#[tokio::test]
async fn answers_come_in_the_forms_that_clients_ask_for() {
    let running = Running::start().await;
    running.post(MAPS, &config_map("c")).await;
    let ask = async |path: &str, accept: &str| running.call("GET", path, &[("accept", accept)], b"").await;
    let (_, table) = ask(MAPS, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").await;
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert_eq!(
        table["columnDefinitions"].as_array().expect("columns").len(),
        table["rows"][0]["cells"].as_array().expect("cells").len()
    );
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let (_, list) = ask(MAPS, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(list["items"][0].get("data").is_none());
    assert_eq!(ask(MAPS, "application/cbor").await.0, 406);
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let response = running.send(request("GET", "/apis", &[("accept", accept)], b"")).await;
    assert_eq!(
        response.headers()["content-type"],
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    assert_eq!(running.get("/apis").await.1["kind"], "APIGroupList");
    let (_, resources) = running.get("/api/v1").await;
    let names: Vec<&str> = resources["resources"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|entry| entry["name"].as_str())
        .collect();
    for name in [
        "pods",
        "pods/log",
        "pods/status",
        "pods/binding",
        "pods/environment",
        "namespaces/status",
        "configmaps",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let response = running
        .send(request(
            "GET",
            "/openapi/v2",
            &[("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")],
            b"",
        ))
        .await;
    assert_eq!(
        response.headers()["content-type"],
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    );
}

#[tokio::test]
async fn slow_clients_are_sent_away() {
    let limits = Limits {
        header_time: Duration::from_millis(300),
        handshake_time: Duration::from_millis(300),
        body_time: Duration::from_millis(300),
        ..Limits::default()
    };
    let running =
        Running::start_with(ApiServerConfig { limits, ..ApiServerConfig::default() }, Arc::new(NoNodes))
            .await;
    let begin = Instant::now();
    let mut silent = TcpStream::connect(running.address).await.expect("connects");
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest).await;
    let mut idle = stranger(&running).await;
    let _ = idle.read_to_end(&mut rest).await;
    let mut drip = stranger(&running).await;
    drip.write_all(b"GET /version HTTP/1.1\r\nHost: local").await.expect("written");
    let _ = drip.read_to_end(&mut rest).await;
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    // A body that never ends, from somebody who may send one.
    let io = running.server.in_memory(Identity::admin()).open();
    let (mut reader, mut writer) = tokio::io::split(io);
    writer
        .write_all(format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{{").as_bytes())
        .await
        .expect("written");
    let mut answer = vec![0; 4096];
    let count = tokio::time::timeout(Duration::from_secs(5), reader.read(&mut answer))
        .await
        .expect("an answer")
        .expect("readable");
    assert!(answer[..count].starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer[..count]));
}

#[tokio::test]
async fn one_identity_cannot_take_everything() {
    let limits = Limits { long_requests: 2, connections: 3, ..Limits::default() };
    let running =
        Running::start_with(ApiServerConfig { limits, ..ApiServerConfig::default() }, Arc::new(NoNodes))
            .await;
    let watch = format!("{MAPS}?watch=true");
    let first = running.send(request("GET", &watch, &[], b"")).await;
    let second = running.send(request("GET", &watch, &[], b"")).await;
    let refused = running.send(request("GET", &watch, &[], b"")).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(running.get(MAPS).await.0, 200, "short requests go on");
    let other = running.send_as(Identity::node("n"), request("GET", &watch, &[], b"")).await;
    assert_eq!(other.status(), 200, "others go on");
    drop((first, second));
    // The places come back when the server has noticed that nobody reads any more.
    let begin = Instant::now();
    loop {
        let again = running.send(request("GET", &watch, &[], b"")).await;
        if again.status() == 200 {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
    let held = [stranger(&running).await, stranger(&running).await, stranger(&running).await];
    let mut fourth = TcpStream::connect(running.address).await.expect("the kernel accepts");
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(3), fourth.read_to_end(&mut rest)).await;
    assert!(closed.is_ok(), "a connection beyond the cap is closed at once");
    drop(held);
}
