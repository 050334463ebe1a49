//! The kinds with pod templates as objects of the API: stored, defaulted, scaled, with a status of their own.
#![allow(missing_docs)]

mod support;

use serde_json::{Value, json};
use support::{Running, request};

const APPS: &str = "/apis/apps/v1/namespaces/default";
const BATCH: &str = "/apis/batch/v1/namespaces/default";
const CORE: &str = "/api/v1/namespaces/default";
const UNATTENDED: &str = "the object is stored, but nothing here acts on it yet: no controller of this kind runs, so no pods come from it";
const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const STRATEGIC: (&str, &str) = ("content-type", "application/strategic-merge-patch+json");

fn template(policy: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "busybox:1"}]}
    })
}

/// Every kind: its collection, and an object.
fn every_kind() -> Vec<(String, Value)> {
    let selector = json!({"matchLabels": {"app": "web"}});
    let metadata = json!({"name": "web"});
    let apps = |plural: &str, kind: &str| {
        let spec = json!({"selector": selector, "template": template("Always")});
        (
            format!("{APPS}/{plural}"),
            json!({"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}),
        )
    };
    let job = json!({"template": template("Never")});
    vec![
        (
            format!("{CORE}/podtemplates"),
            json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template("Always")}),
        ),
        (
            format!("{CORE}/replicationcontrollers"),
            json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": metadata,
                "spec": {"template": template("Always")}}),
        ),
        (
            format!("{APPS}/controllerrevisions"),
            json!({"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata,
                "data": {"spec": {}}, "revision": 3}),
        ),
        apps("daemonsets", "DaemonSet"),
        apps("deployments", "Deployment"),
        apps("replicasets", "ReplicaSet"),
        apps("statefulsets", "StatefulSet"),
        (
            format!("{BATCH}/jobs"),
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job}),
        ),
        (
            format!("{BATCH}/cronjobs"),
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": metadata,
                "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": job}}}),
        ),
    ]
}

/// An answer with its warnings.
async fn send(
    running: &Running,
    method: &str,
    path: &str,
    header: (&str, &str),
    body: &Value,
) -> (u16, Value, Vec<String>) {
    let response = running.send(request(method, path, &[header], body.to_string().as_bytes())).await;
    let code = response.status().as_u16();
    let warnings = response
        .headers()
        .get_all("warning")
        .iter()
        .map(|value| value.to_str().expect("text").to_owned())
        .collect();
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body").to_bytes();
    (code, serde_json::from_slice(&bytes).expect("JSON"), warnings)
}

fn deployment() -> Value {
    every_kind().into_iter().find(|(_, object)| object["kind"] == "Deployment").expect("a row").1
}

#[tokio::test]
async fn every_kind_is_stored() {
    let running = Running::start().await;
    for (path, mut object) in every_kind() {
        let kind = object["kind"].clone();
        let is_data = matches!(kind.as_str(), Some("PodTemplate" | "ControllerRevision"));
        // Whatever a client says about the status of a new object is not kept.
        if !is_data {
            object["status"] = json!({"observedGeneration": 7});
            if kind == "Job" {
                object["status"] = json!({"succeeded": 7});
            } else if kind == "CronJob" {
                object["status"] = json!({"lastScheduleTime": "2026-01-01T00:00:00Z"});
            }
        }
        let (code, created, warnings) = send(&running, "POST", &path, JSON, &object).await;
        assert_eq!(code, 201, "{created}");
        let told = warnings.iter().any(|warning| warning.contains(UNATTENDED));
        assert!(!told, "{kind}: {warnings:?}");
        let status = created["status"].to_string();
        assert!(!status.contains('7') && !status.contains("2026"), "{kind}: {status}");
        let is_counted = created["metadata"]["generation"] == 1;
        assert_eq!(is_counted, kind != "ControllerRevision", "{kind}: {created}");
        let (code, stored) = running.get(&format!("{path}/web")).await;
        assert_eq!((code.as_u16(), &stored), (200, &created));
        let (_, list) = running.get(&path).await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
        // What is stored can be written back as it is.
        let (code, same, _) = send(&running, "PUT", &format!("{path}/web"), JSON, &stored).await;
        assert_eq!((code, &same), (200, &stored), "{kind}");
        let (code, gone, _) = send(&running, "DELETE", &format!("{path}/web"), JSON, &json!({})).await;
        assert_eq!(code, 200, "{kind}: {gone}");
    }
}

