//! The annotation of client-side apply: whoever changes over to server-side apply keeps what it owned there.

use serde_json::Value;

use super::check;
use super::compare::{compare, fields_of};
use super::managers::{Conflicts, ManagedFields, Write};
use super::set::FieldSet;

/// Where kubectl keeps the configuration that it applied last.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Longest keys and values of all annotations together, in bytes.
const ANNOTATIONS: usize = 256 * 1024;

impl ManagedFields {
    /// [`ManagedFields::apply`] for kubectl itself: fields that stand in its own annotation with the value that they
    /// have are no conflict, and the annotation, where there is one, becomes that of the new configuration.
    ///
    /// # Errors
    ///
    /// As [`ManagedFields::apply`].
    pub fn apply_as_kubectl(
        &mut self,
        write: &Write<'_>,
        live: &Value,
        config: &Value,
        force: bool,
    ) -> Result<Value, Conflicts> {
        let mut new = match self.apply(write, live, config, force) {
            Ok(new) => new,
            Err(conflicts) => match own_fields(write, live) {
                None => return Err(conflicts),
                Some(own) => match conflicts.except(&own) {
                    Some(left) => return Err(left),
                    None => self.apply(write, live, config, true)?,
                },
            },
        };
        let annotations = new.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
        if let Some(annotations) = annotations
            && annotations.get(LAST_APPLIED).and_then(Value::as_str).is_some_and(|told| !told.is_empty())
        {
            annotations.remove(LAST_APPLIED);
            let text = last_applied_text(config);
            let others: usize =
                annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
            if others + LAST_APPLIED.len() + text.len() <= ANNOTATIONS {
                annotations.insert(LAST_APPLIED.to_owned(), Value::String(text));
            }
        }
        Ok(new)
    }
}

/// The configuration as the annotation holds it: without the annotation itself, as Go writes JSON.
#[must_use]
pub fn last_applied_text(config: &Value) -> String {
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    let mut text = config.to_string();
    for (character, escaped) in [("&", "\\u0026"), ("<", "\\u003c"), (">", "\\u003e")] {
        if text.contains(character) {
            text = text.replace(character, escaped);
        }
    }
    text.push('\n');
    text
}

/// The fields of the annotation whose values are still those of the object; `None`: there is no annotation of this
/// version.
fn own_fields(write: &Write<'_>, live: &Value) -> Option<FieldSet> {
    let text = live.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(write.api_version) {
        return None;
    }
    check(write.ty, &last).ok()?;
    let mut own = fields_of(write.ty, &last, &[]);
    let change = compare(write.ty, Some(&last), live, &[]);
    own.subtract(&change.taken);
    own.subtract(&change.removed);
    Some(own)
}
