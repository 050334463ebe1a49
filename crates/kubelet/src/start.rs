//! Starts one container: image, configuration, creation, start, record. Says through events what it does, and answers in
//! the API's words what went wrong.

use std::path::Path;

use cri::v1;
use environment::{Finding, Severity};
use k8s_openapi::api::core::v1::{Container, Pod};
use lifecycle::StartRecord;

use api::reasons::{event, waiting};

use crate::agent::Agent;
use crate::container_config::{ConfigError, ConfigRequest, ConfiguredContainer, configure};
use crate::environment_record;
use crate::hook_log::SecretValues;
use crate::images::{ImageError, PresentImage, ensure_image};
use events::EventType;

/// What to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartRequest<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    /// The runtime's identifier of the container whose processes it sees.
    pub(crate) target: Option<&'a str>,
    pub(crate) attempt: u32,
    pub(crate) sandbox_id: &'a str,
    pub(crate) sandbox: &'a v1::PodSandboxConfig,
    pub(crate) pod_ips: &'a [String],
}

/// Why a container did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartContainerError {
    /// Its image is not there.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// It cannot be configured.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The runtime refused to create it.
    #[error("{message}")]
    Create { message: String },
    /// The runtime refused to start it.
    #[error("{message}")]
    Run { message: String, record: StartRecord },
}

impl StartContainerError {
    /// The waiting reason; `None` when the container is not waiting but the pod stops.
    pub(crate) fn waiting_reason(&self) -> Option<&'static str> {
        match self {
            Self::Image(ImageError::InvalidName { .. }) => Some(waiting::INVALID_IMAGE_NAME),
            Self::Image(ImageError::NeverPull { .. }) => Some(waiting::ERR_IMAGE_NEVER_PULL),
            Self::Image(ImageError::Pull { .. }) => Some(waiting::ERR_IMAGE_PULL),
            Self::Image(ImageError::Inspect { .. }) => Some(waiting::IMAGE_INSPECT_ERROR),
            Self::Image(ImageError::Cancelled) => None,
            Self::Config(error) if error.is_too_large() => Some(waiting::ENV_TOO_LARGE),
            Self::Config(_) => Some(waiting::CREATE_CONTAINER_CONFIG_ERROR),
            Self::Create { .. } => Some(waiting::CREATE_CONTAINER_ERROR),
            Self::Run { .. } => Some(waiting::RUN_CONTAINER_ERROR),
        }
    }

    /// The events that tell it: reason and message, all of type Warning.
    fn events(&self) -> Vec<(&'static str, String)> {
        let error = |text: &str| (event::FAILED, format!("Error: {text}"));
        match self {
            Self::Image(ImageError::Cancelled) => Vec::new(),
            Self::Image(ImageError::InvalidName { .. }) => {
                vec![(event::INSPECT_FAILED, self.to_string()), error(waiting::INVALID_IMAGE_NAME)]
            }
            Self::Image(ImageError::NeverPull { .. }) => {
                vec![(event::ERR_IMAGE_NEVER_PULL, self.to_string()), error(waiting::ERR_IMAGE_NEVER_PULL)]
            }
            Self::Image(ImageError::Pull { image, message }) => vec![
                (
                    event::FAILED,
                    format!("Failed to pull image {}: {message}", crate::downward::go_quote(image)),
                ),
                error(waiting::ERR_IMAGE_PULL),
            ],
            Self::Image(ImageError::Inspect { .. }) => {
                vec![(event::INSPECT_FAILED, self.to_string()), error(waiting::IMAGE_INSPECT_ERROR)]
            }
            Self::Config(config) if config.is_too_large() => {
                vec![(event::ENV_TOO_LARGE, format!("Error: {self}"))]
            }
            Self::Config(_) | Self::Create { .. } | Self::Run { .. } => vec![error(&self.to_string())],
        }
    }

    /// Writes the events.
    pub(crate) fn announce(&self, agent: &Agent, pod: &Pod, container: &str) {
        for (reason, message) in self.events() {
            agent.container_event(pod, container, EventType::Warning, reason, message);
        }
    }
}

/// Starts a container. `cancelled` ends a pull early, and `stop` the waiting for its hook; nothing between is interrupted.
pub(crate) async fn start_container(
    agent: &Agent,
    request: StartRequest<'_>,
    cancelled: impl Future<Output = ()>,
) -> Result<StartRecord, StartContainerError> {
    let StartRequest { pod, container, attempt, .. } = request;
    let mut lap = Lap::start();
    let (image, configured) = prepare(agent, pod, container, attempt, request.pod_ips, cancelled).await?;
    fault::point("container.configured");
    lap.done("the container is configured");
    announce_findings(agent, pod, container, &configured.resolved.resolution.findings);
    make_log_dir(agent, pod, container);
    // What the runtime says may name the program, and that may come from a Secret.
    let secrets = SecretValues::of(&environment_record::declared(&configured));
    let id = create(agent, &request, configured.config.clone(), &secrets).await?;
    fault::point("container.created");
    lap.done("the container is created");
    agent.container_event(pod, &container.name, EventType::Normal, event::CREATED, "Container created");
    let record = start_record(container, attempt, &image, &id);
    let start = v1::StartContainerRequest { container_id: id.clone() };
    if let Err(status) = agent.runtime.start_container(start).await {
        return Err(StartContainerError::Run { message: secrets.hide(status.message()), record });
    }
    fault::point("container.started");
    agent.container_event(pod, &container.name, EventType::Normal, event::STARTED, "Container started");
    lap.done("the container is started");
    environment_record::save(agent, pod, container, &id, &image, configured).await;
    fault::point("container.recorded");
    lap.done("the record is kept");
    Ok(record)
}

