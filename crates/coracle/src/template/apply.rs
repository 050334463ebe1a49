//! `coracle template apply`: a template as an instance on an API server. Applied again, it changes what the template
//! changed; generated values stay as they are.

use std::collections::BTreeMap;

use ::template::{INSTANCE_LABEL, Processed, Request, Template, ValueOrigin, instance};
use environment::{SecretText, Severity};
use manifest::{Document, Node};
use serde_json::Value;

use super::arguments::{SourceArgs, ValueArgs};
use super::kinds::Kinds;
use super::rehearsal::{NotYetThere, how_far};
use super::report::Reporter;
use super::source::{self, TemplateSource};
use super::values::{self, Given};
use super::write::{Target, Writing};
use super::{Ended, output};
use crate::cluster::ClusterArgs;
use crate::cluster::{Cluster, ClusterError, block_on, escaped};
use crate::failure::{Failure, INPUT};
use crate::standard_output;
use crate::terminal_text::paragraph;

/// Arguments of `coracle template apply`.
#[derive(clap::Args)]
#[command(after_help = "\
Every object gets the label template.coracle.dev/instance. Generated values are kept in the Secret INSTANCE-parameters.

Examples:
  coracle template apply -f app.yaml -p TAG=1.2                 the instance has the template's name
  coracle template apply -f app.yaml --instance second          another one beside it
  coracle template apply -f app.yaml --regenerate PASSWORD      a new password")]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Generate the value of this parameter again.
    #[arg(long, value_name = "NAME")]
    regenerate: Vec<String>,
    #[command(flatten)]
    values: ValueArgs,
}

/// Runs the command.
pub(super) fn run(args: &ApplyArgs) -> Ended {
    let words = source::words(&args.source, |path| path.exists())?;
    let source = source::open(&words.origin, &args.cluster)?;
    let reporter = Reporter::new(&source.input, source.object());
    let template = source::read(&source, &args.values, &reporter)?;
    let name = args.values.instance.as_deref().unwrap_or(template.name);
    if name.is_empty() {
        return Err(Failure::text(INPUT, "the instance needs a name, and the template has none")
            .hint("give one with --instance NAME"));
    }
    instance::check_instance_name(name).map_err(|refusal| reporter.refusal(&refusal))?;
    let mut given = values::of_flags(&args.values, &words.values)?;
    values::add_environment(&mut given, &args.values, &template, |name| std::env::var_os(name))?;
    values::ask(&mut given, &args.values, &template)?;
    check_regenerated(&args.regenerate, &given)?;
    let session = Session {
        args,
        source: &source,
        template: &template,
        reporter: &reporter,
        instance: name,
        given: &given,
    };
    block_on(session.apply())?
}

/// A value that is given is none that could be generated again.
fn check_regenerated(regenerate: &[String], given: &Given) -> Result<(), Failure> {
    match regenerate.iter().find(|name| given.has(name)) {
        None => Ok(()),
        Some(name) => {
            let what = format!("--regenerate {name} has no effect: a value is given for {name}");
            Err(Failure::text(INPUT, what).hint("leave out either --regenerate or the value"))
        }
    }
}

/// An object on its way.
struct Planned<'n> {
    node: &'n Node,
    object: Value,
    target: Target,
}

struct Session<'s> {
    args: &'s ApplyArgs,
    source: &'s TemplateSource,
    template: &'s Template<'s>,
    reporter: &'s Reporter<'s>,
    instance: &'s str,
    given: &'s Given,
}

