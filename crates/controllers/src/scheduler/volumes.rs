//! The claims of a pod: whether they are fulfilled, where their volumes are, and where open ones could be fulfilled.
//!
//! Source: <https://kubernetes.io/docs/concepts/storage/storage-classes/#volume-binding-mode>.

use std::collections::BTreeMap;
use std::sync::Arc;

use informer::ObjectKey;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use quantity::Quantity;

use super::reason::Reason;
use super::wish::Wish;

/// Annotation of a claim: the node on which its volume is to be made.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a claim: its volume is bound on both sides.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation of a claim: its class, as it was written once.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// The provisioner of classes whose volumes are made by hand.
const BY_HAND: &str = "kubernetes.io/no-provisioner";

/// What is known of volumes.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    pub(super) claims: BTreeMap<ObjectKey, Arc<PersistentVolumeClaim>>,
    pub(super) volumes: BTreeMap<String, Arc<PersistentVolume>>,
    pub(super) classes: BTreeMap<String, Arc<StorageClass>>,
}

/// What a pod needs of volumes.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Volumes that fulfil its claims; none for one that does not exist.
    bound: Vec<Option<Arc<PersistentVolume>>>,
    /// Claims that are fulfilled only when the pod's node is known.
    open: Vec<Arc<PersistentVolumeClaim>>,
    /// Claims that one pod at a time may use.
    pub(super) exclusive: Vec<ObjectKey>,
}

/// How an open claim is to be fulfilled for a pod on the node that was chosen.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fulfilment {
    /// The node is named on the claim; whoever makes volumes does so there.
    Provision(ObjectKey),
    /// This volume is given to it.
    Give(ObjectKey, String),
}

impl Fulfilment {
    /// The claim.
    pub(crate) fn claim(&self) -> &ObjectKey {
        match self {
            Self::Provision(claim) | Self::Give(claim, _) => claim,
        }
    }
}

impl Volumes {
    /// What the pod needs.
    ///
    /// # Errors
    ///
    /// The sentence that is said when it can be on no node yet.
    pub(super) fn needs(&self, wish: &Wish) -> Result<Needs, String> {
        let mut needs = Needs::default();
        let mut is_waiting = false;
        for (name, is_own) in &wish.claims {
            let key = ObjectKey::new(wish.namespace(), name);
            let Some(claim) = self.claims.get(&key) else {
                return Err(if *is_own {
                    format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                    )
                } else {
                    format!("persistentvolumeclaim \"{name}\" not found")
                });
            };
            if claim.metadata.deletion_timestamp.is_some() {
                return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
            }
            let owners = claim.metadata.owner_references.iter().flatten();
            if *is_own && !owners.into_iter().any(|owner| owner.uid == wish.uid()) {
                return Err(format!(
                    "PVC {key} was not created for pod {}/{} (pod is not owner)",
                    wish.namespace(),
                    wish.name()
                ));
            }
            let spec = claim.spec.as_ref();
            let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
            let volume = spec.and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
            if phase == Some("Lost") {
                return Err(format!(
                    "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
                ));
            }
            let modes = spec.into_iter().flat_map(|spec| spec.access_modes.iter().flatten());
            if modes.into_iter().any(|mode| mode == "ReadWriteOncePod") {
                needs.exclusive.push(key);
            }
            let completed = annotation(claim, BIND_COMPLETED).is_some() || phase == Some("Bound");
            if !volume.is_empty() && completed {
                needs.bound.push(self.volumes.get(volume).cloned());
            } else if volume.is_empty() && self.waits_for_consumer(claim) {
                needs.open.push(Arc::clone(claim));
            } else {
                is_waiting = true;
            }
        }
        if is_waiting {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
        Ok(needs)
    }

    fn class(&self, claim: &PersistentVolumeClaim) -> Option<&StorageClass> {
        let old = annotation(claim, OLD_CLASS);
        let name = old.or_else(|| claim.spec.as_ref()?.storage_class_name.as_deref())?;
        self.classes.get(name).map(|class| &**class)
    }

    fn waits_for_consumer(&self, claim: &PersistentVolumeClaim) -> bool {
        let class = self.class(claim);
        class.and_then(|class| class.volume_binding_mode.as_deref()) == Some("WaitForFirstConsumer")
    }

    /// What of volumes keeps the pod from a node.
    pub(super) fn obstacles(&self, needs: &Needs, node: &Node) -> Vec<Reason> {
        let mut found = Vec::new();
        for volume in &needs.bound {
            match volume {
                None => push(&mut found, Reason::VolumeMissing),
                Some(volume) if !is_reached(volume, node) => push(&mut found, Reason::VolumeElsewhere),
                Some(_) => {}
            }
        }
        if !needs.open.is_empty() && self.fulfilments(needs, node).is_none() {
            push(&mut found, Reason::NoVolume);
        }
        found
    }

