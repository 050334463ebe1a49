//! One variable with its origin, and the ordered list of them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::{ServiceSource, State, Text, Value};

/// The variables that a runtime sets by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeVariable {
    /// `PATH`, when the image sets none.
    Path,
    /// `HOSTNAME`.
    Hostname,
    /// `TERM`, with a terminal.
    Term,
    /// `HOME`, when nothing set it.
    Home,
}

/// Where a variable comes from. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Set by the runtime.
    Runtime(RuntimeVariable),
    /// `ENV` of the image.
    Image,
    /// A service variable.
    Service(Arc<ServiceSource>),
    /// `envFrom[index].configMapRef`.
    EnvFromConfigMap {
        /// Place in `envFrom`.
        index: usize,
        /// Name of the ConfigMap.
        name: Arc<str>,
        /// Key, without the prefix.
        key: Arc<str>,
        /// Resource version that was read.
        resource_version: Option<Arc<str>>,
    },
    /// `envFrom[index].secretRef`.
    EnvFromSecret {
        /// Place in `envFrom`.
        index: usize,
        /// Name of the Secret.
        name: Arc<str>,
        /// Key, without the prefix.
        key: Arc<str>,
        /// Resource version that was read.
        resource_version: Option<Arc<str>>,
    },
    /// `env[index].value`.
    Value {
        /// Place in `env`.
        index: usize,
    },
    /// `env[index].valueFrom.fieldRef`.
    FieldRef {
        /// Place in `env`.
        index: usize,
        /// Field path, as written.
        field_path: Arc<str>,
    },
    /// `env[index].valueFrom.resourceFieldRef`.
    ResourceFieldRef {
        /// Place in `env`.
        index: usize,
        /// The container whose resource it is.
        container: Arc<str>,
        /// Resource, such as `limits.cpu`.
        resource: Arc<str>,
        /// Divisor, as written; empty when unset.
        divisor: Arc<str>,
    },
    /// `env[index].valueFrom.configMapKeyRef`.
    ConfigMapKeyRef {
        /// Place in `env`.
        index: usize,
        /// Name of the ConfigMap.
        name: Arc<str>,
        /// Key.
        key: Arc<str>,
        /// Resource version that was read.
        resource_version: Option<Arc<str>>,
    },
    /// `env[index].valueFrom.secretKeyRef`.
    SecretKeyRef {
        /// Place in `env`.
        index: usize,
        /// Name of the Secret.
        name: Arc<str>,
        /// Key.
        key: Arc<str>,
        /// Resource version that was read.
        resource_version: Option<Arc<str>>,
    },
    /// `env[index].valueFrom.fileKeyRef`.
    FileKeyRef {
        /// Place in `env`.
        index: usize,
        /// Volume.
        volume: Arc<str>,
        /// Path in the volume.
        path: Arc<str>,
        /// Key.
        key: Arc<str>,
        /// Line of the assignment, from 1, when the file was read.
        line: Option<u32>,
    },
}

impl Origin {
    /// The place in `env`, for what `env` declares.
    pub fn env_index(&self) -> Option<usize> {
        match self {
            Self::Value { index }
            | Self::FieldRef { index, .. }
            | Self::ResourceFieldRef { index, .. }
            | Self::ConfigMapKeyRef { index, .. }
            | Self::SecretKeyRef { index, .. }
            | Self::FileKeyRef { index, .. } => Some(*index),
            Self::Runtime(_)
            | Self::Image
            | Self::Service(_)
            | Self::EnvFromConfigMap { .. }
            | Self::EnvFromSecret { .. } => None,
        }
    }

    /// The place in `envFrom`, for what `envFrom` brings in.
    pub fn env_from_index(&self) -> Option<usize> {
        match self {
            Self::EnvFromConfigMap { index, .. } | Self::EnvFromSecret { index, .. } => Some(*index),
            Self::Runtime(_)
            | Self::Image
            | Self::Service(_)
            | Self::Value { .. }
            | Self::FieldRef { .. }
            | Self::ResourceFieldRef { .. }
            | Self::ConfigMapKeyRef { .. }
            | Self::SecretKeyRef { .. }
            | Self::FileKeyRef { .. } => None,
        }
    }
}

