//! Who the pods of a StatefulSet are: their ordinals, names and labels, the claims that belong to each, and who owns these.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#pod-identity> and the behaviour of
//! Kubernetes 1.36.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::ownership::{controller_of, owner_reference};
use crate::pod_control::{PodName, pod_from};
use crate::revisions;

/// The label of a pod with its own name.
pub(crate) const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// The label of a pod with its ordinal.
pub(crate) const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// The label of a pod with the name of its revision.
pub(crate) const REVISION: &str = "controller-revision-hash";

/// The spec of a set; what the API stores has one.
pub(crate) fn spec(set: &StatefulSet) -> &StatefulSetSpec {
    static NONE: std::sync::LazyLock<StatefulSetSpec> = std::sync::LazyLock::new(StatefulSetSpec::default);
    set.spec.as_ref().unwrap_or(&NONE)
}

/// The name of a set.
pub(crate) fn name(set: &StatefulSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

/// The ordinals that a set wants, from the lowest.
pub(crate) fn ordinals(set: &StatefulSet) -> std::ops::Range<u32> {
    let number = |number: i32| u32::try_from(number).unwrap_or(0);
    let start = spec(set).ordinals.as_ref().and_then(|ordinals| ordinals.start).map_or(0, number);
    start..start.saturating_add(spec(set).replicas.map_or(1, number))
}

/// The name of the pod with this ordinal.
pub(crate) fn pod_name(set: &StatefulSet, ordinal: u32) -> String {
    format!("{}-{ordinal}", name(set))
}

/// The ordinal of a pod, if its name is one of this set.
pub(crate) fn ordinal_of(set: &StatefulSet, pod: &Pod) -> Option<u32> {
    let digits = pod.metadata.name.as_deref()?.strip_prefix(name(set))?.strip_prefix('-')?;
    let ordinal: u32 = digits.parse().ok()?;
    // `web-01` is not `web-1`.
    (ordinal.to_string() == digits).then_some(ordinal)
}

/// The name of the revision that a pod was made of.
pub(crate) fn revision_of(pod: &Pod) -> &str {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(REVISION)).map_or("", String::as_str)
}

/// The name of the claim that the pod with this ordinal has of a claim template.
pub(crate) fn claim_name(set: &StatefulSet, template: &PersistentVolumeClaim, ordinal: u32) -> String {
    format!("{}-{}", template.metadata.name.as_deref().unwrap_or_default(), pod_name(set, ordinal))
}

/// The names of the claims of the pod with this ordinal.
pub(crate) fn claim_names(set: &StatefulSet, ordinal: u32) -> Vec<String> {
    let templates = spec(set).volume_claim_templates.iter().flatten();
    templates.map(|template| claim_name(set, template, ordinal)).collect()
}

/// The pod with this ordinal, of a revision.
pub(crate) fn new_pod(set: &StatefulSet, revision: &ControllerRevision, ordinal: u32) -> Pod {
    // A revision that cannot be read is none: the template itself is there.
    let template: PodTemplateSpec =
        revisions::template_of(revision).unwrap_or_else(|| spec(set).template.clone());
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let own_name = pod_name(set, ordinal);
    let mut pod = pod_from(&template, namespace, PodName::Exactly(&own_name), owner_reference(set));
    set_labels(set, &mut pod, ordinal);
    let revision = revision.metadata.name.clone().unwrap_or_default();
    pod.metadata.labels.get_or_insert_default().insert(REVISION.to_owned(), revision);
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = Some(own_name);
    pod_spec.subdomain = spec(set).service_name.clone();
    let claims: Vec<Volume> = spec(set)
        .volume_claim_templates
        .iter()
        .flatten()
        .map(|template| Volume {
            name: template.metadata.name.clone().unwrap_or_default(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(set, template, ordinal),
                read_only: None,
            }),
            ..Volume::default()
        })
        .collect();
    if !claims.is_empty() {
        // A volume of the template that has the name of a claim gives way to it.
        let others = pod_spec.volumes.take().into_iter().flatten();
        let others = others.filter(|volume| claims.iter().all(|claim| claim.name != volume.name));
        pod_spec.volumes = Some(claims.iter().cloned().chain(others).collect());
    }
    pod
}

