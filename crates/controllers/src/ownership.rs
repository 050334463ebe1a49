//! Whose an object is: a controller keeps what it controls and what its selector chooses, adopts what nobody controls, and lets go of what
//! it no longer chooses.
//!
//! Source: <https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents> and the behaviour of Kubernetes 1.36.

use std::sync::Arc;

use informer::{Informer, Kind, ObjectKey};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::controller::{is_not_found, is_of_another};

/// What is to be done about an object that may be a controller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is the controller's.
    Ours,
    /// Nobody controls it, and the controller chooses it.
    Adopt,
    /// It is the controller's, which no longer chooses it.
    Release,
    /// It is none of the controller's business.
    NotOurs,
}

/// Decides whose an object is. `owner` is the controller's metadata, `chosen` whether its selector chooses the object.
pub(crate) fn claim(owner: &ObjectMeta, chosen: bool, object: &ObjectMeta) -> Claim {
    let leaving = owner.deletion_timestamp.is_some();
    match controller_of(object) {
        Some(controller) if Some(&controller.uid) != owner.uid.as_ref() => Claim::NotOurs,
        Some(_) if chosen => Claim::Ours,
        // A controller that goes leaves its objects to the garbage collector.
        Some(_) if leaving => Claim::NotOurs,
        Some(_) => Claim::Release,
        None if chosen && !leaving && object.deletion_timestamp.is_none() => Claim::Adopt,
        None => Claim::NotOurs,
    }
}

/// The controller of an object.
pub(crate) fn controller_of(object: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = object.owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|owner| owner.controller == Some(true))
}

/// The key of the controller of an object, if it is of this kind.
pub(crate) fn controller_key<O: Kind>(object: &ObjectMeta) -> Option<ObjectKey> {
    let controller = controller_of(object)?;
    let is_kind = controller.kind == O::kind(&())
        && controller.api_version.rsplit_once('/').map_or("", |(group, _)| group) == O::group(&());
    is_kind.then(|| ObjectKey::new(object.namespace.clone().unwrap_or_default(), controller.name.clone()))
}

