//! The task against a real API server in memory; the network is a channel.

use apiserver::{ApiServer, ApiServerConfig, Identity, NoNodes};
use hyper_util::rt::TokioExecutor;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::ServiceBuilder;

use super::*;

/// How long a change may take on a machine that does other things as well.
const PATIENCE: Duration = Duration::from_secs(60);

struct Routed {
    updates: mpsc::UnboundedReceiver<ServiceUpdate>,
    table: ServiceTable,
    end: CancellationToken,
}

impl Drop for Routed {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Routed {
    /// Waits until the backends of `ns/web` are these; nothing where it has no route.
    async fn becomes(&mut self, expected: Option<&[&str]>) {
        let known = |table: &ServiceTable| {
            table
                .get("default/web")
                .and_then(|ports| ports.first())
                .map(|port| port.backends.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let expected = expected.map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
        let wait = async {
            while known(&self.table) != expected {
                match self.updates.recv().await.expect("the task runs") {
                    ServiceUpdate::All { services, .. } => self.table = services,
                    ServiceUpdate::Some(changed) => self.table.extend(changed),
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("in time");
    }
}

async fn client() -> Client {
    let store = store::Store::in_memory().expect("a store");
    let server =
        ApiServer::new(ApiServerConfig::default(), store, Arc::new(NoNodes)).await.expect("a server");
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .build::<_, kube::client::Body>(server.in_memory(Identity::admin()));
    let base = http::Uri::from_static("http://localhost");
    let service =
        ServiceBuilder::new().layer(kube::client::middleware::BaseUriLayer::new(base)).service(http);
    Client::new(service, "default")
}

fn proxy(client: &Client, refusals: usize) -> Routed {
    let end = CancellationToken::new();
    let config = ProxyConfig {
        services: Informer::idle(),
        slices: Informer::idle(),
        node: "here".to_owned(),
        ranges: Vec::new(),
    };
    tokio::spawn(config.services.clone().follow(Api::all(client.clone()), "", end.clone()));
    tokio::spawn(config.slices.clone().follow(Api::all(client.clone()), "", end.clone()));
    let (send, updates) = mpsc::unbounded_channel();
    let refusals = Mutex::new(refusals);
    let route = move |update| {
        let mut left = refusals.lock().expect("one task");
        let refused = *left > 0;
        *left = left.saturating_sub(1);
        let sent = if refused { Ok(()) } else { send.send(update).map_err(drop) };
        async move {
            match (refused, sent) {
                (false, Ok(())) => Ok(()),
                (true, _) => Err(RouteServicesError::Kernel(network::NetlinkError::Malformed)),
                (false, Err(())) => Err(RouteServicesError::Closed),
            }
        }
    };
    tokio::spawn(run(config, route, end.clone()));
    Routed { updates, table: ServiceTable::new(), end }
}

fn slice(name: &str, address: &str, ready: bool) -> EndpointSlice {
    let slice: Value = json!({
        "metadata": {"name": name, "labels": {SERVICE_NAME: "web"}}, "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}],
    });
    serde_json::from_value(slice).expect("a slice")
}

fn service() -> Service {
    serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}))
        .expect("a service")
}

#[tokio::test]
async fn services_and_slices_become_routes_in_whatever_order_they_come_and_go() {
    let client = client().await;
    let (services, slices) = (
        Api::<Service>::default_namespaced(client.clone()),
        Api::<EndpointSlice>::default_namespaced(client.clone()),
    );
    let (create, delete) = (PostParams::default(), DeleteParams::default());
    slices.create(&create, &slice("web-a", "10.128.0.2", true)).await.expect("created");
    let mut routed = proxy(&client, 0);
    services.create(&create, &service()).await.expect("created");
    routed.becomes(Some(&["10.128.0.2:8080"])).await;
    slices.create(&create, &slice("web-b", "10.128.0.3", false)).await.expect("created");
    let ready = json!({"endpoints": [{"addresses": ["10.128.0.3"], "conditions": {"ready": true}}]});
    let by = PatchParams::default();
    slices.patch("web-b", &by, &Patch::Merge(&ready)).await.expect("patched");
    routed.becomes(Some(&["10.128.0.2:8080", "10.128.0.3:8080"])).await;
    let other = json!({"metadata": {"labels": {SERVICE_NAME: "another"}}});
    slices.patch("web-a", &by, &Patch::Merge(&other)).await.expect("patched");
    routed.becomes(Some(&["10.128.0.3:8080"])).await;
    slices.delete("web-b", &delete).await.expect("deleted");
    routed.becomes(Some(&[])).await;
    services.delete("web", &delete).await.expect("deleted");
    routed.becomes(None).await;
}

#[tokio::test]
async fn what_the_kernel_refused_is_written_again_as_a_whole() {
    let client = client().await;
    let services = Api::<Service>::default_namespaced(client.clone());
    services.create(&PostParams::default(), &service()).await.expect("created");
    let mut routed = proxy(&client, 1);
    routed.becomes(Some(&[])).await;
}
