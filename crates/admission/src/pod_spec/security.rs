//! Validation of security contexts of pods and containers.

use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::{descending_path, in_range, optional_one_of};
use crate::tree::{entries, is_set, items, text};

const IDS: i64 = i32::MAX as i64;

/// Checks the pod's security context and its namespaces of the host.
pub(super) fn pod(errors: &mut FieldErrors, spec_path: &Path, spec: &Value) {
    let path = spec_path.child("securityContext");
    let security = &spec["securityContext"];
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        in_range(errors, &path.child(name), &security[name], 0, IDS);
    }
    for (index, group) in items(&security["supplementalGroups"]).iter().enumerate() {
        in_range(errors, &path.child("supplementalGroups").index(index), group, 0, IDS);
    }
    optional_one_of(
        errors,
        &path.child("supplementalGroupsPolicy"),
        &security["supplementalGroupsPolicy"],
        &["Merge", "Strict"],
    );
    optional_one_of(
        errors,
        &path.child("fsGroupChangePolicy"),
        &security["fsGroupChangePolicy"],
        &["Always", "OnRootMismatch"],
    );
    if spec["shareProcessNamespace"] == true && spec["hostPID"] == true {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&spec_path.child("shareProcessNamespace"), true, detail);
    }
    sysctls(errors, &path.child("sysctls"), spec);
    profile(errors, &path.child("seccompProfile"), &security["seccompProfile"]);
    profile(errors, &path.child("appArmorProfile"), &security["appArmorProfile"]);
    if spec["hostUsers"] == false {
        for name in ["hostNetwork", "hostPID", "hostIPC"] {
            if spec[name] == true {
                errors.forbidden(&spec_path.child(name), "when `hostUsers` is false");
            }
        }
    }
}

fn sysctls(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let mut seen = std::collections::BTreeSet::new();
    for (index, sysctl) in items(&spec["securityContext"]["sysctls"]).iter().enumerate() {
        let at = path.index(index).child("name");
        let name = text(&sysctl["name"]);
        if name.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let is_segment = |segment: &str| {
            let edge = |byte: Option<&u8>| {
                byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            };
            let bytes = segment.as_bytes();
            edge(bytes.first())
                && edge(bytes.last())
                && bytes.iter().all(|byte| {
                    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
                })
        };
        if name.len() > 253 || !name.split(['.', '/']).all(is_segment) {
            let detail = "must have at most 253 characters and match regex \
                ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&at, name, detail);
        } else if !seen.insert(name) {
            errors.duplicate(&at, name);
        }
        if spec["hostNetwork"] == true && name.starts_with("net.") {
            errors.invalid(&at, name, "may not be specified when 'hostNetwork' is true");
        }
    }
}

/// A seccomp or AppArmor profile.
fn profile(errors: &mut FieldErrors, path: &Path, profile: &Value) {
    if !is_set(profile) {
        return;
    }
    let (at, file) = (path.child("localhostProfile"), &profile["localhostProfile"]);
    match text(&profile["type"]) {
        "Localhost" if !is_set(file) => errors.required(&at, "must be set when seccomp type is Localhost"),
        "Localhost" => descending_path(errors, &at, text(file)),
        "RuntimeDefault" | "Unconfined" => {
            if is_set(file) {
                errors.invalid(&at, text(file), "can only be set when seccomp type is Localhost");
            }
        }
        "" => errors.required(&path.child("type"), "type is required when seccompProfile is set"),
        other => {
            errors.not_supported(&path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"])
        }
    }
}

/// Checks a container's security context. `own_users`: the pod has user numbers of its own.
pub(super) fn container(errors: &mut FieldErrors, path: &Path, security: &Value, own_users: bool) {
    if !is_set(security) {
        return;
    }
    for name in ["runAsUser", "runAsGroup"] {
        in_range(errors, &path.child(name), &security[name], 0, IDS);
    }
    optional_one_of(errors, &path.child("procMount"), &security["procMount"], &["Default", "Unmasked"]);
    if security["procMount"] == "Unmasked" && !own_users {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        errors.invalid(&path.child("procMount"), "Unmasked", detail);
    }
    profile(errors, &path.child("seccompProfile"), &security["seccompProfile"]);
    if security["allowPrivilegeEscalation"] == false {
        let readable: serde_json::Map<String, Value> =
            entries(security).into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        if security["privileged"] == true {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(path, readable.clone(), detail);
        }
        if items(&security["capabilities"]["add"]).iter().any(|name| name == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(path, readable, detail);
        }
    }
    profile(errors, &path.child("appArmorProfile"), &security["appArmorProfile"]);
}
