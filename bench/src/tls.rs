//! TLS connections as a client makes them: from a kubeconfig, or to the floor.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Outcome;

/// Where a server is and how a client shows itself there.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its address.
    pub address: SocketAddr,
    authority: Vec<u8>,
    /// Certificate and key in PEM form.
    credential: Option<(Vec<u8>, Vec<u8>)>,
}

impl Target {
    /// A server whose certificate is trusted and that wants to know nothing of its clients.
    #[must_use]
    pub fn open(address: SocketAddr, authority_pem: &str) -> Self {
        Self { address, authority: authority_pem.as_bytes().to_vec(), credential: None }
    }

    /// The only server of a kubeconfig.
    ///
    /// # Errors
    ///
    /// When something is missing there.
    pub fn of_kubeconfig(path: &Path) -> Outcome<Self> {
        let documents = manifest::parse_stream(&std::fs::read(path)?, &manifest::Limits::default())?;
        let config = documents.first().ok_or("an empty kubeconfig")?.root.to_json();
        let text = |pointer: &str| {
            let found = config.pointer(pointer).and_then(serde_json::Value::as_str);
            found.ok_or_else(|| format!("the kubeconfig has no {pointer}"))
        };
        let pem = |pointer: &str| -> Outcome<Vec<u8>> {
            Ok(base64::prelude::BASE64_STANDARD.decode(text(pointer)?)?)
        };
        let server = text("/clusters/0/cluster/server")?.trim_start_matches("https://");
        Ok(Self {
            address: server.parse()?,
            authority: pem("/clusters/0/cluster/certificate-authority-data")?,
            credential: Some((
                pem("/users/0/user/client-certificate-data")?,
                pem("/users/0/user/client-key-data")?,
            )),
        })
    }

    /// A connector that offers one protocol (`h2`, `http/1.1`).
    ///
    /// # Errors
    ///
    /// When a certificate or key cannot be used.
    pub fn connector(&self, protocol: &str) -> Outcome<Connector> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&self.authority)?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match &self.credential {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => config.with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate)?],
                PrivateKeyDer::from_pem_slice(key)?,
            )?,
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Ok(Connector { address: self.address, tls: TlsConnector::from(Arc::new(config)) })
    }
}

/// Makes connections to one server.
#[derive(Clone)]
pub struct Connector {
    address: SocketAddr,
    tls: TlsConnector,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Connector({})", self.address)
    }
}

impl Connector {
    /// A connection on which nothing was asked yet.
    ///
    /// # Errors
    ///
    /// When the server refuses.
    pub async fn connect(&self) -> Outcome<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(self.tls.connect(ServerName::try_from("localhost")?, stream).await?)
    }
}
