//! A node agent without an API server: what stands in the place of the client.

use kube::client::Body;

/// What every request is answered with.
#[derive(Debug, thiserror::Error)]
#[error("no kubeClient defined")]
struct NoApi;

/// A client that refuses every request. Whoever asks has to bear an API server that is away in any case.
pub(crate) fn refusing_client() -> kube::Client {
    let refuse =
        tower::service_fn(|_: http::Request<Body>| async { Err::<http::Response<Body>, NoApi>(NoApi) });
    kube::Client::new(refuse, "default")
}
