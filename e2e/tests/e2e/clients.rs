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
        ordinary_work(&Node::up(&place, &[]), &["node"]);
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
