//! CronJob.

use serde_json::{Value, json};

use super::job::{default_job_fields, job_spec};
use super::{Place, Review, start, time_zone};
use crate::errors::{BadValue, FieldErrors};
use crate::kind_rules::KindRules;
use crate::path::Path;
use crate::tree::{default_field, default_pointer, field, is_set, text};

/// Longest name: each job's name has eleven characters more, and no name more than 63.
const NAME: usize = 52;

pub(crate) struct CronJobs;

impl KindRules for CronJobs {
    fn template(&self) -> Option<Place> {
        Some(Place { pointer: "/spec/jobTemplate/spec/template", path: "spec.jobTemplate.spec.template" })
    }

    fn default(&self, object: &mut Value) {
        let Some(spec) = field(object, "spec") else { return };
        if let Some(job) = field(spec, "jobTemplate").and_then(|template| field(template, "spec")) {
            default_job_fields(job);
        }
        default_field(spec, "concurrencyPolicy", "Allow");
        default_pointer(spec, "suspend", false);
        default_pointer(spec, "successfulJobsHistoryLimit", 3);
        default_pointer(spec, "failedJobsHistoryLimit", 1);
    }

    fn start(&self, object: &mut Value) {
        start(object, json!({}));
    }

    fn review(&self, review: &mut Review<'_>, object: &Value) {
        review.name(object);
        let (path, spec) = (Path::root("spec"), &object["spec"]);
        let old = review.old.map(|old| &old["spec"]);
        times(review.errors, &path.child("schedule"), spec, old);
        review.not_negative(spec, &["startingDeadlineSeconds"]);
        let zone = &spec["timeZone"];
        if is_set(zone) && old.is_none_or(|old| old["timeZone"] != *zone) {
            let at = path.child("timeZone");
            for problem in time_zone::problems(text(zone)) {
                review.errors.invalid(&at, text(zone), problem);
            }
        }
        let (at, policy) = (path.child("concurrencyPolicy"), text(&spec["concurrencyPolicy"]));
        let policies = ["Allow", "Forbid", "Replace"];
        if !policies.contains(&policy) {
            review.errors.not_supported(&at, policy, &policies);
        }
        let (at, job) = (path.child("jobTemplate").child("spec"), &spec["jobTemplate"]["spec"]);
        job_spec(review, &at, job, object);
        if is_set(&job["selector"]) {
            let detail = "`selector` will be auto-generated";
            review.errors.invalid(&at.child("selector"), job["selector"].clone(), detail);
        }
        if job["manualSelector"] == true {
            let at = at.child("manualSelector");
            review.errors.not_supported_value(&at, BadValue::Json(true.into()), &["nil", "false"]);
        }
        review.not_negative(spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"]);
        let name = text(&object["metadata"]["name"]);
        if old.is_none() && name.len() > NAME {
            let at = Path::root("metadata").child("name");
            review.errors.invalid(&at, name, format!("must be no more than {NAME} characters"));
        }
    }
}

/// The schedule. A time zone inside it is an old way that only those may use who have it already.
fn times(errors: &mut FieldErrors, path: &Path, spec: &Value, old: Option<&Value>) {
    let written = text(&spec["schedule"]);
    if written.is_empty() {
        return errors.required(path, "");
    }
    if let Err(problem) = cron::Schedule::parse(written) {
        errors.invalid(path, written, problem);
    }
    let had_zone = old.is_some_and(|old| text(&old["schedule"]).contains("TZ"));
    match (written.contains("TZ"), had_zone) {
        (true, true) if is_set(&spec["timeZone"]) => {
            errors.invalid(path, written, "cannot use both timeZone field and TZ or CRON_TZ in schedule");
        }
        (true, false) => {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.invalid(path, written, detail);
        }
        (true, true) | (false, _) => {}
    }
}
