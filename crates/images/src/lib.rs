//! Images: pull, import, verify, unpack, and keep them in a content-addressed store.
//!
//! The store ([`ImageStore`]) is a directory that several processes use at once. Nothing becomes visible in it before
//! every digest was checked and everything was written to the disk; what is damaged is set aside, never fatal.
//! Layers lie unpacked, one directory a layer, ready to be lower directories of an overlay mount.
//!
//! What comes from outside (archives, registries, layer contents, image configuration) is hostile until proven
//! otherwise: sizes, counts and ratios are capped ([`Limits`]), and the unpacker never leaves the layer's directory.
//!
//! The crate starts no task that outlives a call. [`ImageStore::pull`] is async; everything else blocks for as long as
//! the disk takes and belongs on a blocking thread when called from async code.

mod config;
mod credentials;
mod digest;
mod host;
mod image;
mod import;
mod layer;
mod limits;
mod manifest;
mod progress;
mod pull;
mod reference;
mod registries;
mod store;
mod unpack;

pub use config::{ImageConfig, ImageConfigError};
pub use credentials::{CredentialSources, Credentials, CredentialsError};
pub use digest::{Digest, DigestError};
pub use host::{HOST_IMAGE, MaskedPath, MaskedPathKind, host_masked_paths};
pub use image::Image;
pub use import::{ImportError, ImportOptions, Imported};
pub use layer::LayerError;
pub use limits::Limits;
pub use manifest::ManifestError;
pub use progress::{PullProgress, Silent, TransferEvent};
pub use pull::{PullImageError, PullOptions};
pub use reference::{Reference, ReferenceError};
pub use registries::{RegistriesError, RegistryRules};
pub use store::{ImageStore, Removed, StoreError};
pub use unpack::{LayerNotice, NameError, Refusal, TarError, UnpackError, Unpacked, unpack_layer};
