//! What the policies of a job say: whether a pod's failure counts, and when it is enough. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy>.

use k8s_openapi::api::batch::v1::{Job, PodFailurePolicyOnExitCodesRequirement, SuccessPolicy};
use k8s_openapi::api::core::v1::Pod;

use super::indexes::Indexes;

/// What a failure means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// One more failure.
    Counts,
    /// None.
    Ignored,
    /// The end of its index.
    EndsIndex,
    /// The end of the job; the message says why.
    EndsJob(String),
}

/// What the failure of a pod means to its job.
pub(crate) fn failure(job: &Job, pod: &Pod) -> Failure {
    let policy = job.spec.as_ref().and_then(|spec| spec.pod_failure_policy.as_ref());
    for (place, rule) in policy.iter().flat_map(|policy| &policy.rules).enumerate() {
        let matched = match (&rule.on_exit_codes, &rule.on_pod_conditions) {
            (Some(wanted), _) => exit_code(wanted, pod).map(|(container, code)| {
                format!(
                    "Container {container} for pod {} failed with exit code {code} matching {} rule at index {place}",
                    full_name(pod),
                    rule.action
                )
            }),
            (None, wanted) => wanted.iter().flatten().find_map(|wanted| {
                let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
                let status = wanted.status.as_deref().unwrap_or("True");
                conditions
                    .into_iter()
                    .find(|each| each.type_ == wanted.type_ && each.status == status)
                    .map(|found| {
                        format!(
                            "Pod {} has condition {} matching {} rule at index {place}",
                            full_name(pod),
                            found.type_,
                            rule.action
                        )
                    })
            }),
        };
        match (matched, rule.action.as_str()) {
            (None, _) => {}
            (Some(_), "Ignore") => return Failure::Ignored,
            (Some(_), "FailIndex") => return Failure::EndsIndex,
            (Some(message), "FailJob") => return Failure::EndsJob(message),
            (Some(_), _) => return Failure::Counts,
        }
    }
    Failure::Counts
}

fn full_name(pod: &Pod) -> String {
    let meta = &pod.metadata;
    format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// The first container whose exit status is meant. One that ended well is never meant.
fn exit_code<'p>(wanted: &PodFailurePolicyOnExitCodesRequirement, pod: &'p Pod) -> Option<(&'p str, i32)> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let containers = containers.chain(status.init_container_statuses.iter().flatten());
    let ends = containers.filter_map(|each| {
        let ended = each.state.as_ref()?.terminated.as_ref()?;
        let is_meant = wanted.container_name.as_ref().is_none_or(|name| *name == each.name);
        (is_meant && ended.exit_code != 0).then_some((each.name.as_str(), ended.exit_code))
    });
    let is_in = |code: i32| wanted.values.contains(&code);
    ends.into_iter().find(|(_, code)| match wanted.operator.as_str() {
        "In" => is_in(*code),
        "NotIn" => !is_in(*code),
        _ => false,
    })
}

/// The message of the first rule that says that what has succeeded is enough.
pub(crate) fn success(policy: &SuccessPolicy, succeeded: &Indexes, completions: i32) -> Option<String> {
    if succeeded.count() == 0 {
        return None;
    }
    let is_met = |rule: &k8s_openapi::api::batch::v1::SuccessPolicyRule| {
        let (have, all) = match &rule.succeeded_indexes {
            Some(wanted) => {
                let wanted = Indexes::read(wanted, completions);
                (succeeded.shared(&wanted), wanted.count())
            }
            None => (succeeded.count(), completions),
        };
        have >= rule.succeeded_count.unwrap_or(all)
    };
    let place = policy.rules.iter().position(is_met)?;
    Some(format!("Matched rules at index {place}"))
}
