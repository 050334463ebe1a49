//! The TLS side of the server: its certificate, and client certificates as identities.

use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::authority::Credential;

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM file does not hold what it should.
    #[error("cannot read the {what}")]
    Pem {
        /// Which.
        what: &'static str,
        /// The cause.
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    /// The authority's certificate cannot verify clients.
    #[error("cannot verify client certificates")]
    Verifier {
        /// The cause.
        #[source]
        source: rustls::server::VerifierBuilderError,
    },
    /// Certificate and key do not fit.
    #[error("cannot use the server's certificate")]
    Certificate {
        /// The cause.
        #[source]
        source: rustls::Error,
    },
}

/// A TLS configuration that serves `server` and takes, but does not demand, client certificates of the authority.
///
/// # Errors
/// See [`TlsError`].
pub fn server_tls(authority_pem: &str, server: &Credential) -> Result<Arc<ServerConfig>, TlsError> {
    let pem = |what| move |source| TlsError::Pem { what, source };
    let authority =
        CertificateDer::from_pem_slice(authority_pem.as_bytes()).map_err(pem("authority's certificate"))?;
    let certificate = CertificateDer::from_pem_slice(server.certificate_pem().as_bytes())
        .map_err(pem("server's certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(server.key_pem().as_bytes()).map_err(pem("server's key"))?;
    let mut roots = RootCertStore::empty();
    roots.add(authority).map_err(|source| TlsError::Certificate { source })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|source| TlsError::Verifier { source })?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|source| TlsError::Certificate { source })?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)
        .map_err(|source| TlsError::Certificate { source })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
