//! Too much of something: sizes, headers, frames of HTTP/2, requests of one client. Each ends where the table of limits says, and the
//! server goes on for everybody else.
#![allow(missing_docs)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use apiserver::{ApiServerConfig, Identity, Limits, NoNodes};
use serde_json::{Value, json};
use support::{Running, config_map, request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A TLS connection without a client certificate that speaks `protocol`.
async fn stranger(running: &Running, protocol: &[u8]) -> TlsStream<TcpStream> {
    use rustls_pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    let pem = running.authority.certificate_pem();
    roots
        .add(rustls_pki_types::CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM"))
        .expect("a certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(running.address).await.expect("connects");
    let name = "localhost".try_into().expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("a handshake")
}

#[tokio::test]
async fn objects_and_their_parts_have_largest_sizes() {
    let running = Running::start().await;
    let mut annotated = config_map("annotated");
    annotated["metadata"]["annotations"] = json!({"a": "x".repeat(256 * 1024)});
    let (code, status) = running.post(MAPS, &annotated).await;
    assert_eq!(code, 422);
    assert_eq!(
        status["message"],
        "ConfigMap \"annotated\" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes"
    );
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "x".repeat(1024 * 1024 + 1)}});
    let (code, status) = running.post("/api/v1/namespaces/default/secrets", &secret).await;
    assert_eq!(code, 422);
    assert!(!status.to_string().contains("xxxx"), "a value of a Secret is not repeated");
    let mut pod = support::pod("large");
    let variables: Vec<Value> =
        (0..160).map(|count| json!({"name": format!("V{count}"), "value": "x".repeat(10_000)})).collect();
    pod["spec"]["containers"][0]["env"] = json!(variables);
    let (code, status) = running.post("/api/v1/namespaces/default/pods", &pod).await;
    assert_eq!((code.as_u16(), &status["reason"]), (413, &json!("RequestEntityTooLarge")));
    assert_eq!(status["message"], "Request entity too large: limit is 1572864");
    let (code, status) = running.call("POST", MAPS, &[], &vec![b' '; 3 * 1024 * 1024 + 1]).await;
    assert_eq!(
        (code.as_u16(), &status["message"]),
        (413, &json!("Request entity too large: limit is 3145728"))
    );
    assert_eq!(running.post(MAPS, &config_map("small")).await.0, 201);
}

#[tokio::test]
async fn headers_without_end_end_the_request() {
    let running = Running::start().await;
    let mut io = stranger(&running, b"http/1.1").await;
    io.write_all(b"GET /version HTTP/1.1\r\nHost: localhost\r\n").await.expect("written");
    let line = format!("X-Filler: {}\r\n", "x".repeat(1000));
    for _ in 0..2048 {
        // The server may close while we still write.
        if io.write_all(line.as_bytes()).await.is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), io.read_to_end(&mut answer)).await;
    assert!(read.is_ok(), "the connection ends");
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    let mut other = stranger(&running, b"http/1.1").await;
    other
        .write_all(b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .await
        .expect("written");
    answer.clear();
    other.read_to_end(&mut answer).await.expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "others go on");
}

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn preface() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    bytes
}

/// `GET https://localhost/version` in HPACK.
fn get_version() -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    for (index, text) in [(0x04, "/version"), (0x01, "localhost")] {
        block.extend([index, u8::try_from(text.len()).expect("short")]);
        block.extend(text.as_bytes());
    }
    block
}

/// Writes without end until the server closes; fails when it does not.
async fn ends(running: &Running, mut next: impl FnMut(u32) -> Vec<u8>) {
    let io = stranger(running, b"h2").await;
    let (mut reader, mut writer) = tokio::io::split(io);
    let writing = async {
        if writer.write_all(&preface()).await.is_err() {
            return;
        }
        for round in 0..200_000 {
            if writer.write_all(&next(round)).await.is_err() {
                return;
            }
        }
    };
    let reading = async {
        let mut buffer = vec![0; 64 * 1024];
        while reader.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    };
    // Whichever notices first: the reader sees the end also while the writer is held up.
    let closed = async {
        tokio::select! {
            () = reading => {}
            () = async { writing.await; std::future::pending::<()>().await } => {}
        }
    };
    tokio::time::timeout(Duration::from_secs(20), closed).await.expect("the server closes the connection");
    assert_eq!(running.get("/version").await.0, 200, "others go on");
}

