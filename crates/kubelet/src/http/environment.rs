//! `GET /environment/NAMESPACE/POD?container=&showSecrets=`: the record of what containers got.

use environment::record::EnvironmentRecord;
use http::Response;

use super::query::Query;
use super::{Body, HttpError, HttpInterface, json};
use crate::environment_record::{self, RecordRequest};

pub(super) async fn answer(
    interface: &HttpInterface,
    (namespace, name): (&str, &str),
    query: Option<&str>,
) -> Result<Response<Body>, HttpError> {
    let query = Query::parse(query);
    let pod = interface.find(namespace, name).await?;
    let container = query.get("container").filter(|name| !name.is_empty());
    if let Some(container) = container
        && lifecycle::container_role(&pod, container).is_none()
    {
        return Err(HttpError::NotFound(format!("pod {name} has no container {container}")));
    }
    let request = RecordRequest { pod: &pod, container, show_secrets: query.flag("showSecrets") };
    let record = environment_record::read(&interface.agent, &request).await;
    Ok(json(&EnvironmentRecord { pods: vec![record], objects: Vec::new() }))
}