#[tokio::test]
async fn discovery_names_the_kinds_with_their_short_names_and_subresources() {
    let running = Running::start().await;
    let (_, list) = running.get("/apis/apps/v1").await;
    let entry = |name: &str| {
        let found = list["resources"].as_array().expect("a list").iter().find(|one| one["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {list}")).clone()
    };
    assert_eq!(entry("deployments")["shortNames"], json!(["deploy"]));
    assert_eq!(entry("deployments")["categories"], json!(["all"]));
    let scale = entry("deployments/scale");
    assert_eq!(
        (&scale["group"], &scale["version"], &scale["kind"]),
        (&json!("autoscaling"), &json!("v1"), &json!("Scale"))
    );
    let (_, groups) = running.get("/apis").await;
    let names: Vec<&str> = groups["groups"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    assert!(names.contains(&"apps") && names.contains(&"batch"), "{names:?}");
    assert_eq!(running.get("/apis/autoscaling/v1/namespaces/default/scales").await.0, 404);
}

#[tokio::test]
async fn a_scale_changes_the_number_of_replicas_and_nothing_else() {
    let running = Running::start().await;
    for plural in ["deployments", "replicasets", "statefulsets", "replicationcontrollers"] {
        let (path, object) =
            every_kind().into_iter().find(|(path, _)| path.ends_with(plural)).expect("a row");
        let (_, created) = running.post(&path, &object).await;
        let scale = format!("{path}/web/scale");
        let (code, shown) = running.get(&scale).await;
        assert_eq!(code, 200, "{shown}");
        assert_eq!((&shown["kind"], &shown["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
        assert_eq!(shown["spec"], json!({"replicas": 1}));
        assert_eq!(shown["status"], json!({"replicas": 0, "selector": "app=web"}));
        assert_eq!(shown["metadata"]["uid"], created["metadata"]["uid"]);
        let (code, patched, warnings) =
            send(&running, "PATCH", &scale, MERGE, &json!({"spec": {"replicas": 3}})).await;
        assert_eq!((code, &patched["spec"]["replicas"]), (200, &json!(3)), "{patched}");
        assert!(!warnings.iter().any(|warning| warning.contains(UNATTENDED)), "{plural}: {warnings:?}");
        let mut wanted = patched.clone();
        wanted["spec"]["replicas"] = json!(0);
        wanted["status"]["replicas"] = json!(9);
        let (code, replaced, _) = send(&running, "PUT", &scale, JSON, &wanted).await;
        assert_eq!((code, &replaced["spec"], &replaced["status"]["replicas"]), (200, &json!({}), &json!(0)));
        // It was read before the last change.
        let (code, stale, _) = send(&running, "PUT", &scale, JSON, &wanted).await;
        assert_eq!((code, &stale["reason"]), (409, &json!("Conflict")), "{stale}");
        let (code, status, _) =
            send(&running, "PATCH", &scale, STRATEGIC, &json!({"spec": {"replicas": -1}})).await;
        assert_eq!(
            (code, &status["message"]),
            (
                422,
                &json!(
                    "Scale.autoscaling \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0"
                )
            )
        );
        let (_, stored) = running.get(&format!("{path}/web")).await;
        assert_eq!((&stored["spec"]["replicas"], &stored["metadata"]["generation"]), (&json!(0), &json!(3)));
        assert_eq!(stored["spec"]["template"], created["spec"]["template"]);
        let (code, status, _) = send(&running, "POST", &scale, JSON, &wanted).await;
        assert_eq!(code, 405, "{status}");
        let (code, status) = running.get(&format!("{path}/nobody/scale")).await;
        assert_eq!((code.as_u16(), status["details"]["kind"].as_str()), (404, Some(plural)), "{status}");
    }
    assert_eq!(running.get(&format!("{APPS}/daemonsets/web/scale")).await.0, 404);
}

#[tokio::test]
async fn status_and_spec_are_written_by_different_people() {
    let running = Running::start().await;
    let path = format!("{APPS}/deployments/web");
    running.post(&format!("{APPS}/deployments"), &deployment()).await;
    let body = json!({"spec": {"replicas": 5}, "status": {"replicas": 2, "readyReplicas": 1, "observedGeneration": 1}});
    let (code, written, warnings) = send(&running, "PATCH", &format!("{path}/status"), MERGE, &body).await;
    assert_eq!((code, &written["spec"]["replicas"]), (200, &json!(1)), "{written}");
    assert_eq!(written["status"]["readyReplicas"], 1);
    assert_eq!(written["metadata"]["generation"], 1);
    assert!(warnings.is_empty(), "whoever writes a status acts: {warnings:?}");
    let (_, written, _) = send(&running, "PATCH", &path, MERGE, &body).await;
    assert_eq!((&written["spec"]["replicas"], &written["status"]["replicas"]), (&json!(5), &json!(2)));
    assert_eq!(written["metadata"]["generation"], 2);
    let (_, written, _) =
        send(&running, "PATCH", &path, MERGE, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(written["metadata"]["generation"], 2, "a label is no new wish");
    let (_, written, _) =
        send(&running, "PATCH", &path, MERGE, &json!({"metadata": {"annotations": {"a": "b"}}})).await;
    assert_eq!(
        written["metadata"]["generation"], 3,
        "annotations of a Deployment are copied to its ReplicaSets"
    );
    let bad = json!({"status": {"replicas": 1, "readyReplicas": 2}});
    let (code, told, _) = send(&running, "PATCH", &format!("{path}/status"), MERGE, &bad).await;
    assert_eq!(
        (code, &told["message"]),
        (
            422,
            &json!(
                "Deployment.apps \"web\" is invalid: status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"
            )
        )
    );
}

#[tokio::test]
async fn what_a_template_says_about_its_environment_is_looked_at_at_once() {
    let running = Running::start().await;
    let mut object = deployment();
    object["spec"]["template"]["spec"]["containers"][0]["command"] = json!(["sh", "-c", "echo $(NOBODY)"]);
    object["spec"]["template"]["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "m"}}]);
    let path = format!("{APPS}/deployments");
    let (_, _, warnings) = send(&running, "POST", &format!("{path}?dryRun=All"), JSON, &object).await;
    assert!(!warnings.iter().any(|told| told.contains("NOBODY")), "the map may define it: {warnings:?}");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"A": "1"}});
    running.post(&format!("{CORE}/configmaps"), &map).await;
    let (code, _, warnings) = send(&running, "POST", &path, JSON, &object).await;
    let told = warnings.iter().find(|told| told.contains("NOBODY")).unwrap_or_else(|| panic!("{warnings:?}"));
    assert!(code == 201 && told.contains("spec.template.spec.containers[0].command[2]"), "{told}");
    // Scaling does not say it again.
    let (_, _, warnings) =
        send(&running, "PATCH", &format!("{path}/web/scale"), MERGE, &json!({"spec": {"replicas": 2}})).await;
    assert!(!warnings.iter().any(|told| told.contains("NOBODY")), "{warnings:?}");
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "busybox:2"}]}}}});
    let (code, patched, warnings) = send(&running, "PATCH", &format!("{path}/web"), STRATEGIC, &image).await;
    assert_eq!(
        (code, &patched["spec"]["template"]["spec"]["containers"][0]["image"]),
        (200, &json!("busybox:2"))
    );
    assert!(warnings.iter().any(|told| told.contains("NOBODY")), "{warnings:?}");
}

