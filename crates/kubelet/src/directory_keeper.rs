//! Sees to the directories of this node whose volumes go: removes what is to be deleted, leaves what is to be kept, and lets the
//! volume go then.
//!
//! A volume that goes waits for this with a finalizer, so that no crash leaves a directory behind, and none is removed
//! while a claim is bound to it.

use std::collections::BTreeSet;
use std::time::Duration;

use api::annotations::{DIRECTORY_FINALIZER, DIRECTORY_NODE, DIRECTORY_PROVISIONER};
use informer::{Informer, ObjectKey};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Api;
use kube::api::PostParams;
use tokio::sync::mpsc;

use crate::agent::SharedAgent;
use crate::volumes::{is_handle, remove_directory};

/// Waited before what failed is tried again.
const PAUSE: Duration = Duration::from_secs(10);
/// A claim is bound to the volume.
const BOUND: &str = "kubernetes.io/pv-protection";

/// What is to be done with the directory of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Duty {
    /// Nothing: it is not ours, or not yet.
    None,
    /// It is removed.
    Remove(String),
    /// It stays, and the volume goes.
    Keep,
}

/// Decides. Pure.
fn duty(volume: &PersistentVolume, node: &str) -> Duty {
    let meta = &volume.metadata;
    let has = |name: &str| meta.finalizers.iter().flatten().any(|finalizer| finalizer == name);
    let on = meta.annotations.as_ref().and_then(|annotations| annotations.get(DIRECTORY_NODE));
    if meta.deletion_timestamp.is_none()
        || !has(DIRECTORY_FINALIZER)
        || has(BOUND)
        || on.is_none_or(|on| on != node)
    {
        return Duty::None;
    }
    let Some(spec) = &volume.spec else { return Duty::Keep };
    let handle =
        spec.csi.as_ref().filter(|csi| csi.driver == DIRECTORY_PROVISIONER).map(|csi| &csi.volume_handle);
    match (handle, spec.persistent_volume_reclaim_policy.as_deref()) {
        (Some(handle), Some("Delete")) if is_handle(handle) => Duty::Remove(handle.clone()),
        (Some(_) | None, _) => Duty::Keep,
    }
}

/// Does it until the agent ends.
pub(crate) async fn keep_directories(agent: SharedAgent) {
    let informer: Informer<PersistentVolume> = Informer::idle();
    let (tell, mut told) = mpsc::unbounded_channel();
    informer.on_change({
        let node = agent.config.node_name.clone();
        move |change| {
            if duty(change.object(), &node) != Duty::None {
                let _ = tell.send(ObjectKey::of(&**change.object()));
            }
        }
    });
    let api: Api<PersistentVolume> = Api::all(agent.client.clone());
    let follow = informer.clone().follow(api.clone(), "", agent.ending.clone());
    let work = async {
        let mut failed: BTreeSet<ObjectKey> = BTreeSet::new();
        loop {
            let key = if failed.is_empty() {
                told.recv().await
            } else {
                tokio::time::timeout(PAUSE, told.recv()).await.unwrap_or_else(|_| failed.pop_first())
            };
            let Some(key) = key else { return };
            let Some(volume) = informer.get(&key) else { continue };
            match see_to(&agent, &api, &volume).await {
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!(volume = %key, error, "the directory of a volume could not be seen to; trying again");
                    failed.insert(key);
                }
            }
        }
    };
    tokio::join!(follow, work);
}

async fn see_to(
    agent: &SharedAgent,
    api: &Api<PersistentVolume>,
    volume: &PersistentVolume,
) -> Result<(), String> {
    match duty(volume, &agent.config.node_name) {
        Duty::None => return Ok(()),
        Duty::Remove(handle) => {
            let root = agent.config.claims_dir.clone();
            let removal = agent.tasks.spawn_blocking(move || remove_directory(&root, &handle)).await;
            match removal {
                Ok(removed) => removed.map_err(|error| error.to_string())?,
                Err(_) => return Err("the attempt ended with a panic".to_owned()),
            }
            fault::point("claim.directory_removed");
        }
        Duty::Keep => {}
    }
    let mut freed = volume.clone();
    if let Some(finalizers) = &mut freed.metadata.finalizers {
        finalizers.retain(|finalizer| finalizer != DIRECTORY_FINALIZER);
    }
    let name = freed.metadata.name.clone().unwrap_or_default();
    match api.replace(&name, &PostParams::default(), &freed).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_directory_is_removed_only_when_its_volume_goes_and_nobody_is_bound_to_it() {
        let handle = "pvc-01234567-89ab-cdef-0123-456789abcdef";
        let volume = |node: &str,
                      leaving: bool,
                      finalizers: &[&str],
                      policy: &str,
                      handle: &str|
         -> PersistentVolume {
            let mut metadata =
                json!({"name": "v", "annotations": {"coracle.dev/node": node}, "finalizers": finalizers});
            if leaving {
                metadata["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            let csi = json!({"driver": "coracle.dev/directory", "volumeHandle": handle});
            serde_json::from_value(json!({"metadata": metadata,
                "spec": {"csi": csi, "persistentVolumeReclaimPolicy": policy}}))
            .expect("a volume")
        };
        let ours: &[&str] = &[DIRECTORY_FINALIZER];
        for (volume, expected) in [
            (volume("n", true, ours, "Delete", handle), Duty::Remove(handle.to_owned())),
            (volume("n", true, ours, "Retain", handle), Duty::Keep),
            (volume("n", true, ours, "Delete", "../etc"), Duty::Keep),
            (volume("n", false, ours, "Delete", handle), Duty::None),
            (volume("m", true, ours, "Delete", handle), Duty::None),
            (volume("n", true, &[], "Delete", handle), Duty::None),
            (volume("n", true, &[DIRECTORY_FINALIZER, BOUND], "Delete", handle), Duty::None),
        ] {
            assert_eq!(duty(&volume, "n"), expected, "{volume:?}");
        }
    }
}
