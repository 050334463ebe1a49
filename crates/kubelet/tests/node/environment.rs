//! What containers get, and what happens when they cannot get it.

use informer::{Informer, ObjectKey};
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::cluster::Cluster;
use super::fake_runtime::FakeRuntime;
use super::{container, container_with};

fn env_of(cluster: &Cluster, container: &str) -> Vec<String> {
    cluster.runtime.container(container).expect("it was created").env()
}

fn without_services(environment: Vec<String>) -> Vec<String> {
    environment.into_iter().filter(|one| !one.starts_with("KUBERNETES_")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_is_composed_in_order_from_all_sources() {
    let cluster = Cluster::new().await;
    cluster.create_config_map("c", json!({"b": "2", "a": "1"})).await;
    cluster.create_secret("s", json!({"password": "hunter2"})).await;
    cluster
        .create_pod(
            "p",
            json!({"containers": [container_with("a", &["run"], json!({
            "envFrom": [{"prefix": "C_", "configMapRef": {"name": "c"}}],
            "env": [
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
                {"name": "URL", "value": "db://$(PASSWORD)@$(IP)/$(C_a)"},
            ]}))]}),
        )
        .await;
    cluster.phase("p", "Running").await;
    let environment = env_of(&cluster, "a");
    assert!(
        environment[0].starts_with("KUBERNETES_SERVICE_HOST="),
        "service variables come first: {environment:?}"
    );
    assert_eq!(
        without_services(environment),
        ["C_a=1", "C_b=2", "IP=10.42.0.1", "PASSWORD=hunter2", "URL=db://hunter2@10.42.0.1/1"]
    );
}

fn service(name: &str, address: &str) -> Service {
    let service =
        json!({"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
    serde_json::from_value(service).expect("a service")
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_the_node_knows_are_not_read_again_at_each_start() {
    let known: Informer<Service> = Informer::idle();
    let cluster = Cluster::with(FakeRuntime::new(), |config| config.services = Some(known.clone())).await;
    let all: Api<Service> = Api::all(cluster.client.clone());
    tokio::spawn(known.clone().follow(all, "", CancellationToken::new()));
    let services: Api<Service> = Api::namespaced(cluster.client.clone(), "default");
    let mut web = services.create(&Default::default(), &service("web", "10.43.7.7")).await.expect("created");
    while known.get(&ObjectKey::new("default", "web")).is_none() {
        tokio::task::yield_now().await;
    }
    // What only the cache says shows where a start looks.
    let version = web.metadata.resource_version.as_ref().and_then(|version| version.parse::<u64>().ok());
    web.metadata.resource_version = version.map(|version| (version + 1).to_string());
    web.spec.as_mut().and_then(|spec| spec.ports.as_mut()).expect("ports")[0].port = 81;
    known.learn(web);
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    let asked = "/services".to_owned();
    cluster.failpoints.lock().expect("no panic while locked").push(asked.clone());
    let without = json!({"containers": [container("b", &["run"])], "enableServiceLinks": false});
    cluster.create_pod("q", without).await;
    cluster.phase("q", "Running").await;
    let has = |container: &str, variable: &str| env_of(&cluster, container).contains(&variable.to_owned());
    assert!(has("a", "WEB_SERVICE_HOST=10.43.7.7") && has("a", "WEB_SERVICE_PORT=81"));
    assert!(has("a", "KUBERNETES_SERVICE_HOST=10.43.0.1"));
    assert!(!has("b", "WEB_SERVICE_HOST=10.43.7.7") && has("b", "KUBERNETES_SERVICE_HOST=10.43.0.1"));
    let left = cluster.failpoints.lock().expect("no panic while locked").clone();
    assert_eq!(left, [asked], "without links nobody is asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_came_an_instant_before_a_pod_is_in_its_environment_however_late_the_watch_is() {
    let known: Informer<Service> = Informer::idle();
    let cluster = Cluster::with(FakeRuntime::new(), |config| config.services = Some(known.clone())).await;
    let all: Api<Service> = Api::all(cluster.client.clone());
    let ended = CancellationToken::new();
    let follow = tokio::spawn(known.clone().follow(all, "", ended.clone()));
    known.synced().await;
    ended.cancel();
    follow.await.expect("it ended");
    let services: Api<Service> = Api::namespaced(cluster.client.clone(), "default");
    services.create(&Default::default(), &service("late", "10.43.7.8")).await.expect("created");
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    assert!(known.get(&ObjectKey::new("default", "late")).is_none(), "the cache is late");
    assert!(env_of(&cluster, "a").contains(&"LATE_SERVICE_HOST=10.43.7.8".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_source_keeps_the_container_waiting_until_it_appears() {
    let cluster = Cluster::new().await;
    let env = json!({"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "k"}}}]});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], env)]})).await;
    let message = cluster.waiting("p", "CreateContainerConfigError").await;
    assert_eq!(message, "configmap \"late\" not found");
    cluster.event("Warning Failed spec.containers{a}: Error: configmap \"late\" not found").await;
    cluster.create_config_map("late", json!({"k": "v"})).await;
    let pod = cluster.phase("p", "Running").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!(without_services(env_of(&cluster, "a")), ["X=v"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_that_is_too_large_is_named_before_anything_is_created() {
    let cluster = Cluster::new().await;
    cluster.create_config_map("big", json!({"k": "x".repeat(140_000)})).await;
    let env =
        json!({"env": [{"name": "BIG", "valueFrom": {"configMapKeyRef": {"name": "big", "key": "k"}}}]});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], env)]})).await;
    let message = cluster.waiting("p", "EnvTooLarge").await;
    assert!(message.contains("BIG") && !message.contains("xxx"), "{message}");
    cluster.event("Warning EnvTooLarge spec.containers{a}").await;
    assert!(cluster.runtime.containers().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn unresolved_references_are_told_once_a_start() {
    let cluster = Cluster::new().await;
    let env = json!({"env": [{"name": "A", "value": "$(NOPE) and $(NOPE2)"}]});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], env)]})).await;
    cluster.phase("p", "Running").await;
    let event = cluster.event("Warning UnresolvedReference spec.containers{a}").await;
    assert!(event.contains("NOPE") && event.contains("NOPE2"), "{event}");
    assert_eq!(without_services(env_of(&cluster, "a")), ["A=$(NOPE) and $(NOPE2)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_references_keep_the_container_from_starting() {
    let cluster = Cluster::with(FakeRuntime::new(), |config| config.strict_references = true).await;
    let env = json!({"env": [{"name": "A", "value": "$(NOPE)"}]});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], env)]})).await;
    let message = cluster.waiting("p", "CreateContainerConfigError").await;
    assert!(message.contains("NOPE"), "{message}");
}

