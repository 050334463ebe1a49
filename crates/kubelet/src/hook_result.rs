//! What came of a delivery of a hook, judged by its contract, and told in three forms: the waiting message in Kubernetes'
//! words, the event without any output, the last line of the hook's log. Pure.

use std::time::Duration;

use lifecycle::{HookKey, HookKind, HookReason};

/// What a handler did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Performed {
    /// A command ended.
    Exec {
        /// Its exit status.
        exit_code: i32,
        /// Its standard output, trimmed, is `ok`.
        said_ok: bool,
    },
    /// A server answered with this HTTP status.
    Http(u16),
    /// The time is over.
    Slept(u64),
    /// It could not be carried out.
    Refused(String),
    /// It took longer than its annotation allows.
    TimedOut(Duration),
}

/// What a handler is, as the waiting message names it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HandlerName<'a> {
    /// The command as the manifest writes it.
    Exec(&'a [String]),
    /// The path as the manifest writes it.
    Http(&'a str),
    Sleep(i64),
    /// Nothing that can be carried out.
    Unknown,
}

impl Performed {
    /// What is wrong with it; `None` if it is a success. `document`: the documents' contract.
    pub(crate) fn failure(&self, document: bool, handler: HandlerName<'_>, stderr: &str) -> Option<String> {
        match self {
            Self::Exec { said_ok, .. } if document => {
                (!said_ok).then(|| "standard output is not \"ok\"".to_owned())
            }
            Self::Exec { exit_code: 0, .. } => None,
            Self::Exec { exit_code, .. } => {
                let command = match handler {
                    HandlerName::Exec(command) => command.join(" "),
                    HandlerName::Http(_) | HandlerName::Sleep(_) | HandlerName::Unknown => String::new(),
                };
                Some(format!("command '{command}' exited with {exit_code}: {stderr}"))
            }
            Self::Http(status) if document && *status >= 500 => Some(format!("HTTP status {status}")),
            Self::Http(_) | Self::Slept(_) => None,
            Self::Refused(message) => Some(message.clone()),
            Self::TimedOut(limit) => Some(format!("the hook timed out after {}", seconds(*limit))),
        }
    }

    /// The outcome in a few words, and after which time it came; without any output.
    pub(crate) fn words(&self, document: bool, took: Duration) -> String {
        let took_text = seconds(took);
        match self {
            Self::Exec { exit_code, said_ok } if document && !said_ok => {
                format!("exit status {exit_code}, standard output is not \"ok\" after {took_text}")
            }
            Self::Exec { exit_code, .. } => format!("exit status {exit_code} after {took_text}"),
            Self::Http(status) => format!("HTTP status {status} after {took_text}"),
            // These two say their time themselves.
            Self::Slept(seconds) => format!("slept {seconds} s"),
            Self::TimedOut(limit) => format!("timed out after {}", seconds(*limit)),
            Self::Refused(message) if took < AT_ONCE => message.clone(),
            Self::Refused(message) => format!("{message} (it took {took_text})"),
        }
    }
}

/// What takes less happens at once: of a hook that could not be carried out the time is not told then.
const AT_ONCE: Duration = Duration::from_millis(50);

/// Seconds with a tenth: `1.2 s`.
fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// The waiting message of a failed hook, in Kubernetes' words. `output` is what may be shown of what it printed.
pub(crate) fn waiting_message(handler: HandlerName<'_>, place: &str, error: &str, output: &str) -> String {
    match handler {
        HandlerName::Exec(command) => format!(
            "Exec lifecycle hook ([{}]) {place} failed - error: {error}, message: {}",
            command.join(" "),
            crate::downward::go_quote(output)
        ),
        HandlerName::Http(path) => format!("HTTP lifecycle hook ({path}) {place} failed - error: {error}"),
        HandlerName::Sleep(seconds) => {
            format!("Sleep lifecycle hook ({seconds}) {place} failed - error: {error}")
        }
        HandlerName::Unknown => format!("Cannot run handler: invalid handler: {error}"),
    }
}

/// Which delivery an event or a log line is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) pod: &'a str,
    pub(crate) key: &'a HookKey,
    pub(crate) number: u32,
    pub(crate) reason: Option<HookReason>,
}

