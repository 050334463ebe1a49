//! The agent ends and another one takes over.

use kube::api::DeleteParams;
use serde_json::json;

use super::cluster::Cluster;
use super::{container, container_with};

#[tokio::test(flavor = "multi_thread")]
async fn running_containers_are_adopted_and_finished_init_containers_do_not_run_again() {
    let mut cluster = Cluster::new().await;
    cluster
        .create_pod("p", json!({"initContainers": [container("i", &["exit", "0"])], "containers": [container("a", &["run"])]}))
        .await;
    cluster.phase("p", "Running").await;
    let before = cluster.runtime.container("a").expect("it runs");
    for _ in 0..3 {
        cluster.stop().await;
        cluster.start();
        // A pod that is created now is up after everything that is found at a start was looked at.
        cluster.create_pod("probe", json!({"containers": [container("x", &["run"])]})).await;
        cluster.phase("probe", "Running").await;
        cluster.pods().delete("probe", &DeleteParams::default().grace_period(1)).await.expect("deleted");
        cluster.gone("probe").await;
    }
    let after = cluster.runtime.container("a").expect("it still runs");
    assert_eq!((after.id, after.starts), (before.id, 1));
    assert_eq!(cluster.runtime.container("i").expect("it ended").starts, 1);
    let pod = cluster.phase("p", "Running").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_while_no_agent_ran_is_noticed() {
    let mut cluster = Cluster::new().await;
    cluster
        .create_pod("p", json!({"restartPolicy": "Never", "containers": [container("a", &["run"])]}))
        .await;
    cluster.phase("p", "Running").await;
    cluster.stop().await;
    cluster.runtime.end("a", 9);
    cluster.start();
    let pod = cluster.phase("p", "Failed").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_deleted_while_no_agent_ran_is_stopped_and_cleared_away() {
    let mut cluster = Cluster::new().await;
    cluster
        .create_pod(
            "p",
            json!({"terminationGracePeriodSeconds": 3, "containers": [container("a", &["run"])]}),
        )
        .await;
    cluster.phase("p", "Running").await;
    cluster.stop().await;
    cluster.pods().delete("p", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    cluster.start();
    wait_until("it was stopped", || cluster.runtime.calls().iter().any(|call| call == "stop_container a 3"))
        .await;
    wait_until("nothing is left", || cluster.runtime.sandboxes().is_empty() && cluster.pod_dirs().is_empty())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_without_any_state_is_stopped_too() {
    let mut cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    cluster.stop().await;
    cluster.pods().delete("p", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    std::fs::remove_file(state_file(&cluster)).expect("removed");
    cluster.start();
    wait_until("nothing is left", || {
        cluster.runtime.containers().is_empty()
            && cluster.runtime.sandboxes().is_empty()
            && cluster.pod_dirs().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_state_file_is_put_aside_and_the_pod_runs_on() {
    let mut cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    cluster.stop().await;
    std::fs::write(state_file(&cluster), "half of a fi").expect("written");
    cluster.start();
    cluster.event("Warning StateQuarantined").await;
    assert_eq!(std::fs::read_dir(cluster.dir.path().join("kubelet/quarantine")).expect("there").count(), 1);
    cluster.phase("p", "Running").await;
    assert_eq!(cluster.runtime.container("a").expect("it runs").starts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_back_off_goes_on_after_a_restart_of_the_agent() {
    let mut cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("a", &["exit", "1"])]})).await;
    cluster.waiting("p", "CrashLoopBackOff").await;
    cluster.stop().await;
    cluster.start();
    cluster.create_pod("probe", json!({"containers": [container("x", &["run"])]})).await;
    cluster.phase("probe", "Running").await;
    let attempts = cluster.runtime.container("a").expect("it ended").attempt();
    assert_eq!(attempts, 1, "the wait of ten seconds was not forgotten");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_was_under_way_is_finished_by_the_next_agent() {
    let mut cluster = Cluster::new().await;
    cluster
        .create_pod("p", json!({"terminationGracePeriodSeconds": 600, "containers": [container_with("a", &["hang"], json!({}))]}))
        .await;
    cluster.phase("p", "Running").await;
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("marked");
    wait_until("it is stopping", || {
        cluster.runtime.calls().iter().any(|call| call == "stop_container a 600")
    })
    .await;
    cluster.stop().await;
    cluster.runtime.end("a", 0);
    cluster.start();
    cluster.gone("p").await;
}

fn state_file(cluster: &Cluster) -> std::path::PathBuf {
    cluster.dir.path().join("kubelet/pods").join(&cluster.pod_dirs()[0]).join("state.json")
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
