//! Pods live and die.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::Cluster;
use super::fake_runtime::FakeRuntime;
use super::{container, container_with};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_and_shows_it() {
    let cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    let pod = cluster.phase("p", "Running").await;
    assert_eq!(pod["spec"]["nodeName"], "node-1");
    assert_eq!(pod["status"]["podIP"], "10.42.0.1");
    assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
    assert_eq!(pod["status"]["containerStatuses"][0]["containerID"], "fake://container0002");
    assert_eq!(pod["status"]["qosClass"], "BestEffort");
    for text in [
        "Normal Pulled spec.containers{a}: Container image \"busybox\" already present on machine and can be accessed by the pod",
        "Normal Created spec.containers{a}: Container created",
        "Normal Started spec.containers{a}: Container started",
        "Warning MissingClusterDNS",
    ] {
        cluster.event(text).await;
    }
    let container = cluster.runtime.container("a").expect("it runs");
    assert_eq!(container.sandbox.hostname, "p");
    let hosts =
        container.config.mounts.iter().find(|mount| mount.container_path == "/etc/hosts").expect("mounted");
    let hosts = std::fs::read_to_string(&hosts.host_path).expect("there");
    assert!(hosts.contains("10.42.0.1\tp\n"), "{hosts}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_without_events_is_followed_by_its_lists() {
    let cluster = Cluster::with(FakeRuntime::new().without_events(), |config| {
        config.resync = std::time::Duration::from_secs(3600);
    })
    .await;
    cluster
        .create_pod("p", json!({"restartPolicy": "Never", "containers": [container("a", &["run"])]}))
        .await;
    cluster.phase("p", "Running").await;
    cluster.runtime.end("a", 0);
    cluster.phase("p", "Succeeded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn init_containers_run_before_containers_and_the_pod_ends_as_they_do() {
    let cluster = Cluster::new().await;
    cluster
        .create_pod(
            "p",
            json!({
                "restartPolicy": "Never",
                "volumes": [{"name": "v", "emptyDir": {}}],
                "initContainers": [container_with("i", &["write", "/v/f", "from init"],
                    json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}))],
                "containers": [
                    container_with("a", &["read", "/v/f"], json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
                    container_with("b", &["die", "/dev/termination-log", "last words"], json!({})),
                ],
            }),
        )
        .await;
    let pod = cluster.phase("p", "Failed").await;
    let status = |index: usize| &pod["status"]["containerStatuses"][index]["state"]["terminated"];
    assert_eq!(pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["reason"], "Completed");
    assert_eq!(status(0)["exitCode"], 0);
    assert_eq!(
        (status(1)["exitCode"].as_i64(), status(1)["message"].as_str()),
        (Some(3), Some("last words"))
    );
    let (code, log) = cluster.http("/containerLogs/default/p/a").await;
    assert_eq!((code, log.as_str()), (200, "started 0\nfrom init\n"));
    let stopped = cluster.runtime.sandboxes();
    assert!(stopped.iter().all(|sandbox| !sandbox.ready), "the sandbox of a pod that has ended is stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_container_is_restarted_and_then_backs_off() {
    let cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("a", &["exit", "7"])]})).await;
    let message = cluster.waiting("p", "CrashLoopBackOff").await;
    assert!(message.starts_with("back-off 10s restarting failed container=a pod=p_default("), "{message}");
    let pod = cluster.phase("p", "Running").await;
    let status = &pod["status"]["containerStatuses"][0];
    assert_eq!(status["restartCount"], 1);
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 7);
    cluster
        .event("Warning BackOff spec.containers{a}: Back-off restarting failed container a in pod p_default(")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_is_stopped_and_nothing_of_it_is_left() {
    let cluster = Cluster::new().await;
    cluster
        .create_pod(
            "p",
            json!({
                "terminationGracePeriodSeconds": 5,
                "volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}],
                "initContainers": [container_with("side", &["run"], json!({"restartPolicy": "Always"}))],
                "containers": [container_with("a", &["run"], json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}))],
            }),
        )
        .await;
    cluster.phase("p", "Running").await;
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("deleted");
    cluster.gone("p").await;
    let stops: Vec<String> =
        cluster.runtime.calls().into_iter().filter(|call| call.starts_with("stop_container")).collect();
    assert_eq!(stops[0], "stop_container a 5");
    assert!(stops[1].starts_with("stop_container side "), "sidecars go last: {stops:?}");
    cluster.event("Normal Killing spec.containers{a}: Stopping container a").await;
    wait_until("the runtime is empty", || {
        cluster.runtime.containers().is_empty() && cluster.runtime.sandboxes().is_empty()
    })
    .await;
    wait_until("the directory is gone", || cluster.pod_dirs().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_deletion_may_shorten_the_grace() {
    let cluster = Cluster::new().await;
    cluster
        .create_pod(
            "p",
            json!({"terminationGracePeriodSeconds": 600, "containers": [container("a", &["hang"])]}),
        )
        .await;
    cluster.phase("p", "Running").await;
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("deleted");
    wait_until("it is stopping", || {
        cluster.runtime.calls().iter().any(|call| call == "stop_container a 600")
    })
    .await;
    cluster.pods().delete("p", &DeleteParams::default().grace_period(1)).await.expect("deleted");
    cluster.gone("p").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_force_deleted_pod_is_still_stopped() {
    let cluster = Cluster::new().await;
    cluster
        .create_pod(
            "p",
            json!({"terminationGracePeriodSeconds": 4, "containers": [container("a", &["run"])]}),
        )
        .await;
    cluster.phase("p", "Running").await;
    cluster.pods().delete("p", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    cluster.gone("p").await;
    wait_until("it was stopped with its own grace", || {
        cluster.runtime.calls().iter().any(|call| call == "stop_container a 4")
    })
    .await;
    wait_until("nothing is left", || cluster.runtime.sandboxes().is_empty() && cluster.pod_dirs().is_empty())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_the_same_name_is_another_pod() {
    let cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("old", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    cluster.pods().delete("p", &DeleteParams::default().grace_period(0)).await.expect("deleted");
    cluster.create_pod("p", json!({"containers": [container("new", &["run"])]})).await;
    let pod = cluster.phase("p", "Running").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["name"], "new");
    wait_until("the old one is gone", || cluster.runtime.container("old").is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_not_active_for_longer_than_its_deadline() {
    let cluster = Cluster::new().await;
    cluster
        .create_pod("p", json!({"activeDeadlineSeconds": 1, "containers": [container("a", &["run"])]}))
        .await;
    let pod = cluster.phase("p", "Failed").await;
    assert_eq!(pod["status"]["reason"], "DeadlineExceeded");
    assert_eq!(pod["status"]["message"], "Pod was active on the node longer than the specified deadline");
    cluster.event("DeadlineExceeded").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_sandbox_is_made_anew() {
    let cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    cluster.runtime.kill_sandboxes();
    let pod = cluster
        .pod_becomes("p", "restarted", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == 1 && status["ready"] == true
        })
        .await;
    assert_ne!(pod["status"]["podIP"], "10.42.0.1");
    cluster.event("SandboxChanged").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_image_restarts_the_container() {
    let cluster = Cluster::new().await;
    cluster.runtime.add_image("busybox:2", 0, "");
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    let patch = json!({"spec": {"containers": [{"name": "a", "image": "busybox:2"}]}});
    cluster.pods().patch("p", &PatchParams::default(), &Patch::Strategic(&patch)).await.expect("patched");
    cluster
        .pod_becomes("p", "restarted", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == 1
                && status["state"]["running"].is_object()
                && status["image"] == "busybox:2"
        })
        .await;
    cluster.event("Container a definition changed, will be restarted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_pulled_by_policy_and_failures_back_off() {
    let cluster = Cluster::new().await;
    cluster.runtime.offer_image("registry.example/app:1");
    let image = |name: &str, image: &str, policy: &str| json!({"containers": [{"name": name, "image": image, "imagePullPolicy": policy, "command": ["run"]}]});
    cluster.create_pod("good", image("a", "registry.example/app:1", "IfNotPresent")).await;
    cluster.phase("good", "Running").await;
    cluster.event("Normal Pulling spec.containers{a}: Pulling image \"registry.example/app:1\"").await;
    cluster
        .event("Normal Pulled spec.containers{a}: Successfully pulled image \"registry.example/app:1\" in ")
        .await;

    cluster.create_pod("never", image("b", "absent", "Never")).await;
    let message = cluster.waiting("never", "ErrImageNeverPull").await;
    assert_eq!(message, "Container image \"absent\" is not present with pull policy of Never");

    cluster.create_pod("absent", image("c", "registry.example/absent", "Always")).await;
    cluster.waiting("absent", "ErrImagePull").await;
    cluster
        .event("Warning Failed spec.containers{c}: Failed to pull image \"registry.example/absent\": ")
        .await;
    cluster.event("Warning Failed spec.containers{c}: Error: ErrImagePull").await;
    cluster
        .event("Normal BackOff spec.containers{c}: Back-off pulling image \"registry.example/absent\"")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_that_takes_for_ever_does_not_keep_a_pod_from_being_deleted() {
    let cluster = Cluster::new().await;
    let spec = json!({"containers": [{"name": "a", "image": "slow", "imagePullPolicy": "Always"}]});
    cluster.create_pod("p", spec).await;
    wait_until("it pulls", || !cluster.runtime.pulls().is_empty()).await;
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("deleted");
    cluster.gone("p").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pull_secrets_are_handed_to_the_runtime() {
    let cluster = Cluster::new().await;
    cluster.runtime.offer_image("quay.io/a/b");
    cluster
        .create_secret(
            "login",
            json!({".dockerconfigjson": "{\"auths\":{\"quay.io\":{\"auth\":\"dXNlcjpwdw==\"}}}"}),
        )
        .await;
    cluster
        .create_pod(
            "p",
            json!({"imagePullSecrets": [{"name": "login"}, {"name": "missing"}],
                "containers": [{"name": "a", "image": "quay.io/a/b", "command": ["run"]}]}),
        )
        .await;
    cluster.phase("p", "Running").await;
    let login = cluster.runtime.pulls()[0].auth.clone().expect("a login");
    assert_eq!((login.username.as_str(), login.password.as_str()), ("user", "pw"));
    cluster.event("Unable to retrieve some image pull secrets (missing)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_cannot_be_created_waits_and_is_tried_again() {
    let cluster = Cluster::new().await;
    cluster.runtime.fail_once("create_container", "no space left");
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.event("Warning Failed spec.containers{a}: Error: no space left").await;
    let pod = cluster.phase("p", "Running").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_cannot_be_started_counts_as_ended() {
    let cluster = Cluster::new().await;
    cluster.runtime.fail_once("start_container", "exec: \"nope\": executable file not found");
    cluster
        .create_pod("p", json!({"restartPolicy": "Never", "containers": [container("a", &["run"])]}))
        .await;
    let pod = cluster.phase("p", "Failed").await;
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((ended["exitCode"].as_i64(), ended["reason"].as_str()), (Some(128), Some("StartError")));
    assert_eq!(ended["message"], "exec: \"nope\": executable file not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_one_pod_leaves_the_others_alone_and_is_tried_again() {
    let cluster = Cluster::new().await;
    cluster.create_pod("other", json!({"containers": [container("o", &["run"])]})).await;
    cluster.phase("other", "Running").await;
    cluster.runtime.fail_once("run_pod_sandbox", "panic");
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.event("Warning FailedSync").await;
    cluster.phase("p", "Running").await;
    cluster.phase("other", "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_registers_and_is_ready() {
    let cluster = Cluster::new().await;
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(cluster.client.clone());
    cluster.event("Normal NodeReady : Node node-1 status is now: NodeReady").await;
    let node = serde_json::to_value(nodes.get("node-1").await.expect("there")).expect("JSON");
    let ready: Vec<&Value> = node["status"]["conditions"]
        .as_array()
        .expect("conditions")
        .iter()
        .filter(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        .collect();
    assert_eq!(ready.len(), 1);
    assert_eq!(node["status"]["addresses"][0]["address"], "127.0.0.1");
    assert_eq!(node["status"]["nodeInfo"]["containerRuntimeVersion"], "fake://1.0");
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], "node-1");
    assert!(node["status"]["capacity"]["memory"].is_string());
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
