//! The command `coracle env`: what each container gets, from files or from a running pod.
//!
//! Exit statuses: 0; 1 when `--strict` and a finding of warning level or above; 2 when input cannot be read.

mod dotenv;
mod explain;
mod live;
mod local_images;
mod origin;
mod output;
mod refusals;
mod running;
mod sources;
mod survey;
mod table;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use api::FeatureGates;
use environment::{Reveal, Severity};

use crate::cluster::{Cluster, ClusterArgs, ClusterError, block_on};
use crate::excerpt;
use crate::failure::{Failure, INPUT};
use crate::input::{Input, InputError, InputObject};
use crate::template::{ValueArgs, expand};
use explain::{Explanation, Settings};

/// Arguments of `coracle env`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct EnvArgs {
    /// An object of a cluster: `pod/NAME` for what its containers really got; `deployment/NAME` and other kinds for what
    /// their pods will get.
    #[arg(value_name = "KIND/NAME", conflicts_with = "files")]
    object: Option<String>,
    /// A file with manifests; `-` is standard input. May be given several times.
    #[arg(short = 'f', long = "file", value_name = "FILE", num_args = 1..)]
    files: Vec<PathBuf>,
    /// Only this container.
    #[arg(short, long, value_name = "NAME")]
    container: Option<String>,
    /// Namespace of the pod, and of objects that name none [default: `default`, or the kubeconfig's].
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// The form of the output.
    #[arg(short, long, value_enum, default_value_t = OutputForm::Table, value_name = "FORM")]
    output: OutputForm,
    /// Show values that come from Secrets.
    #[arg(long)]
    show_secrets: bool,
    /// End with status 1 if there is a finding of warning level or above.
    #[arg(long)]
    strict: bool,
    /// Feature gates, such as `RelaxedEnvironmentVariableValidation=false,EnvFiles=true`.
    #[arg(long, value_name = "GATES", default_value = "")]
    feature_gates: String,
    /// Syntax of env files.
    #[arg(long, value_enum, default_value_t = SyntaxName::Default, value_name = "SYNTAX")]
    env_file_syntax: SyntaxName,
    /// Take from the cluster what the files refer to and do not hold: ConfigMaps, Secrets, Services.
    #[arg(long, requires = "files")]
    cluster: bool,
    /// The kubeconfig of the cluster; with files, the same as `--cluster` [default: KUBECONFIG, else ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Its context [default: the current one].
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    #[command(flatten)]
    template: ValueArgs,
    /// Directory whose images are looked up [default: /var/lib/coracle].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  coracle env -f pod.yaml                      every container of a manifest, nothing is run
  helm template ./chart | coracle env -f -     whatever a generator writes
  coracle env -f app.yaml -c web -o json       one container, for programs (docs/environment-record.md)
  coracle env -f app.yaml --strict             for CI: status 1 on a warning
  coracle env -f app.yaml -p TAG=1.2           a template, processed first
  coracle env pod/web -n shop                  what a running pod really got
  coracle env -f app.yaml --cluster            with the ConfigMaps, Secrets and Services of the current cluster
  coracle env deployment/web                   what the pods of a Deployment of any cluster will get";

/// The forms of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputForm {
    /// A table for each container, findings below it.
    Table,
    /// The environment record as JSON.
    Json,
    /// The environment record as YAML.
    Yaml,
    /// The known variables in Kubernetes' env file syntax.
    Dotenv,
}

/// The names of the env file syntaxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SyntaxName {
    /// KEY=VALUE, and values in single quotes as Kubernetes reads them.
    Default,
    /// KEY=VALUE only (RFC 2).
    Rfc2,
    /// Values in single quotes only, as Kubernetes 1.36 reads them.
    Kubernetes,
}

impl From<SyntaxName> for envfile::Syntax {
    fn from(name: SyntaxName) -> Self {
        match name {
            SyntaxName::Default => Self::Default,
            SyntaxName::Rfc2 => Self::Rfc2,
            SyntaxName::Kubernetes => Self::Kubernetes,
        }
    }
}

