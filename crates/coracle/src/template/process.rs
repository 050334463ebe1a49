//! `coracle template process`: the objects that a template becomes. Here or on the API server, with the same bytes.

use ::template::{Place, Problem, ProblemKind, Template};
use environment::Severity;
use manifest::{Entry, Node, NodeValue, Span};

use super::arguments::{ObjectForm, SourceArgs, ValueArgs};
use super::report::Reporter;
use super::source::{self, Origin, TemplateSource};
use super::values::{self, Given};
use super::{Ended, output, parameters};
use crate::cluster::ClusterArgs;
use crate::cluster::{Cluster, ClusterError, block_on};
use crate::failure::{Failure, INPUT};
use crate::standard_output;
use crate::terminal_text::paragraph;

/// Arguments of `coracle template process`.
#[derive(clap::Args)]
#[command(after_help = "\
A file is processed here, unless --kubeconfig names an API server; a template that is named is processed by the API
server that stores it. The bytes are the same, generated values apart.

Examples:
  coracle template process -f app.yaml -p TAG=1.2 -o yaml
  coracle template process shop TAG=1.2 | kubectl apply -f -
  coracle template process -f app.yaml --param-file prod.env --param-env-prefix APP_")]
pub(super) struct ProcessArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Process here, and never ask an API server.
    #[arg(long)]
    local: bool,
    /// Show the parameters instead of processing.
    #[arg(long)]
    parameters: bool,
    /// Print the processed template instead of a list of its objects.
    #[arg(long)]
    raw: bool,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = ObjectForm::Yaml, value_name = "FORM")]
    output: ObjectForm,
    /// Not available: pipe into kubectl.
    #[arg(short = 't', long = "template", value_name = "GO-TEMPLATE", hide = true)]
    go_template: Option<String>,
    #[command(flatten)]
    values: ValueArgs,
}

/// Runs the command.
pub(super) fn run(args: &ProcessArgs) -> Ended {
    if args.go_template.is_some() {
        return Err(Failure::text(INPUT, "Go templates are not rendered here")
            .hint("pipe into kubectl: ... | kubectl create --dry-run=client -f - -o go-template=..."));
    }
    let words = source::words(&args.source, |path| path.exists())?;
    if args.parameters {
        refuse_with_parameters(args, &words.values)?;
        let source = source::open(&words.origin, &args.cluster)?;
        return parameters::print(&source, args.values.dialect, parameters::ParametersForm::Table);
    }
    let is_stored = matches!(words.origin, Origin::Stored { .. });
    if args.local && is_stored {
        let what = "You may only specify a local template file via -f when running this command with --local";
        return Err(Failure::text(INPUT, what).hint("give the file with -f, or leave --local out"));
    }
    let source = source::open(&words.origin, &args.cluster)?;
    let reporter = Reporter::new(&source.input, source.object());
    let template = source::read(&source, &args.values, &reporter)?;
    let mut given = values::of_flags(&args.values, &words.values)?;
    values::add_environment(&mut given, &args.values, &template, |name| std::env::var_os(name))?;
    values::ask(&mut given, &args.values, &template)?;
    let on_server = is_stored || (args.cluster.kubeconfig.is_some() && !args.local);
    let (result, message) = if on_server {
        let whole = on_the_server(args, &source, &template, &given, &reporter)?;
        let message = whole.get("message").and_then(Node::as_str).map(str::to_owned);
        (if args.raw { whole } else { list(&whole) }, message)
    } else {
        let request = given.request(&args.values);
        let processed = ::template::process(&template, &request, &mut super::random_bytes)
            .map_err(|refusal| reporter.refusal(&refusal))?;
        reporter.findings(&processed.findings, Severity::Warning);
        let result = if args.raw { processed.to_template(&template) } else { processed.to_list() };
        (result, processed.message)
    };
    standard_output::print(output::render(&result, args.output))?;
    // The raw template has its message; otherwise it is for people, and no part of the objects that are piped on.
    if let Some(message) = message.filter(|_| !args.raw) {
        anstream::eprintln!("{}", paragraph(message.trim_end()));
    }
    Ok(0)
}

/// What does not go together with a listing.
fn refuse_with_parameters(args: &ProcessArgs, words: &[String]) -> Result<(), Failure> {
    let values = &args.values;
    let flags = [
        ("param", !values.params.is_empty() || !words.is_empty()),
        ("param-file", !values.param_files.is_empty()),
        ("labels", !values.labels.is_empty()),
        ("raw", args.raw),
    ];
    match flags.into_iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((flag, _)) => Err(Failure::text(
            INPUT,
            format!("The --parameters flag does not process the template, can't be used with --{flag}"),
        )
        .hint("leave one of the two out")),
    }
}

