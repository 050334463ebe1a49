//! Brings the image of a container onto the node: pull policies, credentials, events.

use base64::Engine as _;
use cri::v1;
use k8s_openapi::api::core::v1::{Container, Pod, Secret};
use kube::Api;
use serde::Deserialize;
use std::collections::BTreeMap;

use api::reasons::event;

use crate::agent::Agent;
use events::EventType;

/// What is known of an image that is on the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct PresentImage {
    /// Its identifier.
    pub(crate) id: String,
    /// The user that its configuration names, if it is a number.
    pub(crate) uid: Option<i64>,
    /// The user that its configuration names, if it is a name.
    pub(crate) username: String,
    /// `Env`, `Entrypoint` and `Cmd`, as far as the runtime tells.
    pub(crate) config: Option<ImageProcess>,
}

/// The part of an image's configuration that shapes a process.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ImageProcess {
    #[serde(rename = "Env")]
    pub(crate) env: Vec<String>,
    #[serde(rename = "Entrypoint", deserialize_with = "null_is_empty")]
    pub(crate) entrypoint: Vec<String>,
    #[serde(rename = "Cmd", deserialize_with = "null_is_empty")]
    pub(crate) cmd: Vec<String>,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::<Vec<String>>::deserialize(deserializer)?.unwrap_or_default())
}

/// Why an image is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ImageError {
    /// The reference cannot be read.
    #[error("Failed to apply default image tag {}: {message}", crate::downward::go_quote(image))]
    InvalidName { image: String, message: String },
    /// The policy is `Never`.
    #[error("Container image {} is not present with pull policy of Never", crate::downward::go_quote(image))]
    NeverPull { image: String },
    /// It could not be pulled.
    #[error("{message}")]
    Pull { image: String, message: String },
    /// The runtime does not answer.
    #[error("Failed to inspect image {}: {message}", crate::downward::go_quote(image))]
    Inspect { image: String, message: String },
    /// The pod is to stop.
    #[error("the pod stops")]
    Cancelled,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    fn of(container: &Container) -> Self {
        match container.image_pull_policy.as_deref() {
            Some("Always") => Self::Always,
            Some("Never") => Self::Never,
            Some(_) | None => Self::IfNotPresent,
        }
    }
}

/// Makes sure that the image of `container` is on the node. `cancelled` ends a pull early.
pub(crate) async fn ensure_image(
    agent: &Agent,
    pod: &Pod,
    container: &Container,
    cancelled: impl Future<Output = ()>,
) -> Result<PresentImage, ImageError> {
    let image = container.image.clone().unwrap_or_default();
    if image.trim().is_empty() {
        return Err(ImageError::InvalidName { image, message: "the image reference is empty".to_owned() });
    }
    let present = image_status(agent, &image).await?;
    let policy = PullPolicy::of(container);
    match (policy, present) {
        (PullPolicy::IfNotPresent | PullPolicy::Never, Some(present)) => {
            announce_present(agent, pod, container, &image);
            return Ok(present);
        }
        // This machine's own file system needs no registry, whatever the policy.
        (PullPolicy::Always, Some(present)) if image == HOST_IMAGE => {
            announce_present(agent, pod, container, &image);
            return Ok(present);
        }
        (PullPolicy::Never, None) => return Err(ImageError::NeverPull { image }),
        (PullPolicy::Always, _) | (PullPolicy::IfNotPresent, None) => {}
    }
    pull(agent, pod, container, &image, cancelled).await?;
    image_status(agent, &image)
        .await?
        .ok_or_else(|| ImageError::Inspect { message: "it was pulled and is not there".to_owned(), image })
}

/// The reserved reference of the machine's own root file system: it counts as present whatever the pull policy.
const HOST_IMAGE: &str = "coracle.dev/host";

fn announce_present(agent: &Agent, pod: &Pod, container: &Container, image: &str) {
    let message = format!(
        "Container image {} already present on machine and can be accessed by the pod",
        crate::downward::go_quote(image)
    );
    agent.container_event(pod, &container.name, EventType::Normal, event::PULLED, message);
}

