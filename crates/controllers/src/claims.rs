//! The controller of PersistentVolumeClaims and PersistentVolumes: binds them to each other, has claims answered by directories of
//! nodes, protects what is in use, and reclaims what no claim asks for any more.
//!
//! The directories themselves are the nodes' business: a node makes one when the first pod mounts it, and removes it when its
//! volume goes.

mod decision;
pub(crate) mod facts;
#[cfg(test)]
mod tests;
mod volume;

use std::sync::Arc;

use api::annotations::DIRECTORY_PROVISIONER;
use events::{EventRecorder, EventType};
use informer::{Change, ObjectKey};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};

use crate::controller::{self, Next, ReconcileError, Reconciler, is_already_there, is_not_found};
use crate::deletion::delete;
use crate::ownership::object_reference;
use crate::queue::Queue;
use crate::{Informers, Speaker, Start};

use facts::Saying;

/// The name of its service account.
const NAME: &str = "persistent-volume-binder";
/// Claims, or volumes, that are looked at at the same time.
const WORKERS: usize = 4;
/// More steps than any claim or volume needs until nothing is left to do.
const STEPS: usize = 12;

/// The class of claims that name none.
pub(crate) fn default_class() -> StorageClass {
    let is_default = ("storageclass.kubernetes.io/is-default-class".to_owned(), "true".to_owned());
    StorageClass {
        metadata: ObjectMeta {
            name: Some("standard".to_owned()),
            annotations: Some([is_default].into()),
            ..ObjectMeta::default()
        },
        provisioner: DIRECTORY_PROVISIONER.to_owned(),
        reclaim_policy: Some("Delete".to_owned()),
        volume_binding_mode: Some("Immediate".to_owned()),
        allow_volume_expansion: Some(true),
        ..StorageClass::default()
    }
}

/// Starts it.
pub(crate) fn start(start: &Start<'_>) {
    let (client, events) = start.speaker(Speaker::Controller(NAME));
    let informers = start.informers().clone();
    let (claims, volumes) = (Arc::new(Queue::default()), Arc::new(Queue::default()));
    listen(&informers, &claims, &volumes);
    let synced = |informers: Informers| async move {
        informers.persistent_volume_claims.synced().await;
        informers.persistent_volumes.synced().await;
        informers.storage_classes.synced().await;
        informers.nodes.synced().await;
        informers.pods.synced().await;
    };
    let binder =
        Arc::new(Claims { informers: informers.clone(), client: client.clone(), events: events.clone() });
    let end = start.shutdown.clone();
    start.task(controller::run(binder, Arc::clone(&claims), WORKERS, synced(informers.clone()), end));
    let keeper = Arc::new(Volumes { informers: informers.clone(), client, events, claims });
    start.task(controller::run(keeper, volumes, WORKERS, synced(informers), start.shutdown.clone()));
}

fn volume_key(name: &str) -> ObjectKey {
    ObjectKey::new("", name)
}

/// Has claims and volumes looked at when something changes that is about them.
fn listen(informers: &Informers, claims: &Arc<Queue>, volumes: &Arc<Queue>) {
    let open = {
        let (known, claims) = (informers.persistent_volume_claims.clone(), Arc::clone(claims));
        Arc::new(move |is_meant: &dyn Fn(&PersistentVolumeClaim) -> bool| {
            for claim in known.all() {
                if facts::is_open(&claim) && is_meant(&claim) {
                    claims.add(ObjectKey::of(&*claim));
                }
            }
        })
    };
    informers.persistent_volume_claims.on_change({
        let (claims, volumes, known) =
            (Arc::clone(claims), Arc::clone(volumes), informers.persistent_volumes.clone());
        move |change| {
            let claim = change.object();
            claims.add(ObjectKey::of(&**claim));
            match claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) {
                Some(volume) if !volume.is_empty() => volumes.add(volume_key(volume)),
                Some(_) | None if matches!(change, Change::Removed(_)) => {
                    // What was made for it, or given to it, before it heard of that.
                    let uid = claim.metadata.uid.as_deref();
                    for volume in known.all() {
                        let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
                        if reference.is_some_and(|reference| reference.uid.as_deref() == uid) {
                            volumes.add(ObjectKey::of(&*volume));
                        }
                    }
                }
                Some(_) | None => {}
            }
        }
    });
    informers.persistent_volumes.on_change({
        let (claims, volumes, open) = (Arc::clone(claims), Arc::clone(volumes), Arc::clone(&open));
        move |change| {
            let volume = change.object();
            volumes.add(ObjectKey::of(&**volume));
            match volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) {
                Some(claim) => claims.add(ObjectKey::new(
                    claim.namespace.clone().unwrap_or_default(),
                    claim.name.clone().unwrap_or_default(),
                )),
                None => {
                    let class = facts::class_of_volume(volume);
                    let name = volume.metadata.name.as_deref();
                    open(&|claim| {
                        facts::class_of(claim) == class
                            || claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()) == name
                    });
                }
            }
        }
    });
    informers.storage_classes.on_change({
        let open = Arc::clone(&open);
        move |change| {
            let class = change.object().metadata.name.as_deref().unwrap_or_default();
            open(&|claim| facts::class_of(claim) == class);
        }
    });
    informers.nodes.on_change({
        let (volumes, known) = (Arc::clone(volumes), informers.persistent_volumes.clone());
        move |change| match change {
            Change::Changed { before, now } if facts::takes_pods(before) == facts::takes_pods(now) => {}
            Change::Added(_) | Change::Changed { .. } => open(&|_| true),
            Change::Removed(_) => {
                for volume in known.all() {
                    if volume.metadata.deletion_timestamp.is_some() {
                        volumes.add(ObjectKey::of(&*volume));
                    }
                }
            }
        }
    });
    informers.pods.on_change({
        let claims = Arc::clone(claims);
        move |change| {
            let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let is_news = match change {
                Change::Added(_) | Change::Removed(_) => true,
                Change::Changed { before, now } => node(before) != node(now),
            };
            if is_news {
                let pod = change.object();
                for claim in facts::claims_of(pod) {
                    claims.add(ObjectKey::new(pod.metadata.namespace.clone().unwrap_or_default(), claim));
                }
            }
        }
    });
}

