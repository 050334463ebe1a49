//! Validation of containers of all three lists.

use std::collections::BTreeSet;

use serde_json::Value;

use super::SpecRules;
use super::handler::{self, ProbeKind};
use super::volume::KnownVolumes;
use super::{resources, restart, security};
use crate::env;
use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::{
    descending_path, messages, one_of, optional_one_of, port_number, required_label, required_text,
};
use crate::tree::{is_set, items, text};

const PROBES: [(&str, ProbeKind); 3] = [
    ("livenessProbe", ProbeKind::Liveness),
    ("readinessProbe", ProbeKind::Readiness),
    ("startupProbe", ProbeKind::Startup),
];

/// What an ephemeral container may not have.
const NOT_EPHEMERAL: [&str; 9] = [
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "startupProbe",
    "restartPolicy",
    "restartPolicyRules",
];

/// What the checks of each container need to know of its pod.
struct PodFacts<'a> {
    volumes: &'a KnownVolumes<'a>,
    grace_seconds: i64,
    own_users: bool,
    rules: SpecRules<'a>,
}

/// Checks every container of a spec.
pub(super) fn validate(
    errors: &mut FieldErrors,
    path: &Path,
    spec: &Value,
    volumes: &KnownVolumes<'_>,
    rules: SpecRules<'_>,
) {
    let grace_seconds = spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    let own_users = spec["hostUsers"] == false;
    let pod = PodFacts { volumes, grace_seconds, own_users, rules };
    let mut names = BTreeSet::new();
    app_containers(errors, &path.child("containers"), &spec["containers"], &pod, &mut names);
    init_containers(errors, &path.child("initContainers"), &spec["initContainers"], &pod, &mut names);
    ephemeral_containers(
        errors,
        &path.child("ephemeralContainers"),
        &spec["ephemeralContainers"],
        &pod,
        &mut names,
    );
}

fn app_containers<'a>(
    errors: &mut FieldErrors,
    path: &Path,
    containers: &'a Value,
    pod: &PodFacts<'_>,
    names: &mut BTreeSet<&'a str>,
) {
    if items(containers).is_empty() {
        return errors.required(path, "");
    }
    let mut host_ports = BTreeSet::new();
    for (index, container) in items(containers).iter().enumerate() {
        let at = path.index(index);
        any_container(errors, &at, container, pod);
        unique_name(errors, &at, container, names);
        hooks_and_probes(errors, &at, container, pod);
        restart::validate(errors, &at, container);
        unique_host_ports(errors, &at, container, &mut host_ports);
    }
}

fn init_containers<'a>(
    errors: &mut FieldErrors,
    path: &Path,
    containers: &'a Value,
    pod: &PodFacts<'_>,
    names: &mut BTreeSet<&'a str>,
) {
    for (index, container) in items(containers).iter().enumerate() {
        let at = path.index(index);
        any_container(errors, &at, container, pod);
        unique_name(errors, &at, container, names);
        unique_host_ports(errors, &at, container, &mut BTreeSet::new());
        restart::validate(errors, &at, container);
        if container["restartPolicy"] == "Always" {
            hooks_and_probes(errors, &at, container, pod);
            continue;
        }
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if is_set(&container[name]) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(&at.child(name), detail);
            }
        }
    }
}