async fn image_status(agent: &Agent, image: &str) -> Result<Option<PresentImage>, ImageError> {
    let request = v1::ImageStatusRequest { image: Some(image_spec(image)), verbose: true };
    let answer = agent.images.image_status(request).await.map_err(|status| {
        let (image, message) = (image.to_owned(), status.message().to_owned());
        match status.code() {
            tonic::Code::InvalidArgument => ImageError::InvalidName { image, message },
            _ => ImageError::Inspect { image, message },
        }
    })?;
    let answer = answer.into_inner();
    Ok(answer.image.map(|found| PresentImage {
        id: found.id,
        uid: found.uid.map(|uid| uid.value),
        username: found.username,
        config: image_process(&answer.info),
    }))
}

/// The runtime tells an image's configuration as JSON under the key `info`, as containerd does.
fn image_process(info: &BTreeMap<String, String>) -> Option<ImageProcess> {
    let info: serde_json::Value = serde_json::from_str(info.get("info")?).ok()?;
    let config = info.pointer("/imageSpec/config")?;
    serde_json::from_value(config.clone()).ok()
}

fn image_spec(image: &str) -> v1::ImageSpec {
    v1::ImageSpec {
        image: image.to_owned(),
        user_specified_image: image.to_owned(),
        ..v1::ImageSpec::default()
    }
}

async fn pull(
    agent: &Agent,
    pod: &Pod,
    container: &Container,
    image: &str,
    cancelled: impl Future<Output = ()>,
) -> Result<(), ImageError> {
    let quoted = crate::downward::go_quote(image);
    agent.container_event(
        pod,
        &container.name,
        EventType::Normal,
        event::PULLING,
        format!("Pulling image {quoted}"),
    );
    let logins = pull_logins(agent, pod, image).await;
    let began = std::time::Instant::now();
    let mut cancelled = std::pin::pin!(cancelled);
    let mut last = None;
    // Each login is tried, and then none, as the registry may be public.
    for auth in logins.into_iter().map(Some).chain([None]) {
        let request = v1::PullImageRequest { image: Some(image_spec(image)), auth, sandbox_config: None };
        let answer = tokio::select! {
            answer = agent.images.pull_image(request) => answer,
            () = &mut cancelled => return Err(ImageError::Cancelled),
        };
        match answer {
            Ok(_) => {
                let took = go_duration(began.elapsed());
                let size = image_size(agent, image).await;
                let message = format!(
                    "Successfully pulled image {quoted} in {took} ({took} including waiting). Image size: {size} bytes."
                );
                agent.container_event(pod, &container.name, EventType::Normal, event::PULLED, message);
                return Ok(());
            }
            Err(status) => last = Some(status),
        }
    }
    let message = last.map(|status| status.message().to_owned()).unwrap_or_default();
    Err(ImageError::Pull { image: image.to_owned(), message })
}

async fn image_size(agent: &Agent, image: &str) -> u64 {
    let request = v1::ImageStatusRequest { image: Some(image_spec(image)), verbose: false };
    let answer = agent.images.image_status(request).await;
    answer.ok().and_then(|answer| answer.into_inner().image).map_or(0, |image| image.size)
}

