//! What the tests of the API server share: a running server with its files, clients of any identity, raw requests.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part of it")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use apiserver::authority::{Authority, Kubeconfig, write_kubeconfig};
use apiserver::{ApiServer, ApiServerConfig, Identity, NoNodes, NodeConnector, server_tls};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use store::Store;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tower::ServiceBuilder;

pub struct Running {
    pub server: ApiServer,
    pub authority: Authority,
    pub address: SocketAddr,
    pub directory: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    task: Option<JoinHandle<()>>,
}

impl Running {
    pub async fn start() -> Running {
        Running::start_with(ApiServerConfig::default(), Arc::new(NoNodes)).await
    }

    pub async fn start_with(config: ApiServerConfig, nodes: Arc<dyn NodeConnector>) -> Running {
        Running::start_on(config, Store::in_memory().expect("opens"), nodes).await
    }

    /// On a store that may have been another server's.
    pub async fn start_on(config: ApiServerConfig, store: Store, nodes: Arc<dyn NodeConnector>) -> Running {
        let directory = tempfile::tempdir().expect("a directory");
        let authority = Authority::open(&directory.path().join("pki")).expect("made");
        let credential = authority.server(&["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("made");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let config = ApiServerConfig {
            advertise: Some(address),
            authority_pem: Some(authority.certificate_pem().to_owned()),
            ..config
        };
        let server = ApiServer::new(config, store, nodes).await.expect("starts");
        let tls = server_tls(authority.certificate_pem(), &credential).expect("usable");
        let (stop, stopped) = oneshot::channel::<()>();
        let task = {
            let server = server.clone();
            tokio::spawn(async move {
                let stopped = async { drop(stopped.await) };
                server.serve(listener, tls, stopped).await;
            })
        };
        Running { server, authority, address, directory, stop: Some(stop), task: Some(task) }
    }

    pub async fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(task) = self.task.take() {
            task.await.expect("no panic");
        }
    }

    /// A kubeconfig file of the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        let path = self.directory.path().join("kubeconfig");
        let credential = self.authority.client("admin", &Identity::admin()).expect("made");
        let kubeconfig = Kubeconfig {
            name: "coracle",
            server: &format!("https://{}", self.address),
            authority_pem: self.authority.certificate_pem(),
            credential: &credential,
        };
        write_kubeconfig(&path, &kubeconfig).expect("written");
        path
    }

    /// A client over an in-memory connection.
    pub fn client(&self, identity: Identity) -> kube::Client {
        client_of(&self.server, identity)
    }

    /// A client over TLS.
    pub async fn tls_client(&self) -> kube::Client {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let kubeconfig = kube::config::Kubeconfig::read_from(self.kubeconfig()).expect("readable");
        let config =
            kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default())
                .await
                .expect("usable");
        kube::Client::try_from(config).expect("usable")
    }

    /// One request as the administrator, in memory.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        self.send_as(Identity::admin(), request).await
    }

    pub async fn send_as(&self, identity: Identity, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let io = TokioIo::new(self.server.in_memory(identity).open());
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.expect("in memory");
        tokio::spawn(connection.with_upgrades());
        sender.send_request(request).await.expect("an answer")
    }

    pub async fn call(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (StatusCode, Value) {
        let response = self.send(request(method, path, headers, body)).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.call("GET", path, &[], b"").await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        self.call("POST", path, &[("content-type", "application/json")], body.to_string().as_bytes()).await
    }
}

/// A client over in-memory connections.
pub fn client_of(server: &ApiServer, identity: Identity) -> kube::Client {
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .build::<_, kube::client::Body>(server.in_memory(identity));
    let base = http::Uri::from_static("http://in-memory");
    let service =
        ServiceBuilder::new().layer(kube::client::middleware::BaseUriLayer::new(base)).service(http);
    kube::Client::new(service, "default")
}

pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Full::new(Bytes::copy_from_slice(body))).expect("a request")
}

pub fn pod(name: &str) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]}})
}

pub fn config_map(name: &str) -> Value {
    serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

/// The root of the namespace `default`.
pub const DEFAULT: &str = "/api/v1/namespaces/default";

/// Creates an object and answers with it; the test fails in the server's words.
pub async fn create(running: &Running, path: &str, object: &Value) -> Value {
    let (code, answer) = running.post(path, object).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

/// Reads an object until it is as wanted; the server's own tasks need a moment.
pub async fn until(running: &Running, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..500 {
        last = running.get(path).await.1;
        if wanted(&last) {
            return last;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{path} stays {last}");
}

/// The cells of one object's table but its age, as text.
pub async fn cells(running: &Running, path: &str) -> Vec<String> {
    let headers = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let (code, table) = running.call("GET", path, &headers, b"").await;
    assert_eq!(code, 200, "{table}");
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let cells = table["rows"][0]["cells"].as_array().expect("cells");
    assert_eq!(columns.len(), cells.len(), "{path}: {table}");
    columns
        .iter()
        .zip(cells)
        .filter(|(column, _)| column["name"] != "Age")
        .map(|(_, cell)| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned))
        .collect()
}
