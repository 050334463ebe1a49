//! What the API server asks of kubelets: logs, environments, streams; against a small kubelet of the test.
#![allow(missing_docs)]

mod support;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use apiserver::{ApiServerConfig, Identity, NodeConnector, NodeIo};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use support::{Running, pod, request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Answers with the request line, refuses containers named `waiting`, and echoes streams.
#[derive(Clone, Default)]
struct EchoKubelet {
    asked: Arc<Mutex<Vec<String>>>,
}

impl EchoKubelet {
    fn answer(&self, mut request: Request<Incoming>) -> Response<Full<Bytes>> {
        let line = request.uri().to_string();
        self.asked.lock().expect("no panic").push(line.clone());
        if line.contains("/waiting") {
            let mut refused = Response::new(Full::from(
                "container \"waiting\" in pod \"p\" is waiting to start: ContainerCreating",
            ));
            *refused.status_mut() = StatusCode::BAD_REQUEST;
            return refused;
        }
        if line.starts_with("/portForward/") {
            return Response::builder()
                .status(403)
                .header("x-accepted-stream-protocol-versions", "portforward.k8s.io")
                .body(Full::from("unable to upgrade"))
                .expect("a response");
        }
        if line.starts_with("/exec/") || line.ends_with("/upgrade") {
            let upgraded = hyper::upgrade::on(&mut request);
            tokio::spawn(async move {
                let mut stream = TokioIo::new(upgraded.await.expect("upgraded"));
                let mut bytes = [0; 64];
                while let Ok(count) = stream.read(&mut bytes).await {
                    if count == 0 || stream.write_all(&bytes[..count].to_ascii_uppercase()).await.is_err() {
                        return;
                    }
                }
            });
            return Response::builder()
                .status(101)
                .header("connection", "Upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-protocol", "v5.channel.k8s.io")
                .body(Full::default())
                .expect("a response");
        }
        Response::builder().header("content-type", "text/plain").body(Full::from(line)).expect("a response")
    }
}

impl NodeConnector for EchoKubelet {
    fn connect<'c>(
        &'c self,
        node: &'c str,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn NodeIo>>> + Send + 'c>> {
        Box::pin(async move {
            if node != "n1" {
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "nobody there"));
            }
            let (near, far) = tokio::io::duplex(1024);
            let kubelet = self.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let answer = kubelet.answer(request);
                    async move { Ok::<_, std::convert::Infallible>(answer) }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(far), service)
                    .with_upgrades()
                    .await;
            });
            Ok(Box::new(near) as Box<dyn NodeIo>)
        })
    }
}

fn bound(name: &str, node: &str, containers: &[&str]) -> Value {
    let mut value = pod(name);
    let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name, "image": "x"})).collect();
    value["spec"]["containers"] = json!(containers);
    if !node.is_empty() {
        value["spec"]["nodeName"] = json!(node);
    }
    value
}

async fn started() -> Running {
    let running = Running::start_with(ApiServerConfig::default(), Arc::new(EchoKubelet::default())).await;
    for object in [
        bound("p", "n1", &["main"]),
        bound("two", "n1", &["a", "waiting"]),
        bound("lost", "n2", &["main"]),
        bound("new", "", &["main"]),
    ] {
        let (code, status) = running.post(PODS, &object).await;
        assert_eq!(code, 201, "{status}");
    }
    running
}

