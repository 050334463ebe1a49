//! `binding`: gives a pod to a node.

use http::StatusCode;
use serde_json::{Value, json};

use crate::body;
use crate::gatekeeper::Call;
use crate::object::{list, map_mut, set_metadata, text, tree};
use crate::request::Verb;
use crate::responses::{Answer, json as json_answer};
use crate::status::ApiError;
use crate::timestamps;

pub(super) async fn run(mut call: Call) -> Result<Answer, ApiError> {
    if call.verb != Verb::Create {
        return Err(ApiError::MethodNotAllowed);
    }
    let dry_run = call.dry_run()?;
    let content = body::read(&call.server, &mut call.request).await?;
    let binding = body::tree(&content)?;
    let node = text(&binding, &["target", "name"]);
    let target_kind = text(&binding, &["target", "kind"]);
    if node.is_empty() || !matches!(target_kind, "" | "Node") {
        return Err(ApiError::bad_request("a binding needs target.name, the name of a Node"));
    }
    if let Some(own) = call.identity.node_name()
        && own != node
    {
        let detail = format!("node \"{own}\" can only bind pods to itself");
        return Err(ApiError::forbidden(&call.kind, &call.name, detail));
    }
    for _ in 0..16 {
        let stored =
            call.server.store.get(&call.key()).ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
        let mut pod = tree(&stored);
        check(&call, &binding, &pod)?;
        bind(&mut pod, &binding, node);
        if dry_run {
            return Ok(bound());
        }
        let draft = crate::object::encode(&pod);
        let purpose = store::Purpose::Ordinary;
        match call.server.store.update(call.key(), stored.revision(), draft, purpose).await {
            Ok(_) => return Ok(bound()),
            Err(store::WriteError::Conflict { .. }) => {}
            Err(error) => return Err(ApiError::from_write(&call.kind, &call.name, error)),
        }
    }
    Err(ApiError::stale(&call.kind, &call.name))
}

fn check(call: &Call, binding: &Value, pod: &Value) -> Result<(), ApiError> {
    let conflict = |detail: String| ApiError::Conflict {
        group: String::new(),
        resource: "pods/binding".to_owned(),
        name: call.name.clone(),
        detail,
    };
    let wanted = text(binding, &["metadata", "uid"]);
    let own = text(pod, &["metadata", "uid"]);
    if !wanted.is_empty() && wanted != own {
        return Err(conflict(format!(
            "Precondition failed: UID in precondition: {wanted}, UID in object meta: {own}"
        )));
    }
    if !text(pod, &["metadata", "deletionTimestamp"]).is_empty() {
        return Err(conflict(format!("pod {} is being deleted, cannot be assigned to a host", call.name)));
    }
    let node = text(pod, &["spec", "nodeName"]);
    if !node.is_empty() {
        return Err(conflict(format!("pod {} is already assigned to node \"{node}\"", call.name)));
    }
    if !list(pod, &["spec", "schedulingGates"]).is_empty() {
        return Err(conflict(format!("pod {} has non-empty .spec.schedulingGates", call.name)));
    }
    Ok(())
}

/// Sets the node, adds the binding's annotations, and says that the pod is scheduled.
fn bind(pod: &mut Value, binding: &Value, node: &str) {
    map_mut(pod, "spec").insert("nodeName".to_owned(), json!(node));
    if let Some(added) = binding.pointer("/metadata/annotations").and_then(Value::as_object) {
        let mut annotations =
            pod.pointer("/metadata/annotations").and_then(Value::as_object).cloned().unwrap_or_default();
        annotations.extend(added.clone());
        set_metadata(pod, "annotations", Some(Value::Object(annotations)));
    }
    let scheduled = json!({
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": timestamps::now_text(),
    });
    let status = map_mut(pod, "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| text(condition, &["type"]) != "PodScheduled");
        conditions.push(scheduled);
    }
}

fn bound() -> Answer {
    json_answer(
        StatusCode::CREATED,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    )
}
