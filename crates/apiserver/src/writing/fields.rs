//! Who manages which field of what is written: `metadata.managedFields`.
//!
//! The writer is given what differs between the old version and what it asks for, defaults included. What the server
//! adds after that (addresses, tokens, a status) is nobody's, as upstream has it.

use std::borrow::Cow;

use manifest::Node;
use schema::apply::{ManagedFields, Paths, Write as FieldWrite, compare};
use serde_json::Value;
use store::Draft;

use super::admit::check_size;
use super::{Part, Write};
use crate::field_manager;
use crate::object::encode_in_order;
use crate::status::ApiError;
use crate::timestamps::now_text;

/// What a write of the object itself cannot change, where the status is a part of its own.
const WITHOUT_STATUS: Paths<'static> = &[&["status"]];
/// What a write of the status cannot change.
const STATUS_ONLY: Paths<'static> =
    &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]];

/// What a write of `part` cannot change, and is therefore not noted for.
pub(crate) fn ignored(write: &Write<'_>, part: Part) -> Paths<'static> {
    if part == Part::Status {
        return STATUS_ONLY;
    }
    let has_status = write.kind.resource().subresources.iter().any(|entry| entry.name == "status");
    if has_status { WITHOUT_STATUS } else { &[] }
}

/// Hands `work` the description of a write of `part`, as the store has the object.
fn stored_write<T>(write: &Write<'_>, part: Part, work: impl FnOnce(&FieldWrite<'_>) -> T) -> T {
    let kind = write.kind;
    // Where a second path has names of its own for the fields, those of the store are noted.
    let converts = kind.is_alias() && kind.strategy().converts();
    work(&FieldWrite {
        ty: kind.stored_ty(),
        api_version: if converts { kind.stored_group_version() } else { kind.group_version() },
        versions: &[kind.group_version(), kind.stored_group_version()],
        manager: write.manager,
        subresource: part.subresource(),
        ignored: ignored(write, part),
        now: &now_text(),
    })
}

/// The managers of a new object.
pub(super) fn of_creation(write: &Write<'_>, value: &Value) -> ManagedFields {
    let mut managed = ManagedFields::default();
    let defaulted = admission::with_defaults(write.kind.resource(), value);
    stored_write(write, Part::Main, |fields| managed.update(fields, None, &defaulted));
    managed
}

/// Takes `metadata.managedFields` out of an object.
pub(crate) fn take(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

/// `metadata.managedFields` after an update. An object that has none gets none: somebody asked to forget them.
pub(super) fn of_update(
    write: &Write<'_>,
    part: Part,
    old: &Value,
    live: Option<&Value>,
    candidate: &mut Value,
) -> Result<Option<Value>, ApiError> {
    // Only who writes the object itself may say who manages what.
    let told = take(candidate).filter(|told| part == Part::Main && Some(told) != live);
    if told.as_ref().is_some_and(ManagedFields::is_reset) {
        return Ok(None);
    }
    let told = told.map(|told| entries(write, old, &told)).transpose()?.flatten();
    if told.is_none() && live.is_none() {
        return Ok(None);
    }
    let defaulted = if part == Part::Status {
        Cow::Borrowed(&*candidate)
    } else {
        admission::with_defaults(write.kind.resource(), candidate)
    };
    Ok(stored_write(write, part, |fields| {
        let change = compare(fields.ty, Some(old), &defaulted, fields.ignored);
        if told.is_none() && change.is_empty() {
            return live.cloned();
        }
        let mut managed = told.unwrap_or_else(|| ManagedFields::parse(live).unwrap_or_default());
        if !managed.is_empty() {
            managed.note(fields, change);
        }
        managed.into_value()
    }))
}

/// The entries that a client sent; none when they cannot be read: who does not know them shall not lose them.
fn entries(write: &Write<'_>, old: &Value, told: &Value) -> Result<Option<ManagedFields>, ApiError> {
    let managed = ManagedFields::parse(Some(told)).ok().filter(|managed| !managed.is_empty());
    for manager in managed.iter().flat_map(ManagedFields::managers) {
        let problems = field_manager::problems("metadata.managedFields.manager", &manager.name);
        if !problems.is_empty() {
            let name = crate::object::name(old);
            return Err(ApiError::invalid(write.kind, name, admission::FieldErrors(problems)));
        }
    }
    Ok(managed)
}

/// The bytes to be stored. An object that only its managers make too large loses them, if it `may_forget` them.
pub(super) fn encode_within(
    write: &Write<'_>,
    value: &mut Value,
    order: Option<&Node>,
    may_forget: bool,
) -> Result<Draft, ApiError> {
    let draft = encode_in_order(value, order);
    match check_size(write, draft.len()) {
        Err(_) if may_forget && take(value).is_some() => {
            let draft = encode_in_order(value, order);
            check_size(write, draft.len()).map(|()| draft)
        }
        checked => checked.map(|()| draft),
    }
}
