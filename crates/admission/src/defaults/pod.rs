//! Defaults of pods and pod templates.

use quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::containers::CONTAINER_LISTS;
use crate::tree::{
    default_field, default_pointer, field, is_set, items, items_mut, object_field, remove, text,
};

/// Permissions of projected files: 0644.
const FILE_MODE: u32 = 0o644;

/// Fields of a volume that are not its source.
const NOT_A_SOURCE: &str = "name";

/// Defaults of a Pod, some of which templates do not have.
pub(crate) fn pod(object: &mut Value) {
    let spec = &mut object["spec"];
    default_pointer(spec, "enableServiceLinks", true);
    for list in ["initContainers", "containers"] {
        for container in items_mut(spec, list) {
            requests_from_limits(container);
        }
    }
    if spec["hostNetwork"] == true {
        for list in ["initContainers", "containers"] {
            for container in items_mut(spec, list) {
                for port in items_mut(container, "ports") {
                    if port["hostPort"].as_i64().unwrap_or(0) == 0 {
                        port["hostPort"] = port["containerPort"].clone();
                    }
                }
            }
        }
    }
    template_spec(spec);
}

/// Defaults that the specs of pods and of templates share.
pub(crate) fn template_spec(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    default_field(spec, "restartPolicy", "Always");
    default_field(spec, "dnsPolicy", "ClusterFirst");
    default_field(spec, "schedulerName", "default-scheduler");
    default_pointer(spec, "securityContext", json!({}));
    default_pointer(spec, "terminationGracePeriodSeconds", 30);
    mirror_service_account(spec);
    for list in CONTAINER_LISTS {
        for one in items_mut(spec, list) {
            container(one);
        }
    }
    for one in items_mut(spec, "volumes") {
        volume(one);
    }
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are kept and the new one wins.
fn mirror_service_account(spec: &mut Value) {
    let (current, old) = (text(&spec["serviceAccountName"]), text(&spec["serviceAccount"]));
    let name = if current.is_empty() { old } else { current }.to_owned();
    if name.is_empty() {
        remove(spec, "serviceAccount");
        remove(spec, "serviceAccountName");
    } else {
        spec["serviceAccountName"] = name.clone().into();
        spec["serviceAccount"] = name.into();
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(&container["image"]));
    default_field(container, "imagePullPolicy", policy);
    default_field(container, "terminationMessagePath", "/dev/termination-log");
    default_field(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, "ports") {
        default_field(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        let Some(source) = field(variable, "valueFrom") else { continue };
        if let Some(reference) = field(source, "fieldRef") {
            default_field(reference, "apiVersion", "v1");
        }
        if let Some(reference) = field(source, "fileKeyRef") {
            default_pointer(reference, "optional", false);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = field(container, name) {
            default_zero(probe, "timeoutSeconds", 1);
            default_zero(probe, "periodSeconds", 10);
            default_zero(probe, "successThreshold", 1);
            default_zero(probe, "failureThreshold", 3);
            handler(probe);
        }
    }
    if let Some(lifecycle) = field(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(hook) = field(lifecycle, name) {
                handler(hook);
            }
        }
    }
    if let Some(resources) = field(container, "resources") {
        for name in ["limits", "requests"] {
            if let Some(Value::Object(list)) = field(resources, name) {
                round_to_thousandths(list);
            }
        }
    }
}

/// Amounts are kept in thousandths; smaller fractions are rounded up.
fn round_to_thousandths(list: &mut Map<String, Value>) {
    for amount in list.values_mut() {
        let Ok(exact) = Quantity::parse(text(amount)) else { continue };
        let Ok(millis) = i64::try_from(exact.millis()) else { continue };
        let rounded = Quantity::from_millis(millis);
        if rounded > exact {
            *amount = rounded.to_string().into();
        }
    }
}

fn default_zero(probe: &mut Value, name: &str, default: i64) {
    if probe[name].as_i64().unwrap_or(0) == 0 {
        probe[name] = default.into();
    }
}

fn handler(handler: &mut Value) {
    if let Some(request) = field(handler, "httpGet") {
        default_field(request, "path", "/");
        default_field(request, "scheme", "HTTP");
    }
    if let Some(call) = field(handler, "grpc") {
        default_pointer(call, "service", "");
    }
}

/// `Always` for the tag `latest`, given or meant, unless there is a digest.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let last = name.rsplit('/').next().unwrap_or(name);
    let tag = last.rsplit_once(':').map(|(_, tag)| tag);
    match (tag, digest) {
        (Some("latest"), _) | (None, None) => "Always",
        _ => "IfNotPresent",
    }
}

fn requests_from_limits(container: &mut Value) {
    let Some(limits) = container["resources"]["limits"].as_object().cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let requests = object_field(&mut container["resources"], "requests");
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

fn volume(volume: &mut Value) {
    let Some(fields) = volume.as_object_mut() else { return };
    if fields.iter().all(|(name, source)| name == NOT_A_SOURCE || source.is_null()) {
        fields.insert("emptyDir".to_owned(), json!({}));
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = field(volume, name) {
            default_pointer(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = field(volume, "downwardAPI") {
        downward_items(source);
    }
    if let Some(source) = field(volume, "projected") {
        for projection in items_mut(source, "sources") {
            if let Some(token) = field(projection, "serviceAccountToken") {
                default_pointer(token, "expirationSeconds", 3600);
            }
            if let Some(downward) = field(projection, "downwardAPI") {
                downward_items(downward);
            }
        }
    }
    if let Some(source) = field(volume, "hostPath") {
        default_pointer(source, "type", "");
    }
    if let Some(source) = field(volume, "iscsi") {
        default_field(source, "iscsiInterface", "default");
    }
    if let Some(source) = field(volume, "rbd") {
        default_field(source, "pool", "rbd");
        default_field(source, "user", "admin");
        default_field(source, "keyring", "/etc/ceph/keyring");
    }
    if let Some(source) = field(volume, "image") {
        let policy = pull_policy(text(&source["reference"]));
        default_field(source, "pullPolicy", policy);
    }
    if let Some(template) = field(volume, "ephemeral")
        .and_then(|source| field(source, "volumeClaimTemplate"))
        .and_then(|t| field(t, "spec"))
    {
        default_pointer(template, "volumeMode", "Filesystem");
    }
}

fn downward_items(source: &mut Value) {
    for item in items_mut(source, "items") {
        if let Some(reference) = field(item, "fieldRef") {
            default_field(reference, "apiVersion", "v1");
        }
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort`, from the cpu and memory of init and app containers.
pub(crate) fn quality_of_service(spec: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    let pod_level = &spec["resources"];
    let every: Vec<&Value> = if is_set(&pod_level["limits"]) || is_set(&pod_level["requests"]) {
        vec![pod_level]
    } else {
        items(&spec["containers"])
            .iter()
            .chain(items(&spec["initContainers"]))
            .map(|container| &container["resources"])
            .collect()
    };
    for resources in every {
        for name in ["cpu", "memory"] {
            let amount = |list: &str| {
                Quantity::parse(text(&resources[list][name])).ok().filter(|amount| !amount.is_zero())
            };
            let (limit, request) = (amount("limits"), amount("requests"));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
