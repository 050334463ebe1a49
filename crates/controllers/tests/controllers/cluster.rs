//! A cluster in memory: the API server, the controllers, caches for the tests to look into, and nodes that run nothing.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{ApiServer, ApiServerConfig, Identity, NoNodes, ServiceRanges};
use controllers::{Clients, Controllers, ControllersConfig, Informers, NodeWatch, Speaker};
use hyper_util::rt::TokioExecutor;
use informer::Kind;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;

/// How long a condition may take to come true, on a machine that does other things as well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What the clusters' `kube-root-ca.crt` says.
pub(crate) const ROOT: &str = "the authority's certificate";

fn client(server: &ApiServer, identity: Identity) -> Client {
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .build::<_, kube::client::Body>(server.in_memory(identity));
    let base = http::Uri::from_static("http://localhost");
    let service =
        ServiceBuilder::new().layer(kube::client::middleware::BaseUriLayer::new(base)).service(http);
    Client::new(service, "default")
}

/// Each controller speaks as itself: a right that its role lacks fails the test.
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

/// The cluster.
pub(crate) struct Cluster {
    pub(crate) server: ApiServer,
    /// With all rights.
    pub(crate) client: Client,
    /// What the tests look at: caches beside those of the controllers.
    pub(crate) seen: Informers,
    news: Arc<Notify>,
    /// How nodes are watched over: the pretending ones say nothing.
    pub(crate) watch: NodeWatch,
    running: Option<(Controllers, CancellationToken)>,
    end: CancellationToken,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end.cancel();
        if let Some((_, end)) = &self.running {
            end.cancel();
        }
    }
}

impl Cluster {
    /// A cluster without controllers and without nodes.
    pub(crate) async fn bare() -> Cluster {
        let store = store::Store::in_memory().expect("a store");
        let config =
            ApiServerConfig { service_ranges: ServiceRanges::usual(true), ..ApiServerConfig::default() };
        let server = ApiServer::new(config, store, Arc::new(NoNodes)).await.expect("a server");
        let client = client(&server, Identity::admin());
        let (seen, news, end) = (Informers::idle(), Arc::new(Notify::new()), CancellationToken::new());
        tokio::spawn(seen.clone().follow(client.clone(), end.clone()));
        let watch = NodeWatch { own: None, grace: Duration::from_secs(3600) };
        let cluster = Cluster { server, client, seen, news, watch, running: None, end };
        cluster.listen(&cluster.seen.pods);
        cluster.listen(&cluster.seen.nodes);
        cluster.listen(&cluster.seen.namespaces);
        cluster.listen(&cluster.seen.services);
        cluster.listen(&cluster.seen.endpoints);
        cluster.listen(&cluster.seen.endpoint_slices);
        cluster.listen(&cluster.seen.replication_controllers);
        cluster.listen(&cluster.seen.replica_sets);
        cluster.listen(&cluster.seen.deployments);
        cluster.listen(&cluster.seen.stateful_sets);
        cluster.listen(&cluster.seen.daemon_sets);
        cluster.listen(&cluster.seen.controller_revisions);
        cluster.listen(&cluster.seen.jobs);
        cluster.listen(&cluster.seen.cron_jobs);
        cluster.listen(&cluster.seen.persistent_volume_claims);
        cluster.listen(&cluster.seen.persistent_volumes);
        cluster
    }

    /// A cluster with controllers and one node, `node-1`.
    pub(crate) async fn new() -> Cluster {
        let mut cluster = Cluster::bare().await;
        cluster.add_node("node-1").await;
        cluster.start();
        cluster
    }

    fn listen<K: Kind>(&self, informer: &informer::Informer<K>) {
        let news = Arc::clone(&self.news);
        informer.on_change(move |_| news.notify_waiters());
    }

    /// Starts the controllers.
    pub(crate) fn start(&mut self) {
        let end = CancellationToken::new();
        self.running = Some((controllers::spawn(&self.config(), &end), end));
    }

    /// Starts those that an API server alone has.
    pub(crate) fn start_housekeeping(&mut self) {
        let end = CancellationToken::new();
        self.running = Some((controllers::spawn_housekeeping(&self.config(), &end), end));
    }

