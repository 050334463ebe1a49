//! How a pod's life ends and what its conditions say on the way.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::{container, container_with};

fn condition(pod: &Value, type_: &str) -> Value {
    let list = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    list.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_readiness_gate_holds_a_pod_back_until_somebody_sets_its_condition() {
    let cluster = Cluster::new().await;
    let spec = json!({"readinessGates": [{"conditionType": "example.com/up"}], "containers": [container("a", &["run"])]});
    cluster.create_pod("p", spec).await;
    let pod = cluster
        .pod_becomes("p", "held back", |pod| condition(pod, "Ready")["reason"] == "ReadinessGatesNotReady")
        .await;
    assert_eq!(condition(&pod, "ContainersReady")["status"], "True");
    assert_eq!(
        condition(&pod, "Ready")["message"],
        "corresponding condition of pod readiness gate \"example.com/up\" does not exist."
    );
    let set =
        |status: &str| json!({"status": {"conditions": [{"type": "example.com/up", "status": status}]}});
    let params = PatchParams::default();
    cluster.pods().patch_status("p", &params, &Patch::Strategic(set("False"))).await.expect("patched");
    cluster
        .pod_becomes("p", "still held back", |pod| {
            condition(pod, "Ready")["message"]
                == "the status of pod readiness gate \"example.com/up\" is not \"True\", but False"
        })
        .await;
    cluster.pods().patch_status("p", &params, &Patch::Strategic(set("True"))).await.expect("patched");
    let pod = cluster.pod_becomes("p", "ready", |pod| condition(pod, "Ready")["status"] == "True").await;
    assert_eq!(condition(&pod, "example.com/up")["status"], "True", "conditions of others stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_condition_says_which_generation_it_is_about() {
    let cluster = Cluster::new().await;
    cluster.runtime.add_image("busybox:2", 0, "");
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    let patch = json!({"spec": {"containers": [{"name": "a", "image": "busybox:2"}]}});
    cluster.pods().patch("p", &PatchParams::default(), &Patch::Strategic(&patch)).await.expect("patched");
    let pod = cluster.pod_becomes("p", "told", |pod| pod["status"]["observedGeneration"] == 2).await;
    let conditions = pod["status"]["conditions"].as_array().expect("conditions");
    let mut types: Vec<&str> = conditions.iter().filter_map(|condition| condition["type"].as_str()).collect();
    types.sort_unstable();
    assert_eq!(
        types,
        ["ContainersReady", "Initialized", "PodReadyToStartContainers", "PodScheduled", "Ready"]
    );
    for condition in conditions {
        assert_eq!(condition["observedGeneration"], 2, "{condition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn finalizers_keep_the_object_after_everything_else_is_gone() {
    let mut cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    let params = PatchParams::default();
    let keep = finalizers(json!(["example.com/keep"]));
    cluster.pods().patch("p", &params, &Patch::Merge(&keep)).await.expect("patched");
    cluster.pods().delete("p", &DeleteParams::default().grace_period(1)).await.expect("marked");
    let pod = cluster.phase("p", "Failed").await;
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(ended["exitCode"], 143);
    assert!(ended["finishedAt"].is_string());
    assert_eq!(condition(&pod, "Ready")["reason"], "PodFailed");
    wait_until("nothing is left", || cluster.runtime.sandboxes().is_empty() && cluster.pod_dirs().is_empty())
        .await;
    cluster.stop().await;
    cluster.start();
    cluster.create_pod("probe", json!({"containers": [container("x", &["run"])]})).await;
    cluster.phase("probe", "Running").await;
    let pod = cluster.phase("p", "Failed").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 143);
    let free = finalizers(Value::Null);
    cluster.pods().patch("p", &params, &Patch::Merge(&free)).await.expect("patched");
    cluster.gone("p").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_deletion_with_a_shorter_grace_is_obeyed_at_once_and_never_a_longer_one() {
    let cluster = Cluster::new().await;
    let spec = json!({"terminationGracePeriodSeconds": 600, "containers": [container_with("a", &["hang"], json!({}))]});
    cluster.create_pod("p", spec).await;
    cluster.phase("p", "Running").await;
    let delete = async |grace: u32| {
        cluster.pods().delete("p", &DeleteParams::default().grace_period(grace)).await.expect("marked");
    };
    let stopped = |call: &'static str| {
        let runtime = cluster.runtime.clone();
        move || runtime.calls().iter().any(|made| made == call)
    };
    delete(300).await;
    wait_until("it is stopped", stopped("stop_container a 300")).await;
    delete(500).await;
    delete(2).await;
    wait_until("it is stopped sooner", stopped("stop_container a 2")).await;
    cluster.gone("p").await;
    assert!(!cluster.runtime.calls().iter().any(|call| call == "stop_container a 500"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_is_shortened_later_counts_from_the_start() {
    let cluster = Cluster::new().await;
    cluster
        .create_pod("p", json!({"activeDeadlineSeconds": 3600, "containers": [container("a", &["run"])]}))
        .await;
    cluster.phase("p", "Running").await;
    let patch = json!({"spec": {"activeDeadlineSeconds": 1}});
    cluster.pods().patch("p", &PatchParams::default(), &Patch::Merge(&patch)).await.expect("patched");
    let pod = cluster.phase("p", "Failed").await;
    assert_eq!(pod["status"]["reason"], "DeadlineExceeded");
    assert_eq!(condition(&pod, "ContainersReady")["reason"], "PodFailed");
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("an ended pod goes at once");
    cluster.gone("p").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_restarts_all_containers_in_the_same_sandbox() {
    let cluster = Cluster::new().await;
    let rules = json!({"restartPolicy": "Never", "restartPolicyRules": [
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]});
    cluster
        .create_pod(
            "p",
            json!({
                "restartPolicy": "Never", "initContainers": [container("i", &["exit", "0"])],
                "containers": [container_with("a", &["run"], rules), container("b", &["run"])],
            }),
        )
        .await;
    let before = cluster.pod_becomes("p", "ready", |pod| condition(pod, "Ready")["status"] == "True").await;
    cluster.runtime.end("a", 42);
    let pod = cluster
        .pod_becomes("p", "ready again", |pod| {
            pod["status"]["containerStatuses"][1]["restartCount"] == 1
                && condition(pod, "Ready")["status"] == "True"
        })
        .await;
    assert_eq!(pod["status"]["podIP"], before["status"]["podIP"]);
    assert_eq!(pod["status"]["initContainerStatuses"][0]["restartCount"], 1);
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 42);
    let other = &pod["status"]["containerStatuses"][1]["lastState"]["terminated"];
    assert_eq!(
        (other["exitCode"].as_i64(), other["reason"].as_str()),
        (Some(137), Some("RestartingAllContainers"))
    );
    assert_eq!(condition(&pod, "AllContainersRestarting")["status"], "False");
    assert!(cluster.runtime.calls().iter().any(|call| call == "stop_container b 2"));
    assert_eq!(cluster.runtime.sandboxes().len(), 1);
}

async fn wait_until(what: &str, wanted: impl Fn() -> bool) {
    let look = async {
        while !wanted() {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let done = tokio::time::timeout(std::time::Duration::from_secs(20), look).await;
    assert!(done.is_ok(), "it did not happen: {what}");
}
