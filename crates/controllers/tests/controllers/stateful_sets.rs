//! StatefulSets against an API server.

use informer::ObjectKey;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::cluster::Cluster;

fn set(name: &str, replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    })
}

fn is_complete(set: &StatefulSet, replicas: i32) -> bool {
    let Some(status) = &set.status else { return false };
    status.observed_generation == set.metadata.generation
        && [Some(status.replicas), status.ready_replicas, status.updated_replicas]
            .iter()
            .all(|count| *count == Some(replicas))
        && status.current_revision == status.update_revision
}

async fn complete(cluster: &Cluster, name: &str, replicas: i32) {
    let key = ObjectKey::new("default", name);
    cluster
        .until(&format!("{name} has {replicas} pods"), |seen| {
            seen.stateful_sets.get(&key).is_some_and(|set| is_complete(&set, replicas))
                && seen.pods.in_namespace("default").len() == usize::try_from(replicas).unwrap()
        })
        .await;
}

fn names(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.seen.pods.in_namespace("default");
    pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
}

#[tokio::test]
async fn a_set_comes_up_is_scaled_updated_and_rolled_back() {
    let cluster = Cluster::new().await;
    controllers::provide_default_class(&cluster.client).await;
    cluster.create::<StatefulSet>(set("web", 3, "i:1")).await;
    complete(&cluster, "web", 3).await;
    assert_eq!(names(&cluster), ["web-0", "web-1", "web-2"]);
    let claims = || async {
        let list = cluster.api::<PersistentVolumeClaim>().list(&Default::default()).await.unwrap();
        list.items.into_iter().map(|claim| claim.metadata.name.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(claims().await, ["data-web-0", "data-web-1", "data-web-2"]);

    let sets = cluster.api::<StatefulSet>();
    let patch = |patch: Value| {
        let sets = sets.clone();
        async move { sets.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap() }
    };
    patch(json!({"spec": {"replicas": 1}})).await;
    complete(&cluster, "web", 1).await;
    assert_eq!(claims().await.len(), 3, "claims stay");
    patch(json!({"spec": {"replicas": 2}})).await;
    complete(&cluster, "web", 2).await;

    let image = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
    patch(image("i:2")).await;
    complete(&cluster, "web", 2).await;
    patch(image("i:1")).await;
    complete(&cluster, "web", 2).await;
    let revisions = cluster.seen.controller_revisions.in_namespace("default");
    let mut numbers: Vec<_> = revisions.iter().map(|revision| revision.revision).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [2, 3], "the first is the newest again");
    let pods = cluster.seen.pods.in_namespace("default");
    let images: Vec<_> =
        pods.iter().map(|pod| pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap()).collect();
    assert_eq!(images, ["i:1", "i:1"]);

    // A pod that somebody deletes comes back under its name.
    let uid = pods[0].metadata.uid.clone();
    cluster.api::<Pod>().delete("web-0", &DeleteParams::default()).await.unwrap();
    cluster
        .until("web-0 is another one", |seen| {
            let pod = seen.pods.get(&ObjectKey::new("default", "web-0"));
            pod.is_some_and(|pod| pod.metadata.uid != uid)
        })
        .await;
    complete(&cluster, "web", 2).await;
}

#[tokio::test]
async fn claims_go_with_pods_and_set_where_the_policy_says_so() {
    let cluster = Cluster::new().await;
    controllers::provide_default_class(&cluster.client).await;
    let mut object = set("web", 2, "i:1");
    object["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
    cluster.create::<StatefulSet>(object).await;
    complete(&cluster, "web", 2).await;
    let sets = cluster.api::<StatefulSet>();
    let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
    sets.patch("web", &PatchParams::default(), &patch).await.unwrap();
    let has = |seen: &controllers::Informers, count| {
        seen.persistent_volume_claims.in_namespace("default").len() == count
    };
    cluster.until("one claim is left", |seen| has(seen, 1)).await;
    sets.delete("web", &DeleteParams::default()).await.unwrap();
    cluster.until("no claim is left", |seen| has(seen, 0)).await;
}

#[tokio::test]
async fn controllers_that_begin_anew_in_the_middle_make_no_pod_twice() {
    let mut cluster = Cluster::new().await;
    controllers::provide_default_class(&cluster.client).await;
    let mut object = set("web", 8, "i:1");
    object["spec"]["podManagementPolicy"] = json!("Parallel");
    cluster.create::<StatefulSet>(object).await;
    cluster.until("some are there", |seen| seen.pods.in_namespace("default").len() >= 2).await;
    cluster.stop().await;
    cluster.start();
    complete(&cluster, "web", 8).await;
}