/// Looks after claims.
struct Claims {
    informers: Informers,
    client: kube::Client,
    events: EventRecorder,
}

impl Reconciler for Claims {
    const NAME: &'static str = "claims";

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        for _ in 0..STEPS {
            let Some(claim) = self.informers.persistent_volume_claims.get(&key) else { break };
            if !self.take(&claim, self.step(&claim)).await? {
                break;
            }
        }
        Ok(Next::Change)
    }
}

impl Claims {
    fn step(&self, claim: &PersistentVolumeClaim) -> decision::Step {
        let informers = &self.informers;
        let is_open = facts::is_open(claim);
        // A claim that is bound needs to know only its volume.
        let volumes = if is_open {
            informers.persistent_volumes.all()
        } else {
            let bound = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
            bound.and_then(|name| informers.persistent_volumes.get(&volume_key(name))).into_iter().collect()
        };
        let users: Vec<Arc<Pod>> = if is_open || claim.metadata.deletion_timestamp.is_some() {
            let own = claim.metadata.name.as_deref().unwrap_or_default();
            let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
            let pods = informers.pods.in_namespace(namespace).into_iter();
            pods.filter(|pod| facts::uses(pod, own)).collect()
        } else {
            Vec::new()
        };
        let nodes: Vec<Arc<Node>> = if is_open { informers.nodes.all() } else { Vec::new() };
        decision::step(&decision::Known {
            claim,
            volumes: &volumes,
            class: informers.storage_classes.get(&volume_key(facts::class_of(claim))).as_deref(),
            nodes: &nodes,
            users: &users,
        })
    }

    /// Carries a step out; answers whether there may be another.
    async fn take(&self, claim: &PersistentVolumeClaim, step: decision::Step) -> kube::Result<bool> {
        let key = ObjectKey::of(claim);
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &key.namespace);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let params = PostParams::default();
        match step {
            decision::Step::CreateVolume(volume) => {
                let name = volume.metadata.name.clone().unwrap_or_default();
                match volumes.create(&params, &volume).await {
                    Ok(created) => {
                        fault::point("claim.volume_created");
                        let message = format!("Successfully provisioned volume {name}");
                        self.say(claim, EventType::Normal, "ProvisioningSucceeded", message);
                        self.informers.persistent_volumes.learn(created);
                    }
                    // The cache did not know it yet.
                    Err(error) if is_already_there(&error) => {
                        self.informers.persistent_volumes.learn(volumes.get(&name).await?);
                    }
                    Err(error) => return Err(error),
                }
            }
            decision::Step::WriteVolume(volume) => {
                let name = volume.metadata.name.clone().unwrap_or_default();
                let written = volumes.replace(&name, &params, &volume).await?;
                fault::point("claim.volume_given");
                self.informers.persistent_volumes.learn(written);
            }
            decision::Step::WriteClaim(claim) => {
                let written = claims.replace(&key.name, &params, &claim).await?;
                fault::point("claim.bound");
                self.informers.persistent_volume_claims.learn(written);
            }
            decision::Step::WriteStatus(status, saying) => {
                let mut claim = claim.clone();
                claim.status = Some(*status);
                let written = claims.replace_status(&key.name, &params, &claim).await?;
                fault::point("claim.status_written");
                self.informers.persistent_volume_claims.learn(written);
                if let Some(saying) = saying {
                    self.say(&claim, saying.type_, saying.reason, saying.message);
                }
            }
            decision::Step::Unprotect => return self.unprotect(claim, &claims).await,
            decision::Step::Wait(Saying { type_, reason, message }) => {
                self.say(claim, type_, reason, message);
                return Ok(false);
            }
            decision::Step::Nothing => return Ok(false),
        }
        Ok(true)
    }

    fn say(&self, claim: &PersistentVolumeClaim, type_: EventType, reason: &'static str, message: String) {
        self.events.record(object_reference(claim), type_, reason, message);
    }

    /// A pod may have been bound to a node a moment ago: the API is asked itself.
    async fn unprotect(
        &self,
        claim: &PersistentVolumeClaim,
        claims: &Api<PersistentVolumeClaim>,
    ) -> kube::Result<bool> {
        let key = ObjectKey::of(claim);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let users = pods.list(&ListParams::default()).await?;
        if users.items.iter().any(|pod| facts::keeps(pod, &key.name)) {
            return Ok(false);
        }
        let mut freed = claim.clone();
        facts::without_finalizer(&mut freed.metadata, facts::CLAIM_PROTECTION);
        match claims.replace(&key.name, &PostParams::default(), &freed).await {
            Ok(freed) if freed.metadata.finalizers.as_ref().is_some_and(|left| !left.is_empty()) => {
                self.informers.persistent_volume_claims.learn(freed);
            }
            // That was the last one: it is gone.
            Ok(_) => {
                let uid = claim.metadata.uid.as_deref().unwrap_or_default();
                self.informers.persistent_volume_claims.learn_deleted(uid, &key);
            }
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
        fault::point("claim.freed");
        Ok(false)
    }
}

