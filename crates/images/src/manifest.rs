//! Manifests and indexes (OCI and docker): what they name, and which of several platforms is ours.

use serde::Deserialize;

use crate::digest::Digest;

/// Media types that are asked for.
pub(crate) const ACCEPTED: &[&str] = &[
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Not JSON of the expected shape, or digests of another kind.
    #[error("manifest is not readable")]
    Json(#[source] serde_json::Error),
    /// The format before 2016.
    #[error(
        "manifest has schema version {0}, only version 2 is supported: push the image again with a current tool"
    )]
    SchemaVersion(u64),
    /// Neither a configuration nor a list of manifests.
    #[error("manifest is neither of an image nor a list of images")]
    Shape,
    /// A chart, a signature, ...
    #[error("not a container image, but an artifact of type {0:?}")]
    Artifact(String),
    /// No platform of the list fits this machine.
    #[error("image is not made for linux/{wanted}, only for {available}")]
    NoPlatform {
        /// This machine's architecture.
        wanted: String,
        /// What there is.
        available: String,
    },
    /// Lists in lists in lists.
    #[error("lists of manifests are nested too deeply")]
    Nesting,
    /// More layers than an overlay mount takes.
    #[error("image has {layers} layers, at most {limit} are supported")]
    TooManyLayers {
        /// How many it has.
        layers: usize,
        /// How many may be.
        limit: usize,
    },
    /// Manifest and configuration disagree.
    #[error("manifest has {manifest} layers, the configuration {config}")]
    LayerCount {
        /// Layers of the manifest.
        manifest: usize,
        /// Layers of the configuration.
        config: usize,
    },
}

/// A blob as a manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default)]
    pub(crate) platform: Option<Platform>,
    #[serde(default)]
    pub(crate) annotations: Option<std::collections::BTreeMap<String, String>>,
}

/// What a manifest of a list is made for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Platform {
    #[serde(default)]
    pub(crate) architecture: String,
    #[serde(default)]
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) variant: Option<String>,
}

/// A manifest of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Manifest {
    Image { config: Descriptor, layers: Vec<Descriptor> },
    Index(Vec<Descriptor>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    schema_version: Option<u64>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
}

impl Manifest {
    /// Reads a manifest of either kind by its shape.
    pub(crate) fn parse(bytes: &[u8], limit: usize) -> Result<Manifest, ManifestError> {
        let raw: Raw = serde_json::from_slice(bytes).map_err(ManifestError::Json)?;
        match raw.schema_version {
            None | Some(2) => {}
            Some(version) => return Err(ManifestError::SchemaVersion(version)),
        }
        match (raw.config, raw.manifests) {
            (Some(config), None) => {
                let layers = raw.layers.unwrap_or_default();
                if layers.len() > limit {
                    return Err(ManifestError::TooManyLayers { layers: layers.len(), limit });
                }
                let image = matches!(
                    config.media_type.as_str(),
                    "" | "application/vnd.oci.image.config.v1+json"
                        | "application/vnd.docker.container.image.v1+json"
                        | "application/octet-stream"
                );
                if !image {
                    return Err(ManifestError::Artifact(config.media_type.chars().take(100).collect()));
                }
                Ok(Manifest::Image { config, layers })
            }
            (None, Some(manifests)) => Ok(Manifest::Index(manifests)),
            _ => Err(ManifestError::Shape),
        }
    }
}

