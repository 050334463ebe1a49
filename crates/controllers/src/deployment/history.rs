//! Which template of a deployment was which revision: annotations of its replica sets. Pure.
//!
//! `kubectl rollout history` and `rollout undo` read the annotations.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#checking-rollout-history-of-a-deployment>

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;

/// Annotations of an object.
pub(crate) type Annotations = BTreeMap<String, String>;

/// The revision of a replica set, and of a deployment the one that it has now.
pub(crate) const REVISION: &str = "deployment.kubernetes.io/revision";
/// The revisions that a replica set had before, by commas.
pub(crate) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How many replicas the deployment asked for when the replica set was scaled last.
pub(crate) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// How many there were to be at most then.
pub(crate) const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// Most characters of the earlier revisions of a replica set.
const HISTORY_CHARACTERS: usize = 2000;

/// Annotations that a deployment does not hand on.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

/// A number in an annotation.
pub(crate) fn number<N: std::str::FromStr>(annotations: &Annotations, name: &str) -> Option<N> {
    annotations.get(name)?.parse().ok()
}

/// The revision that the annotations name; 0 for none.
pub(crate) fn revision(annotations: &Annotations) -> i64 {
    number(annotations, REVISION).unwrap_or(0)
}

/// What a deployment hands on to its replica set.
pub(crate) fn hand_on(deployment: &Deployment, annotations: &mut Annotations) {
    let all = deployment.metadata.annotations.iter().flatten();
    for (name, value) in all.filter(|(name, _)| !OWN.contains(&name.as_str())) {
        annotations.insert(name.clone(), value.clone());
    }
}

/// Makes a replica set the newest revision; what it was before is noted. One that is newer already stays.
pub(crate) fn set_revision(annotations: &mut Annotations, newest: i64) {
    let before = annotations.get(REVISION).cloned();
    let was = match &before {
        None => 0,
        // Somebody wrote something else there: it is not ours to change.
        Some(text) => match text.parse::<i64>() {
            Ok(number) => number,
            Err(_) => return,
        },
    };
    if was >= newest {
        return;
    }
    annotations.insert(REVISION.to_owned(), newest.to_string());
    let Some(before) = before else { return };
    let noted = annotations.get(REVISION_HISTORY).filter(|noted| !noted.is_empty());
    let mut noted: Vec<&str> = noted.map(|noted| noted.split(',').collect()).unwrap_or_default();
    noted.push(&before);
    // The oldest are forgotten first.
    let length = |noted: &[&str]| noted.iter().map(|one| one.len() + 1).sum::<usize>() - 1;
    while noted.len() > 1 && length(&noted) > HISTORY_CHARACTERS {
        noted.remove(0);
    }
    let noted = noted.join(",");
    annotations.insert(REVISION_HISTORY.to_owned(), noted);
}

/// Notes for what a replica set was scaled.
pub(crate) fn set_size(annotations: &mut Annotations, desired: i32, most: i32) {
    annotations.insert(DESIRED.to_owned(), desired.to_string());
    annotations.insert(MAX.to_owned(), most.to_string());
}
