//! One delivery of a hook, from its first line in the log to its last: it runs the handler, judges what came of it by its
//! contract, and tells. When it is due, and what follows, is decided elsewhere.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use api::reasons::event;
use cri::v1;
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, HTTPHeader, LifecycleHandler, Pod};
use lifecycle::{HookKey, HookOutcome, HookReason, HookSettings, pod_container};
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, SharedAgent};
use crate::environment_record::{self, RecordedVariable};
use crate::handlers::{self, HandlerError, HandlerTarget};
use crate::hook_environment::{expand, hook_variables, secret_values};
use crate::hook_log::{HookLog, HookLogs, SecretValues, last_bytes, readable};
use crate::hook_output::{HookOutput, OutputPipes};
use crate::hook_result::{Delivery, HandlerName, Performed, waiting_message};
use crate::http_client::{HttpAnswer, HttpError, HttpQuestion};
use crate::http_url::{HttpUrl, Scheme};
use crate::pod_network::PodNetwork;
use events::EventType;

/// Bytes of a failed hook's output that a waiting message holds.
const MESSAGE_OUTPUT: usize = 1024;

/// A delivery that is to be made.
pub(crate) struct HookJob {
    pub(crate) agent: SharedAgent,
    pub(crate) pod: Arc<Pod>,
    pub(crate) handler: LifecycleHandler,
    pub(crate) key: HookKey,
    /// The instance's identifier in the runtime; before it exists there is none.
    pub(crate) id: Option<String>,
    /// Its number, from 1.
    pub(crate) number: u32,
    /// What a preStop hook is told.
    pub(crate) reason: Option<HookReason>,
    pub(crate) network: PodNetwork,
    /// What the container will get, where that is not recorded yet.
    pub(crate) variables: Option<Vec<RecordedVariable>>,
}

/// How a delivery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookEnd {
    pub(crate) key: HookKey,
    pub(crate) outcome: HookOutcome,
    /// The waiting message of a container whose hook failed.
    pub(crate) message: String,
}

/// What a handler did, and what of its output may be shown.
struct Report {
    performed: Performed,
    stdout: String,
    stderr: String,
}

impl Report {
    fn silent(performed: Performed) -> Self {
        Self { performed, stdout: String::new(), stderr: String::new() }
    }
}

impl HookJob {
    /// Runs the hook to its end, unless it is given up: then `None`, and nobody waits for its answer.
    pub(crate) async fn run(self, given_up: CancellationToken) -> Option<HookEnd> {
        let key = self.key.clone();
        let uid = self.pod.metadata.uid.clone().unwrap_or_default();
        let _running = self.agent.running_hooks.enter(&uid, &key);
        let mut output = HookOutput::new(self.open_log());
        let delivery = self.delivery();
        output.remark(&format!("{} hook, {}", key.kind.as_str(), delivery.circumstances()));
        tokio::select! {
            end = AssertUnwindSafe(self.deliver(&mut output)).catch_unwind() => Some(end.unwrap_or_else(|_| {
                tracing::error!(container = key.container, "panic while a hook was run");
                let message = "the node agent met an internal error".to_owned();
                self.tell(true, &message);
                HookEnd { key: key.clone(), outcome: HookOutcome::Failed, message }
            })),
            () = given_up.cancelled() => {
                output.give_up();
                output.remark(&format!("{} hook: nobody waits for it any more", key.kind.as_str()));
                None
            }
        }
    }

    fn open_log(&self) -> Option<HookLog> {
        let metadata = &self.pod.metadata;
        let dir = self.agent.config.log_dir(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
            metadata.uid.as_deref().unwrap_or_default(),
        );
        let opened = HookLogs::new(&dir, &self.key.container).begin(&self.key);
        opened
            .inspect_err(|error| tracing::warn!(container = self.key.container, %error, "a hook has no log"))
            .ok()
    }

