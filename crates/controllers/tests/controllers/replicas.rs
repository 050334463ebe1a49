//! Replica sets, replication controllers and deployments against a real API server: what goes wrong with them.

use std::sync::Arc;

use informer::ObjectKey;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod, ReplicationController};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;

fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i:1"}]},
    })
}

fn replica_set(name: &str, app: &str, replicas: i32) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": template(app)},
    })
}

/// The pods whose controller has this name, as far as they are known.
fn pods_of(pods: &[Arc<Pod>], controller: &str) -> Vec<Arc<Pod>> {
    let is_its = |pod: &&Arc<Pod>| {
        let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
        owners.iter().any(|owner| owner.name == controller && owner.controller == Some(true))
    };
    pods.iter().filter(is_its).cloned().collect()
}

async fn events(cluster: &Cluster, reason: &str) -> Vec<String> {
    let listed =
        cluster.api::<Event>().list(&ListParams::default().fields(&format!("reason={reason}"))).await;
    listed.expect("events").items.into_iter().filter_map(|event| event.message).collect()
}

#[tokio::test]
async fn pods_that_fail_at_once_are_replaced_slowly_and_the_status_says_why() {
    let mut cluster = Cluster::bare().await;
    cluster.start();
    cluster.create::<ReplicaSet>(replica_set("web", "web", 1)).await;
    // There is no node; the test refuses the pods.
    for round in 1..=2 {
        cluster.until("there is another pod", |seen| seen.pods.count() == round).await;
        for pod in cluster.seen.pods.all() {
            let name = pod.metadata.name.as_deref().expect("a name");
            let refused = json!({"status": {"phase": "Failed", "reason": "NodeAffinity"}});
            cluster
                .api::<Pod>()
                .patch_status(name, &PatchParams::default(), &Patch::Merge(refused))
                .await
                .expect("patched");
        }
    }
    cluster
        .until("the status says that it waits", |seen| {
            let set = seen.replica_sets.get(&ObjectKey::new("default", "web")).expect("there");
            let conditions = set.status.as_ref().and_then(|status| status.conditions.clone());
            conditions.into_iter().flatten().any(|condition| {
                condition.type_ == "ReplicaFailure"
                    && condition.reason.as_deref() == Some("BackOff")
                    && condition.message.is_some_and(|message| message.starts_with("2 pods failed"))
            })
        })
        .await;
    cluster.until("after the wait there is another", |seen| seen.pods.count() == 3).await;
    cluster
        .until("and nothing is said any more", |seen| {
            let set = seen.replica_sets.get(&ObjectKey::new("default", "web")).expect("there");
            set.status.as_ref().is_some_and(|status| status.conditions.is_none())
        })
        .await;
    cluster.stop().await;
    assert_eq!(events(&cluster, "BackOff").await.len(), 1);
    assert_eq!(events(&cluster, "SuccessfulCreate").await.len(), 3);
}

#[tokio::test]
async fn two_controllers_that_choose_the_same_pods_each_keep_their_own_and_are_told() {
    let mut cluster = Cluster::new().await;
    for name in ["one", "two"] {
        let controller = json!({
            "metadata": {"name": name},
            "spec": {"replicas": 2, "selector": {"app": "web"}, "template": template("web")},
        });
        cluster.create::<ReplicationController>(controller).await;
        cluster
            .until("it has its pods", |seen| {
                let controller = seen.replication_controllers.get(&ObjectKey::new("default", name));
                let status = controller.and_then(|controller| controller.status.clone());
                status.is_some_and(|status| status.available_replicas == Some(2))
            })
            .await;
    }
    let pods = cluster.seen.pods.all();
    assert_eq!((pods_of(&pods, "one").len(), pods_of(&pods, "two").len(), pods.len()), (2, 2, 4));
    cluster.stop().await;
    let told = events(&cluster, "SelectorOverlap").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("selector of ReplicationController one:"), "{told:?}");
}

#[tokio::test]
async fn a_deployment_whose_replica_sets_name_is_taken_takes_another() {
    let cluster = Cluster::new().await;
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template("web")},
    });
    cluster.create::<Deployment>(deployment.clone()).await;
    cluster.until("it has a replica set", |seen| seen.replica_sets.count() == 1).await;
    let taken = cluster.seen.replica_sets.all()[0].metadata.name.clone().expect("a name");
    cluster.api::<Deployment>().delete("web", &DeleteParams::background()).await.expect("deleted");
    cluster
        .until("everything is gone", |seen| seen.replica_sets.count() == 0 && seen.pods.count() == 0)
        .await;
    cluster.create::<ReplicaSet>(replica_set(&taken, "other", 0)).await;
    cluster.create::<Deployment>(deployment).await;
    cluster
        .until("it is available", |seen| {
            let deployment = seen.deployments.get(&ObjectKey::new("default", "web"));
            let status = deployment.and_then(|deployment| deployment.status.clone()).unwrap_or_default();
            status.available_replicas == Some(1) && status.collision_count == Some(1)
        })
        .await;
    let names: Vec<_> = cluster.seen.replica_sets.all().iter().map(|set| set.metadata.name.clone()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let foreign = cluster.seen.replica_sets.get(&ObjectKey::new("default", taken)).expect("there");
    assert_eq!(foreign.metadata.owner_references, None, "it was left alone");
}

#[tokio::test]
async fn a_pod_that_no_longer_fits_is_let_go_and_one_that_fits_is_taken_in() {
    let cluster = Cluster::new().await;
    cluster.create::<ReplicaSet>(replica_set("web", "web", 2)).await;
    cluster.until("it has two pods", |seen| pods_of(&seen.pods.all(), "web").len() == 2).await;
    let pods = cluster.api::<Pod>();
    let first = cluster.seen.pods.all()[0].metadata.name.clone().expect("a name");
    let label = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"app": value}}}));
    pods.patch(&first, &PatchParams::default(), &label("debug")).await.expect("patched");
    cluster
        .until("it is nobody's and another is there", |seen| {
            let all = seen.pods.all();
            all.len() == 3
                && pods_of(&all, "web").iter().all(|pod| pod.metadata.name.as_ref() != Some(&first))
        })
        .await;
    // It comes back: now there is one too many.
    pods.patch(&first, &PatchParams::default(), &label("web")).await.expect("patched");
    cluster
        .until("two are left", |seen| {
            let all = seen.pods.all();
            all.len() == 2 && pods_of(&all, "web").len() == 2
        })
        .await;
}
