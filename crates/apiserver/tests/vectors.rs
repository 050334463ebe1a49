//! Recorded answers of the real API server: refusals with their whole `Status`, warnings, and what creation fills in.
#![allow(missing_docs)]

mod support;

use serde_json::{Value, json};
use support::{Running, request};

fn cases(text: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(text).expect("JSON");
    file["cases"].as_array().expect("a list").clone()
}

/// Whether the path's resource is served here.
async fn is_served(path: &str) -> bool {
    Running::start().await.get(path).await.0 != 404
}

/// Where objects of this kind are created.
fn path_of(object: &Value) -> String {
    let plural = match object["kind"].as_str().unwrap_or_default() {
        "Namespace" => return "/api/v1/namespaces".to_owned(),
        "Node" => return "/api/v1/nodes".to_owned(),
        other => format!("{}s", other.to_lowercase()),
    };
    let root = match object["apiVersion"].as_str().unwrap_or_default() {
        "v1" => "/api/v1".to_owned(),
        other => format!("/apis/{other}"),
    };
    format!("{root}/namespaces/{}/{plural}", object["metadata"]["namespace"].as_str().unwrap_or("default"))
}

#[tokio::test]
async fn bad_objects_are_refused_as_the_real_server_refuses_them() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for case in cases(include_str!("vectors/bad_objects.json")) {
        let path = case["path"].as_str().expect("a path");
        if !is_served(path).await {
            continue;
        }
        checked += 1;
        let running = Running::start().await;
        let path = match case["fieldValidation"].as_str() {
            Some(validation) => format!("{path}?fieldValidation={validation}"),
            None => path.to_owned(),
        };
        // Some inputs are text on purpose: what no JSON tree can hold.
        let body = case["input"].as_str().map_or_else(|| case["input"].to_string(), str::to_owned);
        let headers = [("content-type", "application/json")];
        let response = running.send(request("POST", &path, &headers, body.as_bytes())).await;
        let code = response.status().as_u16();
        let warnings: Vec<Value> = response
            .headers()
            .get_all("warning")
            .iter()
            .map(|value| {
                value
                    .to_str()
                    .expect("text")
                    .trim_start_matches("299 - ")
                    .trim_matches('"')
                    .replace("\\\"", "\"")
                    .into()
            })
            .collect();
        let bytes = http_body_util::BodyExt::collect(response.into_body()).await.expect("a body").to_bytes();
        let answer: Value = serde_json::from_slice(&bytes).expect("JSON");
        if code != case["code"].as_u64().expect("a code") as u16
            || (case.get("status").is_some() && answer != case["status"])
            || (case.get("warnings").is_some() && json!(warnings) != case["warnings"])
        {
            wrong.push(format!(
                "{}: {code} {answer}\n   {warnings:?}\n   want {} {} {}",
                case["name"], case["code"], case["status"], case["warnings"]
            ));
        }
    }
    assert!(checked > 15, "{checked}");
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Takes out what differs from run to run.
fn settle(value: &mut Value) {
    if let Some(metadata) = value["metadata"].as_object_mut() {
        for field in ["uid", "creationTimestamp", "resourceVersion", "generation", "managedFields"] {
            metadata.remove(field);
        }
    }
    if let Some(ip) = value.pointer("/spec/clusterIP").and_then(Value::as_str)
        && ip.parse::<std::net::Ipv4Addr>().is_ok()
    {
        value["spec"]["clusterIP"] = json!("an address");
        value["spec"]["clusterIPs"] = json!(["an address"]);
    }
    if let Some(ports) = value.pointer_mut("/spec/ports").and_then(Value::as_array_mut) {
        for port in ports {
            if port.get("nodePort").is_some() {
                port["nodePort"] = json!("a port");
            }
        }
    }
    if let Some(port) = value.pointer_mut("/spec/healthCheckNodePort") {
        *port = json!("a port");
    }
    let text = value.to_string();
    if let Some(at) = text.find("kube-api-access-") {
        let name = &text[at..at + "kube-api-access-".len() + 5];
        *value = serde_json::from_str(&text.replace(name, "kube-api-access-x")).expect("JSON");
    }
    if let Some(uid) = value.pointer("/metadata/labels/controller-uid").and_then(Value::as_str) {
        *value = serde_json::from_str(&value.to_string().replace(uid, "a uid")).expect("JSON");
    }
}

#[tokio::test]
async fn creation_fills_in_what_the_real_server_fills_in() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for case in cases(include_str!("vectors/defaulting.json")) {
        let path = path_of(&case["input"]);
        if !is_served(&path).await {
            continue;
        }
        checked += 1;
        let running = Running::start().await;
        if let Some(namespace) = case["input"]["metadata"]["namespace"].as_str() {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            running.post("/api/v1/namespaces", &object).await;
        }
        let (code, mut answer) = running.post(&path, &case["input"]).await;
        let mut want = case["want"].clone();
        settle(&mut answer);
        settle(&mut want);
        if code != 201 || answer != want {
            wrong.push(format!("{}: {code} {answer}\n   want {want}", case["name"]));
        }
    }
    assert!(checked > 10, "{checked}");
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}
