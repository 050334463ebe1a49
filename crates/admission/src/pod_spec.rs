//! Validation of the spec of a pod or pod template, in upstream's order.

mod container;
pub(crate) mod handler;
mod resources;
mod restart;
mod scheduling;
mod security;
mod settings;
mod volume;

use names::EnvNameGrammar;
use serde_json::Value;

use crate::env;
use crate::errors::FieldErrors;
use crate::field_support;
use crate::path::Path;
use crate::request::{AdmissionRequest, Warning};
use crate::scalars::{in_range, label, labels, one_of, subdomain};
use crate::tree::{is_set, items, text};

/// What the rules of one spec depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpecRules<'a> {
    /// The grammar of variable names.
    pub(crate) grammar: EnvNameGrammar,
    /// Whether `fileKeyRef` exists.
    pub(crate) env_files: bool,
    /// Whether the spec is a pod's own, where images must be exact.
    pub(crate) is_pod: bool,
    /// Claims that the pods get besides the volumes of the spec, which containers may mount by name.
    pub(crate) claims: &'a [Value],
}

impl<'a> SpecRules<'a> {
    /// The rules for a spec that replaces `old_spec`, if any.
    pub(crate) fn new(
        spec: &Value,
        old_spec: Option<&Value>,
        request: &AdmissionRequest,
        is_pod: bool,
    ) -> Self {
        Self {
            grammar: env::grammar(spec, old_spec, request),
            env_files: request.gates.env_files || old_spec.is_some_and(env::uses_env_files),
            is_pod,
            claims: &[],
        }
    }

    /// The same for pods that get claims.
    pub(crate) fn with_claims(self, claims: &'a [Value]) -> Self {
        Self { claims, ..self }
    }
}

/// Everything that is wrong with a spec.
pub(crate) fn validate(
    errors: &mut FieldErrors,
    warnings: &mut Vec<Warning>,
    path: &Path,
    spec: &Value,
    rules: SpecRules<'_>,
    request: &AdmissionRequest,
) {
    let mut volumes = volume::validate(errors, &path.child("volumes"), &spec["volumes"]);
    volumes.extend(rules.claims.iter().map(|claim| (text(&claim["metadata"]["name"]), claim)));
    container::validate(errors, path, spec, &volumes, rules);
    host_network_ports(errors, path, spec);
    one_of(errors, &path.child("restartPolicy"), &spec["restartPolicy"], &["Always", "OnFailure", "Never"]);
    one_of(
        errors,
        &path.child("dnsPolicy"),
        &spec["dnsPolicy"],
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    labels(errors, &path.child("nodeSelector"), &spec["nodeSelector"]);
    security::pod(errors, path, spec);
    for (index, reference) in items(&spec["imagePullSecrets"]).iter().enumerate() {
        if text(&reference["name"]).is_empty() {
            errors.required(&path.child("imagePullSecrets").index(index).child("name"), "");
        }
    }
    scheduling::affinity(errors, &path.child("affinity"), &spec["affinity"]);
    settings::dns_config(errors, &path.child("dnsConfig"), spec);
    settings::gates(errors, path, spec);
    scheduling::spread(errors, &path.child("topologySpreadConstraints"), &spec["topologySpreadConstraints"]);
    for name in ["serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"] {
        if !text(&spec[name]).is_empty() {
            subdomain(errors, &path.child(name), text(&spec[name]));
        }
    }
    in_range(
        errors,
        &path.child("activeDeadlineSeconds"),
        &spec["activeDeadlineSeconds"],
        1,
        i32::MAX.into(),
    );
    for name in ["hostname", "subdomain"] {
        if !text(&spec[name]).is_empty() {
            label(errors, &path.child(name), text(&spec[name]));
        }
    }
    settings::tolerations(errors, &path.child("tolerations"), &spec["tolerations"]);
    settings::host_aliases(errors, &path.child("hostAliases"), &spec["hostAliases"]);
    if is_set(&spec["preemptionPolicy"]) {
        let supported = ["PreemptLowerPriority", "Never"];
        one_of(errors, &path.child("preemptionPolicy"), &spec["preemptionPolicy"], &supported);
    }
    resources::validate_pod(errors, path, spec);
    field_support::check(errors, warnings, path, spec);
    env::env_file_volumes(errors, warnings, path, spec, request.env_file_mounts);
    warnings.extend(env::warnings(spec, path));
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        warnings.push(Warning(format!(
            "{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )));
    }
}

/// On the host's network a port of the container is a port of the host.
fn host_network_ports(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    if spec["hostNetwork"] != true {
        return;
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in items(&spec[list]).iter().enumerate() {
            for (number, port) in items(&container["ports"]).iter().enumerate() {
                let host_port = port["hostPort"].as_i64().unwrap_or(0);
                if host_port != 0 && port["hostPort"] != port["containerPort"] {
                    let at =
                        path.child(list).index(index).child("ports").index(number).child("containerPort");
                    let detail = "must match `hostPort` when `hostNetwork` is true";
                    errors.invalid(&at, port["containerPort"].clone(), detail);
                }
            }
        }
    }
}
