//! The API server as a client sees it: a kubeconfig, calls, and what can go wrong.

use std::future::Future;
use std::path::PathBuf;

use http::{Method, Request, header};
use http_body_util::{BodyExt, Limited};
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use manifest::{Limits, Node};
use serde_json::Value;

use crate::failure::{CANNOT_START, Failure, INPUT};
use crate::flag_values;
use crate::terminal_text::paragraph;

/// Which API server.
#[derive(clap::Args, Clone)]
pub(crate) struct ClusterArgs {
    /// Namespace [default: the kubeconfig's].
    #[arg(short, long, value_name = "NAME", value_parser = flag_values::namespace)]
    pub(crate) namespace: Option<String>,
    /// The kubeconfig [default: KUBECONFIG, else ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Its context [default: the current one].
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// Most bytes of one answer: a page of 500 objects has less.
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// Most pages of a list.
const MOST_PAGES: usize = 1_000;

/// Our group and version as a path.
const TEMPLATES: &str = "/apis/template.coracle.dev/v1";

/// Why the API server did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    /// There is no usable kubeconfig.
    #[error("no cluster is configured")]
    Kubeconfig(#[source] Box<KubeconfigError>),
    /// The client could not be set up.
    #[error("the connection to the API server could not be set up")]
    Setup(#[source] Box<kube::Error>),
    /// The API server could not be asked.
    #[error("the API server does not answer")]
    Unreachable(#[source] Box<kube::Error>),
    /// It refused.
    #[error("{what}: {message}")]
    Refused {
        /// What was asked for, in a few words.
        what: String,
        /// What it says.
        message: String,
        /// HTTP status.
        code: u16,
        /// Which fields it means.
        causes: Vec<Cause>,
    },
    /// A stored template is not there.
    #[error("template \"{name}\" could not be found")]
    NoTemplate {
        /// Its name.
        name: String,
    },
    /// A kind that the API server does not have.
    #[error("the API server has no kind {kind} in {api_version}")]
    NoKind {
        /// Group and version.
        api_version: String,
        /// Kind.
        kind: String,
    },
    /// An object that belongs to another instance.
    #[error("{object} belongs to instance {owner}")]
    Foreign {
        /// Kind and name.
        object: String,
        /// The other instance.
        owner: String,
    },
    /// An answer that makes no sense.
    #[error("{what}: the answer of the API server cannot be used: {message}")]
    Unexpected {
        /// What was asked for.
        what: String,
        /// Why.
        message: String,
    },
}

/// A field that the API server means, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Its path.
    pub(crate) field: String,
    /// What is wrong.
    pub(crate) message: String,
}

impl ClusterError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Kubeconfig(_) => "set KUBECONFIG, for example to the output of `coracle kubeconfig`",
            Self::Setup(_) => "check the certificates and the address in the kubeconfig",
            Self::Unreachable(_) => "check that the API server of the kubeconfig runs",
            Self::Refused { code: 403, .. } => "the user of the kubeconfig may not do that",
            Self::Refused { code: 404, .. } => {
                "check the names and the namespace (-n); templates are processed by API servers of Coracle only, and here with --local"
            }
            Self::Refused { code: 409, .. } => "somebody else changes it at the same time: try again",
            Self::Refused { .. } => "the message is the API server's",
            Self::NoTemplate { .. } => {
                "check the name and the namespace (-n): kubectl get templates; a file is given with -f"
            }
            Self::NoKind { .. } => {
                "check apiVersion and kind of the object; install what defines the kind first"
            }
            Self::Foreign { .. } => {
                "give the objects of this instance other names, by a parameter, or delete the other one"
            }
            Self::Unexpected { .. } => "check that the address in the kubeconfig is that of an API server",
        }
    }

    /// Whether it is about the one object: others may be taken all the same.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Refused { code, .. } => *code < 500,
            Self::NoKind { .. } | Self::Foreign { .. } => true,
            Self::Kubeconfig(_)
            | Self::Setup(_)
            | Self::Unreachable(_)
            | Self::NoTemplate { .. }
            | Self::Unexpected { .. } => false,
        }
    }

    /// As it is shown.
    pub(crate) fn failure(&self) -> Failure {
        let status = match self {
            Self::Kubeconfig(_) | Self::NoTemplate { .. } => INPUT,
            Self::Setup(_) | Self::Unreachable(_) | Self::Unexpected { .. } => CANNOT_START,
            Self::Refused { code, .. } if *code >= 500 => CANNOT_START,
            Self::Refused { .. } | Self::NoKind { .. } | Self::Foreign { .. } => 1,
        };
        Failure::new(status, self).hint(self.hint())
    }

    /// The same error, its texts passed through `redact`.
    pub(crate) fn redacted(mut self, redact: impl Fn(&str) -> String) -> Self {
        if let Self::Refused { message, causes, .. } = &mut self {
            *message = redact(message);
            for cause in causes {
                cause.message = redact(&cause.message);
            }
        }
        self
    }
}

