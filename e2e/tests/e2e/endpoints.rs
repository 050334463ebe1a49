//! What stands behind services, by kubectl; autoscalers, which are refused; and variables of services that have changed since.

use e2e::{Node, Place, finish, privileged};

use super::crash_lane::{Lane, ensure};
use super::kill_points::has_points;
use super::node::{SLEEPER, with_kubectl};

#[test]
fn a_service_that_kubectl_exposes_has_the_ready_pod_as_endpoint_until_the_pod_goes() {
    if !with_kubectl("a_service_that_kubectl_exposes_has_the_ready_pod_as_endpoint_until_the_pod_goes") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], SLEEPER);
    let said =
        node.kubectl_ok(&["expose", "pod", "sleeper", "--name=web", "--port=80", "--target-port=8080"], "");
    assert!(said.contains("service/web exposed"), "{said}");
    let address = node
        .wait_for(&["get", "endpoints", "web", "-o", "jsonpath={.subsets[*].addresses[*].ip}"], |ip| {
            !ip.is_empty()
        });
    assert_eq!(address, node.kubectl_ok(&["get", "pod", "sleeper", "-o", "jsonpath={.status.podIP}"], ""));
    let slices = ["get", "endpointslices", "-l", "kubernetes.io/service-name=web", "-o"];
    let path = "jsonpath={.items[*].endpoints[*].addresses[0]} {.items[*].endpoints[*].conditions.ready} {.items[*].ports[*].port}";
    let arguments: Vec<&str> = slices.into_iter().chain([path]).collect();
    assert_eq!(node.wait_for(&arguments, |shown| shown.contains("true")), format!("{address} true 8080"));
    let shown = node.kubectl_ok(&["describe", "service", "web"], "");
    for part in ["Type:", "ClusterIP", "TargetPort:", "8080/TCP", &format!("{address}:8080")] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let of_api = node
        .kubectl_ok(&["get", "endpoints", "kubernetes", "-o", "jsonpath={.subsets[*].addresses[*].ip}"], "");
    assert!(!of_api.is_empty(), "pods reach the API somewhere");
    node.kubectl_ok(&["delete", "pod", "sleeper", "--grace-period=1"], "");
    node.wait_for(&["get", "endpoints", "web", "-o", "jsonpath={.subsets}"], |subsets| {
        matches!(subsets, "" | "[]")
    });
    node.kubectl_ok(&["delete", "service", "web"], "");
    node.wait_for(&["get", "endpoints,endpointslices", "-o", "name"], |names| !names.contains("/web"));
}

#[test]
fn an_autoscaler_is_refused_with_a_sentence_and_kubectl_goes_on_well() {
    if !with_kubectl("an_autoscaler_is_refused_with_a_sentence_and_kubectl_goes_on_well") {
        return;
    }
    let place = Place::new();
    let server = Node::api_alone(&place, "autoscalers", &[]);
    let deployment = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "web:1"}]}
"#;
    server.kubectl_ok(&["create", "-f", "-"], deployment);
    let autoscaler = r#"
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
"#;
    for (arguments, input) in [
        (&["autoscale", "deployment", "web", "--max=3"][..], ""),
        (&["apply", "-f", "-"], autoscaler),
        (&["create", "-f", "-"], autoscaler),
        (&["apply", "--server-side", "-f", "-"], autoscaler),
    ] {
        let said = server.kubectl(arguments, input);
        assert_ne!(said.status, 0, "{arguments:?}: {}", said.all());
        for part in ["does not scale by load", "kubectl scale deployment/web --replicas=N"] {
            assert!(said.stderr.contains(part), "{arguments:?}: {part}: {}", said.all());
        }
    }
    let said = server.kubectl(&["get", "hpa"], "");
    assert!(said.status == 0 && said.stderr.contains("No resources found"), "{}", said.all());
    let said = server.kubectl(&["get", "all"], "");
    assert!(said.status == 0 && said.stdout.contains("deployment.apps/web"), "{}", said.all());
    server.kubectl_ok(&["explain", "hpa.spec"], "");
    server.kubectl_ok(&["delete", "deployment", "web"], "");
}

