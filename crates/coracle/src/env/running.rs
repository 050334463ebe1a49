//! `coracle env pod/NAME`: the record that the node keeps of a running pod, read over the API.

use environment::record::{EnvironmentRecord, PodRecord};
use http::Method;

use crate::cluster::{Cluster, ClusterError, escaped};

/// What was asked about a pod.
pub(super) struct Question<'q> {
    /// Its name.
    pub(super) name: &'q str,
    /// Only this container.
    pub(super) container: Option<&'q str>,
    /// Whether to ask for the values of Secrets.
    pub(super) show_secrets: bool,
}

/// Asks for the record of a pod. `None` where there is none: the API server is not Coracle's, or no container of the pod has
/// been started by a node.
///
/// # Errors
///
/// The server refuses or cannot be reached.
pub(super) async fn record(
    cluster: &Cluster,
    question: &Question<'_>,
) -> Result<Option<EnvironmentRecord>, ClusterError> {
    let what = format!("the environment of pod {}/{} cannot be read", cluster.namespace, question.name);
    let path = path(&cluster.namespace, question);
    let answer = cluster.call(Method::GET, &path, "application/json", Vec::new()).await?;
    // Not found, or not given to a node yet.
    if matches!(answer.code, 404 | 400) {
        return Ok(None);
    }
    let answer = answer.accepted(&what)?;
    let read = serde_json::from_slice(&answer.bytes)
        .map_err(|error| ClusterError::Unexpected { what, message: error.to_string() })?;
    Ok(Some(match read {
        Answer::Record(record) => record,
        Answer::Pod(pod) => EnvironmentRecord { pods: vec![pod], objects: Vec::new() },
    }))
}

/// A node answers with the whole document, or with its one pod.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Answer {
    Record(EnvironmentRecord),
    Pod(PodRecord),
}

fn path(namespace: &str, question: &Question<'_>) -> String {
    let name = escaped(question.name);
    let mut path = format!("/api/v1/namespaces/{}/pods/{name}/environment?", escaped(namespace));
    if let Some(container) = question.container {
        path.push_str(&format!("container={}&", escaped(container)));
    }
    path.push_str(if question.show_secrets { "showSecrets=true" } else { "showSecrets=false" });
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_holds_nothing_that_was_not_escaped() {
        let question = Question { name: "web", container: Some("a b/&"), show_secrets: false };
        assert_eq!(
            path("shop", &question),
            "/api/v1/namespaces/shop/pods/web/environment?container=a%20b%2F%26&showSecrets=false"
        );
    }
}