/// This machine's architecture in the words of images.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// The manifest of a list that this machine runs: exact architecture, the plainest variant; a list of one without a
/// platform is that one.
pub(crate) fn choose_platform<'a>(
    manifests: &'a [Descriptor],
    architecture: &str,
) -> Result<&'a Descriptor, ManifestError> {
    let fits = |descriptor: &&Descriptor| match &descriptor.platform {
        Some(platform) => platform.os == "linux" && platform.architecture == architecture,
        None => manifests.len() == 1,
    };
    // v1 is what every amd64 machine runs, v8 what every arm64 machine runs; others may ask for more than there is.
    let plainness =
        |descriptor: &&Descriptor| match descriptor.platform.as_ref().and_then(|it| it.variant.as_deref()) {
            None | Some("" | "v1" | "v8") => 0,
            Some(_) => 1,
        };
    manifests.iter().filter(fits).min_by_key(plainness).ok_or_else(|| {
        let mut available: Vec<String> = manifests
            .iter()
            .filter_map(|descriptor| descriptor.platform.as_ref())
            .filter(|platform| platform.os != "unknown")
            .take(20)
            .map(|platform| match &platform.variant {
                Some(variant) => format!("{}/{}/{variant}", platform.os, platform.architecture),
                None => format!("{}/{}", platform.os, platform.architecture),
            })
            .collect();
        available.dedup();
        let available = match available.is_empty() {
            true => "unknown platforms".to_owned(),
            false => available.join(", "),
        };
        ManifestError::NoPlatform { wanted: architecture.to_owned(), available }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    fn index(platforms: &[&str]) -> Vec<Descriptor> {
        let manifests: Vec<String> = platforms
            .iter()
            .map(|platform| {
                let mut parts = platform.split('/');
                let (os, architecture) = (parts.next().unwrap(), parts.next().unwrap());
                let variant = parts.next().map(|it| format!(r#","variant":"{it}""#)).unwrap_or_default();
                format!(r#"{{"digest":"{D}","size":1,"platform":{{"os":"{os}","architecture":"{architecture}"{variant}}}}}"#)
            })
            .collect();
        let text = format!(r#"{{"schemaVersion":2,"manifests":[{}]}}"#, manifests.join(","));
        match Manifest::parse(text.as_bytes(), 10).unwrap() {
            Manifest::Index(manifests) => manifests,
            Manifest::Image { .. } => panic!("an index was given"),
        }
    }

    #[test]
    fn the_platform_of_the_machine_is_chosen() {
        let manifests =
            index(&["linux/arm64/v8", "linux/amd64/v3", "linux/amd64", "windows/amd64", "unknown/unknown"]);
        assert_eq!(choose_platform(&manifests, "amd64").unwrap(), &manifests[2]);
        assert_eq!(choose_platform(&manifests, "arm64").unwrap(), &manifests[0]);
        assert_eq!(
            choose_platform(&manifests, "riscv64").unwrap_err().to_string(),
            "image is not made for linux/riscv64, only for linux/arm64/v8, linux/amd64/v3, linux/amd64, windows/amd64"
        );
        assert!(choose_platform(&[], "amd64").is_err());
    }

    #[test]
    fn manifests_are_told_apart_or_refused() {
        let parse = |text: String| Manifest::parse(text.as_bytes(), 2);
        let config = format!(r#"{{"digest":"{D}","size":1}}"#);
        assert!(matches!(parse(format!(r#"{{"config":{config}}}"#)), Ok(Manifest::Image { .. })));
        assert!(matches!(parse(r#"{"schemaVersion":1}"#.into()), Err(ManifestError::SchemaVersion(1))));
        assert!(matches!(parse("{}".into()), Err(ManifestError::Shape)));
        assert!(matches!(parse("[".into()), Err(ManifestError::Json(_))));
        assert!(matches!(
            parse(format!(r#"{{"config":{config},"layers":[{config},{config},{config}]}}"#)),
            Err(ManifestError::TooManyLayers { layers: 3, limit: 2 })
        ));
        assert!(matches!(
            parse(format!(
                r#"{{"config":{{"digest":"{D}","size":1,"mediaType":"application/vnd.cncf.helm.config.v1+json"}}}}"#
            )),
            Err(ManifestError::Artifact(_))
        ));
        assert!(matches!(
            parse(r#"{"config":{"digest":"sha256:../../../etc/passwd","size":1}}"#.into()),
            Err(ManifestError::Json(_))
        ));
    }
}