/// What a container needs before it can be created: its image and its configuration.
pub(crate) async fn prepare(
    agent: &Agent,
    pod: &Pod,
    container: &Container,
    attempt: u32,
    pod_ips: &[String],
    cancelled: impl Future<Output = ()>,
) -> Result<(PresentImage, ConfiguredContainer), StartContainerError> {
    let image = ensure_image(agent, pod, container, cancelled).await?;
    fault::point("image.present");
    let request = ConfigRequest { pod, container, attempt, image: &image, pod_ips };
    let configured = configure(agent, request).await?;
    Ok((image, configured))
}

/// How long each step of a start took, for the node's own log at level debug.
struct Lap(std::time::Instant);

impl Lap {
    fn start() -> Self {
        Self(std::time::Instant::now())
    }

    fn done(&mut self, step: &str) {
        tracing::debug!(took = ?self.0.elapsed(), "{step}");
        self.0 = std::time::Instant::now();
    }
}

fn start_record(container: &Container, attempt: u32, image: &PresentImage, id: &str) -> StartRecord {
    StartRecord {
        id: id.to_owned(),
        attempt,
        image: container.image.clone().unwrap_or_default(),
        image_id: image.id.clone(),
    }
}

async fn create(
    agent: &Agent,
    request: &StartRequest<'_>,
    mut config: v1::ContainerConfig,
    secrets: &SecretValues,
) -> Result<String, StartContainerError> {
    if let Some(target) = request.target {
        see_processes_of(target, &mut config);
    }
    let create = v1::CreateContainerRequest {
        pod_sandbox_id: request.sandbox_id.to_owned(),
        config: Some(config),
        sandbox_config: Some(request.sandbox.clone()),
    };
    match agent.runtime.create_container(create).await {
        Ok(answer) => Ok(answer.into_inner().container_id),
        Err(status) => Err(StartContainerError::Create { message: secrets.hide(status.message()) }),
    }
}

/// A container of its own process namespace gets that of another one. Where the pod shares its processes, or the node
/// its own, they are seen anyway.
fn see_processes_of(target: &str, config: &mut v1::ContainerConfig) {
    let security = config.linux.as_mut().and_then(|linux| linux.security_context.as_mut());
    let Some(options) = security.map(|security| security.namespace_options.get_or_insert_default()) else {
        return;
    };
    if options.pid() == v1::NamespaceMode::Container {
        options.set_pid(v1::NamespaceMode::Target);
        target.clone_into(&mut options.target_id);
    }
}

/// The runtime writes the log into a directory that has to be there.
fn make_log_dir(agent: &Agent, pod: &Pod, container: &Container) {
    let metadata = &pod.metadata;
    let dir = agent.config.log_dir(
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
        metadata.uid.as_deref().unwrap_or_default(),
    );
    if let Err(error) = crate::files::create_dirs(&dir.join(Path::new(&container.name))) {
        tracing::warn!(%error, container = container.name, "cannot make the directory of the log");
    }
}

/// One event for all unresolved references of a container and start, and one for all other findings.
fn announce_findings(agent: &Agent, pod: &Pod, container: &Container, findings: &[Finding]) {
    let told = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let (references, others): (Vec<&Finding>, Vec<&Finding>) =
        told.partition(|finding| finding.is_unresolved_reference());
    for (reason, findings) in
        [(event::UNRESOLVED_REFERENCE, references), (event::ENVIRONMENT_FINDINGS, others)]
    {
        if findings.is_empty() {
            continue;
        }
        let mut message = findings.iter().map(|finding| sentence(finding)).collect::<Vec<_>>().join("; ");
        if message.len() > api::limits::EVENT_MESSAGE {
            message = format!(
                "{} findings, see: coracle env pod/{} -n {} -c {}; the first: {}",
                findings.len(),
                pod.metadata.name.as_deref().unwrap_or_default(),
                pod.metadata.namespace.as_deref().unwrap_or_default(),
                container.name,
                sentence(findings[0]),
            );
        }
        agent.container_event(pod, &container.name, EventType::Warning, reason, message);
    }
}

fn sentence(finding: &Finding) -> String {
    format!("{}: {}", finding.field_path, finding.message)
}
