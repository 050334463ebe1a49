//! Deletes objects on behalf of controllers: that very object and never another of its name; the cache knows of it at once.

use informer::{Informer, Kind, ObjectKey};
use kube::Api;
use kube::api::{DeleteParams, Preconditions};

use crate::controller::{is_not_found, is_of_another};

/// Why a set deletes one of its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is to be none, or not there.
    Unwanted,
    /// It is of an old revision.
    Outdated,
    /// It failed, and is to be made again.
    Failed,
    /// It ended, and is to be made again.
    Ended,
}

/// Deletes `object` as `params` say. Answers whether this request did it: one that is gone already, or has left its name to
/// another, is well deleted too.
///
/// # Errors
///
/// What the API says otherwise; also that it was too busy, which must not pass for a deletion.
pub(crate) async fn delete<K: Kind>(
    object: &K,
    api: &Api<K>,
    informer: &Informer<K>,
    params: DeleteParams,
) -> kube::Result<bool> {
    let key = ObjectKey::of(object);
    let uid = object.meta().uid.clone().unwrap_or_default();
    let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
    match api.delete(&key.name, &DeleteParams { preconditions, ..params }).await {
        Ok(answer) => {
            match answer.left() {
                Some(left) if left.meta().deletion_timestamp.is_some() => informer.learn(left),
                _ => informer.learn_deleted(&uid, &key),
            }
            Ok(true)
        }
        Err(error) if is_not_found(&error) || is_of_another(&error) => {
            informer.learn_deleted(&uid, &key);
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
