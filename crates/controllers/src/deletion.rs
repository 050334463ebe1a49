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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    /// A server that answers everything so.
    fn server(code: u16, message: &'static str) -> kube::Client {
        let answer = move |_: http::Request<kube::client::Body>| async move {
            let reason = if code == 404 { "NotFound" } else { "Conflict" };
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
            });
            let body = kube::client::Body::from(status.to_string().into_bytes());
            http::Response::builder().status(code).body(body)
        };
        kube::Client::new(tower::service_fn(answer), "n")
    }

    #[tokio::test]
    async fn a_server_that_is_too_busy_to_delete_a_pod_does_not_make_its_controller_forget_it() {
        let rows = [
            (404, "pods \"p\" not found", true),
            (
                409,
                "Operation cannot be fulfilled on Pod \"p\": the UID in the precondition (a) does not match the UID in record (b). \
                 The object might have been deleted and then recreated",
                true,
            ),
            (
                409,
                "Operation cannot be fulfilled on pods \"p\": the object has been modified; please apply your changes to the latest \
                 version and try again",
                false,
            ),
        ];
        for (code, message, is_gone) in rows {
            let pod: Pod = serde_json::from_value(
                json!({"metadata": {"name": "p", "namespace": "n", "uid": "a", "resourceVersion": "7"}}),
            )
            .expect("a pod");
            let informer = Informer::idle();
            informer.learn(pod.clone());
            let api: Api<Pod> = Api::namespaced(server(code, message), "n");
            let answer = delete(&pod, &api, &informer, DeleteParams::default()).await;
            assert_eq!(answer.ok(), is_gone.then_some(false), "{message}");
            assert_eq!(informer.get(&ObjectKey::of(&pod)).is_none(), is_gone, "{message}");
        }
    }
}
