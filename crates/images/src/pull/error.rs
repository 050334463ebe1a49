//! Why a pull failed, what that means for whoever asked, and what to do about it.

use crate::config::ImageConfigError;
use crate::credentials::CredentialsError;
use crate::digest::{Digest, DigestError};
use crate::layer::LayerError;
use crate::manifest::ManifestError;
use crate::store::StoreError;

/// Why an image was not pulled. Nothing of it is visible in the store then.
#[derive(Debug, thiserror::Error)]
pub enum PullImageError {
    /// The reference or the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// `registries.conf` forbids this registry.
    #[error("registry {registry} is blocked by registries.conf")]
    Blocked {
        /// The registry.
        registry: String,
    },
    /// Credentials that are there and cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// No certificates to verify registries with, or TLS cannot be set up.
    #[error("no registry can be verified: {reason}")]
    Tls {
        /// What is missing.
        reason: String,
    },
    /// The registry has no such repository, tag or digest (or hides it).
    #[error("image {reference} not found in registry {registry}")]
    NotFound {
        /// What was asked for.
        reference: String,
        /// Who was asked.
        registry: String,
    },
    /// The registry wants other credentials, or any.
    #[error("registry {registry} refuses access to {reference}")]
    Unauthorized {
        /// What was asked for.
        reference: String,
        /// Who was asked.
        registry: String,
    },
    /// The registry cannot be reached.
    #[error("registry {registry} cannot be reached: {reason}")]
    Unreachable {
        /// Who was asked.
        registry: String,
        /// The innermost cause.
        reason: String,
    },
    /// The registry answers with an error of its own.
    #[error("registry {registry} failed: {reason}")]
    Registry {
        /// Who was asked.
        registry: String,
        /// What it said, shortened.
        reason: String,
    },
    /// The transfer broke off, several times.
    #[error("transfer of {digest} from {registry} broke off: {reason}")]
    Transfer {
        /// Who sent it.
        registry: String,
        /// What was transferred.
        digest: Digest,
        /// Why it ended.
        reason: String,
    },
    /// What came is not what was asked for.
    #[error("registry {registry} sent {actual} in place of {expected}")]
    Digest {
        /// Who sent it.
        registry: String,
        /// What was asked for.
        expected: Digest,
        /// What came.
        actual: Digest,
    },
    /// The registry names content by something that is no digest.
    #[error("registry {registry} names content in a way that cannot be verified")]
    Unverifiable {
        /// Who said it.
        registry: String,
        /// What is wrong.
        #[source]
        source: DigestError,
    },
    /// Larger than allowed.
    #[error("{what} {digest} has {size} bytes, at most {limit} are allowed")]
    TooLarge {
        /// Manifest, configuration or layer.
        what: &'static str,
        /// Which.
        digest: Digest,
        /// Its size.
        size: u64,
        /// What is allowed.
        limit: u64,
    },
    /// The manifest.
    #[error("image {reference}: {source}")]
    Manifest {
        /// What was asked for.
        reference: String,
        /// What is wrong.
        source: ManifestError,
    },
    /// The configuration.
    #[error("image {reference}")]
    Config {
        /// What was asked for.
        reference: String,
        /// What is wrong.
        #[source]
        source: ImageConfigError,
    },
    /// A layer.
    #[error("image {reference}: layer {layer}")]
    Layer {
        /// What was asked for.
        reference: String,
        /// Which layer, as transported.
        layer: Digest,
        /// What is wrong.
        #[source]
        source: Box<LayerError>,
    },
    /// Somebody keeps removing what is being pulled.
    #[error("image {reference}: its layers are being removed as fast as they come")]
    Removed {
        /// What was asked for.
        reference: String,
    },
    /// An internal task was cancelled: the process is ending.
    #[error("the pull was interrupted")]
    Interrupted,
}

impl PullImageError {
    /// Whether the same request may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            PullImageError::Unreachable { .. }
            | PullImageError::Registry { .. }
            | PullImageError::Transfer { .. }
            | PullImageError::Removed { .. }
            | PullImageError::Interrupted => true,
            PullImageError::Store(_)
            | PullImageError::Blocked { .. }
            | PullImageError::Credentials(_)
            | PullImageError::Tls { .. }
            | PullImageError::NotFound { .. }
            | PullImageError::Unauthorized { .. }
            | PullImageError::Digest { .. }
            | PullImageError::Unverifiable { .. }
            | PullImageError::TooLarge { .. }
            | PullImageError::Manifest { .. }
            | PullImageError::Config { .. }
            | PullImageError::Layer { .. } => false,
        }
    }

    /// Whether the registry has no such image.
    pub fn is_not_found(&self) -> bool {
        matches!(self, PullImageError::NotFound { .. })
    }

    /// Whether the registry could not be reached or is out of order (waiting reason `RegistryUnavailable`).
    pub fn is_registry_unavailable(&self) -> bool {
        matches!(self, PullImageError::Unreachable { .. } | PullImageError::Registry { .. })
    }

    /// Whether the reference is malformed (waiting reason `InvalidImageName`).
    pub fn is_invalid_name(&self) -> bool {
        matches!(self, PullImageError::Store(StoreError::Reference(_)))
    }

    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            PullImageError::Store(error) => error.is_disk_full(),
            PullImageError::Layer { source, .. } => source.is_disk_full(),
            _ => false,
        }
    }

    /// What to do about it, without looking at the store; see [`crate::ImageStore::pull_hint`].
    pub fn hint(&self) -> Option<String> {
        match self {
            PullImageError::Store(error) => error.hint(),
            PullImageError::NotFound { .. } => Some("check the name and the tag".to_owned()),
            PullImageError::Unauthorized { registry, .. } => Some(format!(
                "check the name, or log in: `docker login {registry}` or `podman login {registry}`"
            )),
            PullImageError::Unreachable { .. } => Some(
                "check the network, or import the image from a file: `coracle image import FILE`".to_owned(),
            ),
            PullImageError::Blocked { .. } => {
                Some("use another registry, or change registries.conf".to_owned())
            }
            PullImageError::Tls { .. } => Some("install the package ca-certificates".to_owned()),
            PullImageError::Digest { .. } => {
                Some("do not use this registry or mirror before somebody has found out why".to_owned())
            }
            PullImageError::Credentials(_)
            | PullImageError::Registry { .. }
            | PullImageError::Transfer { .. }
            | PullImageError::Unverifiable { .. }
            | PullImageError::TooLarge { .. }
            | PullImageError::Manifest { .. }
            | PullImageError::Config { .. }
            | PullImageError::Layer { .. }
            | PullImageError::Removed { .. }
            | PullImageError::Interrupted => None,
        }
    }
}
