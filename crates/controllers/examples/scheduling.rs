//! How quickly pending pods get nodes: an API server in memory, the controllers, ten nodes that are objects only. Prints pods a second.
//!
//! `cargo run --release -p controllers --example scheduling [PODS] [plain|spread]`

use std::sync::Arc;
use std::time::Instant;

use apiserver::{ApiServer, ApiServerConfig, Identity, NoNodes};
use controllers::{Clients, ControllersConfig, Informers, NodeWatch, Speaker};
use hyper_util::rt::TokioExecutor;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;

const NODES: usize = 10;

fn client(server: &ApiServer, identity: Identity) -> Client {
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .build::<_, kube::client::Body>(server.in_memory(identity));
    let base = http::Uri::from_static("http://localhost");
    let service =
        ServiceBuilder::new().layer(kube::client::middleware::BaseUriLayer::new(base)).service(http);
    Client::new(service, "default")
}

struct OwnClients(ApiServer);

impl Clients for OwnClients {
    fn client(&self, speaker: Speaker) -> Client {
        let identity = match speaker {
            Speaker::ControllerManager => Identity::controller_manager(),
            Speaker::Scheduler => Identity::scheduler(),
            Speaker::Controller(name) => Identity::controller(name),
        };
        client(&self.0, identity)
    }
}

fn node(number: usize) -> Value {
    let name = format!("node-{number}");
    let amounts = json!({"cpu": "64", "memory": "256Gi", "pods": "1100", "ephemeral-storage": "1Ti"});
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn pod(number: usize, spreads: bool) -> Value {
    let mut pod = json!({
        "metadata": {"name": format!("p{number}"), "labels": {"app": "bench"}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}]},
    });
    if spreads {
        pod["spec"]["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "bench"}}}]);
    }
    pod
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let pods: usize = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let spreads = arguments.next().as_deref() == Some("spread");
    let server =
        ApiServer::new(ApiServerConfig::default(), store::Store::in_memory()?, Arc::new(NoNodes)).await?;
    let admin = client(&server, Identity::admin());
    let nodes: Api<Node> = Api::all(admin.clone());
    for number in 0..NODES {
        nodes.create(&PostParams::default(), &serde_json::from_value(node(number))?).await?;
    }
    let api: Api<Pod> = Api::namespaced(admin, "default");
    for number in 0..pods {
        api.create(&PostParams::default(), &serde_json::from_value(pod(number, spreads))?).await?;
    }
    let (informers, news, end) = (Informers::idle(), Arc::new(Notify::new()), CancellationToken::new());
    let tell = Arc::clone(&news);
    informers.pods.on_change(move |_| tell.notify_one());
    let config = ControllersConfig {
        clients: Arc::new(OwnClients(server)),
        informers: informers.clone(),
        node_watch: NodeWatch::default(),
        root_certificates: None,
    };
    let began = Instant::now();
    let controllers = controllers::spawn(&config, &end);
    let placed = || {
        let all = informers.pods.all();
        all.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())).count()
    };
    while placed() < pods {
        news.notified().await;
    }
    let took = began.elapsed();
    #[allow(clippy::cast_precision_loss, reason = "a number of pods")]
    let rate = pods as f64 / took.as_secs_f64();
    println!("{pods} pods on {NODES} nodes in {took:.2?}: {rate:.0} pods/s, caches filled included");
    end.cancel();
    controllers.stopped().await;
    Ok(())
}