/// The reference that makes `owner` the controller of another object.
pub(crate) fn owner_reference<O: Kind>(owner: &O) -> OwnerReference {
    OwnerReference {
        api_version: O::api_version(&()).into_owned(),
        kind: O::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The reference by which events name an object.
pub(crate) fn object_reference<O: Kind>(object: &O) -> ObjectReference {
    ObjectReference {
        api_version: Some(O::api_version(&()).into_owned()),
        kind: Some(O::kind(&()).into_owned()),
        name: object.meta().name.clone(),
        namespace: object.meta().namespace.clone(),
        uid: object.meta().uid.clone(),
        resource_version: object.meta().resource_version.clone(),
        field_path: None,
    }
}

/// The objects of a controller: those that it controls and chooses, after it has adopted and let go. `chosen` says whether
/// its selector chooses an object.
///
/// # Errors
///
/// When the API refuses an adoption or a release for another reason than that the object is gone or has changed: that is
/// looked at when the change comes.
pub(crate) async fn claimed<O: Kind, K: Kind>(
    owner: &O,
    informer: &Informer<K>,
    api: &Api<K>,
    owners: &Api<O>,
    chosen: impl Fn(&K) -> bool,
) -> kube::Result<Vec<Arc<K>>> {
    let meta = owner.meta();
    let (uid, namespace) =
        (meta.uid.as_deref().unwrap_or_default(), meta.namespace.as_deref().unwrap_or_default());
    let mut ours = Vec::new();
    // Whether the owner is still there is asked at most once, and only before an adoption.
    let mut may_adopt = None;
    for object in
        informer.controlled_by(namespace, uid).into_iter().chain(informer.uncontrolled_in(namespace))
    {
        match claim(meta, chosen(&object), object.meta()) {
            Claim::Ours => ours.push(object),
            Claim::NotOurs => {}
            Claim::Adopt => {
                if may_adopt.is_none() {
                    may_adopt = Some(is_still_there(owner, owners).await?);
                }
                if may_adopt == Some(true)
                    && let Some(adopted) = adopt(owner, &*object, api).await?
                {
                    fault::point("controller.adopted");
                    informer.learn(adopted.clone());
                    ours.push(Arc::new(adopted));
                }
            }
            Claim::Release => release(owner, &*object, informer, api).await?,
        }
    }
    Ok(ours)
}

/// The cache may not know yet that the owner goes, or that one of the same name has come instead.
async fn is_still_there<O: Kind>(owner: &O, owners: &Api<O>) -> kube::Result<bool> {
    let name = owner.meta().name.as_deref().unwrap_or_default();
    let fresh = owners.get_opt(name).await?;
    Ok(fresh.is_some_and(|fresh| {
        fresh.meta().uid == owner.meta().uid && fresh.meta().deletion_timestamp.is_none()
    }))
}

async fn adopt<O: Kind, K: Kind>(owner: &O, object: &K, api: &Api<K>) -> kube::Result<Option<K>> {
    let patch = json!({"metadata": {"uid": object.meta().uid, "ownerReferences": [owner_reference(owner)]}});
    patched(object, &patch, api).await
}

async fn release<O: Kind, K: Kind>(
    owner: &O,
    object: &K,
    informer: &Informer<K>,
    api: &Api<K>,
) -> kube::Result<()> {
    let reference = json!({"$patch": "delete", "uid": owner.meta().uid});
    let patch = json!({"metadata": {"uid": object.meta().uid, "ownerReferences": [reference]}});
    if let Some(released) = patched(object, &patch, api).await? {
        fault::point("controller.released");
        informer.learn(released);
    }
    Ok(())
}

/// Patches an object; none if it is gone, or another by now.
async fn patched<K: Kind>(object: &K, patch: &serde_json::Value, api: &Api<K>) -> kube::Result<Option<K>> {
    let name = object.meta().name.as_deref().unwrap_or_default();
    match api.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if is_not_found(&error) => Ok(None),
        // A UID that does not fit is a conflict or invalid; so is a second controller. A conflict of another sort says nothing of
        // the object: whoever took it for "not ours" would make one more.
        Err(error) if is_of_another(&error) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 422 => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn meta(uid: &str, controller: Option<&str>, leaving: bool) -> ObjectMeta {
        let owner = controller.map(|uid| OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "web".to_owned(),
            uid: uid.to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        });
        ObjectMeta {
            uid: Some(uid.to_owned()),
            namespace: Some("n".to_owned()),
            owner_references: owner.map(|owner| vec![owner]),
            deletion_timestamp: leaving.then_some(Time(Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn whose_an_object_is() {
        // owner leaving, chosen, the object's controller, object leaving
        let rows = [
            (false, true, Some("us"), false, Claim::Ours),
            (false, true, Some("us"), true, Claim::Ours),
            (false, false, Some("us"), false, Claim::Release),
            (true, false, Some("us"), false, Claim::NotOurs),
            (true, true, Some("us"), false, Claim::Ours),
            (false, true, Some("them"), false, Claim::NotOurs),
            (false, true, None, false, Claim::Adopt),
            (false, true, None, true, Claim::NotOurs),
            (true, true, None, false, Claim::NotOurs),
            (false, false, None, false, Claim::NotOurs),
        ];
        for (leaving, chosen, controller, object_leaving, expected) in rows {
            let claim =
                claim(&meta("us", None, leaving), chosen, &meta("object", controller, object_leaving));
            assert_eq!(claim, expected, "{leaving} {chosen} {controller:?} {object_leaving}");
        }
    }

    #[test]
    fn the_controller_is_found_by_group_and_kind() {
        use k8s_openapi::api::apps::v1::Deployment;
        use k8s_openapi::api::core::v1::ReplicationController;
        let pod = meta("pod", Some("us"), false);
        assert_eq!(controller_key::<ReplicaSet>(&pod), Some(ObjectKey::new("n", "web")));
        assert_eq!(controller_key::<Deployment>(&pod), None);
        assert_eq!(controller_key::<ReplicationController>(&pod), None);
    }
}
