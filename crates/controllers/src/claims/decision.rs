//! What a claim needs done: which volume answers it, where a directory is made when none does, and what is said meanwhile. Pure.
//!
//! A decision is one step, which is one write. After it the decision is made anew on what was written: whoever is killed between
//! two steps goes on with the next.
//!
//! Source: <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#lifecycle-of-a-volume-and-claim> and the
//! behaviour of Kubernetes 1.36.

use std::sync::Arc;

use api::annotations::{DIRECTORY_FINALIZER, DIRECTORY_NODE, DIRECTORY_PROVISIONER};
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus,
    PersistentVolumeSpec, Pod, VolumeNodeAffinity,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::facts::{
    BIND_COMPLETED, BOUND_BY_CONTROLLER, BY_HAND, CLAIM_PROTECTION, Given, OLD_PROVISIONER, PROVISIONED_BY,
    PROVISIONER, SELECTED_NODE, STORAGE, Saying, VOLUME_PROTECTION, annotate, annotation, bytes, claim_spec,
    class_of, class_of_volume, given, has_finalizer, is_directory, is_open, keeps, mode, name, node_of,
    normal, requested, takes_pods, volume_spec, warning,
};
use crate::selector::chooses;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// What is known about a claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// The claim.
    pub(crate) claim: &'a PersistentVolumeClaim,
    /// All volumes.
    pub(crate) volumes: &'a [Arc<PersistentVolume>],
    /// Its class, if there is such a one.
    pub(crate) class: Option<&'a StorageClass>,
    /// All nodes.
    pub(crate) nodes: &'a [Arc<Node>],
    /// The pods that use it.
    pub(crate) users: &'a [Arc<Pod>],
}

/// What is to be written next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// A volume is made.
    CreateVolume(Box<PersistentVolume>),
    /// A volume is changed.
    WriteVolume(Box<PersistentVolume>),
    /// The claim is changed.
    WriteClaim(Box<PersistentVolumeClaim>),
    /// The claim's status is changed; something may have to be said about it.
    WriteStatus(Box<PersistentVolumeClaimStatus>, Option<Saying>),
    /// It is on its way out: if the API confirms that no pod uses it, its finalizer goes.
    Unprotect,
    /// Nothing, but why it waits is to be said.
    Wait(Saying),
    /// Nothing.
    Nothing,
}

/// Decides.
pub(crate) fn step(known: &Known<'_>) -> Step {
    let (claim, spec) = (known.claim, claim_spec(known.claim));
    let is_leaving = claim.metadata.deletion_timestamp.is_some();
    let is_protected = has_finalizer(&claim.metadata, CLAIM_PROTECTION);
    if is_leaving && is_protected {
        let own = name(&claim.metadata);
        if !known.users.iter().any(|pod| keeps(pod, own)) {
            return Step::Unprotect;
        }
    }
    if !is_leaving && !is_protected {
        let mut claim = claim.clone();
        claim.metadata.finalizers.get_or_insert_default().push(CLAIM_PROTECTION.to_owned());
        return Step::WriteClaim(Box::new(claim));
    }
    let wanted = spec.volume_name.as_deref().unwrap_or_default();
    let volume = known.volumes.iter().find(|volume| !wanted.is_empty() && name(&volume.metadata) == wanted);
    if !is_open(claim) {
        return bound(claim, volume);
    }
    if is_leaving {
        return Step::Nothing;
    }
    if wanted.is_empty() {
        return match best_volume(known) {
            Some(volume) => bind(volume, claim),
            None => open(known),
        };
    }
    let Some(volume) = volume else {
        let message =
            format!("volume \"{wanted}\" not found: the claim waits until there is one of this name");
        return pending(claim, warning("FailedBinding", message));
    };
    match given(volume, claim) {
        Given::This => bind(volume, claim),
        Given::Nobody | Given::ByName => match mismatch(volume, claim) {
            None => bind(volume, claim),
            Some(why) => {
                let message = format!("Cannot bind to requested volume \"{wanted}\": {why}");
                pending(claim, warning("VolumeMismatch", message))
            }
        },
        Given::Other => {
            let message = format!("volume \"{wanted}\" already bound to a different claim.");
            pending(claim, warning("FailedBinding", message))
        }
    }
}