/// What ends the command early.
#[derive(Debug, thiserror::Error)]
enum EnvError {
    #[error("{0}")]
    Input(#[from] InputError),
    #[error("--feature-gates: {0}")]
    FeatureGates(#[from] api::FeatureGatesError),
    #[error("no container is called {name}")]
    NoSuchContainer { name: String, known: Vec<String> },
    #[error("neither a file nor an object is named")]
    NothingNamed,
    #[error(transparent)]
    NoReference(#[from] live::NoReference),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// What is told by other means.
    #[error("the template cannot be processed")]
    Failed(Failure),
}

impl EnvError {
    fn hint(&self) -> String {
        match self {
            Self::Input(error) => error.hint(),
            Self::FeatureGates(_) => "write NAME=true or NAME=false, separated by commas".to_owned(),
            Self::NoSuchContainer { known, .. } if known.is_empty() => {
                "the input has no container".to_owned()
            }
            Self::NoSuchContainer { known, .. } => format!("the containers are {}", known.join(", ")),
            Self::NothingNamed => {
                "write coracle env -f FILE for what manifests say, or coracle env pod/NAME for what a running pod got"
                    .to_owned()
            }
            Self::NoReference(_) => {
                "for example: coracle env pod/web -n shop; for files: coracle env -f FILE".to_owned()
            }
            Self::Cluster(error) => error.hint().to_owned(),
            Self::Failed(_) => String::new(),
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: EnvArgs) -> ExitCode {
    let colour = anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never;
    match explain(&args) {
        Ok(explanation) => finish(&args, &explanation, colour),
        Err(EnvError::Failed(failure)) => failure.report(),
        Err(error) => {
            anstream::eprintln!("error: {}", excerpt::chain(&error));
            anstream::eprintln!("  hint: {}", error.hint());
            ExitCode::from(2)
        }
    }
}

impl From<live::ObjectError> for EnvError {
    fn from(error: live::ObjectError) -> Self {
        match error {
            live::ObjectError::Cluster(error) => Self::Cluster(error),
            live::ObjectError::Input(error) => Self::Input(error),
        }
    }
}

fn explain(args: &EnvArgs) -> Result<Explanation, EnvError> {
    let gates = FeatureGates::parse(&args.feature_gates)?;
    let settings = Settings {
        namespace: args.namespace.clone().unwrap_or_else(|| "default".to_owned()),
        gates,
        env_file_syntax: args.env_file_syntax.into(),
        reveal: if args.show_secrets { Reveal::Secrets } else { Reveal::Nothing },
    };
    let mut explanation = match &args.object {
        Some(object) => block_on(explain_object(args, object, settings)).map_err(EnvError::Failed)??,
        None if args.files.is_empty() => return Err(EnvError::NothingNamed),
        None => {
            let expanded =
                expand(Input::read(&args.files)?, &args.template, false).map_err(EnvError::Failed)?;
            let mut explanation = if args.cluster || args.kubeconfig.is_some() || args.context.is_some() {
                block_on(explain_with_cluster(args, &expanded.input, settings))
                    .map_err(EnvError::Failed)??
            } else {
                explain::explain(&expanded.input, &local_images(args), &settings, None)
            };
            // A secret parameter is one also where a template puts it into a plain value.
            if !args.show_secrets {
                explanation.mask(|text| expanded.redactor.redact(text));
            }
            explanation
        }
    };
    if let Some(name) = &args.container {
        let known = explanation.keep_container(name);
        if explanation.pods.is_empty() && explanation.mistakes.is_empty() {
            return Err(EnvError::NoSuchContainer { name: name.clone(), known });
        }
    }
    Ok(explanation)
}

fn local_images(args: &EnvArgs) -> local_images::LocalImages {
    local_images::LocalImages::open(args.data_dir.as_deref())
}

async fn connect(args: &EnvArgs) -> Result<Cluster, ClusterError> {
    let cluster = ClusterArgs {
        namespace: args.namespace.clone(),
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
    };
    Cluster::connect(&cluster).await
}

/// An object of the cluster: the record of a pod where there is one, else what its manifest and the cluster's objects give.
async fn explain_object(args: &EnvArgs, argument: &str, settings: Settings) -> Result<Explanation, EnvError> {
    let reference = live::Reference::parse(argument)?;
    let cluster = connect(args).await?;
    if reference.is_pod() {
        let question = running::Question {
            name: reference.name,
            container: args.container.as_deref(),
            show_secrets: args.show_secrets,
        };
        if let Some(record) = running::record(&cluster, &question).await? {
            return Ok(Explanation::of_record(record));
        }
    }
    let input = live::object(&cluster, &reference, argument).await?;
    let settings = Settings { namespace: cluster.namespace.clone(), ..settings };
    let explanation = explain_from(args, &cluster, &input, &settings).await?;
    if reference.is_pod() {
        anstream::eprintln!(
            "note: there is no record of this pod; shown is what its manifest and the objects of the cluster give now"
        );
    }
    Ok(explanation)
}

/// Files, with what the cluster has of what they refer to. Objects that name no namespace are in the kubeconfig's.
async fn explain_with_cluster(
    args: &EnvArgs,
    input: &Input,
    settings: Settings,
) -> Result<Explanation, EnvError> {
    let cluster = connect(args).await?;
    let settings = Settings { namespace: cluster.namespace.clone(), ..settings };
    explain_from(args, &cluster, input, &settings).await
}

async fn explain_from(
    args: &EnvArgs,
    cluster: &Cluster,
    input: &Input,
    settings: &Settings,
) -> Result<Explanation, EnvError> {
    let fetched = live::fetch(cluster, explain::wanted(input, settings)).await?;
    for note in &fetched.notes {
        anstream::eprintln!("note: {note}");
    }
    Ok(explain::explain(input, &local_images(args), settings, Some(fetched)))
}

/// Where the value stands that keeps an object from being what its kind says, and what to do about it.
///
/// The API names such a value without indices; this finds it in the file.
pub(crate) fn mistake_place(input: &Input, object: &InputObject) -> Option<(String, String)> {
    let mistake = survey::survey(object).mistakes.into_iter().next()?;
    let mark = mistake.span.start;
    Some((format!("{}:{}:{}", input.files[object.file].name, mark.line, mark.column), mistake.hint))
}

/// Prints everything and decides the exit status.
fn finish(args: &EnvArgs, explanation: &Explanation, colour: bool) -> ExitCode {
    let text = match args.output {
        OutputForm::Table => table::render(explanation, colour),
        OutputForm::Json => output::json(explanation),
        OutputForm::Yaml => output::yaml(explanation),
        OutputForm::Dotenv => dotenv::render(explanation),
    };
    let mut out = anstream::stdout();
    let written =
        std::io::Write::write_all(&mut out, text.as_bytes()).and_then(|()| std::io::Write::flush(&mut out));
    // A closed pipe (`| head`) is no failure of ours; a full disk is.
    if let Err(error) = written
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        return Failure::text(INPUT, format!("the output cannot be written: {error}"))
            .place("standard output")
            .hint("check where it is redirected to")
            .report();
    }
    let colour = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    for mistake in &explanation.mistakes {
        anstream::eprintln!("{}", mistake.render(colour));
    }
    if args.output == OutputForm::Dotenv {
        print_problems(explanation, colour);
    }
    if explanation.pods.is_empty() && explanation.mistakes.is_empty() && args.output == OutputForm::Table {
        anstream::eprintln!("the input holds no pod and no pod template");
    }
    exit_status(explanation, args.strict)
}

/// The findings of warning level and above, on standard error: an env file has no place for them.
fn print_problems(explanation: &Explanation, colour: bool) {
    let containers =
        explanation.pods.iter().flat_map(|pod| pod.record.containers.iter().zip(&pod.containers));
    let of_containers = containers.flat_map(|(record, notes)| record.findings.iter().zip(&notes.places));
    let of_objects =
        explanation.objects.iter().flat_map(|object| object.record.findings.iter().zip(&object.places));
    for (finding, place) in of_containers.chain(of_objects) {
        if finding.severity >= Severity::Warning {
            anstream::eprintln!("{}", excerpt::Message::of(finding, place.as_ref()).render(colour));
        }
    }
}

fn exit_status(explanation: &Explanation, strict: bool) -> ExitCode {
    if !explanation.mistakes.is_empty() {
        return ExitCode::from(2);
    }
    if strict && explanation.worst_severity() >= Some(Severity::Warning) {
        return ExitCode::from(1);
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests;
