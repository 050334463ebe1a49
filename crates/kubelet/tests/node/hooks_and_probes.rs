//! Hooks and probes as Kubernetes has them.

use kube::api::DeleteParams;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::cluster::Cluster;
use super::{container, container_with};

fn ready(pod: &serde_json::Value) -> bool {
    pod["status"]["containerStatuses"][0]["ready"] == true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_ready_while_its_readiness_probe_succeeds() {
    let cluster = Cluster::new().await;
    cluster.runtime.answer_exec("check", 1);
    let probe = json!({"readinessProbe": {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1}});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], probe)]})).await;
    cluster.event("Warning Unhealthy spec.containers{a}: Readiness probe failed: out err").await;
    let pod = cluster.phase("p", "Running").await;
    assert!(!ready(&pod));
    cluster.runtime.answer_exec("check", 0);
    cluster.pod_becomes("p", "ready", ready).await;
    cluster.runtime.answer_exec("check", 1);
    cluster.pod_becomes("p", "unready", |pod| !ready(pod)).await;
    assert_eq!(cluster.runtime.container("a").expect("it runs").starts, 1, "readiness never restarts");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_liveness_probe_restarts_its_container() {
    let cluster = Cluster::new().await;
    cluster.runtime.answer_exec("check", 1);
    let probe =
        json!({"livenessProbe": {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1}});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], probe)]})).await;
    cluster
        .event("Normal Killing spec.containers{a}: Container a failed liveness probe, will be restarted")
        .await;
    cluster.runtime.answer_exec("check", 0);
    cluster
        .pod_becomes("p", "restarted", |pod| pod["status"]["containerStatuses"][0]["restartCount"] == 1)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_container_waits_for_a_sidecars_startup_probe() {
    let cluster = Cluster::new().await;
    cluster.runtime.answer_exec("check", 1);
    let probe = json!({"restartPolicy": "Always",
        "startupProbe": {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 100}});
    let spec = json!({"initContainers": [container_with("side", &["run"], probe)], "containers": [container("a", &["run"])]});
    cluster.create_pod("p", spec).await;
    cluster.event("Startup probe failed").await;
    assert!(cluster.runtime.container("a").is_none());
    cluster.runtime.answer_exec("check", 0);
    cluster.phase("p", "Running").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_and_tcp_probes_reach_the_pod() {
    let cluster = Cluster::new().await;
    let (port, requests) = serve("HTTP/1.1 204 No Content\r\n\r\n").await;
    let probes = json!({
        "ports": [{"name": "web", "containerPort": port}],
        "startupProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
        "readinessProbe": {"httpGet": {"path": "/ready?x=1", "port": "web", "httpHeaders": [{"name": "X-A", "value": "b"}]},
            "periodSeconds": 1},
    });
    let spec = json!({"hostNetwork": true, "containers": [container_with("a", &["run"], probes)]});
    cluster.create_pod("p", spec).await;
    cluster.pod_becomes("p", "ready", ready).await;
    let requests = requests.lock().expect("not poisoned").join("");
    assert!(requests.contains("GET /ready?x=1 HTTP/1.1"), "{requests}");
    assert!(requests.contains("X-A: b") && requests.contains("kube-probe/"), "{requests}");
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_run_after_the_start_and_before_the_stop() {
    let cluster = Cluster::new().await;
    let (port, requests) = serve("HTTP/1.1 500 Broken\r\ncontent-length: 0\r\n\r\n").await;
    let hooks = json!({"lifecycle": {
        "postStart": {"exec": {"command": ["hello", "$(NOT_EXPANDED)"]}},
        "preStop": {"httpGet": {"path": "/bye", "port": port}},
    }});
    let spec = json!({"hostNetwork": true, "terminationGracePeriodSeconds": 20,
        "containers": [container_with("a", &["run"], hooks)]});
    cluster.create_pod("p", spec).await;
    cluster.phase("p", "Running").await;
    let calls = cluster.runtime.calls();
    let place = |text: &str| calls.iter().position(|call| call.starts_with(text)).expect("called");
    assert!(place("start_container") < place("exec_sync hello $(NOT_EXPANDED)"));
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("deleted");
    cluster.gone("p").await;
    let requests = requests.lock().expect("not poisoned").join("");
    assert!(requests.contains("GET /bye") && requests.contains("kube-lifecycle/"), "{requests}");
    let events = cluster.event_texts().await;
    assert!(
        !events.iter().any(|event| event.contains("FailedPreStopHook")),
        "any answer is a success: {events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_post_start_hook_stops_the_container_and_its_reason_is_shown() {
    let cluster = Cluster::new().await;
    cluster.runtime.answer_exec("hello", 3);
    let hooks = json!({"lifecycle": {"postStart": {"exec": {"command": ["hello"]}}}});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], hooks)]})).await;
    cluster.event("Warning FailedPostStartHook spec.containers{a}: PostStartHook failed").await;
    cluster.event("Normal Killing spec.containers{a}: FailedPostStartHook").await;
    let message = cluster.waiting("p", "PostStartHookError").await;
    assert!(
        message.starts_with("Exec lifecycle hook ([hello]) for Container \"a\" in Pod \"p_default("),
        "{message}"
    );
    assert!(
        message.ends_with("failed - error: command 'hello' exited with 3: err, message: \"out err\""),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pre_stop_sleep_is_part_of_the_grace() {
    let cluster = Cluster::new().await;
    let hooks = json!({"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}});
    let spec =
        json!({"terminationGracePeriodSeconds": 10, "containers": [container_with("a", &["run"], hooks)]});
    cluster.create_pod("p", spec).await;
    cluster.phase("p", "Running").await;
    let began = std::time::Instant::now();
    cluster.pods().delete("p", &DeleteParams::default()).await.expect("deleted");
    cluster.gone("p").await;
    assert!(began.elapsed().as_millis() >= 1000);
    assert!(
        cluster.runtime.calls().contains(&"stop_container a 9".to_owned()),
        "{:?}",
        cluster.runtime.calls()
    );
}

/// A server that gives every request the same answer and keeps what it was asked.
pub(crate) async fn serve(answer: &'static str) -> (u16, std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = listener.local_addr().expect("an address").port();
    let requests = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = requests.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => break,
                }
            }
            kept.lock().expect("not poisoned").push(String::from_utf8_lossy(&head).into_owned());
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (port, requests)
}