impl fmt::Display for Origin {
    /// One line for people, such as `env[2] secretKeyRef db key password @71`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = |formatter: &mut fmt::Formatter<'_>, version: &Option<Arc<str>>| match version {
            Some(version) => write!(formatter, " @{version}"),
            None => Ok(()),
        };
        match self {
            Self::Runtime(_) => write!(formatter, "runtime"),
            Self::Image => write!(formatter, "image"),
            Self::Service(service) => write!(formatter, "service {}", service.name),
            Self::EnvFromConfigMap { index, name, key, resource_version } => {
                write!(formatter, "envFrom[{index}] configMap {name} key {key}")?;
                version(formatter, resource_version)
            }
            Self::EnvFromSecret { index, name, key, resource_version } => {
                write!(formatter, "envFrom[{index}] secret {name} key {key}")?;
                version(formatter, resource_version)
            }
            Self::Value { index } => write!(formatter, "env[{index}] value"),
            Self::FieldRef { index, field_path } => write!(formatter, "env[{index}] fieldRef {field_path}"),
            Self::ResourceFieldRef { index, container, resource, divisor } => {
                write!(formatter, "env[{index}] resourceFieldRef {resource} of {container}")?;
                if divisor.is_empty() { Ok(()) } else { write!(formatter, " / {divisor}") }
            }
            Self::ConfigMapKeyRef { index, name, key, resource_version } => {
                write!(formatter, "env[{index}] configMapKeyRef {name} key {key}")?;
                version(formatter, resource_version)
            }
            Self::SecretKeyRef { index, name, key, resource_version } => {
                write!(formatter, "env[{index}] secretKeyRef {name} key {key}")?;
                version(formatter, resource_version)
            }
            Self::FileKeyRef { index, volume, path, key, line } => {
                write!(formatter, "env[{index}] fileKeyRef {volume}:{path} key {key}")?;
                match line {
                    Some(line) => write!(formatter, " line {line}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// What a reference found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceTarget {
    /// A variable, which came from here.
    Resolved(Origin),
    /// Perhaps a variable of a source that is not in the input.
    Undecided,
    /// Nothing: the text stays as it is.
    Unresolved,
}

/// A `$(NAME)` in a value, command or argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// NAME.
    pub name: String,
    /// Bytes of the whole `$(NAME)` in the unexpanded text.
    pub span: Range<usize>,
    /// What it found.
    pub target: ReferenceTarget,
}

/// A definition that lost against the entry that lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// Where it came from.
    pub origin: Origin,
    /// Its value.
    pub value: Value,
}

/// A variable of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name, never empty, without `=` and NUL.
    pub name: Text,
    /// Value.
    pub value: Value,
    /// The source that won.
    pub origin: Origin,
    /// The references that the value used, in order; at most [`Entry::MAX_REFERENCES`] are kept.
    pub references: Vec<Reference>,
    /// The definitions that lost, the strongest first.
    pub shadowed: Vec<Shadowed>,
}

impl Entry {
    /// References kept of one value; a value may have hundreds of thousands, and nobody reads them.
    pub const MAX_REFERENCES: usize = 1000;

    /// The state of its value.
    pub fn state(&self) -> State {
        self.value.state()
    }
}

/// Variables in the order in which the process sees them, each name once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    entries: Vec<Entry>,
}

impl Environment {
    pub(crate) fn from_entries(entries: Vec<Entry>) -> Self {
        Self { entries }
    }

    /// The entries in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entries in order, given away.
    pub fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// The entry called `name`. Looks at each entry: not for loops.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Names and values for the process, Secrets in the clear; `None` if some value is not known.
    pub fn exposed_pairs(&self) -> Option<Vec<(String, String)>> {
        let pair = |entry: &Entry| Some((entry.name.to_string(), entry.value.exposed()?.into_owned()));
        self.entries.iter().map(pair).collect()
    }
}
