//! Deletion: at once, after a grace period, or when finalizers have gone. The decision is pure; the effect is one write.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use store::{Purpose, WriteError};

use crate::kinds::Kind;
use crate::object::{self, encode, list, set_metadata, text};
use crate::render::Shown;
use crate::rights::{self, Change};
use crate::status::ApiError;
use crate::strategy::{DefaultPropagation, Hooks};
use crate::timestamps::{second_text, seconds_after};
use crate::tokens;
use crate::writing::{Write, released};

mod options;

pub(crate) use options::{DeleteOptions, Propagation};

/// How often a deletion is tried again after somebody else was quicker.
const ATTEMPTS: usize = 64;
/// Keeps an object until the objects that it owns, and that say so, have gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Keeps an object until the objects that it owned have been told to forget it.
pub(crate) const ORPHAN: &str = "orphan";

/// What a deletion left.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object is gone; this was its last version.
    Removed(Value),
    /// The object is still there, marked.
    Marked(Shown),
}

/// What is to be done with an object.
#[derive(Clone, Debug, PartialEq)]
enum Plan {
    Remove,
    Mark(Value),
    /// It is on its way already.
    Leave,
}

fn plan(kind: &Kind, old: &Value, options: &DeleteOptions, now: Timestamp) -> Plan {
    let requested = options.grace_seconds;
    let grace = kind.strategy().deletion_grace(old, requested);
    let finalizers = finalizers_after(kind.strategy().propagation(), options, old);
    let kept = !finalizers.is_empty() || keeps_namespace(kind, old);
    let marked = text(old, &["metadata", "deletionTimestamp"]);
    let with_finalizers = || {
        let mut new = old.clone();
        if list(old, &["metadata", "finalizers"]) != finalizers {
            let finalizers = (!finalizers.is_empty()).then(|| json!(finalizers));
            set_metadata(&mut new, "finalizers", finalizers);
        }
        new
    };
    if marked.is_empty() {
        if grace == 0 && !kept {
            return Plan::Remove;
        }
        let mut new = with_finalizers();
        set_metadata(&mut new, "deletionTimestamp", Some(json!(second_text(seconds_after(now, grace)))));
        set_metadata(&mut new, "deletionGracePeriodSeconds", Some(json!(grace)));
        if let Some(generation) = object::at(old, &["metadata", "generation"]).and_then(Value::as_i64) {
            set_metadata(&mut new, "generation", Some(json!(generation + 1)));
        }
        if keeps_namespace(kind, old) {
            object::map_mut(&mut new, "status").insert("phase".to_owned(), json!("Terminating"));
        }
        return Plan::Mark(new);
    }
    if !kind.strategy().is_graceful() {
        // Whoever deletes again may say anew what becomes of the dependents.
        let new = with_finalizers();
        return match (kept, new == *old) {
            (false, _) => Plan::Remove,
            (true, true) => Plan::Leave,
            (true, false) => Plan::Mark(new),
        };
    }
    let earlier =
        object::at(old, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0);
    if grace == 0 && !kept {
        // A client that says nothing about the grace does not cut short what is under way.
        return if requested.is_none() && earlier > 0 { Plan::Leave } else { Plan::Remove };
    }
    if requested.is_none() || grace >= earlier {
        return Plan::Leave;
    }
    // A later deletion may only shorten the grace, counted from when the first one came.
    let mut new = with_finalizers();
    let end = marked.parse::<Timestamp>().unwrap_or(now);
    set_metadata(
        &mut new,
        "deletionTimestamp",
        Some(json!(second_text(seconds_after(end, grace - earlier)))),
    );
    set_metadata(&mut new, "deletionGracePeriodSeconds", Some(json!(grace)));
    Plan::Mark(new)
}

