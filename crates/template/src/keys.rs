//! Keys that stand twice in one map: one of the two values would be lost in silence, and with it what it refers to.

use std::collections::HashMap;

use manifest::{Node, NodeValue, Notice, Span};

use crate::place::{Path, beginning};
use crate::problem::Problems;
use crate::{Place, ProblemKind, Refusal};

/// Refuses a template of whose text the reader noticed that keys stand twice.
///
/// # Errors
///
/// Every such key with both of its places.
pub fn check_keys(root: &Node, notices: &[Notice]) -> Result<(), Refusal> {
    if notices.is_empty() {
        return Ok(());
    }
    let spans = notices.iter().map(|Notice::DuplicateKey { again, .. }| again.start.offset);
    let mut search =
        Search { fields: spans.map(|offset| (offset, String::new())).collect(), path: Path::default() };
    search.node(root);
    let mut problems = Problems::default();
    for Notice::DuplicateKey { key, first, again } in notices {
        let kind = ProblemKind::DuplicateKey { key: beginning(key), first: first.start, again: again.start };
        let field = search.fields.get(&again.start.offset).cloned().unwrap_or_default();
        problems.add(kind, || Place::new(field, *again));
    }
    problems.refuse(&[])
}

/// The fields of keys, by where these stand.
struct Search {
    fields: HashMap<u32, String>,
    path: Path,
}

impl Search {
    fn node(&mut self, node: &Node) {
        match &node.value {
            NodeValue::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let back = self.path.enter_item(index);
                    self.node(item);
                    self.path.back(back);
                }
            }
            NodeValue::Map(entries) => {
                for entry in entries {
                    let back = self.path.enter_key(&entry.key);
                    self.found(entry.key_span);
                    self.node(&entry.value);
                    self.path.back(back);
                }
            }
            NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Int(_)
            | NodeValue::Float(_)
            | NodeValue::String(_) => {}
        }
    }

    fn found(&mut self, span: Span) {
        if let Some(field) = self.fields.get_mut(&span.start.offset) {
            self.path.as_str().clone_into(field);
        }
    }
}
