//! Namespaces: finalizers of the spec, and the label that carries the name.

use names::QualifiedName;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::messages;
use crate::tree::{items, text};

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
