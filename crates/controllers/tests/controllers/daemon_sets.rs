//! DaemonSets against an API server.

use controllers::Informers;
use informer::ObjectKey;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::Cluster;

fn set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
        },
    })
}

fn image(image: &str) -> Patch<Value> {
    Patch::Merge(json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}))
}

/// Whether there is one pod of this image on each node, and the status says so.
fn is_complete(seen: &Informers, nodes: &[&str], image: &str) -> bool {
    let pods = seen.pods.in_namespace("default");
    let mut found: Vec<(String, String)> = pods
        .iter()
        .map(|pod| {
            let spec = pod.spec.as_ref().expect("a spec");
            (spec.node_name.clone().unwrap_or_default(), spec.containers[0].image.clone().unwrap_or_default())
        })
        .collect();
    found.sort();
    let set = seen.daemon_sets.get(&ObjectKey::new("default", "agent"));
    let count = i32::try_from(nodes.len()).expect("few");
    found
        .iter()
        .map(|(node, image)| (node.as_str(), image.as_str()))
        .eq(nodes.iter().map(|node| (*node, image)))
        && set.is_some_and(|set| {
            set.status.as_ref().is_some_and(|status| {
                status.observed_generation == set.metadata.generation
                    && (status.desired_number_scheduled, status.number_ready) == (count, count)
                    && status.updated_number_scheduled == Some(count)
            })
        })
}

#[tokio::test]
async fn each_node_has_a_pod_also_those_that_come_and_an_update_reaches_all() {
    let cluster = Cluster::new().await;
    cluster.create::<DaemonSet>(set()).await;
    cluster.until("the node has a pod", |seen| is_complete(seen, &["node-1"], "i:1")).await;
    cluster.add_node("node-2").await;
    cluster.until("the new node has one", |seen| is_complete(seen, &["node-1", "node-2"], "i:1")).await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    nodes.cordon("node-2").await.expect("cordoned");
    let sets = cluster.api::<DaemonSet>();
    sets.patch("agent", &PatchParams::default(), &image("i:2")).await.expect("patched");
    cluster.until("both are new", |seen| is_complete(seen, &["node-1", "node-2"], "i:2")).await;
    sets.patch("agent", &PatchParams::default(), &image("i:1")).await.expect("patched");
    cluster.until("both are back", |seen| is_complete(seen, &["node-1", "node-2"], "i:1")).await;
    let revisions = cluster.seen.controller_revisions.in_namespace("default");
    let mut numbers: Vec<_> = revisions.iter().map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3]);
    sets.delete("agent", &DeleteParams::default()).await.expect("deleted");
    cluster
        .until("all is gone", |seen| seen.pods.count() == 0 && seen.controller_revisions.count() == 0)
        .await;
}

#[tokio::test]
async fn controllers_that_begin_anew_make_no_second_pod_on_a_node() {
    let mut cluster = Cluster::new().await;
    for name in ["node-2", "node-3", "node-4"] {
        cluster.add_node(name).await;
    }
    cluster.create::<DaemonSet>(set()).await;
    cluster.until("the first is there", |seen| seen.pods.count() > 0).await;
    cluster.stop().await;
    cluster.start();
    let nodes = ["node-1", "node-2", "node-3", "node-4"];
    cluster.until("each has one", |seen| is_complete(seen, &nodes, "i:1")).await;
}