async fn text(running: &Running, path: &str) -> (u16, String) {
    let response = running.send(request("GET", path, &[], b"")).await;
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (code, String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test]
async fn logs_are_fetched_from_the_node_of_the_pod() {
    let running = started().await;
    assert_eq!(
        text(&running, &format!("{PODS}/p/log?follow=false&tailLines=5&insecureSkipTLSVerifyBackend=true"))
            .await,
        (200, "/containerLogs/default/p/main?follow=false&tailLines=5".to_owned())
    );
    assert_eq!(text(&running, &format!("{PODS}/two/log?container=a")).await.0, 200);
    assert_eq!(
        text(&running, &format!("{PODS}/new/log")).await,
        (200, String::new()),
        "nothing runs before it has a node"
    );
    let table = [
        ("two/log", 400, "a container name must be specified for pod two, choose one of: [a waiting]"),
        ("two/log?container=none", 400, "container none is not valid for pod two"),
        ("two/log?container=waiting", 400, "is waiting to start: ContainerCreating"),
        ("p/log?tailLines=-1", 422, "tailLines"),
        ("p/log?sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z", 422, "at most one of"),
        ("none/log", 404, r#"pods \"none\" not found"#),
        ("lost/log", 503, "nobody there"),
    ];
    for (path, code, part) in table {
        let (found, answer) = text(&running, &format!("{PODS}/{path}")).await;
        assert_eq!(found, code, "{path}: {answer}");
        assert!(answer.contains(part), "{path}: {answer}");
    }
}

#[tokio::test]
async fn the_environment_record_is_fetched_with_secrets_only_on_demand() {
    let running = started().await;
    assert_eq!(
        text(&running, &format!("{PODS}/p/environment?container=main")).await,
        (200, "/environment/default/p?showSecrets=false&container=main".to_owned())
    );
    assert_eq!(
        text(&running, &format!("{PODS}/p/environment?showSecrets=true")).await,
        (200, "/environment/default/p?showSecrets=true".to_owned())
    );
    assert_eq!(text(&running, &format!("{PODS}/new/environment")).await.0, 400);
}

#[tokio::test]
async fn streams_are_handed_through_after_the_upgrade() {
    let running = started().await;
    let io = running.server.in_memory(Identity::admin()).open();
    let (mut reader, mut writer) = tokio::io::split(io);
    let head = format!(
        "GET {PODS}/p/exec?command=cat&stdin=true HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-protocol: v5.channel.k8s.io\r\n\r\n"
    );
    writer.write_all(head.as_bytes()).await.expect("written");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(reader.read_u8().await.expect("an answer"));
    }
    let answer = String::from_utf8_lossy(&answer).to_lowercase();
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(answer.contains("sec-websocket-protocol: v5.channel.k8s.io"), "{answer}");
    writer.write_all(b"hello").await.expect("written");
    let mut echo = [0; 5];
    reader.read_exact(&mut echo).await.expect("echoed");
    assert_eq!(&echo, b"HELLO");
    let (code, _) = running.call("POST", &format!("{PODS}/p/exec?command=ls"), &[], b"").await;
    assert_eq!(code, 400, "without an upgrade there is no stream");
}

#[tokio::test]
async fn a_refusal_of_a_stream_names_the_protocols_that_would_have_been_taken() {
    let running = started().await;
    let headers = [("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", "v9")];
    let response = running.send(request("POST", &format!("{PODS}/p/portforward"), &headers, b"")).await;
    assert_eq!(response.status(), 403);
    assert_eq!(response.headers()["x-accepted-stream-protocol-versions"], "portforward.k8s.io");
}

#[tokio::test]
async fn requests_to_proxies_keep_their_path_and_query() {
    let running = started().await;
    for (path, asked) in [
        ("p/proxy/a//b%2fc/../d/?x=%20&y", "/podProxy/default/p/http/80/a//b%2fc/../d/?x=%20&y"),
        ("p:8080/proxy/", "/podProxy/default/p/http/8080/"),
        ("https:p:443/proxy/x", "/podProxy/default/p/https/443/x"),
    ] {
        assert_eq!(text(&running, &format!("{PODS}/{path}")).await, (200, asked.to_owned()));
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"] {
        let response = running.send(request(method, &format!("{PODS}/p/proxy/x"), &[], b"{}")).await;
        assert_eq!(response.status(), 200, "{method}");
    }
    let response = running.send(request("GET", &format!("{PODS}/p/proxy?x=1"), &[], b"")).await;
    assert_eq!(response.status(), 301);
    assert_eq!(response.headers()["location"], format!("{PODS}/p/proxy/?x=1"));
    for (path, code, words) in [
        ("new/proxy/", 400, "does not have a host assigned"),
        ("none/proxy/", 404, "not found"),
        ("ftp:p:1/proxy/", 400, "invalid pod request"),
        ("lost/proxy/", 503, "nobody there"),
        ("p/resize", 405, "cannot be resized in place"),
    ] {
        let (found, answer) = text(&running, &format!("{PODS}/{path}")).await;
        assert!(found == code && answer.contains(words), "{path}: {found} {answer}");
    }
}

#[tokio::test]
async fn an_upgrade_passes_through_a_proxy() {
    let running = started().await;
    let io = running.server.in_memory(Identity::admin()).open();
    let (mut reader, mut writer) = tokio::io::split(io);
    let head = format!(
        "GET {PODS}/p/proxy/upgrade HTTP/1.1\r\nhost: x\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\nauthorization: Basic c2VjcmV0\r\n\r\n"
    );
    writer.write_all(head.as_bytes()).await.expect("written");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(reader.read_u8().await.expect("an answer"));
    }
    assert!(answer.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&answer));
    writer.write_all(b"hello").await.expect("written");
    let mut echo = [0; 5];
    reader.read_exact(&mut echo).await.expect("echoed");
    assert_eq!(&echo, b"HELLO");
}
