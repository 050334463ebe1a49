//! The service proxy of a node of this process: a task between the caches of the API and the node's network.

use informer::Informer;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use network::{AddressRange, Network};
use proxy::ProxyConfig;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// The running task.
pub(crate) struct ServiceProxy {
    task: JoinHandle<()>,
    end: CancellationToken,
}

impl ServiceProxy {
    /// Routes what the caches hold in the network of the node of that name. `ranges` are where services have their addresses, as
    /// far as that is known.
    pub(crate) fn start(
        services: &Informer<Service>,
        slices: &Informer<EndpointSlice>,
        node: &str,
        ranges: Vec<AddressRange>,
        network: &Network,
    ) -> Self {
        let config =
            ProxyConfig { services: services.clone(), slices: slices.clone(), node: node.to_owned(), ranges };
        let (network, end) = (network.clone(), CancellationToken::new());
        let route = move |update| {
            let network = network.clone();
            async move { network.route_services(update).await }
        };
        let task = tokio::spawn(proxy::run(config, route, end.clone()));
        Self { task, end }
    }

    /// Ends it. What is routed stays routed until the network is taken away.
    pub(crate) async fn stop(self) {
        self.end.cancel();
        // A task that panicked has ended too.
        let _ = self.task.await;
    }
}
