//! Containers that are added to a pod that runs.

use cri::v1;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::container;

impl Cluster {
    async fn debug(&self, pod: &str, containers: Value) {
        let patch = json!({"spec": {"ephemeralContainers": containers}});
        let params = PatchParams::default();
        self.pods().patch_ephemeral_containers(pod, &params, &Patch::Strategic(&patch)).await.expect("added");
    }

    async fn ephemeral(&self, pod: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let path = "/status/ephemeralContainerStatuses/0";
        let found = self.pod_becomes(pod, what, |pod| pod.pointer(path).is_some_and(&wanted)).await;
        found.pointer(path).expect("a status").clone()
    }
}

fn debugger(name: &str, command: &[&str], target: &str) -> Value {
    let mut one = container(name, command);
    one["targetContainerName"] = target.into();
    one
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ephemeral_container_runs_beside_its_target_once_and_is_shown() {
    let mut cluster = Cluster::new().await;
    cluster.create_config_map("c", json!({"KEY": "value"})).await;
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    let mut one = debugger("d", &["exit", "3"], "a");
    one["envFrom"] = json!([{"configMapRef": {"name": "c"}}]);
    cluster.debug("p", json!([one])).await;
    let status = cluster.ephemeral("p", "ended", |one| one["state"]["terminated"].is_object()).await;
    assert_eq!(status["state"]["terminated"]["exitCode"], 3);
    assert_eq!((status["restartCount"].as_i64(), status["ready"].as_bool()), (Some(0), Some(false)));
    let made = cluster.runtime.container("d").expect("made");
    assert_eq!(made.env().last().map(String::as_str), Some("KEY=value"));
    let linux = made.config.linux.as_ref().expect("linux").security_context.clone().expect("a context");
    let options = linux.namespace_options.expect("options");
    let target = cluster.runtime.container("a").expect("it runs");
    assert_eq!((options.pid(), options.target_id.as_str()), (v1::NamespaceMode::Target, target.id.as_str()));
    cluster.event("Normal Started spec.ephemeralContainers{d}: Container started").await;
    let (code, log) = cluster.http("/containerLogs/default/p/d").await;
    assert_eq!((code, log.as_str()), (200, "started 0\n"));
    let (code, record) = cluster.http("/environment/default/p?container=d").await;
    assert_eq!(code, 200);
    assert!(record.contains("\"KEY\""), "{record}");
    cluster.stop().await;
    cluster.start();
    cluster.create_pod("probe", json!({"containers": [container("x", &["run"])]})).await;
    cluster.phase("probe", "Running").await;
    assert_eq!(cluster.runtime.container("d").expect("it ended").starts, 1, "and not again");
    cluster.phase("p", "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ephemeral_container_that_cannot_be_started_waits_and_the_pod_runs_on() {
    let cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    let mut one = debugger("d", &["run"], "");
    one["envFrom"] = json!([{"configMapRef": {"name": "later"}}]);
    cluster.debug("p", json!([one])).await;
    let status =
        cluster.ephemeral("p", "waiting", |one| one["state"]["waiting"]["message"].is_string()).await;
    assert_eq!(status["state"]["waiting"]["reason"], "CreateContainerConfigError");
    assert_eq!(status["state"]["waiting"]["message"], "configmap \"later\" not found");
    cluster.event("Warning Failed spec.ephemeralContainers{d}: Error: configmap \"later\" not found").await;
    cluster.create_config_map("later", json!({"K": "v"})).await;
    cluster.ephemeral("p", "running", |one| one["state"]["running"].is_object()).await;
    let pod = cluster.phase("p", "Running").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_never_ran_is_told_by_name() {
    let cluster = Cluster::new().await;
    cluster
        .create_pod(
            "p",
            json!({"initContainers": [container("i", &["run"])], "containers": [container("a", &["run"])]}),
        )
        .await;
    cluster
        .pod_becomes("p", "initializing", |pod| {
            pod["status"]["initContainerStatuses"][0]["state"]["running"].is_object()
        })
        .await;
    cluster.debug("p", json!([debugger("d", &["run"], "a")])).await;
    let status =
        cluster.ephemeral("p", "waiting", |one| one["state"]["waiting"]["message"].is_string()).await;
    assert_eq!(status["state"]["waiting"]["message"], "unable to find target container a");
    cluster.runtime.end("i", 0);
    cluster.ephemeral("p", "running", |one| one["state"]["running"].is_object()).await;
}