#[tokio::test]
async fn streams_that_are_reset_as_fast_as_they_are_opened_end_the_connection() {
    let running = Running::start().await;
    ends(&running, |round| {
        let stream = round * 2 + 1;
        let mut bytes = frame(HEADERS, END_HEADERS | END_STREAM, stream, &get_version());
        bytes.extend(frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
        bytes
    })
    .await;
}

#[tokio::test]
async fn headers_that_are_continued_without_end_end_the_connection() {
    let running = Running::start().await;
    ends(&running, |round| {
        if round == 0 {
            return frame(HEADERS, END_STREAM, 1, &get_version());
        }
        // A header that is not indexed, with a name of one byte and a value of 1,000.
        let mut block = vec![0x00, 1, b'x', 0x7f, 0xe9, 0x06];
        block.extend([b'v'; 1000]);
        frame(CONTINUATION, 0, 1, &block)
    })
    .await;
}

#[tokio::test]
async fn headers_that_unpack_to_megabytes_are_refused() {
    let running = Running::start().await;
    let io = stranger(&running, b"h2").await;
    let (mut reader, mut writer) = tokio::io::split(io);
    let mut bytes = preface();
    // One header of 4,000 bytes goes into the table, and is named 4,000 times: 16 MiB from 8 KiB.
    let mut block = get_version();
    block.extend([0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
    block.extend([b'v'; 4000]);
    block.extend(vec![0xbe; 4000]);
    bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 1, &block));
    writer.write_all(&bytes).await.expect("written");
    let mut answer = Vec::new();
    let refused = async {
        // Status 431 is no static entry: it stands there as three digits, plain or packed; or the stream or connection ends.
        loop {
            let mut buffer = vec![0; 16 * 1024];
            let count = reader.read(&mut buffer).await.unwrap_or(0);
            answer.extend_from_slice(&buffer[..count]);
            let kinds = frames(&answer);
            if count == 0 || kinds.iter().any(|(kind, _)| matches!(kind, 1 | 3 | 7)) {
                return kinds;
            }
        }
    };
    let kinds = tokio::time::timeout(Duration::from_secs(10), refused).await.expect("an answer");
    let body: usize = kinds.iter().filter(|(kind, _)| *kind == 0).map(|(_, length)| length).sum();
    assert_eq!(body, 0, "the request was not carried out: {kinds:?}");
    assert_eq!(running.get("/version").await.0, 200, "others go on");
}

/// Kind and length of each whole frame.
fn frames(mut bytes: &[u8]) -> Vec<(u8, usize)> {
    let mut found = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = bytes {
        let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        if rest.len() < length {
            break;
        }
        found.push((*kind, length));
        bytes = &rest[length..];
    }
    found
}

#[tokio::test]
async fn a_user_with_too_many_requests_is_told_to_wait_and_nobody_else_notices() {
    let limits = Limits { requests_in_flight: 2, ..Limits::default() };
    let running =
        Running::start_with(ApiServerConfig { limits, ..ApiServerConfig::default() }, Arc::new(NoNodes))
            .await;
    let watch = running.send(request("GET", &format!("{MAPS}?watch=true"), &[], b"")).await;
    assert_eq!(watch.status(), 200);
    // Two requests whose bodies do not come.
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut io = running.server.in_memory(Identity::admin()).open();
        let head = format!(
            "POST {MAPS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
        );
        io.write_all(head.as_bytes()).await.expect("written");
        held.push(io);
    }
    let begin = std::time::Instant::now();
    let refused = loop {
        let answer = running.send(request("GET", MAPS, &[], b"")).await;
        if answer.status() == 429 {
            break answer;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "both are in flight by now");
        tokio::task::yield_now().await;
    };
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(running.get("/readyz").await.0, 200, "health is for everybody");
    let other = running.send_as(Identity::node("n"), request("GET", "/api/v1/nodes/n", &[], b"")).await;
    assert_ne!(other.status(), 429, "others have places of their own");
    let second = running.send(request("GET", &format!("{MAPS}?watch=true"), &[], b"")).await;
    assert_eq!(second.status(), 200, "watches are counted by themselves");
    drop(held);
    let begin = std::time::Instant::now();
    while running.get(MAPS).await.0 != 200 {
        assert!(begin.elapsed() < Duration::from_secs(10), "the places come back");
        tokio::task::yield_now().await;
    }
}

#[test]
fn the_table_of_limits_names_each_of_them_once() {
    let table = Limits::default().table();
    let mut names: Vec<&str> = table.iter().map(|limit| limit.what).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), table.len());
    let value = |what: &str| table.iter().find(|limit| limit.what == what).map(|limit| limit.value.as_str());
    assert_eq!(value("request body"), Some("3 MiB"));
    assert_eq!(value("stored object"), Some("1536 KiB"));
    assert_eq!(value("memory of a watcher that does not read"), Some("256 KiB"));
}
