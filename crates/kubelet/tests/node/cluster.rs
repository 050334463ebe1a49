//! A real API server in memory, a node agent, and the fake runtime, with waiting for what the API shows.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{ApiServer, ApiServerConfig, Identity, NoNodes};
use futures::StreamExt as _;
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret};
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher;
use kubelet::{KubeletConfig, KubeletHandle, spawn_kubelet};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;

use super::fake_runtime::FakeRuntime;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Cluster {
    pub(crate) runtime: FakeRuntime,
    pub(crate) client: kube::Client,
    /// Of the agent's client.
    pub(crate) failpoints: Failpoints,
    pub(crate) dir: tempfile::TempDir,
    pub(crate) kubelet: Option<(KubeletHandle, CancellationToken)>,
    config: KubeletConfig,
    server: ApiServer,
}

/// Requests whose line holds a text meet a panic in the task that waits for the answer; each text once.
pub(crate) type Failpoints = Arc<std::sync::Mutex<Vec<String>>>;

fn client(server: &ApiServer, identity: Identity, failpoints: &Failpoints) -> kube::Client {
    let failpoints = Arc::clone(failpoints);
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .build::<_, kube::client::Body>(server.in_memory(identity));
    let base = http::Uri::from_static("http://localhost");
    let service =
        ServiceBuilder::new().layer(kube::client::middleware::BaseUriLayer::new(base)).service(http);
    let failing = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let line = format!("{} {}", request.method(), request.uri());
        let service = service.clone();
        let mut armed = failpoints.lock().expect("no panic while locked");
        let hit = armed.iter().position(|text| line.contains(text.as_str())).map(|index| armed.remove(index));
        async move {
            assert!(hit.is_none(), "a failpoint was met: {line}");
            tower::ServiceExt::oneshot(service, request).await
        }
    });
    kube::Client::new(failing, "default")
}