/// Looks after volumes.
struct Volumes {
    informers: Informers,
    client: kube::Client,
    events: EventRecorder,
    claims: Arc<Queue>,
}

impl Reconciler for Volumes {
    const NAME: &'static str = "volumes";

    async fn reconcile(&self, key: ObjectKey) -> Result<Next, ReconcileError> {
        for _ in 0..STEPS {
            let Some(volume) = self.informers.persistent_volumes.get(&key) else { break };
            let claim = claim_key(&volume).and_then(|key| self.informers.persistent_volume_claims.get(&key));
            let nodes = if volume.metadata.deletion_timestamp.is_some() {
                self.informers.nodes.all()
            } else {
                Vec::new()
            };
            let step =
                volume::step(&volume::Known { volume: &volume, claim: claim.as_deref(), nodes: &nodes });
            if !self.take(&volume, step).await? {
                break;
            }
        }
        Ok(Next::Change)
    }
}

/// The claim that a volume is given to.
fn claim_key(volume: &PersistentVolume) -> Option<ObjectKey> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    Some(ObjectKey::new(claim.namespace.clone().unwrap_or_default(), claim.name.clone().unwrap_or_default()))
}

impl Volumes {
    /// Carries a step out; answers whether there may be another.
    async fn take(&self, volume: &PersistentVolume, step: volume::Step) -> kube::Result<bool> {
        let key = ObjectKey::of(volume);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let params = PostParams::default();
        match step {
            volume::Step::Write(written) => {
                let written = match volumes.replace(&key.name, &params, &written).await {
                    Err(error) if is_not_found(&error) => return Ok(false),
                    answer => answer?,
                };
                fault::point("volume.written");
                let is_gone = written.metadata.deletion_timestamp.is_some()
                    && written.metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
                if is_gone {
                    let uid = written.metadata.uid.clone().unwrap_or_default();
                    self.informers.persistent_volumes.learn_deleted(&uid, &key);
                } else {
                    self.informers.persistent_volumes.learn(written);
                }
            }
            volume::Step::WriteStatus(status, saying) => {
                self.write_status(volume, *status, &volumes).await?;
                if let Some(Saying { type_, reason, message }) = saying {
                    self.events.record(object_reference(volume), type_, reason, message);
                }
            }
            volume::Step::Release(status) => {
                if self.has_claim(volume).await? {
                    // The cache does not know it yet; its arrival brings us back.
                    return Ok(false);
                }
                self.write_status(volume, *status, &volumes).await?;
            }
            volume::Step::Delete => {
                let informer = &self.informers.persistent_volumes;
                if !delete(volume, &volumes, informer, DeleteParams::default()).await? {
                    return Ok(false);
                }
                fault::point("volume.deleted");
            }
            volume::Step::AskClaim => {
                if let Some(claim) = claim_key(volume) {
                    self.claims.add(claim);
                }
                return Ok(false);
            }
            volume::Step::Nothing => return Ok(false),
        }
        Ok(true)
    }

    async fn write_status(
        &self,
        volume: &PersistentVolume,
        status: k8s_openapi::api::core::v1::PersistentVolumeStatus,
        volumes: &Api<PersistentVolume>,
    ) -> kube::Result<()> {
        let mut volume = volume.clone();
        volume.status = Some(status);
        let name = volume.metadata.name.clone().unwrap_or_default();
        let written = volumes.replace_status(&name, &PostParams::default(), &volume).await?;
        fault::point("volume.status_written");
        self.informers.persistent_volumes.learn(written);
        Ok(())
    }

    /// Whether the API knows the very claim that the volume is given to, bound to it or not bound at all.
    async fn has_claim(&self, volume: &PersistentVolume) -> kube::Result<bool> {
        let Some(key) = claim_key(volume) else { return Ok(false) };
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &key.namespace);
        let Some(claim) = claims.get_opt(&key.name).await? else { return Ok(false) };
        let uid = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()?.uid.clone());
        let bound = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
        Ok(claim.metadata.uid == uid && (bound.is_empty() || Some(bound) == volume.metadata.name.as_deref()))
    }
}
