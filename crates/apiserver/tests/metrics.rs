//! `/metrics`: what was asked and answered, by labels that no client can choose.

mod support;

use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::json;
use support::{Running, config_map, request};

async fn metrics(running: &Running) -> String {
    let answer = running.send(request("GET", "/metrics", &[], b"")).await;
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let body: Bytes = answer.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

fn lines<'t>(text: &'t str, start: &str) -> Vec<&'t str> {
    text.lines().filter(|line| line.starts_with(start)).collect()
}

#[tokio::test]
async fn requests_are_counted_by_what_they_ask_and_the_code_of_the_answer() {
    let mut running = Running::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for _ in 0..3 {
        running.post(maps, &config_map("same")).await;
    }
    running.get(maps).await;
    running.get(&format!("{maps}/missing")).await;
    let text = metrics(&running).await;
    let own: Vec<&str> = lines(&text, "apiserver_request_total{")
        .into_iter()
        .filter(|line| line.contains("configmaps"))
        .collect();
    let line = |code: &str, scope: &str, verb: &str, count: u32| {
        format!(
            "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"configmaps\",scope=\"{scope}\",subresource=\"\",verb=\"{verb}\",version=\"v1\"}} {count}"
        )
    };
    assert_eq!(
        own,
        [
            line("200", "namespace", "LIST", 1),
            line("201", "resource", "POST", 1),
            line("404", "resource", "GET", 1),
            line("409", "resource", "POST", 2),
        ]
    );
    assert!(text.contains("apiserver_resource_objects{group=\"\",resource=\"namespaces\"} 4\n"), "{text}");
    assert!(text.contains("kubernetes_feature_enabled{name=\"EnvFiles\",stage=\"BETA\"} 1\n"));
    assert!(text.contains(
        "kubernetes_feature_enabled{name=\"RelaxedEnvironmentVariableValidation\",stage=\"\"} 1\n"
    ));
    assert!(!lines(&text, "process_resident_memory_bytes ").is_empty());
    running.stop().await;
}

#[tokio::test]
async fn no_path_that_a_client_makes_up_becomes_a_label() {
    let mut running = Running::start().await;
    for number in 0..50 {
        running.get(&format!("/apis/made.up{number}/v1/things")).await;
        running.get(&format!("/api/v1/namespaces/default/pods/p/invented{number}")).await;
        running.get(&format!("/nowhere/{number}")).await;
        running.post(&format!("/api/v1/namespaces/n{number}/configmaps"), &json!({})).await;
    }
    let text = metrics(&running).await;
    for made_up in ["made.up", "invented", "nowhere", "n49"] {
        assert!(!text.contains(made_up), "{made_up}");
    }
    assert!(lines(&text, "apiserver_request_total{").len() < 12, "{text}");
    running.stop().await;
}

#[tokio::test]
async fn health_checks_are_listed_asked_one_by_one_and_left_out() {
    let mut running = Running::start().await;
    let text = async |path: &str| {
        let answer = running.send(request("GET", path, &[], b"")).await;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        (code, String::from_utf8(body.to_vec()).expect("text"))
    };
    let ok = (200, "ok".to_owned());
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/store", "/readyz?exclude=store"] {
        assert_eq!(text(path).await, ok, "{path}");
    }
    assert_eq!(
        text("/readyz?verbose&exclude=store").await,
        (200, "[+]ping ok\n[+]store excluded: ok\n[+]shutdown ok\nreadyz check passed\n".to_owned())
    );
    assert_eq!(text("/livez/shutdown").await.0, 404);
    assert_eq!(text("/livez/nothing").await.0, 404);
    running.stop().await;
}
