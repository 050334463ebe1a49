//! ResourceQuotas: what is refused in which words, what is counted, and that nothing gets around them.
#![allow(missing_docs)]

mod support;

use serde_json::{Value, json};
use support::{DEFAULT, Running, cells, create, until};

fn quota(hard: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}})
}

#[tokio::test]
async fn a_quota_refuses_what_is_too_much_and_says_what_is_used() {
    let running = Running::start().await;
    let hard = json!({"pods": "2", "requests.cpu": "1", "count/configmaps": "3", "count/leases.coordination.k8s.io": "1",
        "services.nodeports": "1"});
    create(&running, &format!("{DEFAULT}/resourcequotas"), &quota(hard)).await;
    let path = format!("{DEFAULT}/resourcequotas/q");
    // The authority's certificate is a ConfigMap too.
    let shown = until(&running, &path, |quota| quota["status"]["used"]["count/configmaps"] == "1").await;
    assert_eq!(shown["status"]["hard"], shown["spec"]["hard"]);
    let pods = format!("{DEFAULT}/pods");
    let (code, answer) = running.post(&pods, &support::pod("a")).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "pods \"a\" is forbidden: failed quota: q: must specify requests.cpu for: main"
    );
    let with_cpu = |name: &str, cpu: &str| {
        let mut pod = support::pod(name);
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        pod
    };
    create(&running, &pods, &with_cpu("a", "600m")).await;
    let (code, answer) = running.post(&pods, &with_cpu("b", "500m")).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "pods \"b\" is forbidden: exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
    );
    create(&running, &pods, &with_cpu("b", "400m")).await;
    let (_, answer) = running.post(&pods, &with_cpu("c", "1m")).await;
    assert_eq!(
        answer["message"],
        "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=1m, used: pods=2,requests.cpu=1, \
         limited: pods=2,requests.cpu=1"
    );
    until(&running, &path, |quota| quota["status"]["used"]["requests.cpu"] == "1").await;
    running.call("DELETE", &format!("{pods}/a"), &[], b"").await;
    until(&running, &path, |quota| quota["status"]["used"]["requests.cpu"] == "400m").await;
    create(&running, &pods, &with_cpu("c", "1m")).await;

    let lease = |name: &str| json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    create(&running, leases, &lease("a")).await;
    let (code, answer) = running.post(leases, &lease("b")).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "leases.coordination.k8s.io \"b\" is forbidden: exceeded quota: q, requested: count/leases.coordination.k8s.io=1, \
         used: count/leases.coordination.k8s.io=1, limited: count/leases.coordination.k8s.io=1"
    );
    // An update can be too much as well.
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}});
    create(&running, &format!("{DEFAULT}/services"), &service).await;
    let headers = [("content-type", "application/merge-patch+json")];
    let (code, answer) = running
        .call("PATCH", &format!("{DEFAULT}/services/s"), &headers, br#"{"spec": {"type": "NodePort"}}"#)
        .await;
    assert_eq!(code, 403, "{answer}");
    assert_eq!(
        answer["message"],
        "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, \
         limited: services.nodeports=1"
    );
    let row = cells(&running, &path).await;
    assert_eq!(row[2], "");
    assert!(
        row[1].starts_with(
            "count/configmaps: 1/3, count/leases.coordination.k8s.io: 1/1, pods: 2/2, requests.cpu: 401m/1"
        ),
        "{row:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn many_creates_at_once_never_exceed_a_quota() {
    let running = std::sync::Arc::new(Running::start().await);
    // One ConfigMap is there already.
    create(&running, &format!("{DEFAULT}/resourcequotas"), &quota(json!({"configmaps": "11"}))).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..100 {
        let running = running.clone();
        tasks.spawn(async move {
            let object = support::config_map(&format!("m{number}"));
            running.post(&format!("{DEFAULT}/configmaps"), &object).await.0.as_u16()
        });
    }
    let codes = tasks.join_all().await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 10, "no room is lost either");
    assert_eq!(codes.iter().filter(|code| **code == 403).count(), 90);
    let path = format!("{DEFAULT}/resourcequotas/q");
    until(&running, &path, |quota| quota["status"]["used"]["configmaps"] == "11").await;
    // What fails for another reason takes no room.
    let gone = running.get(&format!("{DEFAULT}/configmaps")).await.1["items"][1]["metadata"]["name"].clone();
    let gone = gone.as_str().expect("a name");
    running.call("DELETE", &format!("{DEFAULT}/configmaps/{gone}"), &[], b"").await;
    let there = running.get(&format!("{DEFAULT}/configmaps")).await.1["items"][1]["metadata"]["name"].clone();
    let configmaps = format!("{DEFAULT}/configmaps");
    let again = support::config_map(there.as_str().expect("a name"));
    assert_eq!(running.post(&configmaps, &again).await.0, 409);
    let path = format!("{configmaps}?dryRun=All");
    assert_eq!(
        running.post(&path, &support::config_map("new")).await.0,
        201,
        "a rehearsal takes none either"
    );
    assert_eq!(running.post(&configmaps, &support::config_map("new")).await.0, 201);
    assert_eq!(running.post(&configmaps, &support::config_map("newer")).await.0, 403);
}

#[tokio::test]
async fn a_second_path_is_no_way_around_a_quota() {
    let running = Running::start().await;
    let hard = json!({"count/templates.template.coracle.dev": "1"});
    create(&running, &format!("{DEFAULT}/resourcequotas"), &quota(hard)).await;
    let template = |version: &str, name: &str| json!({"apiVersion": version, "kind": "Template", "metadata": {"name": name}, "objects": []});
    create(&running, &format!("{DEFAULT}/templates"), &template("v1", "a")).await;
    let own = "/apis/template.coracle.dev/v1/namespaces/default/templates";
    for (path, object) in [
        (own.to_owned(), template("template.coracle.dev/v1", "b")),
        (format!("{DEFAULT}/templates"), template("v1", "b")),
    ] {
        let (code, answer) = running.post(&path, &object).await;
        assert_eq!(code, 403, "{answer}");
        assert!(answer["message"].as_str().expect("text").contains("exceeded quota: q"), "{answer}");
    }
}

#[tokio::test]
async fn a_quota_with_a_scope_is_about_its_pods_only() {
    let running = Running::start().await;
    let mut quota = quota(json!({"pods": "1"}));
    quota["spec"]["scopes"] = json!(["BestEffort"]);
    create(&running, &format!("{DEFAULT}/resourcequotas"), &quota).await;
    let pods = format!("{DEFAULT}/pods");
    let mut burstable = support::pod("a");
    burstable["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1m"}});
    create(&running, &pods, &burstable).await;
    create(&running, &pods, &support::pod("b")).await;
    let (code, answer) = running.post(&pods, &support::pod("c")).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "pods \"c\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    );
    let path = format!("{DEFAULT}/resourcequotas/q");
    until(&running, &path, |quota| quota["status"]["used"]["pods"] == "1").await;
    burstable["metadata"]["name"] = json!("d");
    create(&running, &pods, &burstable).await;
}
