//! The serialisable record of what containers get (`docs/environment-record.md`).
//!
//! `coracle env -o json` prints it and the kubelet keeps it; its shape is a stable interface.

mod stale;

use serde::{Deserialize, Serialize};

use crate::{
    Argument, ContainerKind, ContainerView, Entry, Environment, Finding, Origin, Reference, ReferenceTarget,
    Resolved, Reveal, RuntimeVariable, Severity, Shadowed, State, Value,
};

/// The whole document: what `coracle env -o json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentRecord {
    /// One element a pod.
    pub pods: Vec<PodRecord>,
    /// What was found in the objects of the input outside of their containers; absent when there is nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectRecord>,
}

/// An object of the input with what was found in it outside of containers.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRecord {
    /// Its kind.
    pub kind: String,
    /// Its namespace, as written or as asked for.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Where it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceRecord>,
    /// Findings, errors first.
    pub findings: Vec<FindingRecord>,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRecord {
    /// Namespace.
    pub namespace: String,
    /// Name: of the pod, or of the object whose template it is.
    pub name: String,
    /// Where it was read; absent for a running pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceRecord>,
    /// One element a container.
    pub containers: Vec<ContainerRecord>,
}

/// The document that a pod was read from.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceRecord {
    /// File as it was named; `-` for standard input.
    pub file: String,
    /// Line where the document begins, from 1.
    pub line: u32,
}

/// One container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecord {
    /// Name.
    pub name: String,
    /// Kind.
    #[serde(rename = "type")]
    pub kind: ContainerKind,
    /// The environment in the order that the process sees.
    pub environment: Vec<VariableRecord>,
    /// `command`; null when the container declares none.
    pub command: Option<Vec<ValueRecord>>,
    /// `args`; null when the container declares none.
    pub args: Option<Vec<ValueRecord>>,
    /// Findings, errors first.
    pub findings: Vec<FindingRecord>,
    /// Variables of services that a start now would give, and this container has not; absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent_service_variables: Vec<AbsentServiceRecord>,
}

/// Variables of one service that came after the container had started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AbsentServiceRecord {
    /// Namespace of the service.
    pub namespace: String,
    /// Name of the service.
    pub name: String,
    /// Names of the variables.
    pub variables: Vec<String>,
}

/// One variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VariableRecord {
    /// Name.
    pub name: String,
    /// Value; null unless it is known and may be shown.
    pub value: Option<String>,
    /// The form for people.
    pub display: String,
    /// State.
    pub state: State,
    /// Where it comes from.
    pub origin: OriginRecord,
    /// The references that it used, in order.
    pub references: Vec<ReferenceRecord>,
    /// The definitions that lost, the strongest first.
    pub shadowed: Vec<ShadowedRecord>,
    /// Whether its source was there and could not be used, which a finding says; absent when not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    /// Whether its source, or one that its value used, has changed since the container started; absent when not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
}

/// One element of `command` or `args`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ValueRecord {
    /// Value; null unless it is known and may be shown.
    pub value: Option<String>,
    /// The form for people.
    pub display: String,
    /// State.
    pub state: State,
    /// The references that it used, in order.
    #[serde(default)]
    pub references: Vec<ReferenceRecord>,
}

