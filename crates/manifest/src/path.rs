//! Field paths as Kubernetes writes them, and the nodes that they name.
//!
//! `spec.containers[0].env[2].value`, `metadata.labels['a.b/c']`, `data[KEY]`.

use crate::{Document, Node, NodeValue, Span};

/// How far into a document a path leads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Located<'d> {
    /// The node that the path names, or the deepest one on the way that exists.
    pub node: &'d Node,
    /// Where the node's key is written, if it is the value of a key.
    pub key_span: Option<Span>,
    /// Whether the path leads there completely.
    pub is_complete: bool,
}

impl Located<'_> {
    /// The best place to point at: a scalar's own, else the key's.
    pub fn span(&self) -> Span {
        match (&self.node.value, self.key_span) {
            (NodeValue::List(_) | NodeValue::Map(_) | NodeValue::Null, Some(key_span)) => key_span,
            (NodeValue::List(_) | NodeValue::Map(_) | NodeValue::Null, None) => first_line_of(self.node),
            (
                NodeValue::Bool(_) | NodeValue::Int(_) | NodeValue::Float(_) | NodeValue::String(_),
                Some(_) | None,
            ) => self.node.span,
        }
    }
}

/// A collection without a key is pointed at by its first key.
fn first_line_of(node: &Node) -> Span {
    node.entries().first().map_or(node.span, |entry| entry.key_span)
}

impl Document {
    /// The node that a field path names.
    pub fn find(&self, path: &str) -> Option<&Node> {
        let located = self.locate(path);
        located.is_complete.then_some(located.node)
    }

    /// The node that a field path names, or as near as the document comes to it.
    pub fn locate(&self, path: &str) -> Located<'_> {
        let mut located = Located { node: &self.root, key_span: None, is_complete: true };
        for step in Steps(path) {
            let next = match &located.node.value {
                NodeValue::Map(entries) => {
                    let key = step.text;
                    entries
                        .iter()
                        .find(|entry| entry.key == key)
                        .map(|entry| (&entry.value, Some(entry.key_span)))
                }
                NodeValue::List(items) if step.is_bracketed => step
                    .text
                    .parse::<usize>()
                    .ok()
                    .and_then(|index| items.get(index))
                    .map(|item| (item, None)),
                NodeValue::List(_)
                | NodeValue::Null
                | NodeValue::Bool(_)
                | NodeValue::Int(_)
                | NodeValue::Float(_)
                | NodeValue::String(_) => None,
            };
            let Some((node, key_span)) = next else {
                located.is_complete = false;
                break;
            };
            located = Located { node, key_span, is_complete: true };
        }
        located
    }
}

/// One step from a value to a value in it, for paths whose keys may hold dots and brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathStep<'p> {
    /// To the value of a key.
    Key(&'p str),
    /// To an item of a list.
    Index(usize),
}

impl Document {
    /// The node that the steps lead to, or as near as the document comes to it.
    pub fn follow<'p>(&self, steps: impl IntoIterator<Item = PathStep<'p>>) -> Located<'_> {
        let mut located = Located { node: &self.root, key_span: None, is_complete: true };
        for step in steps {
            let next = match step {
                PathStep::Key(key) => {
                    located.node.entry(key).map(|entry| (&entry.value, Some(entry.key_span)))
                }
                PathStep::Index(index) => located.node.items().get(index).map(|item| (item, None)),
            };
            let Some((node, key_span)) = next else {
                located.is_complete = false;
                break;
            };
            located = Located { node, key_span, is_complete: true };
        }
        located
    }
}

/// One step of a path.
struct Step<'p> {
    text: &'p str,
    is_bracketed: bool,
}

/// Walks a path step by step; what cannot be read as a step is one that leads nowhere.
struct Steps<'p>(&'p str);

impl<'p> Iterator for Steps<'p> {
    type Item = Step<'p>;

    fn next(&mut self) -> Option<Step<'p>> {
        let rest = self.0.strip_prefix('.').unwrap_or(self.0);
        if rest.is_empty() {
            return None;
        }
        if let Some(inside) = rest.strip_prefix("['") {
            let (text, after) = inside.split_once("']").unwrap_or((inside, ""));
            self.0 = after;
            return Some(Step { text, is_bracketed: true });
        }
        if let Some(inside) = rest.strip_prefix('[') {
            let (text, after) = inside.split_once(']').unwrap_or((inside, ""));
            self.0 = after;
            return Some(Step { text, is_bracketed: true });
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        self.0 = &rest[end..];
        Some(Step { text: &rest[..end], is_bracketed: false })
    }
}
