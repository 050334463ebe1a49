//! `coracle template export`: a template of the objects of a namespace, or of files.

use std::path::PathBuf;

use ::template::export::{Options, export};
use admission::AdmissionRequest;
use schema::FieldValidation;
use serde_json::Value;

use super::arguments::ObjectForm;
use super::kinds::{self, kind_of_word};
use super::{Ended, output};
use crate::cluster::ClusterArgs;
use crate::cluster::{Cluster, ClusterError, block_on};
use crate::failure::{Failure, INPUT};
use crate::input::Input;
use crate::standard_output;
use crate::terminal_text::paragraph;

/// Arguments of `coracle template export`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  coracle template export -n shop > shop.yaml              everything of a namespace
  coracle template export deploy svc/web -l app=web        some of it
  coracle template export -f app.yaml --parameterize       from files, with parameters for what commonly differs")]
pub(super) struct ExportArgs {
    /// What to take: `KIND`, `KIND/NAME`; everything, if nothing is named.
    #[arg(value_name = "KIND[/NAME]")]
    wanted: Vec<String>,
    /// Take the objects of files instead of a namespace; `-` is standard input.
    #[arg(short = 'f', long = "filename", visible_alias = "file", value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Take objects with these labels only.
    #[arg(short = 'l', long = "selector", value_name = "KEY=VALUE", value_delimiter = ',')]
    labels: Vec<String>,
    /// Name of the template [default: that of the namespace].
    #[arg(long, visible_alias = "name", value_name = "NAME")]
    as_template: Option<String>,
    /// Make parameters of names, image tags, replica counts, hosts and passwords.
    #[arg(long)]
    parameterize: bool,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = ObjectForm::Yaml, value_name = "FORM")]
    output: ObjectForm,
}

/// Runs the command.
pub(super) fn run(args: &ExportArgs) -> Ended {
    let labels = args
        .labels
        .iter()
        .map(|pair| {
            pair.split_once('=')
                .map(|(key, value)| (key.to_owned(), value.trim_start_matches('=').to_owned()))
        })
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| {
            Failure::text(INPUT, "a label is written KEY=VALUE").hint("sets and negations are not read here")
        })?;
    let Source { objects, name, kinds: known } =
        if args.files.is_empty() { of_cluster(args)? } else { of_files(args)? };
    if let [first, more @ ..] = &not_found(&args.wanted, &objects, &known)[..] {
        let failure = Failure::text(INPUT, first).hint("check the spelling and the namespace (-n)");
        return Err(more.iter().fold(failure, Failure::detail));
    }
    let (kinds, names): (Vec<String>, Vec<String>) =
        args.wanted.iter().map(|word| normal(word)).partition(|word| !word.contains('/'));
    // Kinds and single objects add up; the engine takes what satisfies both of its lists.
    let is_wanted = |object: &&Value| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let full = format!("{}/{}", text("/kind"), text("/metadata/name"));
        args.wanted.is_empty() || kinds.iter().any(|kind| kind == text("/kind")) || names.contains(&full)
    };
    let objects: Vec<Value> = objects.iter().filter(is_wanted).cloned().collect();
    let options = Options {
        name: args.as_template.as_deref().unwrap_or(&name),
        labels: &labels,
        parameterize: args.parameterize,
        ..Options::default()
    };
    let exported = export(&objects, &options, Some(&with_defaults)).map_err(|error| {
        Failure::new(INPUT, &error).hint("check the namespace (-n), the kinds and the labels")
    })?;
    for skipped in &exported.skipped {
        let what =
            format!("{}/{} is left out: {}", skipped.kind.to_lowercase(), skipped.name, skipped.reason);
        anstream::eprintln!("{}", paragraph(&what));
    }
    for (parameter, _) in &exported.taken {
        anstream::eprintln!("the value of {parameter} is not in the template: give it when it is processed");
    }
    standard_output::print(output::render(&exported.template, args.output))?;
    Ok(0)
}

