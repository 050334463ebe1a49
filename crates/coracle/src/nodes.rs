//! The ways from an API server to its nodes: the one in this process over memory, every other by its port.

use apiserver::{NodeConnection, NodeConnector, NodePorts};
use std::sync::Arc;

/// The node of this process.
pub(crate) struct OwnNode {
    pub(crate) name: String,
    pub(crate) connector: Arc<dyn NodeConnector>,
}

/// All ways there are.
pub(crate) struct Nodes {
    pub(crate) own: Option<OwnNode>,
    /// Where nodes can join.
    pub(crate) ports: Option<NodePorts>,
}

impl NodeConnector for Nodes {
    fn connect<'c>(&'c self, node: &'c str) -> NodeConnection<'c> {
        match (&self.own, &self.ports) {
            (Some(own), _) if own.name == node => own.connector.connect(node),
            (_, Some(ports)) => ports.connect(node),
            (_, None) => apiserver::NoNodes.connect(node),
        }
    }
}
