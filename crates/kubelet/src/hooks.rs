//! Runs the hooks of a container as Kubernetes does: exec succeeds with status 0, HTTP with any answer, sleep when its time is
//! over. What failed is told by an event without details, as Kubernetes tells it.

use std::time::Duration;

use k8s_openapi::api::core::v1::{LifecycleHandler, Pod};

use crate::agent::Agent;
use crate::handlers::{self, HandlerTarget};

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
        return match handlers::http_get(target, action, None).await {
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