const CLIENT: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: 10.43.7.7, ports: [{port: 5432}]}
---
apiVersion: v1
kind: Service
metadata: {name: cache}
spec: {ports: [{port: 6379}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: coracle.dev/host
    command: ["sleep", "600"]
    env: [{name: URL, value: "sql://$(DB_SERVICE_HOST)"}]
"#;

#[test]
fn a_service_variable_whose_service_has_changed_since_is_marked_stale() {
    if !privileged("a_service_variable_whose_service_has_changed_since_is_marked_stale") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "-f", "-"], CLIENT);
    node.wait_for(&["get", "pod", "client", "-o", "jsonpath={.status.phase}"], |phase| phase == "Running");
    let kubeconfig = node.kubeconfig.to_str().expect("text").to_owned();
    let record = || {
        let path = "/api/v1/namespaces/default/pods/client/environment";
        let text = node.kubectl_ok(&["get", "--raw", path], "");
        let whole: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let container = whole.pointer("/containers/0").or(whole.pointer("/pods/0/containers/0"));
        container.cloned().unwrap_or_else(|| panic!("{whole}"))
    };
    let stale = |container: &serde_json::Value| -> Vec<String> {
        let all = container["environment"].as_array().cloned().unwrap_or_default();
        let stale = all.iter().filter(|variable| variable["stale"] == true);
        stale.filter_map(|variable| variable["name"].as_str().map(str::to_owned)).collect()
    };
    let fresh = record();
    assert_eq!((stale(&fresh), fresh.get("absentServiceVariables")), (Vec::new(), None));
    // One has another address, one is gone, one has come.
    node.kubectl_ok(&["delete", "service", "db", "cache"], "");
    let changed = CLIENT.replace("10.43.7.7", "10.43.7.8").replace("name: cache", "name: late");
    let services = changed.rsplit_once("---\n").expect("the pod is the last one").0;
    node.kubectl_ok(&["create", "-f", "-"], services);
    let container = record();
    let marked = stale(&container);
    for name in ["DB_SERVICE_HOST", "DB_PORT", "CACHE_SERVICE_HOST", "CACHE_SERVICE_PORT", "URL"] {
        assert!(marked.iter().any(|stale| stale == name), "{name}: {container}");
    }
    for name in ["DB_SERVICE_PORT", "KUBERNETES_SERVICE_HOST", "HOSTNAME"] {
        assert!(!marked.iter().any(|stale| stale == name), "{name}: {container}");
    }
    assert_eq!(container["absentServiceVariables"][0]["name"], "late", "{container}");
    assert_eq!(container["absentServiceVariables"][0]["variables"][0], "LATE_SERVICE_HOST", "{container}");
    let shown = finish(&mut place.coracle(&["env", "pod/client", "--kubeconfig", &kubeconfig]), "");
    for part in [
        "service db (changed since)",
        "env[0] value",
        "LATE_SERVICE_HOST",
        "of service late (came after the start)",
    ] {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.all());
    }
}

#[test]
fn an_api_server_without_a_node_says_where_its_pods_would_reach_it() {
    let place = Place::new();
    let server = Node::api_alone(&place, "api", &["--advertise-address", "192.0.2.7"]);
    let shown = server
        .kubectl_ok(&["get", "endpoints", "kubernetes", "-o", "jsonpath={.subsets[*].addresses[*].ip}"], "");
    assert_eq!(shown, "192.0.2.7");
    let said = finish(&mut place.coracle(&["apiserver", "--advertise-address", "127.0.0.1"]), "");
    assert!(said.status == 2 && said.stderr.contains("--advertise-address"), "{}", said.all());
}

#[test]
fn kill_9_after_a_slice_was_written_leaves_one_slice_and_one_endpoints_object() {
    let test = "kill_9_after_a_slice_was_written_leaves_one_slice_and_one_endpoints_object";
    if !with_kubectl(test) || !has_points(test) {
        return;
    }
    let mut lane = Lane::new();
    for visit in [1, 2] {
        let name = format!("web{visit}");
        lane.arm_lines(&format!("kill endpointslices.written {visit}\n"));
        // One slice each; the last one leads to the end of the process.
        let before = (1..visit).map(|number| format!("before{number}"));
        let mut answers = Vec::new();
        for service in before.chain([name.clone()]) {
            let service = serde_json::json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": service},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
            answers.push(lane.ask("POST", "/api/v1/namespaces/default/services", &service.to_string()));
        }
        let died = lane.wait_for_death();
        assert_eq!(died, Ok(()), "visit {visit}: {answers:?}\n{}", lane.last_of_log());
        lane.up();
        let count = |path: &str| {
            let selected = format!("{path}?labelSelector=kubernetes.io%2Fservice-name%3D{name}");
            let answer = lane.ask("GET", &selected, "");
            let list = answer.and_then(|(_, body)| serde_json::from_str::<serde_json::Value>(&body).ok());
            list.and_then(|list| list["items"].as_array().map(Vec::len))
        };
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        let settled = lane.wait("the service has no endpoints", || {
            let endpoints = lane.ask("GET", &format!("/api/v1/namespaces/default/endpoints/{name}"), "");
            let is_there = endpoints.is_some_and(|(status, _)| status == 200);
            ensure(is_there && count(slices) == Some(1), || format!("{is_there}, {:?} slices", count(slices)))
        });
        settled.unwrap_or_else(|problem| panic!("visit {visit}: {problem}\n{}", lane.last_of_log()));
    }
}
