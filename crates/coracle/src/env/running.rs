//! `coracle env pod/NAME`: the record that the node keeps of a running pod, read over the API.

use environment::record::{EnvironmentRecord, PodRecord};
use http::Request;
use kube::config::{Config, KubeConfigOptions, KubeconfigError};

use super::explain::Explanation;

/// What was asked on the command line.
pub(super) struct Question<'q> {
    /// `pod/NAME`.
    pub(super) pod: &'q str,
    /// Namespace; else the kubeconfig's.
    pub(super) namespace: Option<&'q str>,
    /// Only this container.
    pub(super) container: Option<&'q str>,
    /// Whether to ask for the values of Secrets.
    pub(super) show_secrets: bool,
}

/// Why the record could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunningError {
    /// The argument is no `pod/NAME`.
    #[error("{0:?} is no pod: write pod/NAME")]
    NotAPod(String),
    /// There is no usable kubeconfig.
    #[error("no cluster is configured")]
    Kubeconfig(#[source] Box<KubeconfigError>),
    /// The client could not be set up.
    #[error("the connection to the API server could not be set up")]
    Setup(#[source] Box<kube::Error>),
    /// The runtime of this command could not be started.
    #[error("the command could not be started")]
    Start(#[source] std::io::Error),
    /// The API server refused.
    #[error("the environment of pod {namespace}/{name} cannot be read: {message}")]
    Refused {
        /// Namespace of the pod.
        namespace: String,
        /// Name of the pod.
        name: String,
        /// What it says.
        message: String,
        /// HTTP status.
        code: u16,
    },
    /// The API server could not be asked.
    #[error("the environment of pod {namespace}/{name} cannot be read")]
    Request {
        /// Namespace of the pod.
        namespace: String,
        /// Name of the pod.
        name: String,
        /// Why.
        #[source]
        cause: Box<kube::Error>,
    },
}

impl RunningError {
    /// What to do about it.
    pub(super) fn hint(&self) -> String {
        match self {
            Self::NotAPod(_) => {
                "for example: coracle env pod/web -n shop; for files: coracle env -f FILE".to_owned()
            }
            Self::Kubeconfig(_) => {
                "set KUBECONFIG, for example to the output of `coracle kubeconfig`".to_owned()
            }
            Self::Setup(_) => "check the certificates and the address in the kubeconfig".to_owned(),
            Self::Start(_) => "check the limits of this shell (ulimit -a)".to_owned(),
            Self::Refused { code: 404, .. } => {
                "check the names and the namespace (-n); only a node of Coracle keeps this record".to_owned()
            }
            Self::Refused { code: 403, .. } => "the user of the kubeconfig may not read it".to_owned(),
            Self::Refused { .. } => "the message is the API server's".to_owned(),
            Self::Request { .. } => "check that the API server of the kubeconfig runs".to_owned(),
        }
    }
}

/// Asks for the record of a pod.
pub(super) fn explain(question: &Question<'_>) -> Result<Explanation, RunningError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(RunningError::Start)?;
    runtime.block_on(ask(question)).map(Explanation::of_record)
}

async fn ask(question: &Question<'_>) -> Result<EnvironmentRecord, RunningError> {
    let name = pod_name(question.pod)?;
    let config = Config::from_kubeconfig(&KubeConfigOptions::default())
        .await
        .map_err(|cause| RunningError::Kubeconfig(Box::new(cause)))?;
    let namespace = question.namespace.unwrap_or(&config.default_namespace).to_owned();
    let client = kube::Client::try_from(config).map_err(|cause| RunningError::Setup(Box::new(cause)))?;
    let refused = |cause| {
        let (namespace, name) = (namespace.clone(), name.to_owned());
        match cause {
            kube::Error::Api(status) => {
                RunningError::Refused { namespace, name, message: status.message.clone(), code: status.code }
            }
            cause => RunningError::Request { namespace, name, cause: Box::new(cause) },
        }
    };
    let request = Request::get(path(&namespace, name, question))
        .body(Vec::new())
        .map_err(|cause| refused(kube::Error::HttpError(cause)))?;
    match client.request::<Answer>(request).await.map_err(refused)? {
        Answer::Record(record) => Ok(record),
        Answer::Pod(pod) => Ok(EnvironmentRecord { pods: vec![pod], objects: Vec::new() }),
    }
}

/// A node answers with the whole document, or with its one pod.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Answer {
    Record(EnvironmentRecord),
    Pod(PodRecord),
}

fn pod_name(argument: &str) -> Result<&str, RunningError> {
    let not_a_pod = || RunningError::NotAPod(argument.to_owned());
    let (kind, name) = argument.split_once('/').ok_or_else(not_a_pod)?;
    let is_pod = matches!(kind, "pod" | "pods" | "po");
    // Whatever a name may hold is harmless in a path.
    if !is_pod || names::DnsSubdomain::parse(name).is_err() {
        return Err(not_a_pod());
    }
    Ok(name)
}

fn path(namespace: &str, name: &str, question: &Question<'_>) -> String {
    let mut path = format!("/api/v1/namespaces/{}/pods/{name}/environment?", escaped(namespace));
    if let Some(container) = question.container {
        path.push_str(&format!("container={}&", escaped(container)));
    }
    path.push_str(if question.show_secrets { "showSecrets=true" } else { "showSecrets=false" });
    path
}

/// Percent-encodes everything that is not safe in a path segment or a query value.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_holds_nothing_that_was_not_escaped() {
        let question =
            Question { pod: "pod/web", namespace: None, container: Some("a b/&"), show_secrets: false };
        assert_eq!(
            path("shop", pod_name(question.pod).unwrap(), &question),
            "/api/v1/namespaces/shop/pods/web/environment?container=a%20b%2F%26&showSecrets=false"
        );
        for argument in ["web", "deployment/web", "pod/", "pod/a/b", "pod/../x"] {
            assert!(matches!(pod_name(argument), Err(RunningError::NotAPod(_))), "{argument}");
        }
    }
}
