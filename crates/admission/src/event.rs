//! Events: they live in the namespace of the object that they are about.

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::tree::text;

/// Checks an event; objects without namespace have theirs in `default` (and, since always, `kube-system`).
pub(crate) fn validate(errors: &mut FieldErrors, event: &Value) {
    let (own, about) = (text(&event["metadata"]["namespace"]), text(&event["involvedObject"]["namespace"]));
    let fits = if about.is_empty() { matches!(own, "default" | "kube-system") } else { own == about };
    if !fits {
        let at = Path::root("involvedObject").child("namespace");
        errors.invalid(&at, about, "does not match event.namespace");
    }
}
