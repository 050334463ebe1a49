//! Claims and volumes against an API server; the pretended nodes have no directories, so the tests let volumes go in their stead.

use controllers::Informers;
use informer::ObjectKey;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::cluster::Cluster;

fn claim(name: &str, change: Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    for (field, value) in change.as_object().expect("fields") {
        spec[field] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec})
}

fn found(seen: &Informers, name: &str) -> Option<PersistentVolumeClaim> {
    seen.persistent_volume_claims.get(&ObjectKey::new("default", name)).map(|claim| (*claim).clone())
}

fn phase(seen: &Informers, name: &str) -> String {
    found(seen, name).and_then(|claim| claim.status?.phase).unwrap_or_default()
}

fn volume_phase(seen: &Informers, name: &str) -> String {
    let volume = seen.persistent_volumes.get(&ObjectKey::new("", name));
    volume.and_then(|volume| volume.status.as_ref()?.phase.clone()).unwrap_or_default()
}

async fn with_class() -> Cluster {
    let cluster = Cluster::new().await;
    controllers::provide_default_class(&cluster.client).await;
    cluster
}

#[tokio::test]
async fn a_claim_is_answered_by_a_directory_which_goes_with_it() {
    let cluster = with_class().await;
    let made: PersistentVolumeClaim = cluster.create(claim("data", json!({}))).await;
    cluster.until("it is bound", |seen| phase(seen, "data") == "Bound").await;
    let volume = format!("pvc-{}", made.metadata.uid.expect("a uid"));
    cluster.until("the volume says so too", |seen| volume_phase(seen, &volume) == "Bound").await;
    let bound = found(&cluster.seen, "data").expect("there");
    assert_eq!(bound.spec.expect("a spec").volume_name.as_deref(), Some(&*volume));
    assert_eq!(bound.status.expect("a status").capacity.expect("told")["storage"].0, "1Gi");

    // A pod on a node keeps it.
    cluster
        .create::<Pod>(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}}))
        .await;
    let key = ObjectKey::new("default", "p");
    cluster
        .until("the pod runs", |seen| {
            let pod = seen.pods.get(&key);
            pod.is_some_and(|pod| {
                pod.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Running"))
            })
        })
        .await;
    let claims = cluster.api::<PersistentVolumeClaim>();
    claims.delete("data", &DeleteParams::default()).await.expect("asked for");
    cluster
        .until("it is on its way out", |seen| {
            found(seen, "data").is_some_and(|claim| claim.metadata.deletion_timestamp.is_some())
        })
        .await;
    assert_eq!(phase(&cluster.seen, "data"), "Bound");
    cluster.api::<Pod>().delete("p", &DeleteParams::default()).await.expect("asked for");
    cluster.until("it is gone with its last pod", |seen| found(seen, "data").is_none()).await;
    let only_directory = |seen: &Informers| {
        let volume = seen.persistent_volumes.get(&ObjectKey::new("", &*volume));
        volume.is_some_and(|volume| {
            volume.metadata.deletion_timestamp.is_some()
                && volume.metadata.finalizers.as_deref() == Some(&["coracle.dev/directory".to_owned()])
        })
    };
    cluster.until("the volume waits for its node", only_directory).await;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    let patch = Patch::Merge(json!({"metadata": {"finalizers": []}}));
    volumes.patch(&volume, &PatchParams::default(), &patch).await.expect("let go");
    cluster.until("it is gone", |seen| seen.persistent_volumes.count() == 0).await;
}

#[tokio::test]
async fn a_volume_made_by_hand_answers_a_claim_of_its_class_and_is_kept() {
    let cluster = with_class().await;
    cluster.create::<PersistentVolumeClaim>(claim("data", json!({"storageClassName": "manual"}))).await;
    cluster
        .until("it is protected", |seen| {
            found(seen, "data").is_some_and(|claim| claim.metadata.finalizers.is_some())
        })
        .await;
    assert_eq!(phase(&cluster.seen, "data"), "Pending");
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    let volume = serde_json::from_value(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}, "storageClassName": "manual",
            "hostPath": {"path": "/srv"}}}))
    .expect("a volume");
    volumes.create(&PostParams::default(), &volume).await.expect("created");
    cluster
        .until("both are bound", |seen| {
            phase(seen, "data") == "Bound" && volume_phase(seen, "disk") == "Bound"
        })
        .await;
    let status = found(&cluster.seen, "data").and_then(|claim| claim.status).expect("a status");
    assert_eq!(status.capacity.expect("told")["storage"].0, "5Gi");
    let claims = cluster.api::<PersistentVolumeClaim>();
    claims.delete("data", &DeleteParams::default()).await.expect("deleted");
    cluster.until("the volume is released", |seen| volume_phase(seen, "disk") == "Released").await;
    volumes.delete("disk", &DeleteParams::default()).await.expect("deleted");
    cluster.until("it is gone", |seen| seen.persistent_volumes.count() == 0).await;
}

#[tokio::test]
async fn controllers_that_begin_anew_bind_each_claim_to_one_volume() {
    let mut cluster = with_class().await;
    for number in 0..12 {
        cluster.create::<PersistentVolumeClaim>(claim(&format!("data-{number}"), json!({}))).await;
        if number % 4 == 3 {
            cluster.stop().await;
            cluster.start();
        }
    }
    cluster
        .until("all are bound", |seen| {
            let claims = seen.persistent_volume_claims.in_namespace("default");
            let is_bound =
                |name: &Option<String>| phase(seen, name.as_deref().unwrap_or_default()) == "Bound";
            claims.len() == 12 && claims.iter().all(|claim| is_bound(&claim.metadata.name))
        })
        .await;
    assert_eq!(cluster.seen.persistent_volumes.count(), 12);
}
