//! Pods: what admission adds to a new one, and what an update of one may change.

pub(crate) mod addresses;

use std::collections::BTreeSet;

use rand::RngExt;
use serde_json::{Value, json};

use crate::containers::CONTAINER_LISTS;
use crate::errors::FieldErrors;
use crate::limit_range;
use crate::path::Path;
use crate::priority_class::SYSTEM_CLASSES;
use crate::request::{AdmissionRequest, Warning};
use crate::scalars::required_text;
use crate::tree::{default_pointer, is_set, items, items_mut, object_field, remove, text};

/// Where programs look for the token of their service account.
const TOKEN_DIRECTORY: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Marks a pod that only mirrors one of a node's own: it cannot have a token.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Volumes with this prefix hold that token.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// Taints that a pod bears for five minutes unless it says otherwise.
const BORNE_TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Lifetime of tokens that pods get: an hour and a little, so that it can be told from one that was asked for.
const TOKEN_SECONDS: u32 = 3607;

/// Adds what a new pod gets from the plug-ins that are always on: service account, tolerations, priority.
pub(crate) fn admit(pod: &mut Value, request: &AdmissionRequest) {
    let is_mirror = is_set(&pod["metadata"]["annotations"][MIRROR]);
    limit_range::fill_in(pod, &request.limit_ranges);
    let spec = &mut pod["spec"];
    if !is_mirror {
        use_service_account(spec, request);
    }
    bear_taints(spec);
    if let Some(class) = &request.priority_class {
        spec["priorityClassName"] = class["metadata"]["name"].clone();
        spec["priority"] = class["value"].clone();
        default_pointer(spec, "preemptionPolicy", class["preemptionPolicy"].clone());
    }
    if !is_set(&spec["priority"]) {
        let name = text(&spec["priorityClassName"]);
        let class = SYSTEM_CLASSES.iter().find(|(own, ..)| *own == name);
        spec["priority"] = class.map_or(0, |(_, value, _)| *value).into();
    }
    default_pointer(spec, "preemptionPolicy", "PreemptLowerPriority");
}

fn use_service_account(spec: &mut Value, request: &AdmissionRequest) {
    let account = request.service_account.as_ref().unwrap_or(&Value::Null);
    if text(&spec["serviceAccountName"]).is_empty() {
        spec["serviceAccountName"] = "default".into();
        spec["serviceAccount"] = "default".into();
    }
    if items(&spec["imagePullSecrets"]).is_empty() && !items(&account["imagePullSecrets"]).is_empty() {
        spec["imagePullSecrets"] = account["imagePullSecrets"].clone();
    }
    let automount = spec["automountServiceAccountToken"]
        .as_bool()
        .or_else(|| account["automountServiceAccountToken"].as_bool())
        .unwrap_or(true);
    if automount {
        mount_token(spec);
    }
}

/// Adds what an update of a pod gets from the same plug-ins.
pub(crate) fn admit_update(old: &Value, new: &mut Value) {
    bear_taints(&mut new["spec"]);
    for name in ["priority", "preemptionPolicy"] {
        if !is_set(&new["spec"][name]) && is_set(&old["spec"][name]) {
            new["spec"][name] = old["spec"][name].clone();
        }
    }
}

fn mount_token(spec: &mut Value) {
    let existing = items(&spec["volumes"])
        .iter()
        .map(|volume| text(&volume["name"]))
        .find(|name| name.starts_with(TOKEN_VOLUME));
    let is_there = existing.is_some();
    let volume = existing.map_or_else(|| format!("{TOKEN_VOLUME}{}", random_suffix()), str::to_owned);
    let mut is_needed = false;
    for list in ["initContainers", "containers"] {
        for container in items_mut(spec, list) {
            if items(&container["volumeMounts"])
                .iter()
                .any(|mount| text(&mount["mountPath"]) == TOKEN_DIRECTORY)
            {
                continue;
            }
            is_needed = true;
            let mount = json!({"name": volume, "readOnly": true, "mountPath": TOKEN_DIRECTORY});
            push(container, "volumeMounts", mount);
        }
    }
    if is_there || !is_needed {
        return;
    }
    let projected = json!({
        "defaultMode": 0o644,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{
                "path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
            }]}}
        ]
    });
    push(spec, "volumes", json!({"name": volume, "projected": projected}));
}

