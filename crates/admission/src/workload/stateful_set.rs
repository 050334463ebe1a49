//! StatefulSet.

use serde_json::{Value, json};

use super::{
    Place, Review, SPEC_TEMPLATE, is_empty, never_less, replica_counts, rollout, start,
    with_template_defaults,
};
use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::persistent_volume_claim;
use crate::request::Warning;
use crate::scalars::{label, not_negative, required_label};
use crate::tree::{default_field, default_pointer, is_set, items, items_mut, object_field, text};

/// What an update may change.
const FREE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

const ONLY_FREE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                         'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

pub(crate) struct StatefulSets;

impl KindRules for StatefulSets {
    fn template(&self) -> Option<Place> {
        Some(SPEC_TEMPLATE)
    }

    fn default(&self, object: &mut Value) {
        let Some(spec) = with_template_defaults(object) else { return };
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
            object_field(claim, "status");
            default_field(&mut claim["status"], "phase", "Pending");
            default_field(claim, "apiVersion", "v1");
            default_field(claim, "kind", "PersistentVolumeClaim");
        }
    }

    fn start(&self, object: &mut Value) {
        start(object, json!({"availableReplicas": 0, "replicas": 0}));
    }

    fn review(&self, review: &mut Review<'_>, object: &Value) {
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        let policy = text(&spec["podManagementPolicy"]);
        if !["OrderedReady", "Parallel"].contains(&policy) {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            review.errors.invalid(&path.child("podManagementPolicy"), policy, detail);
        }
        strategy(review.errors, &path.child("updateStrategy"), &spec["updateStrategy"]);
        let retention = path.child("persistentVolumeClaimRetentionPolicy");
        for name in ["whenDeleted", "whenScaled"] {
            let policy = text(&spec["persistentVolumeClaimRetentionPolicy"][name]);
            if !["Retain", "Delete"].contains(&policy) {
                review.errors.not_supported(&retention.child(name), policy, &["Retain", "Delete"]);
            }
        }
        review.not_negative(spec, &["replicas", "minReadySeconds"]);
        not_negative(review.errors, &path.child("ordinals.start"), &spec["ordinals"]["start"]);
        let service = text(&spec["serviceName"]);
        // A service's name becomes part of host names. What is stored stays.
        if !service.is_empty() && review.old.is_none_or(|old| old["spec"]["serviceName"] != service) {
            label(review.errors, &path.child("serviceName"), service);
        }
        let claims = items(&spec["volumeClaimTemplates"]);
        for (index, claim) in claims.iter().enumerate() {
            let at = path.child("volumeClaimTemplates").index(index).child("metadata").child("name");
            required_label(review.errors, &at, text(&claim["metadata"]["name"]));
            // They never change, so what is stored needs no second look.
            if review.old.is_none() {
                let at = path.child("volumeClaimTemplates").index(index).child("spec");
                persistent_volume_claim::validate_spec(review.errors, &at, &claim["spec"]);
            }
        }
        let selector = &spec["selector"];
        if review.selector(spec, "statefulset") {
            if !is_set(selector) || !is_empty(selector) {
                review.selected(object);
            }
            review.pod_template(object, claims);
        } else {
            review.errors.invalid(&path.child("selector"), selector.clone(), "");
        }
        review.lasting(object, "StatefulSet");
        if spec["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
            let told = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
            review.warnings.push(Warning(told.to_owned()));
        }
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        let is_same =
            |name: &&String| FREE.contains(&name.as_str()) || old["spec"][*name] == new["spec"][*name];
        let names = |object: &'_ Value| -> Vec<String> {
            object["spec"].as_object().into_iter().flat_map(|spec| spec.keys().cloned()).collect()
        };
        if !names(old).iter().chain(&names(new)).all(|name| is_same(&name)) {
            errors.forbidden(&Path::root("spec"), ONLY_FREE);
        }
    }

    fn validate_status(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
        replica_counts(errors, &new["status"], &parts, "status.readyReplicas");
        never_less(errors, old, new, "collisionCount");
    }
}

fn strategy(errors: &mut FieldErrors, path: &Path, strategy: &Value) {
    let (at, rolling) = (path.child("rollingUpdate"), &strategy["rollingUpdate"]);
    match text(&strategy["type"]) {
        "OnDelete" => {
            if is_set(rolling) {
                errors.invalid_shown(&at, shown(rolling), "only allowed for updateStrategy 'RollingUpdate'");
            }
        }
        "RollingUpdate" => {
            not_negative(errors, &at.child("partition"), &rolling["partition"]);
            let (at, unavailable) = (at.child("maxUnavailable"), &rolling["maxUnavailable"]);
            if is_set(unavailable) {
                rollout::count_or_percentage(errors, &at, unavailable);
                if rollout::amount(unavailable) == 0 {
                    errors.invalid(&at, unavailable.clone(), "cannot be 0");
                }
                rollout::at_most_all(errors, &at, unavailable);
            }
        }
        other => {
            let rolling = if is_set(rolling) { shown(rolling) } else { "null".to_owned() };
            let value = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", Value::from(other));
            errors.invalid_shown(path, value, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

/// As upstream shows it, in Go's names.
fn shown(rolling: &Value) -> String {
    let partition = rolling["partition"].as_i64().unwrap_or(0);
    format!("{{\"Partition\":{partition},\"MaxUnavailable\":{}}}", rolling["maxUnavailable"])
}
