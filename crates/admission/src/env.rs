//! Rules of `env` and `envFrom`: names by grammar, one source each, env files; the same for every list of containers.

use std::collections::{BTreeMap, BTreeSet};

use names::{ConfigKey, DnsSubdomain, EnvNameGrammar, EnvVarName, QualifiedName};
use quantity::Quantity;
use serde_json::Value;

use crate::containers::{self, ContainerKind};
use crate::errors::FieldErrors;
use crate::path::Path;
use crate::request::{AdmissionRequest, EnvFileMounts, Warning};
use crate::scalars::{label, messages, no_backsteps, required_text};
use crate::tree::{is_set, items, text};

/// Field paths that `fieldRef` of a variable may name.
const ENV_FIELD_PATHS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Field paths that a downward API volume may name.
pub(crate) const VOLUME_FIELD_PATHS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const CPU_DIVISORS: [&str; 2] = ["1m", "1"];
const BYTE_DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Sources of `valueFrom` in upstream's order.
const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// The grammar of names in a pod's spec: with the gate off strict, unless the old object already uses a name that only
/// the relaxed grammar has and that the new one keeps.
pub(crate) fn grammar(spec: &Value, old_spec: Option<&Value>, request: &AdmissionRequest) -> EnvNameGrammar {
    if request.gates.relaxed_environment_variable_validation {
        return EnvNameGrammar::Relaxed;
    }
    let Some(old_spec) = old_spec else { return EnvNameGrammar::Strict };
    let old = relaxed_only_names(old_spec);
    if relaxed_only_names(spec).intersection(&old).next().is_some() {
        EnvNameGrammar::Relaxed
    } else {
        EnvNameGrammar::Strict
    }
}

/// Names and prefixes that fail the strict grammar.
fn relaxed_only_names(spec: &Value) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for container in containers::all(spec, &Path::root("")) {
        let names = items(&container.value["env"]).iter().map(|variable| text(&variable["name"]));
        let prefixes = items(&container.value["envFrom"]).iter().map(|source| text(&source["prefix"]));
        found.extend(
            names
                .chain(prefixes)
                .filter(|name| !name.is_empty() && EnvVarName::check(name, EnvNameGrammar::Strict).is_err()),
        );
    }
    found
}

/// Whether any variable of the spec comes from an env file.
pub(crate) fn uses_env_files(spec: &Value) -> bool {
    containers::all(spec, &Path::root(""))
        .iter()
        .flat_map(|container| items(&container.value["env"]))
        .any(|variable| is_set(&variable["valueFrom"]["fileKeyRef"]))
}

/// Checks a list of variables. `env_files`: whether `fileKeyRef` is one of the sources.
pub(crate) fn variables(
    errors: &mut FieldErrors,
    path: &Path,
    variables: &Value,
    grammar: EnvNameGrammar,
    env_files: bool,
) {
    for (index, variable) in items(variables).iter().enumerate() {
        let at = path.index(index);
        let name = text(&variable["name"]);
        if required_text(errors, &at.child("name"), name)
            && let Err(error) = EnvVarName::check(name, grammar)
        {
            errors.invalid_each(&at.child("name"), name, error.messages());
        }
        no_nul(errors, &at.child("value"), text(&variable["value"]));
        value_source(errors, &at.child("valueFrom"), variable, env_files);
    }
}

/// Text that a process gets must not hold a NUL byte; the message never shows the text.
pub(crate) fn no_nul(errors: &mut FieldErrors, path: &Path, value: &str) {
    if value.contains('\0') {
        errors.invalid_unseen(path, "must not contain a NUL byte: the kernel would cut the text there");
    }
}

/// The same for the items of a command.
pub(crate) fn no_nul_in(errors: &mut FieldErrors, path: &Path, list: &Value) {
    for (index, item) in items(list).iter().enumerate() {
        no_nul(errors, &path.index(index), text(item));
    }
}

