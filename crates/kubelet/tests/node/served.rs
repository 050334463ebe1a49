//! What the kubelet's HTTP interface serves.

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::{container, container_with};

#[tokio::test(flavor = "multi_thread")]
async fn health_and_pods_are_served_and_what_is_not_there_is_not_found() {
    let cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    assert_eq!(cluster.http("/healthz").await, (200, "ok".to_owned()));
    let (code, body) = cluster.http("/pods").await;
    let list: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((code, list["items"][0]["metadata"]["name"].as_str()), (200, Some("p")));
    for path in [
        "/nope",
        "/containerLogs/default/absent/a",
        "/containerLogs/default/p/nope",
        "/environment/default/absent",
    ] {
        assert_eq!(cluster.http(path).await.0, 404, "{path}");
    }
    assert_eq!(cluster.http("/containerLogs/default/p/a?tailLines=x").await.0, 400);
    assert_eq!(cluster.http("/containerLogs/default/p/a?previous=true").await.0, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_followed_until_the_container_ends_and_the_previous_one_stays_readable() {
    let cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    let ended = async {
        cluster.runtime.end("a", 1);
    };
    let (answer, ()) = tokio::join!(cluster.http("/containerLogs/default/p/a?follow=true"), ended);
    assert_eq!(answer, (200, "started 0\n".to_owned()));
    cluster
        .pod_becomes("p", "restarted", |pod| {
            let status = &pod["status"]["containerStatuses"][0];
            status["restartCount"] == 1 && status["ready"] == true
        })
        .await;
    assert_eq!(cluster.http("/containerLogs/default/p/a").await.1, "started 1\n");
    assert_eq!(cluster.http("/containerLogs/default/p/a?previous=true").await.1, "started 0\n");
    let (_, stamped) = cluster.http("/containerLogs/default/p/a?timestamps=true&limitBytes=10").await;
    assert_eq!(stamped, "2026-11-21");
}

fn variable<'a>(record: &'a Value, name: &str) -> &'a Value {
    record["pods"][0]["containers"][0]["environment"]
        .as_array()
        .expect("an environment")
        .iter()
        .find(|variable| variable["name"] == name)
        .expect("the variable")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_record_tells_what_the_process_got_and_hides_secrets_and_marks_what_is_stale() {
    let cluster = Cluster::new().await;
    cluster.create_config_map("c", json!({"k": "one"})).await;
    cluster.create_secret("s", json!({"k": "hunter2"})).await;
    let env = json!({"env": [
        {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "URL", "value": "db://$(S)@$(C)"},
    ]});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], env)]})).await;
    cluster.phase("p", "Running").await;
    let record = async |path: &str| -> Value {
        let (code, body) = cluster.http(path).await;
        assert_eq!(code, 200, "{body}");
        serde_json::from_str(&body).expect("JSON")
    };
    let masked = record("/environment/default/p").await;
    assert!(!masked.to_string().contains("hunter2"));
    assert_eq!(variable(&masked, "URL")["display"], "db://****@one");
    assert_eq!(variable(&masked, "S")["state"], "masked");
    let names: Vec<&str> = masked["pods"][0]["containers"][0]["environment"]
        .as_array()
        .expect("an environment")
        .iter()
        .filter_map(|variable| variable["name"].as_str())
        .filter(|name| !name.starts_with("KUBERNETES_"))
        .collect();
    assert_eq!(names, ["PATH", "HOSTNAME", "C", "S", "URL", "HOME"], "as the process sees them");
    assert_eq!(variable(&masked, "HOME")["value"], "/root", "what the runtime really gave");
    assert_eq!(variable(&masked, "C")["stale"], Value::Null);

    let shown = record("/environment/default/p?container=a&showSecrets=true").await;
    assert_eq!(variable(&shown, "URL")["value"], "db://hunter2@one");

    let config_maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(cluster.client.clone(), "default");
    let patch = kube::api::Patch::Merge(json!({"data": {"k": "two"}}));
    config_maps.patch("c", &kube::api::PatchParams::default(), &patch).await.expect("patched");
    let stale = record("/environment/default/p").await;
    assert_eq!(variable(&stale, "C")["stale"], true);
    assert_eq!(variable(&stale, "S")["stale"], Value::Null);
    let kept = cluster
        .dir
        .path()
        .join("kubelet/pods")
        .join(&cluster.pod_dirs()[0])
        .join("containers/a/environment.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(kept).expect("kept").permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn exec_is_relayed_to_the_stream_of_the_runtime() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let cluster = Cluster::new().await;
    cluster.create_pod("p", json!({"containers": [container("a", &["run"])]})).await;
    cluster.phase("p", "Running").await;
    let mut stream = cluster.connect();
    let request = "POST /exec/default/p/a?command=echo&command=a%20b&stdin=true&stdout=true HTTP/1.1\r\n\
                   host: node\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("asked");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream.write_all(b"through and back").await.expect("sent");
    let mut echoed = [0; 16];
    stream.read_exact(&mut echoed).await.expect("echoed");
    assert_eq!(&echoed, b"through and back");
    assert!(cluster.runtime.calls().contains(&"exec echo a b".to_owned()));
    assert_eq!(cluster.http("/exec/default/p/a?command=x").await.0, 400, "nothing to connect");
    assert_eq!(cluster.http("/exec/default/p/nope?command=x&stdout=true").await.0, 404);
}
