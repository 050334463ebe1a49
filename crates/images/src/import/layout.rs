//! OCI layouts, as directories and as archives: `index.json` names manifests, everything else is a blob.

use super::content::{Content, blob_name};
use super::{Described, ImportError};
use crate::digest::Digest;
use crate::limits::Limits;
use crate::manifest::{Descriptor, Manifest, ManifestError, architecture, choose_platform};
use crate::reference::Reference;

/// Annotations with an image's name: containerd's has all of it, the standard's sometimes only the tag.
const FULL_NAME: &str = "io.containerd.image.name";
const NAME: &str = "org.opencontainers.image.ref.name";
/// How deep lists may be nested.
const DEPTH: usize = 3;

/// Reads what images the layout holds.
pub(super) fn describe(content: &Content, limits: &Limits) -> Result<Vec<Described>, ImportError> {
    let bytes = content.read("index.json", limits.manifest_bytes)?;
    let manifests = match Manifest::parse(&bytes, limits.layers)? {
        Manifest::Index(manifests) => manifests,
        Manifest::Image { .. } => return Err(ManifestError::Shape.into()),
    };
    let named: Vec<&Descriptor> = manifests.iter().filter(|manifest| name_of(manifest).is_some()).collect();
    let chosen = match (named.is_empty(), manifests.is_empty()) {
        (_, true) => return Ok(Vec::new()),
        // Without names, the layout is one image for one or several platforms.
        (true, false) => vec![choose_platform(&manifests, architecture())?],
        (false, false) => named,
    };
    let mut described: Vec<(Digest, Described)> = Vec::new();
    for descriptor in chosen {
        let (digest, mut image) = describe_image(content, descriptor, limits)?;
        if let Some(reference) = name_of(descriptor).and_then(|name| Reference::parse(name).ok()) {
            image.references.push(reference.key());
            image.references.push(reference.with_digest(descriptor.digest).key());
        }
        // Several tags of one image are several entries with the same digest.
        match described.iter_mut().find(|(known, _)| *known == digest) {
            Some((_, known)) => known.references.append(&mut image.references),
            None => described.push((digest, image)),
        }
    }
    Ok(described.into_iter().map(|(_, image)| image).collect())
}

/// The name of an entry, if it has a whole one; a bare tag (`latest`, `v1`) is none.
fn name_of(descriptor: &Descriptor) -> Option<&str> {
    let annotations = descriptor.annotations.as_ref()?;
    annotations
        .get(FULL_NAME)
        .or_else(|| annotations.get(NAME))
        .map(String::as_str)
        .filter(|name| name.contains(['/', ':']))
}

fn describe_image(
    content: &Content,
    descriptor: &Descriptor,
    limits: &Limits,
) -> Result<(Digest, Described), ImportError> {
    let mut digest = descriptor.digest;
    for _ in 0..DEPTH {
        let bytes = content.read_blob(digest, limits.manifest_bytes)?;
        match Manifest::parse(&bytes, limits.layers)? {
            Manifest::Index(manifests) => digest = choose_platform(&manifests, architecture())?.digest,
            Manifest::Image { config, layers } => {
                let config = content.read_blob(config.digest, limits.config_bytes)?;
                let layers = layers.iter().map(|layer| blob_name(layer.digest)).collect();
                return Ok((digest, Described { config, layers, references: Vec::new() }));
            }
        }
    }
    Err(ManifestError::Nesting.into())
}
