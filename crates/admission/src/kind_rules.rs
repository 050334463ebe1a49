//! What is special about a kind: defaults, checks, what an update may do. One file a kind and one row here; nothing else
//! knows these kinds.

use schema::Resource;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::request::Warning;
use crate::workload::{
    Place, Review, controller_revision::ControllerRevisions, cron_job::CronJobs, daemon_set::DaemonSets,
    deployment::Deployments, job::Jobs, pod_template::PodTemplates, replica_set::ReplicaSets,
    replication_controller::ReplicationControllers, stateful_set::StatefulSets,
};
use crate::{
    endpoint_slice, endpoints, event, ingress, ingress_class, limit_range, namespace, network_policy,
    persistent_volume, persistent_volume_claim, pod_disruption_budget, priority_class, resource_quota,
    runtime_class, storage_class,
};

/// The rules of a kind; what is not said here is the same for all.
pub(crate) trait KindRules: Sync {
    /// Where the pod template of the kind stands, if it has one.
    fn template(&self) -> Option<Place> {
        None
    }

    /// Writes into a new object what is made from its uid.
    fn generate(&self, _object: &mut Value) {}

    /// Fills in upstream's defaults. Doing it twice changes nothing.
    fn default(&self, _object: &mut Value) {}

    /// Sets what a new object starts with, whatever its creator wrote.
    fn start(&self, _object: &mut Value) {}

    /// Checks everything but the metadata.
    fn validate(&self, _errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, _object: &Value) {}

    /// Checks that need to know what the object replaces, or how its pod template is to be judged.
    fn review(&self, _review: &mut Review<'_>, _object: &Value) {}

    /// Checks a new object besides.
    fn validate_create(&self, _errors: &mut FieldErrors, _object: &Value) {}

    /// Takes over or sets what an update leaves to the server, before the checks.
    fn keep(&self, _old: &Value, _new: &mut Value) {}

    /// Checks what an update may not change.
    fn validate_update(&self, _errors: &mut FieldErrors, _old: &Value, _new: &Value) {}

    /// Whether an update is a new generation of what the object wants.
    fn is_new_generation(&self, old: &Value, new: &Value) -> bool {
        old["spec"] != new["spec"]
    }

    /// Checks what may be said in a status.
    fn validate_status(&self, _errors: &mut FieldErrors, _old: &Value, _new: &Value) {}
}

struct Plain;

impl KindRules for Plain {}

const RULES: &[(&str, &str, &dyn KindRules)] = &[
    ("", "Endpoints", &endpoints::Endpoints),
    ("", "LimitRange", &limit_range::LimitRange),
    ("", "Namespace", &namespace::Namespace),
    ("", "PersistentVolume", &persistent_volume::PersistentVolume),
    ("", "PersistentVolumeClaim", &persistent_volume_claim::PersistentVolumeClaim),
    ("", "PodTemplate", &PodTemplates),
    ("", "ReplicationController", &ReplicationControllers),
    ("", "ResourceQuota", &resource_quota::ResourceQuota),
    ("apps", "ControllerRevision", &ControllerRevisions),
    ("apps", "DaemonSet", &DaemonSets),
    ("apps", "Deployment", &Deployments),
    ("apps", "ReplicaSet", &ReplicaSets),
    ("apps", "StatefulSet", &StatefulSets),
    ("batch", "CronJob", &CronJobs),
    ("batch", "Job", &Jobs),
    ("discovery.k8s.io", "EndpointSlice", &endpoint_slice::EndpointSlice),
    ("events.k8s.io", "Event", &event::RegardingEvent),
    ("networking.k8s.io", "Ingress", &ingress::Ingress),
    ("networking.k8s.io", "IngressClass", &ingress_class::IngressClass),
    ("networking.k8s.io", "NetworkPolicy", &network_policy::NetworkPolicy),
    ("node.k8s.io", "RuntimeClass", &runtime_class::RuntimeClass),
    ("policy", "PodDisruptionBudget", &pod_disruption_budget::PodDisruptionBudget),
    ("scheduling.k8s.io", "PriorityClass", &priority_class::PriorityClass),
    ("storage.k8s.io", "StorageClass", &storage_class::StorageClass),
];

/// The rules of a kind.
pub(crate) fn rules(resource: &Resource) -> &'static dyn KindRules {
    RULES
        .iter()
        .find(|(group, kind, _)| (*group, *kind) == (resource.group, resource.kind))
        .map_or(&Plain, |(_, _, rules)| *rules)
}
