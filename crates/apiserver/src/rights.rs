//! What a writer must have beyond the right to write: nobody grants what he does not have, and a node keeps to its own.

use serde_json::Value;

use crate::status::ApiError;
use crate::writing::Write;
use crate::{node_rules, rbac};

/// A change of an object that is about to be stored.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change<'v> {
    Create(&'v Value),
    /// Old and new.
    Update(&'v Value, &'v Value),
    Delete(&'v Value),
}

impl<'v> Change<'v> {
    pub(crate) fn before(self) -> Option<&'v Value> {
        match self {
            Change::Create(_) => None,
            Change::Update(old, _) | Change::Delete(old) => Some(old),
        }
    }

    pub(crate) fn after(self) -> Option<&'v Value> {
        match self {
            Change::Create(new) | Change::Update(_, new) => Some(new),
            Change::Delete(_) => None,
        }
    }

    pub(crate) fn newest(self) -> &'v Value {
        match self {
            Change::Create(value) | Change::Update(_, value) | Change::Delete(value) => value,
        }
    }
}

/// Refuses a change that its writer may not make.
pub(crate) fn check(write: &Write<'_>, change: Change<'_>) -> Result<(), ApiError> {
    if let Some(node) = write.identity.node_name() {
        node_rules::check(node, write, change)?;
    }
    let Some(new) = change.after() else { return Ok(()) };
    match (write.kind.group(), write.kind.plural()) {
        (rbac::GROUP, "roles" | "clusterroles") => rbac::check_role(write, change.before(), new),
        (rbac::GROUP, "rolebindings" | "clusterrolebindings") => {
            rbac::check_binding(write, change.before(), new)
        }
        _ => Ok(()),
    }
}
