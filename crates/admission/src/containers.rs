//! The one visitor over the containers of a pod: no rule can forget a list.

use serde_json::Value;

use crate::path::Path;
use crate::tree::{items, text};

/// Every list of containers, in the order in which upstream visits them.
pub(crate) const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// What a container is to its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerKind {
    /// Runs once before the app containers.
    Init,
    /// Starts like an init container and stays.
    Sidecar,
    /// An app container.
    App,
    /// Added to a running pod.
    Ephemeral,
}

/// A container and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct PlacedContainer<'a> {
    pub(crate) kind: ContainerKind,
    pub(crate) path: Path,
    pub(crate) value: &'a Value,
}

/// Every container of a pod's spec, list after list.
pub(crate) fn all<'a>(spec: &'a Value, path: &Path) -> Vec<PlacedContainer<'a>> {
    let mut found = Vec::new();
    for list in CONTAINER_LISTS {
        for (index, value) in items(&spec[list]).iter().enumerate() {
            let kind = match list {
                "initContainers" if text(&value["restartPolicy"]) == "Always" => ContainerKind::Sidecar,
                "initContainers" => ContainerKind::Init,
                "ephemeralContainers" => ContainerKind::Ephemeral,
                _ => ContainerKind::App,
            };
            found.push(PlacedContainer { kind, path: path.child(list).index(index), value });
        }
    }
    found
}