    /// Where the runtime copies what the command prints. Without them it is all written at the end.
    fn output_pipes(&self) -> Option<OutputPipes> {
        let uid = self.pod.metadata.uid.as_deref().unwrap_or_default();
        let dir = self.agent.config.pod_dirs(uid).hook_output();
        let name = format!("{}-{}", self.key.container, self.key.kind.as_str());
        let made = OutputPipes::make(&dir, &name);
        made.inspect_err(|error| tracing::debug!(%error, "a hook's output comes at its end only")).ok()
    }

    fn delivery(&self) -> Delivery<'_> {
        Delivery {
            namespace: self.pod.metadata.namespace.as_deref().unwrap_or_default(),
            pod: self.pod.metadata.name.as_deref().unwrap_or_default(),
            key: &self.key,
            number: self.number,
            reason: self.reason,
        }
    }

    async fn deliver(&self, output: &mut HookOutput) -> HookEnd {
        let settings = HookSettings::of(&self.pod);
        let Some(container) = pod_container(&self.pod, &self.key.container).map(|found| found.spec) else {
            let message = "the container is not in the specification any more".to_owned();
            return HookEnd { key: self.key.clone(), outcome: HookOutcome::Failed, message };
        };
        let variables = match &self.variables {
            Some(variables) => variables.clone(),
            None => environment_record::variables(&self.agent, &self.pod, &container.name),
        };
        let secrets = secret_values(&self.agent, &self.pod, container, &variables).await;
        output.hide(secrets.clone());
        let began = tokio::time::Instant::now();
        fault::point("hook.running");
        let report = self.perform_in_time(settings, container, &variables, &secrets, output).await;
        fault::point("hook.performed");
        let took = began.elapsed();
        let name = self.handler_name();
        let Report { performed, stdout, stderr } = report;
        let performed = match performed {
            Performed::Refused(message) => Performed::Refused(secrets.hide(&message)),
            other => other,
        };
        let words = performed.words(settings.document, took);
        let shown_error = last_bytes(stderr.trim_end(), MESSAGE_OUTPUT).0;
        let failure = performed.failure(settings.document, name, shown_error);
        // What was not written when the time was over, or the runtime did not answer.
        output.give_up();
        let verdict = if failure.is_some() { "failed" } else { "succeeded" };
        let circumstances = self.delivery().circumstances();
        output.remark(&format!("{} hook {verdict}: {words}, {circumstances}", self.key.kind.as_str()));
        fault::point("hook.logged");
        self.tell(failure.is_some(), &words);
        fault::point("hook.told");
        match failure {
            None => {
                HookEnd { key: self.key.clone(), outcome: HookOutcome::Succeeded, message: String::new() }
            }
            Some(error) => {
                let both = format!("{stdout}{stderr}");
                let output = last_bytes(&both, MESSAGE_OUTPUT).0;
                let message = waiting_message(name, &self.place(), &error, output);
                HookEnd { key: self.key.clone(), outcome: HookOutcome::Failed, message }
            }
        }
    }

    fn tell(&self, failed: bool, words: &str) {
        let message = self.delivery().end_message(words, failed);
        let (type_, reason) = if failed {
            (EventType::Warning, self.key.kind.failure_reason())
        } else {
            (EventType::Normal, event::HOOK_FINISHED)
        };
        self.agent.container_event(&self.pod, &self.key.container, type_, reason, message);
    }

    /// `for Container "C" in Pod "NAME_NS(UID)"`.
    fn place(&self) -> String {
        let metadata = &self.pod.metadata;
        format!(
            "for Container \"{}\" in Pod \"{}_{}({})\"",
            self.key.container,
            metadata.name.as_deref().unwrap_or_default(),
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.uid.as_deref().unwrap_or_default()
        )
    }

    fn handler_name(&self) -> HandlerName<'_> {
        let handler = &self.handler;
        if let Some(exec) = &handler.exec {
            HandlerName::Exec(exec.command.as_deref().unwrap_or_default())
        } else if let Some(action) = &handler.http_get {
            HandlerName::Http(action.path.as_deref().unwrap_or_default())
        } else if let Some(sleep) = &handler.sleep {
            HandlerName::Sleep(sleep.seconds)
        } else {
            HandlerName::Unknown
        }
    }

    /// Runs the handler as long as its annotation allows, and says so when it takes long.
    async fn perform_in_time(
        &self,
        settings: HookSettings,
        container: &Container,
        variables: &[RecordedVariable],
        secrets: &SecretValues,
        output: &mut HookOutput,
    ) -> Report {
        let limit = lifecycle::hook_timeout(&self.pod, &self.key.container, self.key.kind);
        let announce = async {
            tokio::time::sleep(Duration::from_secs(api::limits::HOOK_RUNNING_SECONDS)).await;
            let message = self.delivery().running_message();
            let name = &self.key.container;
            self.agent.container_event(&self.pod, name, EventType::Normal, event::HOOK_RUNNING, message);
            std::future::pending::<()>().await;
        };
        let over = async {
            match limit {
                Some(limit) => {
                    tokio::time::sleep(limit).await;
                    limit
                }
                None => std::future::pending().await,
            }
        };
        let announced = async {
            tokio::select! {
                report = self.perform(settings, container, variables, secrets, limit, output) => report,
                () = announce => unreachable!("an announcement never ends"),
            }
        };
        tokio::select! {
            report = announced => report,
            limit = over => Report::silent(Performed::TimedOut(limit)),
        }
    }

    async fn perform(
        &self,
        settings: HookSettings,
        container: &Container,
        variables: &[RecordedVariable],
        secrets: &SecretValues,
        limit: Option<Duration>,
        output: &mut HookOutput,
    ) -> Report {
        let refused = |message: String| Report::silent(Performed::Refused(message));
        let target = HandlerTarget {
            pod: &self.pod,
            container,
            container_id: self.id.as_deref().unwrap_or_default(),
            network: &self.network,
            agent_name: "kube-lifecycle",
        };
        let expanded = |text: &str| if settings.expand { expand(text, variables) } else { text.to_owned() };
        let reason = self.reason.filter(|_| settings.parameters).map(HookReason::as_str);
        if let Some(exec) = &self.handler.exec {
            let Some(id) = &self.id else {
                return refused(
                    "exec is incompatible with preStart, which is sent before the container exists"
                        .to_owned(),
                );
            };
            let command = command(exec, expanded, reason);
            let pipes = self.output_pipes();
            let [stdout_pipe, stderr_pipe] = pipes.as_ref().map(OutputPipes::names).unwrap_or_default();
            let request = v1::ExecSyncRequest {
                container_id: id.clone(),
                cmd: command,
                // The runtime ends the command a moment after nobody waits for it any more.
                timeout: limit
                    .map_or(0, |limit| i64::try_from(limit.as_secs()).unwrap_or(i64::MAX).saturating_add(1)),
                coracle_environment: hook_variables(&self.key, self.number, self.reason, variables),
                coracle_stdout_pipe: stdout_pipe,
                coracle_stderr_pipe: stderr_pipe,
            };
            let answer = output.follow(pipes, self.agent.runtime.exec_sync(request)).await;
            return match answer.map(tonic::Response::into_inner) {
                Ok(answer) => {
                    output.complete([&answer.stdout, &answer.stderr]);
                    Report {
                        performed: Performed::Exec {
                            exit_code: answer.exit_code,
                            said_ok: answer.stdout.trim_ascii() == b"ok",
                        },
                        stdout: readable(&answer.stdout, secrets),
                        stderr: readable(&answer.stderr, secrets),
                    }
                }
                Err(status) => refused(status.message().to_owned()),
            };
        }
        if let Some(action) = &self.handler.http_get {
            let action = expanded_action(action, expanded);
            return match ask(&self.agent, target, &action, reason).await {
                Ok(answer) => {
                    let body = readable(answer.body.as_bytes(), secrets);
                    output.whole(&body);
                    Report { performed: Performed::Http(answer.status), stdout: body, stderr: String::new() }
                }
                // The address may hold what was expanded into it; the manifest's words say where it went.
                Err(HandlerError::Http { error, .. }) => refused(error.to_string()),
                Err(error) => refused(error.to_string()),
            };
        }
        if let Some(sleep) = &self.handler.sleep {
            let time = u64::try_from(sleep.seconds).unwrap_or(0);
            tokio::time::sleep(Duration::from_secs(time)).await;
            return Report::silent(Performed::Slept(time));
        }
        refused("no supported action".to_owned())
    }
}

