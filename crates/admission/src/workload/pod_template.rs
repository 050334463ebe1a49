//! PodTemplate: a template that stands by itself.

use serde_json::Value;

use super::{Place, Review};
use crate::defaults::pod::template_spec;
use crate::kind_rules::KindRules;
use crate::tree::field;

pub(crate) struct PodTemplates;

impl KindRules for PodTemplates {
    fn template(&self) -> Option<Place> {
        Some(Place { pointer: "/template", path: "template" })
    }

    fn default(&self, object: &mut Value) {
        if let Some(spec) = field(object, "template").and_then(|template| field(template, "spec")) {
            template_spec(spec);
        }
    }

    fn start(&self, object: &mut Value) {
        object["metadata"]["generation"] = 1.into();
    }

    fn is_new_generation(&self, old: &Value, new: &Value) -> bool {
        old["template"] != new["template"]
    }

    fn review(&self, review: &mut Review<'_>, object: &Value) {
        review.pod_template(object, &[]);
    }
}
