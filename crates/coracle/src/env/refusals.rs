//! What the API server would refuse about the variables of a pod, before anything runs.
//!
//! Only variables are looked at: a manifest that is explained is often not complete yet.

use admission::AdmissionRequest;
use api::FeatureGates;
use environment::Severity;
use environment::record::FindingRecord;
use k8s_openapi::api::core::v1::Pod;

/// The refusals of a pod, with field paths of the object that it comes from.
pub(super) fn refusals(pod: &Pod, spec_path: &str, gates: FeatureGates) -> Vec<FindingRecord> {
    let Some(resource) = schema::resource("", "v1", "pods") else {
        return Vec::new();
    };
    let mut pod = pod.clone();
    // A template's pod gets its name from its controller; the rules need one.
    pod.metadata.name.get_or_insert_with(|| "name".to_owned());
    let Ok(mut object) = serde_json::to_value(&pod) else {
        return Vec::new();
    };
    let request = AdmissionRequest { gates, ..AdmissionRequest::default() };
    let Err(errors) = admission::prepare_create(resource, &mut object, &request) else {
        return Vec::new();
    };
    let is_about_variables = |field: &str| field.contains("].env[") || field.contains("].envFrom");
    errors
        .0
        .iter()
        .filter(|error| is_about_variables(&error.field))
        .map(|error| FindingRecord {
            code: "refused-by-api".to_owned(),
            severity: Severity::Error,
            field_path: error.field.replacen("spec", spec_path, 1),
            variable: None,
            message: error.body(),
            hint: "mend the field: the API server would refuse the object".to_owned(),
            position: None,
        })
        .collect()
}

/// The entry of a list that a field path is about: `spec.containers[0].env[2]` of
/// `spec.containers[0].env[2].valueFrom`.
pub(super) fn entry_of(field_path: &str) -> &str {
    let lists = ["].env[", "].envFrom["];
    let entry = lists.iter().find_map(|list| {
        let start = field_path.find(list)? + list.len();
        let end = field_path[start..].find(']')?;
        Some(&field_path[..=start + end])
    });
    entry.unwrap_or(field_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_ends_behind_its_index() {
        assert_eq!(entry_of("spec.containers[0].env[12].valueFrom.fieldRef"), "spec.containers[0].env[12]");
        assert_eq!(entry_of("spec.containers[0].envFrom[1].prefix"), "spec.containers[0].envFrom[1]");
        assert_eq!(entry_of("spec.containers[0].envFrom"), "spec.containers[0].envFrom");
    }
}
