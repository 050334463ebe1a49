//! Pods from a directory, and the objects by which the API shows them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kubelet::{KubeletConfig, KubeletHandle, spawn_standalone_kubelet};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::container;
use super::fake_runtime::FakeRuntime;

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        write(self.0.path(), name, text);
    }

    fn pod(&self, name: &str, containers: Value) {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 3, "containers": containers}});
        self.write(&format!("{name}.yaml"), &pod.to_string());
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.0.path().join(format!("{name}.yaml"))).expect("removed");
    }

    async fn cluster(&self) -> Cluster {
        Cluster::with(FakeRuntime::new(), |config| self.configure(config)).await
    }

    fn configure(&self, config: &mut KubeletConfig) {
        config.static_pod_dir = Some(self.path());
        config.static_pod_interval = Duration::from_millis(20);
    }
}

fn write(dir: &Path, name: &str, text: &str) {
    let temporary = dir.join(format!(".{name}.new"));
    std::fs::write(&temporary, text).expect("written");
    std::fs::rename(temporary, dir.join(name)).expect("renamed");
}

async fn wait_until(what: &str, wanted: impl Fn() -> bool) {
    let look = async {
        while !wanted() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), look).await.is_ok(), "it did not happen: {what}");
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_static_pod_runs_and_a_mirror_shows_it() {
    let files = Files::new();
    files.pod("web", json!([container("a", &["run"])]));
    let cluster = files.cluster().await;
    let pod = cluster.phase("web-node-1", "Running").await;
    let annotations = &pod["metadata"]["annotations"];
    let hash = annotations["kubernetes.io/config.hash"].as_str().expect("a hash");
    assert_eq!(annotations["kubernetes.io/config.source"], "file");
    assert_eq!(annotations["kubernetes.io/config.mirror"], hash);
    assert_eq!(pod["status"]["containerStatuses"][0]["ready"], true);
    assert_eq!(pod["status"]["podIP"], "10.42.0.1");
    assert_ne!(uid(&pod), hash, "the mirror has an identity of its own");
    let running = cluster.runtime.container("a").expect("it runs");
    assert_eq!(running.sandbox.metadata.clone().expect("metadata").uid, hash);
    let (code, log) = cluster.http("/containerLogs/default/web-node-1/a").await;
    assert_eq!((code, log.as_str()), (200, "started 0\n"));
    cluster.event("Normal Started spec.containers{a}: Container started").await;
    let (code, _) = cluster.http("/pods").await;
    assert_eq!(code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_the_mirror_does_not_stop_the_pod_and_it_comes_back() {
    let files = Files::new();
    files.pod("web", json!([container("a", &["run"])]));
    let cluster = files.cluster().await;
    let first = cluster.phase("web-node-1", "Running").await;
    for parameters in [DeleteParams::default(), DeleteParams::default().grace_period(0)] {
        let before = cluster.pods().get("web-node-1").await.expect("there").metadata.uid;
        cluster.pods().delete("web-node-1", &parameters).await.expect("deleted");
        cluster
            .pod_becomes("web-node-1", "a new mirror that shows the pod", |pod| {
                pod["metadata"]["uid"].as_str() != before.as_deref() && pod["status"]["phase"] == "Running"
            })
            .await;
    }
    let again = cluster.phase("web-node-1", "Running").await;
    assert_ne!(uid(&again), uid(&first));
    assert_eq!(cluster.runtime.container("a").expect("it runs").starts, 1);
    assert!(!cluster.runtime.calls().iter().any(|call| call.starts_with("stop_")));
    let debug = json!({"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox"}]}});
    let refused = cluster
        .pods()
        .patch_ephemeral_containers("web-node-1", &PatchParams::default(), &Patch::Strategic(&debug))
        .await
        .expect_err("refused");
    assert!(refused.to_string().contains("static pods do not support ephemeral containers"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_change_come_and_go_are_followed() {
    let files = Files::new();
    let cluster = files.cluster().await;
    files.pod("web", json!([container("a", &["run"])]));
    let first = cluster.phase("web-node-1", "Running").await;
    files.pod("web", json!([container("b", &["run"])]));
    let second = cluster
        .pod_becomes("web-node-1", "the new version", |pod| {
            pod["status"]["containerStatuses"][0]["name"] == "b" && pod["status"]["phase"] == "Running"
        })
        .await;
    assert_ne!(uid(&first), uid(&second));
    let calls = cluster.runtime.calls();
    let place = |wanted: &str| {
        calls.iter().position(|call| call == wanted).unwrap_or_else(|| panic!("{wanted}: {calls:?}"))
    };
    assert!(
        place("stop_container a 3") < place("create_container b"),
        "the old one has stopped before the new one starts"
    );
    files.write("web.yaml", "apiVersion: v1\nkind: Pod\nmeta");
    cluster.event("Warning InvalidStaticPod").await;
    files.pod("other", json!([container("c", &["run"])]));
    cluster.phase("other-node-1", "Running").await;
    assert_eq!(cluster.runtime.container("b").expect("it runs on").starts, 1);
    files.remove("web");
    files.remove("other");
    cluster.gone("web-node-1").await;
    cluster.gone("other-node-1").await;
    wait_until("nothing is left", || cluster.runtime.sandboxes().is_empty() && cluster.pod_dirs().is_empty())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_agent_adopts_its_static_pods_also_when_a_file_cannot_be_read() {
    let files = Files::new();
    files.pod("web", json!([container("a", &["run"])]));
    files.pod("db", json!([container("b", &["run"])]));
    let mut cluster = files.cluster().await;
    cluster.phase("web-node-1", "Running").await;
    cluster.phase("db-node-1", "Running").await;
    cluster.stop().await;
    files.write("web.yaml", "half: [");
    cluster.start();
    cluster.create_pod("probe", json!({"containers": [container("x", &["run"])]})).await;
    cluster.phase("probe", "Running").await;
    cluster.event("InvalidStaticPod").await;
    let starts =
        |name: &str| cluster.runtime.container(name).map(|container| (container.starts, container.state));
    let running = cri::v1::ContainerState::ContainerRunning;
    assert_eq!((starts("a"), starts("b")), (Some((1, running)), Some((1, running))));
    files.remove("web");
    cluster.gone("web-node-1").await;
    cluster.phase("db-node-1", "Running").await;
    cluster.stop().await;
    files.remove("db");
    cluster.start();
    cluster.gone("db-node-1").await;
    wait_until("only the probe is left", || cluster.runtime.sandboxes().len() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_the_api_cannot_pretend_to_come_from_a_file() {
    let files = Files::new();
    let cluster = files.cluster().await;
    let annotated = |name: &str, annotations: Value| -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations},
            "spec": {"nodeName": "node-1", "containers": [container(name, &["run"])]}}))
        .expect("a pod")
    };
    let pods: Api<Pod> = cluster.pods();
    let source = json!({"kubernetes.io/config.source": "file"});
    pods.create(&PostParams::default(), &annotated("pretender", source)).await.expect("created");
    cluster.phase("pretender", "Running").await;
    pods.delete("pretender", &DeleteParams::default().grace_period(1)).await.expect("deleted");
    cluster.gone("pretender").await;
    let mirror = json!({"kubernetes.io/config.mirror": "hash"});
    pods.create(&PostParams::default(), &annotated("forged", mirror)).await.expect("created");
    cluster.gone("forged").await;
    assert!(cluster.runtime.container("forged").is_none());
}

