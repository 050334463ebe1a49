//! A resolution to its record, and an origin to words.

use environment::record::{ContainerRecord, OriginRecord};
use environment::{ContainerView, Resolution, Reveal, RuntimeFacts};

pub(super) fn container(
    container: &ContainerView<'_>,
    resolution: Resolution,
    facts: &RuntimeFacts,
    image_env: Option<&[String]>,
    reveal: Reveal,
) -> ContainerRecord {
    let _ = (facts, image_env, reveal, resolution);
    ContainerRecord {
        name: container.name.to_owned(),
        kind: container.kind,
        environment: vec![],
        command: None,
        args: None,
        findings: vec![],
    }
}

pub(super) fn origin_text(origin: &OriginRecord) -> String {
    origin.kind.clone()
}
