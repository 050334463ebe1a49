//! The way to kubelets of other processes and machines: their ports, at the addresses that their nodes' objects name, over TLS.
//!
//! The server shows its client certificate. It does not verify the node's: a kubelet makes its own, as it does upstream, where
//! this is the default, too. Whoever stands between them could answer in the node's place, but gets no certificate.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use serde_json::Value;
use store::{Collection, Key, Store};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::authority::Credential;
use crate::listener::notice_its_absence;
use crate::node::{NodeConnection, NodeConnector, NodeIo};
use crate::object::{list, text, tree};
use crate::tls::TlsError;

/// A node has so long to take a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connects to the ports of kubelets.
pub struct NodePorts {
    store: Store,
    connector: TlsConnector,
}

impl std::fmt::Debug for NodePorts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NodePorts")
    }
}

impl NodePorts {
    /// Finds nodes in `store` and shows them `credential`.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn new(store: Store, credential: &Credential) -> Result<NodePorts, TlsError> {
        let pem = |what| move |source| TlsError::Pem { what, source };
        let certificate = CertificateDer::from_pem_slice(credential.certificate_pem().as_bytes())
            .map_err(pem("client certificate for nodes"))?;
        let key =
            PrivateKeyDer::from_pem_slice(credential.key_pem().as_bytes()).map_err(pem("key for nodes"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = AnyCertificate(provider.clone());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|source| TlsError::Certificate { source })?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(vec![certificate], key)
            .map_err(|source| TlsError::Certificate { source })?;
        Ok(NodePorts { store, connector: TlsConnector::from(Arc::new(config)) })
    }

    async fn open(&self, node: &str) -> io::Result<Box<dyn NodeIo>> {
        let key = Key::new(&Collection::new("", "nodes"), "", node);
        let object = self
            .store
            .get(&key)
            .map(|object| tree(&object))
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "there is no such node"))?;
        let target = kubelet_address(&object).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotConnected, "its object does not say where its kubelet listens")
        })?;
        let opening = async {
            let connection = TcpStream::connect(target).await?;
            let _ = connection.set_nodelay(true);
            notice_its_absence(&connection);
            self.connector.connect(ServerName::from(target.ip()), connection).await
        };
        let opened = tokio::time::timeout(PATIENCE, opening).await;
        let opened = opened.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        let connection =
            opened.map_err(|error| io::Error::new(error.kind(), format!("{target}: {error}")))?;
        Ok(Box::new(connection))
    }
}

/// Where a node's kubelet listens, as its object says.
fn kubelet_address(node: &Value) -> Option<SocketAddr> {
    let addresses = list(node, &["status", "addresses"]);
    let of_type = |wanted: &str| {
        addresses
            .iter()
            .filter(|address| address["type"] == wanted)
            .find_map(|address| text(address, &["address"]).parse::<IpAddr>().ok())
    };
    let address = of_type("InternalIP").or_else(|| of_type("ExternalIP"))?;
    let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64()?;
    let port = u16::try_from(port).ok().filter(|port| *port > 0)?;
    Some(SocketAddr::new(address, port))
}

impl NodeConnector for NodePorts {
    fn connect<'c>(&'c self, node: &'c str) -> NodeConnection<'c> {
        Box::pin(self.open(node))
    }
}

/// Takes any certificate; whoever shows it has to have its key.
#[derive(Debug)]
struct AnyCertificate(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::kubelet_address;

    #[test]
    fn a_node_says_where_its_kubelet_listens() {
        let node = |addresses: serde_json::Value, port: serde_json::Value| json!({"status": {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}});
        let address = |kind: &str, address: &str| json!({"type": kind, "address": address});
        for (addresses, port, expected) in [
            (
                json!([address("Hostname", "n"), address("InternalIP", "10.0.0.1")]),
                json!(10250),
                Some("10.0.0.1:10250"),
            ),
            (
                json!([address("ExternalIP", "1.2.3.4"), address("InternalIP", "fd00::1")]),
                json!(1),
                Some("[fd00::1]:1"),
            ),
            (json!([address("ExternalIP", "1.2.3.4")]), json!(2), Some("1.2.3.4:2")),
            (json!([address("InternalIP", "nonsense")]), json!(1), None),
            (json!([address("InternalIP", "10.0.0.1")]), json!(0), None),
            (json!([address("InternalIP", "10.0.0.1")]), json!(70000), None),
            (json!([]), json!(1), None),
        ] {
            let found = kubelet_address(&node(addresses.clone(), port)).map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{addresses}");
        }
        assert_eq!(kubelet_address(&json!({})), None);
    }
}