/// A claim that was bound.
fn bound(claim: &PersistentVolumeClaim, volume: Option<&Arc<PersistentVolume>>) -> Step {
    let lost = |reason, message: &str| {
        let before = claim.status.clone().unwrap_or_default();
        if before.phase.as_deref() == Some("Lost") {
            return Step::Nothing;
        }
        let status = PersistentVolumeClaimStatus {
            phase: Some("Lost".to_owned()),
            access_modes: None,
            capacity: None,
            ..before
        };
        Step::WriteStatus(Box::new(status), Some(warning(reason, message)))
    };
    let Some(volume) = volume else {
        let is_nameless = claim_spec(claim).volume_name.as_deref().unwrap_or_default().is_empty();
        let lacks = if is_nameless { "reference to PersistentVolume" } else { "its PersistentVolume" };
        return lost("ClaimLost", &format!("Bound claim has lost {lacks}. Data on the volume is lost!"));
    };
    match given(volume, claim) {
        Given::Nobody | Given::ByName | Given::This => bind(volume, claim),
        Given::Other => {
            lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
        }
    }
}

/// The reference by which a volume names its claim.
fn reference_to(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        name: claim.metadata.name.clone(),
        namespace: claim.metadata.namespace.clone(),
        uid: claim.metadata.uid.clone(),
        resource_version: claim.metadata.resource_version.clone(),
        field_path: None,
    }
}

/// The next step in binding volume and claim to each other: first the volume names the claim, then the claim the volume, then the
/// status follows.
fn bind(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Step {
    let is_new = match given(volume, claim) {
        Given::This => None,
        Given::Nobody => Some(true),
        Given::ByName => Some(false),
        // Callers have looked.
        Given::Other => return Step::Nothing,
    };
    if let Some(is_new) = is_new {
        let mut volume = volume.clone();
        if is_new {
            annotate(&mut volume.metadata, BOUND_BY_CONTROLLER, "yes");
        }
        volume.spec.get_or_insert_default().claim_ref = Some(reference_to(claim));
        return Step::WriteVolume(Box::new(volume));
    }
    let own = name(&volume.metadata);
    let is_named = claim_spec(claim).volume_name.as_deref() == Some(own);
    if !is_named || is_open(claim) {
        let mut claim = claim.clone();
        if !is_named {
            claim.spec.get_or_insert_default().volume_name = Some(own.to_owned());
            annotate(&mut claim.metadata, BOUND_BY_CONTROLLER, "yes");
        }
        annotate(&mut claim.metadata, BIND_COMPLETED, "yes");
        return Step::WriteClaim(Box::new(claim));
    }
    // A directory holds as much as its disk: a claim that asks for more has it.
    let mut capacity = volume_spec(volume).capacity.clone();
    if is_directory(volume)
        && bytes(requested(claim)) > bytes(capacity.as_ref())
        && let Some(more) = requested(claim).and_then(|requests| requests.get(STORAGE))
    {
        capacity.get_or_insert_default().insert(STORAGE.to_owned(), more.clone());
        let mut volume = volume.clone();
        volume.spec.get_or_insert_default().capacity = capacity;
        return Step::WriteVolume(Box::new(volume));
    }
    let before = claim.status.clone().unwrap_or_default();
    let status = PersistentVolumeClaimStatus {
        phase: Some("Bound".to_owned()),
        access_modes: volume_spec(volume).access_modes.clone(),
        capacity,
        ..before.clone()
    };
    if status == before { Step::Nothing } else { Step::WriteStatus(Box::new(status), None) }
}

fn pending(claim: &PersistentVolumeClaim, why: Saying) -> Step {
    let before = claim.status.clone().unwrap_or_default();
    if before.phase.as_deref() == Some("Pending") {
        return Step::Wait(why);
    }
    let status = PersistentVolumeClaimStatus { phase: Some("Pending".to_owned()), ..before };
    Step::WriteStatus(Box::new(status), Some(why))
}

/// Why a volume cannot answer a claim.
fn mismatch(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Option<&'static str> {
    let (of, spec) = (volume_spec(volume), claim_spec(claim));
    let has_mode = |mode: &String| of.access_modes.iter().flatten().any(|one| one == mode);
    if bytes(requested(claim)) > bytes(of.capacity.as_ref()) {
        Some("requested PV is too small")
    } else if class_of(claim) != class_of_volume(volume) {
        Some("storageClassName does not match")
    } else if mode(of.volume_mode.as_ref()) != mode(spec.volume_mode.as_ref()) {
        Some("incompatible volumeMode")
    } else if !spec.access_modes.iter().flatten().all(has_mode) {
        Some("incompatible accessMode")
    } else {
        None
    }
}

/// Whether nothing is bound to a claim of this class before a node is known.
fn waits_for_user(class: Option<&StorageClass>) -> bool {
    class.and_then(|class| class.volume_binding_mode.as_deref()) == Some("WaitForFirstConsumer")
}

/// The volume that answers an open claim: one that is given to it, or the smallest free one that is what it asks for.
fn best_volume<'a>(known: &Known<'a>) -> Option<&'a Arc<PersistentVolume>> {
    let claim = known.claim;
    let is_own = |volume: &&Arc<PersistentVolume>| match given(volume, claim) {
        Given::This => true,
        Given::ByName => mismatch(volume, claim).is_none(),
        Given::Nobody | Given::Other => false,
    };
    if let Some(own) = known.volumes.iter().find(is_own) {
        return Some(own);
    }
    if waits_for_user(known.class) {
        // The scheduler gives volumes to such claims.
        return None;
    }
    let selector = claim_spec(claim).selector.as_ref();
    let fits = |volume: &&Arc<PersistentVolume>| {
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        volume_spec(volume).claim_ref.is_none()
            && volume.metadata.deletion_timestamp.is_none()
            && matches!(phase, None | Some("" | "Pending" | "Available"))
            && mismatch(volume, claim).is_none()
            && (selector.is_none() || chooses(selector, volume.metadata.labels.as_ref()))
    };
    known.volumes.iter().filter(fits).min_by_key(|volume| bytes(volume_spec(volume).capacity.as_ref()))
}

