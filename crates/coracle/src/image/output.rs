//! How images look: a table and sentences for people, JSON for programs. Pure.

use std::collections::BTreeMap;

use images::{Image, Reference, Removed};
use serde::Serialize;

/// An image for programs. Names and meaning are those of `docs/images.md`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImageDescription<'a> {
    id: String,
    references: &'a [String],
    repo_digests: &'a [String],
    architecture: &'a str,
    size: u64,
    layers: usize,
    config: ConfigDescription<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigDescription<'a> {
    env: &'a [String],
    entrypoint: &'a [String],
    cmd: &'a [String],
    user: &'a str,
    working_dir: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_signal: Option<&'a str>,
    labels: &'a BTreeMap<String, String>,
    volumes: &'a [String],
    exposed_ports: &'a [String],
}

/// What a removal took away, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RemovalDescription {
    references: Vec<String>,
    images: Vec<String>,
    layers: usize,
    held_layers: usize,
}

/// An image for programs.
pub(super) fn describe(image: &Image) -> ImageDescription<'_> {
    let config = &image.config;
    ImageDescription {
        id: image.id.to_string(),
        references: &image.references,
        repo_digests: &image.repo_digests,
        architecture: &image.architecture,
        size: image.size,
        layers: image.layers.len(),
        config: ConfigDescription {
            env: &config.env,
            entrypoint: &config.entrypoint,
            cmd: &config.cmd,
            user: &config.user,
            working_dir: &config.working_dir,
            stop_signal: config.stop_signal.as_deref(),
            labels: &config.labels,
            volumes: &config.volumes,
            exposed_ports: &config.exposed_ports,
        },
    }
}

/// A removal for programs.
pub(super) fn describe_removal(removed: &Removed) -> RemovalDescription {
    RemovalDescription {
        references: removed.references.clone(),
        images: removed.images.iter().map(ToString::to_string).collect(),
        layers: removed.layers,
        held_layers: removed.held_layers,
    }
}

/// JSON with indentation.
pub(super) fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("descriptions have string keys only")
}

/// "pulled NAME (IDENTITY, SIZE)".
pub(super) fn sentence(done: &str, name: &str, image: &Image) -> String {
    format!("{done} {name} ({}, {})", short_id(&image.id.to_hex()), human_size(image.size))
}

/// All tags of an image in one line.
pub(super) fn all_names(image: &Image) -> String {
    match image.references.is_empty() {
        true => "an image without a name".to_owned(),
        false => image.references.join(", "),
    }
}

/// What a removal says.
pub(super) fn removal(removed: &Removed) -> Vec<String> {
    let names = removed.references.iter().map(|name| format!("removed name {name}"));
    let images = removed.images.iter().map(|id| format!("removed image {id}"));
    let held = match removed.held_layers {
        0 => None,
        count => Some(format!("{count} layers stay until the containers that use them are gone")),
    };
    names.chain(images).chain(held).collect()
}

/// One line for each name of each image, columns aligned.
pub(super) fn table(images: &[Image]) -> Vec<String> {
    let mut rows: Vec<[String; 4]> = vec![["REPOSITORY", "TAG", "IMAGE ID", "SIZE"].map(str::to_owned)];
    for image in images {
        for (repository, tag) in names(image) {
            rows.push([repository, tag, short_id(&image.id.to_hex()).to_owned(), human_size(image.size)]);
        }
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..4).map(width).collect();
    rows.iter()
        .map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("   ").trim_end().to_owned()
        })
        .collect()
}

fn names(image: &Image) -> Vec<(String, String)> {
    const NONE: &str = "<none>";
    let tagged = image.references.iter().filter_map(|text| Reference::parse(text).ok());
    let tagged: Vec<(String, String)> =
        tagged.map(|it| (it.name(), it.tag().unwrap_or(NONE).to_owned())).collect();
    if !tagged.is_empty() {
        return tagged;
    }
    let digested =
        image.repo_digests.iter().filter_map(|text| Reference::parse(text).ok()).map(|it| it.name());
    let mut digested: Vec<(String, String)> = digested.map(|name| (name, NONE.to_owned())).collect();
    digested.dedup();
    match digested.is_empty() {
        true => vec![(NONE.to_owned(), NONE.to_owned())],
        false => digested,
    }
}

fn short_id(hex: &str) -> &str {
    &hex[..12]
}

/// Three significant digits in powers of 1,000, as docker shows sizes.
pub(super) fn human_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "kB", "MB", "GB", "TB", "PB"].into_iter().peekable();
    let mut unit = "B";
    while let Some(next) = units.next() {
        unit = next;
        if value < 999.5 || units.peek().is_none() {
            break;
        }
        value /= 1000.0;
    }
    let decimals = match value {
        _ if unit == "B" => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}
