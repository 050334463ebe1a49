//! What a volume needs done: its phase, and what becomes of it when its claim is gone. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/storage/persistent-volumes/#reclaiming> and the behaviour of Kubernetes 1.36.

use std::sync::Arc;

use api::annotations::DIRECTORY_FINALIZER;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, PersistentVolumeStatus};

use super::facts::{
    BOUND_BY_CONTROLLER, PROVISIONED_BY, Saying, VOLUME_PROTECTION, annotation, claim_spec, has_finalizer,
    is_directory, name, node_of, volume_spec, warning, without_finalizer,
};

/// What is known about a volume.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    /// The volume.
    pub(crate) volume: &'a PersistentVolume,
    /// The claim of the name that it is given to.
    pub(crate) claim: Option<&'a PersistentVolumeClaim>,
    /// All nodes.
    pub(crate) nodes: &'a [Arc<Node>],
}

/// What is to be written next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// The volume is changed.
    Write(Box<PersistentVolume>),
    /// Its status is changed; something may have to be said about it.
    WriteStatus(Box<PersistentVolumeStatus>, Option<Saying>),
    /// If the API confirms that its claim is gone, it is released.
    Release(Box<PersistentVolumeStatus>),
    /// It is deleted.
    Delete,
    /// Its claim has to be looked at.
    AskClaim,
    /// Nothing.
    Nothing,
}

/// Decides.
pub(crate) fn step(known: &Known<'_>) -> Step {
    let volume = known.volume;
    let (meta, spec) = (&volume.metadata, volume_spec(volume));
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let is_leaving = meta.deletion_timestamp.is_some();
    if is_leaving
        && phase != "Bound"
        && let Some(freed) = freed(known)
    {
        return Step::Write(Box::new(freed));
    }
    if !is_leaving && !has_finalizer(meta, VOLUME_PROTECTION) {
        let mut volume = volume.clone();
        volume.metadata.finalizers.get_or_insert_default().push(VOLUME_PROTECTION.to_owned());
        return Step::Write(Box::new(volume));
    }
    let Some(reference) = &spec.claim_ref else { return in_phase(volume, "Available", None) };
    let uid = reference.uid.as_deref().unwrap_or_default();
    if uid.is_empty() {
        return match known.claim {
            Some(_) if phase == "Available" => Step::AskClaim,
            Some(_) | None => in_phase(volume, "Available", None),
        };
    }
    let claim = known.claim.filter(|claim| claim.metadata.uid.as_deref() == Some(uid));
    match claim.map(|claim| claim_spec(claim).volume_name.as_deref().unwrap_or_default()) {
        Some("") => Step::AskClaim,
        Some(bound) if bound == name(meta) => in_phase(volume, "Bound", None),
        // The claim has another: this one was made in vain, or given in vain.
        Some(_) if is_directory(volume) => released(volume, phase),
        Some(_) if annotation(meta, BOUND_BY_CONTROLLER).is_some() => {
            let mut volume = volume.clone();
            volume.metadata.annotations.get_or_insert_default().remove(BOUND_BY_CONTROLLER);
            volume.spec.get_or_insert_default().claim_ref = None;
            Step::Write(Box::new(volume))
        }
        Some(_) => Step::Nothing,
        None => released(volume, phase),
    }
}

/// The volume without what keeps it from going, when it is not bound.
fn freed(known: &Known<'_>) -> Option<PersistentVolume> {
    let mut volume = known.volume.clone();
    if has_finalizer(&volume.metadata, VOLUME_PROTECTION) {
        without_finalizer(&mut volume.metadata, VOLUME_PROTECTION);
        return Some(volume);
    }
    // Its node would see to the directory. One that is gone has taken it along.
    let node = node_of(known.volume)?;
    let is_node_there = known.nodes.iter().any(|known| name(&known.metadata) == node);
    if is_node_there || !has_finalizer(&volume.metadata, DIRECTORY_FINALIZER) {
        return None;
    }
    without_finalizer(&mut volume.metadata, DIRECTORY_FINALIZER);
    Some(volume)
}

fn with_phase(
    volume: &PersistentVolume,
    phase: &str,
    message: Option<String>,
) -> Box<PersistentVolumeStatus> {
    let before = volume.status.clone().unwrap_or_default();
    Box::new(PersistentVolumeStatus { phase: Some(phase.to_owned()), message, ..before })
}

fn in_phase(volume: &PersistentVolume, phase: &str, failure: Option<Saying>) -> Step {
    if volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase) {
        return Step::Nothing;
    }
    let message = failure.as_ref().map(|failure| failure.message.clone());
    Step::WriteStatus(with_phase(volume, phase, message), failure)
}

/// A volume whose claim is gone.
fn released(volume: &PersistentVolume, phase: &str) -> Step {
    match phase {
        "Released" => {}
        "Failed" => return Step::Nothing,
        _ => return Step::Release(with_phase(volume, "Released", None)),
    }
    if volume.metadata.deletion_timestamp.is_some() {
        return Step::Nothing;
    }
    let failed = |reason, message: &str| in_phase(volume, "Failed", Some(warning(reason, message)));
    match volume_spec(volume).persistent_volume_reclaim_policy.as_deref() {
        Some("Delete") if is_directory(volume) => Step::Delete,
        // Whoever made it deletes it.
        Some("Delete") if annotation(&volume.metadata, PROVISIONED_BY).is_some() => Step::Nothing,
        Some("Delete") => failed(
            "VolumeFailedDelete",
            "no deletable volume plugin matched: this volume was made by hand, and what is on it is deleted by hand",
        ),
        Some("Recycle") => {
            failed("VolumeFailedRecycle", "no recyclable volume plugin matched: use Retain or Delete")
        }
        Some(_) | None => Step::Nothing,
    }
}
