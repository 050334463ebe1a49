//! Kinds that are neither workloads nor access control: events by both names, limits, priorities, and what is only stored.
#![allow(missing_docs)]

mod support;

use serde_json::{Value, json};
use support::{DEFAULT, Running, cells, create};

fn about_pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "default", "uid": "u1"})
}

#[tokio::test]
async fn an_event_is_read_and_written_by_either_groups_names() {
    let running = Running::start().await;
    let old = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "old"}, "involvedObject": about_pod("p"),
        "reason": "Started", "message": "it runs", "type": "Normal", "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:01:00Z", "count": 3});
    let (code, answer) = running.post(&format!("{DEFAULT}/events"), &old).await;
    assert_eq!(code, 201, "{answer}");
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    let (code, shown) = running.get(&format!("{events}/old")).await;
    assert_eq!(code, 200, "{shown}");
    assert_eq!(shown["apiVersion"], "events.k8s.io/v1");
    assert_eq!(shown["note"], "it runs");
    assert_eq!(shown["regarding"], about_pod("p"));
    assert_eq!(shown["deprecatedSource"], json!({"component": "kubelet", "host": "n"}));
    assert_eq!(shown["deprecatedCount"], 3);
    assert_eq!(shown["deprecatedLastTimestamp"], "2026-01-01T00:01:00Z");
    assert_eq!((shown.get("message"), shown.get("involvedObject")), (None, None));

    let new = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "new"},
        "regarding": about_pod("p"), "reason": "Moved", "note": "it moved", "type": "Normal", "action": "Move",
        "eventTime": "2026-01-01T00:02:00.000001Z", "reportingController": "example.com/mover",
        "reportingInstance": "mover-1", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:03:00.000000Z"}});
    let (code, answer) = running.post(events, &new).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["note"], "it moved");
    let (_, shown) = running.get(&format!("{DEFAULT}/events/new")).await;
    assert_eq!(shown["involvedObject"], about_pod("p"));
    assert_eq!(shown["message"], "it moved");
    assert_eq!(shown["reportingComponent"], "example.com/mover");
    assert_eq!(shown["series"]["count"], 2);

    // A client that counts a series patches what it sees.
    let patch = br#"{"series": {"count": 5, "lastObservedTime": "2026-01-01T00:04:00.000000Z"}}"#;
    let headers = [("content-type", "application/strategic-merge-patch+json")];
    let (code, answer) = running.call("PATCH", &format!("{events}/new"), &headers, patch).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!((&answer["series"]["count"], &answer["note"]), (&json!(5), &json!("it moved")));
    let (_, list) = running.get(&format!("{events}?fieldSelector=regarding.name%3Dp")).await;
    let names: Vec<&Value> =
        list["items"].as_array().expect("items").iter().map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(names, ["new", "old"]);
    assert!(list["items"].as_array().expect("items").iter().all(|one| one["regarding"]["name"] == "p"));
    let (_, groups) = running.get("/apis/events.k8s.io/v1").await;
    assert_eq!(groups["resources"][0]["name"], "events");
}

#[tokio::test]
async fn a_new_event_says_when_what_and_who() {
    let running = Running::start().await;
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "regarding": about_pod("p"), "type": "Odd", "deprecatedCount": 1});
    let (code, answer) = running.post("/apis/events.k8s.io/v1/namespaces/default/events", &event).await;
    assert_eq!(code, 422, "{answer}");
    assert_eq!(
        answer["message"],
        "Event.events.k8s.io \"e\" is invalid: [eventTime: Required value, type: Invalid value: \"\": has invalid value: Odd, \
         count: Invalid value: \"\": needs to be unset]"
    );
}