fn file_ref(key: &str, optional: bool) -> Value {
    json!({"name": "X", "valueFrom": {"fileKeyRef": {
        "volumeName": "v", "path": "config.env", "key": key, "optional": optional}}})
}

/// A pod whose init container writes `content` and whose container reads the key `K` of it.
fn env_file_pod(content: &str, key: &str, optional: bool, fields: Value) -> Value {
    let mut consumer = container("a", &["run"]);
    consumer["env"] = json!([file_ref(key, optional)]);
    if let (Value::Object(consumer), Value::Object(fields)) = (&mut consumer, fields) {
        consumer.extend(fields);
    }
    json!({
        "volumes": [{"name": "v", "emptyDir": {}}],
        "initContainers": [container_with("i", &["write", "/v/config.env", content],
            json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}))],
        "containers": [consumer],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_env_file_that_an_init_container_wrote_becomes_variables() {
    let cluster = Cluster::new().await;
    cluster.create_pod("p", env_file_pod("CONFIG_VAR=HELLO\n", "CONFIG_VAR", false, json!({}))).await;
    cluster.phase("p", "Running").await;
    assert_eq!(without_services(env_of(&cluster, "a")), ["X=HELLO"]);
    let mounts = cluster.runtime.container("a").expect("it runs").config.mounts;
    assert!(!mounts.iter().any(|mount| mount.container_path == "/v"), "the volume is not mounted there");
}

/// Scenarios 3, 5, 6 and 7 of the document: the container does not start, an event says why, and never what the file holds.
#[tokio::test(flavor = "multi_thread")]
async fn an_env_file_that_cannot_be_used_is_told_without_its_content() {
    let rows = [
        ("no-key", "OTHER=secretvalue\n", json!({}), "environment variable key"),
        ("unparsable", "just secretvalue\n", json!({}), "couldn't parse env file"),
        ("bad-name", "BAD\u{7}NAME=secretvalue\nK=1\n", json!({}), "couldn't parse env file"),
    ];
    for (name, content, fields, expected) in rows {
        let cluster = Cluster::new().await;
        cluster.create_pod(name, env_file_pod(content, "K", false, fields)).await;
        let message = cluster.waiting(name, "CreateContainerConfigError").await;
        assert!(message.contains(expected), "{name}: {message}");
        let event = cluster.event("Warning Failed spec.containers{a}: Error: ").await;
        for text in [&message, &event] {
            assert!(!text.contains("secretvalue"), "{name}: {text}");
            assert!(!text.contains(cluster.dir.path().to_str().expect("text")), "{name}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_env_file_is_an_error_unless_it_is_optional() {
    let cluster = Cluster::new().await;
    let pod = |optional: bool| {
        let mut consumer = container("a", &["run"]);
        consumer["env"] = json!([file_ref("K", optional)]);
        json!({"volumes": [{"name": "v", "emptyDir": {}}], "containers": [consumer]})
    };
    cluster.create_pod("required", pod(false)).await;
    let message = cluster.waiting("required", "CreateContainerConfigError").await;
    assert!(message.contains("config.env"), "{message}");
    cluster.create_pod("optional", pod(true)).await;
    cluster.phase("optional", "Running").await;
    assert!(without_services(env_of(&cluster, "a")).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_env_file_that_the_containers_user_may_not_read_is_not_read() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "reading as another user needs root");
        eprintln!("skipped: reading as another user needs root");
        return;
    }
    let cluster = Cluster::new().await;
    let fields = json!({"securityContext": {"runAsUser": 1000}});
    cluster.create_pod("p", env_file_pod("K=1\n", "K", false, fields)).await;
    cluster.phase("p", "Running").await;
    // The next start finds a file that only root may read.
    let path =
        cluster.dir.path().join("kubelet/pods").join(&cluster.pod_dirs()[0]).join("volumes/v/config.env");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("closed");
    cluster.runtime.end("a", 1);
    let message = cluster.waiting("p", "CreateContainerConfigError").await;
    assert!(message.contains("the container's user 1000 may not read it"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_env_file_is_read_again_at_each_restart_and_only_then() {
    let cluster = Cluster::new().await;
    cluster.create_pod("p", env_file_pod("K=first\n", "K", false, json!({}))).await;
    cluster.phase("p", "Running").await;
    let path =
        cluster.dir.path().join("kubelet/pods").join(&cluster.pod_dirs()[0]).join("volumes/v/config.env");
    std::fs::write(&path, "K=second\n").expect("written");
    assert_eq!(without_services(env_of(&cluster, "a")), ["X=first"]);
    cluster.runtime.end("a", 1);
    cluster
        .pod_becomes("p", "restarted", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == 1 && status["ready"] == true
        })
        .await;
    assert_eq!(without_services(env_of(&cluster, "a")), ["X=second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_gate_off_a_restart_skips_the_variable_and_says_so() {
    let mut cluster = Cluster::new().await;
    cluster.create_pod("p", env_file_pod("K=1\n", "K", false, json!({}))).await;
    cluster.phase("p", "Running").await;
    cluster.stop().await;
    cluster.set(|config| config.feature_gates.env_files = false);
    cluster.start();
    cluster.runtime.end("a", 1);
    cluster
        .pod_becomes("p", "restarted", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == 1 && status["ready"] == true
        })
        .await;
    assert!(without_services(env_of(&cluster, "a")).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn init_containers_and_sidecars_read_env_files_too() {
    let cluster = Cluster::new().await;
    let mounted = json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]});
    cluster
        .create_pod(
            "p",
            json!({
                "volumes": [{"name": "v", "emptyDir": {}}],
                "initContainers": [
                    container_with("writer", &["write", "/v/config.env", "K=1\n"], mounted),
                    container_with("init", &["exit", "0"], json!({"env": [file_ref("K", false)]})),
                    container_with("side", &["run"], json!({"restartPolicy": "Always", "env": [file_ref("K", false)]})),
                ],
                "containers": [container("a", &["run"])],
            }),
        )
        .await;
    cluster.phase("p", "Running").await;
    assert_eq!(without_services(env_of(&cluster, "init")), ["X=1"]);
    assert_eq!(without_services(env_of(&cluster, "side")), ["X=1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_config_maps_and_secrets_follow_their_objects() {
    let cluster = Cluster::new().await;
    cluster.create_config_map("c", json!({"k": "one"})).await;
    cluster.create_secret("s", json!({"token": "t"})).await;
    cluster
        .create_pod(
            "p",
            json!({
                "volumes": [
                    {"name": "c", "configMap": {"name": "c"}},
                    {"name": "s", "secret": {"secretName": "s", "defaultMode": 256}},
                    {"name": "d", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
                ],
                "containers": [container_with("a", &["run"], json!({"volumeMounts": [
                    {"name": "c", "mountPath": "/c"}, {"name": "s", "mountPath": "/s"}, {"name": "d", "mountPath": "/d"}]}))],
            }),
        )
        .await;
    cluster.phase("p", "Running").await;
    let mounts = cluster.runtime.container("a").expect("it runs").config.mounts;
    let read = |path: &str, file: &str| {
        let mount = mounts.iter().find(|mount| mount.container_path == path).expect("mounted");
        assert!(mount.readonly, "{path}");
        std::fs::read_to_string(std::path::Path::new(&mount.host_path).join(file)).expect("readable")
    };
    assert_eq!(
        (read("/c", "k"), read("/s", "token"), read("/d", "name")),
        ("one".into(), "t".into(), "p".into())
    );
    let config_maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(cluster.client.clone(), "default");
    let patch = kube::api::Patch::Merge(json!({"data": {"k": "two"}}));
    config_maps.patch("c", &kube::api::PatchParams::default(), &patch).await.expect("patched");
    let updated = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        while read("/c", "k") != "two" {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    updated.await.expect("the volume follows");
}

/// Asks the API whom a token names.
async fn review(cluster: &Cluster, token: &str) -> serde_json::Value {
    let review =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let request = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&review).expect("JSON"))
        .expect("a request");
    cluster.client.request::<serde_json::Value>(request).await.expect("an answer")["status"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_finds_a_token_of_its_account_that_is_bound_to_the_pod_and_asked_for_once() {
    let cluster = Cluster::new().await;
    cluster.create_config_map("c", json!({"k": "one"})).await;
    let spec = json!({
        "automountServiceAccountToken": true,
        "securityContext": {"fsGroup": 1234},
        "volumes": [{"name": "c", "configMap": {"name": "c"}},
            {"name": "vault", "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault", "expirationSeconds": 600}}]}}],
        "containers": [container_with("a", &["run"], json!({"volumeMounts": [
            {"name": "c", "mountPath": "/c"}, {"name": "vault", "mountPath": "/vault"}]}))],
    });
    cluster.create_pod("p", spec).await;
    cluster.phase("p", "Running").await;
    let mounts = cluster.runtime.container("a").expect("it runs").config.mounts;
    let path = |at: &str, file: &str| {
        let mount = mounts.iter().find(|mount| mount.container_path == at).expect("mounted");
        std::path::Path::new(&mount.host_path).join(file)
    };
    let read = |at: &str, file: &str| std::fs::read_to_string(path(at, file)).expect("readable");
    const OWN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
    assert_eq!((read(OWN, "namespace"), read(OWN, "ca.crt")), ("default".into(), "the authority".into()));
    let token = read(OWN, "token");
    let status = review(&cluster, &token).await;
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:default", "{status}");
    assert_eq!(status["user"]["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));
    assert!(review(&cluster, &read("/vault", "t")).await["authenticated"] != true, "meant for somebody else");
    if rustix::process::geteuid().is_root() {
        use std::os::unix::fs::MetadataExt as _;
        let about = std::fs::metadata(path(OWN, "token")).expect("there");
        assert_eq!((about.mode() & 0o777, about.gid()), (0o640, 1234));
    }
    let config_maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(cluster.client.clone(), "default");
    let patch = kube::api::Patch::Merge(json!({"data": {"k": "two"}}));
    config_maps.patch("c", &kube::api::PatchParams::default(), &patch).await.expect("patched");
    let updated = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        while read("/c", "k") != "two" {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    updated.await.expect("the volume follows");
    assert_eq!(read(OWN, "token"), token, "the same token as long as it need not be renewed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_whose_token_cannot_be_had_waits_and_says_so() {
    let cluster = Cluster::new().await;
    let accounts: kube::Api<k8s_openapi::api::core::v1::ServiceAccount> =
        kube::Api::namespaced(cluster.client.clone(), "default");
    let account =
        |name: &str| serde_json::from_value(json!({"metadata": {"name": name}})).expect("a service account");
    accounts.create(&kube::api::PostParams::default(), &account("bot")).await.expect("created");
    let spec = json!({"automountServiceAccountToken": true, "serviceAccountName": "bot",
        "schedulingGates": [{"name": "example.com/wait"}], "containers": [container("a", &["run"])]});
    cluster.create_pod("p", spec).await;
    accounts.delete("bot", &kube::api::DeleteParams::default()).await.expect("deleted");
    let pods: kube::Api<k8s_openapi::api::core::v1::Pod> =
        kube::Api::namespaced(cluster.client.clone(), "default");
    let open = kube::api::Patch::Merge(json!({"spec": {"schedulingGates": null}}));
    pods.patch("p", &kube::api::PatchParams::default(), &open).await.expect("patched");
    cluster.event("token of service account \"bot\" could not be read").await;
    accounts.create(&kube::api::PostParams::default(), &account("bot")).await.expect("created");
    cluster.phase("p", "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_cannot_be_made_is_told_and_heals() {
    let cluster = Cluster::new().await;
    let spec = json!({"volumes": [{"name": "v", "configMap": {"name": "late"}}], "containers": [container("a", &["run"])]});
    cluster.create_pod("p", spec).await;
    cluster
        .event(
            "Warning FailedMount : MountVolume.SetUp failed for volume \"v\" : configmap \"late\" not found",
        )
        .await;
    cluster.create_config_map("late", json!({"k": "v"})).await;
    cluster.phase("p", "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_path_expressions_are_expanded_and_refused_in_kubernetes_words() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "bind mounts need root");
        eprintln!("skipped: bind mounts need root");
        return;
    }
    let cluster = Cluster::new().await;
    let pod = |value: &str| {
        json!({
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [container_with("a", &["run"], json!({
                "env": [{"name": "DIR", "value": value}],
                "volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": "logs-$(DIR)"}]}))],
        })
    };
    cluster.create_pod("good", pod("today")).await;
    cluster.phase("good", "Running").await;
    let mounts = cluster.runtime.container("a").expect("it runs").config.mounts;
    let mount = mounts.iter().find(|mount| mount.container_path == "/v").expect("mounted");
    std::fs::write(std::path::Path::new(&mount.host_path).join("x"), "1").expect("written");
    let volume = cluster.dir.path().join("kubelet/pods").join(&cluster.pod_dirs()[0]).join("volumes/v");
    assert!(volume.join("logs-today/x").exists());

    cluster.create_pod("empty", pod("")).await;
    assert_eq!(cluster.waiting("empty", "CreateContainerConfigError").await, "missing value for DIR");
    cluster.create_pod("backsteps", pod("x/../../..")).await;
    let message = cluster.waiting("backsteps", "CreateContainerConfigError").await;
    assert_eq!(message, "unable to provision SubPath `logs-x/../../..`: must not contain '..'");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_must_not_be_root_is_not_started_as_root() {
    let cluster = Cluster::new().await;
    let context = json!({"securityContext": {"runAsNonRoot": true}});
    let pod = cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], context)]})).await;
    let message = cluster.waiting("p", "CreateContainerConfigError").await;
    let uid = pod.metadata.uid.expect("a uid");
    assert_eq!(
        message,
        format!(
            "container has runAsNonRoot and image will run as root (pod: \"p_default({uid})\", container: a)"
        )
    );
}