impl Delivery<'_> {
    /// `attempt 1, reason Delete`.
    pub(crate) fn circumstances(&self) -> String {
        let reason = self.reason.map(|reason| format!(", reason {}", reason.as_str())).unwrap_or_default();
        format!("attempt {}{reason}", self.number)
    }

    fn how_to_read(&self) -> String {
        let Self { namespace, pod, key, .. } = self;
        let (container, hook) = (&key.container, key.kind.as_str());
        format!("output: coracle logs pod/{pod} -n {namespace} -c {container} --hook {hook}")
    }

    /// The message of the event that tells the end.
    pub(crate) fn end_message(&self, words: &str, failed: bool) -> String {
        let kind = self.key.kind;
        let what = match (failed, kind) {
            (true, HookKind::PreStart | HookKind::PostRestart | HookKind::PostStart | HookKind::PreStop) => {
                format!("{} failed", kind.title())
            }
            (false, _) => format!("{} hook finished", kind.as_str()),
        };
        let (circumstances, read) = (self.circumstances(), self.how_to_read());
        format!("{what}: {words}, {circumstances}; {read}")
    }

    /// The message of the event about a hook that takes long.
    pub(crate) fn running_message(&self) -> String {
        let (circumstances, read) = (self.circumstances(), self.how_to_read());
        let limit = api::limits::HOOK_RUNNING_SECONDS;
        format!("{} hook has been running for {limit} s, {circumstances}; {read}", self.key.kind.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivery, HandlerName, Performed, waiting_message};
    use lifecycle::{HookKey, HookKind, HookReason};
    use std::time::Duration;

    #[test]
    fn success_is_what_the_contract_says() {
        let exec = |exit_code, said_ok| Performed::Exec { exit_code, said_ok };
        // What was done, a failure today, a failure by the documents.
        let rows = [
            (exec(0, false), false, true),
            (exec(0, true), false, false),
            (exec(3, true), true, false),
            (exec(3, false), true, true),
            (Performed::Http(200), false, false),
            (Performed::Http(404), false, false),
            (Performed::Http(499), false, false),
            (Performed::Http(500), false, true),
            (Performed::Slept(1), false, false),
            (Performed::Refused("no".to_owned()), true, true),
            (Performed::TimedOut(Duration::from_secs(1)), true, true),
        ];
        for (performed, today, document) in rows {
            for (contract, fails) in [(false, today), (true, document)] {
                let failure = performed.failure(contract, HandlerName::Sleep(1), "");
                assert_eq!(failure.is_some(), fails, "{performed:?} document={contract}: {failure:?}");
            }
        }
    }

    #[test]
    fn waiting_messages_are_in_kubernetes_words() {
        let command = ["sh".to_owned(), "-c".to_owned()];
        let place = "for Container \"c\" in Pod \"p_ns(u)\"";
        let performed = Performed::Exec { exit_code: 2, said_ok: false };
        let error = performed.failure(false, HandlerName::Exec(&command), "oh").expect("a failure");
        assert_eq!(
            waiting_message(HandlerName::Exec(&command), place, &error, "a\noh"),
            "Exec lifecycle hook ([sh -c]) for Container \"c\" in Pod \"p_ns(u)\" failed - error: command 'sh -c' exited \
             with 2: oh, message: \"a\\noh\""
        );
        assert_eq!(
            waiting_message(HandlerName::Http("/x"), place, "E", ""),
            "HTTP lifecycle hook (/x) for Container \"c\" in Pod \"p_ns(u)\" failed - error: E"
        );
    }

    #[test]
    fn events_say_how_it_ended_and_how_to_read_more() {
        let key = HookKey { container: "c".to_owned(), attempt: 0, kind: HookKind::PreStop };
        let delivery =
            Delivery { namespace: "ns", pod: "p", key: &key, number: 2, reason: Some(HookReason::Health) };
        let words =
            Performed::Exec { exit_code: 3, said_ok: false }.words(false, Duration::from_millis(1_230));
        assert_eq!(
            delivery.end_message(&words, true),
            "PreStopHook failed: exit status 3 after 1.2 s, attempt 2, reason Health; output: coracle logs pod/p -n ns -c c \
             --hook preStop"
        );
        assert_eq!(
            delivery.end_message("slept 1 s", false),
            "preStop hook finished: slept 1 s, attempt 2, reason Health; output: coracle logs pod/p -n ns -c c \
             --hook preStop"
        );
    }

    #[test]
    fn no_outcome_says_twice_after_which_time_it_came() {
        let refused = || Performed::Refused("connection refused".to_owned());
        for (performed, milliseconds, words) in [
            (Performed::TimedOut(Duration::from_secs(2)), 2_003, "timed out after 2.0 s"),
            (Performed::Slept(1), 1_000, "slept 1 s"),
            (refused(), 3, "connection refused"),
            (refused(), 1_500, "connection refused (it took 1.5 s)"),
            (Performed::Http(302), 100, "HTTP status 302 after 0.1 s"),
        ] {
            assert_eq!(performed.words(false, Duration::from_millis(milliseconds)), words);
        }
    }
}
