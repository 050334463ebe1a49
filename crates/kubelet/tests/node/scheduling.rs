//! A node refuses what was bound to it and does not fit.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::{container, container_with};

impl Cluster {
    async fn patch_node(&self, patch: Value) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.patch("node-1", &PatchParams::default(), &Patch::Strategic(&patch)).await.expect("patched");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_bound_past_the_scheduler_and_does_not_fit_fails_with_the_nodes_reason() {
    let mut cluster = Cluster::new().await;
    cluster.create_pod("other", json!({"containers": [container("o", &["run"])]})).await;
    cluster.phase("other", "Running").await;
    let huge = json!({"resources": {"requests": {"cpu": "100000"}}});
    let spec = json!({"nodeName": "node-1", "containers": [container_with("a", &["run"], huge)]});
    cluster.create_pod("huge", spec).await;
    let pod = cluster.phase("huge", "Failed").await;
    assert_eq!(pod["status"]["reason"], "OutOfcpu");
    let message = pod["status"]["message"].as_str().expect("a message");
    assert!(message.starts_with("Pod was rejected: Node didn't have enough resource: cpu, requested: 100000000, used: 0, capacity: "), "{message}");
    cluster.event("Warning OutOfcpu : Node didn't have enough resource: cpu, requested: 100000000").await;
    let spec = json!({"nodeName": "node-1", "nodeSelector": {"disk": "ssd"}, "containers": [container("b", &["run"])]});
    cluster.create_pod("picky", spec).await;
    let pod = cluster.phase("picky", "Failed").await;
    assert_eq!(pod["status"]["reason"], "NodeAffinity");
    assert_eq!(
        pod["status"]["message"],
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    );
    assert!(cluster.runtime.container("a").is_none() && cluster.runtime.container("b").is_none());
    // What runs is not asked again when the agent is restarted, even if it would not fit any more.
    cluster.patch_node(json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})).await;
    cluster.stop().await;
    cluster.start();
    cluster.pods().delete("huge", &DeleteParams::default()).await.expect("an ended pod goes at once");
    cluster.gone("huge").await;
    cluster.phase("other", "Running").await;
    assert_eq!(cluster.runtime.container("o").expect("it runs").starts, 1);
}