/// The objects of a processed template as a `v1` `List`.
fn list(whole: &Node) -> Node {
    let items = whole.get("objects").map(Node::items).unwrap_or_default().iter().cloned().collect();
    Node::from_iter([("apiVersion", "v1".into()), ("kind", "List".into()), ("items", items)])
}

/// The template as the API server has processed it: with its message, which a list has not.
fn on_the_server(
    args: &ProcessArgs,
    source: &TemplateSource,
    template: &Template<'_>,
    given: &Given,
    reporter: &Reporter<'_>,
) -> Result<Node, Failure> {
    let problems = misgiven(template, given, args.values.ignore_unknown_parameters);
    if !problems.is_empty() {
        for problem in &problems {
            reporter.problem(problem);
        }
        return Err(Failure::quiet(INPUT));
    }
    let filled = filled(source.root(), template, given, &args.values);
    let answered = block_on(async {
        let mut cluster = Cluster::connect(&args.cluster).await?;
        if let Some(namespace) = &source.namespace {
            cluster.namespace.clone_from(namespace);
        }
        cluster.process(&filled).await
    })?;
    match answered {
        Ok((result, warnings)) => {
            for warning in warnings {
                Failure::text(INPUT, paragraph(&warning)).warn();
            }
            Ok(result)
        }
        Err(ClusterError::Refused { code: 422, causes, .. }) if !causes.is_empty() => {
            reporter.causes(&causes);
            Err(Failure::quiet(INPUT))
        }
        Err(error) => Err(error.failure()),
    }
}

/// Values for parameters that the template does not have: a template that is sent has no place for them.
fn misgiven(template: &Template<'_>, given: &Given, ignores: bool) -> Vec<Problem> {
    let unknown = given.values.iter().filter(|(name, _)| !ignores && template.parameter(name).is_none());
    unknown
        .map(|(name, _)| Problem {
            kind: ProblemKind::UnknownParameter { name: name.clone(), nearest: None },
            place: Place { field: "parameters".to_owned(), span: None, part: None },
        })
        .collect()
}

/// The template with its values and labels, as it is sent.
pub(super) fn filled(root: &Node, template: &Template<'_>, given: &Given, args: &ValueArgs) -> Node {
    let mut root = root.clone();
    let unplaced = |text: &str| Node { value: NodeValue::String(text.to_owned()), span: Span::NOWHERE };
    for parameter in root.get_mut("parameters").map(Node::items_mut).unwrap_or_default() {
        let name = parameter.get("name").and_then(Node::as_str).unwrap_or_default().to_owned();
        let Some((_, value)) = given.values.iter().find(|(own, _)| *own == name) else { continue };
        let Some(entries) = parameter.entries_mut() else { continue };
        entries.retain(|entry| !["value", "generate", "from"].contains(&entry.key.as_str()));
        entries.push(Entry::unplaced("value", unplaced(value.expose())));
    }
    let mut labels: Vec<(&str, &str)> =
        given.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    labels.extend(args.instance.as_deref().map(|instance| (::template::INSTANCE_LABEL, instance)));
    if !labels.is_empty() {
        let field = if root.get("objectLabels").is_some() { "objectLabels" } else { "labels" };
        for (key, value) in labels {
            set(&mut root, &[field, key], unplaced(value));
        }
    }
    if args.dialect.is_some() {
        let dialect = unplaced(template.dialect.as_str());
        set(&mut root, &["metadata", "annotations", api::annotations::TEMPLATE_DIALECT], dialect);
    }
    root
}

/// Sets a value below maps, which are made where they are missing.
fn set(node: &mut Node, path: &[&str], value: Node) {
    let Some((key, rest)) = path.split_first() else {
        *node = value;
        return;
    };
    if node.entries_mut().is_none() {
        *node = std::iter::empty::<(String, Node)>().collect();
    }
    if node.get(key).is_none()
        && let Some(entries) = node.entries_mut()
    {
        entries.push(Entry::unplaced(*key, Node { value: NodeValue::Null, span: Span::NOWHERE }));
    }
    if let Some(inner) = node.get_mut(key) {
        set(inner, rest, value);
    }
}