    fn config(&self) -> ControllersConfig {
        ControllersConfig {
            clients: Arc::new(OwnClients(self.server.clone())),
            informers: Informers::idle(),
            node_watch: self.watch.clone(),
            root_certificates: Some(ROOT.to_owned()),
        }
    }

    /// Ends the controllers.
    pub(crate) async fn stop(&mut self) {
        if let Some((controllers, end)) = self.running.take() {
            end.cancel();
            controllers.stopped().await;
        }
    }

    /// Waits until `holds` of what is known.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Informers) -> bool) {
        let wait = async {
            loop {
                let news = self.news.notified();
                tokio::pin!(news);
                news.as_mut().enable();
                if holds(&self.seen) {
                    return;
                }
                news.await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            let pods = self.seen.pods.all();
            let pods: Vec<_> = pods.iter().map(|pod| (&pod.metadata.name, &pod.status)).collect();
            panic!("in {PATIENCE:?} it did not come true that {what}; pods: {pods:#?}");
        }
    }

    /// The objects of a kind in the namespace `default`.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Kind + kube::Resource<Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates an object in the namespace `default`.
    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: Kind + Serialize + kube::Resource<Scope = NamespaceResourceScope>,
    {
        let object: K = serde_json::from_value(object).expect("an object of that kind");
        self.api::<K>().create(&PostParams::default(), &object).await.expect("created")
    }

    /// Adds a node that pretends: pods that are bound to it run and are ready at once, and those that are to go are gone.
    pub(crate) async fn add_node(&self, name: &str) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "capacity": {"cpu": "64", "memory": "256Gi", "pods": "1100", "ephemeral-storage": "1Ti"},
                "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "1100", "ephemeral-storage": "1Ti"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        });
        let nodes: Api<Node> = Api::all(self.client.clone());
        let object: Node = serde_json::from_value(node.clone()).expect("a node");
        nodes.create(&PostParams::default(), &object).await.expect("created");
        let patch = Patch::Merge(json!({"status": node["status"]}));
        nodes.patch_status(name, &PatchParams::default(), &patch).await.expect("patched");
        tokio::spawn(pretend(self.client.clone(), name.to_owned(), self.seen.clone(), self.end.clone()));
    }
}

/// What a node does that runs nothing.
async fn pretend(client: Client, node: String, seen: Informers, end: CancellationToken) {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    seen.pods.on_change(move |change| {
        let _ = tell.send(change.object().clone());
    });
    let mut last = 0_u32;
    loop {
        let pod = tokio::select! {
            () = end.cancelled() => return,
            pod = told.recv() => match pod {
                Some(pod) => pod,
                None => return,
            },
        };
        last += 1;
        // What has changed meanwhile comes by again.
        let _ = attend(&client, &node, &pod, last).await;
    }
}

async fn attend(client: &Client, node: &str, pod: &Pod, number: u32) -> kube::Result<()> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let spec = pod.spec.as_ref().expect("a specification");
    match spec.node_name.as_deref() {
        Some(bound) if bound != node => return Ok(()),
        Some(_) => {}
        None => return Ok(()),
    }
    if pod.metadata.deletion_timestamp.is_some() {
        pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
        return Ok(());
    }
    if pod.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Pending") {
        return Ok(());
    }
    let now = Timestamp::now().to_string();
    let statuses: Vec<Value> = spec
        .containers
        .iter()
        .map(|container| {
            json!({
                "name": container.name, "image": container.image, "imageID": "", "ready": true,
                "restartCount": 0, "started": true, "state": {"running": {"startedAt": now}},
            })
        })
        .collect();
    let condition = |type_: &str| json!({"type": type_, "status": "True", "lastTransitionTime": now});
    let address = format!("10.1.{}.{}", (number >> 8) & 255, number & 255);
    let status = json!({
        "phase": "Running", "startTime": now, "hostIP": "10.0.0.1", "podIP": address,
        "podIPs": [{"ip": address}], "containerStatuses": statuses,
        "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
    });
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(json!({"status": status}))).await?;
    Ok(())
}
