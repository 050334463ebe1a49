//! The knobs of a resolution: feature gates, env file syntax, limits, and where the pod spec stands in its document.

/// The feature gates that change an environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `EnvFiles`: when off, a variable with `fileKeyRef` is skipped, with a finding.
    pub env_files: bool,
    /// `RelaxedEnvironmentVariableValidation`: when off, names inside env files follow the strict grammar.
    pub relaxed_names: bool,
}

impl Default for Gates {
    /// Both on, as in Kubernetes 1.36.
    fn default() -> Self {
        Self { env_files: true, relaxed_names: true }
    }
}

/// What the kernel accepts at `execve`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// One string `NAME=value` or one argument, including its NUL.
    pub string_bytes: usize,
    /// All arguments and variables together, including each one's NUL and eight bytes for its pointer.
    pub total_bytes: usize,
}

impl Default for Limits {
    /// 131,072 bytes a string (the kernel's constant), 2 MiB in all (a quarter of the usual 8 MiB of stack).
    fn default() -> Self {
        Self { string_bytes: 131_072, total_bytes: 2 * 1024 * 1024 }
    }
}

/// What an unset `enableServiceLinks` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ServiceLinksDefault {
    /// As the API server would have defaulted it: true.
    #[default]
    Enabled,
    /// An error, as in Kubernetes' kubelet, which only meets objects that were defaulted.
    Refused,
}

/// How to resolve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the pod spec in its document: `spec`, `spec.template.spec`, `spec.jobTemplate.spec.template.spec`.
    /// Field paths of findings and errors begin with it.
    pub spec_path: String,
    /// Feature gates.
    pub gates: Gates,
    /// The syntax of env files.
    pub env_file_syntax: envfile::Syntax,
    /// What `execve` accepts.
    pub limits: Limits,
    /// What an unset `enableServiceLinks` means.
    pub service_links_default: ServiceLinksDefault,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            spec_path: "spec".to_owned(),
            gates: Gates::default(),
            env_file_syntax: envfile::Syntax::Default,
            limits: Limits::default(),
            service_links_default: ServiceLinksDefault::default(),
        }
    }
}