fn ephemeral_containers<'a>(
    errors: &mut FieldErrors,
    path: &Path,
    containers: &'a Value,
    pod: &PodFacts<'_>,
    names: &mut BTreeSet<&'a str>,
) {
    let others: BTreeSet<_> = names.iter().copied().collect();
    for (index, container) in items(containers).iter().enumerate() {
        let at = path.index(index);
        any_container(errors, &at, container, pod);
        unique_name(errors, &at, container, names);
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(&at.child("targetContainerName"), target);
        }
        for name in NOT_EPHEMERAL {
            let value = &container[name];
            if is_set(value) && !value.as_object().is_some_and(serde_json::Map::is_empty) {
                errors.forbidden(&at.child(name), "cannot be set for an Ephemeral Container");
            }
        }
        for (number, mount) in items(&container["volumeMounts"]).iter().enumerate() {
            for name in ["subPath", "subPathExpr"] {
                if !text(&mount[name]).is_empty() {
                    let at = at.child("volumeMounts").index(number).child(name);
                    errors.forbidden(&at, "cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

fn unique_name<'a>(
    errors: &mut FieldErrors,
    path: &Path,
    container: &'a Value,
    names: &mut BTreeSet<&'a str>,
) {
    let name = text(&container["name"]);
    if !name.is_empty() && !names.insert(name) {
        errors.duplicate(&path.child("name"), name);
    }
}

/// What holds for each container, whatever its list.
fn any_container(errors: &mut FieldErrors, path: &Path, container: &Value, pod: &PodFacts<'_>) {
    required_label(errors, &path.child("name"), text(&container["name"]));
    let image = text(&container["image"]);
    if required_text(errors, &path.child("image"), image) && pod.rules.is_pod && image.trim() != image {
        errors.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
    }
    one_of(
        errors,
        &path.child("terminationMessagePolicy"),
        &container["terminationMessagePolicy"],
        &["File", "FallbackToLogsOnError"],
    );
    for name in ["command", "args"] {
        env::no_nul_in(errors, &path.child(name), &container[name]);
    }
    ports(errors, &path.child("ports"), &container["ports"]);
    env::variables(errors, &path.child("env"), &container["env"], pod.rules.grammar, pod.rules.env_files);
    env::sources(errors, &path.child("envFrom"), &container["envFrom"], pod.rules.grammar);
    mounts(errors, path, container, pod.volumes);
    devices(errors, &path.child("volumeDevices"), container, pod.volumes);
    one_of(
        errors,
        &path.child("imagePullPolicy"),
        &container["imagePullPolicy"],
        &["Always", "IfNotPresent", "Never"],
    );
    resources::validate(errors, &path.child("resources"), &container["resources"]);
    security::container(errors, &path.child("securityContext"), &container["securityContext"], pod.own_users);
}

fn hooks_and_probes(errors: &mut FieldErrors, path: &Path, container: &Value, pod: &PodFacts<'_>) {
    for name in ["postStart", "preStop"] {
        let hook = &container["lifecycle"][name];
        if is_set(hook) {
            handler::validate(errors, &path.child("lifecycle").child(name), hook, pod.grace_seconds);
        }
    }
    let signal = &container["lifecycle"]["stopSignal"];
    if is_set(signal) {
        handler::stop_signal(errors, &path.child("lifecycle").child("stopSignal"), text(signal));
    }
    for (name, kind) in PROBES {
        if is_set(&container[name]) {
            handler::probe(errors, &path.child(name), &container[name], kind, pod.grace_seconds);
        }
    }
}

fn ports(errors: &mut FieldErrors, path: &Path, ports: &Value) {
    let mut names = BTreeSet::new();
    for (index, port) in items(ports).iter().enumerate() {
        let at = path.index(index);
        let name = text(&port["name"]);
        if !name.is_empty() {
            let problems = messages(names::PortName::parse(name));
            if problems.is_empty() && !names.insert(name) {
                errors.duplicate(&at.child("name"), name);
            }
            errors.invalid_each(&at.child("name"), name, problems);
        }
        if port["containerPort"].as_i64().unwrap_or(0) == 0 {
            errors.required(&at.child("containerPort"), "");
        } else {
            port_number(errors, &at.child("containerPort"), &port["containerPort"]);
        }
        if port["hostPort"].as_i64().unwrap_or(0) != 0 {
            port_number(errors, &at.child("hostPort"), &port["hostPort"]);
        }
        one_of(errors, &at.child("protocol"), &port["protocol"], &["SCTP", "TCP", "UDP"]);
    }
}

fn unique_host_ports(errors: &mut FieldErrors, path: &Path, container: &Value, seen: &mut BTreeSet<String>) {
    for (index, port) in items(&container["ports"]).iter().enumerate() {
        let number = port["hostPort"].as_i64().unwrap_or(0);
        if number == 0 {
            continue;
        }
        let key = format!("{}/{}/{number}", text(&port["protocol"]), text(&port["hostIP"]));
        if !seen.insert(key.clone()) {
            errors.duplicate(&path.child("ports").index(index).child("hostPort"), key);
        }
    }
}

fn mounts(errors: &mut FieldErrors, path: &Path, container: &Value, volumes: &KnownVolumes<'_>) {
    let list = path.child("volumeMounts");
    let mut places = BTreeSet::new();
    let device_paths: BTreeSet<_> =
        items(&container["volumeDevices"]).iter().map(|device| text(&device["devicePath"])).collect();
    for (index, mount) in items(&container["volumeMounts"]).iter().enumerate() {
        let at = list.index(index);
        let name = text(&mount["name"]);
        required_text(errors, &at.child("name"), name);
        if !volumes.contains_key(name) {
            errors.not_found(&at.child("name"), name);
        }
        let place = text(&mount["mountPath"]);
        required_text(errors, &at.child("mountPath"), place);
        if !places.insert(place) {
            errors.invalid(&at.child("mountPath"), place, "must be unique");
        }
        if device_paths.contains(place) && !place.is_empty() {
            errors.invalid(
                &at.child("mountPath"),
                place,
                "must not already exist as a path in volumeDevices",
            );
        }
        // Upstream gives the place of the list here, not of the item.
        let (sub_path, expression) = (text(&mount["subPath"]), text(&mount["subPathExpr"]));
        if !sub_path.is_empty() {
            descending_path(errors, &list.child("subPath"), sub_path);
        }
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errors.invalid(&at.child("subPathExpr"), expression, detail);
            }
            descending_path(errors, &list.child("subPathExpr"), expression);
        }
        propagation(errors, &at, mount, container);
    }
}

fn propagation(errors: &mut FieldErrors, path: &Path, mount: &Value, container: &Value) {
    let at = path.child("mountPropagation");
    let supported = ["Bidirectional", "HostToContainer", "None"];
    optional_one_of(errors, &at, &mount["mountPropagation"], &supported);
    if mount["mountPropagation"] == "Bidirectional" && container["securityContext"]["privileged"] != true {
        errors.forbidden(&at, "Bidirectional mount propagation is available only to privileged containers");
    }
    let recursive = &mount["recursiveReadOnly"];
    optional_one_of(
        errors,
        &path.child("recursiveReadOnly"),
        recursive,
        &["Disabled", "Enabled", "IfPossible"],
    );
    let wants_recursive = recursive == "Enabled" || recursive == "IfPossible";
    if wants_recursive && mount["readOnly"] != true {
        errors.forbidden(&path.child("recursiveReadOnly"), "may only be specified when readOnly is true");
    }
}

fn devices(errors: &mut FieldErrors, path: &Path, container: &Value, volumes: &KnownVolumes<'_>) {
    let mut places = BTreeSet::new();
    for (index, device) in items(&container["volumeDevices"]).iter().enumerate() {
        let at = path.index(index);
        let name = text(&device["name"]);
        required_text(errors, &at.child("name"), name);
        match volumes.get(name) {
            None => errors.not_found(&at.child("name"), name),
            Some(volume) if !is_set(&volume["persistentVolumeClaim"]) && !is_set(&volume["ephemeral"]) => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&at.child("name"), name, detail);
            }
            Some(_) => {}
        }
        let place = text(&device["devicePath"]);
        required_text(errors, &at.child("devicePath"), place);
        if !places.insert(place) {
            errors.invalid(&at.child("devicePath"), place, "must be unique");
        }
    }
}