/// What the scheduler would do: every pod goes to the only node.
async fn bind(client: kube::Client) {
    let pods: Api<Pod> = Api::all(client.clone());
    let homeless = watcher::Config::default().fields("spec.nodeName=");
    let mut seen = std::pin::pin!(watcher::watcher(pods, homeless).default_backoff().applied_objects());
    while let Some(pod) = seen.next().await {
        let Ok(Pod { metadata, spec: Some(spec), .. }) = pod else { continue };
        if spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()) {
            continue;
        }
        let (name, namespace) = (metadata.name.unwrap_or_default(), metadata.namespace.unwrap_or_default());
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "node-1"}});
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        // It may be gone again.
        let _ = pods.create_subresource::<_, Value>("binding", &name, &PostParams::default(), &binding).await;
    }
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        Self::with(FakeRuntime::new(), |_| {}).await
    }

    pub(crate) async fn with(runtime: FakeRuntime, change: impl FnOnce(&mut KubeletConfig)) -> Self {
        let server_config =
            ApiServerConfig { authority_pem: Some("the authority".to_owned()), ..ApiServerConfig::default() };
        let store = store::Store::in_memory().expect("a store");
        let server = ApiServer::new(server_config, store, Arc::new(NoNodes)).await.expect("a server");
        let dir = tempfile::tempdir().expect("a directory");
        let mut config = KubeletConfig::new("node-1", dir.path().join("kubelet"));
        config.resync = Duration::from_secs(2);
        change(&mut config);
        let mut cluster = Self {
            runtime,
            client: client(&server, Identity::admin(), &Failpoints::default()),
            failpoints: Failpoints::default(),
            dir,
            kubelet: None,
            config,
            server,
        };
        tokio::spawn(bind(cluster.client.clone()));
        cluster.start();
        cluster
    }

    /// Starts an agent on the same directory.
    pub(crate) fn start(&mut self) {
        let (runtime, images) = self.runtime.clients();
        let shutdown = CancellationToken::new();
        let client = client(&self.server, Identity::node("node-1"), &self.failpoints);
        let handle =
            spawn_kubelet(self.config.clone(), client, runtime, images, shutdown.clone().cancelled_owned())
                .expect("it starts");
        self.kubelet = Some((handle, shutdown));
    }

    /// Ends the agent; containers go on.
    pub(crate) async fn stop(&mut self) {
        if let Some((handle, shutdown)) = self.kubelet.take() {
            shutdown.cancel();
            handle.stopped().await;
        }
    }

    pub(crate) fn set(&mut self, change: impl FnOnce(&mut KubeletConfig)) {
        change(&mut self.config);
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn create_pod(&self, name: &str, spec: Value) -> Pod {
        let pod =
            serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec}))
                .expect("a pod");
        self.pods().create(&PostParams::default(), &pod).await.expect("created")
    }

    pub(crate) async fn create_annotated(&self, name: &str, annotations: Value, spec: Value) -> Pod {
        let metadata = json!({"name": name, "namespace": "default", "annotations": annotations});
        let pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("a pod");
        self.pods().create(&PostParams::default(), &pod).await.expect("created")
    }

    pub(crate) async fn create_config_map(&self, name: &str, data: Value) {
        let object: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).expect("valid");
        Api::namespaced(self.client.clone(), "default")
            .create(&PostParams::default(), &object)
            .await
            .expect("created");
    }

    pub(crate) async fn create_secret(&self, name: &str, data: Value) {
        let object: Secret =
            serde_json::from_value(json!({"metadata": {"name": name}, "stringData": data})).expect("valid");
        Api::namespaced(self.client.clone(), "default")
            .create(&PostParams::default(), &object)
            .await
            .expect("created");
    }

    /// Waits until the pod is as `wanted` says, by looking at it whenever it changes.
    pub(crate) async fn pod_becomes(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let pods = self.pods();
        let look = async {
            loop {
                let pod = pods.get_opt(name).await.expect("the API answers");
                let pod = serde_json::to_value(&pod).expect("JSON");
                if wanted(&pod) {
                    return pod;
                }
                self.look_again().await;
            }
        };
        match tokio::time::timeout(PATIENCE, look).await {
            Ok(pod) => pod,
            Err(_) => {
                let pod = pods.get_opt(name).await.expect("the API answers");
                let status = pod.map(|pod| serde_json::to_string_pretty(&pod.status).expect("JSON"));
                panic!("{name} did not become {what}: {status:?}\n{:#?}", self.event_texts().await);
            }
        }
    }

    pub(crate) async fn phase(&self, name: &str, phase: &str) -> Value {
        self.pod_becomes(name, phase, |pod| pod["status"]["phase"] == phase).await
    }

    pub(crate) async fn waiting(&self, name: &str, reason: &str) -> String {
        let path = "/status/containerStatuses/0/state/waiting";
        let pod = self
            .pod_becomes(name, reason, |pod| {
                pod.pointer(path).is_some_and(|waiting| waiting["reason"] == reason)
            })
            .await;
        pod.pointer(path).expect("waits")["message"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) async fn gone(&self, name: &str) {
        self.pod_becomes(name, "gone", Value::is_null).await;
    }

    /// A pause between two looks at the API: what is waited for is a state, not the moment of a change.
    async fn look_again(&self) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    /// All events as `TYPE REASON FIELDPATH: MESSAGE`.
    pub(crate) async fn event_texts(&self) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let list = api.list(&ListParams::default()).await.expect("events");
        list.items
            .into_iter()
            .map(|event| {
                format!(
                    "{} {} {}: {}",
                    event.type_.unwrap_or_default(),
                    event.reason.unwrap_or_default(),
                    event.involved_object.field_path.unwrap_or_default(),
                    event.message.unwrap_or_default()
                )
            })
            .collect()
    }

    /// Waits for an event that holds the text.
    pub(crate) async fn event(&self, text: &str) -> String {
        let look = async {
            loop {
                if let Some(found) = self.event_texts().await.into_iter().find(|event| event.contains(text)) {
                    return found;
                }
                self.look_again().await;
            }
        };
        match tokio::time::timeout(PATIENCE, look).await {
            Ok(event) => event,
            Err(_) => panic!("no event {text:?} among {:#?}", self.event_texts().await),
        }
    }

    /// Asks the kubelet's HTTP interface.
    pub(crate) async fn http(&self, path: &str) -> (u16, String) {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let handle = self.kubelet.as_ref().expect("it runs").0.clone();
        tokio::spawn(handle.serve_connection(far));
        let (mut sender, driver) = hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(near))
            .await
            .expect("a connection");
        tokio::spawn(driver);
        let request = http::Request::builder()
            .uri(path)
            .header("host", "node")
            .body(http_body_util::Empty::<bytes::Bytes>::new())
            .expect("a request");
        let answer = sender.send_request(request).await.expect("an answer");
        let status = answer.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.expect("a body").to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    /// A connection to the kubelet's HTTP interface.
    pub(crate) fn connect(&self) -> tokio::io::DuplexStream {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let handle = self.kubelet.as_ref().expect("it runs").0.clone();
        tokio::spawn(handle.serve_connection(far));
        near
    }

    pub(crate) fn pod_dirs(&self) -> Vec<String> {
        let dir = self.dir.path().join("kubelet/pods");
        std::fs::read_dir(dir)
            .map(|entries| entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
            .unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The agent must not mount anything any more when what it mounted is taken down.
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(self.stop()));
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let dir = self.dir.path().to_owned();
        let mut points: Vec<&str> = table.lines().filter_map(|line| line.split(' ').nth(4)).collect();
        points.reverse();
        for point in points.into_iter().filter(|point| std::path::Path::new(point).starts_with(&dir)) {
            let _ = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
        }
    }
}
