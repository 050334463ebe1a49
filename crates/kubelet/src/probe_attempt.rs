//! One attempt of a probe: what is run or asked, and what its outcome means in Kubernetes' words. When it is repeated and when
//! results count is decided elsewhere.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ExecAction, GRPCAction, HTTPGetAction, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use lifecycle::{Backoff, HookSettings, ProbeTiming};

use crate::agent::Agent;
use crate::environment_record;
use crate::grpc_health::{self, ServingStatus};
use crate::handlers::{self, HandlerError, HandlerTarget};
use crate::hook_environment;

/// Bytes of a probe's output that are told.
const OUTPUT: usize = 10 * 1024;

/// What an attempt found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeOutcome {
    /// The container is well.
    Success,
    /// It is, with a remark.
    Warning(String),
    /// It is not.
    Failure(String),
    /// The probe itself could not be run: nothing is known.
    Unknown(String),
}

/// Makes one attempt.
pub(crate) async fn attempt(agent: &Agent, target: HandlerTarget<'_>, probe: &Probe) -> ProbeOutcome {
    let attempt = Attempt { agent, target, timeout: ProbeTiming::of(probe).timeout };
    if let Some(action) = &probe.exec {
        attempt.exec(action).await
    } else if let Some(action) = &probe.http_get {
        attempt.http_get(action).await
    } else if let Some(action) = &probe.tcp_socket {
        attempt.tcp_socket(action).await
    } else if let Some(action) = &probe.grpc {
        attempt.grpc(action).await
    } else {
        ProbeOutcome::Unknown("missing probe handler".to_owned())
    }
}

struct Attempt<'a> {
    agent: &'a Agent,
    target: HandlerTarget<'a>,
    /// Seconds.
    timeout: u32,
}

impl Attempt<'_> {
    fn time(&self) -> Duration {
        Duration::from_secs(u64::from(self.timeout))
    }

    /// A host of the manifest, else the pod.
    fn host(&self, given: Option<&str>) -> String {
        match given.filter(|host| !host.is_empty()) {
            Some(host) => host.to_owned(),
            None => self.target.network.default_host(),
        }
    }

    async fn exec(&self, action: &ExecAction) -> ProbeOutcome {
        let container = self.target.container;
        let written = action.command.as_deref().unwrap_or_default();
        let command = if HookSettings::of(self.target.pod).expand {
            let variables = environment_record::variables(self.agent, self.target.pod, &container.name);
            written.iter().map(|text| hook_environment::expand(text, &variables)).collect()
        } else {
            environment::expand_exec_probe(written, container.env.as_deref().unwrap_or_default())
        };
        match handlers::exec(self.agent, self.target, command, self.time()).await {
            Ok(outcome) if outcome.exit_code == 0 => ProbeOutcome::Success,
            Ok(outcome) => {
                let output = outcome.stdout + &outcome.stderr;
                ProbeOutcome::Failure(beginning(command_failure(output, outcome.exit_code)))
            }
            Err(error @ HandlerError::TimedOut { .. }) => ProbeOutcome::Failure(error.to_string()),
            Err(error) => ProbeOutcome::Unknown(error.to_string()),
        }
    }

    async fn http_get(&self, action: &HTTPGetAction) -> ProbeOutcome {
        let question = match handlers::http_question(self.target, action) {
            Ok(question) => question,
            Err(error) => return ProbeOutcome::Unknown(error.to_string()),
        };
        match handlers::http_get(self.agent, self.target, question, Some(self.time())).await {
            Ok(answer) => judge(answer.status, answer.leads_away, answer.body),
            Err(error) => ProbeOutcome::Failure(error.to_string()),
        }
    }

    async fn tcp_socket(&self, action: &TCPSocketAction) -> ProbeOutcome {
        let port = match handlers::resolve_port(self.target.container, &action.port) {
            Ok(port) => port,
            Err(error) => return ProbeOutcome::Unknown(error.to_string()),
        };
        let host = self.host(action.host.as_deref());
        match handlers::connect(self.agent, self.target, &host, port, self.time()).await {
            Ok(_) => ProbeOutcome::Success,
            Err(error) => ProbeOutcome::Failure(error.to_string()),
        }
    }

    async fn grpc(&self, action: &GRPCAction) -> ProbeOutcome {
        let port = match handlers::resolve_port(self.target.container, &IntOrString::Int(action.port)) {
            Ok(port) => port,
            Err(error) => return ProbeOutcome::Unknown(error.to_string()),
        };
        let host = self.host(None);
        let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let service = action.service.as_deref().unwrap_or_default();
        let shown = Backoff::delay_text(i64::from(self.timeout));
        let asked = async {
            match handlers::connect(self.agent, self.target, &host, port, self.time()).await {
                Ok(stream) => match grpc_health::check(stream, &address, service).await {
                    Ok(ServingStatus::Serving) => ProbeOutcome::Success,
                    Ok(ServingStatus::Other(word)) => {
                        ProbeOutcome::Failure(format!("service unhealthy (responded with {word:?})"))
                    }
                    Err(error) => ProbeOutcome::Failure(beginning(error.to_string())),
                },
                Err(error) => ProbeOutcome::Failure(format!(
                    "timeout: failed to connect service {address:?} within {shown}: {error}"
                )),
            }
        };
        match tokio::time::timeout(self.time(), asked).await {
            Ok(outcome) => outcome,
            Err(_) => ProbeOutcome::Failure(format!("timeout: health rpc did not complete within {shown}")),
        }
    }
}

