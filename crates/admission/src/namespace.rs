//! Namespaces: finalizers of the spec, and the label that carries the name.

use names::QualifiedName;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::scalars::messages;
use crate::tree::{items, object_field, remove, text};

/// Rules besides.
pub(crate) struct Namespace;

impl KindRules for Namespace {
    fn keep(&self, old: &Value, new: &mut Value) {
        // Finalizers of the spec change through their own subresource only.
        let kept = &old["spec"]["finalizers"];
        if kept.is_array() {
            object_field(new, "spec").insert("finalizers".to_owned(), kept.clone());
        } else if new["spec"].is_object() {
            remove(&mut new["spec"], "finalizers");
        }
    }
}

/// Checks a namespace.
pub(crate) fn validate(errors: &mut FieldErrors, namespace: &Value) {
    for finalizer in items(&namespace["spec"]["finalizers"]) {
        let finalizer = text(finalizer);
        errors.invalid_each(
            &Path::root("spec").child("finalizers"),
            finalizer,
            messages(QualifiedName::parse(finalizer)),
        );
    }
}
