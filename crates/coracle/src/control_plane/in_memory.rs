//! A Kubernetes client over connections in memory: HTTP/1.1 on a pipe, so that watches, logs and upgrades work as over a
//! socket. Who the client is, is a property of the connection; no header says it.

use apiserver::{ApiServer, Identity};
use http::HeaderValue;
use http::header::USER_AGENT;
use hyper_util::rt::TokioExecutor;
use tower::ServiceBuilder;

/// A client of this server, on whose connections `identity` speaks. What it writes is noted as `agent`'s.
pub(crate) fn client(server: &ApiServer, identity: Identity, agent: &'static str) -> kube::Client {
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .build::<_, kube::client::Body>(server.in_memory(identity));
    let base = http::Uri::from_static("http://localhost");
    let named = move |mut request: http::Request<kube::client::Body>| {
        request.headers_mut().entry(USER_AGENT).or_insert(HeaderValue::from_static(agent));
        request
    };
    let service = ServiceBuilder::new()
        .layer(kube::client::middleware::BaseUriLayer::new(base))
        .map_request(named)
        .service(http);
    kube::Client::new(service, "default")
}