/// The labels by which a pod is known.
fn own_labels(set: &StatefulSet, ordinal: u32) -> [(&'static str, String); 2] {
    [(POD_NAME, pod_name(set, ordinal)), (POD_INDEX, ordinal.to_string())]
}

/// Gives a pod the labels by which it is known.
pub(crate) fn set_labels(set: &StatefulSet, pod: &mut Pod, ordinal: u32) {
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.extend(own_labels(set, ordinal).map(|(label, value)| (label.to_owned(), value)));
}

/// Whether a pod has the labels by which it is known.
pub(crate) fn has_labels(set: &StatefulSet, pod: &Pod, ordinal: u32) -> bool {
    let labels = pod.metadata.labels.as_ref();
    own_labels(set, ordinal)
        .iter()
        .all(|(label, value)| labels.and_then(|labels| labels.get(*label)) == Some(value))
}

/// What becomes of claims when the set is deleted, or a pod is no longer wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Retention {
    /// They go with the set.
    pub(crate) goes_with_set: bool,
    /// They go with a pod that is no longer wanted.
    pub(crate) goes_with_pod: bool,
}

impl Retention {
    /// What a set asks for.
    pub(crate) fn of(set: &StatefulSet) -> Retention {
        let policy = spec(set).persistent_volume_claim_retention_policy.as_ref();
        let deletes = |what: Option<&String>| what.is_some_and(|what| what == "Delete");
        Retention {
            goes_with_set: deletes(policy.and_then(|policy| policy.when_deleted.as_ref())),
            goes_with_pod: deletes(policy.and_then(|policy| policy.when_scaled.as_ref())),
        }
    }
}

/// Who is to own a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimOwner {
    Nobody,
    Set,
    Pod,
}

/// `wanted` says whether the set wants the pod of the claim.
fn claim_owner(retention: Retention, wanted: bool) -> ClaimOwner {
    match (wanted, retention) {
        (false, Retention { goes_with_pod: true, .. }) => ClaimOwner::Pod,
        (_, Retention { goes_with_set: true, .. }) => ClaimOwner::Set,
        (_, Retention { goes_with_set: false, .. }) => ClaimOwner::Nobody,
    }
}

/// The claim of the pod with this ordinal, of a claim template.
pub(crate) fn new_claim(
    set: &StatefulSet,
    template: &PersistentVolumeClaim,
    ordinal: u32,
) -> PersistentVolumeClaim {
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    labels.extend(spec(set).selector.match_labels.clone().into_iter().flatten());
    let owners = match claim_owner(Retention::of(set), true) {
        ClaimOwner::Set => Some(vec![owner_reference(set)]),
        ClaimOwner::Nobody | ClaimOwner::Pod => None,
    };
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(claim_name(set, template, ordinal)),
            namespace: set.metadata.namespace.clone(),
            labels: (!labels.is_empty()).then_some(labels),
            annotations: template.metadata.annotations.clone(),
            owner_references: owners,
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// The claim with the owner that the set asks for, or none if it has that already. `wanted` says whether the set wants `pod`, whose
/// claim it is.
pub(crate) fn with_owner(
    set: &StatefulSet,
    pod: &Pod,
    wanted: bool,
    claim: &PersistentVolumeClaim,
) -> Option<PersistentVolumeClaim> {
    let ours: OwnerReference = owner_reference(set);
    let theirs: OwnerReference = owner_reference(pod);
    // One that somebody else controls is theirs.
    if controller_of(&claim.metadata).is_some_and(|owner| owner.uid != ours.uid && owner.uid != theirs.uid) {
        return None;
    }
    let before = claim.metadata.owner_references.clone().unwrap_or_default();
    let mut owners: Vec<OwnerReference> =
        before.iter().filter(|owner| owner.uid != ours.uid && owner.uid != theirs.uid).cloned().collect();
    match claim_owner(Retention::of(set), wanted) {
        ClaimOwner::Nobody => {}
        ClaimOwner::Set => owners.push(ours),
        ClaimOwner::Pod => owners.push(theirs),
    }
    let uids = |owners: &[OwnerReference]| -> std::collections::BTreeSet<String> {
        owners.iter().map(|owner| owner.uid.clone()).collect()
    };
    (uids(&before) != uids(&owners)).then(|| {
        let mut claim = claim.clone();
        claim.metadata.owner_references = Some(owners);
        claim
    })
}

/// Whether a claim belongs to an earlier pod of the same name, and goes with it: a new pod must not take it up.
pub(crate) fn is_stale(claim: &PersistentVolumeClaim, pod_name: &str, pod_uid: Option<&str>) -> bool {
    let owners = claim.metadata.owner_references.iter().flatten();
    let mut pods = owners.filter(|owner| owner.kind == "Pod" && owner.name == pod_name);
    pods.any(|owner| Some(owner.uid.as_str()) != pod_uid)
}
