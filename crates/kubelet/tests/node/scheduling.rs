//! The only node takes what fits, says of the rest why not, and looks again when something changes.

use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::{container, container_with};

const TAIL: &str = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";

fn scheduled(pod: &Value) -> Value {
    let list = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    list.into_iter().find(|condition| condition["type"] == "PodScheduled").unwrap_or_default()
}

impl Cluster {
    async fn patch_node(&self, patch: Value) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.patch("node-1", &PatchParams::default(), &Patch::Strategic(&patch)).await.expect("patched");
    }

    async fn unschedulable(&self, name: &str, message: &str) -> Value {
        let pod = self
            .pod_becomes(name, "unschedulable", |pod| {
                scheduled(pod)["message"].as_str().is_some_and(|text| text.contains(message))
            })
            .await;
        assert_eq!(pod["status"]["phase"], "Pending");
        let condition = scheduled(&pod);
        assert_eq!(
            (condition["status"].as_str(), condition["reason"].as_str()),
            (Some("False"), Some("Unschedulable"))
        );
        pod
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_no_node_fits_waits_with_the_schedulers_message_until_the_node_changes() {
    let cluster = Cluster::new().await;
    let spec = json!({"nodeSelector": {"disk": "ssd"}, "containers": [container("a", &["run"])]});
    cluster.create_pod("p", spec).await;
    let message =
        format!("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. {TAIL}");
    cluster.unschedulable("p", &message).await;
    cluster.event(&format!("Warning FailedScheduling : {message}")).await;
    cluster.patch_node(json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    let pod = cluster.phase("p", "Running").await;
    assert_eq!(scheduled(&pod)["status"], "True");
    assert!(scheduled(&pod)["message"].is_null(), "{pod}");
    cluster.event("Normal Scheduled : Successfully assigned default/p to node-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn taints_and_cordons_keep_pods_out_and_leave_running_ones_alone() {
    let cluster = Cluster::new().await;
    cluster.create_pod("before", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("before", "Running").await;
    cluster.patch_node(json!({"spec": {"unschedulable": true}})).await;
    cluster.create_pod("p", json!({"containers": [container("b", &["run"])]})).await;
    cluster.unschedulable("p", "1 node(s) were unschedulable").await;
    cluster
        .patch_node(json!({"spec": {"unschedulable": null, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}))
        .await;
    cluster.unschedulable("p", "1 node(s) had untolerated taint(s)").await;
    let tolerant = json!({"tolerations": [{"key": "k", "operator": "Exists"}], "containers": [container("c", &["run"])]});
    cluster.create_pod("tolerant", tolerant).await;
    cluster.phase("tolerant", "Running").await;
    cluster.phase("before", "Running").await;
    cluster.patch_node(json!({"spec": {"taints": null}})).await;
    cluster.phase("p", "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_waits_for_ports_and_resources_that_others_hold() {
    let cluster = Cluster::new().await;
    let port = json!({"ports": [{"containerPort": 80, "hostPort": 8080}]});
    let with_port = |name: &str| json!({"containers": [container_with(name, &["run"], port.clone())]});
    cluster.create_pod("first", with_port("a")).await;
    cluster.phase("first", "Running").await;
    cluster.create_pod("second", with_port("b")).await;
    let pod =
        cluster.unschedulable("second", "1 node(s) didn't have free ports for the requested pod ports").await;
    assert!(
        scheduled(&pod)["message"]
            .as_str()
            .is_some_and(|text| text.ends_with("1 No preemption victims found for incoming pod."))
    );
    cluster.pods().delete("first", &DeleteParams::default().grace_period(1)).await.expect("deleted");
    cluster.phase("second", "Running").await;
    let huge = json!({"resources": {"requests": {"cpu": "100000", "memory": "1Ei"}}});
    cluster.create_pod("huge", json!({"containers": [container_with("c", &["run"], huge)]})).await;
    cluster
        .unschedulable("huge", "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory. ")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduling_gates_hold_a_pod_until_the_last_one_is_gone() {
    let cluster = Cluster::new().await;
    let spec = json!({"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}],
        "containers": [container("a", &["run"])]});
    let pod = cluster.create_pod("p", spec).await;
    let condition = scheduled(&serde_json::to_value(&pod).expect("JSON"));
    assert_eq!(
        (condition["status"].as_str(), condition["reason"].as_str()),
        (Some("False"), Some("SchedulingGated"))
    );
    assert_eq!(condition["message"], "Scheduling is blocked due to non-empty scheduling gates");
    let gates = |gates: Value| json!({"spec": {"schedulingGates": gates}});
    let params = PatchParams::default();
    let one = gates(json!([{"name": "example.com/b"}]));
    cluster.pods().patch("p", &params, &Patch::Merge(&one)).await.expect("patched");
    // A pod that is created later and runs shows that the scheduler has passed by.
    cluster.create_pod("probe", json!({"containers": [container("x", &["run"])]})).await;
    cluster.phase("probe", "Running").await;
    assert!(cluster.runtime.container("a").is_none());
    cluster.pods().patch("p", &params, &Patch::Merge(&gates(json!([])))).await.expect("patched");
    cluster.phase("p", "Running").await;
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
