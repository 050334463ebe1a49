//! IngressClasses.

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::{messages, one_of, required_text};
use crate::tree::{default_pointer, field, is_set, text};

/// Longest name of a controller.
const CONTROLLER: usize = 250;

pub(crate) struct IngressClass;

impl KindRules for IngressClass {
    fn default(&self, object: &mut Value) {
        if let Some(parameters) = field(&mut object["spec"], "parameters") {
            default_pointer(parameters, "scope", "Cluster");
        }
    }

    fn start(&self, object: &mut Value) {
        object["metadata"]["generation"] = 1.into();
    }

    fn validate(&self, errors: &mut FieldErrors, _warnings: &mut Vec<Warning>, object: &Value) {
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        let (at, controller) = (path.child("controller"), text(&spec["controller"]));
        if controller.len() > CONTROLLER {
            errors.too_long(&at, CONTROLLER);
        }
        if required_text(errors, &at, controller) {
            if controller.contains('/') {
                errors.invalid_each(&at, controller, messages(names::QualifiedName::parse(controller)));
            } else {
                errors.invalid(&at, controller, "must be a domain-prefixed path (such as \"acme.io/foo\")");
            }
        }
        let (at, parameters) = (path.child("parameters"), &spec["parameters"]);
        if is_set(parameters) {
            required_text(errors, &at.child("kind"), text(&parameters["kind"]));
            required_text(errors, &at.child("name"), text(&parameters["name"]));
            one_of(errors, &at.child("scope"), &parameters["scope"], &["Cluster", "Namespace"]);
            let is_scoped = text(&parameters["scope"]) == "Namespace";
            let has_namespace = !text(&parameters["namespace"]).is_empty();
            if is_scoped && !has_namespace {
                let detail = "`parameters.scope` is set to 'Namespace'";
                errors.required(&at.child("namespace"), detail);
            } else if !is_scoped && has_namespace {
                let detail = "`parameters.scope` is set to 'Cluster'";
                errors.forbidden(&at.child("namespace"), detail);
            }
        }
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        let (before, after) = (&old["spec"]["controller"], &new["spec"]["controller"]);
        if before != after {
            errors.invalid(&Path::root("spec").child("controller"), text(after), "field is immutable");
        }
    }
}