impl Session<'_> {
    async fn apply(&self) -> Ended {
        let mut cluster = Cluster::connect(&self.args.cluster).await.map_err(|error| error.failure())?;
        if let (Some(namespace), None) = (&self.source.namespace, &self.args.cluster.namespace) {
            cluster.namespace.clone_from(namespace);
        }
        let kept = self.kept(&cluster).await.map_err(|error| error.failure())?;
        let request = Request {
            instance: Some(self.instance),
            kept: &kept,
            regenerate: &self.args.regenerate,
            ..self.given.request(&self.args.values)
        };
        let processed = ::template::process(self.template, &request, &mut super::random_bytes)
            .map_err(|refusal| self.reporter.refusal(&refusal))?;
        self.reporter.findings(&processed.findings, Severity::Warning);
        let secret = instance::parameters_secret(&processed, self.instance, None);
        let mut objects: Vec<&Node> = processed.objects.iter().collect();
        objects.sort_by_key(|object| rank(object));
        let planned = self.rehearsed(&cluster, secret.iter().chain(objects), &processed).await?;
        self.say_generated(&processed)?;
        self.write(&cluster, planned, &processed).await?;
        if let Some(message) = &processed.message {
            standard_output::line(format_args!("\n{}", paragraph(message.trim_end())))?;
        }
        Ok(0)
    }

    /// Looks everything up and has the API server try every write, so that a mistake leaves nothing half done. What it
    /// refuses is told all at once.
    async fn rehearsed<'n>(
        &self,
        cluster: &Cluster,
        nodes: impl Iterator<Item = &'n Node>,
        processed: &Processed,
    ) -> Result<Vec<Planned<'n>>, Failure> {
        let (mut planned, mut kinds) = (Vec::new(), Kinds::default());
        let (mut missing, mut refused) = (NotYetThere::default(), 0);
        for node in nodes {
            let object = node.to_json();
            match Target::look_up(cluster, &mut kinds, &object, self.instance).await {
                Ok(target) => {
                    if target.is_new() {
                        missing.add(&object);
                    }
                    planned.push(Planned { node, object, target });
                }
                Err(error) => refused += self.tell_refusal(error, node, processed)?,
            }
        }
        for Planned { node, object, target } in &mut planned {
            match target.write(cluster, object, Writing::Rehearsal).await {
                Err(error) if missing.explains(&error, object) => {}
                Err(error) => refused += self.tell_refusal(error, node, processed)?,
                Ok(_) => {}
            }
        }
        if refused == 0 {
            return Ok(planned);
        }
        anstream::eprintln!("nothing was written");
        Err(Failure::quiet(1))
    }

    /// Shows a refusal, and counts it; without any answer there is no use in going on.
    fn tell_refusal(
        &self,
        error: ClusterError,
        node: &Node,
        processed: &Processed,
    ) -> Result<usize, Failure> {
        let is_answer = error.is_refusal();
        let failure = self.located(&error.redacted(|text| processed.redact(text)), node, processed);
        if !is_answer {
            return Err(failure);
        }
        let _ = failure.report();
        Ok(1)
    }

    /// Writes everything, up to the first failure.
    async fn write(
        &self,
        cluster: &Cluster,
        mut planned: Vec<Planned<'_>>,
        processed: &Processed,
    ) -> Result<(), Failure> {
        let mut done = Vec::new();
        for index in 0..planned.len() {
            let Planned { node, object, target } = &mut planned[index];
            match target.write(cluster, object, Writing::Real).await {
                Ok(written) => {
                    for warning in written.warnings {
                        let warning = paragraph(&processed.redact(&warning));
                        Failure::text(INPUT, format!("{}: {warning}", target.shown())).warn();
                    }
                    standard_output::line(format_args!("{} {}", target.shown(), written.done.as_str()))?;
                    done.push(target.shown());
                }
                Err(error) => {
                    let failure =
                        self.located(&error.redacted(|text| processed.redact(text)), node, processed);
                    let left: Vec<String> = planned[index..].iter().map(|each| each.target.shown()).collect();
                    let [written, left] = how_far(&done, &left);
                    return Err(failure.detail(paragraph(&written)).detail(paragraph(&left)));
                }
            }
        }
        Ok(())
    }

    /// What the instance keeps: in its own Secret, or in the Secrets that its parameters fill.
    async fn kept(&self, cluster: &Cluster) -> Result<BTreeMap<String, SecretText>, ClusterError> {
        let is_generated = |parameter: &::template::Parameter<'_>| parameter.generate.is_some();
        if !self.template.parameters.iter().any(is_generated) {
            return Ok(BTreeMap::new());
        }
        let own = secret(cluster, &cluster.namespace, &instance::secret_name(self.instance)).await?;
        let mut kept = own.map(|own| instance::kept_in_secret(&own)).unwrap_or_default();
        let request = self.given.request(&self.args.values);
        for filler in instance::fillers(self.template, &request) {
            if kept.contains_key(&filler.parameter) {
                continue;
            }
            let namespace = filler.namespace.as_deref().unwrap_or(&cluster.namespace);
            let Some(live) = secret(cluster, namespace, &filler.name).await? else { continue };
            // A Secret of another instance is none of ours.
            let owner = live
                .pointer("/metadata/labels")
                .and_then(|labels| labels.get(INSTANCE_LABEL))
                .and_then(Value::as_str);
            if owner.is_some_and(|owner| owner != self.instance) {
                continue;
            }
            if let Some(value) = instance::kept_in_live(&filler, &live) {
                kept.insert(filler.parameter, value);
            }
        }
        Ok(kept)
    }

    fn say_generated(&self, processed: &Processed) -> Result<(), Failure> {
        for parameter in &processed.parameters {
            match parameter.origin {
                ValueOrigin::Generated | ValueOrigin::Kept => {
                    let how = parameter.origin.as_str();
                    standard_output::line(format_args!("parameter/{} {how}", parameter.name))?;
                }
                ValueOrigin::Given | ValueOrigin::Default | ValueOrigin::Empty => {}
            }
        }
        Ok(())
    }

    /// The failure, with the place of the field that the server means.
    fn located(&self, error: &ClusterError, node: &Node, processed: &Processed) -> Failure {
        let field = match error {
            ClusterError::Refused { causes, .. } => {
                causes.first().map(|cause| cause.field.clone()).unwrap_or_default()
            }
            ClusterError::NoKind { .. } => "kind".to_owned(),
            ClusterError::Foreign { .. } => "metadata.name".to_owned(),
            ClusterError::Kubeconfig(_)
            | ClusterError::Setup(_)
            | ClusterError::Unreachable(_)
            | ClusterError::NoTemplate { .. }
            | ClusterError::Unexpected { .. } => String::new(),
        };
        let failure = error.failure();
        if !processed.objects.iter().any(|object| std::ptr::eq(object, node)) {
            return failure.place(output::shown_name(node));
        }
        let document = Document { root: node.clone(), notices: Vec::new() };
        let mark = document.locate(&field).span().start;
        let file = &self.source.input.files[self.source.object().file].name;
        failure.place(format!("{file}:{}:{}", mark.line, mark.column))
    }
}

async fn secret(cluster: &Cluster, namespace: &str, name: &str) -> Result<Option<Value>, ClusterError> {
    let path = format!("/api/v1/namespaces/{}/secrets/{}", escaped(namespace), escaped(name));
    cluster.get(&path, &format!("secret/{name}")).await
}

/// What others need comes first: a pod has the variables of the services that are there when it starts.
fn rank(object: &Node) -> u8 {
    match object.get("kind").and_then(Node::as_str).unwrap_or_default() {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "Pod"
        | "ReplicationController"
        | "ReplicaSet"
        | "Deployment"
        | "StatefulSet"
        | "DaemonSet"
        | "Job"
        | "CronJob"
        | "DeploymentConfig" => 3,
        _ => 2,
    }
}
