//! The caches that controllers share: one list and one watch a kind, however many controllers read it.

use std::future::Future;
use std::pin::Pin;

use informer::{Informer, Kind};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
    ResourceQuota, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use tokio_util::sync::CancellationToken;

/// A task that fills caches.
type Follow = Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! informers {
    ($($(#[$doc:meta])* $name:ident: $kind:ty,)*) => {
        /// The caches, by kind.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "each is the cache of the kind that it is named after")]
        pub struct Informers {
            $($(#[$doc])* pub $name: Informer<$kind>,)*
        }

        impl Informers {
            /// Caches that nothing fills yet.
            pub fn idle() -> Informers {
                Informers { $($name: Informer::idle(),)* }
            }

            /// The tasks that fill them, until `shutdown`.
            fn follows(&self, client: &kube::Client, shutdown: &CancellationToken) -> Vec<Follow> {
                vec![$(follow(&self.$name, client, shutdown),)*]
            }
        }
    };
}

informers! {
    pods: Pod,
    nodes: Node,
    namespaces: Namespace,
    services: Service,
    endpoints: Endpoints,
    endpoint_slices: EndpointSlice,
    replication_controllers: ReplicationController,
    replica_sets: ReplicaSet,
    deployments: Deployment,
    stateful_sets: StatefulSet,
    daemon_sets: DaemonSet,
    controller_revisions: ControllerRevision,
    jobs: Job,
    cron_jobs: CronJob,
    persistent_volume_claims: PersistentVolumeClaim,
    persistent_volumes: PersistentVolume,
    storage_classes: StorageClass,
    resource_quotas: ResourceQuota,
}

fn follow<K: Kind>(informer: &Informer<K>, client: &kube::Client, shutdown: &CancellationToken) -> Follow {
    Box::pin(informer.clone().follow(Api::all(client.clone()), "", shutdown.clone()))
}

impl Informers {
    /// Fills all of them from `client`, until `shutdown`.
    pub async fn follow(self, client: kube::Client, shutdown: CancellationToken) {
        futures::future::join_all(self.follows(&client, &shutdown)).await;
    }
}