/// Where a variable comes from. `kind` says which of the other fields are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum OriginRecord {
    /// Set by the runtime.
    Runtime,
    /// `ENV` of the image.
    Image,
    /// A service variable.
    Service {
        /// Namespace of the service.
        namespace: String,
        /// Name of the service.
        name: String,
    },
    /// A key of an `envFrom` source.
    EnvFrom {
        /// Place in `envFrom`.
        index: usize,
        /// `configMap` or `secret`.
        source: SourceKind,
        /// Name of the object.
        name: String,
        /// Key, without the prefix.
        key: String,
        /// Resource version that was read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource_version: Option<String>,
    },
    /// A literal value.
    Value {
        /// Place in `env`.
        index: usize,
    },
    /// A field of the pod.
    FieldRef {
        /// Place in `env`.
        index: usize,
        /// Field path.
        field_path: String,
    },
    /// A resource of a container.
    ResourceFieldRef {
        /// Place in `env`.
        index: usize,
        /// Container.
        container: String,
        /// Resource.
        resource: String,
        /// Divisor; absent when none is set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        divisor: Option<String>,
    },
    /// A key of a ConfigMap.
    ConfigMapKeyRef {
        /// Place in `env`.
        index: usize,
        /// Name of the ConfigMap.
        name: String,
        /// Key.
        key: String,
        /// Resource version that was read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource_version: Option<String>,
    },
    /// A key of a Secret.
    SecretKeyRef {
        /// Place in `env`.
        index: usize,
        /// Name of the Secret.
        name: String,
        /// Key.
        key: String,
        /// Resource version that was read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource_version: Option<String>,
    },
    /// A key of an env file.
    FileKeyRef {
        /// Place in `env`.
        index: usize,
        /// Volume.
        volume_name: String,
        /// Path in the volume.
        path: String,
        /// Key.
        key: String,
        /// Line of the assignment, when the file was read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u32>,
    },
}

/// A kind of object that `envFrom` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SourceKind {
    /// ConfigMap.
    ConfigMap,
    /// Secret.
    Secret,
}

/// A reference that a value used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceRecord {
    /// Name between the parentheses.
    pub name: String,
    /// First byte of `$(NAME)` in the unexpanded text.
    pub start: usize,
    /// Byte behind its last.
    pub end: usize,
    /// What it found.
    pub found: FoundKind,
    /// Where the variable that it found comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<OriginRecord>,
}

/// What a reference found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FoundKind {
    /// A variable.
    Variable,
    /// Perhaps a variable of a source that is not known here.
    Undecided,
    /// Nothing: the text stays as it is.
    Nothing,
}

/// A definition that lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowedRecord {
    /// Where it came from.
    pub origin: OriginRecord,
    /// Value; null unless it is known and may be shown.
    pub value: Option<String>,
    /// The form for people.
    pub display: String,
    /// State.
    pub state: State,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FindingRecord {
    /// Stable code.
    pub code: String,
    /// Severity.
    pub severity: Severity,
    /// Field path.
    pub field_path: String,
    /// The variable it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// What is the case.
    pub message: String,
    /// What to do about it; empty when there is nothing to say.
    pub hint: String,
    /// Where in the file; absent for a running pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<PositionRecord>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PositionRecord {
    /// File as it was named.
    pub file: String,
    /// Line from 1.
    pub line: u32,
    /// Column from 1.
    pub column: u32,
}

impl ContainerRecord {
    /// The record of one container. `environment` is what the process sees
    /// ([`crate::compose_process_environment`]); `position` finds the place of a finding in its file.
    pub fn new(
        container: &ContainerView<'_>,
        environment: &Environment,
        resolved: &Resolved,
        reveal: Reveal,
        mut position: impl FnMut(&Finding) -> Option<PositionRecord>,
    ) -> Self {
        let list = |list: &Option<Vec<Argument>>| {
            list.as_ref().map(|list| list.iter().map(|argument| ValueRecord::new(argument, reveal)).collect())
        };
        let findings = resolved.findings();
        Self {
            name: container.name.to_owned(),
            kind: container.kind,
            environment: environment
                .entries()
                .iter()
                .map(|entry| VariableRecord::new(entry, reveal))
                .collect(),
            command: list(&resolved.resolution.command),
            args: list(&resolved.resolution.args),
            findings: findings.iter().map(|finding| FindingRecord::new(finding, position(finding))).collect(),
            absent_service_variables: Vec::new(),
        }
    }
}

impl VariableRecord {
    /// The record of one variable.
    pub fn new(entry: &Entry, reveal: Reveal) -> Self {
        Self {
            name: entry.name.to_string(),
            value: shown(&entry.value, reveal),
            display: entry.value.display(reveal).into_owned(),
            state: entry.value.state(),
            origin: OriginRecord::from(&entry.origin),
            references: entry.references.iter().map(ReferenceRecord::from).collect(),
            shadowed: entry.shadowed.iter().map(|shadowed| ShadowedRecord::new(shadowed, reveal)).collect(),
            refused: entry.value.is_refused(),
            stale: false,
        }
    }
}