/// Waits for what needs a runtime.
///
/// # Errors
///
/// The runtime cannot be started.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(CANNOT_START, &error).hint("check the limits of this shell (ulimit -a)")
    })?;
    Ok(runtime.block_on(future))
}

/// What the API server answered.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) warnings: Vec<String>,
    pub(crate) bytes: Vec<u8>,
}

impl Answer {
    /// The answer as a tree; null when it is none.
    pub(crate) fn tree(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    /// The answer, if it is no refusal.
    pub(crate) fn accepted(self, what: &str) -> Result<Self, ClusterError> {
        if self.code < 300 {
            return Ok(self);
        }
        let status = self.tree();
        let message = paragraph(status["message"].as_str().unwrap_or("refused without a message"));
        let causes = status.pointer("/details/causes").and_then(Value::as_array);
        let text = |cause: &Value, field: &str| cause[field].as_str().unwrap_or_default().to_owned();
        let causes = causes
            .into_iter()
            .flatten()
            .map(|cause| Cause { field: text(cause, "field"), message: paragraph(&text(cause, "message")) })
            .collect();
        Err(ClusterError::Refused { what: what.to_owned(), message, code: self.code, causes })
    }
}

/// A connection to an API server, and the namespace that is worked in.
pub(crate) struct Cluster {
    client: kube::Client,
    pub(crate) namespace: String,
}

impl Cluster {
    /// Connects as the kubeconfig says.
    ///
    /// # Errors
    ///
    /// There is no usable kubeconfig.
    pub(crate) async fn connect(args: &ClusterArgs) -> Result<Self, ClusterError> {
        let options = KubeConfigOptions { context: args.context.clone(), ..KubeConfigOptions::default() };
        let config = match &args.kubeconfig {
            Some(path) => match Kubeconfig::read_from(path) {
                Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
                Err(error) => Err(error),
            },
            None => Config::from_kubeconfig(&options).await,
        };
        let config = config.map_err(|cause| ClusterError::Kubeconfig(Box::new(cause)))?;
        let namespace = args.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = kube::Client::try_from(config).map_err(|cause| ClusterError::Setup(Box::new(cause)))?;
        Ok(Self { client, namespace })
    }

