//! Internal errors, one at each place where the agent waits for the API or the runtime: the pod that they meet comes through
//! all the same, and nothing else notices.

use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::{container, container_with};

/// A pod with everything that makes its agent talk to somebody.
fn talkative() -> Value {
    let hooks = json!({"lifecycle": {"postStart": {"exec": {"command": ["up"]}}, "preStop": {"exec": {"command": ["down"]}}},
        "readinessProbe": {"exec": {"command": ["well"]}, "periodSeconds": 1},
        "envFrom": [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "keys"}}]});
    json!({
        "terminationGracePeriodSeconds": 2,
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
        "initContainers": [container("init", &["exit", "0"])],
        "containers": [container_with("main", &["run"], hooks)],
    })
}

/// Failpoints of the runtime: the next call of that name panics.
const RUNTIME: [&str; 12] = [
    "run_pod_sandbox",
    "pod_sandbox_status",
    "list_pod_sandbox",
    "list_containers",
    "create_container",
    "start_container",
    "container_status",
    "exec_sync",
    "image_status",
    "stop_container",
    "remove_container",
    "remove_pod_sandbox",
];

/// Failpoints of the API: the next request whose line holds the text.
const API: [&str; 7] = [
    "PATCH /api/v1/namespaces/default/pods/p/status",
    "DELETE /api/v1/namespaces/default/pods/p",
    "POST /api/v1/namespaces/default/events",
    "GET /api/v1/namespaces/default/configmaps/settings",
    "GET /api/v1/namespaces/default/secrets/keys",
    "GET /api/v1/namespaces/default/services",
    "GET /api/v1/namespaces/default/configmaps/settings",
];

async fn lives_and_dies(cluster: &Cluster, what: &str) {
    cluster.create_pod("p", talkative()).await;
    cluster
        .pod_becomes("p", &format!("ready in spite of a panic at {what}"), |pod| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        })
        .await;
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("marked");
    cluster.gone("p").await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while cluster.runtime.sandboxes().len() > 1 || cluster.pod_dirs().len() > 1 {
        assert!(
            tokio::time::Instant::now() < deadline,
            "something of the pod is left after a panic at {what}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn cluster_with_another_pod() -> Cluster {
    let cluster = Cluster::new().await;
    cluster.create_config_map("settings", json!({"A": "1"})).await;
    cluster.create_secret("keys", json!({"B": "2"})).await;
    cluster.create_pod("other", json!({"containers": [container("o", &["run"])]})).await;
    cluster.phase("other", "Running").await;
    cluster
}

async fn other_did_not_notice(cluster: &Cluster) {
    let other = cluster.phase("other", "Running").await;
    let status = &other["status"]["containerStatuses"][0];
    assert_eq!((status["restartCount"].as_i64(), status["ready"].as_bool()), (Some(0), Some(true)));
    assert_eq!(cluster.runtime.container("o").expect("it runs").starts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_the_runtime_is_asked_is_one_pods_affair() {
    let cluster = cluster_with_another_pod().await;
    for call in RUNTIME {
        cluster.runtime.fail_once(call, "panic");
        lives_and_dies(&cluster, call).await;
        assert!(!cluster.runtime.is_armed(call), "the failpoint {call} was never met");
        other_did_not_notice(&cluster).await;
    }
    cluster.event("Warning FailedSync").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_the_api_is_asked_is_one_pods_affair() {
    let cluster = cluster_with_another_pod().await;
    for line in API {
        cluster.failpoints.lock().expect("no panic while locked").push(line.to_owned());
        lives_and_dies(&cluster, line).await;
        let left = cluster.failpoints.lock().expect("no panic while locked").clone();
        assert!(left.is_empty(), "a failpoint was never met: {left:?}");
        other_did_not_notice(&cluster).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_the_whole_node_begin_anew_after_a_panic() {
    let mut cluster = Cluster::new().await;
    cluster.phase_of_probe().await;
    for line in ["GET /api/v1/pods?", "GET /api/v1/nodes?", "POST /api/v1/nodes", "GET /api/v1/configmaps?"] {
        cluster.stop().await;
        cluster.failpoints.lock().expect("no panic while locked").push(line.to_owned());
        cluster.start();
        cluster.phase_of_probe().await;
        let left = cluster.failpoints.lock().expect("no panic while locked").clone();
        assert!(left.is_empty(), "a failpoint was never met: {left:?}");
    }
}

impl Cluster {
    /// A pod comes and goes.
    async fn phase_of_probe(&self) {
        self.create_pod("probe", json!({"containers": [container("x", &["run"])]})).await;
        self.phase("probe", "Running").await;
        self.pods().delete("probe", &DeleteParams::default().grace_period(1)).await.expect("marked");
        self.gone("probe").await;
    }
}
