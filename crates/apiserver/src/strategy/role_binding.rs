//! RoleBinding and ClusterRoleBinding.

use jiff::Timestamp;
use serde_json::Value;

use super::Strategy;
use crate::object::{list, text};
use crate::table::{age_cell, name_cell};

pub(crate) struct RoleBindings;

impl Strategy for RoleBindings {
    fn creates_on_update(&self) -> bool {
        true
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let role = format!("{}/{}", text(object, &["roleRef", "kind"]), text(object, &["roleRef", "name"]));
        Some(vec![
            name_cell(object),
            role.into(),
            age_cell(object, now),
            subjects(object, "User").into(),
            subjects(object, "Group").into(),
            subjects(object, "ServiceAccount").into(),
        ])
    }
}

/// The subjects of a kind: names, for service accounts with their namespace.
fn subjects(object: &Value, kind: &str) -> String {
    let chosen = list(object, &["subjects"]).iter().filter(|subject| text(subject, &["kind"]) == kind);
    let names: Vec<String> = chosen
        .map(|subject| match text(subject, &["namespace"]) {
            "" => text(subject, &["name"]).to_owned(),
            namespace => format!("{namespace}/{}", text(subject, &["name"])),
        })
        .collect();
    names.join(", ")
}
