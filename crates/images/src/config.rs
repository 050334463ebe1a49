//! The part of an image's configuration that decides how its containers run.
//!
//! Labels are carried, never interpreted. What could not be given to a process (a NUL in a variable or an argument)
//! is refused here, so that nobody meets it later.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::digest::Digest;

/// How containers of an image run, as the image itself says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageConfig {
    /// `NAME=value` in the order of the image. Entries without `=` are kept as they are.
    pub env: Vec<String>,
    /// First part of the command line; empty when the image has none.
    pub entrypoint: Vec<String>,
    /// Second part of the command line, or all of it without an entrypoint.
    pub cmd: Vec<String>,
    /// `user`, `uid`, `user:group` or `uid:gid`; empty for root. Not checked against the image's files.
    pub user: String,
    /// Working directory; empty for `/`. Not checked: whoever changes to it must.
    pub working_dir: String,
    /// Signal that asks a container to stop, `SIGTERM` when absent.
    pub stop_signal: Option<String>,
    /// Labels of the image.
    pub labels: BTreeMap<String, String>,
    /// Paths that the image declares as volumes, sorted.
    pub volumes: Vec<String>,
    /// Ports such as `80/tcp` that the image declares, sorted.
    pub exposed_ports: Vec<String>,
}

/// Why an image configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ImageConfigError {
    /// Not JSON of the expected shape.
    #[error("image configuration is not readable")]
    Json(#[source] serde_json::Error),
    /// No list of layers: a legacy image or no image at all.
    #[error("image configuration lists no layers (rootfs.diff_ids)")]
    NoLayers,
    /// A layer type other than `layers`.
    #[error("image configuration has root file system type {0:?}, expected \"layers\"")]
    RootFilesystem(String),
    /// A string for a process that contains a NUL byte.
    #[error("image configuration: {0} contains a NUL byte")]
    Nul(String),
    /// Another operating system.
    #[error("image is for operating system {0:?}, expected \"linux\"")]
    OperatingSystem(String),
}

/// What a configuration file says, beside [`ImageConfig`].
#[derive(Debug, Clone)]
pub(crate) struct ConfigFile {
    pub(crate) config: ImageConfig,
    pub(crate) diff_ids: Vec<Digest>,
    pub(crate) architecture: String,
}

#[derive(Deserialize)]
struct RawFile {
    #[serde(default, deserialize_with = "null_as_default")]
    architecture: String,
    #[serde(default, deserialize_with = "null_as_default")]
    os: String,
    #[serde(default, deserialize_with = "null_as_default")]
    config: RawConfig,
    #[serde(default)]
    rootfs: Option<RawRootFilesystem>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct RawConfig {
    #[serde(default, deserialize_with = "null_as_default")]
    env: Vec<String>,
    #[serde(default, deserialize_with = "words")]
    entrypoint: Vec<String>,
    #[serde(default, deserialize_with = "words")]
    cmd: Vec<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    user: String,
    #[serde(default, deserialize_with = "null_as_default")]
    working_dir: String,
    #[serde(default)]
    stop_signal: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    labels: BTreeMap<String, Option<String>>,
    #[serde(default, deserialize_with = "null_as_default")]
    volumes: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(default, deserialize_with = "null_as_default")]
    exposed_ports: BTreeMap<String, serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct RawRootFilesystem {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    diff_ids: Vec<Digest>,
}

/// Go writes empty lists and maps as `null`.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A list of words; very old images have one string, which is one word for the shell.
fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        Many(Vec<String>),
        One(String),
    }
    Ok(match Option::deserialize(deserializer)? {
        None => Vec::new(),
        Some(Words::Many(words)) => words,
        Some(Words::One(line)) => vec!["/bin/sh".into(), "-c".into(), line],
    })
}

impl ConfigFile {
    /// Reads a configuration file (OCI or docker; their shapes agree).
    pub(crate) fn parse(bytes: &[u8]) -> Result<ConfigFile, ImageConfigError> {
        let file: RawFile = serde_json::from_slice(bytes).map_err(ImageConfigError::Json)?;
        let Some(root) = file.rootfs else { return Err(ImageConfigError::NoLayers) };
        if let Some(kind) = root.kind.filter(|kind| kind != "layers") {
            return Err(ImageConfigError::RootFilesystem(kind));
        }
        if !matches!(file.os.as_str(), "" | "linux") {
            return Err(ImageConfigError::OperatingSystem(file.os));
        }
        let raw = file.config;
        let config = ImageConfig {
            env: raw.env,
            entrypoint: raw.entrypoint,
            cmd: raw.cmd,
            user: raw.user,
            working_dir: raw.working_dir,
            stop_signal: raw.stop_signal.filter(|signal| !signal.is_empty()),
            labels: raw.labels.into_iter().map(|(key, value)| (key, value.unwrap_or_default())).collect(),
            volumes: raw.volumes.into_keys().collect(),
            exposed_ports: raw.exposed_ports.into_keys().collect(),
        };
        refuse_nul(&config)?;
        Ok(ConfigFile { config, diff_ids: root.diff_ids, architecture: file.architecture })
    }
}

