//! Validation of hooks and probes.

use serde_json::Value;

use crate::env;
use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::{not_negative, one_of, port, required_text};
use crate::tree::{is_set, items, text};

const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

/// Which probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeKind {
    Liveness,
    Readiness,
    Startup,
}

/// Checks that there is exactly one handler, and the handler.
pub(crate) fn validate(errors: &mut FieldErrors, path: &Path, holder: &Value, grace_seconds: i64) {
    let mut found = false;
    for name in HANDLERS {
        let handler = &holder[name];
        if !is_set(handler) {
            continue;
        }
        let at = path.child(name);
        if std::mem::replace(&mut found, true) {
            errors.forbidden(&at, "may not specify more than 1 handler type");
            continue;
        }
        match name {
            "exec" => exec(errors, &at, handler),
            "httpGet" => http_get(errors, &at, handler),
            "sleep" => sleep(errors, &at, handler, grace_seconds),
            _ => port(errors, &at.child("port"), &handler["port"]),
        }
    }
    if !found {
        errors.required(path, "must specify a handler type");
    }
}

fn exec(errors: &mut FieldErrors, path: &Path, action: &Value) {
    if items(&action["command"]).is_empty() {
        errors.required(&path.child("command"), "");
    }
    env::no_nul_in(errors, &path.child("command"), &action["command"]);
}

fn http_get(errors: &mut FieldErrors, path: &Path, action: &Value) {
    required_text(errors, &path.child("path"), text(&action["path"]));
    port(errors, &path.child("port"), &action["port"]);
    one_of(errors, &path.child("scheme"), &action["scheme"], &["HTTP", "HTTPS"]);
    for header in items(&action["httpHeaders"]) {
        let name = text(&header["name"]);
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_name {
            let detail = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
                'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
            errors.invalid(&path.child("httpHeaders"), name, detail);
        }
    }
}

fn sleep(errors: &mut FieldErrors, path: &Path, action: &Value, grace_seconds: i64) {
    let seconds = action["seconds"].as_i64().unwrap_or(0);
    if seconds < 0 || seconds > grace_seconds {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_seconds})");
        errors.invalid(path, seconds, detail);
    }
}

/// Signals by which a container may be stopped, besides `SIGRTMIN`, `SIGRTMAX` and those between them.
const SIGNALS: [&str; 31] = [
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGWINCH",
];

/// Checks the signal that stops a container.
pub(super) fn stop_signal(errors: &mut FieldErrors, path: &Path, signal: &str) {
    let is_further = ["SIGVTALRM", "SIGXCPU", "SIGXFSZ", "SIGRTMIN", "SIGRTMAX"].contains(&signal);
    let offset = |base: &str, sign: char, most: u8| {
        let number = signal.strip_prefix(base).and_then(|rest| rest.strip_prefix(sign));
        number.and_then(|number| number.parse::<u8>().ok()).is_some_and(|number| (1..=most).contains(&number))
    };
    let is_real_time = offset("SIGRTMIN", '+', 15) || offset("SIGRTMAX", '-', 14);
    if !SIGNALS.contains(&signal) && !is_further && !is_real_time {
        errors.not_supported(path, signal, &SIGNALS);
    }
}

/// Checks a probe.
pub(super) fn probe(
    errors: &mut FieldErrors,
    path: &Path,
    probe: &Value,
    kind: ProbeKind,
    grace_seconds: i64,
) {
    validate(errors, path, probe, grace_seconds);
    for name in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        not_negative(errors, &path.child(name), &probe[name]);
    }
    let grace = &probe["terminationGracePeriodSeconds"];
    let at = path.child("terminationGracePeriodSeconds");
    if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
        errors.invalid(&at, grace.clone(), "must be greater than 0");
    }
    match kind {
        ProbeKind::Readiness if is_set(grace) => {
            errors.invalid(&at, grace.clone(), "must not be set for readinessProbes");
        }
        ProbeKind::Liveness | ProbeKind::Startup if probe["successThreshold"].as_i64() != Some(1) => {
            let threshold = probe["successThreshold"].as_i64().unwrap_or(0);
            errors.invalid(&path.child("successThreshold"), threshold, "must be 1");
        }
        ProbeKind::Liveness | ProbeKind::Readiness | ProbeKind::Startup => {}
    }
}
