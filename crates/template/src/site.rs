//! Where in an object a text stands, as far as that says who would expand references besides the template.

use crate::kinds::{Kind, group_of};

/// A place in an object. Containers are numbered as they are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// Nobody expands anything here.
    Plain,
    /// Anything may be expanded here: an object of a kind that is not Kubernetes' own.
    Foreign,
    /// Content that a shell may read.
    Script,
    /// An object whose content is for others: a ConfigMap or a Secret.
    Holder,
    /// On the way to a pod spec; these keys are left.
    Toward(&'static [&'static str]),
    /// A pod spec.
    PodSpec,
    /// A list of containers.
    Containers,
    /// A container.
    Container(usize),
    /// Its list `env`.
    Env(usize),
    /// An entry of it.
    EnvEntry(usize, usize),
    /// The value of an entry.
    EnvValue(usize, usize),
    /// `command` or `args`.
    Words(usize),
    /// `volumeMounts`.
    Mounts(usize),
    /// An entry of it.
    Mount(usize),
    /// `subPathExpr`.
    SubPath(usize),
    /// A probe.
    Probe(usize),
    /// Its `exec`.
    ProbeExec(usize),
    /// Its command.
    ProbeWords(usize),
    /// `lifecycle`: hooks expand nothing, but may run a shell.
    Hooks,
}

/// What Kubernetes can resolve at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Sources of `envFrom`, services, and the entries of `env` above this one.
    Above(usize),
    /// All variables of the container.
    All,
    /// The entries of `env` only.
    Entries,
}

impl Site {
    /// The root of an object.
    pub(crate) fn of_object(api_version: &str, kind: &str) -> Self {
        const POD_SPEC_BELOW: [(&[&str], &[&str]); 4] = [
            (&[], &["spec"]),
            (&["template"], &["template", "spec"]),
            (&["spec", "template"], &["spec", "template", "spec"]),
            (
                &["spec", "jobTemplate", "spec", "template"],
                &["spec", "jobTemplate", "spec", "template", "spec"],
            ),
        ];
        if let Some(template) = Kind::of(api_version, kind).and_then(|kind| kind.template) {
            let found = POD_SPEC_BELOW.iter().find(|(path, _)| *path == template);
            return found.map_or(Self::Plain, |(_, path)| Self::Toward(path));
        }
        let group = group_of(api_version);
        match kind {
            "ConfigMap" | "Secret" if group.is_empty() => Self::Holder,
            _ if !group.contains('.') || group.ends_with(".k8s.io") || group.ends_with(".openshift.io") => {
                Self::Plain
            }
            _ => Self::Foreign,
        }
    }

    /// The value of a key.
    pub(crate) fn key(self, key: &str) -> Self {
        match self {
            Self::Foreign | Self::Script => self,
            Self::Holder => match key {
                "data" | "stringData" | "binaryData" => Self::Script,
                _ => Self::Plain,
            },
            Self::Toward([only]) if *only == key => Self::PodSpec,
            Self::Toward([first, rest @ ..]) if *first == key => Self::Toward(rest),
            Self::PodSpec => match key {
                "containers" | "initContainers" | "ephemeralContainers" => Self::Containers,
                _ => Self::Plain,
            },
            Self::Container(scope) => match key {
                "env" => Self::Env(scope),
                "command" | "args" => Self::Words(scope),
                "volumeMounts" => Self::Mounts(scope),
                "livenessProbe" | "readinessProbe" | "startupProbe" => Self::Probe(scope),
                "lifecycle" => Self::Hooks,
                _ => Self::Plain,
            },
            Self::EnvEntry(scope, index) if key == "value" => Self::EnvValue(scope, index),
            Self::Mount(scope) if key == "subPathExpr" => Self::SubPath(scope),
            Self::Probe(scope) if key == "exec" => Self::ProbeExec(scope),
            Self::ProbeExec(scope) if key == "command" => Self::ProbeWords(scope),
            Self::Hooks if key == "command" => Self::Script,
            Self::Hooks => Self::Hooks,
            Self::Plain
            | Self::Toward(_)
            | Self::Containers
            | Self::Env(_)
            | Self::EnvEntry(..)
            | Self::EnvValue(..)
            | Self::Words(_)
            | Self::Mounts(_)
            | Self::Mount(_)
            | Self::SubPath(_)
            | Self::Probe(_)
            | Self::ProbeExec(_)
            | Self::ProbeWords(_) => Self::Plain,
        }
    }

    /// An item of a list.
    pub(crate) fn item(self, index: usize) -> Self {
        match self {
            Self::Env(scope) => Self::EnvEntry(scope, index),
            Self::Mounts(scope) => Self::Mount(scope),
            Self::Foreign | Self::Script | Self::Words(_) | Self::ProbeWords(_) => self,
            Self::Plain
            | Self::Holder
            | Self::Toward(_)
            | Self::PodSpec
            | Self::Containers
            | Self::Container(_)
            | Self::EnvEntry(..)
            | Self::EnvValue(..)
            | Self::Mount(_)
            | Self::SubPath(_)
            | Self::Probe(_)
            | Self::ProbeExec(_)
            | Self::Hooks => Self::Plain,
        }
    }

    /// What Kubernetes can resolve in a text that stands here, and for which container.
    pub(crate) fn reach(self) -> Option<(usize, Reach)> {
        match self {
            Self::EnvValue(scope, index) => Some((scope, Reach::Above(index))),
            Self::Words(scope) | Self::SubPath(scope) => Some((scope, Reach::All)),
            Self::ProbeWords(scope) => Some((scope, Reach::Entries)),
            Self::Plain
            | Self::Foreign
            | Self::Script
            | Self::Holder
            | Self::Toward(_)
            | Self::PodSpec
            | Self::Containers
            | Self::Container(_)
            | Self::Env(_)
            | Self::EnvEntry(..)
            | Self::Mounts(_)
            | Self::Mount(_)
            | Self::Probe(_)
            | Self::ProbeExec(_)
            | Self::Hooks => None,
        }
    }

    /// Whether a shell, or something else that is not known here, may be what a text is for.
    pub(crate) fn may_be_script(self) -> bool {
        matches!(self, Self::Foreign | Self::Script | Self::Words(_) | Self::ProbeWords(_))
    }
}
