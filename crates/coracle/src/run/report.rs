//! What `coracle run` prints: lines for people, or one JSON event a line for programs (`docs/run-events.md`).
//!
//! Text that a container wrote is never interpreted, but in JSON and in messages control characters are shown escaped.

use std::io::Write;
use std::sync::Mutex;

use anstyle::{AnsiColor, Style};

use super::outcome::ContainerChange;

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
#[derive(Debug, Clone)]
pub(crate) enum Happening<'a> {
    /// An object of the input was created.
    Created { kind: &'a str, namespace: Option<&'a str>, name: &'a str },
    /// A pod changed its phase.
    Phase { namespace: &'a str, pod: &'a str, phase: &'a str },
    /// A container changed.
    Container { namespace: &'a str, pod: &'a str, change: &'a ContainerChange },
    /// A container wrote a line. The line is without its end.
    Log { namespace: &'a str, pod: &'a str, container: &'a str, line: &'a [u8] },
    /// The node reported something about a pod (a Kubernetes event).
    Event { namespace: &'a str, pod: &'a str, severity: &'a str, reason: &'a str, message: &'a str },
    /// The API answered with a warning, for an object of the input.
    Warning { object: &'a str, message: &'a str },
    /// All is over.
    Result { status: u8, summary: &'a str },
    /// Something that the user should know, such as what Ctrl-C will do.
    Notice { message: &'a str },
}

/// The reason under which `coracle run` tells that a pod could not be started.
pub(crate) const CANNOT_START: &str = "CannotStart";

/// Prints happenings; shared by the tasks that follow pods and logs.
pub(crate) struct Report {
    form: Form,
    lines: Mutex<Widths>,
}

/// Prefixes are padded to the longest seen so far, so that the log lines of several containers align.
#[derive(Default)]
struct Widths {
    prefix: usize,
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
    /// A report in this form.
    pub(crate) fn new(form: Form) -> Self {
        Self { form, lines: Mutex::new(Widths::default()) }
    }

    /// Prints one happening. A reader that has gone away is no error of ours: the pods go on.
    pub(crate) fn tell(&self, happening: &Happening<'_>) {
        let Ok(mut widths) = self.lines.lock() else { return };
        let _ = match self.form {
            Form::Json => tell_json(happening),
            Form::Quiet => tell_quiet(happening),
            Form::Text => tell_text(happening, &mut widths),
        };
    }
}

fn tell_quiet(happening: &Happening<'_>) -> std::io::Result<()> {
    match happening {
        Happening::Log { line, .. } => write_line(&[line]),
        // Quiet leaves out progress, never the reason of a failure.
        Happening::Event { pod, reason: CANNOT_START, message, .. } => {
            writeln!(anstream::stderr().lock(), "error: pod {pod}: {}", printable(message))
        }
        Happening::Created { .. }
        | Happening::Phase { .. }
        | Happening::Container { .. }
        | Happening::Event { .. }
        | Happening::Warning { .. }
        | Happening::Result { .. }
        | Happening::Notice { .. } => Ok(()),
    }
}

fn write_line(parts: &[&[u8]]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for part in parts {
        out.write_all(part)?;
    }
    out.write_all(b"\n")?;
    out.flush()
}

fn tell_text(happening: &Happening<'_>, widths: &mut Widths) -> std::io::Result<()> {
    let mut err = anstream::stderr().lock();
    let dim = Style::new().dimmed();
    let yellow = AnsiColor::Yellow.on_default().bold();
    let red = AnsiColor::Red.on_default().bold();
    match happening {
        Happening::Created { kind, namespace, name } => {
            let place = namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
            writeln!(err, "{dim}created {kind} {name}{place}{dim:#}", kind = kind.to_lowercase())
        }
        Happening::Phase { pod, phase, .. } => writeln!(err, "{dim}pod {pod}: {phase}{dim:#}"),
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
                printable(reason)
            ),
            ContainerChange::Waits { container, reason, message } => writeln!(
                err,
                "{yellow}pod {pod}: container {container} waits: {}{yellow:#}{}",
                printable(reason),
                after_colon(message)
            ),
        },
        Happening::Log { pod, container, line, .. } => {
            let prefix = if pod == container { (*pod).to_owned() } else { format!("{pod}/{container}") };
            widths.prefix = widths.prefix.max(prefix.chars().count());
            let colour = PREFIX_COLOURS[colour_index(&prefix)].on_default();
            drop(err);
            let mut out = anstream::stdout().lock();
            write!(out, "{colour}{prefix:<width$} |{colour:#} ", width = widths.prefix)?;
            out.flush()?;
            drop(out);
            write_line(&[line])
        }
        Happening::Event { pod, severity, reason, message, .. } => {
            if *severity == "Warning" {
                writeln!(err, "{yellow}pod {pod}: {}{yellow:#}{}", printable(reason), after_colon(message))
            } else {
                writeln!(err, "{dim}pod {pod}: {}{}{dim:#}", printable(reason), after_colon(message))
            }
        }
        Happening::Warning { object, message } => {
            writeln!(err, "{yellow}warning:{yellow:#} {object}: {}", printable(message))
        }
        Happening::Result { status, summary } => {
            let style = if *status == 0 { dim } else { red };
            writeln!(err, "{style}{summary}{style:#}")
        }
        Happening::Notice { message } => writeln!(err, "{dim}{}{dim:#}", printable(message)),
    }
}

/// The same prefix always has the same colour.
fn colour_index(prefix: &str) -> usize {
    prefix.bytes().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)))
        % PREFIX_COLOURS.len()
}

fn after_colon(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {}", printable(message)) }
}

/// Control characters are shown, not obeyed: a message may hold what a pod or an image chose.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\t' {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

fn tell_json(happening: &Happening<'_>) -> std::io::Result<()> {
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
        Happening::Phase { namespace, pod, phase } => {
            json!({"type": "pod", "namespace": namespace, "pod": pod, "phase": phase})
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
        Happening::Warning { object, message } => {
            json!({"type": "warning", "object": object, "message": message})
        }
        Happening::Result { status, summary } => {
            json!({"type": "result", "status": status, "summary": summary})
        }
        Happening::Notice { message } => json!({"type": "notice", "message": message}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_move_the_cursor_or_forge_a_line() {
        assert_eq!(printable("a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
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
