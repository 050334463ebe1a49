//! Probes: when they begin, when a result counts, and what servers of every kind of temper make of them.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::cluster::Cluster;
use super::{container, container_with};

fn ready(pod: &Value) -> bool {
    pod["status"]["containerStatuses"][0]["ready"] == true
}

fn attempts(cluster: &Cluster) -> usize {
    cluster.runtime.calls().iter().filter(|call| call.starts_with("exec_sync check")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn thresholds_and_periods_decide_when_a_result_counts() {
    let cluster = Cluster::new().await;
    cluster.runtime.answer_exec("check", 0);
    let probe = json!({"readinessProbe": {"exec": {"command": ["check"]}, "periodSeconds": 1,
        "successThreshold": 2, "failureThreshold": 3}});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], probe)]})).await;
    cluster.pod_becomes("p", "ready", ready).await;
    assert!(attempts(&cluster) >= 2, "one success is not enough");
    cluster.runtime.answer_exec("check", 1);
    let (before, began) = (attempts(&cluster), Instant::now());
    cluster.pod_becomes("p", "unready", |pod| !ready(pod)).await;
    assert!(attempts(&cluster) >= before + 3, "two failures are not enough");
    assert!(began.elapsed() >= Duration::from_millis(1900), "three attempts are two periods apart");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_initial_delay_comes_before_the_first_attempt() {
    let cluster = Cluster::new().await;
    cluster.runtime.answer_exec("check", 0);
    let probe = json!({"readinessProbe": {"exec": {"command": ["check"]}, "periodSeconds": 1, "initialDelaySeconds": 2}});
    let began = Instant::now();
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], probe)]})).await;
    cluster.pod_becomes("p", "ready", ready).await;
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn liveness_waits_for_the_startup_probe() {
    let cluster = Cluster::new().await;
    cluster.runtime.answer_exec("start", 1);
    cluster.runtime.answer_exec("check", 1);
    let probes = json!({
        "startupProbe": {"exec": {"command": ["start"]}, "periodSeconds": 1, "failureThreshold": 100},
        "livenessProbe": {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1},
    });
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], probes)]})).await;
    cluster.event("Startup probe failed").await;
    assert_eq!(attempts(&cluster), 0);
    cluster.runtime.answer_exec("start", 0);
    cluster.event("Container a failed liveness probe, will be restarted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_startup_probe_that_never_succeeds_restarts_its_container() {
    let cluster = Cluster::new().await;
    cluster.runtime.answer_exec("start", 1);
    let probe =
        json!({"startupProbe": {"exec": {"command": ["start"]}, "periodSeconds": 1, "failureThreshold": 2}});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], probe)]})).await;
    cluster.event("Container a failed startup probe, will be restarted").await;
    cluster
        .pod_becomes("p", "restarted", |pod| pod["status"]["containerStatuses"][0]["restartCount"] == 1)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_to_another_host_is_a_success_with_a_warning() {
    let cluster = Cluster::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 1024];
            let _ = stream.read(&mut head).await;
            let answer =
                "HTTP/1.1 302 Found\r\nLocation: http://elsewhere.invalid/\r\ncontent-length: 5\r\n\r\nmoved";
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let probe = json!({"readinessProbe": {"httpGet": {"port": port}, "periodSeconds": 1}});
    let spec = json!({"hostNetwork": true, "containers": [container_with("a", &["run"], probe)]});
    cluster.create_pod("p", spec).await;
    cluster.pod_becomes("p", "ready", ready).await;
    let warning = "Readiness probe warning: Probe terminated redirects, Response body: moved";
    cluster.event(&format!("Warning ProbeWarning spec.containers{{a}}: {warning}")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_cannot_be_run_changes_nothing_and_is_told() {
    let cluster = Cluster::new().await;
    let probe = json!({"livenessProbe": {"tcpSocket": {"port": "nowhere"}, "periodSeconds": 1, "failureThreshold": 1}});
    cluster.create_pod("p", json!({"containers": [container_with("a", &["run"], probe)]})).await;
    let message = "Liveness probe errored and resulted in unknown state: strconv.Atoi: parsing \"nowhere\": invalid syntax";
    cluster.event(&format!("Warning Unhealthy spec.containers{{a}}: {message}")).await;
    let pod = cluster.phase("p", "Running").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
}

/// A health service: what it answers follows from the name of the service that is asked about.
async fn health_service() -> u16 {
    type Answer = http::Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>;

    async fn answer(request: http::Request<hyper::body::Incoming>) -> Result<Answer, Infallible> {
        let path = request.uri().path().to_owned();
        let agent = request.headers().get("user-agent").map(|agent| agent.to_str().unwrap_or("").to_owned());
        let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        // Five bytes of frame, a field of text, its length, and the name itself.
        let name = String::from_utf8_lossy(body.get(7..).unwrap_or_default()).into_owned();
        let (status, health) = match (path.as_str(), name.as_str()) {
            ("/grpc.health.v1.Health/Check", "" | "good") => ("0", Some(1_u8)),
            ("/grpc.health.v1.Health/Check", "bad") => ("0", Some(2)),
            ("/grpc.health.v1.Health/Check", "slow") => {
                tokio::time::sleep(Duration::from_secs(60)).await;
                ("0", Some(1))
            }
            ("/grpc.health.v1.Health/Check", "lost") => ("5", None),
            _ => ("12", None),
        };
        assert!(agent.is_some_and(|agent| agent.starts_with("kube-probe/")));
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", http::HeaderValue::from_static(status));
        trailers.insert("grpc-message", http::HeaderValue::from_static("no such service"));
        let message = health.map(|health| vec![0, 0, 0, 0, 2, 8, health]).unwrap_or_default();
        let body = Full::new(Bytes::from(message)).with_trailers(async move { Some(Ok(trailers)) }).boxed();
        let response = http::Response::builder().header("content-type", "application/grpc").body(body);
        Ok(response.expect("a response"))
    }

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = hyper::service::service_fn(answer);
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(connection);
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_probes_ask_the_health_service() {
    let cluster = Cluster::new().await;
    let port = health_service().await;
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        listener.local_addr().expect("an address").port()
    };
    let probe = |port: u16, service: &str| json!({"readinessProbe": {"grpc": {"port": port, "service": service}, "periodSeconds": 1}});
    let containers: Vec<Value> = ["good", "bad", "slow", "lost", "other"]
        .map(|service| container_with(service, &["run"], probe(port, service)))
        .into_iter()
        .chain([container_with("closed", &["run"], probe(closed, "")), container("plain", &["run"])])
        .collect();
    cluster.create_pod("p", json!({"hostNetwork": true, "containers": containers})).await;
    cluster.pod_becomes("p", "ready where it is well", ready).await;
    let failures = [
        ("bad", "service unhealthy (responded with \"NOT_SERVING\")".to_owned()),
        ("slow", "timeout: health rpc did not complete within 1s".to_owned()),
        ("lost", "error: health rpc probe failed: rpc error: code = NotFound desc = no such service".to_owned()),
        (
            "closed",
            format!(
                "timeout: failed to connect service \"127.0.0.1:{closed}\" within 1s: dial tcp 127.0.0.1:{closed}: connect: connection refused"
            ),
        ),
        (
            "other",
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): no such service"
                .to_owned(),
        ),
    ];
    for (container, message) in failures {
        let event =
            format!("Warning Unhealthy spec.containers{{{container}}}: Readiness probe failed: {message}");
        cluster.event(&event).await;
    }
    let pod = cluster.phase("p", "Running").await;
    let states: Vec<(&str, bool)> = pod["status"]["containerStatuses"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|status| (status["name"].as_str().expect("a name"), status["ready"] == true))
        .collect();
    let expected = [
        ("good", true),
        ("bad", false),
        ("slow", false),
        ("lost", false),
        ("other", false),
        ("closed", false),
        ("plain", true),
    ];
    assert_eq!(states, expected);
}
