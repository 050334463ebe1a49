//! Kinds that are neither workloads nor access control: events by both names, limits, quotas, budgets, namespaces.
#![allow(missing_docs)]

mod support;

use serde_json::{Value, json};
use support::Running;

const DEFAULT: &str = "/api/v1/namespaces/default";

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

/// Creates an object and answers with it; the test fails in the server's words.
async fn create(running: &Running, path: &str, object: &Value) -> Value {
    let (code, answer) = running.post(path, object).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

/// The cells of one object's table but its age, as text.
async fn cells(running: &Running, path: &str) -> Vec<String> {
    let headers = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let (code, table) = running.call("GET", path, &headers, b"").await;
    assert_eq!(code, 200, "{table}");
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let cells = table["rows"][0]["cells"].as_array().expect("cells");
    assert_eq!(columns.len(), cells.len(), "{path}: {table}");
    columns
        .iter()
        .zip(cells)
        .filter(|(column, _)| column["name"] != "Age")
        .map(|(_, cell)| cell.as_str().map_or_else(|| cell.to_string(), str::to_owned))
        .collect()
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

fn quota(hard: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}})
}

/// Reads an object until it is as wanted; the server's own tasks need a moment.
async fn until(running: &Running, path: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for _ in 0..500 {
        last = running.get(path).await.1;
        if wanted(&last) {
            return last;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{path} stays {last}");
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
async fn an_eviction_respects_the_budget_of_the_pod() {
    let running = Running::start().await;
    let pods = format!("{DEFAULT}/pods");
    for name in ["a", "b"] {
        let mut pod = support::pod(name);
        pod["metadata"]["labels"] = json!({"app": "x"});
        create(&running, &pods, &pod).await;
        let status =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        let headers = [("content-type", "application/merge-patch+json")];
        let (code, answer) = running
            .call("PATCH", &format!("{pods}/{name}/status"), &headers, status.to_string().as_bytes())
            .await;
        assert_eq!(code, 200, "{answer}");
    }
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    create(&running, budgets, &budget).await;
    let path = format!("{budgets}/b");
    let shown = until(&running, &path, |budget| budget["status"]["disruptionsAllowed"] == 1).await;
    assert_eq!(shown["status"]["observedGeneration"], 1);
    let eviction = |name: &str, options: Value| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options});
    let (code, answer) =
        running.post(&format!("{pods}/a/eviction"), &eviction("a", json!({"dryRun": ["All"]}))).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(running.get(&format!("{pods}/a")).await.0, 200, "a rehearsal");
    let (code, answer) = running.post(&format!("{pods}/a/eviction"), &eviction("a", json!({}))).await;
    assert_eq!((code.as_u16(), &answer["status"]), (201, &json!("Success")));
    assert_eq!(running.get(&format!("{pods}/a")).await.0, 404);
    let (code, answer) = running.post(&format!("{pods}/b/eviction"), &eviction("b", json!({}))).await;
    assert_eq!(code, 429);
    assert_eq!(answer["message"], "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(
        answer["details"]["causes"],
        json!([{"reason": "DisruptionBudget", "message": "The disruption budget b needs 1 healthy pods and has 1 currently"}])
    );
    create(
        &running,
        budgets,
        &json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "c"},
        "spec": {"minAvailable": 0, "selector": {}}}),
    )
    .await;
    let (code, answer) = running.post(&format!("{pods}/b/eviction"), &eviction("b", json!({}))).await;
    assert_eq!(code, 500);
    assert_eq!(
        answer["message"],
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
    for name in ["b", "c"] {
        running.call("DELETE", &format!("{budgets}/{name}"), &[], b"").await;
    }
    // Controllers written in Go say it in protobuf: type, then metadata with the name.
    let mut envelope = b"k8s\0\x0a\x15\x0a\x09policy/v1\x12\x08Eviction\x12\x05\x0a\x03\x0a\x01b".to_vec();
    envelope.extend(b"\x1a\0\"\0");
    let headers = [("content-type", "application/vnd.kubernetes.protobuf")];
    let (code, answer) = running.call("POST", &format!("{pods}/b/eviction"), &headers, &envelope).await;
    assert_eq!(code, 201, "{answer}");
    let (code, _) = running.post(&format!("{pods}/b/eviction"), &eviction("b", json!({}))).await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn a_namespace_that_ends_says_what_keeps_it_and_takes_nothing_new() {
    let running = Running::start().await;
    let named = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let namespaces = "/api/v1/namespaces";
    let namespace = create(&running, namespaces, &named("n")).await;
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    let inside = "/api/v1/namespaces/n";
    let mut kept = support::config_map("kept");
    kept["metadata"]["finalizers"] = json!(["example.com/keep"]);
    create(&running, &format!("{inside}/configmaps"), &kept).await;
    create(
        &running,
        "/apis/policy/v1/namespaces/n/poddisruptionbudgets",
        &json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": {}}),
    )
    .await;
    // Nobody can take the finalizer away by an ordinary update.
    let headers = [("content-type", "application/merge-patch+json")];
    let (_, patched) = running.call("PATCH", inside, &headers, br#"{"spec": {"finalizers": []}}"#).await;
    assert_eq!(patched["spec"]["finalizers"], json!(["kubernetes"]));
    let (code, answer) = running.call("DELETE", inside, &[], b"").await;
    assert_eq!(code, 200);
    assert_eq!(answer["status"]["phase"], "Terminating");
    let shown = until(&running, inside, |namespace| {
        namespace["status"]["conditions"][3]["message"]
            == "Some resources are remaining: configmaps. has 1 resource instances"
    })
    .await;
    assert_eq!(
        shown["status"]["conditions"][4]["message"],
        "Some content in the namespace has finalizers remaining: example.com/keep in 1 resource instances"
    );
    let (code, answer) = running.post(&format!("{inside}/configmaps"), &support::config_map("late")).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "configmaps \"late\" is forbidden: unable to create new content in namespace n because it is being terminated"
    );
    assert_eq!(
        answer["details"]["causes"],
        json!([{"reason": "NamespaceTerminating", "message": "namespace n is being terminated", "field": "metadata.namespace"}])
    );
    running
        .call(
            "PATCH",
            &format!("{inside}/configmaps/kept"),
            &headers,
            br#"{"metadata": {"finalizers": null}}"#,
        )
        .await;
    until(&running, inside, |answer| answer["code"] == 404).await;
    for (name, code) in
        [("default", 403), ("kube-system", 403), ("kube-public", 403), ("kube-node-lease", 200)]
    {
        let (got, answer) = running.call("DELETE", &format!("{namespaces}/{name}"), &[], b"").await;
        assert_eq!(got, code, "{answer}");
        if code == 403 {
            assert_eq!(
                answer["message"],
                format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted")
            );
        }
    }
}

#[tokio::test]
async fn a_namespace_is_finalized_by_whoever_asks() {
    let running = Running::start().await;
    let path = "/api/v1/namespaces/n";
    let mut namespace = create(
        &running,
        "/api/v1/namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}, "spec": {"finalizers": ["example.com/x"]}}),
    )
    .await;
    assert_eq!(namespace["spec"]["finalizers"], json!(["example.com/x", "kubernetes"]));
    running.call("DELETE", path, &[], b"").await;
    until(&running, path, |namespace| namespace["spec"]["finalizers"] == json!(["example.com/x"])).await;
    namespace["spec"]["finalizers"] = json!([]);
    namespace["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    let headers = [("content-type", "application/json")];
    let (code, answer) =
        running.call("PUT", &format!("{path}/finalize"), &headers, namespace.to_string().as_bytes()).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(running.get(path).await.0, 404);
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
async fn a_quota_without_room_does_not_keep_the_server_from_starting() {
    let running = Running::start().await;
    running.call("DELETE", &format!("{DEFAULT}/configmaps/kube-root-ca.crt"), &[], b"").await;
    let path = format!("{DEFAULT}/configmaps/kube-root-ca.crt");
    until(&running, &path, |found| found["kind"] == "ConfigMap").await;
    create(&running, &format!("{DEFAULT}/resourcequotas"), &quota(json!({"configmaps": "0"}))).await;
    let (code, _) = running.call("DELETE", &path, &[], b"").await;
    assert_eq!(code, 200);
    let config = apiserver::ApiServerConfig {
        authority_pem: Some(running.authority.certificate_pem().to_owned()),
        ..apiserver::ApiServerConfig::default()
    };
    let store = running.server.store().clone();
    let again = apiserver::ApiServer::new(config, store, std::sync::Arc::new(apiserver::NoNodes)).await;
    again.expect("starts");
    assert_eq!(running.get(&path).await.0, 404);
}

/// The paths of every resource in namespaces that can be listed, from discovery: `/apis/apps/v1 deployments`.
async fn namespaced_resources(running: &Running) -> Vec<(String, String)> {
    let mut roots = vec!["/api/v1".to_owned()];
    let (_, groups) = running.get("/apis").await;
    for group in groups["groups"].as_array().expect("groups") {
        for version in group["versions"].as_array().expect("versions") {
            roots.push(format!("/apis/{}", version["groupVersion"].as_str().expect("text")));
        }
    }
    let mut found = Vec::new();
    for root in roots {
        let (_, list) = running.get(&root).await;
        for resource in list["resources"].as_array().expect("resources") {
            let verbs = resource["verbs"].as_array().expect("verbs");
            let name = resource["name"].as_str().expect("a name");
            if resource["namespaced"] == true && verbs.contains(&json!("list")) && !name.contains('/') {
                found.push((root.clone(), name.to_owned()));
            }
        }
    }
    found
}

#[tokio::test]
async fn a_namespace_takes_objects_of_every_kind_with_it() {
    let running = Running::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    create(&running, "/api/v1/namespaces", &namespace).await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"a": "b"}});
    let mut job = json!({"template": template});
    job["template"]["spec"]["restartPolicy"] = json!("Never");
    let specs = [
        ("pods", template["spec"].clone()),
        ("services", json!({"ports": [{"port": 80}]})),
        (
            "persistentvolumeclaims",
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}}),
        ),
        ("replicationcontrollers", json!({"selector": {"a": "b"}, "template": template})),
        ("resourcequotas", json!({"hard": {"pods": "9"}})),
        ("limitranges", json!({"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "9"}}]})),
        ("deployments", json!({"selector": selector, "template": template})),
        ("replicasets", json!({"selector": selector, "template": template})),
        ("daemonsets", json!({"selector": selector, "template": template})),
        ("statefulsets", json!({"selector": selector, "template": template, "serviceName": "s"})),
        ("jobs", job.clone()),
        ("cronjobs", json!({"schedule": "* * * * *", "jobTemplate": {"spec": job}})),
        ("ingresses", json!({"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}})),
        ("networkpolicies", json!({"podSelector": {}})),
        ("poddisruptionbudgets", json!({"minAvailable": 1})),
        ("leases", json!({"holderIdentity": "h"})),
    ];
    let others = [
        ("podtemplates", json!({"template": template})),
        ("endpointslices", json!({"addressType": "IPv4", "endpoints": []})),
        ("controllerrevisions", json!({"revision": 1, "data": {}})),
        ("roles", json!({"rules": []})),
        (
            "rolebindings",
            json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}}),
        ),
        ("events", json!({"involvedObject": {"namespace": "n"}})),
        ("templates", json!({"objects": []})),
    ];
    let resources = namespaced_resources(&running).await;
    let mut made = 0;
    for (root, plural) in &resources {
        if root == "/apis/events.k8s.io/v1" {
            continue;
        }
        let (_, list) = running.get(&format!("{root}/namespaces/n/{plural}")).await;
        let list_kind = list["kind"].as_str().expect("a list");
        let mut object = json!({"apiVersion": list["apiVersion"], "metadata": {"name": "r"},
            "kind": list_kind.strip_suffix("List").expect("a list")});
        if let Some((_, spec)) = specs.iter().find(|(name, _)| name == plural) {
            object["spec"] = spec.clone();
        }
        if let Some((_, fields)) = others.iter().find(|(name, _)| name == plural) {
            object.as_object_mut().expect("a map").extend(fields.as_object().expect("a map").clone());
        }
        let (code, answer) = running.post(&format!("{root}/namespaces/n/{plural}"), &object).await;
        assert_eq!(code, 201, "{root} {plural}: {answer}");
        made += 1;
    }
    assert!(made >= 25, "{made}");
    running.call("DELETE", "/api/v1/namespaces/n", &[], b"").await;
    until(&running, "/api/v1/namespaces/n", |answer| answer["code"] == 404).await;
    for (root, plural) in &resources {
        let (_, list) = running.get(&format!("{root}/namespaces/n/{plural}")).await;
        assert_eq!(list["items"], json!([]), "{root} {plural}");
    }
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
async fn a_budget_in_percent_follows_the_size_of_what_controls_the_pods() {
    let running = Running::start().await;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "s"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let set = create(&running, sets, &set).await;
    let mut pod = support::pod("p");
    pod["metadata"]["labels"] = json!({"a": "b"});
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s",
        "uid": set["metadata"]["uid"], "controller": true}]);
    create(&running, &format!("{DEFAULT}/pods"), &pod).await;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"a": "b"}}}});
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    create(&running, budgets, &budget).await;
    let path = format!("{budgets}/b");
    let shown = until(&running, &path, |budget| budget["status"]["expectedPods"] == 2).await;
    assert_eq!(
        (&shown["status"]["desiredHealthy"], &shown["status"]["currentHealthy"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(shown["status"]["conditions"][0]["reason"], "InsufficientPods");
    let headers = [("content-type", "application/merge-patch+json")];
    running.call("PATCH", &format!("{sets}/s"), &headers, br#"{"spec": {"replicas": 8}}"#).await;
    until(&running, &path, |budget| budget["status"]["desiredHealthy"] == 4).await;
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
