//! The API server alone: `coracle apiserver`, many side by side, without root.

use e2e::{Node, Place, finish};

const MAP: &str =
    r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}, "data": {"of": "NAME"}}"#;

#[test]
fn api_servers_run_side_by_side_and_each_has_its_own_objects() {
    let place = Place::new();
    let mut servers: Vec<Node> =
        ["one", "two", "three"].iter().map(|name| Node::api_alone(&place, name, &[])).collect();
    for (server, name) in servers.iter().zip(["one", "two"]) {
        server.kubectl_ok(&["create", "-f", "-"], &MAP.replace("NAME", name));
    }
    for (server, wanted) in servers.iter().zip(["one", "two", ""]) {
        let args = ["get", "configmap", "mine", "--ignore-not-found", "-o", "jsonpath={.data.of}"];
        assert_eq!(server.kubectl_ok(&args, ""), wanted);
    }
    // A pod waits for a node; nothing runs it in secret.
    servers[0].kubectl_ok(&["run", "waiting", "--image=busybox"], "");
    let phase = ["get", "pod", "waiting", "-o", "jsonpath={.status.phase}/{.spec.nodeName}"];
    assert_eq!(servers[0].kubectl_ok(&phase, ""), "Pending/");
    for server in &mut servers {
        let directory = server.kubeconfig.parent().expect("it lies in a directory").to_owned();
        assert!(directory.exists());
        server.end();
        assert!(!directory.exists(), "{} stayed behind", directory.display());
    }
}

#[test]
fn an_api_server_with_a_directory_has_its_objects_again_after_it_was_killed() {
    let place = Place::new();
    let directory = place.data().join("api");
    let arguments = ["--data-dir", directory.to_str().expect("the path is text")];
    let mut server = Node::api_alone(&place, "first", &arguments);
    server.kubectl_ok(&["create", "-f", "-"], &MAP.replace("NAME", "disk"));
    let second = finish(&mut place.coracle(&[&["apiserver"], &arguments[..]].concat()), "");
    assert_eq!(second.status, 125, "{}", second.all());
    assert!(second.stderr.contains("choose one with --data-dir"), "{}", second.all());
    server.kill();
    let server = Node::api_alone(&place, "again", &arguments);
    let data = server.kubectl_ok(&["get", "configmap", "mine", "-o", "jsonpath={.data.of}"], "");
    assert_eq!(data, "disk");
}

#[test]
fn the_limits_of_the_api_are_printed_without_a_node() {
    let said = finish(&mut Place::new().coracle(&["up", "--limits"]), "");
    assert_eq!(said.status, 0, "{}", said.all());
    for what in
        ["request body ", "HTTP/2 streams of a connection ", "memory of a watcher that does not read "]
    {
        assert!(said.stdout.contains(what), "{what} is missing in {}", said.all());
    }
}

#[test]
fn dependents_of_an_owner_are_collected_although_the_server_was_killed() {
    let place = Place::new();
    let directory = place.data().join("api");
    let arguments = ["--data-dir", directory.to_str().expect("the path is text")];
    let mut server = Node::api_alone(&place, "first", &arguments);
    server.kubectl_ok(&["create", "configmap", "owner"], "");
    let uid = server.kubectl_ok(&["get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}"], "");
    let dependents: Vec<String> = (0..300)
        .map(|number| {
            format!(
                r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "d{number}", "labels": {{"of": "owner"}},
                "ownerReferences": [{{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "{uid}"}}]}}}}"#
            )
        })
        .collect();
    let list = format!(r#"{{"apiVersion": "v1", "kind": "List", "items": [{}]}}"#, dependents.join(","));
    server.kubectl_ok(&["create", "-f", "-"], &list);
    server.kubectl_ok(&["delete", "configmap", "owner", "--wait=false"], "");
    server.kill();
    let server = Node::api_alone(&place, "again", &arguments);
    server.wait_for(&["get", "configmap", "-l", "of=owner", "-o", "name"], str::is_empty);
}

#[test]
fn an_api_server_alone_ends_namespaces_also_one_that_was_killed_in_the_middle_of_it() {
    let place = Place::new();
    let directory = place.data().join("api");
    let arguments = ["--data-dir", directory.to_str().expect("the path is text")];
    let mut server = Node::api_alone(&place, "first", &arguments);
    let kept = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept", "finalizers": ["example.com/keep"]}}"#;
    for name in ["quick", "slow"] {
        server.kubectl_ok(&["create", "namespace", name], "");
        server.kubectl_ok(&["-n", name, "run", "waiting", "--image=busybox"], "");
    }
    server.kubectl_ok(&["-n", "slow", "create", "-f", "-"], kept);
    server.kubectl_ok(&["delete", "namespace", "quick", "--timeout=60s"], "");
    server.kubectl_ok(&["delete", "namespace", "slow", "--wait=false"], "");
    let conditions = ["get", "namespace", "slow", "-o", "jsonpath={.status.conditions[*].message}"];
    server.wait_for(&conditions, |text| text.contains("example.com/keep in 1 resource instances"));
    server.kill();
    let server = Node::api_alone(&place, "again", &arguments);
    server.kubectl_ok(
        &["-n", "slow", "patch", "configmap", "kept", "-p", r#"{"metadata": {"finalizers": null}}"#],
        "",
    );
    server.kubectl_ok(&["wait", "--for=delete", "namespace/slow", "--timeout=60s"], "");
}