/// What there is to take from.
struct Source {
    objects: Vec<Value>,
    /// Name for the template, if none is given.
    name: String,
    /// Kinds that it may have.
    kinds: Vec<String>,
}

/// What was named and is not there, in words. Pure.
fn not_found(wanted: &[String], objects: &[Value], known: &[String]) -> Vec<String> {
    let text = |object: &Value, pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let missing = wanted.iter().filter_map(|word| {
        let normal = normal(word);
        let (kind, name) =
            normal.split_once('/').map_or((normal.as_str(), None), |(kind, name)| (kind, Some(name)));
        if !known.iter().any(|each| each == kind) {
            return Some(format!(
                "there is no kind {:?} that could be exported",
                word.split('/').next().unwrap_or(word)
            ));
        }
        let is_there = |name: &str| {
            objects.iter().any(|each| text(each, "/kind") == kind && text(each, "/metadata/name") == name)
        };
        name.filter(|name| !is_there(name)).map(|_| format!("{word:?} could not be found"))
    });
    missing.collect()
}

/// `svc/web` is `Service/web`.
fn normal(word: &str) -> String {
    match word.split_once('/') {
        Some((kind, name)) => format!("{}/{name}", kind_of_word(kind)),
        None => kind_of_word(word),
    }
}

fn of_files(args: &ExportArgs) -> Result<Source, Failure> {
    let input = Input::read(&args.files).map_err(|error| Failure::new(INPUT, &error).hint(error.hint()))?;
    let objects = input.objects.iter().map(|object| object.document.root.to_json()).collect();
    let kinds = input.objects.iter().map(|object| object.kind.clone()).collect();
    Ok(Source { objects, name: "exported".to_owned(), kinds })
}

fn of_cluster(args: &ExportArgs) -> Result<Source, Failure> {
    let found = block_on(async {
        let cluster = Cluster::connect(&args.cluster).await?;
        let (mut objects, mut kinds) = (Vec::new(), Vec::new());
        for kind in kinds::namespaced(&cluster).await? {
            let listed = match cluster.list(&kind.collection(&cluster.namespace), "").await {
                Err(ClusterError::Refused { code: 403..=405, .. }) => Vec::new(),
                other => other?,
            };
            kinds.push(kind.kind.clone());
            objects.extend(listed.into_iter().map(|mut object| {
                // Items of a list need not say what they are.
                object["apiVersion"] = kind.group_version.clone().into();
                object["kind"] = kind.kind.clone().into();
                object
            }));
        }
        Ok(Source { objects, name: cluster.namespace, kinds })
    })?;
    found.map_err(|error: ClusterError| error.failure())
}

/// The object as the API server would store it; `None` for a kind that is not built in.
fn with_defaults(object: &Value) -> Option<Value> {
    let text = |name: &str| object[name].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let resource =
        schema::resources().iter().find(|each| each.group_version == api_version && each.kind == kind)?;
    let ty = schema::builtin().type_for(api_version, kind)?;
    let mut complete = schema::decode_value(ty, object, FieldValidation::Ignore).ok()?.value;
    // The server gives it before everything else; Jobs are selected by it.
    complete["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
    // What is wrong with it was so when it was stored.
    let _ = admission::prepare_create(resource, &mut complete, &AdmissionRequest::default());
    Some(complete)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::not_found;

    #[test]
    fn an_export_of_something_that_is_not_there_names_it() {
        let objects = [json!({"kind": "Pod", "metadata": {"name": "web"}})];
        let known = ["Pod".to_owned(), "Service".to_owned()];
        for (word, expected) in [
            ("pods/web", None),
            ("po", None),
            ("svc", None),
            ("pods/nonexist", Some("\"pods/nonexist\" could not be found")),
            ("svc/web", Some("\"svc/web\" could not be found")),
            ("bogus", Some("there is no kind \"bogus\" that could be exported")),
            ("bogus/x", Some("there is no kind \"bogus\" that could be exported")),
        ] {
            let said = not_found(&[word.to_owned()], &objects, &known);
            assert_eq!(said.first().map(String::as_str), expected, "{word}");
        }
    }
}
