//! Validation of what a pod's annotations say of its hooks: the same handlers, with the same words, as in `lifecycle`.

use lifecycle::{
    HOOK_CONTRACT, HOOK_CONTRACT_DOCUMENT, HOOK_EXPAND, HOOK_HANDLERS, HOOK_PARAMETERS, HOOK_TIMEOUTS,
    HookKind, parse_hook_timeout,
};
use schema::FieldValidation;
use serde_json::{Map, Value};

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::pod_spec::handler;
use crate::tree::{entries, is_set, items, text};

/// The prefix that all of them have.
const PREFIX: &str = "hooks.coracle.dev/";

const KNOWN: [&str; 5] = [HOOK_CONTRACT, HOOK_EXPAND, HOOK_HANDLERS, HOOK_PARAMETERS, HOOK_TIMEOUTS];

/// Checks the annotations at `path` of a pod with that spec.
pub(crate) fn validate(errors: &mut FieldErrors, path: &Path, annotations: &Value, spec: &Value) {
    for (key, value) in entries(annotations) {
        if !key.starts_with(PREFIX) {
            continue;
        }
        let at = path.key(key);
        let value = text(value);
        match key.as_str() {
            HOOK_CONTRACT if value != HOOK_CONTRACT_DOCUMENT => {
                errors.not_supported(&at, value, &[HOOK_CONTRACT_DOCUMENT]);
            }
            HOOK_PARAMETERS | HOOK_EXPAND if !matches!(value, "true" | "false") => {
                errors.not_supported(&at, value, &["false", "true"]);
            }
            HOOK_CONTRACT | HOOK_PARAMETERS | HOOK_EXPAND => {}
            HOOK_HANDLERS => {
                for (at, name, hooks) in containers(errors, &at, value, spec) {
                    for (hook, handler) in hooks {
                        check_handler(errors, &at, &name, &hook, handler, spec);
                    }
                }
            }
            HOOK_TIMEOUTS => {
                for (at, _, hooks) in containers(errors, &at, value, spec) {
                    for (hook, timeout) in hooks {
                        check_timeout(errors, &at, &hook, &timeout);
                    }
                }
            }
            _ => errors.not_supported(path, key, &KNOWN),
        }
    }
}

/// The containers that a JSON annotation names, each with its place and its hooks. What is no such thing is an error.
fn containers(
    errors: &mut FieldErrors,
    path: &Path,
    value: &str,
    spec: &Value,
) -> Vec<(Path, String, Map<String, Value>)> {
    let all = match serde_json::from_str::<Value>(value) {
        Ok(Value::Object(all)) => all,
        Ok(_) => {
            errors.invalid(path, value, "must be a JSON object of containers by name");
            return Vec::new();
        }
        Err(error) => {
            errors.invalid(path, value, format!("must be JSON: {error}"));
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for (name, hooks) in all {
        let at = path.key(&name);
        match (role(spec, &name), hooks) {
            (Role::Unknown, _) => errors.not_found(&at, &name),
            (Role::Init, _) => {
                errors.forbidden(&at, "may not be set for init containers without restartPolicy=Always");
            }
            (Role::Ephemeral, _) => errors.forbidden(&at, "cannot be set for an Ephemeral Container"),
            (Role::Hooked, Value::Object(hooks)) => found.push((at, name, hooks)),
            (Role::Hooked, other) => errors.invalid(&at, other, "must be a JSON object of hooks by name"),
        }
    }
    found
}

/// What a container of that name is.
enum Role {
    Hooked,
    Init,
    Ephemeral,
    Unknown,
}

fn role(spec: &Value, name: &str) -> Role {
    let named = |list: &str| items(&spec[list]).iter().find(|container| text(&container["name"]) == name);
    match (named("containers"), named("initContainers"), named("ephemeralContainers")) {
        (Some(_), _, _) => Role::Hooked,
        (None, Some(init), _) if init["restartPolicy"] == "Always" => Role::Hooked,
        (None, Some(_), _) => Role::Init,
        (None, None, Some(_)) => Role::Ephemeral,
        (None, None, None) => Role::Unknown,
    }
}

fn check_handler(
    errors: &mut FieldErrors,
    path: &Path,
    container: &str,
    hook: &str,
    handler: Value,
    spec: &Value,
) {
    let at = path.child(hook);
    match HookKind::parse(hook) {
        Some(HookKind::PreStart | HookKind::PostRestart) => {}
        Some(HookKind::PostStart | HookKind::PreStop) => {
            let detail = format!("belongs to the field lifecycle.{hook} of container {container}");
            return errors.forbidden(&at, detail);
        }
        None => return errors.not_supported(path, hook, &["postRestart", "preStart"]),
    }
    let ty = schema::builtin().type_named("api/core/v1", "LifecycleHandler");
    let decoded = ty.map(|ty| schema::decode_value(ty, &handler, FieldValidation::Strict));
    let mut handler = match decoded {
        Some(Ok(decoded)) => decoded.value,
        Some(Err(error)) => return errors.invalid(&at, handler, error.to_string()),
        None => handler,
    };
    if is_set(&handler["httpGet"]) {
        // What the API server fills in elsewhere.
        for (name, default) in [("path", "/"), ("scheme", "HTTP")] {
            if !is_set(&handler["httpGet"][name]) {
                handler["httpGet"][name] = default.into();
            }
        }
    }
    if hook == HookKind::PreStart.as_str() && is_set(&handler["exec"]) {
        let detail = "exec is incompatible with preStart, which is sent before the container exists";
        return errors.forbidden(&at.child("exec"), detail);
    }
    if is_set(&handler["tcpSocket"]) {
        return errors.forbidden(&at.child("tcpSocket"), "a hook cannot be a TCP connection");
    }
    let grace_seconds = spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    handler::validate(errors, &at, &handler, grace_seconds);
}

fn check_timeout(errors: &mut FieldErrors, path: &Path, hook: &str, timeout: &Value) {
    if HookKind::parse(hook).is_none() {
        let mut names = HookKind::ALL.map(HookKind::as_str);
        names.sort_unstable();
        return errors.not_supported(path, hook, &names);
    }
    if timeout.as_str().and_then(parse_hook_timeout).is_none() {
        errors.invalid(&path.child(hook), timeout.clone(), "must be a duration such as 30s, 1m30s or 500ms");
    }
}
