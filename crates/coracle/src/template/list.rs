//! `coracle template list`: the instances of a namespace, by the label of their objects.

use std::collections::BTreeMap;

use ::template::INSTANCE_LABEL;
use serde_json::{Value, json};

use super::Ended;
use super::arguments::ListForm;
use super::kinds::{self, ServedKind};
use super::table::{cell, render};
use crate::cluster::ClusterArgs;
use crate::cluster::{Cluster, ClusterError, block_on};
use crate::standard_output;
use crate::terminal_text::paragraph;

/// Arguments of `coracle template list`.
#[derive(clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = ListForm::Table, value_name = "FORM")]
    output: ListForm,
}

/// An object of an instance.
pub(super) struct Member {
    pub(super) instance: String,
    pub(super) kind: ServedKind,
    pub(super) name: String,
}

/// Runs the command.
pub(super) fn run(args: &ListArgs) -> Ended {
    let found = block_on(async {
        let cluster = Cluster::connect(&args.cluster).await?;
        Ok((members(&cluster, INSTANCE_LABEL).await?, cluster.namespace))
    })?;
    let (members, namespace) = found.map_err(|error: ClusterError| error.failure())?;
    let mut instances: BTreeMap<&str, Vec<&Member>> = BTreeMap::new();
    for member in &members {
        instances.entry(&member.instance).or_default().push(member);
    }
    let text = match args.output {
        ListForm::Table if instances.is_empty() => {
            anstream::eprintln!("No instances found in {namespace} namespace.");
            String::new()
        }
        ListForm::Table => {
            let rows: Vec<Vec<String>> = instances
                .iter()
                .map(|(instance, members)| vec![cell(instance), members.len().to_string(), kinds_of(members)])
                .collect();
            render(&["INSTANCE", "OBJECTS", "KINDS"], &rows)
        }
        ListForm::Json => {
            let list: Vec<Value> = instances
                .iter()
                .map(|(instance, members)| {
                    let objects: Vec<Value> = members
                        .iter()
                        .map(|each| json!({"apiVersion": each.kind.group_version, "kind": each.kind.kind, "name": each.name}))
                        .collect();
                    json!({"instance": instance, "namespace": namespace, "objects": objects})
                })
                .collect();
            format!("{:#}\n", Value::Array(list))
        }
        ListForm::Name => instances.keys().map(|instance| format!("{instance}\n")).collect(),
    };
    standard_output::print(text)?;
    Ok(0)
}

/// `2 Pod, 1 Service`.
fn kinds_of(members: &[&Member]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for member in members {
        *counts.entry(&member.kind.kind).or_default() += 1;
    }
    let parts: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    parts.join(", ")
}

/// The objects of the namespace that a selector takes, without those that others made.
///
/// # Errors
///
/// The server cannot be asked.
pub(super) async fn members(cluster: &Cluster, selector: &str) -> Result<Vec<Member>, ClusterError> {
    let mut members = Vec::new();
    for kind in kinds::namespaced(cluster).await? {
        let items = match cluster.list(&kind.collection(&cluster.namespace), selector).await {
            // What may not be read was not made with these rights either.
            Err(ClusterError::Refused { code: 403..=405, .. }) => Vec::new(),
            other => other?,
        };
        for item in items {
            let owners = item.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            if owners.is_some_and(|owners| !owners.is_empty()) {
                continue;
            }
            let text =
                |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let labels = item.pointer("/metadata/labels");
            let instance = labels.and_then(|labels| labels.get(INSTANCE_LABEL)).and_then(Value::as_str);
            members.push(Member {
                instance: instance.unwrap_or_default().to_owned(),
                kind: kind.clone(),
                name: paragraph(&text("/metadata/name")),
            });
        }
    }
    Ok(members)
}
