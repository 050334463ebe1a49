//! Speaks to one registry through `oci-client`: scheme, certificates, credentials, manifests, small blobs, and what its
//! errors mean.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use oci_client::client::{
    BlobResponse, Certificate, CertificateEncoding, ClientConfig, ClientProtocol, SizedStream,
};
use oci_client::errors::{DigestError, OciDistributionError, OciErrorCode};
use oci_client::secrets::RegistryAuth;

use super::PullImageError;
use crate::credentials::Credentials;
use crate::digest::Digest;
use crate::manifest::{self, Descriptor};
use crate::reference::Reference;
use crate::registries::{Endpoint, is_loopback};

/// How long a connection may take to come about.
const CONNECT_TIME: Duration = Duration::from_secs(20);
/// How long a transfer may stand still.
const READ_TIME: Duration = Duration::from_secs(60);
/// How long a manifest may take, from the first byte to the last.
const MANIFEST_TIME: Duration = Duration::from_secs(120);
/// Directories with certificates of registries' authorities, one subdirectory a registry.
const CERTIFICATES: &[&str] = &["/etc/containers/certs.d", "/etc/docker/certs.d"];

/// A registry that has answered.
pub(super) struct Registry {
    client: oci_client::Client,
    auth: RegistryAuth,
    place: oci_client::Reference,
    /// What people call it.
    pub(super) name: String,
    /// What was asked for, for messages.
    reference: String,
}

/// How to speak to a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Verified,
    Unverified,
    Plain,
}

impl Registry {
    /// Finds out how the registry wants to be spoken to, by asking it for the manifest with this tag or digest.
    pub(super) async fn connect(
        endpoint: &Endpoint,
        reference: &Reference,
        credentials: Option<Credentials>,
        wanted: &str,
        limit: u64,
    ) -> Result<(Registry, Vec<u8>), PullImageError> {
        let transports: &[Transport] = match endpoint.insecure {
            true => &[Transport::Unverified, Transport::Plain],
            false => &[Transport::Verified],
        };
        let auth = credentials.map_or(RegistryAuth::Anonymous, |credentials| credentials.to_registry_auth());
        let mut failure = None;
        for transport in transports {
            let registry = Registry {
                client: client(&endpoint.registry, *transport)?,
                auth: auth.clone(),
                place: place(endpoint, wanted),
                name: endpoint.registry.clone(),
                reference: reference.to_string(),
            };
            match registry.fetch_manifest(&registry.place, limit).await {
                Ok(bytes) => return Ok((registry, bytes)),
                // The next transport is only for registries that do not speak this one.
                Err(error @ PullImageError::Unreachable { .. }) => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.expect("there is at least one transport"))
    }

    /// The manifest with this digest, verified.
    pub(super) async fn manifest_of(&self, digest: Digest, limit: u64) -> Result<Vec<u8>, PullImageError> {
        let bytes = self.fetch_manifest(&self.place.clone_with_digest(digest.to_string()), limit).await?;
        self.verify(digest, &bytes)?;
        Ok(bytes)
    }

    async fn fetch_manifest(
        &self,
        place: &oci_client::Reference,
        limit: u64,
    ) -> Result<Vec<u8>, PullImageError> {
        let request = self.client.pull_manifest_raw(place, &self.auth, manifest::ACCEPTED);
        let answer =
            tokio::time::timeout(MANIFEST_TIME, request).await.map_err(|_| PullImageError::Registry {
                registry: self.name.clone(),
                reason: "no manifest within two minutes".to_owned(),
            })?;
        let (bytes, _) = answer.map_err(|error| self.explain(error))?;
        if bytes.len() as u64 > limit {
            return Err(PullImageError::TooLarge {
                what: "manifest",
                digest: Digest::of(&bytes),
                size: bytes.len() as u64,
                limit,
            });
        }
        Ok(bytes.to_vec())
    }

    /// A blob that fits into memory, verified.
    pub(super) async fn small_blob(
        &self,
        blob: &Descriptor,
        what: &'static str,
        limit: u64,
    ) -> Result<Vec<u8>, PullImageError> {
        let too_large = |size| PullImageError::TooLarge { what, digest: blob.digest, size, limit };
        if blob.size > limit {
            return Err(too_large(blob.size));
        }
        let mut stream = self.blob(blob.digest, 0).await?.1;
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| self.broken(blob.digest, &error))?;
            // The registry need not keep to what the manifest says.
            if (bytes.len() + chunk.len()) as u64 > limit {
                return Err(too_large((bytes.len() + chunk.len()) as u64));
            }
            bytes.extend_from_slice(&chunk);
        }
        self.verify(blob.digest, &bytes)?;
        Ok(bytes)
    }

    /// A blob from this byte on; answers also from which byte the registry really sends.
    pub(super) async fn blob(&self, digest: Digest, from: u64) -> Result<(u64, SizedStream), PullImageError> {
        let digest = digest.to_string();
        if from == 0 {
            let stream = self.client.pull_blob_stream(&self.place, digest.as_str()).await;
            return Ok((0, stream.map_err(|error| self.explain(error))?));
        }
        let answer = self.client.pull_blob_stream_partial(&self.place, digest.as_str(), from, None).await;
        match answer.map_err(|error| self.explain(error))? {
            BlobResponse::Full(stream) => Ok((0, stream)),
            BlobResponse::Partial(stream) => Ok((from, stream)),
        }
    }

    fn verify(&self, expected: Digest, bytes: &[u8]) -> Result<(), PullImageError> {
        let actual = Digest::of(bytes);
        match actual == expected {
            true => Ok(()),
            false => Err(PullImageError::Digest { registry: self.name.clone(), expected, actual }),
        }
    }

    /// Why a stream ended. The client says it as an error of the stream when all has come and is not what it should be.
    pub(super) fn broken(&self, digest: Digest, error: &std::io::Error) -> PullImageError {
        let wrong = error.get_ref().and_then(|inner| inner.downcast_ref::<DigestError>());
        if let Some(DigestError::VerificationError { actual, .. }) = wrong
            && let Ok(actual) = Digest::parse(actual)
        {
            return PullImageError::Digest { registry: self.name.clone(), expected: digest, actual };
        }
        PullImageError::Transfer { registry: self.name.clone(), digest, reason: innermost(error) }
    }

    /// What an error of the client means. Whether somebody may know that a repository exists is up to the registry:
    /// many answer "denied" for what is not there.
    fn explain(&self, error: OciDistributionError) -> PullImageError {
        let registry = self.name.clone();
        let reference = self.reference.clone();
        let by_status = |code: u16| match code {
            404 => {
                PullImageError::NotFound { reference: self.reference.clone(), registry: self.name.clone() }
            }
            401 | 403 => PullImageError::Unauthorized {
                reference: self.reference.clone(),
                registry: self.name.clone(),
            },
            code => {
                PullImageError::Registry { registry: self.name.clone(), reason: format!("status {code}") }
            }
        };
        match error {
            OciDistributionError::ImageManifestNotFoundError(_) => {
                PullImageError::NotFound { reference, registry }
            }
            OciDistributionError::UnauthorizedError { .. }
            | OciDistributionError::AuthenticationFailure(_) => {
                PullImageError::Unauthorized { reference, registry }
            }
            OciDistributionError::RegistryError { envelope, .. } => {
                let codes = || envelope.errors.iter().map(|error| &error.code);
                let not_found = |code: &OciErrorCode| {
                    matches!(
                        code,
                        OciErrorCode::ManifestUnknown
                            | OciErrorCode::NameUnknown
                            | OciErrorCode::NotFound
                            | OciErrorCode::BlobUnknown
                            | OciErrorCode::ManifestBlobUnknown
                    )
                };
                if codes().any(not_found) {
                    return PullImageError::NotFound { reference, registry };
                }
                if codes().any(|code| matches!(code, OciErrorCode::Denied | OciErrorCode::Unauthorized)) {
                    return PullImageError::Unauthorized { reference, registry };
                }
                let said: Vec<&str> = envelope.errors.iter().map(|error| error.message.as_str()).collect();
                PullImageError::Registry { registry, reason: shorten(&said.join("; ")) }
            }
            OciDistributionError::DigestError(DigestError::VerificationError { expected, actual }) => {
                match (Digest::parse(&expected), Digest::parse(&actual)) {
                    (Ok(expected), Ok(actual)) => PullImageError::Digest { registry, expected, actual },
                    (Err(source), _) | (_, Err(source)) => PullImageError::Unverifiable { registry, source },
                }
            }
            OciDistributionError::ServerError { code, .. } => by_status(code),
            OciDistributionError::RequestError(error) => match error.status() {
                Some(status) => by_status(status.as_u16()),
                None => PullImageError::Unreachable { registry, reason: innermost(&error) },
            },
            error => PullImageError::Registry { registry, reason: innermost(&error) },
        }
    }
}

