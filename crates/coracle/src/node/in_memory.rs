//! A Kubernetes client over connections in memory: HTTP/1.1 on a pipe, so that watches, logs and upgrades work as over a
//! socket. Who the client is, is a property of the connection; no header says it.

use apiserver::{ApiServer, Identity};
use hyper_util::rt::TokioExecutor;
use tower::ServiceBuilder;

/// A client of this server, on whose connections `identity` speaks.
pub(crate) fn client(server: &ApiServer, identity: Identity) -> kube::Client {
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .build::<_, kube::client::Body>(server.in_memory(identity));
    let base = http::Uri::from_static("http://localhost");
    let service =
        ServiceBuilder::new().layer(kube::client::middleware::BaseUriLayer::new(base)).service(http);
    kube::Client::new(service, "default")
}
