//! The shared caches against a real API server.

use informer::ObjectKey;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::DeleteParams;
use serde_json::json;

use crate::cluster::Cluster;

#[tokio::test]
async fn a_cache_follows_what_happens() {
    let cluster = Cluster::bare().await;
    let service = json!({"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}});
    cluster.create::<Service>(service).await;
    let key = ObjectKey::new("default", "web");
    cluster.until("the service is known", |seen| seen.services.get(&key).is_some()).await;
    cluster.api::<Service>().delete("web", &DeleteParams::default()).await.expect("deleted");
    cluster.until("the service is gone", |seen| seen.services.get(&key).is_none()).await;
    assert!(cluster.seen.services.is_synced());
    assert!(
        cluster.seen.services.all().iter().all(|service| service.metadata.managed_fields.is_none()),
        "managers of fields are not kept"
    );
}

#[tokio::test]
async fn what_was_written_is_known_before_the_watch_brings_it() {
    let cluster = Cluster::bare().await;
    cluster.seen.pods.synced().await;
    for round in 0..20 {
        let pod = json!({"metadata": {"name": format!("p{round}")}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let created: Pod = cluster.create(pod).await;
        cluster.seen.pods.learn(created);
        assert_eq!(cluster.seen.pods.count(), round + 1);
    }
}

#[tokio::test]
async fn a_node_that_pretends_runs_pods_and_lets_them_go_also_when_controllers_begin_anew() {
    let mut cluster = Cluster::new().await;
    for round in ["first", "second"] {
        let pod = json!({"metadata": {"name": round}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        cluster.create::<Pod>(pod).await;
        let key = ObjectKey::new("default", round);
        let runs =
            |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        cluster.until("the pod runs", |seen| seen.pods.get(&key).is_some_and(|pod| runs(&pod))).await;
        cluster.api::<Pod>().delete(round, &DeleteParams::default()).await.expect("deleted");
        cluster.until("the pod is gone", |seen| seen.pods.get(&key).is_none()).await;
        cluster.stop().await;
        cluster.start();
    }
}