fn place(endpoint: &Endpoint, wanted: &str) -> oci_client::Reference {
    let (registry, repository) = (endpoint.registry.clone(), endpoint.repository.clone());
    match wanted.starts_with("sha256:") {
        true => oci_client::Reference::with_digest(registry, repository, wanted.to_owned()),
        false => oci_client::Reference::with_tag(registry, repository, wanted.to_owned()),
    }
}

fn client(registry: &str, transport: Transport) -> Result<oci_client::Client, PullImageError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // Fails when another part of the process has chosen one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // The client would panic for want of certificates; this answers instead.
    rustls_platform_verifier::Verifier::new(provider)
        .map_err(|error| PullImageError::Tls { reason: shorten(&error.to_string()) })?;
    let protocol = match transport {
        Transport::Plain => ClientProtocol::Http,
        Transport::Verified | Transport::Unverified => ClientProtocol::Https,
    };
    let loopback = is_loopback(registry);
    let proxy = |names: [&str; 2]| {
        names
            .into_iter()
            .find_map(|name| std::env::var(name).ok())
            .filter(|proxy| !proxy.is_empty() && !loopback)
    };
    let config = ClientConfig {
        protocol,
        accept_invalid_certificates: transport == Transport::Unverified,
        extra_root_certificates: certificates(registry),
        read_timeout: Some(READ_TIME),
        connect_timeout: Some(CONNECT_TIME),
        user_agent: concat!("coracle/", env!("CARGO_PKG_VERSION")),
        https_proxy: proxy(["HTTPS_PROXY", "https_proxy"]),
        http_proxy: proxy(["HTTP_PROXY", "http_proxy"]),
        no_proxy: std::env::var("NO_PROXY").or_else(|_| std::env::var("no_proxy")).ok(),
        ..ClientConfig::default()
    };
    oci_client::Client::try_from(config).map_err(|error| PullImageError::Tls { reason: innermost(&error) })
}

/// Certificates of authorities that the machine's owner trusts for this registry.
fn certificates(registry: &str) -> Vec<Certificate> {
    let directories = CERTIFICATES.iter().map(|directory| Path::new(directory).join(registry));
    let files = directories.filter_map(|directory| std::fs::read_dir(directory).ok()).flat_map(|entries| {
        entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|it| it == "crt"))
    });
    files
        .filter_map(|path| std::fs::read(path).ok())
        .map(|data| Certificate { encoding: CertificateEncoding::Pem, data })
        .collect()
}

/// The last cause of an error: the layers above it only say that something failed.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    shorten(&cause.to_string())
}

fn shorten(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    line.trim().to_owned()
}
