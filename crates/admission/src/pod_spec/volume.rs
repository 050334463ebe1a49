//! Validation of volumes.

use std::collections::{BTreeMap, BTreeSet};

use quantity::Quantity;
use serde_json::Value;

use crate::env::{VOLUME_FIELD_PATHS, field_reference, resource_reference};
use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::{file_mode, no_backsteps, projected_path, required_label, required_text};
use crate::tree::{is_set, items, text};

/// Volumes without a fault, by name.
pub(super) type KnownVolumes<'a> = BTreeMap<&'a str, &'a Value>;

/// Sources in upstream's order.
const SOURCES: [&str; 29] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
];

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Checks a list of volumes and tells which ones containers may use.
pub(super) fn validate<'a>(errors: &mut FieldErrors, path: &Path, volumes: &'a Value) -> KnownVolumes<'a> {
    let mut known = KnownVolumes::new();
    for (index, volume) in items(volumes).iter().enumerate() {
        let at = path.index(index);
        let mut found = FieldErrors::default();
        source(&mut found, &at, volume);
        let name = text(&volume["name"]);
        required_label(&mut found, &at.child("name"), name);
        if known.contains_key(name) {
            found.duplicate(&at.child("name"), name);
        }
        if found.0.is_empty() {
            known.insert(name, volume);
        } else {
            errors.0.append(&mut found.0);
        }
    }
    known
}

fn source(errors: &mut FieldErrors, path: &Path, volume: &Value) {
    let mut found = false;
    for name in SOURCES.into_iter().chain(["image"]) {
        let source = &volume[name];
        if !is_set(source) {
            continue;
        }
        let at = path.child(name);
        if std::mem::replace(&mut found, true) {
            errors.forbidden(&at, "may not specify more than 1 volume type");
            continue;
        }
        match name {
            "emptyDir" => empty_dir(errors, &at, source),
            "hostPath" => host_path(errors, &at, source),
            "secret" => {
                required_text(errors, &at.child("secretName"), text(&source["secretName"]));
                file_mode(errors, &at.child("defaultMode"), &source["defaultMode"]);
                keys_to_paths(errors, &at.child("items"), &source["items"]);
            }
            "configMap" => {
                required_text(errors, &at.child("name"), text(&source["name"]));
                file_mode(errors, &at.child("defaultMode"), &source["defaultMode"]);
                keys_to_paths(errors, &at.child("items"), &source["items"]);
            }
            "downwardAPI" => {
                file_mode(errors, &at.child("defaultMode"), &source["defaultMode"]);
                downward_files(errors, &at, &source["items"]);
            }
            "projected" => projected(errors, &at, source),
            "nfs" => nfs(errors, &at, source),
            "persistentVolumeClaim" => {
                required_text(errors, &at.child("claimName"), text(&source["claimName"]));
            }
            "csi" => {
                required_text(errors, &at.child("driver"), text(&source["driver"]));
            }
            "image" => {
                required_text(errors, &at.child("reference"), text(&source["reference"]));
            }
            _ => {}
        }
    }
    if !found {
        errors.required(path, "must specify a volume type");
    }
}

fn empty_dir(errors: &mut FieldErrors, path: &Path, source: &Value) {
    if Quantity::parse(text(&source["sizeLimit"])).is_ok_and(|limit| limit.is_negative()) {
        errors.forbidden(&path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

fn host_path(errors: &mut FieldErrors, path: &Path, source: &Value) {
    let directory = text(&source["path"]);
    if !required_text(errors, &path.child("path"), directory) {
        return;
    }
    no_backsteps(errors, &path.child("path"), directory);
    let kind = text(&source["type"]);
    if !HOST_PATH_TYPES.contains(&kind) {
        errors.not_supported(&path.child("type"), kind, &HOST_PATH_TYPES);
    }
}

fn nfs(errors: &mut FieldErrors, path: &Path, source: &Value) {
    required_text(errors, &path.child("server"), text(&source["server"]));
    let directory = text(&source["path"]);
    if required_text(errors, &path.child("path"), directory) && !directory.starts_with('/') {
        errors.invalid(&path.child("path"), directory, "must be an absolute path");
    }
}

fn keys_to_paths(errors: &mut FieldErrors, path: &Path, list: &Value) {
    for (index, item) in items(list).iter().enumerate() {
        let at = path.index(index);
        required_text(errors, &at.child("key"), text(&item["key"]));
        let file = text(&item["path"]);
        if required_text(errors, &at.child("path"), file) {
            projected_path(errors, &at.child("path"), file);
        }
        file_mode(errors, &at.child("mode"), &item["mode"]);
    }
}

/// Files of the downward API; upstream gives the place of the source, not of the item.
fn downward_files(errors: &mut FieldErrors, path: &Path, list: &Value) {
    for file in items(list) {
        let name = text(&file["path"]);
        required_text(errors, &path.child("path"), name);
        projected_path(errors, &path.child("path"), name);
        let (field, resource) = (&file["fieldRef"], &file["resourceFieldRef"]);
        if is_set(field) {
            field_reference(errors, &path.child("fieldRef"), field, &VOLUME_FIELD_PATHS);
            if is_set(resource) {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", detail);
            }
        } else if is_set(resource) {
            resource_reference(errors, &path.child("resourceFieldRef"), resource, true);
        } else {
            errors.required(path, "one of fieldRef and resourceFieldRef is required");
        }
        file_mode(errors, &path.child("mode"), &file["mode"]);
    }
}

fn projected(errors: &mut FieldErrors, path: &Path, source: &Value) {
    file_mode(errors, &path.child("defaultMode"), &source["defaultMode"]);
    let mut paths = BTreeSet::new();
    for (index, projection) in items(&source["sources"]).iter().enumerate() {
        let at = path.child("sources").index(index);
        let mut count = 0;
        for name in [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ] {
            let one = &projection[name];
            if !is_set(one) {
                continue;
            }
            count += 1;
            if count > 1 {
                errors.forbidden(&at.child(name), "may not specify more than 1 volume type per source");
                continue;
            }
            projection_source(errors, &at.child(name), name, one);
            let files = items(&one["items"]).iter().chain((name == "serviceAccountToken").then_some(one));
            for file in files.map(|file| text(&file["path"])).filter(|file| !file.is_empty()) {
                if !paths.insert(file) {
                    errors.invalid(path, file, "conflicting duplicate paths");
                }
            }
        }
        if count == 0 {
            errors.required(&at, "must specify a volume type");
        }
    }
}

fn projection_source(errors: &mut FieldErrors, path: &Path, name: &str, source: &Value) {
    match name {
        "secret" | "configMap" => {
            required_text(errors, &path.child("name"), text(&source["name"]));
            keys_to_paths(errors, &path.child("items"), &source["items"]);
        }
        "downwardAPI" => downward_files(errors, path, &source["items"]),
        "serviceAccountToken" => {
            let seconds = source["expirationSeconds"].as_i64().unwrap_or(3600);
            let at = path.child("expirationSeconds");
            if seconds < 600 {
                errors.invalid(&at, seconds, "may not specify a duration less than 10 minutes");
            }
            if seconds > 1 << 32 {
                errors.invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds");
            }
            let file = text(&source["path"]);
            if required_text(errors, &path.child("path"), file) {
                projected_path(errors, &path.child("path"), file);
            }
        }
        _ => {
            let file = text(&source["path"]);
            if !file.is_empty() {
                projected_path(errors, &path.child("path"), file);
            }
        }
    }
}
