//! The last word of a session: a Kubernetes `Status` for the protocols from version 4 on, plain text before. Pure.

use serde_json::{Value, json};

use super::{ProcessEnd, StartStreamError};

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// The process was watched to its end.
    Process(ProcessEnd),
    /// There was no process to watch.
    NotStarted(StartStreamError),
    /// Nothing moved for too long.
    Idle,
}

/// Whose end it was, for the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// A command that was executed.
    Command(Vec<String>),
    /// The container's own process.
    Container,
}

fn failure(subject: &Subject, end: &SessionEnd) -> Option<(String, Option<i32>)> {
    let internal = |message: &str| {
        let what = match subject {
            Subject::Command(_) => "error executing command in container",
            Subject::Container => "error attaching to container",
        };
        (format!("Internal error occurred: {what}: {message}"), None)
    };
    match end {
        SessionEnd::Process(ProcessEnd::Exited(0)) => None,
        SessionEnd::Process(ProcessEnd::Exited(code)) => match subject {
            Subject::Command(command) => {
                let command = command.join(" ");
                let message = format!(
                    "command terminated with non-zero exit code: error executing command [{command}], exit code {code}"
                );
                Some((message, Some(*code)))
            }
            // Whoever attached watched the container; how it ended stands in its status.
            Subject::Container => None,
        },
        SessionEnd::Process(ProcessEnd::Lost(message)) => Some(internal(message)),
        SessionEnd::NotStarted(error) => Some(internal(&error.message)),
        SessionEnd::Idle => Some(internal("nothing was sent or received for too long")),
    }
}

/// The `Status` of protocol version 4 and later.
pub(super) fn status_object(subject: &Subject, end: &SessionEnd) -> Value {
    match failure(subject, end) {
        None => json!({"metadata": {}, "status": "Success"}),
        Some((message, Some(code))) => json!({
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Some((message, None)) => json!({
            "metadata": {},
            "status": "Failure",
            "details": {"causes": [{"message": message.trim_start_matches("Internal error occurred: ")}]},
            "message": message,
            "reason": "InternalError",
            "code": 500,
        }),
    }
}

/// The text of the older protocols: nothing when all went well.
pub(super) fn status_text(subject: &Subject, end: &SessionEnd) -> Option<String> {
    failure(subject, end).map(|(message, _)| message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Subject {
        Subject::Command(vec!["sh".into(), "-c".into(), "exit 3".into()])
    }

    #[test]
    fn success_is_short_and_an_exit_status_is_found_by_clients() {
        let exited = |code| SessionEnd::Process(ProcessEnd::Exited(code));
        assert_eq!(status_object(&command(), &exited(0)), json!({"metadata": {}, "status": "Success"}));
        assert_eq!(status_text(&command(), &exited(0)), None);
        let failed = status_object(&command(), &exited(3));
        assert_eq!(failed["status"], "Failure");
        assert_eq!(failed["reason"], "NonZeroExitCode");
        assert_eq!(failed["details"]["causes"], json!([{"reason": "ExitCode", "message": "3"}]));
        assert_eq!(
            failed["message"],
            "command terminated with non-zero exit code: error executing command [sh -c exit 3], exit code 3"
        );
        assert_eq!(status_object(&Subject::Container, &exited(3))["status"], "Success");
    }

    #[test]
    fn what_could_not_begin_says_why() {
        let end = SessionEnd::NotStarted(StartStreamError { message: "no such file: nope".into() });
        let status = status_object(&command(), &end);
        assert_eq!(status["reason"], "InternalError");
        assert_eq!(status["code"], 500);
        assert_eq!(
            status["message"],
            "Internal error occurred: error executing command in container: no such file: nope"
        );
        assert_eq!(
            status_text(&Subject::Container, &end).as_deref(),
            Some("Internal error occurred: error attaching to container: no such file: nope")
        );
    }
}
