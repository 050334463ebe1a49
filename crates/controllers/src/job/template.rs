//! The pods that a job makes. Pure.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::pods::{FINALIZER, INDEX, INDEX_FAILURES, INDEX_IGNORED};
use crate::ownership::owner_reference;
use crate::pod_control::{PodName, name_beginning, pod_from};

/// The variable that tells a container its index.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Longest beginning of a name to which the server appends.
const BEGINNING: usize = 58;

/// A pod that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewPod {
    /// Its index, in an indexed job.
    pub(crate) index: Option<i32>,
    /// How many pods of its index have failed before, and how many failures were left out, where they are counted for each index.
    pub(crate) failures: Option<(i32, i32)>,
}

/// Makes a pod.
pub(crate) fn pod(job: &Job, new: NewPod) -> Pod {
    let spec = job.spec.clone().unwrap_or_default();
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
    let mut template = spec.template;
    let meta = template.metadata.get_or_insert_with(ObjectMeta::default);
    let finalizers = meta.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|each| each == FINALIZER) {
        finalizers.push(FINALIZER.to_owned());
    }
    let mut beginning = name_beginning(name);
    if let Some(index) = new.index {
        meta.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
        meta.labels.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
        add_index(&mut template, name, index);
        beginning = indexed_beginning(name, index);
    }
    if let Some((counted, ignored)) = new.failures {
        let meta = template.metadata.get_or_insert_with(ObjectMeta::default);
        let annotations = meta.annotations.get_or_insert_default();
        annotations.insert(INDEX_FAILURES.to_owned(), counted.to_string());
        if ignored > 0 {
            annotations.insert(INDEX_IGNORED.to_owned(), ignored.to_string());
        }
    }
    pod_from(&template, namespace, PodName::Beginning(&beginning), owner_reference(job))
}

/// `NAME-INDEX-`, shortened in the name.
fn indexed_beginning(name: &str, index: i32) -> String {
    let end = format!("-{index}-");
    let mut length = name.len().min(BEGINNING.saturating_sub(end.len()));
    while !name.is_char_boundary(length) {
        length -= 1;
    }
    format!("{}{end}", &name[..length])
}

fn add_index(template: &mut PodTemplateSpec, name: &str, index: i32) {
    let Some(spec) = &mut template.spec else { return };
    spec.hostname = Some(format!("{name}-{index}"));
    let variable = EnvVar {
        name: VARIABLE.to_owned(),
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: format!("metadata.labels['{INDEX}']"),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    for container in spec.init_containers.iter_mut().flatten().chain(&mut spec.containers) {
        let variables = container.env.get_or_insert_default();
        if !variables.iter().any(|each| each.name == VARIABLE) {
            variables.push(variable.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(name: &str) -> Job {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n", "uid": "u"},
            "spec": {"template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "1"}]},
                    {"name": "own", "env": [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]}]},
            }},
        }))
        .unwrap()
    }

    #[test]
    fn a_pod_with_an_index_knows_it_by_label_annotation_variable_and_host_name() {
        let pod = pod(&job("pi"), NewPod { index: Some(3), failures: Some((2, 1)) });
        let pod = serde_json::to_value(pod).unwrap();
        let name = |annotation: &str| pod["metadata"]["annotations"][annotation].clone();
        assert_eq!(pod["metadata"]["generateName"], "pi-3-");
        assert_eq!(name("batch.kubernetes.io/job-completion-index"), "3");
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"a": "b", "batch.kubernetes.io/job-completion-index": "3"})
        );
        assert_eq!(name("batch.kubernetes.io/job-index-failure-count"), "2");
        assert_eq!(name("batch.kubernetes.io/job-index-ignored-failure-count"), "1");
        assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
        assert_eq!(pod["spec"]["hostname"], "pi-3");
        let field = "metadata.labels['batch.kubernetes.io/job-completion-index']";
        assert_eq!(pod["spec"]["containers"][0]["env"][1]["valueFrom"]["fieldRef"]["fieldPath"], field);
        assert_eq!(pod["spec"]["containers"][1]["env"][0]["value"], "mine");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["kind"], "Job");
    }

    #[test]
    fn a_pod_without_an_index_is_only_tracked() {
        let pod = serde_json::to_value(pod(&job("pi"), NewPod { index: None, failures: None })).unwrap();
        assert_eq!(pod["metadata"]["generateName"], "pi-");
        assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
        assert!(pod["metadata"]["annotations"].is_null() && pod["spec"]["hostname"].is_null());
    }

    #[test]
    fn the_beginning_of_a_name_leaves_room_for_its_end() {
        assert_eq!(indexed_beginning(&"x".repeat(63), 12).len(), 58);
        assert!(indexed_beginning(&"x".repeat(63), 12).ends_with("x-12-"));
    }
}