/// A claim that no volume answers.
fn open(known: &Known<'_>) -> Step {
    let (claim, class_name) = (known.claim, class_of(known.claim));
    if class_name.is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set";
        return pending(claim, normal("FailedBinding", message));
    }
    let Some(class) = known.class else {
        let message = format!("storageclass.storage.k8s.io \"{class_name}\" not found");
        return pending(claim, warning("ProvisioningFailed", message));
    };
    let selected = annotation(&claim.metadata, SELECTED_NODE);
    let mut used_on = known.users.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
    let node = selected.or(used_on.find(|node| !node.is_empty()));
    if waits_for_user(Some(class)) && node.is_none() {
        let why = match known.users.first() {
            None => normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
            Some(pod) => normal(
                "WaitForPodScheduled",
                format!("waiting for pod {} to be scheduled", name(&pod.metadata)),
            ),
        };
        return pending(claim, why);
    }
    if class.provisioner == BY_HAND {
        let message = format!(
            "no persistent volumes available for this claim, and those of the class \"{class_name}\" are made by hand"
        );
        return pending(claim, normal("FailedBinding", message));
    }
    if annotation(&claim.metadata, PROVISIONER) != Some(&class.provisioner) {
        let mut claim = claim.clone();
        annotate(&mut claim.metadata, PROVISIONER, &class.provisioner);
        annotate(&mut claim.metadata, OLD_PROVISIONER, &class.provisioner);
        return Step::WriteClaim(Box::new(claim));
    }
    if class.provisioner != DIRECTORY_PROVISIONER {
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system \
             administrator. If volume creation is delayed, please verify that the provisioner is running and correctly \
             registered.",
            class.provisioner
        );
        return pending(claim, normal("ExternalProvisioning", message));
    }
    directory(known, class, node, selected.is_some())
}

