//! The serialisable record of what containers get (`docs/environment-record.md`).

use serde::{Deserialize, Serialize};

use crate::{ContainerKind, Severity, State};

/// The whole document: what `coracle env -o json` prints.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentRecord {
    /// One element a pod.
    pub pods: Vec<PodRecord>,
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
    /// Findings.
    pub findings: Vec<FindingRecord>,
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
    /// The references that it used.
    pub references: Vec<ReferenceRecord>,
    /// The definitions that lost.
    pub shadowed: Vec<ShadowedRecord>,
    /// Whether its source has changed since the container started.
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
}

/// Where a variable comes from; which fields are there depends on `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OriginRecord {
    /// `runtime`, `image`, `service`, `envFrom`, `value`, `fieldRef`, `resourceFieldRef`, `configMapKeyRef`,
    /// `secretKeyRef` or `fileKeyRef`.
    pub kind: String,
}

/// A reference that a value used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReferenceRecord {
    /// Name between the parentheses.
    pub name: String,
}

/// A definition that lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowedRecord {
    /// Where it came from.
    pub origin: OriginRecord,
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