/// Names the first string for a process that has a NUL in it; never shows a variable's value.
fn refuse_nul(config: &ImageConfig) -> Result<(), ImageConfigError> {
    for entry in &config.env {
        if entry.contains('\0') {
            let name: String = entry.split('=').next().unwrap_or_default().chars().take(100).collect();
            return Err(ImageConfigError::Nul(format!("variable {name:?}")));
        }
    }
    let words = |words: &[String]| words.iter().any(|word| word.contains('\0'));
    let volumes = words(&config.volumes);
    for (what, has_nul) in [
        ("Entrypoint", words(&config.entrypoint)),
        ("Cmd", words(&config.cmd)),
        ("User", config.user.contains('\0')),
        ("WorkingDir", config.working_dir.contains('\0')),
        ("Volumes", volumes),
    ] {
        if has_nul {
            return Err(ImageConfigError::Nul(what.to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, ImageConfigError> {
        ConfigFile::parse(text.as_bytes())
    }

    #[test]
    fn a_full_configuration_is_read_in_order() {
        let file = parse(
            r#"{"architecture":"amd64","os":"linux","config":{"Env":["B=2","A=1","ODD"],"Entrypoint":["/e"],"Cmd":["c"],
            "User":"1000:1000","WorkingDir":"/w","StopSignal":"SIGQUIT","Labels":{"a":"b"},"Volumes":{"/v":{}},
            "ExposedPorts":{"80/tcp":{}}},"rootfs":{"type":"layers","diff_ids":[]},"history":[{}]}"#,
        )
        .unwrap();
        assert_eq!(file.config.env, ["B=2", "A=1", "ODD"]);
        assert_eq!(file.config.stop_signal.as_deref(), Some("SIGQUIT"));
        assert_eq!(file.config.exposed_ports, ["80/tcp"]);
        assert_eq!(file.config.volumes, ["/v"]);
        assert_eq!(file.config.user, "1000:1000");
    }

    #[test]
    fn nulls_and_absences_are_empty() {
        let file = parse(
            r#"{"config":{"Env":null,"Entrypoint":null,"Cmd":"echo hi","Labels":null,"Volumes":null},"rootfs":{"diff_ids":null}}"#,
        )
        .unwrap();
        assert_eq!(file.config.cmd, ["/bin/sh", "-c", "echo hi"]);
        assert_eq!(
            parse(r#"{"config":null,"rootfs":{"diff_ids":[]}}"#).unwrap().config,
            ImageConfig::default()
        );
    }

    #[test]
    fn what_no_process_can_get_is_refused_by_name_and_without_its_value() {
        let error =
            parse(r#"{"config":{"Env":["TOKEN=se\u0000cret"]},"rootfs":{"diff_ids":[]}}"#).unwrap_err();
        assert_eq!(error.to_string(), r#"image configuration: variable "TOKEN" contains a NUL byte"#);
        assert!(matches!(
            parse(r#"{"config":{"WorkingDir":"/\u0000"},"rootfs":{"diff_ids":[]}}"#),
            Err(ImageConfigError::Nul(_))
        ));
    }

    #[test]
    fn what_is_no_image_is_refused() {
        assert!(matches!(parse("{}"), Err(ImageConfigError::NoLayers)));
        assert!(matches!(parse("[1"), Err(ImageConfigError::Json(_))));
        assert!(matches!(
            parse(r#"{"rootfs":{"type":"zfs","diff_ids":[]}}"#),
            Err(ImageConfigError::RootFilesystem(_))
        ));
        assert!(matches!(
            parse(r#"{"os":"windows","rootfs":{"diff_ids":[]}}"#),
            Err(ImageConfigError::OperatingSystem(_))
        ));
        assert!(matches!(
            parse(r#"{"rootfs":{"diff_ids":["sha256:../../x"]}}"#),
            Err(ImageConfigError::Json(_))
        ));
    }
}
