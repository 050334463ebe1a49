//! Room in a namespace: who was refused by a quota waits longer and longer between tries, up to minutes. When the quota changes,
//! or something goes that counted, its controllers look again at once.

use std::sync::Arc;

use informer::Change;
use k8s_openapi::api::core::v1::Pod;

use crate::Informers;
use crate::backends::has_ended;
use crate::queue::Queue;

/// Lets a controller whose objects make pods and claims try again when there is room.
pub(crate) fn retry_when_there_is_room(informers: &Informers, queue: &Arc<Queue>) {
    let retried = Arc::clone(queue);
    informers.resource_quotas.on_change(move |change| match change {
        // One that comes makes no room.
        Change::Added(_) => {}
        Change::Changed { now: quota, .. } | Change::Removed(quota) => {
            retried.retry_failed_in(quota.metadata.namespace.as_deref().unwrap_or_default());
        }
    });
    let (retried, quotas) = (Arc::clone(queue), informers.resource_quotas.clone());
    let retry_in = Arc::new(move |namespace: Option<&str>| {
        let namespace = namespace.unwrap_or_default();
        if !quotas.in_namespace(namespace).is_empty() {
            retried.retry_failed_in(namespace);
        }
    });
    let retry = Arc::clone(&retry_in);
    informers.pods.on_change(move |change| {
        if makes_room(change) {
            retry(change.object().metadata.namespace.as_deref());
        }
    });
    informers.persistent_volume_claims.on_change(move |change| {
        if let Change::Removed(claim) = change {
            retry_in(claim.metadata.namespace.as_deref());
        }
    });
}

/// Whether less of a quota is used after this change of a pod.
fn makes_room(change: &Change<Pod>) -> bool {
    match change {
        Change::Added(_) => false,
        Change::Removed(_) => true,
        Change::Changed { before, now } => !has_ended(before) && has_ended(now),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use informer::ObjectKey;
    use serde_json::json;

    use super::*;

    /// A queue with one object that was refused so often that it waits for minutes.
    async fn refused(informers: &Informers) -> Arc<Queue> {
        let queue = Arc::new(Queue::default());
        retry_when_there_is_room(informers, &queue);
        queue.add(ObjectKey::new("shop", "web"));
        let key = queue.next().await;
        for _ in 0..20 {
            queue.failed(&key);
        }
        queue.done(&key);
        let first = queue.next().await;
        queue.failed(&first);
        queue.done(&first);
        queue
    }

    /// Whether there is something to look at now.
    fn is_looked_at(queue: &Queue) -> bool {
        queue.next().now_or_never() == Some(ObjectKey::new("shop", "web"))
    }

    fn quota(namespace: &str, version: &str, pods: &str) -> k8s_openapi::api::core::v1::ResourceQuota {
        serde_json::from_value(json!({
            "metadata": {"name": "few", "namespace": namespace, "uid": namespace, "resourceVersion": version},
            "spec": {"hard": {"pods": pods}},
        }))
        .expect("a quota")
    }

    fn pod(namespace: &str, version: &str, phase: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": namespace, "uid": format!("{namespace}-p"), "resourceVersion": version},
            "status": {"phase": phase},
        }))
        .expect("a pod")
    }

    #[tokio::test]
    async fn who_was_refused_for_minutes_is_looked_at_as_soon_as_the_quota_or_a_pod_makes_room() {
        let informers = Informers::idle();
        informers.resource_quotas.learn(quota("shop", "1", "2"));
        informers.resource_quotas.learn(quota("other", "1", "2"));
        informers.pods.learn(pod("shop", "2", "Running"));
        informers.pods.learn(pod("other", "2", "Running"));
        informers.pods.learn(pod("free", "2", "Running"));

        let queue = refused(&informers).await;
        assert!(!is_looked_at(&queue), "nothing has happened");

        let queue = refused(&informers).await;
        informers.resource_quotas.learn(quota("other", "3", "9"));
        informers.pods.learn(pod("other", "4", "Succeeded"));
        informers.pods.learn_deleted("free-p", &ObjectKey::new("free", "p"));
        assert!(!is_looked_at(&queue), "elsewhere");

        let queue = refused(&informers).await;
        informers.resource_quotas.learn(quota("shop", "5", "9"));
        assert!(is_looked_at(&queue), "a larger quota");

        let queue = refused(&informers).await;
        informers.pods.learn(pod("shop", "6", "Succeeded"));
        assert!(is_looked_at(&queue), "a pod that ended");

        let queue = refused(&informers).await;
        informers.pods.learn_deleted("shop-p", &ObjectKey::new("shop", "p"));
        assert!(is_looked_at(&queue), "a pod that went");

        // What is being refused just now does not miss it.
        let queue = refused(&informers).await;
        queue.add(ObjectKey::new("shop", "web"));
        let key = queue.next().await;
        informers.resource_quotas.learn_deleted("shop", &ObjectKey::new("shop", "few"));
        queue.failed(&key);
        queue.done(&key);
        assert!(is_looked_at(&queue), "no quota any more");
    }
}