/// A claim that is answered by a directory of a node.
fn directory(known: &Known<'_>, class: &StorageClass, node: Option<&str>, is_selected: bool) -> Step {
    let (claim, spec) = (known.claim, claim_spec(known.claim));
    let failed = |why: &str| {
        let class = name(&class.metadata);
        let message = format!("failed to provision volume with StorageClass \"{class}\": {why}");
        pending(claim, warning("ProvisioningFailed", message))
    };
    if mode(spec.volume_mode.as_ref()) != "Filesystem" {
        return failed("a directory is no block device; ask for volumeMode Filesystem");
    }
    if spec.selector.is_some() {
        return failed("claim Selector is not supported");
    }
    if spec.data_source.is_some() || spec.data_source_ref.is_some() {
        return failed("a directory begins empty; data sources are not supported");
    }
    let node = match node {
        Some(wanted) => match known.nodes.iter().find(|node| name(&node.metadata) == wanted) {
            Some(node) => node,
            None if is_selected => {
                // It is gone: the scheduler chooses another.
                let mut claim = claim.clone();
                claim.metadata.annotations.get_or_insert_default().remove(SELECTED_NODE);
                return Step::WriteClaim(Box::new(claim));
            }
            None => return failed(&format!("the node \"{wanted}\" does not exist")),
        },
        None => match emptiest(known) {
            Some(node) => node,
            None => return failed("no node is ready to hold it"),
        },
    };
    Step::CreateVolume(Box::new(new_directory(claim, class, node)))
}

/// Of the nodes that take pods, the one with the fewest directories.
fn emptiest<'a>(known: &Known<'a>) -> Option<&'a Arc<Node>> {
    let directories = |node: &&Arc<Node>| {
        let own = name(&node.metadata);
        known.volumes.iter().filter(|volume| node_of(volume) == Some(own)).count()
    };
    known.nodes.iter().filter(|node| takes_pods(node)).min_by_key(directories)
}

fn new_directory(claim: &PersistentVolumeClaim, class: &StorageClass, node: &Node) -> PersistentVolume {
    let own = format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default());
    let node_name = name(&node.metadata);
    let labels = node.metadata.labels.as_ref();
    let host = labels.and_then(|labels| labels.get(HOSTNAME)).map_or(node_name, String::as_str);
    let term = NodeSelectorTerm {
        match_expressions: Some(vec![NodeSelectorRequirement {
            key: HOSTNAME.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![host.to_owned()]),
        }]),
        match_fields: None,
    };
    let mut metadata = ObjectMeta {
        name: Some(own.clone()),
        finalizers: Some(vec![VOLUME_PROTECTION.to_owned(), DIRECTORY_FINALIZER.to_owned()]),
        ..ObjectMeta::default()
    };
    annotate(&mut metadata, PROVISIONED_BY, &class.provisioner);
    annotate(&mut metadata, DIRECTORY_NODE, node_name);
    let size = requested(claim).and_then(|requests| requests.get_key_value(STORAGE));
    PersistentVolume {
        metadata,
        spec: Some(PersistentVolumeSpec {
            access_modes: claim_spec(claim).access_modes.clone(),
            capacity: Some(size.into_iter().map(|(name, size)| (name.clone(), size.clone())).collect()),
            claim_ref: Some(reference_to(claim)),
            csi: Some(CSIPersistentVolumeSource {
                driver: class.provisioner.clone(),
                volume_handle: own,
                ..CSIPersistentVolumeSource::default()
            }),
            node_affinity: Some(VolumeNodeAffinity {
                required: Some(NodeSelector { node_selector_terms: vec![term] }),
            }),
            persistent_volume_reclaim_policy: class.reclaim_policy.clone().or(Some("Delete".to_owned())),
            storage_class_name: class.metadata.name.clone(),
            volume_mode: Some("Filesystem".to_owned()),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}
