//! Job: what it gets by default, its selector, and its rules.

use serde_json::{Value, json};

use super::job_policies::{failure_policy, replacement_policy, success_policy};
use super::{Place, Review, SPEC_TEMPLATE, fixed, job_status, start};
use crate::defaults::pod::template_spec;
use crate::errors::FieldErrors;
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::request::Warning;
use crate::scalars::{messages, not_negative, subdomain};
use crate::selector::{label_selector, selects};
use crate::tree::{
    default_field, default_pointer, entries, field, is_set, items_mut, object_field, remove, text,
};

/// Most pods of an indexed job at once, and most indexes that may fail.
const INDEXED: i64 = 100_000;
/// With more completions than [`INDEXED`] the other numbers have this limit.
const MANY: i64 = 10_000;
/// Most characters of the name of another controller.
const MANAGER: usize = 63;

const LABEL_UID: &str = "batch.kubernetes.io/controller-uid";
const LABEL_NAME: &str = "batch.kubernetes.io/job-name";
const OLD_LABEL_UID: &str = "controller-uid";
const OLD_LABEL_NAME: &str = "job-name";

pub(crate) struct Jobs;

impl KindRules for Jobs {
    fn template(&self) -> Option<Place> {
        Some(SPEC_TEMPLATE)
    }

    /// Unless the client selects itself, a job selects its pods by its uid.
    fn generate(&self, object: &mut Value) {
        let uid = text(&object["metadata"]["uid"]).to_owned();
        let name = text(&object["metadata"]["name"]).to_owned();
        let Some(spec) = field(object, "spec") else { return };
        if spec["manualSelector"] == true || uid.is_empty() {
            return;
        }
        object_field(spec, "template");
        object_field(&mut spec["template"], "metadata");
        let labels = object_field(&mut spec["template"]["metadata"], "labels");
        for (label, value) in
            [(LABEL_UID, &uid), (LABEL_NAME, &name), (OLD_LABEL_UID, &uid), (OLD_LABEL_NAME, &name)]
        {
            labels.entry(label).or_insert_with(|| value.clone().into());
        }
        object_field(spec, "selector");
        let labels = object_field(&mut spec["selector"], "matchLabels");
        labels.entry(LABEL_UID).or_insert_with(|| uid.into());
    }

    fn default(&self, object: &mut Value) {
        let Some(spec) = field(object, "spec") else { return };
        default_job_fields(spec);
        let is_indexed = spec["completionMode"] == "Indexed";
        if !is_set(&spec["completions"]) && !is_set(&spec["parallelism"]) && !is_indexed {
            spec["completions"] = 1.into();
        }
        default_pointer(spec, "parallelism", 1);
        let limit = if is_set(&spec["backoffLimitPerIndex"]) { i32::MAX } else { 6 };
        default_pointer(spec, "backoffLimit", limit);
        default_pointer(spec, "completionMode", "NonIndexed");
        default_pointer(spec, "suspend", false);
        default_pointer(spec, "manualSelector", false);
        let policy = if is_set(&spec["podFailurePolicy"]) { "Failed" } else { "TerminatingOrFailed" };
        default_pointer(spec, "podReplacementPolicy", policy);
        let labels = spec["template"]["metadata"]["labels"].clone();
        if !entries(&labels).is_empty() && entries(&object["metadata"]["labels"]).is_empty() {
            object["metadata"]["labels"] = labels;
        }
    }

    fn start(&self, object: &mut Value) {
        start(object, json!({}));
    }

    fn review(&self, review: &mut Review<'_>, object: &Value) {
        review.name(object);
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        generated(review.errors, object);
        let at = path.child("selector");
        job_spec(review, &path, spec, object);
        let before = review.errors.0.len();
        if is_set(&spec["selector"]) {
            label_selector(review.errors, &at, &spec["selector"]);
        } else {
            review.errors.required(&at, "");
        }
        let labels = &spec["template"]["metadata"]["labels"];
        let is_sound = review.errors.0.len() == before || !is_set(&spec["selector"]);
        if is_sound && !selects(&spec["selector"], labels) {
            super::mismatch(review.errors, SPEC_TEMPLATE, labels);
        }
        let name = text(&object["metadata"]["name"]);
        if spec["completionMode"] == "Indexed"
            && let Some(completions) = spec["completions"].as_i64().filter(|count| *count > 0)
        {
            let last = format!("{name}-{}", completions - 1);
            if !messages(names::DnsLabel::parse(&last)).is_empty() {
                let detail = format!("will not able to create pod with invalid DNS label: {last}");
                review.errors.invalid(&Path::root("metadata").child("name"), name, detail);
            }
        }
    }

