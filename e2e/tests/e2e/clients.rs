//! Clients of Kubernetes that know nothing of us do their ordinary work: the Python client, and controllers on `kube`.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use e2e::{Node, PATIENCE, Place, finish, privileged, project};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Config, Resource, ResourceExt};
use serde_json::json;

/// Debian's Python, which has Debian's `python3-kubernetes`.
const PYTHON: &str = "/usr/bin/python3";

fn python_client(test: &str) -> bool {
    let found = Command::new(PYTHON).args(["-c", "import kubernetes"]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "{test} needs python3-kubernetes");
        eprintln!("skipped: {test} needs Debian's python3-kubernetes");
    }
    is_there
}

fn ordinary_work(node: &Node, arguments: &[&str]) {
    let script = project().join("e2e/clients/ordinary.py");
    let said = finish(Command::new(PYTHON).arg(script).arg(&node.kubeconfig).args(arguments), "");
    assert!(said.status == 0 && said.stdout.ends_with("done\n"), "{}", said.all());
}

#[test]
fn the_python_client_does_its_ordinary_work_with_an_api_server_alone() {
    if python_client("the_python_client_does_its_ordinary_work_with_an_api_server_alone") {
        let place = Place::new();
        ordinary_work(&Node::api_alone(&place, "api", &[]), &[]);
    }
}

#[test]
fn the_python_client_runs_a_pod_and_speaks_with_it() {
    let test = "the_python_client_runs_a_pod_and_speaks_with_it";
    if privileged(test) && python_client(test) {
        let place = Place::new();
        let mut node = Node::up(&place, &[]);
        ordinary_work(&node, &["node"]);
        // The pod was deleted without a grace period: what is left of it goes with the node.
        node.end();
        let data = place.data();
        let down = finish(&mut place.coracle(&["down", "--data-dir", data.to_str().expect("text")]), "");
        assert_eq!(down.status, 0, "{}", down.all());
    }
}

/// What the controller of the test needs.
struct Context {
    maps: Api<ConfigMap>,
}

/// Each map that is called `parent-N` has one called `child-N`, which it owns.
async fn reconcile(parent: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, kube::Error> {
    let name = parent.name_any();
    let Some(number) = name.strip_prefix("parent-") else { return Ok(Action::await_change()) };
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("child-{number}"), "labels": {"is": "child"},
            "ownerReferences": [parent.controller_owner_ref(&())],
        },
        "data": parent.data,
    });
    let parameters = PatchParams::apply("the-controller").force();
    context.maps.patch(&format!("child-{number}"), &parameters, &Patch::Apply(child)).await?;
    Ok(Action::await_change())
}

async fn client(node: &Node) -> Client {
    let kubeconfig = Kubeconfig::read_from(&node.kubeconfig).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("it is usable")).expect("a client")
}

async fn create_parents(maps: &Api<ConfigMap>, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let parent =
            json!({"metadata": {"name": format!("parent-{number}")}, "data": {"n": number.to_string()}});
        let parent: ConfigMap = serde_json::from_value(parent).expect("a map");
        maps.create(&PostParams::default(), &parent).await.expect("it is created");
    }
}

/// Waits until the children are these.
async fn wait_for_children(maps: &Api<ConfigMap>, wanted: &[u32]) {
    let mut wanted: Vec<String> = wanted.iter().map(|number| format!("child-{number}")).collect();
    wanted.sort();
    let children = ListParams::default().labels("is=child");
    let arrived = async {
        loop {
            let list = maps.list(&children).await.expect("a list");
            if list.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>() == wanted {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, arrived).await.unwrap_or_else(|_| panic!("never: {wanted:?}"));
}

#[tokio::test]
async fn a_controller_on_kube_goes_on_after_the_server_was_killed_and_started_again() {
    let place = Place::new();
    let directory = place.data().join("api");
    let directory = directory.to_str().expect("text");
    let mut server = Node::api_alone(&place, "first", &["--data-dir", directory]);
    let maps: Api<ConfigMap> = Api::namespaced(client(&server).await, "default");
    let context = Arc::new(Context { maps: maps.clone() });
    let controller = Controller::new(maps.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(200)), context)
        .for_each(|_| async {});
    let controller = tokio::spawn(controller);
    create_parents(&maps, 0..20).await;
    wait_for_children(&maps, &(0..20).collect::<Vec<_>>()).await;

    let config = Kubeconfig::read_from(&server.kubeconfig).expect("a kubeconfig");
    let url =
        config.clusters[0].cluster.as_ref().and_then(|cluster| cluster.server.clone()).expect("an address");
    server.kill();
    let address = url.trim_start_matches("https://");
    let _server = Node::api_alone(&place, "second", &["--data-dir", directory, "--listen", address]);
    // The same client, by the same certificate: the authority was kept.
    create_parents(&maps, 20..25).await;
    // What somebody else removes comes back, and what nobody owns any more goes.
    maps.delete("child-3", &DeleteParams::default()).await.expect("it goes");
    maps.delete("parent-4", &DeleteParams::background()).await.expect("it goes");
    wait_for_children(&maps, &(0..25).filter(|number| *number != 4).collect::<Vec<_>>()).await;
    assert!(!controller.is_finished());
    controller.abort();
}

/// The machine's `kubectl`, and those that `OTHER_KUBECTLS` names (`:` between them).
fn every_kubectl() -> Vec<String> {
    let others = std::env::var("OTHER_KUBECTLS").unwrap_or_default();
    let others = others.split(':').filter(|program| !program.is_empty()).map(str::to_owned);
    std::iter::once("kubectl".to_owned()).chain(others).collect()
}

const APPLICATION: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: shop}}
data: {level: info}
---
apiVersion: v1
kind: Service
metadata: {name: shop, labels: {app: shop}}
spec: {selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop, labels: {app: shop}}
spec:
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: c, image: shop:1, env: [{name: LEVEL, value: info}]}]}
"#;

