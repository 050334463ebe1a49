//! Puts the configuration of a container together: environment, command, mounts, security, resources. What fails here is a
//! `CreateContainerConfigError`, in Kubernetes' words.

use cri::v1;
use environment::{
    Argument, ContainerView, Environment, Finding, Gates, Options, ResolveError, Resolved, Severity,
};
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::agent::Agent;
use crate::environment_sources::{SourceRequest, fetch_sources};
use crate::images::PresentImage;
use crate::labels;
use crate::mounts::{self, MountError};
use crate::pod_users;
use crate::resources;
use crate::security::{self, RunAsNonRootError};

/// Why a container cannot be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// Its environment cannot be resolved: the first of the errors.
    #[error("{0}")]
    Environment(ResolveError),
    /// Its environment has findings, and they are not let pass.
    #[error("{}", strict_message(.0))]
    Strict(Vec<Finding>),
    /// It would be root and must not.
    #[error(transparent)]
    RunAsNonRoot(#[from] RunAsNonRootError),
    /// The pod is to have users of its own, and none can be given.
    #[error("cannot give the pod users of its own: {0}")]
    Users(String),
    /// A mount cannot be made.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The specification has no such container.
    #[error("container {0} not found")]
    UnknownContainer(String),
}

fn strict_message(findings: &[Finding]) -> String {
    let shown: Vec<&str> = findings.iter().map(|finding| finding.message.as_str()).collect();
    format!("strict references: {}", shown.join("; "))
}

impl ConfigError {
    /// The environment is larger than the kernel accepts.
    pub(crate) fn is_too_large(&self) -> bool {
        match self {
            Self::Environment(error) => error.is_too_large(),
            Self::Strict(_)
            | Self::Users(_)
            | Self::RunAsNonRoot(_)
            | Self::Mount(_)
            | Self::UnknownContainer(_) => false,
        }
    }
}

/// What a container is configured for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfigRequest<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) attempt: u32,
    pub(crate) image: &'a PresentImage,
    pub(crate) pod_ips: &'a [String],
}

/// A container's configuration and how its environment came about.
#[derive(Debug)]
pub(crate) struct ConfiguredContainer {
    pub(crate) config: v1::ContainerConfig,
    pub(crate) resolved: Resolved,
}

/// How the environment of this node's containers is resolved.
pub(crate) fn environment_options(agent: &Agent) -> Options {
    Options {
        gates: Gates {
            env_files: agent.config.feature_gates.env_files,
            relaxed_names: agent.config.feature_gates.relaxed_environment_variable_validation,
        },
        env_file_syntax: agent.config.env_file_syntax,
        ..Options::default()
    }
}

/// Configures a container.
///
/// # Errors
///
/// The first thing that keeps it from being created.
pub(crate) async fn configure(
    agent: &Agent,
    request: ConfigRequest<'_>,
) -> Result<ConfiguredContainer, ConfigError> {
    let ConfigRequest { pod, container, attempt, image, pod_ips } = request;
    security::check_run_as_non_root(pod, container, image)?;
    let spec = pod.spec.as_ref();
    let views = spec.map(environment::containers).unwrap_or_default();
    let view: &ContainerView<'_> = views
        .iter()
        .find(|view| view.name == container.name)
        .ok_or_else(|| ConfigError::UnknownContainer(container.name.clone()))?;
    let options = environment_options(agent);
    let identity = security::file_identity(pod, container, image);
    let source_request =
        SourceRequest { pod, container: view, options: &options, image, identity: &identity, pod_ips };
    let sources = fetch_sources(agent, &source_request).await;
    let mut resolved = environment::resolve(pod, view, &sources, &options);
    if !resolved.errors.is_empty() {
        return Err(ConfigError::Environment(resolved.errors.swap_remove(0)));
    }
    let resolution = &resolved.resolution;
    let severe: Vec<Finding> =
        resolution.findings.iter().filter(|finding| finding.severity >= Severity::Warning).cloned().collect();
    if agent.config.strict_references && !severe.is_empty() {
        return Err(ConfigError::Strict(severe));
    }
    let mounts = mounts::container_mounts(agent, request, &resolution.environment).await?;
    let first_user =
        pod_users::first_user(&agent.config, pod).map_err(|error| ConfigError::Users(error.to_string()))?;
    let config = v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: container.name.clone(), attempt }),
        image: Some(v1::ImageSpec {
            image: if image.id.is_empty() { view.image.to_owned() } else { image.id.clone() },
            user_specified_image: view.image.to_owned(),
            ..v1::ImageSpec::default()
        }),
        command: arguments(resolution.command.as_deref()),
        args: arguments(resolution.args.as_deref()),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: variables(&resolution.environment),
        mounts,
        labels: labels::container_labels(pod, container),
        annotations: labels::container_annotations(pod, container, attempt),
        log_path: log_path(&container.name, attempt),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        linux: Some(v1::LinuxContainerConfig {
            resources: Some(resources::container_resources(pod, container, agent.memory_bytes())),
            security_context: Some(security::container_security(
                pod,
                container,
                image,
                security::SeccompSettings {
                    by_default: agent.config.seccomp_default,
                    directory: &agent.config.seccomp_dir,
                },
                first_user,
            )),
        }),
        stop_signal: stop_signal(container),
        ..v1::ContainerConfig::default()
    };
    Ok(ConfiguredContainer { config, resolved })
}

/// Where a container's log is, below the pod's log directory.
pub(crate) fn log_path(container: &str, attempt: u32) -> String {
    format!("{container}/{attempt}.log")
}

fn arguments(arguments: Option<&[Argument]>) -> Vec<String> {
    let shown = arguments.unwrap_or_default().iter();
    shown.filter_map(|argument| argument.value.exposed().map(std::borrow::Cow::into_owned)).collect()
}

fn variables(environment: &Environment) -> Vec<v1::KeyValue> {
    environment
        .entries()
        .iter()
        .filter_map(|entry| {
            let value = entry.value.exposed()?;
            Some(v1::KeyValue { key: entry.name.to_string(), value: value.into_owned() })
        })
        .collect()
}

fn stop_signal(container: &Container) -> i32 {
    let name = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.as_deref());
    name.and_then(v1::Signal::from_str_name).unwrap_or(v1::Signal::RuntimeDefault) as i32
}
