//! How long a get and a durable create take, in memory and over TLS: `cargo run --release -p apiserver --example latency`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver::authority::{Authority, Credential};
use apiserver::{ApiServer, ApiServerConfig, Identity, NoNodes, server_tls};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use store::Store;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ROUNDS: usize = 2000;

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    println!("{what:<44} p50 {:>9.1?}  p95 {:>9.1?}  p99 {:>9.1?}", at(50), at(95), at(99));
}

async fn send(sender: &mut SendRequest<Full<Bytes>>, method: &str, path: &str, body: String) -> Duration {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    sender.ready().await.expect("an open connection");
    let begin = Instant::now();
    let response = sender.send_request(request).await.expect("an answer");
    assert!(response.status().is_success(), "{}", response.status());
    response.into_body().collect().await.expect("a body");
    begin.elapsed()
}

async fn measure(what: &str, sender: &mut SendRequest<Full<Bytes>>) {
    let value = "x".repeat(900);
    let mut times = Vec::new();
    for count in 0..ROUNDS {
        let body = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{}-{count}"}},"data":{{"k":"{value}"}}}}"#,
            what.replace([' ', ','], "-").to_lowercase()
        );
        times.push(send(sender, "POST", MAPS, body).await);
    }
    report(&format!("{what}, create 1 KB"), times);
    let path = format!("{MAPS}/{}-7", what.replace([' ', ','], "-").to_lowercase());
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        times.push(send(sender, "GET", &path, String::new()).await);
    }
    report(&format!("{what}, get 1 KB"), times);
}

/// The same reads by somebody whose rights follow from a role: what the authoriser adds.
async fn measure_roles(server: &ApiServer, what: &str) {
    let mut admin = over(server.in_memory(Identity::admin()).open()).await;
    let binding = r#"{"metadata": {"name": "jane"}, "subjects": [{"kind": "User", "name": "jane"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}}"#;
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    send(&mut admin, "POST", bindings, binding.to_owned()).await;
    let mut jane = over(server.in_memory(Identity::new("jane", Vec::new())).open()).await;
    let path = format!("{MAPS}/kube-root-ca.crt");
    for (who, sender) in [("administrator", &mut admin), ("role", &mut jane)] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            times.push(send(sender, "GET", &path, String::new()).await);
        }
        report(&format!("{what}, pipe, get by {who}"), times);
    }
}

async fn over<Io: AsyncRead + AsyncWrite + Unpin + Send + 'static>(io: Io) -> SendRequest<Full<Bytes>> {
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(io)).await.expect("HTTP");
    tokio::spawn(connection);
    sender
}

fn client_tls(authority: &Authority, admin: &Credential) -> Arc<rustls::ClientConfig> {
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate(authority.certificate_pem())).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(admin.key_pem().as_bytes()).expect("PEM");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate(admin.certificate_pem())], key)
        .expect("a credential");
    Arc::new(config)
}

async fn serve(store: Store, directory: &Path, what: &str) {
    let begin = Instant::now();
    let authority = Authority::open(&directory.join("pki")).expect("made");
    let credential = authority.server(&["localhost".to_owned()]).expect("made");
    let admin = authority.client("admin", &Identity::admin()).expect("made");
    println!("{:<44} {:>13.1?}", format!("{what}, authority and certificates"), begin.elapsed());
    let begin = Instant::now();
    let config = ApiServerConfig {
        authority_pem: Some(authority.certificate_pem().to_owned()),
        ..ApiServerConfig::default()
    };
    let server = ApiServer::new(config, store, Arc::new(NoNodes)).await.expect("starts");
    println!("{:<44} {:>13.1?}", format!("{what}, server with its first objects"), begin.elapsed());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let tls = server_tls(authority.certificate_pem(), &credential).expect("usable");
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, tls, std::future::pending()).await });
    measure(&format!("{what}, pipe"), &mut over(server.in_memory(Identity::admin()).open()).await).await;
    measure_roles(&server, what).await;
    let stream = TcpStream::connect(address).await.expect("connects");
    stream.set_nodelay(true).expect("a socket");
    let connector = tokio_rustls::TlsConnector::from(client_tls(&authority, &admin));
    let stream =
        connector.connect("localhost".try_into().expect("a name"), stream).await.expect("a handshake");
    measure(&format!("{what}, TLS"), &mut over(stream).await).await;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("sqlite/state.db");
    let begin = Instant::now();
    let opened = Store::open(&path)?;
    println!("{:<44} {:>13.1?}", "sqlite, open an empty store", begin.elapsed());
    serve(opened.store.clone(), &directory.path().join("sqlite"), "sqlite").await;
    opened.store.close().await;
    let begin = Instant::now();
    let count = Store::open(&path).map(|opened| opened.store.revision())?;
    println!("{:<44} {:>13.1?}", format!("sqlite, open with {count} objects"), begin.elapsed());
    serve(Store::in_memory()?, &directory.path().join("memory"), "memory").await;
    Ok(())
}
