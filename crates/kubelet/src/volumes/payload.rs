//! The files of a ConfigMap, Secret, downward API or projected volume, before they are written. Pure.

use std::collections::BTreeMap;

use environment::SecretBytes;
use k8s_openapi::api::core::v1::{ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret};

use crate::downward;

/// Why the files of a volume could not be put together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PayloadError {
    /// The ConfigMap does not exist.
    #[error("configmap {0:?} not found")]
    ConfigMapNotFound(String),
    /// The Secret does not exist.
    #[error("secret {0:?} not found")]
    SecretNotFound(String),
    /// A key that `items` names does not exist.
    #[error("{kind} references non-existent {what} key: {key}")]
    KeyNotFound {
        /// `configmap` or `secret`.
        kind: &'static str,
        /// `config` or `secret`.
        what: &'static str,
        /// The key.
        key: String,
    },
    /// A path would leave the volume.
    #[error("invalid path {0:?}: must be relative and must not contain '..'")]
    InvalidPath(String),
    /// Two sources want the same path.
    #[error("conflicting duplicate path {0:?}")]
    Conflict(String),
    /// A downward API field cannot be given.
    #[error(transparent)]
    Downward(#[from] downward::DownwardError),
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PayloadFile {
    pub(crate) bytes: SecretBytes,
    pub(crate) mode: u32,
    /// Who owns it; the node, if nobody is named.
    pub(crate) owner: Option<u32>,
}

/// All files of a volume by their path in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Payload {
    files: BTreeMap<String, PayloadFile>,
}

/// How the keys of an object become files.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeySelection<'a> {
    pub(super) items: Option<&'a [KeyToPath]>,
    pub(super) default_mode: u32,
    pub(super) optional: bool,
}

/// The mode of a file: its own, else the volume's.
pub(super) fn mode_of(own: Option<i32>, default: u32) -> u32 {
    own.and_then(|mode| u32::try_from(mode).ok()).unwrap_or(default) & 0o777
}

impl Payload {
    /// Paths and files, sorted by path.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &PayloadFile)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Adds a file.
    pub(super) fn insert(&mut self, path: &str, bytes: SecretBytes, mode: u32) -> Result<(), PayloadError> {
        self.insert_owned(path, PayloadFile { bytes, mode, owner: None })
    }

    /// Adds a file of somebody.
    pub(super) fn insert_owned(&mut self, path: &str, file: PayloadFile) -> Result<(), PayloadError> {
        let clean = clean_path(path)?;
        if self.files.insert(clean, file).is_some() {
            return Err(PayloadError::Conflict(path.to_owned()));
        }
        Ok(())
    }

    pub(super) fn add_config_map(
        &mut self,
        name: &str,
        config_map: Option<&ConfigMap>,
        selection: KeySelection<'_>,
    ) -> Result<(), PayloadError> {
        let Some(config_map) = config_map else {
            return match selection.optional {
                true => Ok(()),
                false => Err(PayloadError::ConfigMapNotFound(name.to_owned())),
            };
        };
        let text = config_map.data.iter().flatten();
        let binary = config_map.binary_data.iter().flatten();
        let mut keys: BTreeMap<&str, SecretBytes> =
            text.map(|(key, value)| (key.as_str(), SecretBytes::new(value.as_bytes()))).collect();
        keys.extend(binary.map(|(key, value)| (key.as_str(), SecretBytes::new(value.0.clone()))));
        self.add_keys(&keys, selection, "configmap", "config")
    }

    pub(super) fn add_secret(
        &mut self,
        name: &str,
        secret: Option<&Secret>,
        selection: KeySelection<'_>,
    ) -> Result<(), PayloadError> {
        let Some(secret) = secret else {
            return match selection.optional {
                true => Ok(()),
                false => Err(PayloadError::SecretNotFound(name.to_owned())),
            };
        };
        let keys: BTreeMap<&str, SecretBytes> = secret
            .data
            .iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), SecretBytes::new(value.0.clone())))
            .collect();
        self.add_keys(&keys, selection, "secret", "secret")
    }

    fn add_keys(
        &mut self,
        keys: &BTreeMap<&str, SecretBytes>,
        selection: KeySelection<'_>,
        kind: &'static str,
        what: &'static str,
    ) -> Result<(), PayloadError> {
        match selection.items.filter(|items| !items.is_empty()) {
            None => {
                for (key, bytes) in keys {
                    self.insert(key, bytes.clone(), selection.default_mode)?;
                }
            }
            Some(items) => {
                for item in items {
                    match keys.get(item.key.as_str()) {
                        Some(bytes) => {
                            let mode = mode_of(item.mode, selection.default_mode);
                            self.insert(&item.path, bytes.clone(), mode)?;
                        }
                        None if selection.optional => {}
                        None => {
                            return Err(PayloadError::KeyNotFound { kind, what, key: item.key.clone() });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn add_downward(
        &mut self,
        pod: &Pod,
        allocatable: &downward::Allocatable,
        files: &[DownwardAPIVolumeFile],
        default_mode: u32,
    ) -> Result<(), PayloadError> {
        for file in files {
            let value = downward::volume_file(pod, allocatable, file)?;
            self.insert(&file.path, SecretBytes::new(value.into_bytes()), mode_of(file.mode, default_mode))?;
        }
        Ok(())
    }
}

/// A path in a volume without empty and `.` elements.
fn clean_path(path: &str) -> Result<String, PayloadError> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let escapes = path.starts_with('/') || parts.contains(&"..") || parts.is_empty();
    if escapes || parts[0].starts_with("..") || path.contains('\0') {
        return Err(PayloadError::InvalidPath(path.to_owned()));
    }
    Ok(parts.join("/"))
}
