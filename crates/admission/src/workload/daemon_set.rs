//! DaemonSet.

use serde_json::{Value, json};

use super::{Place, Review, SPEC_TEMPLATE, counts, fixed, is_empty, never_less, rollout, start};
use crate::defaults::pod::template_spec;
use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::selector::label_selector;
use crate::tree::{default_field, default_pointer, field, is_set, object_field, text};

/// Counts the versions of the template: older than revisions, and still kept.
const GENERATION: &str = "deprecated.daemonset.template.generation";

const COUNTS: [&str; 9] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
    "collisionCount",
];

pub(crate) struct DaemonSets;

impl KindRules for DaemonSets {
    fn template(&self) -> Option<Place> {
        Some(SPEC_TEMPLATE)
    }

    fn default(&self, object: &mut Value) {
        if let Some(spec) = field(object, "spec") {
            if let Some(template) = field(spec, "template").and_then(|template| field(template, "spec")) {
                template_spec(template);
            }
            object_field(spec, "updateStrategy");
            let strategy = &mut spec["updateStrategy"];
            default_field(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate" {
                object_field(strategy, "rollingUpdate");
                default_pointer(&mut strategy["rollingUpdate"], "maxUnavailable", 1);
                default_pointer(&mut strategy["rollingUpdate"], "maxSurge", 0);
            }
            default_pointer(spec, "revisionHistoryLimit", 10);
        }
        if generation(object).is_none() {
            note_generation(object, 1);
        }
    }

    fn start(&self, object: &mut Value) {
        start(
            object,
            json!({
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0
            }),
        );
    }

    /// The server alone counts the versions of the template.
    fn keep(&self, old: &Value, new: &mut Value) {
        let before = generation(old).unwrap_or(1);
        let is_changed = old["spec"]["template"] != new["spec"]["template"];
        note_generation(new, if is_changed { before.saturating_add(1) } else { before });
    }

    fn review(&self, review: &mut Review<'_>, object: &Value) {
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        let (at, selector) = (path.child("selector"), &spec["selector"]);
        let before = review.errors.0.len();
        label_selector(review.errors, &at, selector);
        if review.errors.0.len() == before {
            review.selected(object);
        }
        if is_set(selector) && is_empty(selector) {
            review.errors.invalid(&at, selector.clone(), "empty selector is invalid for daemonset");
        }
        review.lasting_template(object, "DaemonSet", &[]);
        review.not_negative(spec, &["minReadySeconds"]);
        strategy(review.errors, &path.child("updateStrategy"), &spec["updateStrategy"]);
        review.not_negative(spec, &["revisionHistoryLimit"]);
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        fixed(errors, "selector", old, new);
    }

    fn validate_status(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        counts(errors, &Path::root("status"), &new["status"], &COUNTS);
        never_less(errors, old, new, "collisionCount");
    }
}

fn generation(object: &Value) -> Option<i64> {
    text(&object["metadata"]["annotations"][GENERATION]).parse().ok().filter(|count| *count > 0)
}

fn note_generation(object: &mut Value, generation: i64) {
    object_field(&mut object["metadata"], "annotations")
        .insert(GENERATION.to_owned(), generation.to_string().into());
}

fn strategy(errors: &mut FieldErrors, path: &Path, strategy: &Value) {
    let (at, rolling) = (path.child("rollingUpdate"), &strategy["rollingUpdate"]);
    match text(&strategy["type"]) {
        "OnDelete" => {}
        "RollingUpdate" => {
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            let places = [at.child("maxUnavailable"), at.child("maxSurge")];
            for (place, value) in places.iter().zip([unavailable, surge]) {
                rollout::count_or_percentage(errors, place, value);
            }
            for (place, value) in places.iter().zip([unavailable, surge]) {
                rollout::at_most_all(errors, place, value);
            }
            match (rollout::amount(unavailable) != 0, rollout::amount(surge) != 0) {
                (true, true) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(&places[1], surge.clone(), detail);
                }
                (false, false) => errors.required(&places[0], "cannot be 0 when maxSurge is 0"),
                (true, false) | (false, true) => {}
            }
        }
        _ => rollout::unknown_strategy(errors, path, strategy, &["RollingUpdate", "OnDelete"]),
    }
}