struct Standalone {
    dir: tempfile::TempDir,
    handle: KubeletHandle,
    shutdown: CancellationToken,
}

impl Standalone {
    fn start(files: &Files, runtime: &FakeRuntime) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut config = KubeletConfig::new("node-1", dir.path().join("kubelet"));
        config.resync = Duration::from_secs(2);
        files.configure(&mut config);
        let shutdown = CancellationToken::new();
        let (runtime, images) = runtime.clients();
        let handle = spawn_standalone_kubelet(config, runtime, images, shutdown.clone().cancelled_owned())
            .expect("it starts");
        Self { dir, handle, shutdown }
    }

    fn state(&self) -> String {
        let pods = self.dir.path().join("kubelet/pods");
        let states = std::fs::read_dir(pods).into_iter().flatten().flatten();
        states.filter_map(|entry| std::fs::read_to_string(entry.path().join("state.json")).ok()).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_agent_without_an_api_runs_the_pods_of_its_directory() {
    let (files, runtime) = (Files::new(), FakeRuntime::new());
    files.pod("web", json!([container("a", &["env"]), container("b", &["run"])]));
    let node = Standalone::start(&files, &runtime);
    wait_until("a was restarted", || {
        runtime.container("a").is_some_and(|container| container.attempt() >= 1)
    })
    .await;
    assert!(runtime.container("b").expect("it runs").env().is_empty(), "there are no services");
    files.remove("web");
    wait_until("nothing is left", || runtime.sandboxes().is_empty() && runtime.containers().is_empty()).await;
    node.shutdown.cancel();
    node.handle.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_api_references_to_objects_of_the_api_are_told_in_kubernetes_words() {
    let (files, runtime) = (Files::new(), FakeRuntime::new());
    let mut a = container("a", &["run"]);
    a["envFrom"] = json!([{"configMapRef": {"name": "c", "optional": true}}]);
    let mut b = container("b", &["run"]);
    b["env"] = json!([{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]);
    files.pod("web", json!([a, b]));
    let node = Standalone::start(&files, &runtime);
    for text in [
        "couldn't get configMap default/c, no kubeClient defined",
        "couldn't get secret default/s, no kubeClient defined",
    ] {
        wait_until(text, || node.state().contains(text)).await;
    }
    assert!(runtime.containers().is_empty());
    node.shutdown.cancel();
    node.handle.stopped().await;
}
