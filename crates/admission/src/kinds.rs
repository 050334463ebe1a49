//! Which kinds have rules of their own: one file a kind and one row here; nothing else knows these kinds.

use schema::Resource;

use crate::kind_rules::KindRules;
use crate::workload::{
    controller_revision::ControllerRevisions, cron_job::CronJobs, daemon_set::DaemonSets,
    deployment::Deployments, job::Jobs, pod_template::PodTemplates, replica_set::ReplicaSets,
    replication_controller::ReplicationControllers, stateful_set::StatefulSets,
};
use crate::{
    endpoint_slice, endpoints, event, ingress, ingress_class, limit_range, namespace, network_policy,
    persistent_volume, persistent_volume_claim, pod_disruption_budget, priority_class, resource_quota,
    runtime_class, storage_class,
};

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
