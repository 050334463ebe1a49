//! `/healthz`, `/livez`, `/readyz` and `/version`.

use http::StatusCode;
use serde_json::json;

use crate::query::Query;
use crate::responses::{Answer, json as json_answer, text};
use crate::server::Server;

/// The minor version of Kubernetes that is followed.
const MINOR: u32 = 36;

/// Answers if the path is one of these.
pub(crate) fn answer(server: &Server, path: &str, query: &Query) -> Option<Answer> {
    match path {
        "/version" => Some(json_answer(
            StatusCode::OK,
            &json!({
                "major": "1",
                "minor": MINOR.to_string(),
                "emulationMajor": "1",
                "emulationMinor": MINOR.to_string(),
                "minCompatibilityMajor": "1",
                "minCompatibilityMinor": (MINOR - 1).to_string(),
                "gitVersion": build().1,
                "gitCommit": "",
                "gitTreeState": "",
                "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": "",
                "compiler": "rustc",
                "platform": build().2,
            }),
        )),
        _ => {
            let mut parts = path.trim_start_matches('/').splitn(2, '/');
            let whole = parts.next().filter(|name| matches!(*name, "healthz" | "livez" | "readyz"))?;
            let checks = checks(server, whole);
            match parts.next() {
                None => Some(health(whole, &checks, query)),
                Some(one) => {
                    let check = checks.iter().find(|check| check.name == one)?;
                    Some(health(one, std::slice::from_ref(check), query))
                }
            }
        }
    }
}

/// Minor version, full version and platform.
pub(crate) fn build() -> (String, String, String) {
    let version = format!("v1.{MINOR}.0+coracle.{}", env!("CARGO_PKG_VERSION"));
    (MINOR.to_string(), version, format!("{}/{}", std::env::consts::OS, platform()))
}

fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// One thing that is looked at.
struct Check {
    name: &'static str,
    passed: bool,
}

/// A server that answers has been set up completely; what can go wrong later is the store.
fn checks(server: &Server, of: &str) -> Vec<Check> {
    let mut checks = vec![
        Check { name: "ping", passed: true },
        Check { name: "store", passed: !server.store.is_stopped() },
    ];
    if of == "readyz" {
        checks.push(Check { name: "shutdown", passed: !server.closing().is_cancelled() });
    }
    checks
}

/// `ok`, or the list of checks: asked for with `verbose`, or because one failed. `exclude=NAME` leaves one out.
fn health(name: &str, checks: &[Check], query: &Query) -> Answer {
    let is_left_out = |check: &Check| query.all("exclude").any(|name| name == check.name);
    let passed = checks.iter().all(|check| check.passed || is_left_out(check));
    if passed && query.get("verbose").is_none() {
        return text(StatusCode::OK, "ok");
    }
    let mut lines = String::new();
    for check in checks {
        let name = check.name;
        lines.push_str(&match (is_left_out(check), check.passed) {
            (true, _) => format!("[+]{name} excluded: ok\n"),
            (false, true) => format!("[+]{name} ok\n"),
            (false, false) => format!("[-]{name} failed: reason withheld\n"),
        });
    }
    for unknown in query.all("exclude").filter(|name| checks.iter().all(|check| check.name != *name)) {
        let unknown: String = unknown.chars().filter(|each| !each.is_control()).take(64).collect();
        lines.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for \"{unknown}\"\n"
        ));
    }
    lines.push_str(&format!("{name} check {}\n", if passed { "passed" } else { "failed" }));
    text(if passed { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }, lines)
}
