//! `eviction`: deletes a pod if its disruption budget allows that now.

use http::StatusCode;
use serde_json::{Value, json};
use store::{Key, Purpose, WriteError};

use crate::body::{self, Content};
use crate::deletion::{DeleteOptions, delete_object};
use crate::gatekeeper::Call;
use crate::lookup::objects;
use crate::object::{at, encode, map_mut, name, text, tree};
use crate::query::Query;
use crate::request::Verb;
use crate::responses::{Answer, json as json_answer};
use crate::status::ApiError;
use crate::timestamps::now_text;
use crate::writing::Write;
use crate::{budgets, field_manager};

/// How often an eviction is tried again after somebody else was quicker.
const ATTEMPTS: usize = 16;
/// Most evictions of a budget that wait for their pod to go.
const WAITING: usize = 2000;

pub(super) async fn run(mut call: Call) -> Result<Answer, ApiError> {
    if call.verb != Verb::Create {
        return Err(ApiError::MethodNotAllowed);
    }
    let asked_dry = call.dry_run()?;
    let content = body::read(&call.server, &mut call.request).await?;
    let eviction = body::tree(&content)?;
    if !matches!(text(&eviction, &["kind"]), "" | "Eviction") {
        return Err(ApiError::bad_request("the body of an eviction must be an Eviction of policy/v1"));
    }
    let told = name(&eviction);
    if !told.is_empty() && told != call.name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = delete_options(&eviction)?;
    if options.dry_run && !asked_dry && call.query.get("dryRun").is_some() {
        return Err(ApiError::bad_request("Non-matching dry-run options in request and content"));
    }
    let write = call.write(field_manager::OWN, asked_dry || options.dry_run);
    evict(&write, &call.name, &options).await?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(json_answer(StatusCode::CREATED, &status))
}

fn delete_options(eviction: &Value) -> Result<DeleteOptions, ApiError> {
    let mut options = at(eviction, &["deleteOptions"]).cloned().unwrap_or_else(|| json!({}));
    if let Some(fields) = options.as_object_mut() {
        // What stands inside of another object need not say what it is.
        fields.insert("kind".to_owned(), json!("DeleteOptions"));
        fields.insert("apiVersion".to_owned(), json!("v1"));
    }
    let content =
        Content { bytes: options.to_string().into(), media_type: Some("application/json".to_owned()) };
    DeleteOptions::parse(&content, &Query::parse(""))
}

async fn evict(write: &Write<'_>, name: &str, options: &DeleteOptions) -> Result<(), ApiError> {
    for _ in 0..ATTEMPTS {
        let stored =
            write.server.store.get(&write.key(name)).ok_or_else(|| ApiError::not_found(write.kind, name))?;
        let pod = tree(&stored);
        let mut options = options.clone();
        if let Some(wanted) = &options.uid
            && wanted != text(&pod, &["metadata", "uid"])
        {
            // The deletion says it in its own words.
            return delete_object(write, name, &options).await.map(drop);
        }
        if !is_running(&pod) {
            return delete_object(write, name, &options).await.map(drop);
        }
        match take_from_budget(write, &pod).await? {
            Taken::Nothing | Taken::One => {}
            Taken::Again => continue,
            Taken::OfUnready => {
                // It must not become ready unseen.
                let own = text(&pod, &["metadata", "resourceVersion"]).to_owned();
                options.resource_version.get_or_insert(own);
                return delete_object(write, name, &options).await.map(drop);
            }
        }
        if options.resource_version.is_none() && !write.dry_run {
            tell_pod(write, &pod, stored.revision()).await;
        }
        return delete_object(write, name, &options).await.map(drop);
    }
    Err(ApiError::stale(write.kind, name))
}

/// Whether the loss of a pod would be a disruption.
fn is_running(pod: &Value) -> bool {
    !matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed" | "Pending")
        && text(pod, &["metadata", "deletionTimestamp"]).is_empty()
}

/// What an eviction took from the pod's budget.
enum Taken {
    /// There is no budget.
    Nothing,
    One,
    /// The pod is not ready and does not count.
    OfUnready,
    /// The budget changed meanwhile.
    Again,
}

async fn take_from_budget(write: &Write<'_>, pod: &Value) -> Result<Taken, ApiError> {
    let Some(kind) = write.server.kinds.find("policy", "v1", "poddisruptionbudgets") else {
        return Ok(Taken::Nothing);
    };
    let mut budgets = objects(write.server, "policy", "poddisruptionbudgets", Some(write.namespace));
    budgets.retain(|budget| budgets::is_about(budget, pod));
    let mut budget = match budgets.len() {
        0 => return Ok(Taken::Nothing),
        1 => budgets.remove(0),
        _ => return Err(ApiError::SeveralBudgets),
    };
    let mut status = budgets::status(write.server, &budget);
    let count = |status: &Value, field: &str| status[field].as_i64().unwrap_or(0);
    let (healthy, desired) = (count(&status, "currentHealthy"), count(&status, "desiredHealthy"));
    if !budgets::is_ready(pod) {
        let always = text(&budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow";
        if always || (healthy >= desired && desired > 0) {
            return Ok(Taken::OfUnready);
        }
    }
    let allowed = count(&status, "disruptionsAllowed");
    if allowed == 0 {
        let budget = name(&budget).to_owned();
        return Err(ApiError::BudgetExhausted { budget, desired, healthy });
    }
    if write.dry_run {
        return Ok(Taken::One);
    }
    status["disruptionsAllowed"] = json!(allowed - 1);
    let waiting = map_mut(&mut status, "disruptedPods");
    if waiting.len() >= WAITING {
        return Err(ApiError::forbidden(
            kind,
            name(&budget),
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    waiting.insert(name(pod).to_owned(), json!(now_text()));
    let revision = text(&budget, &["metadata", "resourceVersion"]).parse().unwrap_or(0);
    budget["status"] = status;
    let key = Key::new(kind.collection(), write.namespace, name(&budget));
    let draft = encode(&budget);
    match write.server.store.update(key, revision, draft, Purpose::Ordinary).await {
        Ok(_) => Ok(Taken::One),
        Err(WriteError::Conflict { .. } | WriteError::Missing { .. }) => Ok(Taken::Again),
        Err(error) => Err(ApiError::from_write(kind, name(&budget), error)),
    }
}

/// Says on the pod why it goes. Somebody else's change in between is no reason to keep it.
async fn tell_pod(write: &Write<'_>, pod: &Value, revision: u64) {
    let mut pod = pod.clone();
    let conditions = map_mut(&mut pod, "status").entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| text(condition, &["type"]) != "DisruptionTarget");
        conditions
            .push(json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": now_text()}));
    }
    let draft = encode(&pod);
    let _ = write.server.store.update(write.key(name(&pod)), revision, draft, Purpose::Ordinary).await;
}