/// What an answer by HTTP means: 200 to 399 is well; a redirect to another host was not followed, and is remarked upon.
fn judge(status: u16, leads_away: bool, body: String) -> ProbeOutcome {
    match status {
        200..400 if leads_away => {
            ProbeOutcome::Warning(format!("Probe terminated redirects, Response body: {}", beginning(body)))
        }
        200..400 => ProbeOutcome::Success,
        _ => ProbeOutcome::Failure(format!("HTTP probe failed with statuscode: {status}")),
    }
}

/// As much of an output as is told.
fn beginning(mut output: String) -> String {
    crate::status_details::cut(&mut output, OUTPUT);
    output
}

/// What a failed command says of itself; one that says nothing is told by its exit status.
fn command_failure(output: String, exit_code: i32) -> String {
    if output.trim().is_empty() {
        return format!("the command said nothing and ended with status {exit_code}");
    }
    output
}

#[cfg(test)]
mod tests {
    use super::{OUTPUT, ProbeOutcome, beginning, command_failure, judge};

    #[test]
    fn a_probe_whose_command_says_nothing_is_told_by_its_exit_status() {
        assert_eq!(command_failure("cat: no such file\n".to_owned(), 1), "cat: no such file\n");
        assert_eq!(command_failure("\n".to_owned(), 3), "the command said nothing and ended with status 3");
    }

    #[test]
    fn answers_by_http_are_judged_by_their_status() {
        let rows = [
            (200, false, ProbeOutcome::Success),
            (399, false, ProbeOutcome::Success),
            (302, true, ProbeOutcome::Warning("Probe terminated redirects, Response body: gone".to_owned())),
            (199, false, ProbeOutcome::Failure("HTTP probe failed with statuscode: 199".to_owned())),
            (400, false, ProbeOutcome::Failure("HTTP probe failed with statuscode: 400".to_owned())),
            (503, false, ProbeOutcome::Failure("HTTP probe failed with statuscode: 503".to_owned())),
        ];
        for (status, leads_away, expected) in rows {
            assert_eq!(judge(status, leads_away, "gone".to_owned()), expected, "{status}");
        }
    }

    #[test]
    fn an_output_is_told_up_to_ten_kibibytes() {
        let told = beginning("ä".repeat(OUTPUT));
        assert_eq!((told.len(), told.chars().all(|letter| letter == 'ä')), (OUTPUT, true));
        assert_eq!(beginning("short".to_owned()), "short");
    }
}
