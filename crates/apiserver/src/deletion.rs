//! Deletion: at once, after a grace period, or when finalizers have gone. The decision is pure; the effect is one write.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use store::{Purpose, WriteError};

use crate::body::{Content, tree};
use crate::kinds::Kind;
use crate::namespaces;
use crate::object::{self, encode, list, set_metadata, text};
use crate::query::Query;
use crate::render::Shown;
use crate::rights::{self, Change};
use crate::status::ApiError;
use crate::strategy::Hooks;
use crate::timestamps::{second_text, seconds_after};
use crate::writing::{Write, released};

const ATTEMPTS: usize = 16;

/// How something shall be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_seconds: Option<i64>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Reads the options from the body, or from the query where there is no body.
    pub(crate) fn parse(content: &Content, query: &Query) -> Result<DeleteOptions, ApiError> {
        let body = tree(content)?;
        if !body.is_null() && !body.is_object() {
            return Err(ApiError::bad_request("the body of a deletion must be DeleteOptions"));
        }
        let kind = text(&body, &["kind"]);
        if !matches!(kind, "" | "DeleteOptions") {
            return Err(ApiError::bad_request(format!(
                "the body of a deletion must be DeleteOptions, not {kind}"
            )));
        }
        let from_query = query
            .text("gracePeriodSeconds")
            .map(|seconds| {
                seconds.parse().map_err(|_| {
                    ApiError::bad_request(format!(
                        "gracePeriodSeconds: {} is no number",
                        schema::go_quote(seconds)
                    ))
                })
            })
            .transpose()?;
        let policy = query.text("propagationPolicy").unwrap_or_else(|| text(&body, &["propagationPolicy"]));
        if !matches!(policy, "" | "Background" | "Foreground" | "Orphan") {
            return Err(ApiError::bad_request(format!(
                "propagationPolicy: Unsupported value: {}: supported values: \"Background\", \"Foreground\", \"Orphan\"",
                schema::go_quote(policy)
            )));
        }
        let own =
            |path: &[&str]| Some(text(&body, path)).filter(|found| !found.is_empty()).map(str::to_owned);
        Ok(DeleteOptions {
            grace_seconds: from_query.or_else(|| body.get("gracePeriodSeconds").and_then(Value::as_i64)),
            uid: own(&["preconditions", "uid"]),
            resource_version: own(&["preconditions", "resourceVersion"]),
            dry_run: list(&body, &["dryRun"]).iter().any(|value| value == "All"),
        })
    }
}

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

fn plan(kind: &Kind, old: &Value, requested: Option<i64>, now: Timestamp) -> Plan {
    let grace = kind.strategy().deletion_grace(old, requested);
    let kept = !list(old, &["metadata", "finalizers"]).is_empty() || keeps_namespace(kind, old);
    let marked = text(old, &["metadata", "deletionTimestamp"]);
    if marked.is_empty() {
        if grace == 0 && !kept {
            return Plan::Remove;
        }
        let mut new = old.clone();
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
    let mut new = old.clone();
    let end = marked.parse::<Timestamp>().unwrap_or(now);
    set_metadata(
        &mut new,
        "deletionTimestamp",
        Some(json!(second_text(seconds_after(end, grace - earlier)))),
    );
    set_metadata(&mut new, "deletionGracePeriodSeconds", Some(json!(grace)));
    Plan::Mark(new)
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
        let written = match plan(kind, &old, options.grace_seconds, Timestamp::now()) {
            Plan::Leave => return Ok(Deleted::Marked(Shown::Stored(current))),
            Plan::Remove if write.dry_run => return Ok(Deleted::Removed(old)),
            Plan::Mark(new) if write.dry_run => return Ok(Deleted::Marked(Shown::Tree(new))),
            Plan::Remove => store.delete(write.key(name), Some(current.revision())).await.map(|gone| {
                released(write, &old);
                Deleted::Removed(object::tree(&gone))
            }),
            Plan::Mark(new) => store
                .update(write.key(name), current.revision(), encode(&new), Purpose::Removal)
                .await
                .map(|marked| Deleted::Marked(Shown::Stored(marked))),
        };
        match written {
            Err(WriteError::Conflict { .. }) if options.resource_version.is_none() => {}
            Err(error) => return Err(ApiError::from_write(kind, name, error)),
            Ok(deleted) => {
                if kind.strategy().hooks() == Hooks::Namespaces && matches!(deleted, Deleted::Marked(_)) {
                    namespaces::spawn_drain(write.server, name);
                }
                if matches!(deleted, Deleted::Removed(_)) {
                    namespaces::restore(write, name).await;
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
    let check = |what: &str, wanted: &Option<String>, own: &str| match wanted {
        Some(wanted) if wanted != own => Err(ApiError::conflict(
            kind,
            name,
            format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {own}"),
        )),
        _ => Ok(()),
    };
    check("UID", &options.uid, text(old, &["metadata", "uid"]))?;
    check("ResourceVersion", &options.resource_version, text(old, &["metadata", "resourceVersion"]))
}

#[cfg(test)]
mod tests;