fn push(value: &mut Value, name: &str, item: Value) {
    match value.get_mut(name).and_then(Value::as_array_mut) {
        Some(list) => list.push(item),
        None => value[name] = json!([item]),
    }
}

/// Five characters that spell no word, as in generated names.
fn random_suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut random = rand::rng();
    (0..5).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect()
}

fn bear_taints(spec: &mut Value) {
    for taint in BORNE_TAINTS {
        let is_borne = items(&spec["tolerations"]).iter().any(|toleration| {
            let (key, effect) = (text(&toleration["key"]), text(&toleration["effect"]));
            (key.is_empty() || key == taint) && (effect.is_empty() || effect == "NoExecute")
        });
        if !is_borne {
            let toleration =
                json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300});
            push(spec, "tolerations", toleration);
        }
    }
}

/// A new pod has no ephemeral containers; they come later, through their subresource.
pub(crate) fn validate_create(errors: &mut FieldErrors, pod: &Value) {
    if !items(&pod["spec"]["ephemeralContainers"]).is_empty() {
        errors.forbidden(&Path::root("spec").child("ephemeralContainers"), "cannot be set on create");
    }
}

/// What a change through the subresource may do: add ephemeral containers. Those that are there stay as they are; their
/// order does not count, since a patch does not keep it.
pub(crate) fn validate_ephemeral_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    if is_set(&old["metadata"]["annotations"][MIRROR]) {
        return errors.forbidden(&Path::root(""), "static pods do not support ephemeral containers");
    }
    let path = Path::root("spec").child("ephemeralContainers");
    let named = |spec: &Value, name: &str| {
        items(&spec["ephemeralContainers"]).iter().find(|other| text(&other["name"]) == name).cloned()
    };
    for before in items(&old["spec"]["ephemeralContainers"]) {
        let name = text(&before["name"]);
        let quoted = schema::go_quote(name);
        match named(&new["spec"], name) {
            None => {
                let detail = format!("existing ephemeral containers {quoted} may not be removed\n");
                errors.forbidden(&path, detail);
            }
            Some(after) if after != *before => {
                let mut differences = Vec::new();
                list_differences(&path, before, &after, &mut differences);
                let detail = format!(
                    "existing ephemeral containers {quoted} may not be changed\n{}",
                    differences.join("\n")
                );
                errors.forbidden(&path, detail);
            }
            Some(_) => {}
        }
    }
}