impl ValueRecord {
    fn new(argument: &Argument, reveal: Reveal) -> Self {
        Self {
            value: shown(&argument.value, reveal),
            display: argument.value.display(reveal).into_owned(),
            state: argument.value.state(),
            references: argument.references.iter().map(ReferenceRecord::from).collect(),
        }
    }
}

impl ShadowedRecord {
    fn new(shadowed: &Shadowed, reveal: Reveal) -> Self {
        Self {
            origin: OriginRecord::from(&shadowed.origin),
            value: shown(&shadowed.value, reveal),
            display: shadowed.value.display(reveal).into_owned(),
            state: shadowed.value.state(),
        }
    }
}

impl FindingRecord {
    /// The record of one finding.
    pub fn new(finding: &Finding, position: Option<PositionRecord>) -> Self {
        Self {
            code: finding.code.as_str().to_owned(),
            severity: finding.severity,
            field_path: finding.field_path.clone(),
            variable: finding.variable.clone(),
            message: finding.message.clone(),
            hint: finding.hint.clone().unwrap_or_default(),
            position,
        }
    }
}

fn shown(value: &Value, reveal: Reveal) -> Option<String> {
    value.shown(reveal).map(|text| text.into_owned())
}

impl From<&Reference> for ReferenceRecord {
    fn from(reference: &Reference) -> Self {
        let (found, origin) = match &reference.target {
            ReferenceTarget::Resolved(origin) => (FoundKind::Variable, Some(OriginRecord::from(origin))),
            ReferenceTarget::Undecided => (FoundKind::Undecided, None),
            ReferenceTarget::Unresolved => (FoundKind::Nothing, None),
        };
        let (start, end) = (reference.span.start, reference.span.end);
        Self { name: reference.name.clone(), start, end, found, origin }
    }
}

impl From<&Origin> for OriginRecord {
    fn from(origin: &Origin) -> Self {
        let owned = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
        match origin {
            Origin::Runtime(
                RuntimeVariable::Path
                | RuntimeVariable::Hostname
                | RuntimeVariable::Term
                | RuntimeVariable::Home,
            ) => Self::Runtime,
            Origin::Image => Self::Image,
            Origin::Service(service) => {
                Self::Service { namespace: service.namespace.to_string(), name: service.name.to_string() }
            }
            Origin::EnvFromConfigMap { index, name, key, resource_version } => Self::EnvFrom {
                index: *index,
                source: SourceKind::ConfigMap,
                name: name.to_string(),
                key: key.to_string(),
                resource_version: owned(resource_version),
            },
            Origin::EnvFromSecret { index, name, key, resource_version } => Self::EnvFrom {
                index: *index,
                source: SourceKind::Secret,
                name: name.to_string(),
                key: key.to_string(),
                resource_version: owned(resource_version),
            },
            Origin::Value { index } => Self::Value { index: *index },
            Origin::FieldRef { index, field_path } => {
                Self::FieldRef { index: *index, field_path: field_path.to_string() }
            }
            Origin::ResourceFieldRef { index, container, resource, divisor } => Self::ResourceFieldRef {
                index: *index,
                container: container.to_string(),
                resource: resource.to_string(),
                divisor: (!divisor.is_empty()).then(|| divisor.to_string()),
            },
            Origin::ConfigMapKeyRef { index, name, key, resource_version } => Self::ConfigMapKeyRef {
                index: *index,
                name: name.to_string(),
                key: key.to_string(),
                resource_version: owned(resource_version),
            },
            Origin::SecretKeyRef { index, name, key, resource_version } => Self::SecretKeyRef {
                index: *index,
                name: name.to_string(),
                key: key.to_string(),
                resource_version: owned(resource_version),
            },
            Origin::FileKeyRef { index, volume, path, key, line } => Self::FileKeyRef {
                index: *index,
                volume_name: volume.to_string(),
                path: path.to_string(),
                key: key.to_string(),
                line: *line,
            },
        }
    }
}

#[cfg(test)]
mod tests;