#[tokio::test]
async fn each_kind_is_printed_in_the_columns_of_kubectl() {
    let running = Running::start().await;
    let rows: &[(&str, &str, Value, &[&str])] = &[
        (
            DEFAULT,
            "endpoints",
            json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e"}, "subsets": [
                {"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}]}),
            &["e", "10.0.0.1:1,10.0.0.2:1,10.0.0.1:2 + 1 more..."],
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/default",
            "endpointslices",
            json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "e"},
                "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]}),
            &["e", "IPv4", "80", "10.0.0.1"],
        ),
        (
            "/api/v1",
            "persistentvolumes",
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "hostPath": {"path": "/x"}, "claimRef": {"namespace": "n", "name": "c"}, "storageClassName": "fast"}}),
            &["v", "1Gi", "RWO,RWX", "Retain", "Pending", "n/c", "fast", "<unset>", "", "Filesystem"],
        ),
        (
            DEFAULT,
            "persistentvolumeclaims",
            json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}}),
            &["c", "Pending", "", "", "", "fast", "<unset>", "Filesystem"],
        ),
        (
            "/apis/storage.k8s.io/v1",
            "storageclasses",
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "example.com/p",
                "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}}),
            &["fast (default)", "example.com/p", "Delete", "Immediate", "false"],
        ),
        (
            "/apis/scheduling.k8s.io/v1",
            "priorityclasses",
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}),
            &["high", "7", "false", "PreemptLowerPriority"],
        ),
        (
            "/apis/node.k8s.io/v1",
            "runtimeclasses",
            json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "r"}, "handler": "h"}),
            &["r", "h"],
        ),
        (
            "/apis/policy/v1/namespaces/default",
            "poddisruptionbudgets",
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
                "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"a": "b"}}}}),
            &["b", "50%", "N/A", "0"],
        ),
        (
            "/apis/networking.k8s.io/v1",
            "ingressclasses",
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "i"}, "spec": {
                "controller": "example.com/i", "parameters": {"apiGroup": "example.com", "kind": "P", "name": "x"}}}),
            &["i", "example.com/i", "P.example.com/x"],
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default",
            "ingresses",
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"}, "spec": {
                "tls": [{}], "rules": [{"host": "a.example"}, {"host": "b.example"}],
                "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
            &["i", "<none>", "a.example,b.example", "", "80, 443"],
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default",
            "networkpolicies",
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n"}, "spec": {
                "podSelector": {"matchLabels": {"b": "c"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}]}}}),
            &["n", "a in (x,y),b=c"],
        ),
    ];
    for (root, plural, object, expected) in rows {
        create(&running, &format!("{root}/{plural}"), object).await;
        let name = object["metadata"]["name"].as_str().expect("a name");
        assert_eq!(cells(&running, &format!("{root}/{plural}/{name}")).await, *expected, "{plural}");
    }
}

#[tokio::test]
async fn what_is_only_stored_says_so() {
    let running = Running::start().await;
    let class = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "i"},
        "spec": {"controller": "example.com/i"}});
    let path = "/apis/networking.k8s.io/v1/ingressclasses";
    let headers = [("content-type", "application/json")];
    let response = running.send(support::request("POST", path, &headers, class.to_string().as_bytes())).await;
    assert_eq!(
        response.headers()["warning"],
        "299 - \"IngressClasses are stored only: there is no ingress controller\""
    );
    let response = running.send(support::request("GET", path, &[], b"")).await;
    assert!(response.headers().get("warning").is_none());
    let response = running.send(support::request("GET", &format!("{DEFAULT}/endpoints"), &[], b"")).await;
    assert_eq!(
        response.headers()["warning"],
        "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\""
    );
}

#[tokio::test]
async fn a_priority_class_gives_pods_their_priority() {
    let running = Running::start().await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let (_, list) = running.get(classes).await;
    let values: Vec<&Value> =
        list["items"].as_array().expect("items").iter().map(|one| &one["value"]).collect();
    assert_eq!(values, [&json!(2_000_000_000), &json!(2_000_001_000)]);
    let class = |name: &str, value: i64| json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
    let mut high = class("high", 1000);
    high["preemptionPolicy"] = json!("Never");
    create(&running, classes, &high).await;
    let pods = format!("{DEFAULT}/pods");
    let with = |name: &str, field: &str, value: Value| {
        let mut pod = support::pod(name);
        pod["spec"][field] = value;
        pod
    };
    let pod = create(&running, &pods, &with("a", "priorityClassName", json!("high"))).await;
    assert_eq!((&pod["spec"]["priority"], &pod["spec"]["preemptionPolicy"]), (&json!(1000), &json!("Never")));
    let (code, answer) = running.post(&pods, &with("b", "priorityClassName", json!("none"))).await;
    assert_eq!(code, 403);
    assert_eq!(answer["message"], "pods \"b\" is forbidden: no PriorityClass with name none was found");
    let (code, answer) = running.post(&pods, &with("b", "priority", json!(5))).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "pods \"b\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority \
         admission controller computed 0 from the given PriorityClass name"
    );
    let mut default = class("usual", 10);
    default["globalDefault"] = json!(true);
    create(&running, classes, &default).await;
    let pod = create(&running, &pods, &support::pod("c")).await;
    assert_eq!((&pod["spec"]["priority"], &pod["spec"]["priorityClassName"]), (&json!(10), &json!("usual")));
    default["metadata"]["name"] = json!("other");
    let (code, answer) = running.post(classes, &default).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "priorityclasses.scheduling.k8s.io \"other\" is forbidden: PriorityClass usual is already marked as default. \
         Only one default can exist"
    );
    let (code, answer) = running.post(classes, &class("system-mine", 1)).await;
    assert_eq!(code, 422);
    assert_eq!(
        answer["message"],
        "PriorityClass.scheduling.k8s.io \"system-mine\" is invalid: metadata.name: Forbidden: priority class names with \
         'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class"
    );
}

