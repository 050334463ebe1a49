//! Pod.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Hooks, Strategy};
use crate::lookup::objects;
use crate::object::{at, name, text};
use crate::selector::SelectableField;
use crate::status::ApiError;
use crate::table::pod_cells;
use crate::writing::Write;

pub(crate) struct Pods;

impl Strategy for Pods {
    fn subresources(&self) -> &'static [&'static str] {
        &[
            "attach",
            "binding",
            "environment",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "proxy",
            "status",
        ]
    }

    fn fields(&self) -> &'static [SelectableField] {
        &[
            SelectableField { label: "spec.nodeName", paths: &[&["spec", "nodeName"]], absent: "" },
            SelectableField { label: "spec.restartPolicy", paths: &[&["spec", "restartPolicy"]], absent: "" },
            SelectableField { label: "spec.schedulerName", paths: &[&["spec", "schedulerName"]], absent: "" },
            SelectableField {
                label: "spec.serviceAccountName",
                paths: &[&["spec", "serviceAccountName"]],
                absent: "",
            },
            SelectableField {
                label: "spec.hostNetwork",
                paths: &[&["spec", "hostNetwork"]],
                absent: "false",
            },
            SelectableField { label: "status.phase", paths: &[&["status", "phase"]], absent: "" },
            SelectableField { label: "status.podIP", paths: &[&["status", "podIP"]], absent: "" },
            SelectableField {
                label: "status.nominatedNodeName",
                paths: &[&["status", "nominatedNodeName"]],
                absent: "",
            },
        ]
    }

    fn hooks(&self) -> Hooks {
        Hooks::Pods
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        // Everything else of the status is the node's; the quality of service class is filled in with the defaults.
        object["status"] = json!({"phase": "Pending"});
    }

    fn check(&self, write: &Write<'_>, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
        if old.is_some() {
            return Ok(());
        }
        let ranges = objects(write.server, "", "limitranges", Some(write.namespace));
        match admission::pod_refusal(&ranges, new) {
            Some(refusal) => Err(ApiError::forbidden(write.kind, name(new), refusal)),
            None => Ok(()),
        }
    }

    fn is_graceful(&self) -> bool {
        true
    }

    fn deletion_grace(&self, object: &Value, requested: Option<i64>) -> i64 {
        let on_node = !text(object, &["spec", "nodeName"]).is_empty();
        if !on_node || matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed") {
            return 0;
        }
        let seconds = requested
            .or_else(|| at(object, &["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64))
            .unwrap_or(api::limits::DEFAULT_GRACE_SECONDS);
        if seconds < 0 { 1 } else { seconds }
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        Some(pod_cells(object, now))
    }
}
