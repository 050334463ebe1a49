//! What the store answers for an image.

use std::path::PathBuf;

use crate::config::ImageConfig;
use crate::digest::Digest;

/// An image that lies complete and verified in the store, or the machine itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Digest of the configuration: the image's identity.
    pub id: Digest,
    /// Names with tags, normalised, sorted (the API's `repoTags`).
    pub references: Vec<String>,
    /// Names with digests of manifests, sorted (the API's `repoDigests`).
    pub repo_digests: Vec<String>,
    /// How its containers run.
    pub config: ImageConfig,
    /// Processor architecture as images name it, `amd64`; empty when the image does not say.
    pub architecture: String,
    /// Directories of the layers, lowest first, each ready to be a lower directory of an overlay mount.
    /// An image without layers has one empty directory here, so that a mount is always possible.
    pub layers: Vec<PathBuf>,
    /// Bytes of the layers and the configuration as they were transported.
    pub size: u64,
    /// Whether this is the machine's own root file system ([`crate::HOST_IMAGE`]): the single layer is `/`, and
    /// [`crate::host_masked_paths`] must be hidden in every container.
    pub is_host: bool,
}