    /// How the open claims would be fulfilled on a node; nothing if they cannot be.
    pub(super) fn fulfilments(&self, needs: &Needs, node: &Node) -> Option<Vec<Fulfilment>> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let mut given: Vec<&str> = Vec::new();
        let mut all = Vec::new();
        for claim in &needs.open {
            let key = ObjectKey::of(&**claim);
            let class = self.class(claim)?;
            let selected = annotation(claim, SELECTED_NODE);
            if selected.is_some_and(|selected| selected != name) {
                return None;
            }
            if selected.is_none()
                && let Some(volume) = self.volume_for(claim, class, node, &given)
            {
                given.push(volume);
                all.push(Fulfilment::Give(key, volume.to_owned()));
                continue;
            }
            let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
            let is_allowed = topologies.is_empty()
                || topologies.iter().any(|term| {
                    term.match_label_expressions.iter().flatten().all(|one| {
                        let labels = node.metadata.labels.as_ref();
                        labels.and_then(|labels| labels.get(&one.key)).is_some_and(|v| one.values.contains(v))
                    })
                });
            if class.provisioner == BY_HAND || !is_allowed {
                return None;
            }
            all.push(Fulfilment::Provision(key));
        }
        Some(all)
    }

    /// The smallest free volume that fulfils a claim and is reached from the node.
    fn volume_for<'v>(
        &'v self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        node: &Node,
        given: &[&str],
    ) -> Option<&'v str> {
        let spec = claim.spec.as_ref()?;
        // A claim that says what its volume must be like is answered by whoever makes volumes.
        if spec.selector.is_some() {
            return None;
        }
        let asked = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let asked = asked.and_then(|requests| requests.get("storage")).map_or(0, |amount| bytes(&amount.0));
        let mode = |mode: Option<&String>| mode.map_or("Filesystem", String::as_str).to_owned();
        let fits = |volume: &PersistentVolume| {
            let Some(of) = volume.spec.as_ref() else { return false };
            let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
            let modes = of.access_modes.as_deref().unwrap_or_default();
            matches!(phase, None | Some("Available"))
                && of.claim_ref.is_none()
                && volume.metadata.deletion_timestamp.is_none()
                && of.storage_class_name.as_deref() == class.metadata.name.as_deref()
                && mode(of.volume_mode.as_ref()) == mode(spec.volume_mode.as_ref())
                && spec.access_modes.iter().flatten().all(|wanted| modes.contains(wanted))
                && size(volume) >= asked
                && is_reached(volume, node)
        };
        self.volumes
            .iter()
            .filter(|(name, volume)| !given.contains(&name.as_str()) && fits(volume))
            .min_by_key(|(_, volume)| size(volume))
            .map(|(name, _)| name.as_str())
    }

    /// Whether a claim is fulfilled.
    pub(super) fn is_bound(&self, key: &ObjectKey) -> bool {
        self.claims.get(key).is_some_and(|claim| {
            let named = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
            let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
            let completed = annotation(claim, BIND_COMPLETED).is_some() || phase == Some("Bound");
            named.is_some_and(|name| !name.is_empty()) && completed
        })
    }

    /// Whether whoever makes volumes has given up to make one on this node: it takes the mark away.
    pub(super) fn is_given_back(&self, key: &ObjectKey, node: &str) -> bool {
        self.claims.get(key).is_none_or(|claim| {
            claim.metadata.deletion_timestamp.is_some() || annotation(claim, SELECTED_NODE) != Some(node)
        })
    }
}

fn push(found: &mut Vec<Reason>, reason: Reason) {
    if !found.contains(&reason) {
        found.push(reason);
    }
}

fn annotation<'c>(claim: &'c PersistentVolumeClaim, name: &str) -> Option<&'c str> {
    claim.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn bytes(quantity: &str) -> i128 {
    Quantity::parse(quantity).map_or(0, |amount| amount.units())
}

fn size(volume: &PersistentVolume) -> i128 {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
    capacity.and_then(|capacity| capacity.get("storage")).map_or(0, |amount| bytes(&amount.0))
}

/// Whether a node is one from which the volume can be used.
fn is_reached(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required.as_ref());
    required.is_none_or(|required| {
        required.node_selector_terms.iter().any(|term| lifecycle::selects_node(term, node))
    })
}