fn value_source(errors: &mut FieldErrors, path: &Path, variable: &Value, env_files: bool) {
    let source = &variable["valueFrom"];
    if !is_set(source) {
        return;
    }
    let mut count = 0;
    for name in SOURCES {
        let reference = &source[name];
        if !is_set(reference) {
            continue;
        }
        count += 1;
        let at = path.child(name);
        match name {
            "fieldRef" => field_reference(errors, &at, reference, &ENV_FIELD_PATHS),
            "resourceFieldRef" => resource_reference(errors, &at, reference, false),
            "fileKeyRef" => file_reference(errors, &at, reference),
            _ => key_reference(errors, &at, reference),
        }
    }
    if count == 0 {
        let last = if env_files {
            "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        } else {
            "`configMapKeyRef` or `secretKeyRef`"
        };
        errors.invalid(path, "", format!("must specify one of: `fieldRef`, `resourceFieldRef`, {last}"));
    } else if !text(&variable["value"]).is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// Checks a `fieldRef`.
pub(crate) fn field_reference(errors: &mut FieldErrors, path: &Path, reference: &Value, supported: &[&str]) {
    let (version, written) = (text(&reference["apiVersion"]), text(&reference["fieldPath"]));
    if !required_text(errors, &path.child("apiVersion"), version)
        || !required_text(errors, &path.child("fieldPath"), written)
    {
        return;
    }
    let at = path.child("fieldPath");
    let convert = |errors: &mut FieldErrors, problem: String| {
        errors.invalid(&at, written, format!("error converting fieldPath: {problem}"));
    };
    if version != "v1" {
        return convert(errors, format!("unsupported pod version: {version}"));
    }
    if let Some((map, key)) = subscripted(written) {
        return match map {
            "metadata.annotations" => {
                errors.invalid_each(path, key, messages(QualifiedName::parse(&key.to_lowercase())));
            }
            "metadata.labels" => errors.invalid_each(path, key, messages(QualifiedName::parse(key))),
            _ => convert(errors, format!("field label does not support subscript: {written}")),
        };
    }
    let field = if written == "spec.host" { "spec.nodeName" } else { written };
    let convertible = ENV_FIELD_PATHS.contains(&field)
        || VOLUME_FIELD_PATHS.contains(&field)
        || matches!(field, "spec.restartPolicy" | "spec.schedulerName" | "status.phase");
    if !convertible {
        convert(errors, format!("field label not supported: {written}"));
    } else if !supported.contains(&field) {
        errors.not_supported(&at, field, supported);
    }
}

/// Splits `metadata.labels['KEY']`.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    let (map, key) = path.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}

/// Checks a `resourceFieldRef`; in volumes the container must be named.
pub(crate) fn resource_reference(errors: &mut FieldErrors, path: &Path, reference: &Value, in_volume: bool) {
    if in_volume && !required_text(errors, &path.child("containerName"), text(&reference["containerName"])) {
        return;
    }
    let resource = text(&reference["resource"]);
    let is_huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !is_huge && !RESOURCES.contains(&resource) {
        errors.not_supported(&path.child("resource"), resource, &RESOURCES);
    }
    let Ok(divisor) = Quantity::parse(text(&reference["divisor"])) else { return };
    let divisor_of = |allowed: &[&str]| {
        divisor.is_zero()
            || allowed.iter().any(|text| Quantity::parse(text).is_ok_and(|unit| unit == divisor))
    };
    let (allowed, what): (&[&str], _) = match resource.split_once('.').map(|(_, name)| name) {
        Some("cpu") => (&CPU_DIVISORS, "cpu"),
        Some("memory") => (&BYTE_DIVISORS, "memory"),
        Some("ephemeral-storage") => (&BYTE_DIVISORS, "local ephemeral storage"),
        Some(_) if is_huge => (&BYTE_DIVISORS, "hugepages"),
        _ => return,
    };
    if !divisor_of(allowed) {
        let values = if what == "cpu" { allowed.join(" and ") } else { allowed.join(", ") };
        let detail = format!("only divisor's values {values} are supported with the {what} resource");
        errors.invalid(&path.child("divisor"), resource, detail);
    }
}

fn key_reference(errors: &mut FieldErrors, path: &Path, reference: &Value) {
    let (name, key) = (text(&reference["name"]), text(&reference["key"]));
    errors.invalid_each(&path.child("name"), name, messages(DnsSubdomain::parse(name)));
    if required_text(errors, &path.child("key"), key) {
        errors.invalid_each(&path.child("key"), key, messages(ConfigKey::parse(key)));
    }
}

fn file_reference(errors: &mut FieldErrors, path: &Path, reference: &Value) {
    let key = text(&reference["key"]);
    if required_text(errors, &path.child("key"), key)
        && let Err(error) = EnvVarName::check(key, EnvNameGrammar::Relaxed)
    {
        errors.invalid_each(&path.child("key"), key, error.messages());
    }
    let volume = text(&reference["volumeName"]);
    if required_text(errors, &path.child("volumeName"), volume) {
        label(errors, &path.child("volumeName"), volume);
    }
    let file = text(&reference["path"]);
    if required_text(errors, &path.child("path"), file) {
        no_backsteps(errors, &path.child("path"), file);
        no_nul(errors, &path.child("path"), file);
    }
}

/// Checks `envFrom`. The errors about the number of sources stand at the list, as in upstream.
pub(crate) fn sources(errors: &mut FieldErrors, path: &Path, list: &Value, grammar: EnvNameGrammar) {
    for (index, source) in items(list).iter().enumerate() {
        let at = path.index(index);
        let prefix = text(&source["prefix"]);
        if !prefix.is_empty()
            && let Err(error) = EnvVarName::check(prefix, grammar)
        {
            errors.invalid_each(&at.child("prefix"), prefix, error.messages());
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            if !is_set(&source[kind]) {
                continue;
            }
            count += 1;
            let name = text(&source[kind]["name"]);
            let at = at.child(kind).child("name");
            if required_text(errors, &at, name) {
                errors.invalid_each(&at, name, messages(DnsSubdomain::parse(name)));
            }
        }
        match count {
            0 => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}

/// The volume of every env file must exist and be an emptyDir, and who mounts it is limited.
pub(crate) fn env_file_volumes(
    errors: &mut FieldErrors,
    warnings: &mut Vec<Warning>,
    spec_path: &Path,
    spec: &Value,
    mounts: EnvFileMounts,
) {
    let volumes: BTreeMap<&str, &Value> =
        items(&spec["volumes"]).iter().rev().map(|volume| (text(&volume["name"]), volume)).collect();
    let all = containers::all(spec, spec_path);
    let (mut read, mut consumed) = (BTreeSet::new(), BTreeSet::new());
    for container in &all {
        for (index, variable) in items(&container.value["env"]).iter().enumerate() {
            let reference = &variable["valueFrom"]["fileKeyRef"];
            let name = text(&reference["volumeName"]);
            if name.is_empty() {
                continue;
            }
            let at = container.path.child("env").index(index).child("valueFrom").child("fileKeyRef");
            match volumes.get(name) {
                None => errors.not_found(&at.child("volumeName"), name),
                Some(volume) if !is_set(&volume["emptyDir"]) => {
                    errors.invalid(
                        &at.child("volumeName"),
                        name,
                        "referenced volume must be of type emptyDir",
                    );
                }
                Some(_) => {}
            }
            read.insert(name);
            consumed.insert((container.path.to_string(), name));
        }
    }
    for container in &all {
        for (index, mount) in items(&container.value["volumeMounts"]).iter().enumerate() {
            let name = text(&mount["name"]);
            if !read.contains(name) {
                continue;
            }
            let consumes = consumed.contains(&(container.path.to_string(), name));
            let problem = match (container.kind, consumes) {
                (_, true) => "this container takes variables from a file of the volume and mounts it, too",
                (ContainerKind::Init, false) => continue,
                (ContainerKind::Sidecar | ContainerKind::App | ContainerKind::Ephemeral, false) => {
                    "variables are taken from a file of the volume, which only init containers should mount"
                }
            };
            let at = container.path.child("volumeMounts").index(index);
            let detail = format!(
                "volume {}: {problem}; a running container can change what the next start reads",
                schema::go_quote(name)
            );
            match mounts {
                EnvFileMounts::Warn => warnings.push(Warning(format!("{at}: {detail}"))),
                EnvFileMounts::InitOnly => {
                    errors.forbidden(
                        &at,
                        format!("{detail} (the API server runs with --env-file-mounts=init-only)"),
                    );
                }
            }
        }
    }
}

/// Warnings about variables whose definition hides an earlier one.
pub(crate) fn warnings(spec: &Value, spec_path: &Path) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for container in containers::all(spec, spec_path) {
        let path = container.path.child("env");
        let mut seen = BTreeSet::new();
        for (index, variable) in items(&container.value["env"]).iter().enumerate() {
            let (name, value) = (text(&variable["name"]), text(&variable["value"]));
            let itself = format!("$({name})");
            let hides = is_set(&variable["valueFrom"]) || value == itself || !value.contains(&itself);
            let at = path.index(index);
            if !name.is_empty() && !seen.insert(name) && hides {
                warnings.push(Warning(format!(
                    "{at}: hides previous definition of {}, which may be dropped when using apply",
                    schema::go_quote(name)
                )));
            }
        }
    }
    warnings
}
