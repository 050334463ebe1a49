//! Defaults of the kinds that hold pod templates.

use serde_json::{Value, json};

use super::pod::template_spec;
use crate::tree::{default_field, default_pointer, field, is_set, items_mut, object_field, text};

fn template(object: &mut Value) {
    if let Some(spec) = object.pointer_mut("/spec/template/spec") {
        template_spec(spec);
    }
}

pub(super) fn replication_controller(object: &mut Value) {
    template(object);
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if labels.as_object().is_some_and(|labels| !labels.is_empty()) {
        default_pointer(&mut object["metadata"], "labels", labels.clone());
        default_pointer(&mut object["spec"], "selector", labels);
    }
    default_pointer(&mut object["spec"], "replicas", 1);
}

pub(super) fn deployment(object: &mut Value) {
    template(object);
    let spec = &mut object["spec"];
    default_pointer(spec, "replicas", 1);
    object_field(spec, "strategy");
    let strategy = &mut spec["strategy"];
    default_field(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        object_field(strategy, "rollingUpdate");
        default_pointer(&mut strategy["rollingUpdate"], "maxUnavailable", "25%");
        default_pointer(&mut strategy["rollingUpdate"], "maxSurge", "25%");
    }
    default_pointer(spec, "revisionHistoryLimit", 10);
    default_pointer(spec, "progressDeadlineSeconds", 600);
}

pub(super) fn replica_set(object: &mut Value) {
    template(object);
    default_pointer(&mut object["spec"], "replicas", 1);
}

pub(super) fn daemon_set(object: &mut Value) {
    template(object);
    let spec = &mut object["spec"];
    object_field(spec, "updateStrategy");
    let strategy = &mut spec["updateStrategy"];
    default_field(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        object_field(strategy, "rollingUpdate");
        default_pointer(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
        default_pointer(&mut strategy["rollingUpdate"], "maxSurge", 0);
    }
    default_pointer(spec, "revisionHistoryLimit", 10);
    object_field(&mut object["metadata"], "annotations")
        .entry("deprecated.daemonset.template.generation")
        .or_insert_with(|| "1".into());
}

pub(super) fn stateful_set(object: &mut Value) {
    template(object);
    let spec = &mut object["spec"];
    default_field(spec, "podManagementPolicy", "OrderedReady");
    object_field(spec, "updateStrategy");
    let strategy = &mut spec["updateStrategy"];
    default_field(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        object_field(strategy, "rollingUpdate");
        default_pointer(&mut strategy["rollingUpdate"], "partition", 0);
    }
    object_field(spec, "persistentVolumeClaimRetentionPolicy");
    let retention = &mut spec["persistentVolumeClaimRetentionPolicy"];
    default_field(retention, "whenDeleted", "Retain");
    default_field(retention, "whenScaled", "Retain");
    default_pointer(spec, "replicas", 1);
    default_pointer(spec, "revisionHistoryLimit", 10);
    for claim in items_mut(spec, "volumeClaimTemplates") {
        default_pointer(&mut claim["spec"], "volumeMode", "Filesystem");
        default_field(&mut claim["status"], "phase", "Pending");
        default_field(claim, "apiVersion", "v1");
        default_field(claim, "kind", "PersistentVolumeClaim");
    }
}

pub(super) fn job(object: &mut Value) {
    job_spec(&mut object["spec"]);
    let uid = text(&object["metadata"]["uid"]).to_owned();
    let name = text(&object["metadata"]["name"]).to_owned();
    let spec = &mut object["spec"];
    let is_indexed = spec["completionMode"] == "Indexed";
    let (no_completions, no_parallelism) = (!is_set(&spec["completions"]), !is_set(&spec["parallelism"]));
    if no_completions && no_parallelism && !is_indexed {
        spec["completions"] = 1.into();
    }
    default_pointer(spec, "parallelism", 1);
    let limit = if is_set(&spec["backoffLimitPerIndex"]) { i32::MAX } else { 6 };
    default_pointer(spec, "backoffLimit", limit);
    default_pointer(spec, "completionMode", "NonIndexed");
    default_pointer(spec, "suspend", false);
    default_pointer(spec, "manualSelector", false);
    let policy = if is_set(&spec["podFailurePolicy"]) { "Failed" } else { "TerminatingOrFailed" };
    default_pointer(spec, "podReplacementPolicy", policy);
    if spec["manualSelector"] == true || uid.is_empty() {
        return;
    }
    let labels = [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    object_field(&mut spec["template"], "metadata");
    let template_labels = object_field(&mut spec["template"]["metadata"], "labels");
    for (label, value) in labels {
        template_labels.entry(label).or_insert_with(|| value.clone().into());
    }
    let selector = object_field(spec, "selector");
    selector.entry("matchLabels").or_insert_with(|| json!({})).as_object_mut().map(|labels| {
        labels.entry("batch.kubernetes.io/controller-uid").or_insert_with(|| uid.clone().into())
    });
    let no_labels = object["metadata"]["labels"].as_object().is_none_or(serde_json::Map::is_empty);
    if no_labels {
        object["metadata"]["labels"] = object["spec"]["template"]["metadata"]["labels"].clone();
    }
}

/// Defaults that a Job and the job template of a CronJob share.
fn job_spec(spec: &mut Value) {
    template_spec(&mut spec["template"]["spec"]);
    if let Some(policy) = field(spec, "podFailurePolicy") {
        for rule in items_mut(policy, "rules") {
            for condition in items_mut(rule, "onPodConditions") {
                default_field(condition, "status", "True");
            }
        }
    }
}

pub(super) fn cron_job(object: &mut Value) {
    let spec = &mut object["spec"];
    job_spec(&mut spec["jobTemplate"]["spec"]);
    default_field(spec, "concurrencyPolicy", "Allow");
    default_pointer(spec, "suspend", false);
    default_pointer(spec, "successfulJobsHistoryLimit", 3);
    default_pointer(spec, "failedJobsHistoryLimit", 1);
}
