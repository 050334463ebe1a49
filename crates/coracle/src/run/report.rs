//! What `coracle run` prints: lines for people, or one JSON event a line for programs (`docs/run-events.md`).
//!
//! Text that a container wrote is never interpreted, but in JSON and in messages control characters are shown escaped.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Mutex, OnceLock};

use anstyle::{AnsiColor, Style};
use tokio::sync::Notify;

use super::outcome::ContainerChange;
use crate::template::Redactor;
use crate::terminal_text::one_line;

/// How much is printed, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// State changes and findings on standard error, prefixed logs on standard output.
    Text,
    /// Only the logs, without prefix.
    Quiet,
    /// One JSON object a line on standard output.
    Json,
}

/// Something that happened.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Happening<'a> {
    /// An object of the input was created.
    Created { kind: &'a str, namespace: Option<&'a str>, name: &'a str },
    /// A pod changed its phase; reason and message are given when the node ended it, such as `Evicted`.
    Phase {
        namespace: &'a str,
        pod: &'a str,
        phase: &'a str,
        reason: Option<&'a str>,
        message: Option<&'a str>,
    },
    /// A container changed.
    Container { namespace: &'a str, pod: &'a str, change: &'a ContainerChange },
    /// A container wrote a line. The line is without its end.
    Log { namespace: &'a str, pod: &'a str, container: &'a str, line: &'a [u8] },
    /// The node reported something about a pod (a Kubernetes event).
    Event { namespace: &'a str, pod: &'a str, severity: &'a str, reason: &'a str, message: &'a str },
    /// A controller reported something about an object that is no pod (a Kubernetes event).
    ObjectEvent {
        namespace: &'a str,
        kind: &'a str,
        name: &'a str,
        severity: &'a str,
        reason: &'a str,
        message: &'a str,
    },
    /// A job of the input has ended.
    JobEnded { namespace: &'a str, job: &'a str, is_complete: bool, reason: &'a str, message: &'a str },
    /// A pod, or one container of it, could not be started, and nothing more is expected of it.
    CannotStart {
        namespace: &'a str,
        pod: &'a str,
        container: Option<&'a str>,
        reason: &'a str,
        message: &'a str,
    },
    /// The API answered with a warning, for an object of the input.
    Warning { object: &'a str, message: &'a str },
    /// What a template tells people once its objects are there.
    Message { message: &'a str },
    /// All is over.
    Result { status: u8, summary: &'a str },
    /// Something that the user should know, such as what Ctrl-C will do.
    Notice { message: &'a str },
}

/// The reason under which `coracle run` tells that a pod could not be started.
const CANNOT_START: &str = "CannotStart";

/// Prints happenings; shared by the tasks that follow pods and logs.
pub(crate) struct Report {
    form: Form,
    redactor: Redactor,
    /// Whether the node outlives the run, so that commands can still ask it.
    is_kept: bool,
    lines: Mutex<Lines>,
    /// Why standard output takes nothing more.
    unwritable: OnceLock<io::Error>,
    became_unwritable: Notify,
}

/// What is remembered from line to line.
#[derive(Default)]
struct Lines {
    /// Prefixes are padded to the longest seen so far, so that the log lines of several containers align.
    prefix: usize,
    /// Warnings that were told, by pod: what a pod could not be started for is not told twice.
    warned: BTreeSet<(String, String)>,
}

/// More warnings than this are not remembered.
const REMEMBERED: usize = 1000;

impl Lines {
    fn remember(&mut self, pod: &str, message: &str) {
        if self.warned.len() < REMEMBERED {
            self.warned.insert((pod.to_owned(), message.to_owned()));
        }
    }
}

/// How the event of a hook begins to say with which command its output is read.
const TO_READ: &str = "; output: coracle logs ";

/// The message of an event without that command: a node that ends with the run has nobody left to ask.
fn without_command(message: &str) -> &str {
    message.rsplit_once(TO_READ).map_or(message, |(rest, _)| rest)
}

const PREFIX_COLOURS: [AnsiColor; 6] = [
    AnsiColor::Cyan,
    AnsiColor::Green,
    AnsiColor::Magenta,
    AnsiColor::Blue,
    AnsiColor::Yellow,
    AnsiColor::BrightCyan,
];

impl Report {
    /// A report in this form. `is_kept`: the node goes on after the run.
    pub(crate) fn new(form: Form, redactor: Redactor, is_kept: bool) -> Self {
        let (unwritable, became_unwritable) = (OnceLock::new(), Notify::new());
        Self { form, redactor, is_kept, lines: Mutex::default(), unwritable, became_unwritable }
    }

    /// Prints one happening. When standard output does not take it, [`Self::becomes_unwritable`] ends.
    ///
    /// What API and node say is shown without the values of secret parameters; what containers write is theirs.
    pub(crate) fn tell(&self, happening: &Happening<'_>) {
        let (text, waits);
        let mut masked = *happening;
        if let Happening::Event { message, .. } = &mut masked
            && !self.is_kept
        {
            *message = without_command(message);
        }
        match &mut masked {
            Happening::Phase { message: Some(message), .. }
            | Happening::Event { message, .. }
            | Happening::ObjectEvent { message, .. }
            | Happening::JobEnded { message, .. }
            | Happening::CannotStart { message, .. }
            | Happening::Warning { message, .. } => {
                text = self.redactor.redact(message);
                *message = &text;
            }
            Happening::Container { change, .. } => {
                if let ContainerChange::Waits { container, reason, message } = change {
                    let (container, reason) = (container.clone(), reason.clone());
                    waits =
                        ContainerChange::Waits { container, reason, message: self.redactor.redact(message) };
                    *change = &waits;
                }
            }
            Happening::Phase { message: None, .. }
            | Happening::Created { .. }
            | Happening::Log { .. }
            | Happening::Result { .. }
            | Happening::Message { .. }
            | Happening::Notice { .. } => {}
        }
        self.tell_masked(&masked);
    }

    fn tell_masked(&self, happening: &Happening<'_>) {
        let Ok(mut lines) = self.lines.lock() else { return };
        let told = match self.form {
            Form::Json => self.on_standard_output(|| tell_json(happening)),
            Form::Quiet => match happening {
                Happening::Log { line, .. } => self.on_standard_output(|| write_line(&[line])),
                other => {
                    tell_quiet(other);
                    Ok(())
                }
            },
            Form::Text => match happening {
                Happening::Log { pod, container, line, .. } => {
                    self.on_standard_output(|| tell_log(pod, container, line, &mut lines))
                }
                other => {
                    // Standard error is for people who look; that nobody does is no reason to end.
                    let _ = tell_text(other, &mut lines);
                    Ok(())
                }
            },
        };
        if let Err(error) = told {
            let _ = self.unwritable.set(error);
            self.became_unwritable.notify_waiters();
        }
    }

    /// Prints, unless that has failed before.
    fn on_standard_output(&self, print: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        if self.unwritable.get().is_some() { Ok(()) } else { print() }
    }

    /// What standard output said when it did not take a line.
    pub(crate) fn unwritable(&self) -> Option<&io::Error> {
        self.unwritable.get()
    }

    /// Waits until standard output does not take a line: its reader went away, or its disk is full.
    pub(crate) async fn becomes_unwritable(&self) {
        loop {
            let became = self.became_unwritable.notified();
            if self.unwritable.get().is_some() {
                return;
            }
            became.await;
        }
    }
}

/// Quiet leaves out progress, never the reason of a failure.
fn tell_quiet(happening: &Happening<'_>) {
    let mut err = anstream::stderr().lock();
    // Nobody is left to tell when standard error is closed.
    let _ = match happening {
        Happening::CannotStart { pod, container, reason, message, .. } => {
            writeln!(err, "error: pod {pod}: {}", one_line(&cannot_start(*container, reason, Some(message))))
        }
        Happening::Phase { pod, phase, reason: Some(reason), message, .. } => {
            writeln!(err, "error: pod {pod}: {phase}{}", why(reason, *message))
        }
        Happening::JobEnded { job, is_complete: false, reason, message, .. } => {
            writeln!(err, "error: job {job}: Failed{}", why(reason, Some(message)))
        }
        Happening::Log { .. }
        | Happening::Created { .. }
        | Happening::Phase { reason: None, .. }
        | Happening::Container { .. }
        | Happening::Event { .. }
        | Happening::ObjectEvent { .. }
        | Happening::JobEnded { is_complete: true, .. }
        | Happening::Warning { .. }
        | Happening::Result { .. }
        | Happening::Message { .. }
        | Happening::Notice { .. } => Ok(()),
    };
}

/// "container c could not be started: REASON: MESSAGE".
fn cannot_start(container: Option<&str>, reason: &str, message: Option<&str>) -> String {
    let what = match container {
        Some(container) => format!("container {container} could not be started: {reason}"),
        None => format!("could not be started: {reason}"),
    };
    match message {
        Some(message) if !message.is_empty() => format!("{what}: {message}"),
        Some(_) | None => what,
    }
}

/// " (REASON: MESSAGE)".
fn why(reason: &str, message: Option<&str>) -> String {
    format!(" ({}{})", one_line(reason), after_colon(message.unwrap_or_default().trim()))
}

/// A line of a log with the prefix of its container.
fn tell_log(pod: &str, container: &str, line: &[u8], lines: &mut Lines) -> io::Result<()> {
    let prefix = if pod == container { pod.to_owned() } else { format!("{pod}/{container}") };
    lines.prefix = lines.prefix.max(prefix.chars().count());
    let colour = PREFIX_COLOURS[colour_index(&prefix)].on_default();
    let mut out = anstream::stdout().lock();
    write!(out, "{colour}{prefix:<width$} |{colour:#} ", width = lines.prefix)?;
    out.flush()?;
    drop(out);
    write_line(&[line])
}

fn write_line(parts: &[&[u8]]) -> io::Result<()> {
    let mut out = std::io::stdout().lock();
    for part in parts {
        out.write_all(part)?;
    }
    out.write_all(b"\n")?;
    out.flush()
}

fn tell_text(happening: &Happening<'_>, lines: &mut Lines) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    let dim = Style::new().dimmed();
    let yellow = AnsiColor::Yellow.on_default().bold();
    let red = AnsiColor::Red.on_default().bold();
    match happening {
        Happening::Created { kind, namespace, name } => {
            let place = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
            writeln!(err, "{dim}created {kind} {name}{place}{dim:#}", kind = kind.to_lowercase())
        }
        Happening::Phase { pod, phase, reason: None, .. } => writeln!(err, "{dim}pod {pod}: {phase}{dim:#}"),
        Happening::Phase { pod, phase, reason: Some(reason), message, .. } => {
            writeln!(err, "{red}pod {pod}: {phase}{red:#}{}", why(reason, *message))
        }
        Happening::Container { pod, change, .. } => match change {
            ContainerChange::Started { container, restarts: 0 } => {
                writeln!(err, "{dim}pod {pod}: container {container} started{dim:#}")
            }
            ContainerChange::Started { container, restarts } => {
                writeln!(
                    err,
                    "{dim}pod {pod}: container {container} started again (restart {restarts}){dim:#}"
                )
            }
            ContainerChange::Ended { container, status: 0, .. } => {
                writeln!(err, "{dim}pod {pod}: container {container} ended with status 0{dim:#}")
            }
            ContainerChange::Ended { container, status, reason, .. } => writeln!(
                err,
                "{red}pod {pod}: container {container} ended with status {status}{red:#} ({})",
                one_line(reason)
            ),
            ContainerChange::Waits { container, reason, message } => {
                lines.remember(pod, message);
                writeln!(
                    err,
                    "{yellow}pod {pod}: container {container} waits: {}{yellow:#}{}",
                    one_line(reason),
                    after_colon(message)
                )
            }
        },
        Happening::Log { .. } => Ok(()),
        Happening::CannotStart { pod, container, reason, message, .. } => {
            let told = lines.warned.contains(&((*pod).to_owned(), (*message).to_owned()));
            let message = (!told).then_some(*message);
            let text = cannot_start(*container, reason, message);
            writeln!(err, "{red}pod {pod}:{red:#} {}", one_line(&text))
        }
        Happening::Event { pod, severity, reason, message, .. } => {
            if *severity == "Warning" {
                lines.remember(pod, message);
                writeln!(err, "{yellow}pod {pod}: {}{yellow:#}{}", one_line(reason), after_colon(message))
            } else {
                writeln!(err, "{dim}pod {pod}: {}{}{dim:#}", one_line(reason), after_colon(message))
            }
        }
        Happening::ObjectEvent { kind, name, severity, reason, message, .. } => {
            let style = if *severity == "Warning" { yellow } else { dim };
            let (kind, reason) = (kind.to_lowercase(), one_line(reason));
            writeln!(err, "{style}{kind} {name}: {reason}{style:#}{}", after_colon(message))
        }
        Happening::JobEnded { job, is_complete: true, .. } => {
            writeln!(err, "{dim}job {job}: Complete{dim:#}")
        }
        Happening::JobEnded { job, is_complete: false, reason, message, .. } => {
            writeln!(err, "{red}job {job}: Failed{red:#}{}", why(reason, Some(message)))
        }
        Happening::Warning { object, message } => {
            writeln!(err, "{yellow}warning:{yellow:#} {object}: {}", one_line(message))
        }
        Happening::Result { status, summary } => {
            let style = if *status == 0 { dim } else { red };
            writeln!(err, "{style}{summary}{style:#}")
        }
        Happening::Message { message } => {
            message.trim_end().lines().try_for_each(|line| writeln!(err, "{}", one_line(line)))
        }
        Happening::Notice { message } => writeln!(err, "{dim}{}{dim:#}", one_line(message)),
    }
}

/// The same prefix always has the same colour.
fn colour_index(prefix: &str) -> usize {
    prefix.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)))
        % PREFIX_COLOURS.len()
}

fn after_colon(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {}", one_line(message)) }
}

fn tell_json(happening: &Happening<'_>) -> io::Result<()> {
    let mut event = json_event(happening);
    event["time"] = jiff::Timestamp::now().to_string().into();
    write_line(&[event.to_string().as_bytes()])
}

/// The event without its time.
fn json_event(happening: &Happening<'_>) -> serde_json::Value {
    use serde_json::json;
    match happening {
        Happening::Created { kind, namespace, name } => {
            json!({"type": "created", "kind": kind, "namespace": namespace, "name": name})
        }
        Happening::Phase { namespace, pod, phase, reason, message } => {
            let mut event = json!({"type": "pod", "namespace": namespace, "pod": pod, "phase": phase});
            if let Some(reason) = reason {
                event["reason"] = (*reason).into();
                event["message"] = message.unwrap_or_default().into();
            }
            event
        }
        Happening::CannotStart { namespace, pod, container, reason, message } => {
            let message = cannot_start(*container, reason, Some(message));
            json!({"type": "event", "namespace": namespace, "pod": pod, "severity": "Warning", "reason": CANNOT_START, "message": message})
        }
        Happening::Container { namespace, pod, change } => {
            let mut event = json!({"type": "container", "namespace": namespace, "pod": pod});
            let details = match change {
                ContainerChange::Started { container, restarts } => {
                    json!({"container": container, "state": "started", "restarts": restarts})
                }
                ContainerChange::Ended { container, restarts, status, reason } => {
                    json!({"container": container, "state": "ended", "restarts": restarts, "exitCode": status, "reason": reason})
                }
                ContainerChange::Waits { container, reason, message } => {
                    json!({"container": container, "state": "waiting", "reason": reason, "message": message})
                }
            };
            if let (Some(event), serde_json::Value::Object(details)) = (event.as_object_mut(), details) {
                event.extend(details);
            }
            event
        }
        Happening::Log { namespace, pod, container, line } => {
            json!({"type": "log", "namespace": namespace, "pod": pod, "container": container, "line": String::from_utf8_lossy(line)})
        }
        Happening::Event { namespace, pod, severity, reason, message } => {
            json!({"type": "event", "namespace": namespace, "pod": pod, "severity": severity, "reason": reason, "message": message})
        }
        Happening::ObjectEvent { namespace, kind, name, severity, reason, message } => {
            let object = format!("{}/{name}", kind.to_lowercase());
            json!({"type": "event", "namespace": namespace, "object": object, "severity": severity, "reason": reason, "message": message})
        }
        Happening::JobEnded { namespace, job, is_complete, reason, message } => {
            let condition = if *is_complete { "Complete" } else { "Failed" };
            json!({"type": "job", "namespace": namespace, "job": job, "condition": condition, "reason": reason, "message": message})
        }
        Happening::Warning { object, message } => {
            json!({"type": "warning", "object": object, "message": message})
        }
        Happening::Result { status, summary } => {
            json!({"type": "result", "status": status, "summary": summary})
        }
        Happening::Message { message } => json!({"type": "message", "message": message}),
        Happening::Notice { message } => json!({"type": "notice", "message": message}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_of_a_hook_names_no_command_that_would_ask_a_node_which_is_gone() {
        for (message, shown) in [
            (
                "postStart hook finished: exit status 0 after 0.1 s, attempt 1; output: coracle logs pod/p -n default -c c \
                 --hook postStart",
                "postStart hook finished: exit status 0 after 0.1 s, attempt 1",
            ),
            ("pulled; output: none", "pulled; output: none"),
        ] {
            assert_eq!(without_command(message), shown);
        }
    }

    #[test]
    fn a_container_event_is_flat_json() {
        let change =
            ContainerChange::Ended { container: "c".into(), restarts: 0, status: 3, reason: "Error".into() };
        let event = json_event(&Happening::Container { namespace: "default", pod: "p", change: &change });
        assert_eq!(
            event,
            serde_json::json!({"type": "container", "namespace": "default", "pod": "p", "container": "c",
                "state": "ended", "restarts": 0, "exitCode": 3, "reason": "Error"})
        );
    }
}
