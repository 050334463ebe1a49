//! The facts as the JSON files have them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::TableError;

/// Everything that the table is made from.
#[derive(Debug, Deserialize)]
pub struct Facts {
    pub(crate) types: BTreeMap<String, BTreeMap<String, GoType>>,
    pub(crate) resources: ResourceFacts,
    pub(crate) columns: BTreeMap<String, Vec<ColumnFact>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GoType {
    pub(crate) kind: String,
    pub(crate) underlying: Option<String>,
    #[serde(default)]
    pub(crate) values: Vec<serde_json::Value>,
    #[serde(rename = "structType")]
    pub(crate) struct_type: Option<String>,
    #[serde(default)]
    pub(crate) fields: Vec<GoField>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GoField {
    pub(crate) go: String,
    pub(crate) json: Option<String>,
    #[serde(default)]
    pub(crate) omitempty: bool,
    #[serde(default)]
    pub(crate) inline: bool,
    #[serde(rename = "type")]
    pub(crate) go_type: String,
    pub(crate) proto: Option<String>,
    #[serde(rename = "protoNum")]
    pub(crate) proto_number: Option<u16>,
    #[serde(rename = "protoName")]
    pub(crate) proto_name: Option<String>,
    #[serde(default)]
    pub(crate) optional: bool,
    #[serde(default)]
    pub(crate) required: bool,
    #[serde(rename = "listType")]
    pub(crate) list_type: Option<String>,
    #[serde(rename = "listMapKeys", default)]
    pub(crate) list_map_keys: Vec<String>,
    #[serde(rename = "mapType")]
    pub(crate) map_type: Option<String>,
    #[serde(rename = "structType")]
    pub(crate) struct_type: Option<String>,
    #[serde(rename = "patchStrategy")]
    pub(crate) patch_strategy: Option<String>,
    #[serde(rename = "patchMergeKey")]
    pub(crate) patch_merge_key: Option<String>,
    pub(crate) default: Option<String>,
    #[serde(rename = "featureGate")]
    pub(crate) feature_gate: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ResourceFacts {
    pub(crate) versions: Vec<String>,
    pub(crate) groups: Vec<GroupFact>,
    pub(crate) resources: BTreeMap<String, Vec<ResourceFact>>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct GroupFact {
    pub(crate) name: String,
    pub(crate) versions: Vec<String>,
    pub(crate) preferred: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceFact {
    pub(crate) name: String,
    pub(crate) singular_name: String,
    pub(crate) namespaced: bool,
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) group: String,
    #[serde(default)]
    pub(crate) version: String,
    pub(crate) verbs: Vec<String>,
    #[serde(default)]
    pub(crate) short_names: Vec<String>,
    #[serde(default)]
    pub(crate) categories: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ColumnFact {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) format: String,
    #[serde(default)]
    pub(crate) priority: u16,
}

impl Facts {
    /// Reads `types.json`, `resources.json` and `columns.json` of a directory, and `own.json`, which adds to all three.
    ///
    /// # Errors
    ///
    /// Files that are missing or have another form.
    pub fn read(directory: &Path) -> Result<Self, TableError> {
        let mut facts = Self {
            types: read_json(&directory.join("types.json"))?,
            resources: read_json(&directory.join("resources.json"))?,
            columns: read_json(&directory.join("columns.json"))?,
        };
        facts.add(read_json(&directory.join("own.json"))?);
        Ok(facts)
    }

    fn add(&mut self, own: Self) {
        for (package, types) in own.types {
            self.types.entry(package).or_default().extend(types);
        }
        self.resources.versions.extend(own.resources.versions);
        self.resources.groups.extend(own.resources.groups);
        for (group_version, resources) in own.resources.resources {
            self.resources.resources.entry(group_version).or_default().extend(resources);
        }
        self.columns.extend(own.columns);
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, TableError> {
    let text = std::fs::read(path).map_err(|source| TableError::File { path: path.to_owned(), source })?;
    serde_json::from_slice(&text).map_err(|source| TableError::Json { path: path.to_owned(), source })
}
