//! The way to the kubelets: a trait that whoever assembles the parts implements.

use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// A connection to a kubelet.
pub trait NodeIo: AsyncRead + AsyncWrite + Send + Unpin {}

impl<Io: AsyncRead + AsyncWrite + Send + Unpin> NodeIo for Io {}

/// A connection that is being opened.
pub type NodeConnection<'c> = Pin<Box<dyn Future<Output = io::Result<Box<dyn NodeIo>>> + Send + 'c>>;

/// Opens connections to the kubelets' HTTP/1.1 interface.
///
/// Requests that the server sends: `GET /containerLogs/NAMESPACE/POD/CONTAINER?follow=&tailLines=&previous=&timestamps=&sinceSeconds=&sinceTime=&limitBytes=`,
/// `GET /environment/NAMESPACE/POD?container=&showSecrets=`, and upgrades of
/// `/exec/NAMESPACE/POD/CONTAINER`, `/attach/NAMESPACE/POD/CONTAINER`, `/portForward/NAMESPACE/POD` with the client's
/// query and headers; for `proxy`, anything to `/podProxy/NAMESPACE/POD/SCHEME/PORT/PATH`, and anything at all of whoever may
/// use the proxy of the node.
pub trait NodeConnector: Send + Sync + 'static {
    /// Opens a connection to the kubelet of the node `node`.
    fn connect<'c>(&'c self, node: &'c str) -> NodeConnection<'c>;
}

/// For a server without nodes: every connection is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNodes;

impl NodeConnector for NoNodes {
    fn connect<'c>(&'c self, _node: &'c str) -> NodeConnection<'c> {
        Box::pin(std::future::ready(Err(io::Error::new(
            io::ErrorKind::NotConnected,
            "this API server has no way to its nodes",
        ))))
    }
}
