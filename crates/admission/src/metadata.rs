//! Metadata of every object: names, namespaces, labels, annotations, owners, finalizers; what updates may not change.

use names::{DnsLabel, DnsSubdomain, NameError, QualifiedName, ServiceName, mask_trailing_dash};
use schema::Resource;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::{labels, messages, not_negative};
use crate::tree::{entries, is_set, items, remove, text};

/// Most bytes of all annotations together.
const ANNOTATIONS: usize = 256 * 1024;

/// Finalizers of Kubernetes itself.
const KNOWN_FINALIZERS: [&str; 3] = ["foregroundDeletion", "orphan", "kubernetes"];

/// Metadata that the server owns: an update keeps what is stored.
const KEPT: [&str; 6] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"];

/// Checks the metadata of an object.
pub(crate) fn validate(errors: &mut FieldErrors, resource: &Resource, metadata: &Value) {
    let path = Path::root("metadata");
    let generated = text(&metadata["generateName"]);
    if !generated.is_empty() {
        let messages = name_messages(resource, &mask_trailing_dash(generated));
        errors.invalid_each(&path.child("generateName"), generated, messages);
    }
    let name = text(&metadata["name"]);
    if name.is_empty() {
        errors.required(&path.child("name"), "name or generateName is required");
    } else {
        errors.invalid_each(&path.child("name"), name, name_messages(resource, name));
    }
    let namespace = text(&metadata["namespace"]);
    match (resource.namespaced, namespace.is_empty()) {
        (true, true) => errors.required(&path.child("namespace"), ""),
        (true, false) => {
            errors.invalid_each(&path.child("namespace"), namespace, messages(DnsLabel::parse(namespace)));
        }
        (false, false) => errors.forbidden(&path.child("namespace"), "not allowed on this type"),
        (false, true) => {}
    }
    not_negative(errors, &path.child("generation"), &metadata["generation"]);
    labels(errors, &path.child("labels"), &metadata["labels"]);
    annotations(errors, &path.child("annotations"), &metadata["annotations"]);
    owners(errors, &path.child("ownerReferences"), &metadata["ownerReferences"]);
    let finalizers = items(&metadata["finalizers"]);
    for finalizer in finalizers {
        let finalizer = text(finalizer);
        errors.invalid_each(&path.child("finalizers"), finalizer, messages(QualifiedName::parse(finalizer)));
    }
    if ["foregroundDeletion", "orphan"].iter().all(|one| finalizers.iter().any(|own| own == one)) {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(&path.child("finalizers"), finalizers.to_vec(), detail);
    }
}

fn name_messages(resource: &Resource, name: &str) -> Vec<String> {
    let parsed: Result<(), NameError> = match (resource.group, resource.kind) {
        ("", "Namespace") => DnsLabel::parse(name).map(drop),
        ("", "Service") => ServiceName::parse(name).map(drop),
        // Its pods' host names begin with it.
        ("apps", "StatefulSet") => DnsLabel::parse(name).map(drop),
        ("rbac.authorization.k8s.io", _) => return crate::rbac::path_segment(name),
        _ => DnsSubdomain::parse(name).map(drop),
    };
    messages(parsed)
}

pub(crate) fn annotations(errors: &mut FieldErrors, path: &Path, annotations: &Value) {
    let mut total = 0;
    for (key, value) in entries(annotations) {
        errors.invalid_each(path, key, messages(QualifiedName::parse(&key.to_lowercase())));
        total += key.len() + text(value).len();
    }
    if total > ANNOTATIONS {
        errors.too_long(path, ANNOTATIONS);
    }
}

fn owners(errors: &mut FieldErrors, path: &Path, owners: &Value) {
    let mut controller: Option<&Value> = None;
    for (index, owner) in items(owners).iter().enumerate() {
        let at = path.index(index);
        let version = text(&owner["apiVersion"]);
        if version.is_empty() || version.ends_with('/') {
            errors.invalid(&at.child("apiVersion"), version, "version must not be empty");
        }
        for name in ["kind", "name", "uid"] {
            if text(&owner[name]).is_empty() {
                errors.invalid(&at.child(name), "", "must not be empty");
            }
        }
        if (version, text(&owner["kind"])) == ("v1", "Event") {
            errors.invalid(path, owner.clone(), "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner["controller"] == true {
            match controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                        text(&first["name"]),
                        text(&owner["name"])
                    );
                    errors.invalid(path, items(owners).to_vec(), detail);
                }
                None => controller = Some(owner),
            }
        }
    }
}

/// Warnings about metadata that is valid but will disappoint.
pub(crate) fn warnings(object: &Value) -> Vec<Warning> {
    items(&object["metadata"]["finalizers"])
        .iter()
        .map(text)
        .filter(|finalizer| !finalizer.contains('/') && !KNOWN_FINALIZERS.contains(finalizer))
        .map(|finalizer| {
            Warning(format!(
                "metadata.finalizers: {}: prefer a domain-qualified finalizer name including a path (/) to avoid \
                 accidental conflicts with other finalizer writers",
                schema::go_quote(finalizer)
            ))
        })
        .collect()
}

/// Takes over what only the server sets, where the new object leaves it out.
pub(crate) fn keep(old: &Value, new: &mut Value) {
    for name in KEPT {
        let stored = &old["metadata"][name];
        if !is_set(stored) {
            if name != "generation" {
                remove(&mut new["metadata"], name);
            }
        } else if !is_set(&new["metadata"][name]) || matches!(name, "generation" | "creationTimestamp") {
            new["metadata"][name] = stored.clone();
        }
    }
}

/// Checks what an update may not change.
pub(crate) fn validate_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let path = Path::root("metadata");
    for name in ["name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new["metadata"][name] != old["metadata"][name] {
            errors.invalid(&path.child(name), new["metadata"][name].clone(), "field is immutable");
        }
    }
    if is_set(&old["metadata"]["deletionTimestamp"]) {
        let known = items(&old["metadata"]["finalizers"]);
        let added: Vec<&str> = items(&new["metadata"]["finalizers"])
            .iter()
            .filter(|finalizer| !known.contains(finalizer))
            .map(text)
            .collect();
        if !added.is_empty() {
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.iter().map(|name| schema::go_quote(name)).collect::<Vec<_>>().join(", ")
            );
            errors.forbidden(&path.child("finalizers"), detail);
        }
    }
}
