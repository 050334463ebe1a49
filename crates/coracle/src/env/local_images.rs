//! The images of this machine: what their configuration adds to an environment.

use std::path::Path;

use environment::ImageConfig;
use images::{HOST_IMAGE, ImageStore};

use crate::data_directory;

/// The image store, if this machine has one that can be read.
pub(super) struct LocalImages(Option<ImageStore>);

impl LocalImages {
    /// Opens the store below a data directory.
    ///
    /// A store that is not there, or that this user may not use, is no mistake: no image is known then, and
    /// none is made.
    pub(super) fn open(data_dir: Option<&Path>) -> Self {
        let directory = data_dir.unwrap_or(Path::new(data_directory::DEFAULT)).join("images");
        if !directory.is_dir() {
            return Self(None);
        }
        Self(ImageStore::open(directory).ok().map(ImageStore::with_host_image))
    }

    /// No image but the machine itself.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// What an image's configuration says, if the image is here.
    pub(super) fn config_of(&self, image: &str) -> Option<ImageConfig> {
        if image == HOST_IMAGE {
            return Some(ImageConfig::default());
        }
        let config = self.0.as_ref()?.resolve(image).ok()??.config;
        Some(ImageConfig { env: config.env, entrypoint: config.entrypoint, cmd: config.cmd })
    }
}