/// The finalizers that an object has after it was asked to go: those of others, and what becomes of its dependents.
/// What the client says counts, then what the object says already, then what its kind does.
fn finalizers_after(default: DefaultPropagation, options: &DeleteOptions, old: &Value) -> Vec<Value> {
    let own = list(old, &["metadata", "finalizers"]);
    let has = |wanted: &str| own.iter().any(|finalizer| finalizer == wanted);
    let told = match (options.orphan_dependents, options.propagation) {
        (Some(true), _) => Some(Propagation::Orphan),
        (Some(false), _) => Some(Propagation::Background),
        (None, told) => told,
    };
    let standing = || match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => Propagation::Orphan,
        (false, true) => Propagation::Foreground,
        (false, false) => match default {
            DefaultPropagation::Background | DefaultPropagation::Unsupported => Propagation::Background,
            DefaultPropagation::Orphan => Propagation::Orphan,
        },
    };
    let propagation = match default {
        DefaultPropagation::Unsupported => Propagation::Background,
        DefaultPropagation::Background | DefaultPropagation::Orphan => told.unwrap_or_else(standing),
    };
    let mut finalizers: Vec<Value> =
        own.iter().filter(|finalizer| **finalizer != ORPHAN && **finalizer != FOREGROUND).cloned().collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(json!(FOREGROUND)),
        Propagation::Orphan => finalizers.push(json!(ORPHAN)),
    }
    finalizers
}

fn keeps_namespace(kind: &Kind, value: &Value) -> bool {
    match kind.strategy().hooks() {
        Hooks::Namespaces => !list(value, &["spec", "finalizers"]).is_empty(),
        Hooks::None | Hooks::Pods | Hooks::Services => false,
    }
}

/// Deletes the object `name`.
pub(crate) async fn delete_object(
    write: &Write<'_>,
    name: &str,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    let kind = write.kind;
    let store = &write.server.store;
    for _ in 0..ATTEMPTS {
        let current = store.get(&write.key(name)).ok_or_else(|| ApiError::not_found(kind, name))?;
        let old = object::tree(&current);
        check_preconditions(kind, &old, name, options)?;
        kind.strategy().check_deletion(write, &old)?;
        rights::check(write, Change::Delete(&old))?;
        let written = match plan(kind, &old, options, Timestamp::now()) {
            Plan::Leave => return Ok(Deleted::Marked(Shown::Stored(current))),
            Plan::Remove if write.dry_run => return Ok(Deleted::Removed(old)),
            Plan::Mark(new) if write.dry_run => return Ok(Deleted::Marked(Shown::Tree(new))),
            Plan::Remove => {
                fault::point("deletion.due");
                let removed = store.delete(write.key(name), Some(current.revision())).await;
                fault::point("deletion.removed");
                removed.map(|gone| {
                    released(write, &old);
                    Deleted::Removed(object::tree(&gone))
                })
            }
            Plan::Mark(new) => {
                fault::point("deletion.due");
                let marked =
                    store.update(write.key(name), current.revision(), encode(&new), Purpose::Removal).await;
                fault::point("deletion.marked");
                marked.map(|marked| Deleted::Marked(Shown::Stored(marked)))
            }
        };
        match written {
            Err(WriteError::Conflict { .. }) if options.resource_version.is_none() => {}
            Err(error) => return Err(ApiError::from_write(kind, name, error)),
            Ok(deleted) => {
                let is_account = kind.group().is_empty() && kind.plural() == "serviceaccounts";
                if is_account && matches!(deleted, Deleted::Removed(_)) {
                    tokens::remove_secrets(write, &old).await;
                }
                return Ok(deleted);
            }
        }
    }
    Err(ApiError::stale(kind, name))
}

fn check_preconditions(
    kind: &Arc<Kind>,
    old: &Value,
    name: &str,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let check = |what: &str, wanted: &Option<String>, own: &str, how: &str| match wanted {
        Some(wanted) if wanted != own => Err(ApiError::Conflict {
            group: kind.group().to_owned(),
            // Upstream names the kind here, not the resource.
            resource: kind.kind().to_owned(),
            name: name.to_owned(),
            detail: format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({own}). The object might have been {how}"
            ),
        }),
        _ => Ok(()),
    };
    check("UID", &options.uid, text(old, &["metadata", "uid"]), "deleted and then recreated")?;
    let version = text(old, &["metadata", "resourceVersion"]);
    check("ResourceVersion", &options.resource_version, version, "modified")
}

#[cfg(test)]
mod tests;
