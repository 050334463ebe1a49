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
                "gitVersion": format!("v1.{MINOR}.0+coracle.{}", env!("CARGO_PKG_VERSION")),
                "gitCommit": "",
                "gitTreeState": "",
                "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": "",
                "compiler": "rustc",
                "platform": format!("{}/{}", std::env::consts::OS, platform()),
            }),
        )),
        "/healthz" | "/livez" | "/readyz" => Some(health(server, path, query)),
        _ => None,
    }
}

fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn health(server: &Server, path: &str, query: &Query) -> Answer {
    // A server that answers has been set up completely; what can go wrong later is the store.
    let mut checks = vec![("ping", true), ("store", !server.store.is_stopped())];
    if path == "/readyz" {
        checks.push(("shutdown", !server.closing().is_cancelled()));
    }
    let passed = checks.iter().all(|(_, passed)| *passed);
    if passed && query.get("verbose").is_none() {
        return text(StatusCode::OK, "ok");
    }
    let name = path.trim_start_matches('/');
    let mut lines = String::new();
    for (check, passed) in checks {
        lines.push_str(&if passed { format!("[+]{check} ok\n") } else { format!("[-]{check} failed\n") });
    }
    lines.push_str(&format!("{name} check {}\n", if passed { "passed" } else { "failed" }));
    text(if passed { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR }, lines)
}