fn command(exec: &ExecAction, expanded: impl Fn(&str) -> String, reason: Option<&str>) -> Vec<String> {
    let written = exec.command.iter().flatten().map(|argument| expanded(argument));
    written.chain(reason.map(|reason| format!("--reason={reason}"))).collect()
}

fn expanded_action(action: &HTTPGetAction, expanded: impl Fn(&str) -> String) -> HTTPGetAction {
    let headers = action.http_headers.iter().flatten();
    let headers =
        headers.map(|header| HTTPHeader { name: header.name.clone(), value: expanded(&header.value) });
    HTTPGetAction {
        path: action.path.as_deref().map(&expanded),
        http_headers: Some(headers.collect()),
        ..action.clone()
    }
}

/// Asks by HTTP. A server that answers HTTPS in plain HTTP is asked once more so, without what is secret.
async fn ask(
    agent: &Agent,
    target: HandlerTarget<'_>,
    action: &HTTPGetAction,
    reason: Option<&str>,
) -> Result<HttpAnswer, HandlerError> {
    let mut question = handlers::http_question(target, action)?;
    if let Some(reason) = reason {
        question.url.add_parameter("reason", reason);
    }
    let again = HttpQuestion {
        url: HttpUrl { scheme: Scheme::Http, ..question.url.clone() },
        headers: question.headers.clone().without_authorization(),
    };
    let place = question.url.authority();
    let timeout = Some(Duration::from_secs(api::limits::HTTP_HOOK_SECONDS));
    match handlers::http_get(agent, target, question, timeout).await {
        Err(HandlerError::Http { error: HttpError::NotTls, url }) => {
            // The first error stands when the second attempt fails too.
            let first = HandlerError::Http { error: HttpError::NotTls, url };
            let answer = handlers::http_get(agent, target, again, timeout).await.map_err(|_| first)?;
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

#[cfg(test)]
mod tests {
    use super::{command, expanded_action};
    use k8s_openapi::api::core::v1::ExecAction;
    use serde_json::json;

    #[test]
    fn parameters_follow_the_command_and_references_are_replaced_where_the_pod_asks() {
        let exec = ExecAction { command: Some(vec!["stop.sh".to_owned(), "$(A)".to_owned()]) };
        assert_eq!(command(&exec, str::to_owned, None), ["stop.sh", "$(A)"]);
        let expanded = |text: &str| text.replace("$(A)", "x");
        assert_eq!(command(&exec, expanded, Some("Health")), ["stop.sh", "x", "--reason=Health"]);
        let action = serde_json::from_value(json!({
            "port": 80, "path": "/$(A)", "host": "$(A)", "httpHeaders": [{"name": "$(A)", "value": "$(A)"}],
        }))
        .expect("an action");
        let action = expanded_action(&action, expanded);
        assert_eq!(action.path.as_deref(), Some("/x"));
        assert_eq!(action.host.as_deref(), Some("$(A)"), "hosts are as written");
        let header = &action.http_headers.expect("headers")[0];
        assert_eq!((header.name.as_str(), header.value.as_str()), ("$(A)", "x"));
    }
}
