//! Findings: what a person should know about an environment, with a stable code, a place and a hint.

use std::ops::Range;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Probably not meant. Fatal under `--strict`.
    Warning,
    /// The container will not start.
    Error,
}

/// Writes the enum of codes with the stable text of each, so that neither can be forgotten.
macro_rules! finding_codes {
    ($($(#[$documentation:meta])* $variant:ident = $text:literal,)*) => {
        /// What a finding says. The text of [`FindingCode::as_str`] is stable; `docs/findings.md` explains each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FindingCode {
            $($(#[$documentation])* $variant,)*
        }

        impl FindingCode {
            /// Every code, in the order of `docs/findings.md`.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The stable code.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

finding_codes! {
    /// A reference names nothing that exists.
    ReferenceUndefined = "reference-undefined",
    /// A reference names a variable that is declared further down.
    ReferenceDeclaredLater = "reference-declared-later",
    /// A reference differs from a variable only by case.
    ReferenceCaseDiffers = "reference-case-differs",
    /// A reference names a variable that only the image or the runtime sets.
    ReferenceImageOnly = "reference-image-only",
    /// A reference names an optional variable whose source is absent.
    ReferenceSkipped = "reference-skipped",
    /// Text that looks like a command substitution of a shell stays as it is.
    ShellSubstitution = "shell-substitution",
    /// A value that others control is expanded into a shell script.
    ShellScriptExpansion = "shell-script-expansion",
    /// A name is defined twice in `env`.
    DuplicateName = "duplicate-name",
    /// A declared variable hides one of the image.
    ImageVariableShadowed = "image-variable-shadowed",
    /// A service variable hides one of the image.
    ServiceShadowsImage = "service-shadows-image",
    /// A declared variable hides a service variable.
    ServiceVariableShadowed = "service-variable-shadowed",
    /// A reference found a service variable before a declared one, because the pod asked for that.
    ServiceVariablePreferred = "service-variable-preferred",
    /// Two services give the same variable.
    ServicesCollide = "services-collide",
    /// A POSIX shell cannot read a variable of this name.
    NameNotPosix = "name-not-posix",
    /// The API server refuses this name.
    NameNotAccepted = "name-not-accepted",
    /// No process can have a variable of this name.
    NameInvalid = "name-invalid",
    /// An optional source is absent, so that the variable is not set.
    OptionalSkipped = "optional-skipped",
    /// A label or annotation is not set, so that the value is empty.
    FieldEmpty = "field-empty",
    /// A source is not in the input.
    SourceNotInInput = "source-not-in-input",
    /// A ConfigMap or Secret does not exist.
    SourceNotFound = "source-not-found",
    /// A ConfigMap or Secret could not be fetched.
    SourceUnavailable = "source-unavailable",
    /// A ConfigMap or Secret lacks a key.
    KeyNotFound = "key-not-found",
    /// A downward API field does not exist or is not for variables.
    FieldNotSupported = "field-not-supported",
    /// A resource field cannot be read.
    ResourceNotSupported = "resource-not-supported",
    /// `valueFrom` or an element of `envFrom` names no source.
    NoSource = "no-source",
    /// `enableServiceLinks` is not set.
    ServiceLinksUnset = "service-links-unset",
    /// The services could not be read.
    ServicesUnavailable = "services-unavailable",
    /// The volume of an env file does not exist.
    EnvFileVolume = "env-file-volume",
    /// An env file is absent or not valid.
    EnvFileInvalid = "env-file-invalid",
    /// An env file lacks a key.
    EnvFileKeyNotFound = "env-file-key-not-found",
    /// The gate `EnvFiles` is off.
    EnvFilesDisabled = "env-files-disabled",
    /// Today's Kubernetes would read an env file differently.
    EnvFileDiffers = "env-file-differs",
    /// `export ` stands before a name in an env file.
    EnvFileExport = "env-file-export",
    /// The volume of an env file is mounted where the design of env files does not want it.
    EnvFileVolumeMounted = "env-file-volume-mounted",
    /// A `subPathExpr` cannot be used.
    SubPathInvalid = "sub-path-invalid",
    /// A value is not text.
    ValueNotUtf8 = "value-not-utf8",
    /// A value has a NUL byte.
    ValueNul = "value-nul",
    /// The environment is larger than the kernel accepts.
    TooLarge = "too-large",
    /// The environment is almost as large as the kernel accepts.
    NearLimit = "near-limit",
    /// A value refers to one that has an error.
    ValueDependsOnError = "value-depends-on-error",
    /// A value has too many parts that are secret or not known.
    ValueSummedUp = "value-summed-up",
    /// There are more findings than are shown.
    FindingsTruncated = "findings-truncated",
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it says.
    pub code: FindingCode,
    /// How serious it is.
    pub severity: Severity,
    /// The field, such as `spec.containers[0].env[2].value`.
    pub field_path: String,
    /// Bytes inside the (decoded) value of that field, where the finding is about a part of it.
    pub span: Option<Range<usize>>,
    /// The variable it is about: the one referenced for a reference, else the one defined.
    pub variable: Option<String>,
    /// What is the case. Lower case, one sentence, without any value.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Finding {
    /// Whether it says that a reference stays as it is.
    pub fn is_unresolved_reference(&self) -> bool {
        matches!(
            self.code,
            FindingCode::ReferenceUndefined
                | FindingCode::ReferenceDeclaredLater
                | FindingCode::ReferenceCaseDiffers
                | FindingCode::ReferenceImageOnly
                | FindingCode::ReferenceSkipped
        )
    }

    /// Whether it belongs into a `Warning` header of a create or update: warning or above, and not an
    /// unresolved reference that a service created later could still satisfy.
    pub fn belongs_in_warning_header(&self) -> bool {
        let service = self.variable.as_deref().is_some_and(is_service_variable_name);
        self.severity >= Severity::Warning && !(self.is_unresolved_reference() && service)
    }
}

/// Whether `name` looks like a service variable: `*_SERVICE_HOST`, `*_SERVICE_PORT*` or `*_PORT*`.
pub fn is_service_variable_name(name: &str) -> bool {
    name.ends_with("_SERVICE_HOST") || name.contains("_PORT")
}