    fn validate_update(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        let (before, after) = (&old["spec"], &new["spec"]);
        completions(errors, old, new);
        fixed(errors, "selector", old, new);
        let mut template = before["template"].clone();
        if may_be_placed_anew(old) {
            allow_other_places(&mut template, &after["template"]);
        }
        if template != after["template"] {
            // Its environment may hold what not everybody should read.
            errors.invalid_unseen(&Path::root("spec").child("template"), "field is immutable");
        }
        for name in
            ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
        {
            fixed(errors, name, old, new);
        }
    }

    fn validate_status(&self, errors: &mut FieldErrors, old: &Value, new: &Value) {
        job_status::validate(errors, old, new);
    }
}

/// Defaults that a Job and the job template of a CronJob share.
pub(super) fn default_job_fields(spec: &mut Value) {
    if let Some(template) = field(spec, "template").and_then(|template| field(template, "spec")) {
        template_spec(template);
    }
    if let Some(policy) = field(spec, "podFailurePolicy") {
        for rule in items_mut(policy, "rules") {
            for condition in items_mut(rule, "onPodConditions") {
                default_field(condition, "status", "True");
            }
        }
    }
}

/// A generated selector must be the one that this server generates.
fn generated(errors: &mut FieldErrors, object: &Value) {
    let spec = &object["spec"];
    if spec["manualSelector"] == true || !is_set(&spec["selector"]) {
        return;
    }
    let (uid, name) = (text(&object["metadata"]["uid"]), text(&object["metadata"]["name"]));
    if uid.is_empty() {
        errors.required(&Path::root("metadata").child("uid"), "");
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let at = Path::root("spec").child("template").child("metadata").child("labels");
    let expected = [(OLD_LABEL_UID, uid), (OLD_LABEL_NAME, name), (LABEL_UID, uid), (LABEL_NAME, name)];
    for (label, value) in expected {
        let detail = format!("must be '{value}'");
        if !is_set(&labels[label]) {
            errors.required(&at.key(label), detail);
        } else if labels[label] != value {
            errors.invalid(&at.key(label), labels.clone(), detail);
        }
    }
    let expected: serde_json::Map<String, Value> =
        expected.iter().map(|(label, value)| ((*label).to_owned(), Value::from(*value))).collect();
    if !selects(&spec["selector"], &Value::Object(expected)) {
        let at = Path::root("spec").child("selector");
        errors.invalid(&at, spec["selector"].clone(), "`selector` not auto-generated");
    }
}

/// The rules that a Job and the job template of a CronJob share; `object` is the whole object.
pub(super) fn job_spec(review: &mut Review<'_>, path: &Path, spec: &Value, object: &Value) {
    for name in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative(review.errors, &path.child(name), &spec[name]);
    }
    if is_set(&spec["maxFailedIndexes"]) && !is_set(&spec["backoffLimitPerIndex"]) {
        review.errors.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if is_set(&spec["managedBy"]) {
        manager(review.errors, &path.child("managedBy"), text(&spec["managedBy"]));
    }
    completion_mode(review.errors, path, spec);
    if is_set(&spec["podFailurePolicy"]) {
        failure_policy(review.errors, &path.child("podFailurePolicy"), spec);
    }
    if is_set(&spec["successPolicy"]) {
        let at = path.child("successPolicy");
        if spec["completionMode"] == "Indexed" {
            success_policy(review.errors, &at, spec);
        } else {
            let detail = "requires indexed completion mode";
            review.errors.invalid(&at, spec["successPolicy"].clone(), detail);
        }
    }
    replacement_policy(review.errors, &path.child("podReplacementPolicy"), spec);
    review.pod_template(object, &[]);
    let at = path.child("template").child("spec").child("restartPolicy");
    match text(&spec["template"]["spec"]["restartPolicy"]) {
        "" | "Always" => review.errors.required(&at, "valid values: \"OnFailure\", \"Never\""),
        "Never" => {}
        policy @ "OnFailure" if is_set(&spec["podFailurePolicy"]) => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            review.errors.invalid(&at, policy, detail);
        }
        "OnFailure" => {}
        other => review.errors.not_supported(&at, other, &["OnFailure", "Never"]),
    }
    let count = |name: &str| spec[name].as_i64().unwrap_or(0);
    if spec["completionMode"] == "Indexed" && count("completions") > INDEXED && count("parallelism") > MANY {
        review.warnings.push(Warning(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, \
             Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )));
    }
}

