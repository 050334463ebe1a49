//! ResourceQuota: its status is the server's.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Strategy;
use crate::object::{at, text};
use crate::table::{age_cell, name_cell};

pub(crate) struct ResourceQuotas;

impl Strategy for ResourceQuotas {
    fn subresources(&self) -> &'static [&'static str] {
        &["status"]
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        let mut hard: Vec<_> =
            at(object, &["status", "hard"]).and_then(Value::as_object).into_iter().flatten().collect();
        hard.sort_by_key(|(name, _)| *name);
        for (name, most) in hard {
            let used = text(object, &["status", "used", name]);
            let used = if used.is_empty() { "0" } else { used };
            let column = if name.starts_with("limits.") { &mut limits } else { &mut requests };
            column.push(format!("{name}: {used}/{}", most.as_str().unwrap_or_default()));
        }
        Some(vec![
            name_cell(object),
            requests.join(", ").into(),
            limits.join(", ").into(),
            age_cell(object, now),
        ])
    }
}