#[tokio::test]
async fn tables_have_the_columns_of_upstream_with_a_cell_for_each() {
    let running = Running::start().await;
    let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let expected = ["Name", "Desired", "Available", "Age"];
    for (path, object) in every_kind() {
        let (code, told) = running.post(&path, &object).await;
        assert_eq!(code, 201, "{told}");
        if path.ends_with("deployments") {
            let (_, table) = running.call("GET", &format!("{path}/web/scale"), &accept, b"").await;
            let columns = table["columnDefinitions"].as_array().expect("columns");
            assert!(columns.iter().map(|column| &column["name"]).eq(expected.iter()), "{table}");
            assert_eq!(table["rows"][0]["cells"].as_array().map(Vec::len), Some(4), "{table}");
        }
        let (_, table) = running.call("GET", &path, &accept, b"").await;
        let names: Vec<&str> = table["columnDefinitions"]
            .as_array()
            .expect("columns")
            .iter()
            .filter_map(|column| column["name"].as_str())
            .collect();
        let cells = table["rows"][0]["cells"].as_array().expect("cells");
        assert_eq!(cells.len(), names.len(), "{path}: {names:?} {cells:?}");
        for (name, cell) in names.iter().zip(cells) {
            let expected = match *name {
                "Name" => "web",
                "Containers" => "c",
                "Images" => "busybox:1",
                "Selector" if path.ends_with("cronjobs") => "<none>",
                "Selector" if path.ends_with("jobs") => continue,
                "Selector" | "Pod Labels" => "app=web",
                "Controller" | "Node Selector" | "Timezone" | "Last Schedule" => "<none>",
                "Schedule" => "*/5 * * * *",
                "Suspend" => "False",
                "Completions" => "0/1",
                "Status" => "Running",
                "Duration" => "",
                "Ready" if cell.is_string() => "0/1",
                "Age" => {
                    assert!(cell.as_str().is_some_and(|age| age.ends_with('s')), "{path}: {cell}");
                    continue;
                }
                "Desired" if !path.ends_with("daemonsets") => {
                    assert_eq!(*cell, json!(1), "{path}");
                    continue;
                }
                "Revision" => {
                    assert_eq!(*cell, json!(3), "{path}");
                    continue;
                }
                _ => {
                    assert_eq!(*cell, json!(0), "{path}: {name}");
                    continue;
                }
            };
            assert_eq!(cell.as_str(), Some(expected), "{path}: {name}");
        }
    }
}

