//! Runs the hooks of a container as Kubernetes does: exec succeeds with status 0, HTTP with any answer, sleep when its time is
//! over. What failed is told by an event without details, as Kubernetes tells it.

use std::time::Duration;

use api::reasons::event;
use k8s_openapi::api::core::v1::{HTTPGetAction, LifecycleHandler, Pod};

use crate::agent::Agent;
use crate::events::EventType;
use crate::handlers::{self, HandlerError, HandlerTarget};
use crate::http_client::{HttpAnswer, HttpError, HttpQuestion};
use crate::http_url::{HttpUrl, Scheme};

/// A hook that failed: the waiting message of its container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HookError(String);

/// Runs a hook to its end; it has no time limit of its own.
pub(crate) async fn run_hook(
    agent: &Agent,
    pod: &Pod,
    target: HandlerTarget<'_>,
    hook: &LifecycleHandler,
) -> Result<(), HookError> {
    let metadata = &pod.metadata;
    let place = format!(
        "for Container \"{}\" in Pod \"{}_{}({})\" failed - error: ",
        target.container.name,
        metadata.name.as_deref().unwrap_or_default(),
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.uid.as_deref().unwrap_or_default()
    );
    if let Some(exec) = &hook.exec {
        let command = exec.command.clone().unwrap_or_default();
        let shown = command.join(" ");
        let failed = |error: String, output: &str| {
            let output = crate::downward::go_quote(output);
            Err(HookError(format!("Exec lifecycle hook ([{shown}]) {place}{error}, message: {output}")))
        };
        return match handlers::exec(agent, target, command, Duration::ZERO).await {
            Ok(outcome) if outcome.exit_code == 0 => Ok(()),
            Ok(outcome) => {
                let error =
                    format!("command '{shown}' exited with {}: {}", outcome.exit_code, outcome.stderr);
                failed(error, &format!("{}{}", outcome.stdout, outcome.stderr))
            }
            Err(error) => failed(error.to_string(), ""),
        };
    }
    if let Some(action) = &hook.http_get {
        let path = action.path.as_deref().unwrap_or_default();
        return match ask(agent, target, action).await {
            Ok(_) => Ok(()),
            Err(error) => Err(HookError(format!("HTTP lifecycle hook ({path}) {place}{error}"))),
        };
    }
    if let Some(sleep) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        return Ok(());
    }
    Err(HookError("Cannot run handler: invalid handler: no supported action".to_owned()))
}

/// Asks by HTTP. A server that answers HTTPS in plain HTTP is asked once more so, without what is secret.
async fn ask(
    agent: &Agent,
    target: HandlerTarget<'_>,
    action: &HTTPGetAction,
) -> Result<HttpAnswer, HandlerError> {
    let question = handlers::http_question(target, action)?;
    let again = HttpQuestion {
        url: HttpUrl { scheme: Scheme::Http, ..question.url.clone() },
        headers: question.headers.clone().without_authorization(),
    };
    let place = question.url.authority();
    match handlers::http_get(agent, target, question, None).await {
        Err(HandlerError::Http { error: HttpError::NotTls, url }) => {
            // The first error stands when the second attempt fails too.
            let first = HandlerError::Http { error: HttpError::NotTls, url };
            let answer = handlers::http_get(agent, target, again, None).await.map_err(|_| first)?;
            let message = format!(
                "request to HTTPS lifecycle hook {place} got HTTP response, retry with HTTP succeeded"
            );
            let name = &target.container.name;
            let reason = event::LIFECYCLE_HTTP_FALLBACK;
            agent.container_event(target.pod, name, EventType::Warning, reason, message);
            Ok(answer)
        }
        other => other,
    }
}
