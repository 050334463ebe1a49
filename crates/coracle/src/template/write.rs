//! One object onto the API server: created, or changed from what was applied before to what is wanted now.

use ::template::INSTANCE_LABEL;
use http::Method;
use serde_json::{Value, json};

use super::kinds::{Kinds, ServedKind};
use super::merge;
use crate::cluster::{Cluster, ClusterError, LAST_APPLIED, escaped};

/// How often a change is tried again when somebody else is quicker.
const ATTEMPTS: usize = 5;

/// What was done, in kubectl's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    Created,
    Configured,
    Unchanged,
}

impl Done {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
        }
    }
}

/// An object that is to be written, and what the server has of it.
pub(super) struct Target {
    kind: ServedKind,
    collection: String,
    name: String,
    live: Option<Value>,
}

/// Whether a write counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writing {
    /// The server says what it would do, and nothing is kept.
    Rehearsal,
    /// It is done.
    Real,
}

/// What writing said.
pub(super) struct Written {
    pub(super) done: Done,
    pub(super) warnings: Vec<String>,
}

impl Target {
    /// `service/db`.
    pub(super) fn shown(&self) -> String {
        format!("{}/{}", self.kind.shown(), self.name)
    }

    /// Whether the server does not have it yet.
    pub(super) fn is_new(&self) -> bool {
        self.live.is_none()
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection, escaped(&self.name))
    }

    /// Looks an object up; nothing is written.
    ///
    /// # Errors
    ///
    /// The object is another instance's, its kind is unknown, or the server cannot be asked.
    pub(super) async fn look_up(
        cluster: &Cluster,
        kinds: &mut Kinds,
        object: &Value,
        instance: &str,
    ) -> Result<Self, ClusterError> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let kind = kinds.find(cluster, text("/apiVersion"), text("/kind")).await?;
        let namespace = match text("/metadata/namespace") {
            "" => &cluster.namespace,
            namespace => namespace,
        };
        let collection = kind.collection(namespace);
        let name = text("/metadata/name").to_owned();
        let mut target = Self { kind, collection, name, live: None };
        if !target.name.is_empty() {
            target.live = cluster.get(&target.path(), &target.shown()).await?;
        }
        let owner = target
            .live
            .as_ref()
            .and_then(|live| live.pointer("/metadata/labels")?.get(INSTANCE_LABEL)?.as_str());
        match owner {
            Some(owner) if owner != instance => {
                Err(ClusterError::Foreign { object: target.shown(), owner: owner.to_owned() })
            }
            Some(_) | None => Ok(target),
        }
    }

    /// Writes the object.
    ///
    /// # Errors
    ///
    /// The server refuses it or cannot be reached.
    pub(super) async fn write(
        &mut self,
        cluster: &Cluster,
        object: &Value,
        writing: Writing,
    ) -> Result<Written, ClusterError> {
        let what = self.shown();
        // What is in a Secret is not repeated in an annotation.
        let is_secret = self.kind.kind == "Secret" && self.kind.group_version == "v1";
        let wanted = if is_secret { object.clone() } else { with_note(object) };
        for _ in 0..ATTEMPTS {
            let before = self.live.as_ref().map(version).unwrap_or_default();
            let (method, path, content_type, body) = match &self.live {
                None => (Method::POST, self.collection.clone(), "application/json", wanted.clone()),
                Some(live) if live.pointer("/metadata/deletionTimestamp").is_some() => {
                    return Err(ClusterError::Refused {
                        what,
                        message: "the object is being deleted; apply again when it is gone".to_owned(),
                        code: 409,
                        causes: Vec::new(),
                    });
                }
                Some(live) if is_secret => {
                    (Method::PUT, self.path(), "application/json", replaced_secret(live, &wanted))
                }
                Some(live) => {
                    let ty = schema::builtin().type_for(&self.kind.group_version, &self.kind.kind);
                    let content_type = match ty {
                        Some(_) => "application/strategic-merge-patch+json",
                        None => "application/merge-patch+json",
                    };
                    (Method::PATCH, self.path(), content_type, merge::patch(ty, &last_applied(live), &wanted))
                }
            };
            let is_new = method == Method::POST;
            let dry_run = match writing {
                Writing::Rehearsal => "&dryRun=All",
                Writing::Real => "",
            };
            let path = format!("{path}?fieldManager=coracle-template&fieldValidation=Strict{dry_run}");
            let answer = cluster.call(method, &path, content_type, body.to_string().into_bytes()).await?;
            if answer.code == 409 && !self.name.is_empty() {
                self.live = cluster.get(&self.path(), &what).await?;
                continue;
            }
            let answer = answer.accepted(&what)?;
            let tree = answer.tree();
            let given_name = tree.pointer("/metadata/name").and_then(Value::as_str);
            // A name that the server makes up is another one when it counts.
            if let Some(name) = given_name.filter(|_| writing == Writing::Real) {
                name.clone_into(&mut self.name);
            }
            let done = match (is_new, version(&tree) == before) {
                (true, _) => Done::Created,
                (false, true) => Done::Unchanged,
                (false, false) => Done::Configured,
            };
            return Ok(Written { done, warnings: answer.warnings });
        }
        Err(ClusterError::Refused {
            what,
            message: "the object changes all the time".to_owned(),
            code: 409,
            causes: Vec::new(),
        })
    }
}

fn version(object: &Value) -> String {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The object with a note of itself, as `kubectl apply` makes it, so that both can go on with each other's work.
fn with_note(object: &Value) -> Value {
    let mut noted = object.clone();
    let note = format!("{object}\n");
    if !noted["metadata"]["annotations"].is_object() {
        noted["metadata"]["annotations"] = json!({});
    }
    noted["metadata"]["annotations"][LAST_APPLIED] = json!(note);
    noted
}

/// What the note says; null without one.
fn last_applied(live: &Value) -> Value {
    let note =
        live.pointer("/metadata/annotations").and_then(|all| all.get(LAST_APPLIED)).and_then(Value::as_str);
    note.and_then(|note| serde_json::from_str(note).ok()).unwrap_or_default()
}

/// A live Secret with other data; labels and annotations of others stay.
fn replaced_secret(live: &Value, wanted: &Value) -> Value {
    let mut replaced = live.clone();
    for field in ["data", "stringData", "type", "immutable"] {
        match wanted.get(field) {
            Some(value) => replaced[field] = value.clone(),
            None if field == "data" => replaced[field] = json!({}),
            None => {}
        }
    }
    for field in ["labels", "annotations"] {
        for (key, value) in wanted["metadata"][field].as_object().into_iter().flatten() {
            if !replaced["metadata"][field].is_object() {
                replaced["metadata"][field] = json!({});
            }
            replaced["metadata"][field][key] = value.clone();
        }
    }
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_replaced_and_keeps_what_others_noted() {
        let live = json!({"metadata": {"name": "s", "resourceVersion": "7", "labels": {"a": "1"}}, "type": "Opaque",
            "data": {"old": "eA=="}});
        let wanted = json!({"metadata": {"name": "s", "labels": {"b": "2"}}, "stringData": {"new": "x"}});
        assert_eq!(
            replaced_secret(&live, &wanted),
            json!({"metadata": {"name": "s", "resourceVersion": "7", "labels": {"a": "1", "b": "2"}}, "type": "Opaque",
                "data": {}, "stringData": {"new": "x"}})
        );
    }

    #[test]
    fn a_note_says_what_was_applied() {
        let object = json!({"metadata": {"name": "c"}, "data": {"k": "v"}});
        assert_eq!(last_applied(&with_note(&object)), object);
        assert_eq!(last_applied(&object), Value::Null);
    }
}