#[tokio::test]
async fn a_job_that_is_deleted_without_a_word_leaves_its_pods_and_says_so() {
    let running = Running::start().await;
    let preserved = "child pods are preserved by default when jobs are deleted";
    let jobs = format!("{BATCH}/jobs");
    let (path, object) = every_kind().into_iter().find(|(path, _)| *path == jobs).expect("a row");
    let options =
        |policy: Value| json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
    for (policy, warns) in [(Value::Null, true), (json!("Background"), false), (json!("Orphan"), false)] {
        running.post(&path, &object).await;
        let (code, told, warnings) =
            send(&running, "DELETE", &format!("{path}/web"), JSON, &options(policy.clone())).await;
        assert_eq!(code, 200, "{told}");
        assert_eq!(
            warnings.iter().any(|warning| warning.contains(preserved)),
            warns,
            "{policy}: {warnings:?}"
        );
        if told["kind"] == "Job" {
            assert_eq!(told["metadata"]["finalizers"], json!(["orphan"]), "{told}");
        }
        while running.get(&format!("{path}/web")).await.0 != 404 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_scale_travels_in_protobuf_too() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let running = Running::start().await;
    let path = format!("{APPS}/deployments");
    running.post(&path, &deployment()).await;
    let scale = format!("{path}/web/scale");
    let response = running.send(request("GET", &scale, &[("accept", PROTOBUF)], b"")).await;
    assert_eq!(response.headers().get("content-type").and_then(|value| value.to_str().ok()), Some(PROTOBUF));
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body").to_bytes();
    assert!(bytes.starts_with(b"k8s\0"), "{bytes:?}");
    let (code, written) = running
        .call("PUT", &scale, &[("content-type", PROTOBUF), ("accept", "application/json")], &bytes)
        .await;
    assert_eq!((code.as_u16(), &written["spec"]["replicas"]), (200, &json!(1)), "{written}");
}
