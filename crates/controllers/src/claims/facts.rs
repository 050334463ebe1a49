//! What claims and volumes say: names of annotations and finalizers, classes, sizes, whose a volume is.
//!
//! Source: <https://kubernetes.io/docs/reference/labels-annotations-taints/>.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use api::annotations::{DIRECTORY_NODE, DIRECTORY_PROVISIONER};
use events::EventType;
use k8s_openapi::api::core::v1::{
    Node, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec, Pod,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use quantity::Quantity;

/// Keeps a claim that a pod uses.
pub(crate) const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Keeps a volume that is bound.
pub(crate) const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// On a claim: volume and claim are bound to each other.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or volume: the binding is not its author's.
pub(super) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a volume: who made it.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a claim: who is to make its volume.
pub(super) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The same as older provisioners look for it.
pub(super) const OLD_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a claim: the node that the scheduler chose for the pod that uses it.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Where the class stood before there was a field for it.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The provisioner of classes whose volumes people make.
pub(super) const BY_HAND: &str = "kubernetes.io/no-provisioner";
/// The resource that claims ask for.
pub(super) const STORAGE: &str = "storage";

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Saying {
    /// Normal or Warning.
    pub(crate) type_: EventType,
    /// The reason.
    pub(crate) reason: &'static str,
    /// The message.
    pub(crate) message: String,
}

pub(super) fn normal(reason: &'static str, message: impl Into<String>) -> Saying {
    Saying { type_: EventType::Normal, reason, message: message.into() }
}

pub(super) fn warning(reason: &'static str, message: impl Into<String>) -> Saying {
    Saying { type_: EventType::Warning, reason, message: message.into() }
}

pub(super) fn annotation<'m>(meta: &'m ObjectMeta, name: &str) -> Option<&'m str> {
    meta.annotations.as_ref()?.get(name).map(String::as_str)
}

pub(super) fn annotate(meta: &mut ObjectMeta, name: &str, value: &str) {
    meta.annotations.get_or_insert_default().insert(name.to_owned(), value.to_owned());
}

pub(crate) fn has_finalizer(meta: &ObjectMeta, name: &str) -> bool {
    meta.finalizers.iter().flatten().any(|finalizer| finalizer == name)
}

pub(crate) fn without_finalizer(meta: &mut ObjectMeta, name: &str) {
    if let Some(finalizers) = &mut meta.finalizers {
        finalizers.retain(|finalizer| finalizer != name);
    }
}

pub(super) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// How much storage is in a list of amounts.
pub(super) fn bytes(amounts: Option<&BTreeMap<String, Amount>>) -> i128 {
    let amount = amounts.and_then(|amounts| amounts.get(STORAGE));
    amount.and_then(|amount| Quantity::parse(&amount.0).ok()).map_or(0, |amount| amount.units())
}

/// The spec of a claim; what the API stores has one.
pub(super) fn claim_spec(claim: &PersistentVolumeClaim) -> &PersistentVolumeClaimSpec {
    static NONE: LazyLock<PersistentVolumeClaimSpec> = LazyLock::new(PersistentVolumeClaimSpec::default);
    claim.spec.as_ref().unwrap_or(&NONE)
}

/// The spec of a volume; what the API stores has one.
pub(super) fn volume_spec(volume: &PersistentVolume) -> &PersistentVolumeSpec {
    static NONE: LazyLock<PersistentVolumeSpec> = LazyLock::new(PersistentVolumeSpec::default);
    volume.spec.as_ref().unwrap_or(&NONE)
}

/// What a claim asks for.
pub(super) fn requested(claim: &PersistentVolumeClaim) -> Option<&BTreeMap<String, Amount>> {
    claim_spec(claim).resources.as_ref()?.requests.as_ref()
}

/// The class that a claim names.
pub(crate) fn class_of(claim: &PersistentVolumeClaim) -> &str {
    let old = annotation(&claim.metadata, OLD_CLASS);
    old.or(claim_spec(claim).storage_class_name.as_deref()).unwrap_or_default()
}

/// The class that a volume names.
pub(crate) fn class_of_volume(volume: &PersistentVolume) -> &str {
    let old = annotation(&volume.metadata, OLD_CLASS);
    old.or(volume_spec(volume).storage_class_name.as_deref()).unwrap_or_default()
}

pub(super) fn mode(mode: Option<&String>) -> &str {
    mode.map_or("Filesystem", String::as_str)
}

/// Whether a pod uses a claim of its namespace, directly or as one that was made for it.
pub(crate) fn uses(pod: &Pod, claim: &str) -> bool {
    claims_of(pod).any(|used| used == claim)
}

/// The names of the claims that a pod uses.
pub(crate) fn claims_of(pod: &Pod) -> impl Iterator<Item = String> + '_ {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(source.claim_name.clone()),
        (None, Some(_)) => Some(format!("{}-{}", name(&pod.metadata), volume.name)),
        (None, None) => None,
    })
}

/// Whether a pod keeps a claim that is on its way out: one that is on a node. A pod that is on none will not be started with it.
pub(crate) fn keeps(pod: &Pod, claim: &str) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    !node.is_empty() && uses(pod, claim)
}

/// To whom a volume is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// Nobody.
    Nobody,
    /// A claim of this name, whichever that is: its author said so.
    ByName,
    /// This very claim.
    This,
    /// Another.
    Other,
}

/// Whether a volume is given to a claim.
pub(super) fn given(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Given {
    let Some(reference) = &volume_spec(volume).claim_ref else { return Given::Nobody };
    let is_named = reference.name == claim.metadata.name && reference.namespace == claim.metadata.namespace;
    match reference.uid.as_deref() {
        None | Some("") if is_named => Given::ByName,
        uid if is_named && uid == claim.metadata.uid.as_deref() => Given::This,
        Some(_) | None => Given::Other,
    }
}

/// Whether a volume is a directory of a node that was made for a claim.
pub(super) fn is_directory(volume: &PersistentVolume) -> bool {
    volume_spec(volume).csi.as_ref().is_some_and(|source| source.driver == DIRECTORY_PROVISIONER)
}

/// The node on which the directory of a volume is.
pub(super) fn node_of(volume: &PersistentVolume) -> Option<&str> {
    annotation(&volume.metadata, DIRECTORY_NODE).filter(|_| is_directory(volume))
}

/// Whether a claim is bound to no volume yet.
pub(crate) fn is_open(claim: &PersistentVolumeClaim) -> bool {
    annotation(&claim.metadata, BIND_COMPLETED).is_none()
}

/// Whether a node is ready and takes new pods.
pub(crate) fn takes_pods(node: &Node) -> bool {
    let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    !is_cordoned && conditions.any(|one| one.type_ == "Ready" && one.status == "True")
}
