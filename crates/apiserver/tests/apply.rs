//! Server-side apply and `managedFields` over the whole server, and what the real server answered.
#![allow(missing_docs)]

mod support;

use http::StatusCode;
use serde_json::{Value, json};
use support::{Running, config_map, pod, request};

const APPLY: &str = "application/apply-patch+yaml";

async fn patch(running: &Running, path: &str, media_type: &str, body: &Value) -> (StatusCode, Value) {
    running.call("PATCH", path, &[("content-type", media_type)], body.to_string().as_bytes()).await
}

/// Takes out what differs from run to run, and orders what has the same second.
fn settle(value: &Value, want: bool) -> Value {
    let mut value = value.clone();
    let Some(metadata) = value["metadata"].as_object_mut() else { return value };
    for field in ["uid", "creationTimestamp", "resourceVersion", "generation"] {
        metadata.remove(field);
    }
    if let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
        for entry in entries.iter_mut() {
            let time = entry.as_object_mut().and_then(|entry| entry.remove("time"));
            assert_eq!(time.is_some(), !want, "{entry}");
        }
        entries.sort_by_key(|entry| entry["manager"].to_string());
    }
    value
}

#[tokio::test]
async fn each_step_of_each_sequence_is_answered_as_the_real_server_answers_it() {
    let file: Value = serde_json::from_str(include_str!("vectors/server_side_apply.json")).expect("JSON");
    let (mut checked, mut wrong) = (0, Vec::new());
    for sequence in file["sequences"].as_array().expect("a list") {
        let running = Running::start().await;
        running
            .post(
                "/api/v1/namespaces",
                &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "patchlab"}}),
            )
            .await;
        let path = sequence["path"].as_str().expect("a path");
        if running.get(path).await.0 == StatusCode::NOT_FOUND {
            continue;
        }
        for step in sequence["steps"].as_array().expect("a list") {
            checked += 1;
            let text = |name: &str| step[name].as_str().expect("text");
            let path = format!("{path}{}", text("query"));
            let headers = [("content-type", text("contentType"))];
            let body = step["body"].to_string();
            let (code, answer) = running.call(text("method"), &path, &headers, body.as_bytes()).await;
            let want =
                if step["want"].is_object() { settle(&step["want"], true) } else { step["status"].clone() };
            let answer = if step["want"].is_object() { settle(&answer, false) } else { answer };
            if Some(u64::from(code.as_u16())) != step["code"].as_u64() || answer != want {
                wrong.push(format!("{}: {path}: {code} {answer}\n   want {want}", sequence["name"]));
            }
        }
    }
    assert!(checked > 18, "{checked}");
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}

fn manager<'o>(object: &'o Value, name: &str) -> &'o Value {
    object["metadata"]["managedFields"]
        .as_array()
        .and_then(|entries| entries.iter().find(|entry| entry["manager"] == name))
        .unwrap_or(&Value::Null)
}

#[tokio::test]
async fn every_write_is_noted_with_its_manager_and_its_subresource() {
    let running = Running::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let headers = [("content-type", "application/json"), ("user-agent", "maker/1.0 (x)")];
    let body = pod("p").to_string();
    let (code, made) = running.call("POST", pods, &headers, body.as_bytes()).await;
    assert_eq!(code, StatusCode::CREATED);
    let entry = manager(&made, "maker");
    assert_eq!((&entry["operation"], &entry["apiVersion"]), (&json!("Update"), &json!("v1")));
    let spec = &entry["fieldsV1"]["f:spec"];
    assert!(spec["f:containers"]["k:{\"name\":\"main\"}"]["f:terminationMessagePath"].is_object(), "{entry}");
    // What the server adds is nobody's.
    for added in ["f:volumes", "f:tolerations", "f:serviceAccountName", "f:priority"] {
        assert!(spec.get(added).is_none(), "{added}: {entry}");
    }
    assert!(
        entry["fieldsV1"].get("f:status").is_none() && entry["fieldsV1"]["f:metadata"].is_null(),
        "{entry}"
    );

    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let path = format!("{pods}/p/status?fieldManager=kubelet");
    let (code, now) = patch(&running, &path, "application/strategic-merge-patch+json", &status).await;
    assert_eq!(code, StatusCode::OK);
    let entry = manager(&now, "kubelet");
    assert_eq!(entry["subresource"], "status");
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:status": {"f:phase": {}, "f:conditions": {".": {}, "k:{\"type\":\"Ready\"}": {
            ".": {}, "f:status": {}, "f:type": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}
        }}}})
    );

    // Nothing changes: no version, no entry.
    let (_, again) = patch(
        &running,
        &format!("{pods}/p/status?fieldManager=other"),
        "application/merge-patch+json",
        &json!({"status": {"phase": "Running"}}),
    )
    .await;
    assert_eq!(again, now);

    let mut replaced = now.clone();
    replaced["metadata"]["labels"] = json!({"a": "b"});
    let (code, replaced) = running
        .call(
            "PUT",
            &format!("{pods}/p?fieldManager=labeller"),
            &headers[..1],
            replaced.to_string().as_bytes(),
        )
        .await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(
        manager(&replaced, "labeller")["fieldsV1"],
        json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}})
    );
    assert!(manager(&replaced, "kubelet").is_object() && manager(&replaced, "maker").is_object());
}