/// What an update may change: images, deadlines (shorter), tolerations (more), scheduling gates (fewer) and a
/// negative grace period to 1; labels and annotations are free.
pub(crate) fn validate_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let path = Path::root("spec");
    let (old, new) = (&old["spec"], &new["spec"]);
    for list in ["containers", "initContainers"] {
        if items(&old[list]).len() != items(&new[list]).len() {
            return errors.forbidden(&path.child(list), "pod updates may not add or remove containers");
        }
        for (index, container) in items(&new[list]).iter().enumerate() {
            let at = path.child(list).index(index).child("image");
            let image = text(&container["image"]);
            if required_text(errors, &at, image) && image.trim() != image {
                errors.invalid(&at, image, "must not have leading or trailing whitespace");
            }
        }
    }
    deadline(errors, &path.child("activeDeadlineSeconds"), old, new);
    scheduling_gates(errors, &path.child("schedulingGates"), old, new);
    if !tolerations_only_grow(old, new) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.forbidden(&path.child("tolerations"), detail);
    }
    let munged = with_permitted_changes(old, new);
    if munged == *old {
        return;
    }
    let mut differences = Vec::new();
    list_differences(&path, old, &munged, &mut differences);
    let detail = format!(
        "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,\
         `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
         `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n{}",
        differences.join("\n")
    );
    errors.forbidden(&path, detail);
}

/// The new spec with everything that may change put back to what it was.
fn with_permitted_changes(old: &Value, new: &Value) -> Value {
    let mut munged = new.clone();
    for list in ["containers", "initContainers"] {
        for (container, before) in items_mut(&mut munged, list).zip(items(&old[list])) {
            container["image"] = before["image"].clone();
        }
    }
    let mut restored = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    let was_negative = old["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0);
    if was_negative && new["terminationGracePeriodSeconds"] == 1 {
        restored.push("terminationGracePeriodSeconds");
    }
    for name in restored {
        if is_set(&old[name]) {
            munged[name] = old[name].clone();
        } else {
            remove(&mut munged, name);
        }
    }
    munged
}

fn deadline(errors: &mut FieldErrors, path: &Path, old: &Value, new: &Value) {
    let (before, after) = (old["activeDeadlineSeconds"].as_i64(), new["activeDeadlineSeconds"].as_i64());
    match (before, after) {
        (Some(before), Some(after)) if after > before => {
            errors.invalid(path, after, "must be less than or equal to previous value");
        }
        (Some(_), None) => {
            errors.invalid(path, Value::Null, "must not update from a positive integer to nil value")
        }
        (Some(_) | None, _) => {}
    }
}

fn scheduling_gates(errors: &mut FieldErrors, path: &Path, old: &Value, new: &Value) {
    let before = items(&old["schedulingGates"]);
    let known: BTreeSet<&str> = before.iter().map(|gate| text(&gate["name"])).collect();
    let added = items(&new["schedulingGates"]).iter().find(|gate| !known.contains(text(&gate["name"])));
    if let Some(gate) = added {
        let detail =
            format!("only deletion is allowed, but found new scheduling gate '{}'", text(&gate["name"]));
        errors.forbidden(path, detail);
    }
}

fn tolerations_only_grow(old: &Value, new: &Value) -> bool {
    let without_seconds = |toleration: &Value| {
        let mut copy = toleration.clone();
        remove(&mut copy, "tolerationSeconds");
        copy.to_string()
    };
    let after: BTreeSet<String> = items(&new["tolerations"]).iter().map(without_seconds).collect();
    items(&old["tolerations"]).iter().map(without_seconds).all(|toleration| after.contains(&toleration))
}

/// Names the fields that differ, without their values: a value may be one that the reader should not see.
fn list_differences(path: &Path, old: &Value, new: &Value, differences: &mut Vec<String>) {
    const SHOWN: usize = 10;
    if old == new || differences.len() >= SHOWN {
        return;
    }
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let mut keys: Vec<_> = before.keys().chain(after.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                list_differences(&path.child(key), &old[key], &new[key], differences);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                list_differences(&path.index(index), before, after, differences);
            }
        }
        (Value::Null, _) => differences.push(format!("+ {path}")),
        (_, Value::Null) => differences.push(format!("- {path}")),
        _ => differences.push(format!("~ {path}")),
    }
}

/// Removes the fields whose gate is off, unless the old spec uses them. `spec_path` is where the spec stands.
pub(crate) fn drop_disabled_fields(
    spec: &mut Value,
    spec_path: &Path,
    old_spec: Option<&Value>,
    request: &AdmissionRequest,
) -> DroppedFields {
    let mut dropped = DroppedFields::default();
    if request.gates.env_files || old_spec.is_some_and(crate::env::uses_env_files) {
        return dropped;
    }
    for list in CONTAINER_LISTS {
        for (place, container) in items_mut(spec, list).enumerate() {
            for (index, variable) in items_mut(container, "env").enumerate() {
                if is_set(&variable["valueFrom"]["fileKeyRef"]) {
                    object_field(variable, "valueFrom").remove("fileKeyRef");
                    let at = spec_path.child(list).index(place).child("env").index(index).child("valueFrom");
                    dropped.0.push(at.to_string());
                }
            }
        }
    }
    dropped
}

/// What [`drop_disabled_fields`] took away: paths of `valueFrom` that had a `fileKeyRef`.
#[derive(Default)]
pub(crate) struct DroppedFields(Vec<String>);

impl DroppedFields {
    /// Tells why a source that seems to name nothing does so.
    pub(crate) fn explain(&self, errors: &mut FieldErrors) {
        for error in errors.0.iter_mut().filter(|error| self.0.contains(&error.field)) {
            error.detail.push_str(" (");
            error.detail.push_str(DROPPED);
            error.detail.push(')');
        }
    }

    /// One warning for each.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = Warning> {
        self.0.iter().map(|path| Warning(format!("{path}.fileKeyRef: {DROPPED}")))
    }
}

/// Why an env file is not read.
const DROPPED: &str = "fileKeyRef was dropped: the feature gate EnvFiles is off";
