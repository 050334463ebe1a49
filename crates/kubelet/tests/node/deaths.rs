//! The agent dies in the middle of every call that it makes to the runtime, before it is carried out and after; the next agent
//! finds what there is: nothing starts twice, nothing that has ended runs again, nothing is left over.

use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::{container, container_with};

fn pod() -> Value {
    let hooks = json!({"lifecycle": {"preStop": {"exec": {"command": ["down"]}}}});
    json!({
        "terminationGracePeriodSeconds": 2,
        "volumes": [{"name": "v", "emptyDir": {}}],
        "initContainers": [container("one", &["exit", "0"]), container("two", &["exit", "0"])],
        "containers": [container_with("main", &["run"], hooks)],
    })
}

/// Calls on the way up, and how many of that name are answered before.
const UP: [(&str, &[u32]); 8] = [
    ("image_status", &[0, 1, 2]),
    ("run_pod_sandbox", &[0]),
    ("pod_sandbox_status", &[0]),
    ("list_pod_sandbox", &[0, 3]),
    ("create_container", &[0, 1, 2]),
    ("start_container", &[0, 1, 2]),
    ("list_containers", &[0, 2, 4]),
    ("container_status", &[0, 2]),
];

/// Calls on the way down.
const DOWN: [&str; 6] = [
    "exec_sync",
    "stop_container",
    "stop_pod_sandbox",
    "remove_container",
    "remove_pod_sandbox",
    "list_containers",
];

impl Cluster {
    /// The agent dies at that call, and another one takes over.
    async fn dies(&mut self, call: &str) {
        let died = tokio::time::timeout(Duration::from_secs(20), self.runtime.death()).await;
        assert!(died.is_ok(), "the call {call} was never made");
        self.stop().await;
        self.start();
    }

    async fn is_ready(&self, what: &str) {
        let pod = self
            .pod_becomes("p", what, |pod| {
                let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
                conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
            })
            .await;
        for list in ["initContainerStatuses", "containerStatuses"] {
            for status in pod["status"][list].as_array().into_iter().flatten() {
                assert_eq!(status["restartCount"], 0, "{what}: {status}");
            }
        }
        for name in ["one", "two", "main"] {
            assert_eq!(self.runtime.begun(name), 1, "{what}: {name} was begun once");
        }
    }

    async fn nothing_is_left(&self, what: &str) {
        self.gone("p").await;
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while !self.runtime.sandboxes().is_empty() || !self.pod_dirs().is_empty() {
            assert!(tokio::time::Instant::now() < deadline, "something is left: {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(self.runtime.containers().is_empty(), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_while_a_pod_comes_up_leaves_it_to_the_next() {
    let mut cluster = Cluster::new().await;
    for (call, skips) in UP {
        for after in [false, true] {
            for skip in skips.iter().copied() {
                let what =
                    format!("ready although the agent died at {call} (after: {after}, calls before: {skip})");
                cluster.runtime.count_anew();
                cluster.runtime.die_at(call, after, skip);
                cluster.create_pod("p", pod()).await;
                cluster.dies(call).await;
                cluster.is_ready(&what).await;
                cluster.pods().delete("p", &DeleteParams::default().grace_period(1)).await.expect("marked");
                cluster.nothing_is_left(&what).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_dies_while_a_pod_is_taken_down_leaves_nothing_behind() {
    let mut cluster = Cluster::new().await;
    for call in DOWN {
        for after in [false, true] {
            let what = format!("the agent died at {call} (after: {after})");
            cluster.runtime.count_anew();
            cluster.create_pod("p", pod()).await;
            cluster.is_ready(&what).await;
            let hooks = cluster.runtime.calls().iter().filter(|made| *made == "exec_sync down").count();
            cluster.runtime.die_at(call, after, 0);
            cluster.pods().delete("p", &DeleteParams::default().grace_period(2)).await.expect("marked");
            cluster.dies(call).await;
            cluster.nothing_is_left(&what).await;
            let delivered = cluster.runtime.calls().iter().filter(|made| *made == "exec_sync down").count();
            assert!(delivered > hooks, "{what}: the preStop hook was delivered");
            assert_eq!(cluster.runtime.begun("main"), 1, "{what}: nothing was begun again");
        }
    }
}