#[tokio::test]
async fn entries_can_be_reset_and_are_not_lost_by_those_who_do_not_know_them() {
    let running = Running::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let json = [("content-type", "application/json")];
    running.post(&format!("{maps}?fieldManager=a"), &config_map("m")).await;
    // Left out, broken, or with what is not known.
    for told in [
        None,
        Some(json!([{"manager": "x", "operation": "Steal", "apiVersion": "v1", "fieldsType": "FieldsV1"}])),
        Some(
            json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f": {}}}]),
        ),
        Some(
            json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": 7}]),
        ),
    ] {
        let mut body = config_map("m");
        if let Some(told) = told {
            body["metadata"]["managedFields"] = told;
        }
        let (code, answer) = running
            .call("PUT", &format!("{maps}/m?fieldManager=b"), &json, body.to_string().as_bytes())
            .await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        assert_eq!(manager(&answer, "a")["fieldsV1"], json!({"f:data": {".": {}, "f:k": {}}}), "{answer}");
    }
    let mut body = config_map("m");
    body["metadata"]["managedFields"] = json!([{"manager": "x\u{7}", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]);
    let (code, answer) = running.call("PUT", &format!("{maps}/m"), &json, body.to_string().as_bytes()).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    // An entry of another version of the kind is of no use here.
    body["metadata"]["managedFields"] = json!([{"manager": "x", "operation": "Update", "apiVersion": "old/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}},
        {"manager": "y", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}, "z:future": {}}}]);
    let (_, answer) = running.call("PUT", &format!("{maps}/m"), &json, body.to_string().as_bytes()).await;
    assert_eq!(answer["metadata"]["managedFields"].as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!(manager(&answer, "y")["fieldsV1"], json!({"f:data": {"f:k": {}}}));

    for reset in [json!([]), json!([{}])] {
        running.call("DELETE", &format!("{maps}/m"), &[], b"").await;
        running.post(&format!("{maps}?fieldManager=a"), &config_map("m")).await;
        let change = json!({"metadata": {"managedFields": reset}});
        let (_, answer) =
            patch(&running, &format!("{maps}/m"), "application/merge-patch+json", &change).await;
        assert!(answer["metadata"].get("managedFields").is_none(), "{answer}");
        // Forgotten until somebody applies.
        let (_, answer) = patch(
            &running,
            &format!("{maps}/m?fieldManager=b"),
            "application/merge-patch+json",
            &json!({"data": {"k": "w"}}),
        )
        .await;
        assert!(answer["metadata"].get("managedFields").is_none(), "{answer}");
        let mut config = config_map("m");
        config["data"] = json!({"k": "w", "n": "1"});
        let (code, answer) = patch(&running, &format!("{maps}/m?fieldManager=c"), APPLY, &config).await;
        assert_eq!(code, StatusCode::OK);
        assert_eq!(
            manager(&answer, "before-first-apply")["fieldsV1"],
            json!({"f:data": {".": {}, "f:k": {}}}),
            "{answer}"
        );
    }
    let mut body = config_map("m");
    body["metadata"]["managedFields"] = json!([]);
    let (_, answer) = running.call("PUT", &format!("{maps}/m"), &json, body.to_string().as_bytes()).await;
    assert!(answer["metadata"].get("managedFields").is_none(), "{answer}");
}

#[tokio::test]
async fn an_apply_that_cannot_be_is_told_why() {
    let running = Running::start().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let send = |query: &'static str, media_type: &'static str, body: Value| {
        let running = &running;
        async move { patch(running, &format!("{maps}/{query}"), media_type, &body).await }
    };
    let with = |change: &dyn Fn(&mut Value)| {
        let mut config = config_map("m");
        change(&mut config);
        config
    };
    let rows: [(&'static str, Value, u16, &str); 9] = [
        ("m?fieldManager=a", json!({"data": {}}), 400, "invalid object type: /, Kind="),
        (
            "m?fieldManager=a",
            with(&|c| c["kind"] = json!("Secret")),
            400,
            "invalid object type: /v1, Kind=Secret",
        ),
        (
            "m?fieldManager=a",
            with(&|c| c["metadata"]["managedFields"] = json!([])),
            400,
            "metadata.managedFields must be nil",
        ),
        (
            "m?fieldManager=a",
            with(&|c| c["metadata"]["uid"] = json!("u")),
            409,
            "Operation cannot be fulfilled on configmaps \"m\": uid mismatch: the provided object specified uid u, and no existing object was found",
        ),
        (
            "m?fieldManager=a",
            with(&|c| c["metadata"]["resourceVersion"] = json!("1")),
            409,
            "Operation cannot be fulfilled on configmaps \"m\": the object has been modified; please apply your changes to the latest version and try again",
        ),
        (
            "m?fieldManager=a",
            with(&|c| c["metadata"] = json!({})),
            400,
            "the name of the object (based on URL) was undeterminable: name must be provided",
        ),
        (
            "m?fieldManager=a",
            with(&|c| c["data"]["n"] = json!(1)),
            500,
            "failed to create typed patch object (/m; /v1, Kind=ConfigMap): .data.n: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            "m?fieldManager=a",
            json!([1]),
            400,
            "error decoding YAML: a configuration is an object with apiVersion and kind",
        ),
        (
            "m?fieldManager=a%09b",
            with(&|_| {}),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Invalid value: \"a\\tb\": invalid character U+0009 (at position 1)",
        ),
    ];
    for (query, body, code, message) in rows {
        let (got, answer) = send(query, APPLY, body).await;
        assert_eq!((got.as_u16(), answer["message"].as_str()), (code, Some(message)), "{answer}");
    }
    let (code, _) = send("m?fieldManager=a", "application/apply-patch+cbor", config_map("m")).await;
    assert_eq!(code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let (code, answer) = send("m?force=true", "application/merge-patch+json", json!({})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        answer["message"],
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
    );
    // A subresource is part of an object that is there.
    let body =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Failed"}});
    let (code, _) =
        patch(&running, "/api/v1/namespaces/default/pods/p/status?fieldManager=a", APPLY, &body).await;
    assert_eq!(code, StatusCode::NOT_FOUND);
    // What stands twice.
    let twice = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata:\n  a: b\n  a: c\n";
    let headers = [("content-type", APPLY)];
    let (code, answer) = running
        .call("PATCH", &format!("{maps}/m?fieldManager=a&fieldValidation=Strict"), &headers, twice)
        .await;
    assert_eq!(
        (code, answer["message"].as_str()),
        (
            StatusCode::BAD_REQUEST,
            Some(
                "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 7: key \"a\" already set in map"
            )
        )
    );
    let response = running.send(request("PATCH", &format!("{maps}/m?fieldManager=a"), &headers, twice)).await;
    assert_eq!(response.status(), StatusCode::CREATED);
    assert!(response.headers().contains_key("warning"));
}

#[tokio::test]
async fn a_status_is_applied_by_its_own_path_and_a_rehearsal_leaves_nothing() {
    let running = Running::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let (code, answer) =
        patch(&running, &format!("{pods}/p?fieldManager=a&dryRun=All"), APPLY, &pod("p")).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    assert!(manager(&answer, "a").is_object());
    assert_eq!(running.get(&format!("{pods}/p")).await.0, StatusCode::NOT_FOUND);
    let mut config = pod("p");
    config["status"] = json!({"phase": "Failed"});
    let (_, made) = patch(&running, &format!("{pods}/p?fieldManager=a"), APPLY, &config).await;
    assert_eq!(made["status"]["phase"], "Pending");
    assert_eq!(
        manager(&made, "a")["fieldsV1"],
        json!({"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {".": {}, "f:image": {}, "f:name": {}}}}})
    );
    let status =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"message": "m"}});
    let (code, answer) = patch(&running, &format!("{pods}/p/status?fieldManager=a"), APPLY, &status).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    assert_eq!((&answer["status"]["message"], &answer["status"]["phase"]), (&json!("m"), &json!("Pending")));
    let entries = answer["metadata"]["managedFields"].as_array().expect("entries");
    let of_status = entries.iter().find(|entry| entry["subresource"] == "status").expect("an entry");
    assert_eq!(of_status["fieldsV1"], json!({"f:status": {"f:message": {}}}));
    // Said once more: neither version nor time change.
    let (_, again) = patch(&running, &format!("{pods}/p/status?fieldManager=a"), APPLY, &status).await;
    assert_eq!(again, answer);
    // And what is not said any more goes.
    let nothing = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
    let (_, answer) = patch(&running, &format!("{pods}/p/status?fieldManager=a"), APPLY, &nothing).await;
    assert!(answer["status"].get("message").is_none(), "{answer}");
}

#[tokio::test]
async fn appliers_at_the_same_time_lose_nothing() {
    let running = Running::start().await;
    let maps = "/api/v1/namespaces/default/configmaps/m";
    let applies = (0..8).map(|number| {
        let running = &running;
        async move {
            let mut config = config_map("m");
            config["data"] = json!({format!("k{number}"): "v"});
            patch(running, &format!("{maps}?fieldManager=m{number}"), APPLY, &config).await
        }
    });
    for (code, answer) in futures::future::join_all(applies).await {
        assert!(code.is_success(), "{answer}");
    }
    let (_, answer) = running.get(maps).await;
    assert_eq!(answer["data"].as_object().map(serde_json::Map::len), Some(8), "{answer}");
    assert_eq!(answer["metadata"]["managedFields"].as_array().map(Vec::len), Some(8));
}

#[tokio::test]
async fn a_scale_is_noted_and_applied_as_part_of_what_it_scales() {
    let running = Running::start().await;
    let path = "/apis/apps/v1/namespaces/default/deployments/d";
    let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    let (code, made) = patch(&running, &format!("{path}?fieldManager=owner"), APPLY, &config).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    let scale = |replicas: u8| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": replicas}});
    let (code, answer) = patch(&running, &format!("{path}/scale?fieldManager=hpa"), APPLY, &scale(3)).await;
    assert_eq!(
        (code, answer["message"].as_str()),
        (StatusCode::CONFLICT, Some("Apply failed with 1 conflict: conflict with \"owner\": .spec.replicas"))
    );
    let (code, answer) =
        patch(&running, &format!("{path}/scale?fieldManager=hpa&force=true"), APPLY, &scale(3)).await;
    assert_eq!(
        (code, &answer["kind"], &answer["spec"]["replicas"]),
        (StatusCode::OK, &json!("Scale"), &json!(3))
    );
    let (_, now) = running.get(path).await;
    let entry = manager(&now, "hpa");
    assert_eq!((&entry["subresource"], &entry["operation"]), (&json!("scale"), &json!("Apply")));
    assert_eq!(entry["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
    assert!(manager(&now, "owner")["fieldsV1"]["f:spec"].get("f:replicas").is_none());
    // Any other write of the scale takes the number, too.
    let change = json!({"spec": {"replicas": 5}});
    let (code, _) = patch(
        &running,
        &format!("{path}/scale?fieldManager=kubectl-scale"),
        "application/merge-patch+json",
        &change,
    )
    .await;
    assert_eq!(code, StatusCode::OK);
    let (_, now) = running.get(path).await;
    assert_eq!(now["spec"]["replicas"], 5);
    assert!(manager(&now, "hpa").is_null(), "{now}");
    let entry = manager(&now, "kubectl-scale");
    assert_eq!((&entry["subresource"], &entry["apiVersion"]), (&json!("scale"), &json!("apps/v1")));
    // Who leaves the number out of its configuration leaves it to the others.
    let mut less = config.clone();
    less["spec"].as_object_mut().expect("a map").remove("replicas");
    let (_, now) = patch(&running, &format!("{path}?fieldManager=owner"), APPLY, &less).await;
    assert_eq!(now["spec"]["replicas"], 5);
    let (code, answer) = patch(&running, &format!("{path}/scale?fieldManager=x"), APPLY, &config).await;
    assert_eq!(
        (code, answer["message"].as_str()),
        (StatusCode::BAD_REQUEST, Some("invalid object type: apps/v1, Kind=Deployment"))
    );
}

#[tokio::test]
async fn an_event_that_came_by_its_second_path_is_noted_as_it_is_stored() {
    let running = Running::start().await;
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "c.example", "reportingInstance": "i",
        "action": "Act", "reason": "Reason", "type": "Normal", "note": "said",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}});
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (code, made) = running.post(&format!("{path}?fieldManager=teller"), &event).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    let entry = manager(&made, "teller");
    assert_eq!(entry["apiVersion"], "v1");
    assert!(
        entry["fieldsV1"]["f:involvedObject"].is_object() && entry["fieldsV1"]["f:message"].is_object(),
        "{entry}"
    );
    let change = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}});
    let (code, now) =
        patch(&running, &format!("{path}/e?fieldManager=other"), "application/merge-patch+json", &change)
            .await;
    assert_eq!(code, StatusCode::OK, "{now}");
    assert_eq!(
        manager(&now, "other")["fieldsV1"],
        json!({"f:series": {".": {}, "f:count": {}, "f:lastObservedTime": {}}})
    );
    assert_eq!(manager(&now, "teller"), entry);
}