/// A duration as Go prints one, to milliseconds: `1.203s`, `35ms`.
fn go_duration(duration: std::time::Duration) -> String {
    let millis = duration.as_millis();
    if millis < 1000 {
        return format!("{millis}ms");
    }
    let text = format!("{}.{:03}", millis / 1000, millis % 1000);
    format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[derive(Deserialize)]
struct DockerConfig {
    auths: BTreeMap<String, DockerLogin>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct DockerLogin {
    username: String,
    password: String,
    auth: String,
    #[serde(rename = "identitytoken")]
    identity_token: String,
}

/// The logins of the pod's pull secrets that fit the image's registry, in order.
async fn pull_logins(agent: &Agent, pod: &Pod, image: &str) -> Vec<v1::AuthConfig> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let secrets: Api<Secret> = Api::namespaced(agent.client.clone(), namespace);
    let mut logins = Vec::new();
    let mut missing = Vec::new();
    for reference in pod.spec.iter().flat_map(|spec| spec.image_pull_secrets.iter().flatten()) {
        match secrets.get_opt(&reference.name).await {
            Ok(Some(secret)) => logins.extend(logins_of(&secret, image)),
            Ok(None) | Err(_) => missing.push(reference.name.clone()),
        }
    }
    if !missing.is_empty() {
        let message = format!(
            "Unable to retrieve some image pull secrets ({}); attempting to pull the image may not succeed.",
            missing.join(", ")
        );
        agent.pod_event(pod, EventType::Warning, event::FAILED_TO_RETRIEVE_IMAGE_PULL_SECRET, message);
    }
    logins
}

fn logins_of(secret: &Secret, image: &str) -> Vec<v1::AuthConfig> {
    let data = secret.data.iter().flatten();
    let mut logins = Vec::new();
    for (key, value) in data {
        let auths = match key.as_str() {
            ".dockerconfigjson" => serde_json::from_slice::<DockerConfig>(&value.0)
                .map(|config| config.auths)
                .unwrap_or_default(),
            ".dockercfg" => serde_json::from_slice(&value.0).unwrap_or_default(),
            _ => continue,
        };
        for (registry, login) in auths {
            if fits(&registry, image) {
                logins.push(auth_config(registry, login));
            }
        }
    }
    logins
}

fn auth_config(registry: String, login: DockerLogin) -> v1::AuthConfig {
    let (mut username, mut password) = (login.username, login.password);
    if username.is_empty()
        && let Ok(decoded) = base64::engine::general_purpose::STANDARD.decode(login.auth.trim())
        && let Ok(text) = String::from_utf8(decoded)
        && let Some((user, secret)) = text.split_once(':')
    {
        (username, password) = (user.to_owned(), secret.to_owned());
    }
    v1::AuthConfig {
        username,
        password,
        server_address: registry,
        identity_token: login.identity_token,
        ..v1::AuthConfig::default()
    }
}

/// Whether a registry of a login is the one that an image comes from. Scheme and `/v1/`, `/v2/` do not count; a path does.
fn fits(registry: &str, image: &str) -> bool {
    let registry =
        registry.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let registry = registry.trim_end_matches("/v1").trim_end_matches("/v2");
    let (host, path) = registry.split_once('/').unwrap_or((registry, ""));
    let docker_hub = |host: &str| matches!(host, "index.docker.io" | "docker.io" | "registry-1.docker.io");
    let (image_host, image_path) = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        Some(_) | None => ("docker.io", image),
    };
    let same_host = match host.strip_prefix("*.") {
        Some(suffix) => image_host.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.')),
        None => host == image_host || (docker_hub(host) && docker_hub(image_host)),
    };
    same_host
        && (path.is_empty()
            || image_path.strip_prefix(path).is_some_and(|rest| rest.starts_with(['/', ':', '@'])))
}

#[cfg(test)]
mod tests {
    use super::{fits, go_duration, logins_of};
    use std::time::Duration;

    #[test]
    fn logins_fit_the_registry_of_the_image() {
        let rows = [
            ("https://index.docker.io/v1/", "busybox", true),
            ("docker.io", "library/busybox:1", true),
            ("quay.io", "busybox", false),
            ("quay.io", "quay.io/a/b@sha256:x", true),
            ("quay.io/a", "quay.io/a/b", true),
            ("quay.io/a", "quay.io/ab/b", false),
            ("*.example.com", "r.example.com/a", true),
            ("*.example.com", "example.com/a", false),
            ("127.0.0.1:5000", "127.0.0.1:5000/a", true),
        ];
        for (registry, image, expected) in rows {
            assert_eq!(fits(registry, image), expected, "{registry} {image}");
        }
    }

    #[test]
    fn both_forms_of_a_login_are_read() {
        let secret = serde_json::from_value(serde_json::json!({"data": {
            ".dockerconfigjson": base64_of(r#"{"auths": {"quay.io": {"auth": "dXNlcjpwOnc="}}}"#),
            ".dockercfg": base64_of(r#"{"quay.io": {"username": "u", "password": "p"}}"#),
        }}))
        .expect("a secret");
        let mut logins: Vec<(String, String)> = logins_of(&secret, "quay.io/a/b")
            .into_iter()
            .map(|login| (login.username, login.password))
            .collect();
        logins.sort();
        assert_eq!(logins, [("u".into(), "p".into()), ("user".into(), "p:w".into())]);
    }

    fn base64_of(text: &str) -> String {
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text)
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        assert_eq!(go_duration(Duration::from_millis(35)), "35ms");
        assert_eq!(go_duration(Duration::from_millis(1200)), "1.2s");
        assert_eq!(go_duration(Duration::from_secs(3)), "3s");
    }
}
