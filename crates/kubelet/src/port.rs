//! The kubelet's port: its HTTP interface over TLS, for whoever proves who they are and may (`guard.rs`). In one process the
//! API server needs no port; between machines, and for tools, this is it.

use std::sync::Arc;
use std::time::Duration;

use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::guard::{Decisions, Guard};
use crate::http::HttpInterface;

/// Connections at the same time.
const CONNECTIONS: usize = 512;
/// A client has so long for its side of TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why the port cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Certificate or key of the node cannot be read.
    #[error("the node's serving certificate cannot be read")]
    Pem(#[source] rustls_pki_types::pem::Error),
    /// They do not fit, or the authority's certificate is none.
    #[error("the node's serving certificate cannot be used")]
    Certificate(#[source] rustls::Error),
    /// There is no authority by which clients could be known.
    #[error("the certificates of clients cannot be verified")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

/// TLS of the port.
#[derive(Clone)]
pub struct PortTls(Arc<rustls::ServerConfig>);

impl std::fmt::Debug for PortTls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PortTls")
    }
}

/// TLS of the port: the node's certificate and key (PEM), and the authorities (DER) whose client certificates count.
///
/// # Errors
///
/// See [`PortError`].
pub fn port_tls(client_authorities: &[Vec<u8>], certificate: &str, key: &str) -> Result<PortTls, PortError> {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(PortError::Pem)?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(PortError::Pem)?;
    let mut roots = rustls::RootCertStore::empty();
    for authority in client_authorities {
        roots.add(CertificateDer::from(authority.as_slice())).map_err(PortError::Certificate)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(PortError::Verifier)?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(PortError::Certificate)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)
        .map_err(PortError::Certificate)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(PortTls(Arc::new(config)))
}

/// Accepts connections until the agent ends.
pub(crate) async fn serve(interface: HttpInterface, listener: TcpListener, tls: PortTls) {
    let acceptor = tokio_rustls::TlsAcceptor::from(tls.0);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let decisions = Arc::new(Decisions::default());
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let connection = match listener.accept().await {
            Ok((connection, _)) => connection,
            Err(error) => {
                // No descriptors left, usually: whoever holds them has to give some back first.
                tracing::debug!(%error, "cannot accept a connection to the node");
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        let (acceptor, interface, decisions) = (acceptor.clone(), interface.clone(), Arc::clone(&decisions));
        let agent = interface.agent.clone();
        agent.spawn(async move {
            serve_connection(interface, connection, &acceptor, decisions).await;
            drop(place);
        });
    }
}

async fn serve_connection(
    interface: HttpInterface,
    connection: TcpStream,
    acceptor: &tokio_rustls::TlsAcceptor,
    decisions: Arc<Decisions>,
) {
    let _ = connection.set_nodelay(true);
    // A peer that vanished without a word is noticed, also in a stream on which nothing is said.
    let _ = rustix::net::sockopt::set_socket_keepalive(&connection, true);
    let _ = rustix::net::sockopt::set_tcp_keepidle(&connection, Duration::from_secs(180));
    let encrypted = match tokio::time::timeout(HANDSHAKE, acceptor.accept(connection)).await {
        Ok(Ok(encrypted)) => encrypted,
        Ok(Err(error)) => return tracing::debug!(%error, "a connection to the node was no TLS"),
        Err(_) => return,
    };
    let certificate = encrypted.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let guard = Guard::of_connection(interface.agent.clone(), certificate.map(AsRef::as_ref), decisions);
    interface.serve_guarded(encrypted, Some(guard)).await;
}
