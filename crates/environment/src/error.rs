//! Why an environment could not be resolved, in Kubernetes' words where Kubernetes has words.

use std::fmt;

use envfile::EnvFileError;

use crate::text::quoted;
use crate::{EnvFileRefusal, Finding, FindingCode, Severity, SubPathError};

/// A kind of object that keys come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// ConfigMap.
    ConfigMap,
    /// Secret.
    Secret,
}

impl ObjectKind {
    /// As the kind is written: `ConfigMap`, `Secret`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }

    fn lower_case(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

/// Why an object could not be fetched although it may exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The pod's objects are not (yet) followed by the node.
    NotRegistered,
    /// The node's copy did not become current in time.
    NotSynced,
    /// The node has no API server.
    NoClient,
}

/// Why a downward API field could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldRefError {
    /// `apiVersion` is not `v1`.
    #[error("unsupported pod version: {0}")]
    UnsupportedVersion(String),
    /// No such field.
    #[error("field label not supported: {0}")]
    UnknownField(String),
    /// A subscript on a field that has none.
    #[error("field label does not support subscript: {0}")]
    NoSubscript(String),
    /// A field that exists, but not for variables.
    #[error("unsupported fieldPath: {0}")]
    NotForVariables(String),
}

/// Why an env file gives no answer. Never carries content or a path of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvFileProblem {
    /// There is no such file.
    NotFound,
    /// It was found and not read.
    Refused(EnvFileRefusal),
    /// It was read and is not valid.
    Invalid(EnvFileError),
}

impl fmt::Display for EnvFileProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => write!(formatter, "there is no such file"),
            Self::Refused(EnvFileRefusal::NotRegular) => write!(formatter, "it is not a regular file"),
            Self::Refused(EnvFileRefusal::TooLarge { limit }) => {
                write!(formatter, "it is larger than {limit} bytes")
            }
            Self::Refused(EnvFileRefusal::NotReadable { uid }) => {
                write!(formatter, "the container's user {uid} may not read it")
            }
            Self::Refused(EnvFileRefusal::Outside) => {
                write!(formatter, "a link on its path leaves the volume or leads nowhere")
            }
            Self::Refused(EnvFileRefusal::VolumeUnusable) => {
                write!(formatter, "the directory of the volume is not there")
            }
            Self::Refused(EnvFileRefusal::System(name)) => write!(formatter, "it cannot be read ({name})"),
            Self::Invalid(error) => error.fmt(formatter),
        }
    }
}

/// What a limit or a NUL byte is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A variable, by name.
    Variable(String),
    /// An element of `command` or `args`.
    Argument,
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(formatter, "environment variable {}", quoted(name)),
            Self::Argument => write!(formatter, "argument"),
        }
    }
}

/// Why a container cannot get its environment. `Display` is the sentence that an event and the waiting message
/// show; it never holds a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ResolveError {
    /// What is wrong.
    pub problem: ResolveProblem,
    /// Where: the field of the pod, such as `spec.containers[0].env[2].valueFrom.secretKeyRef.key`.
    pub field_path: String,
}

