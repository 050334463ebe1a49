//! Deployment.

use serde_json::{Value, json};

use super::replica_set::replicated_template;
use super::{
    Place, Review, SPEC_TEMPLATE, fixed, never_less, replica_counts, rollout, start, with_template_defaults,
};
use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::tree::{default_field, default_pointer, is_set, object_field, text};

pub(crate) struct Deployments;

impl KindRules for Deployments {
    fn template(&self) -> Option<Place> {
        Some(SPEC_TEMPLATE)
    }

    fn default(&self, object: &mut Value) {
        let Some(spec) = with_template_defaults(object) else { return };
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

    fn start(&self, object: &mut Value) {
        start(object, json!({}));
    }

    /// Annotations count, too: they are copied to the ReplicaSets.
    fn is_new_generation(&self, old: &Value, new: &Value) -> bool {
        old["spec"] != new["spec"] || old["metadata"]["annotations"] != new["metadata"]["annotations"]
    }

    fn review(&self, review: &mut Review<'_>, object: &Value) {
        review.name(object);
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        review.not_negative(spec, &["replicas"]);
        replicated_template(review, object, "deployment");
        strategy(review.errors, &path.child("strategy"), &spec["strategy"]);
        review.not_negative(spec, &["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"]);
        let ready_seconds = spec["minReadySeconds"].as_i64().unwrap_or(0);
        if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64()
            && deadline <= ready_seconds
        {
            let at = path.child("progressDeadlineSeconds");
            review.errors.invalid(&at, deadline, "must be greater than minReadySeconds");
        }
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        fixed(errors, "selector", old, new);
    }

    fn validate_status(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        replica_counts(errors, &new["status"], &parts, "readyReplicas");
        never_less(errors, old, new, "collisionCount");
    }
}

fn strategy(errors: &mut FieldErrors, path: &Path, strategy: &Value) {
    let (at, rolling) = (path.child("rollingUpdate"), &strategy["rollingUpdate"]);
    match text(&strategy["type"]) {
        "Recreate" => {
            if is_set(rolling) {
                errors.forbidden(&at, "may not be specified when strategy `type` is 'Recreate'");
            }
        }
        "RollingUpdate" => {
            let places = [at.child("maxUnavailable"), at.child("maxSurge")];
            rollout::count_or_percentage(errors, &places[0], &rolling["maxUnavailable"]);
            rollout::count_or_percentage(errors, &places[1], &rolling["maxSurge"]);
            if rollout::amount(&rolling["maxUnavailable"]) == 0 && rollout::amount(&rolling["maxSurge"]) == 0
            {
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.invalid(&places[0], rolling["maxUnavailable"].clone(), detail);
            }
            rollout::at_most_all(errors, &places[0], &rolling["maxUnavailable"]);
        }
        _ => rollout::unknown_strategy(errors, path, strategy, &["Recreate", "RollingUpdate"]),
    }
}