#[tokio::test]
async fn a_limit_range_fills_in_and_refuses() {
    let running = Running::start().await;
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r"}, "spec": {"limits": [
        {"type": "Container", "max": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}});
    let range = create(&running, &format!("{DEFAULT}/limitranges"), &range).await;
    assert_eq!(range["spec"]["limits"][0]["default"], json!({"cpu": "1"}), "a maximum is the default");
    let pod = create(&running, &format!("{DEFAULT}/pods"), &support::pod("a")).await;
    assert_eq!(
        pod["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}})
    );
    assert_eq!(pod["status"]["qosClass"], "Burstable");
    let mut greedy = support::pod("b");
    greedy["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "2"}});
    let (code, answer) = running.post(&format!("{DEFAULT}/pods"), &greedy).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "pods \"b\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"
    );
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}});
    let (code, answer) = running.post(&format!("{DEFAULT}/persistentvolumeclaims"), &claim).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi"
    );
}

#[tokio::test]
async fn claims_and_ingresses_get_the_default_class_and_no_finalizer_that_nothing_takes_away() {
    let running = Running::start().await;
    let class = |version: &str, kind: &str, name: &str, mark: &str, rest: Value| {
        let mut class = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "annotations": {mark: "true"}}});
        class.as_object_mut().expect("a map").extend(rest.as_object().expect("a map").clone());
        class
    };
    let mark = "storageclass.kubernetes.io/is-default-class";
    let rest = json!({"provisioner": "example.com/p"});
    let storage = class("storage.k8s.io/v1", "StorageClass", "fast", mark, rest);
    create(&running, "/apis/storage.k8s.io/v1/storageclasses", &storage).await;
    let mark = "ingressclass.kubernetes.io/is-default-class";
    let rest = json!({"spec": {"controller": "example.com/i"}});
    let ingresses = class("networking.k8s.io/v1", "IngressClass", "usual", mark, rest);
    create(&running, "/apis/networking.k8s.io/v1/ingressclasses", &ingresses).await;
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let claim = create(&running, &format!("{DEFAULT}/persistentvolumeclaims"), &claim).await;
    assert_eq!(
        (&claim["spec"]["storageClassName"], &claim["spec"]["volumeMode"]),
        (&json!("fast"), &json!("Filesystem"))
    );
    assert_eq!(claim["metadata"].get("finalizers"), None);
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"}, "spec": {
        "defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}});
    let ingress = create(&running, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", &ingress).await;
    assert_eq!(ingress["spec"]["ingressClassName"], "usual");
    assert_eq!(
        (&ingress["metadata"]["generation"], &ingress["status"]),
        (&json!(1), &json!({"loadBalancer": {}}))
    );
}

#[tokio::test]
async fn a_claim_that_goes_is_not_held_back_by_a_limit_range() {
    let running = Running::start().await;
    let claims = format!("{DEFAULT}/persistentvolumeclaims");
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "finalizers": ["example.com/keep"]},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}}});
    create(&running, &claims, &claim).await;
    let range = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "r"}, "spec": {"limits": [
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}});
    create(&running, &format!("{DEFAULT}/limitranges"), &range).await;
    let path = format!("{claims}/c");
    running.call("DELETE", &path, &[], b"").await;
    let headers = [("content-type", "application/merge-patch+json")];
    let (code, answer) =
        running.call("PATCH", &path, &headers, br#"{"metadata": {"finalizers": null}}"#).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(running.get(&path).await.0, 404);
}