/// The kinds of [`ResolveError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveProblem {
    /// `enableServiceLinks` is not set, and [`crate::ServiceLinksDefault::Refused`] was asked for.
    #[error("nil pod.spec.enableServiceLinks encountered, cannot construct envvars")]
    ServiceLinksUnset,
    /// The services have never been read.
    #[error("services have not yet been read at least once, cannot construct envvars")]
    ServicesNotRead,
    /// The services could not be read.
    #[error("failed to list services when setting up env vars")]
    ServicesUnavailable,
    /// A ConfigMap or Secret does not exist.
    #[error("{} {} not found", .kind.lower_case(), quoted(.name))]
    ObjectNotFound {
        /// Its kind.
        kind: ObjectKind,
        /// Its name.
        name: String,
    },
    /// A ConfigMap or Secret could not be fetched.
    #[error("{}", unavailable(*.kind, .namespace, .name, *.reason))]
    ObjectUnavailable {
        /// Its kind.
        kind: ObjectKind,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Why.
        reason: Unavailable,
    },
    /// A ConfigMap or Secret lacks a key.
    #[error("couldn't find key {key} in {} {namespace}/{name}", .kind.as_str())]
    KeyNotFound {
        /// Kind of the object.
        kind: ObjectKind,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key.
        key: String,
        /// Whether `binaryData` has it, which no environment can see.
        in_binary_data: bool,
        /// A key that differs only by case.
        similar: Option<String>,
    },
    /// A downward API field cannot be read.
    #[error(transparent)]
    Field(#[from] FieldRefError),
    /// `resourceFieldRef` names a container that the pod does not have.
    #[error("container {0} not found")]
    ContainerNotFound(String),
    /// `resourceFieldRef` names no known resource.
    #[error("unsupported container resource : {0}")]
    UnsupportedResource(String),
    /// The node's resources are needed and the node is not known.
    #[error("failed to find node object, expected a node")]
    NodeNotFound,
    /// A quantity cannot be read.
    #[error("invalid quantity {}: {error}", quoted(.text))]
    InvalidQuantity {
        /// As written.
        text: String,
        /// Why.
        error: quantity::QuantityError,
    },
    /// The pod has no such volume, or it is not set up.
    #[error("cannot find the volume {} referenced by FileKeyRef", quoted(.0))]
    VolumeNotFound(String),
    /// An env file gives no answer.
    #[error("couldn't parse env file {} of volume {}: {problem}", quoted(.path), quoted(.volume))]
    EnvFile {
        /// The volume.
        volume: String,
        /// The path in it.
        path: String,
        /// Why.
        problem: EnvFileProblem,
    },
    /// An env file lacks a key.
    #[error("environment variable key {} not found in file {} of volume {}", quoted(.key), quoted(.path), quoted(.volume))]
    EnvFileKeyNotFound {
        /// The key.
        key: String,
        /// The volume.
        volume: String,
        /// The path in it.
        path: String,
        /// Whether the file declares `export KEY`.
        exported: bool,
    },
    /// A `subPathExpr` cannot be used.
    #[error(transparent)]
    SubPath(#[from] SubPathError),
    /// `valueFrom` or an element of `envFrom` names no source.
    #[error("must specify one of: {0}")]
    NoSource(&'static str),
    /// A name that no process can have in its environment.
    #[error("{} is no name of an environment variable: it must not be empty nor contain '=' or a NUL byte", quoted(.0))]
    InvalidName(String),
    /// A value of a Secret that is not text.
    #[error("{0} is not valid UTF-8")]
    NotUtf8(Subject),
    /// A value with a NUL byte.
    #[error("{0} contains a NUL byte")]
    Nul(Subject),
    /// One string is larger than the kernel accepts.
    #[error("{subject} is too large: {size} bytes with its name and final NUL, the limit is {limit}")]
    StringTooLarge {
        /// What.
        subject: Subject,
        /// Bytes it would have.
        size: usize,
        /// Bytes that the kernel accepts.
        limit: usize,
    },
    /// Arguments and variables together are larger than the kernel accepts.
    #[error("environment and arguments are too large: {size} bytes, the limit is {limit}; {cause}")]
    TotalTooLarge {
        /// Bytes that they have, at least.
        size: usize,
        /// Bytes that the kernel accepts.
        limit: usize,
        /// What takes most of it.
        cause: String,
    },
}

fn unavailable(kind: ObjectKind, namespace: &str, name: &str, reason: Unavailable) -> String {
    match reason {
        Unavailable::NotRegistered => format!("object {}/{} not registered", quoted(namespace), quoted(name)),
        Unavailable::NotSynced => {
            format!("failed to sync {} cache: timed out waiting for the condition", kind.lower_case())
        }
        Unavailable::NoClient => {
            let kind = match kind {
                ObjectKind::ConfigMap => "configMap",
                ObjectKind::Secret => "secret",
            };
            format!("couldn't get {kind} {namespace}/{name}, no kubeClient defined")
        }
    }
}

impl ResolveError {
    /// Whether the environment is too large for `execve`: the waiting reason is then `EnvTooLarge`.
    pub fn is_too_large(&self) -> bool {
        matches!(self.problem, ResolveProblem::StringTooLarge { .. } | ResolveProblem::TotalTooLarge { .. })
    }

    /// The stable code of its finding.
    pub fn code(&self) -> FindingCode {
        match &self.problem {
            ResolveProblem::ServiceLinksUnset => FindingCode::ServiceLinksUnset,
            ResolveProblem::ServicesNotRead | ResolveProblem::ServicesUnavailable => {
                FindingCode::ServicesUnavailable
            }
            ResolveProblem::ObjectNotFound { .. } => FindingCode::SourceNotFound,
            ResolveProblem::ObjectUnavailable { .. } => FindingCode::SourceUnavailable,
            ResolveProblem::KeyNotFound { .. } => FindingCode::KeyNotFound,
            ResolveProblem::Field(_) => FindingCode::FieldNotSupported,
            ResolveProblem::ContainerNotFound(_)
            | ResolveProblem::UnsupportedResource(_)
            | ResolveProblem::NodeNotFound
            | ResolveProblem::InvalidQuantity { .. } => FindingCode::ResourceNotSupported,
            ResolveProblem::VolumeNotFound(_) => FindingCode::EnvFileVolume,
            ResolveProblem::EnvFile { .. } => FindingCode::EnvFileInvalid,
            ResolveProblem::EnvFileKeyNotFound { .. } => FindingCode::EnvFileKeyNotFound,
            ResolveProblem::SubPath(_) => FindingCode::SubPathInvalid,
            ResolveProblem::NoSource(_) => FindingCode::NoSource,
            ResolveProblem::InvalidName(_) => FindingCode::NameInvalid,
            ResolveProblem::NotUtf8(_) => FindingCode::ValueNotUtf8,
            ResolveProblem::Nul(_) => FindingCode::ValueNul,
            ResolveProblem::StringTooLarge { .. } | ResolveProblem::TotalTooLarge { .. } => {
                FindingCode::TooLarge
            }
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        let hint = match &self.problem {
            ResolveProblem::ServiceLinksUnset => "set enableServiceLinks to true or false".to_owned(),
            ResolveProblem::ServicesNotRead | ResolveProblem::ServicesUnavailable => {
                "wait until the node reaches its API server".to_owned()
            }
            ResolveProblem::ObjectNotFound { kind, .. } => {
                format!("create the {}, or set optional: true on the reference", kind.as_str())
            }
            ResolveProblem::ObjectUnavailable { .. } => return None,
            ResolveProblem::KeyNotFound { similar: Some(similar), .. } => {
                format!("the key is called {}; keys are case-sensitive", quoted(similar))
            }
            ResolveProblem::KeyNotFound { in_binary_data: true, .. } => {
                "the key stands in binaryData, which an environment cannot see; move it to data".to_owned()
            }
            ResolveProblem::KeyNotFound { kind, .. } => {
                format!("add the key to the {}, or set optional: true on the reference", kind.as_str())
            }
            ResolveProblem::Field(_) => {
                "use metadata.name, metadata.namespace, metadata.uid, metadata.labels['KEY'], \
                 metadata.annotations['KEY'], spec.nodeName, spec.serviceAccountName, status.hostIP, \
                 status.hostIPs, status.podIP or status.podIPs"
                    .to_owned()
            }
            ResolveProblem::ContainerNotFound(_) => {
                "name a container or init container of this pod, or leave containerName out".to_owned()
            }
            ResolveProblem::UnsupportedResource(_) => {
                "use limits. or requests. with cpu, memory, ephemeral-storage or hugepages-SIZE".to_owned()
            }
            ResolveProblem::NodeNotFound => "set the limit on the container".to_owned(),
            ResolveProblem::InvalidQuantity { .. } => "write a quantity such as 500m or 64Mi".to_owned(),
            ResolveProblem::VolumeNotFound(name) => {
                format!("add an emptyDir volume called {} to the pod", quoted(name))
            }
            ResolveProblem::EnvFile { problem: EnvFileProblem::NotFound, .. } => {
                "let an init container write the file, or set optional: true".to_owned()
            }
            ResolveProblem::EnvFile { problem: EnvFileProblem::Refused(EnvFileRefusal::Outside), .. } => {
                "write the file itself into the volume, or a relative link to a file beside it".to_owned()
            }
            ResolveProblem::EnvFile { problem: EnvFileProblem::Refused(_), .. } => {
                "the file must be a regular file inside the volume that the container's user can read"
                    .to_owned()
            }
            ResolveProblem::EnvFile { problem: EnvFileProblem::Invalid(_), .. } => {
                "correct the program that writes the file".to_owned()
            }
            ResolveProblem::EnvFileKeyNotFound { exported: true, key, .. } => {
                format!(
                    "the file declares {}; env files have no export keyword",
                    quoted(&format!("export {key}"))
                )
            }
            ResolveProblem::EnvFileKeyNotFound { .. } => {
                "write the key into the file, or set optional: true".to_owned()
            }
            ResolveProblem::SubPath(SubPathError::MissingValues(_)) => {
                "declare the variables with a value that is not empty; write $$(NAME) to keep the text"
                    .to_owned()
            }
            ResolveProblem::SubPath(_) => "the path must be relative and stay inside the volume".to_owned(),
            ResolveProblem::NoSource(_) => return None,
            ResolveProblem::InvalidName(_) => "choose another name".to_owned(),
            ResolveProblem::NotUtf8(_) => "mount the Secret as a volume to read binary values".to_owned(),
            ResolveProblem::Nul(_) => "remove the NUL byte; no process can receive one".to_owned(),
            ResolveProblem::StringTooLarge { .. } => {
                "mount large values as files; a program cannot be started with such a string".to_owned()
            }
            ResolveProblem::TotalTooLarge { .. } => {
                "mount large values as files, or set enableServiceLinks: false".to_owned()
            }
        };
        Some(hint)
    }

    /// The same as a finding of severity error.
    pub fn finding(&self) -> Finding {
        Finding {
            code: self.code(),
            severity: Severity::Error,
            field_path: self.field_path.clone(),
            span: None,
            variable: None,
            message: self.problem.to_string(),
            hint: self.hint(),
        }
    }
}