    /// One call.
    ///
    /// # Errors
    ///
    /// The server cannot be reached.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<Answer, ClusterError> {
        let unreachable = |cause| ClusterError::Unreachable(Box::new(cause));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::ACCEPT, "application/json")
            .body(kube::client::Body::from(body))
            .map_err(|cause| unreachable(kube::Error::HttpError(cause)))?;
        let response = self.client.send(request).await.map_err(unreachable)?;
        let warnings = response.headers().get_all(header::WARNING).iter();
        let warnings = warnings.filter_map(|value| value.to_str().ok()).map(warning_text).collect();
        let code = response.status().as_u16();
        let body = Limited::new(response.into_body(), MOST_BYTES);
        let bytes = body.collect().await.map_err(|cause| ClusterError::Unexpected {
            what: "the API server".to_owned(),
            message: cause.to_string(),
        })?;
        let bytes = bytes.to_bytes().to_vec();
        Ok(Answer { code, warnings, bytes })
    }

    /// Reads; `None` when it is not there.
    ///
    /// # Errors
    ///
    /// The server refuses or cannot be reached.
    pub(crate) async fn get(&self, path: &str, what: &str) -> Result<Option<Value>, ClusterError> {
        let answer = self.call(Method::GET, path, "application/json", Vec::new()).await?;
        if answer.code == 404 {
            return Ok(None);
        }
        Ok(Some(answer.accepted(what)?.tree()))
    }

    /// Every item of a collection, page by page.
    ///
    /// # Errors
    ///
    /// The server refuses or cannot be reached.
    pub(crate) async fn list(&self, path: &str, selector: &str) -> Result<Vec<Value>, ClusterError> {
        let mut items = Vec::new();
        let mut page = String::new();
        for _ in 0..MOST_PAGES {
            let path = format!("{path}?limit=500&labelSelector={}{page}", escaped(selector));
            let list = self.get(&path, &path).await?.unwrap_or_default();
            items.extend(list["items"].as_array().cloned().unwrap_or_default());
            match list.pointer("/metadata/continue").and_then(Value::as_str) {
                Some(token) if !token.is_empty() => page = format!("&continue={}", escaped(token)),
                Some(_) | None => return Ok(items),
            }
        }
        Err(ClusterError::Unexpected { what: path.to_owned(), message: "it has no end".to_owned() })
    }

    /// A stored template, without what only says how it is stored.
    ///
    /// # Errors
    ///
    /// It is not there, or the server cannot be reached.
    pub(crate) async fn stored_template(&self, namespace: &str, name: &str) -> Result<Node, ClusterError> {
        let path = format!("{TEMPLATES}/namespaces/{}/templates/{}", escaped(namespace), escaped(name));
        let answer = self.call(Method::GET, &path, "application/json", Vec::new()).await?;
        if answer.code == 404 {
            return Err(ClusterError::NoTemplate { name: name.to_owned() });
        }
        let mut root = tree(&answer.accepted(&format!("template/{name}"))?.bytes, "the template")?;
        if let Some(metadata) = root.get_mut("metadata") {
            if let Some(annotations) = metadata.get_mut("annotations").and_then(Node::entries_mut) {
                annotations.retain(|entry| entry.key != LAST_APPLIED);
            }
            if let Some(entries) = metadata.entries_mut() {
                entries.retain(|entry| {
                    ["name", "namespace", "labels", "annotations"].contains(&entry.key.as_str())
                        && (entry.key != "annotations" || !entry.value.entries().is_empty())
                });
            }
        }
        Ok(root)
    }

    /// Has the server process a whole template.
    ///
    /// # Errors
    ///
    /// What is wrong with the template, field by field.
    pub(crate) async fn process(&self, template: &Node) -> Result<(Node, Vec<String>), ClusterError> {
        let path =
            format!("{TEMPLATES}/namespaces/{}/processedtemplates?output=template", escaped(&self.namespace));
        let body = serde_json::to_vec(template).unwrap_or_default();
        let answer = self.call(Method::POST, &path, "application/json", body).await?;
        let answer = answer.accepted("unable to process template")?;
        Ok((tree(&answer.bytes, "the processed template")?, answer.warnings))
    }
}

/// Where `kubectl apply` notes what was applied.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// An answer as a tree, keys in their order.
pub(crate) fn tree(bytes: &[u8], what: &str) -> Result<Node, ClusterError> {
    let unexpected = |message: String| ClusterError::Unexpected { what: what.to_owned(), message };
    let documents =
        manifest::parse_stream(bytes, &Limits::default()).map_err(|error| unexpected(error.to_string()))?;
    let document = documents.into_iter().next().ok_or_else(|| unexpected("it is empty".to_owned()))?;
    Ok(document.root)
}

/// Percent-encodes everything that is not safe in a path segment or a query value.
pub(crate) fn escaped(text: &str) -> String {
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

/// The text of a `Warning` header: `299 - "text"`, with quotes and backslashes escaped.
pub(crate) fn warning_text(header: &str) -> String {
    let quoted = header.splitn(3, ' ').nth(2).unwrap_or(header);
    let Some(inner) = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return quoted.to_owned();
    };
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        text.push(if character == '\\' { characters.next().unwrap_or('\\') } else { character });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_header_is_unquoted() {
        assert_eq!(warning_text(r#"299 - "unknown field \"spec.foo\"""#), "unknown field \"spec.foo\"");
    }
}
