//! The environment record for programs: JSON and YAML.

use environment::record::EnvironmentRecord;

use super::explain::Explanation;

/// The record as indented JSON.
pub(super) fn json(explanation: &Explanation) -> String {
    let mut text =
        serde_json::to_string_pretty(&record(explanation)).expect("a record holds nothing that JSON lacks");
    text.push('\n');
    text
}

/// The record as YAML.
pub(super) fn yaml(explanation: &Explanation) -> String {
    serde_saphyr::to_string(&record(explanation)).expect("a record holds nothing that YAML lacks")
}

fn record(explanation: &Explanation) -> EnvironmentRecord {
    EnvironmentRecord {
        pods: explanation.pods.iter().map(|pod| pod.record.clone()).collect(),
        objects: explanation.objects.iter().map(|object| object.record.clone()).collect(),
    }
}
