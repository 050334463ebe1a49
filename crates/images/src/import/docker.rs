//! Archives of `docker save`: `manifest.json` names configurations, tags and layers.

use serde::Deserialize;

use super::content::Content;
use super::{Described, ImportError};
use crate::digest::Digest;
use crate::limits::Limits;
use crate::reference::Reference;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    #[serde(default)]
    layers: Option<Vec<String>>,
}

/// Reads what images the archive holds. Layers are verified when they are unpacked.
pub(super) fn describe(content: &Content, limits: &Limits) -> Result<Vec<Described>, ImportError> {
    const LIST: &str = "manifest.json";
    let bytes = content.read(LIST, limits.manifest_bytes)?;
    let listed: Vec<Listed> = serde_json::from_slice(&bytes)
        .map_err(|source| ImportError::Json { member: LIST.to_owned(), source })?;
    listed
        .into_iter()
        .map(|image| {
            let config = content.read(&image.config, limits.config_bytes)?;
            // The name is the digest, in the old form with an ending and in the new form as a blob.
            let stem = image.config.rsplit('/').next().unwrap_or_default();
            let stem = stem.strip_suffix(".json").unwrap_or(stem);
            let actual = Digest::of(&config);
            if let Some(expected) = Digest::from_hex(stem)
                && expected != actual
            {
                return Err(ImportError::Digest { member: image.config, expected, actual });
            }
            let references = image
                .repo_tags
                .unwrap_or_default()
                .iter()
                .map(|tag| Reference::parse(tag).map(|reference| reference.key()))
                .collect::<Result<_, _>>()?;
            Ok(Described { config, layers: image.layers.unwrap_or_default(), references })
        })
        .collect()
}
