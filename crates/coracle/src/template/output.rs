//! Objects as text: the same bytes wherever they were processed.

use manifest::Node;

use super::arguments::ObjectForm;
use crate::terminal_text::paragraph;

/// A list or template in a form.
pub(super) fn render(node: &Node, form: ObjectForm) -> String {
    match form {
        ObjectForm::Yaml => manifest::to_yaml(node),
        ObjectForm::Json => manifest::to_json_text(node),
        ObjectForm::Name => names(node),
    }
}

/// `kind/name` of each object, as `kubectl -o name` writes them.
fn names(node: &Node) -> String {
    let items = node.get("items").or_else(|| node.get("objects")).map(Node::items).unwrap_or_default();
    let mut text = String::new();
    for object in items {
        text.push_str(&paragraph(&shown_name(object)));
        text.push('\n');
    }
    text
}

/// `service/db`, `deployment.apps/web`.
pub(super) fn shown_name(object: &Node) -> String {
    let of = |node: Option<&Node>| node.and_then(Node::as_str).unwrap_or_default().to_owned();
    let api_version = of(object.get("apiVersion"));
    let kind = of(object.get("kind")).to_lowercase();
    let name = of(object.get("metadata").and_then(|metadata| metadata.get("name")));
    match api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}