#[test]
fn every_kubectl_does_its_ordinary_work_with_objects() {
    let place = Place::new();
    let node = Node::api_alone(&place, "api", &[]);
    let editor = place.file("editor", "#!/bin/sh\nsed -i 's/level: info/level: debug/' \"$1\"\n");
    finish(Command::new("chmod").arg("755").arg(&editor), "");
    for (number, kubectl) in every_kubectl().into_iter().enumerate() {
        let namespace = format!("n{number}");
        let run = |arguments: &[&str], input: &str| {
            let mut command = Command::new(&kubectl);
            command
                .args(["-n", &namespace])
                .args(arguments)
                .env("KUBECONFIG", &node.kubeconfig)
                .env("HOME", place.data().join(&namespace))
                .env("KUBE_EDITOR", &editor);
            finish(&mut command, input)
        };
        let ok = |arguments: &[&str], input: &str| {
            let said = run(arguments, input);
            assert!(said.status == 0, "{kubectl} {arguments:?}: {}", said.all());
            said.stdout
        };
        ok(&["create", "namespace", &namespace], "");
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let created = ["configmap/settings created", "service/shop created", "deployment.apps/shop created"];
        assert_eq!(lines(&ok(&["apply", "-f", "-"], APPLICATION)), created);
        let again = APPLICATION.replace("shop:1", "shop:2");
        let unchanged =
            ["configmap/settings unchanged", "service/shop unchanged", "deployment.apps/shop configured"];
        assert_eq!(lines(&ok(&["apply", "-f", "-"], &again)), unchanged);
        assert_eq!(run(&["diff", "-f", "-"], &again).status, 0);
        let differs = run(&["diff", "-f", "-"], APPLICATION);
        assert!(
            differs.status == 1 && differs.stdout.contains("-        image: shop:2"),
            "{}",
            differs.all()
        );

        ok(&["edit", "configmap", "settings"], "");
        ok(&["label", "configmap,service", "-l", "app=shop", "tier=web"], "");
        ok(&["annotate", "deployment", "shop", "kubernetes.io/change-cause=test"], "");
        ok(&["set", "env", "deployment/shop", "MORE=x"], "");
        ok(
            &[
                "patch",
                "deployment",
                "shop",
                "--type=json",
                "-p",
                r#"[{"op":"remove","path":"/metadata/annotations/kubernetes.io~1change-cause"}]"#,
            ],
            "",
        );
        ok(&["scale", "deployment", "shop", "--replicas=3"], "");
        let fields = "jsonpath={.data.level} {.metadata.labels.tier}";
        assert_eq!(ok(&["get", "configmap", "settings", "-o", fields], ""), "debug web");
        let fields = "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].env[*].name} {.metadata.generation}";
        // Of a Deployment, annotations count as well: three changes of the spec and two of them.
        assert_eq!(ok(&["get", "deployment", "shop", "-o", fields], ""), "3 LEVEL MORE 6");
        let table = ok(&["get", "deployment,service,configmap", "-l", "app=shop", "-o", "wide"], "");
        assert!(table.contains("SELECTOR") && table.contains("deployment.apps/shop"), "{table}");
        let explained = ok(&["explain", "deployment.spec.template.spec.containers.env.valueFrom"], "");
        assert!(explained.contains("secretKeyRef"), "{explained}");
        let described = ok(&["describe", "deployment", "shop"], "");
        assert!(described.contains("Replicas:") && described.contains("3 desired"), "{described}");
        // What a person mistypes is said, and nothing is changed.
        let wrong = run(
            &["apply", "-f", "-"],
            &APPLICATION.replace("replicas", "x").replace("selector: {app", "selektor: {app"),
        );
        assert!(wrong.status != 0 && wrong.stderr.contains("selektor"), "{}", wrong.all());
        let missing = run(&["get", "deployment", "nothing"], "");
        assert!(missing.stderr.contains("deployments.apps \"nothing\" not found"), "{}", missing.all());

        ok(&["create", "secret", "generic", "login", "--from-literal=password=canary"], "");
        ok(&["create", "role", "reader", "--verb=get", "--resource=pods"], "");
        ok(
            &[
                "create",
                "rolebinding",
                "reader",
                "--role=reader",
                "--serviceaccount",
                &format!("{namespace}:default"),
            ],
            "",
        );
        let user = format!("--as=system:serviceaccount:{namespace}:default");
        assert_eq!(ok(&["auth", "can-i", "get", "pods", &user], "").trim(), "yes");
        assert_eq!(run(&["auth", "can-i", "delete", "pods", &user], "").stdout.trim(), "no");
        let refused = run(&["get", "secrets", &user], "");
        assert!(refused.stderr.contains("cannot list resource \"secrets\""), "{}", refused.all());

        ok(&["delete", "deployment,service,configmap", "-l", "app=shop"], "");
        // Old ones find nothing to wait for.
        let waited = run(&["wait", "--for=delete", "deployment/shop", "--timeout=60s"], "");
        assert!(waited.status == 0 || waited.stderr.contains("no matching resources"), "{}", waited.all());
        ok(&["delete", "namespace", &namespace, "--timeout=60s"], "");
        assert_eq!(run(&["get", "namespace", &namespace], "").status, 1);
    }
}
