//! What a pod says of its hooks: handlers in the specification and in annotations, their contract, parameters, timeouts.
//! What cannot be read counts as absent; admission refuses it before.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{LifecycleHandler, Pod};

use crate::containers::pod_container;
use crate::hook::HookKind;

/// On a pod: the contract of its hooks. The only value is [`HOOK_CONTRACT_DOCUMENT`].
pub const HOOK_CONTRACT: &str = "hooks.coracle.dev/contract";

/// Value of [`HOOK_CONTRACT`]: success of an exec hook is the output `ok`, HTTP 5xx is a failure, and health checks
/// of the pod pause while a hook runs.
pub const HOOK_CONTRACT_DOCUMENT: &str = "document";

/// On a pod: `"true"` hands hooks their parameters (`--reason=` flag, `?reason=` query).
pub const HOOK_PARAMETERS: &str = "hooks.coracle.dev/parameters";

/// On a pod: JSON `{"CONTAINER": {"preStart": HANDLER, "postRestart": HANDLER}}`.
pub const HOOK_HANDLERS: &str = "hooks.coracle.dev/handlers";

/// On a pod: JSON `{"CONTAINER": {"postStart": "30s"}}`, a timeout for each hook.
pub const HOOK_TIMEOUTS: &str = "hooks.coracle.dev/timeouts";

/// On a pod: `"true"` expands `$(VAR)` in hooks and exec probes from the container's record.
pub const HOOK_EXPAND: &str = "hooks.coracle.dev/expand";

/// What a pod switches on for all its hooks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HookSettings {
    /// The documents' rules of success, and health checks that pause.
    pub document: bool,
    /// Parameters are passed on.
    pub parameters: bool,
    /// References are expanded.
    pub expand: bool,
}

impl HookSettings {
    /// What the annotations of a pod say.
    pub fn of(pod: &Pod) -> Self {
        Self {
            document: annotation(pod, HOOK_CONTRACT) == Some(HOOK_CONTRACT_DOCUMENT),
            parameters: annotation(pod, HOOK_PARAMETERS) == Some("true"),
            expand: annotation(pod, HOOK_EXPAND) == Some("true"),
        }
    }
}

fn annotation<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

/// What stands in a JSON annotation for one hook of one container.
fn entry(pod: &Pod, name: &str, container: &str, hook: HookKind) -> Option<serde_json::Value> {
    let all = parsed(annotation(pod, name)?)?;
    all.get(container)?.get(hook.as_str()).cloned()
}

/// An annotation as JSON. The last one is remembered: a plan asks for each container and hook of its pod, and the text is
/// as long as the pod's author likes.
fn parsed(text: &str) -> Option<Rc<serde_json::Value>> {
    type Last = Option<(String, Option<Rc<serde_json::Value>>)>;
    thread_local! {
        static LAST: RefCell<Last> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| match last {
        Some((known, value)) if known == text => value.clone(),
        Some(_) | None => {
            let value = serde_json::from_str(text).ok().map(Rc::new);
            *last = Some((text.to_owned(), value.clone()));
            value
        }
    })
}

/// The handler of a container's hook, if it has one.
pub fn hook_handler(pod: &Pod, container: &str, hook: HookKind) -> Option<LifecycleHandler> {
    let found = pod_container(pod, container)?;
    let lifecycle = found.spec.lifecycle.as_ref();
    match hook {
        HookKind::PostStart => lifecycle?.post_start.clone(),
        HookKind::PreStop => lifecycle?.pre_stop.clone(),
        HookKind::PreStart | HookKind::PostRestart => {
            serde_json::from_value(entry(pod, HOOK_HANDLERS, container, hook)?).ok()
        }
    }
}

/// How long a container's hook may take at most, if the pod says so.
pub fn hook_timeout(pod: &Pod, container: &str, hook: HookKind) -> Option<Duration> {
    parse_hook_timeout(entry(pod, HOOK_TIMEOUTS, container, hook)?.as_str()?)
}

/// A timeout such as `30s`, `1m30s` or `500ms`: more than nothing, and less than a year.
pub fn parse_hook_timeout(text: &str) -> Option<Duration> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    let parsed: jiff::SignedDuration = text.parse().ok().filter(|_| is_plain)?;
    let duration = Duration::try_from(parsed).ok()?;
    let a_year = Duration::from_secs(365 * 24 * 60 * 60);
    (!duration.is_zero() && duration < a_year).then_some(duration)
}

#[cfg(test)]
mod tests {
    use super::{HookSettings, hook_handler, hook_timeout, parse_hook_timeout};
    use crate::hook::HookKind;
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;
    use std::time::Duration;

    fn pod(annotations: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"annotations": annotations}, "spec": {"containers": [
            {"name": "a", "lifecycle": {"postStart": {"sleep": {"seconds": 1}}}}, {"name": "b"},
        ]}}))
        .expect("a pod")
    }

    #[test]
    fn timeouts_are_durations_of_more_than_nothing() {
        let rows = [
            ("30s", Some(30_000)),
            ("1m30s", Some(90_000)),
            ("500ms", Some(500)),
            ("1.5s", Some(1_500)),
            ("0s", None),
            ("-3s", None),
            ("30", None),
            ("", None),
            ("ever", None),
            ("9000000h", None),
        ];
        for (text, millis) in rows {
            assert_eq!(parse_hook_timeout(text), millis.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn handlers_and_timeouts_are_found_by_container_and_hook() {
        let pod = pod(json!({
            "hooks.coracle.dev/handlers": r#"{"b": {"preStart": {"httpGet": {"path": "/", "port": 1}}}}"#,
            "hooks.coracle.dev/timeouts": r#"{"a": {"postStart": "2s"}}"#,
        }));
        assert!(hook_handler(&pod, "a", HookKind::PostStart).is_some_and(|hook| hook.sleep.is_some()));
        assert!(hook_handler(&pod, "b", HookKind::PreStart).is_some_and(|hook| hook.http_get.is_some()));
        assert!(hook_handler(&pod, "a", HookKind::PreStart).is_none());
        assert!(hook_handler(&pod, "b", HookKind::PostRestart).is_none());
        assert!(hook_handler(&pod, "nobody", HookKind::PreStart).is_none());
        assert_eq!(hook_timeout(&pod, "a", HookKind::PostStart), Some(Duration::from_secs(2)));
        assert_eq!(hook_timeout(&pod, "a", HookKind::PreStop), None);
    }

    #[test]
    fn what_cannot_be_read_counts_as_absent() {
        let pod = pod(json!({
            "hooks.coracle.dev/handlers": "{", "hooks.coracle.dev/timeouts": r#"{"a": {"postStart": 3}}"#,
            "hooks.coracle.dev/contract": "documents", "hooks.coracle.dev/parameters": "yes",
            "hooks.coracle.dev/expand": "true",
        }));
        assert!(hook_handler(&pod, "b", HookKind::PreStart).is_none());
        assert!(hook_timeout(&pod, "a", HookKind::PostStart).is_none());
        assert_eq!(HookSettings::of(&pod), HookSettings { document: false, parameters: false, expand: true });
    }
}
