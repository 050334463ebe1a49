//! Walker 5: server-side apply and the record of who manages which field (`metadata.managedFields`).
//!
//! * [`FieldSet`]: fields as `fieldsV1` writes them, and the algebra of such sets.
//! * [`compare`]: which fields a write took and which it removed; [`fields_of`]: which fields a configuration names.
//! * [`ManagedFields`]: the entries of an object; [`ManagedFields::update`] and [`ManagedFields::apply`] keep them.
//!
//! How lists and maps are identified and what is replaced as a whole is in the table: list types with their keys,
//! atomic maps and structs. Rules and sentences are upstream's (sigs.k8s.io/structured-merge-diff,
//! `apimachinery/pkg/util/managedfields`).

mod check;
mod combine;
mod compare;
mod element;
mod last_applied;
mod managers;
mod place;
mod prune;
mod set;

pub use check::{TypeProblem, TypeProblems, check};
pub use combine::merge_applied;
pub use compare::{Comparison, compare, fields_of};
pub use element::display_path;
pub use last_applied::{LAST_APPLIED, last_applied_text};
pub use managers::{
    Conflict, Conflicts, ManagedFields, ManagedFieldsError, Manager, Operation, Write, same_but_times,
};
pub use set::{BadFields, FieldSet};

/// Paths of field names, from the root of an object.
pub type Paths<'p> = &'p [&'p [&'p str]];

/// What no manager ever owns.
const STRIPPED: Paths<'static> = &[
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

#[cfg(test)]
mod tests;
