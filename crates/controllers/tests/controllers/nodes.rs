//! Nodes that fall silent, come back, are tainted and cordoned.

use std::time::Duration;

use controllers::NodeWatch;
use informer::ObjectKey;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::scheduling::pod;

/// `key:effect` of the node's taints, sorted, without the domain.
fn taints(node: &Node) -> String {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let mut words: Vec<String> = taints
        .map(|taint| format!("{}:{}", taint.key.trim_start_matches("node.kubernetes.io/"), taint.effect))
        .collect();
    words.sort();
    words.join(" ")
}

fn ready(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| one.type_ == "Ready").map(|one| one.status.as_str())
}

impl Cluster {
    async fn node_until(&self, name: &str, what: &str, holds: impl Fn(&Node) -> bool) {
        let key = ObjectKey::new("", name);
        self.until(&format!("node {name} {what}"), |seen| {
            seen.nodes.get(&key).is_some_and(|node| holds(&node))
        })
        .await;
    }

    async fn gone(&self, pod: &str) {
        let key = ObjectKey::new("default", pod);
        self.until(&format!("pod {pod} is gone"), |seen| seen.pods.get(&key).is_none()).await;
    }
}

fn is_ready(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|one| one.type_ == "Ready").map(|one| one.status.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pods_of_a_silent_node_go_when_they_bear_it_no_longer_and_it_is_welcome_again() {
    let mut cluster = Cluster::bare().await;
    cluster.watch = NodeWatch { own: Some("node-2".to_owned()), grace: Duration::from_secs(1) };
    cluster.add_node("node-1").await;
    cluster.add_node("node-2").await;
    for (name, seconds) in [("patient", 3600), ("brief", 1)] {
        let tolerations = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": seconds}]);
        let _: Pod =
            cluster.create(pod(name, json!({"nodeName": "node-1", "tolerations": tolerations}))).await;
        cluster.runs_on(name, "node-1").await;
    }
    cluster.start();
    cluster
        .node_until("node-1", "is unreachable", |node| {
            ready(node) == Some("Unknown") && taints(node) == "unreachable:NoExecute unreachable:NoSchedule"
        })
        .await;
    cluster.pod_until("patient", "is not ready", |pod| is_ready(pod) == Some("False")).await;
    cluster.gone("brief").await;
    cluster.event("brief", "Normal TaintManagerEviction: Marking for deletion Pod default/brief").await;
    let other = cluster.seen.nodes.get(&ObjectKey::new("", "node-2")).expect("there");
    assert_eq!((ready(&other), taints(&other).as_str()), (Some("True"), ""));
    cluster.stop().await;
    // It speaks again.
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let status = json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}});
    nodes.patch_status("node-1", &PatchParams::default(), &Patch::Strategic(&status)).await.expect("patched");
    cluster.watch.grace = Duration::from_secs(3600);
    cluster.start();
    cluster.node_until("node-1", "is welcome", |node| taints(node).is_empty()).await;
    cluster.runs_on("patient", "node-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taint_of_the_user_drives_pods_away_that_do_not_bear_it() {
    let cluster = Cluster::new().await;
    let _: Pod = cluster.create(pod("plain", json!({}))).await;
    let bears = |seconds: Value| json!({"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]});
    let _: Pod = cluster.create(pod("bears", bears(Value::Null))).await;
    let _: Pod = cluster.create(pod("bears-long", bears(json!(3600)))).await;
    let _: Pod = cluster.create(pod("bears-briefly", bears(json!(1)))).await;
    for name in ["plain", "bears", "bears-long", "bears-briefly"] {
        cluster.runs_on(name, "node-1").await;
    }
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
    cluster.patch_node("node-1", taint).await;
    cluster.gone("plain").await;
    cluster.gone("bears-briefly").await;
    cluster.patch_node("node-1", json!({"spec": {"taints": null}})).await;
    cluster
        .event("bears-long", "Normal TaintManagerEviction: Cancelling deletion of Pod default/bears-long")
        .await;
    cluster.runs_on("bears", "node-1").await;
    cluster.runs_on("bears-long", "node-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cordoned_node_has_the_taint_that_says_so_until_it_is_open_again() {
    let cluster = Cluster::new().await;
    cluster.patch_node("node-1", json!({"spec": {"unschedulable": true}})).await;
    cluster.node_until("node-1", "is tainted", |node| taints(node) == "unschedulable:NoSchedule").await;
    cluster.patch_node("node-1", json!({"spec": {"unschedulable": null}})).await;
    cluster.node_until("node-1", "is open", |node| taints(node).is_empty()).await;
}