fn completion_mode(errors: &mut FieldErrors, path: &Path, spec: &Value) {
    let (failed, parallel) = (path.child("maxFailedIndexes"), path.child("parallelism"));
    let number = |name: &str| spec[name].as_i64();
    match text(&spec["completionMode"]) {
        "" | "NonIndexed" => {
            for name in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(count) = number(name) {
                    errors.invalid(&path.child(name), count, "requires indexed completion mode");
                }
            }
            return;
        }
        "Indexed" => {}
        other => {
            return errors.not_supported(&path.child("completionMode"), other, &["NonIndexed", "Indexed"]);
        }
    }
    let completions = number("completions");
    if completions.is_none() {
        errors.required(&path.child("completions"), "when completion mode is Indexed");
    }
    let parallelism = number("parallelism").unwrap_or(0);
    if parallelism > INDEXED {
        let detail = format!("must be less than or equal to {INDEXED} when completion mode is Indexed");
        errors.invalid(&parallel, parallelism, detail);
    }
    if let Some(limit) = number("maxFailedIndexes") {
        if completions.is_some_and(|completions| limit > completions) {
            errors.invalid(&failed, limit, "must be less than or equal to completions");
        }
        if limit > INDEXED {
            errors.invalid(&failed, limit, format!("must be less than or equal to {INDEXED}"));
        }
    }
    if completions.is_some_and(|completions| completions > INDEXED) && is_set(&spec["backoffLimitPerIndex"]) {
        let detail = format!(
            "must be less than or equal to {MANY} when completions are above {INDEXED} and used with backoff limit per index"
        );
        if !is_set(&spec["maxFailedIndexes"]) {
            errors.required(&failed, format!("must be specified when completions is above {INDEXED}"));
        }
        if parallelism > MANY {
            errors.invalid(&parallel, parallelism, detail.as_str());
        }
        if let Some(limit) = number("maxFailedIndexes").filter(|limit| *limit > MANY) {
            errors.invalid(&failed, limit, detail);
        }
    }
}

/// The name of another controller: `acme.io/foo`.
fn manager(errors: &mut FieldErrors, path: &Path, name: &str) {
    match name.split_once('/') {
        _ if name.is_empty() => errors.required(path, ""),
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            subdomain(errors, path, host);
            let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
            if !rest.bytes().all(is_path) {
                let detail = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
                errors.invalid(path, rest, detail);
            }
        }
        _ => errors.invalid(path, name, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
    if name.len() > MANAGER {
        errors.too_long(path, MANAGER);
    }
}

/// Completions change only together with the parallelism, and only where each has its index.
fn completions(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let after = &new["spec"];
    if after["completionMode"] != "Indexed" {
        return fixed(errors, "completions", old, new);
    }
    let completions = &after["completions"];
    if *completions != old["spec"]["completions"]
        && is_set(completions)
        && *completions != after["parallelism"]
    {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.invalid(&Path::root("spec").child("completions"), completions.clone(), detail);
    }
}

/// Whether a job is suspended and has no pods that its template has made.
fn may_be_placed_anew(job: &Value) -> bool {
    let status = &job["status"];
    let is_suspended = job["spec"]["suspend"] == true;
    is_suspended && (!is_set(&status["startTime"]) || status["active"].as_i64().unwrap_or(0) == 0)
}

/// Takes over what says where pods of a suspended job shall run, and what they need.
fn allow_other_places(template: &mut Value, wanted: &Value) {
    for name in ["labels", "annotations"] {
        replace(&mut template["metadata"], name, &wanted["metadata"][name]);
    }
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        replace(&mut template["spec"], name, &wanted["spec"][name]);
    }
    for list in ["initContainers", "containers"] {
        let wanted = wanted["spec"][list].clone();
        for (index, container) in items_mut(&mut template["spec"], list).enumerate() {
            replace(container, "resources", &wanted[index]["resources"]);
        }
    }
    let affinity = &mut template["spec"]["affinity"];
    let node = wanted["spec"]["affinity"]["nodeAffinity"].clone();
    if is_set(affinity) || is_set(&wanted["spec"]["affinity"]) {
        if !is_set(affinity) {
            *affinity = json!({});
        }
        replace(affinity, "nodeAffinity", &node);
    }
    let is_gone = !is_set(&wanted["spec"]["affinity"]) && entries(affinity).is_empty();
    if is_gone {
        remove(&mut template["spec"], "affinity");
    }
    if entries(&template["metadata"]).is_empty() && !is_set(&wanted["metadata"]) {
        remove(template, "metadata");
    }
}

fn replace(object: &mut Value, name: &str, wanted: &Value) {
    if is_set(wanted) {
        object[name] = wanted.clone();
    } else {
        remove(object, name);
    }
}
