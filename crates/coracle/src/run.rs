//! The command `coracle run`: a throwaway node that creates what the files hold, follows the pods that come of it and ends as they end.

mod create;
mod follow;
mod outcome;
mod plan;
mod report;
mod roots;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use follow::Ends;
use outcome::Standing;
use report::{Form, Happening, Report};

use crate::failure::{CANNOT_START, Failure, INPUT};
use crate::flag_values;
use crate::input::Input;
use crate::interrupt::Interrupts;
use crate::node::options::NodeOptions;
use crate::node::{Keeping, Node, NodeConfig};
use crate::standard_output;
use crate::template::{Expanded, ValueArgs, expand};
use crate::terminal_text::one_line;

/// Exit status after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// How long objects may take to disappear beyond their grace period, before the node is taken down around them.
const REMOVAL: Duration = Duration::from_secs(15);

/// How long the ends of logs are waited for after the last pod is gone.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Arguments of `coracle run`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  coracle run examples/expansion.yaml          run a pod and see what it prints
  helm template ./chart | coracle run -        run what another tool writes
  coracle run app.yaml -p TAG=1.2              a template with a value for a parameter
  coracle run -o json app.yaml | jq .type      one event a line, for programs

It ends when all pods and jobs of the input have ended. What keeps its pods running (a Deployment, a
StatefulSet and their kin) and what starts jobs again and again (a CronJob) goes on until Ctrl-C.

Exit status: 0, all pods and jobs succeeded; when one pod or job failed, that of its container (1, when
a job failed for another reason); 1, several failed, or standard output cannot be written; 2, the input
cannot be used; 125, something could not be started, or no pod of it; 130, Ctrl-C; 141, what reads
standard output went away. However it ends, everything is taken away again.")]
pub(crate) struct RunArgs {
    /// Files with the objects; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Namespace of objects that name none.
    #[arg(short, long, default_value = "default", value_name = "NAMESPACE", value_parser = flag_values::namespace)]
    namespace: String,
    /// Keep the node when the pods have ended, for kubectl, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Do not start a container whose environment, command or arguments have an unresolved reference.
    #[arg(long)]
    strict: bool,
    /// Wait for what cannot be started now, instead of giving up.
    #[arg(long)]
    wait: bool,
    /// Print the logs only, without prefix.
    #[arg(short, long, conflicts_with = "output")]
    quiet: bool,
    /// Form of the output.
    #[arg(short, long, value_enum, value_name = "FORM")]
    output: Option<OutputForm>,
    #[command(flatten)]
    template: ValueArgs,
    #[command(flatten)]
    node: NodeOptions,
}

/// Forms of the output for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OutputForm {
    /// One event a line (docs/run-events.md).
    Json,
}

/// Runs the command.
pub(crate) fn run(args: RunArgs) -> ExitCode {
    match start(args) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(),
    }
}

fn start(args: RunArgs) -> Result<u8, Failure> {
    let input = Input::read(&args.files).map_err(|error| Failure::new(INPUT, &error).hint(error.hint()))?;
    let expanded = expand(input, &args.template, true)?;
    let plan = plan::plan(&expanded.input, &args.namespace).map_err(|refusals| {
        let mut failure = Failure::text(INPUT, "the input cannot be run");
        for refusal in refusals {
            failure = failure.detail(format!("{}: {}\n    {}", refusal.place, refusal.problem, refusal.hint));
        }
        failure
    })?;
    crate::prerequisites::require_root("run")?;
    crate::logging::start_brief();
    let form = match (args.quiet, args.output) {
        (_, Some(OutputForm::Json)) => Form::Json,
        (true, None) => Form::Quiet,
        (false, None) => Form::Text,
    };
    let report = Arc::new(Report::new(form, expanded.redactor.clone(), args.keep));
    let base = args.node.data_dir();
    let config = NodeConfig {
        listen: args.keep.then(|| std::net::SocketAddr::from(([127, 0, 0, 1], 0))),
        keeping: Keeping::Nothing,
        host_image: true,
        strict_references: args.strict,
        ..NodeConfig::new(&args.node, &base)
    };
    let runtime = crate::prerequisites::async_runtime()?;
    let status = runtime.block_on(session(&args, &expanded, &plan, config, &report));
    runtime.shutdown_timeout(Duration::from_secs(2));
    status
}

async fn session(
    args: &RunArgs,
    expanded: &Expanded,
    plan: &plan::Plan,
    config: NodeConfig,
    report: &Arc<Report>,
) -> Result<u8, Failure> {
    let mut interrupts = Interrupts::listen()?;
    let node = Node::start(config).await?;
    let mut lives = Box::pin(lives(args, expanded, plan, &node, report));
    let ended = tokio::select! {
        biased;
        () = interrupts.next() => Ended::Stopped,
        () = report.becomes_unwritable() => Ended::Unwritable,
        ended = &mut lives => match ended {
            Ok(ends) => Ended::Pods(ends),
            Err(failure) => Ended::NotCreated(failure),
        },
    };
    let (early, status) = match &ended {
        Ended::Pods(ends) => {
            let status = outcome::exit_status(ends.roots.iter().map(|(_, end)| end));
            tell_causes(ends, report);
            report.tell(&Happening::Result { status, summary: &summary(ends, status) });
            if args.keep {
                stay(&node, &mut interrupts, report).await;
            }
            (false, status)
        }
        Ended::Stopped => {
            let message = "stopping the pods; Ctrl-C again kills them at once";
            report.tell(&Happening::Notice { message });
            (true, INTERRUPTED)
        }
        Ended::Unwritable => {
            if report.unwritable().is_some_and(|error| error.kind() != std::io::ErrorKind::BrokenPipe) {
                let message = "standard output cannot be written; stopping the pods";
                report.tell(&Happening::Notice { message });
            }
            (true, standard_output::READER_GONE)
        }
        Ended::NotCreated(_) => (false, INPUT),
    };
    let away = async {
        let mut away = std::pin::pin!(take_away(&node, early || args.keep));
        if !early {
            return away.await;
        }
        // What pods say and how they end while they stop belongs to the output.
        tokio::select! {
            _ = &mut lives => away.await,
            () = &mut away => drop(tokio::time::timeout(LAST_WORDS, &mut lives).await),
        }
    };
    tokio::select! {
        biased;
        () = interrupts.next() => {}
        () = away => {}
    }
    drop(lives);
    node.remove().await;
    if matches!(ended, Ended::Stopped) {
        report.tell(&Happening::Result { status, summary: "stopped" });
    }
    match (ended, report.unwritable()) {
        (Ended::NotCreated(failure), _) => Err(failure),
        (_, Some(error)) => Err(standard_output::unwritable(error)),
        (Ended::Pods(_) | Ended::Stopped | Ended::Unwritable, None) => Ok(status),
    }
}

/// How the lives of the pods ended, as far as `coracle run` cares.
enum Ended {
    /// Each came to its end.
    Pods(Ends),
    /// The user wants no more.
    Stopped,
    /// Standard output takes no more.
    Unwritable,
    /// The objects could not be created.
    NotCreated(Failure),
}

/// Creates the objects and follows the pods to their end.
async fn lives(
    args: &RunArgs,
    expanded: &Expanded,
    plan: &plan::Plan,
    node: &Node,
    report: &Arc<Report>,
) -> Result<Ends, Failure> {
    let roots =
        create::create(node.client(), &expanded.input, plan, report).await.map_err(|error| match &error {
            create::CreateError::Refused { place, message, hint, code } => {
                let status = if *code < 500 { INPUT } else { CANNOT_START };
                let failure =
                    Failure::text(status, one_line(&expanded.redactor.redact(message))).place(place.clone());
                match hint {
                    Some(hint) => failure.hint(hint.clone()),
                    None if message.contains("unknown field") => {
                        failure.hint("check the spelling of the field and its indentation")
                    }
                    None => failure.hint("mend the object there; nothing of the input was started"),
                }
            }
            create::CreateError::Unreachable(_) => Failure::new(CANNOT_START, &error),
        })?;
    for message in &expanded.messages {
        report.tell(&Happening::Message { message });
    }
    Ok(follow::follow(node.client().clone(), roots, args.wait, Arc::clone(report)).await)
}

fn tell_causes(ends: &Ends, report: &Report) {
    for (key, end) in &ends.stuck {
        if let Standing::CannotStart { container, reason, message } = end {
            report.tell(&Happening::CannotStart {
                namespace: &key.namespace,
                pod: &key.name,
                container: container.as_deref(),
                reason,
                message,
            });
        }
    }
}

/// "pods: 2 succeeded; job: 1 failed (exit status 3)".
fn summary(ends: &Ends, status: u8) -> String {
    let mut kinds: BTreeMap<(roots::RootKind, &str), Vec<&Standing>> = BTreeMap::new();
    for (root, end) in &ends.roots {
        kinds.entry((root.runs, &root.kind)).or_default().push(end);
    }
    let parts = kinds.into_iter().map(|((_, kind), ends)| {
        let count = |wanted: fn(&Standing) -> bool| ends.iter().filter(|end| wanted(end)).count();
        let counts = [
            (count(|end| matches!(end, Standing::Succeeded)), "succeeded"),
            (count(|end| matches!(end, Standing::Failed { .. })), "failed"),
            (count(|end| matches!(end, Standing::CannotStart { .. })), "could not be started"),
        ];
        let told =
            counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let plural = if ends.len() == 1 { "" } else { "s" };
        format!("{}{plural}: {}", kind.to_lowercase(), told.collect::<Vec<_>>().join(", "))
    });
    format!("{} (exit status {status})", parts.collect::<Vec<_>>().join("; "))
}

async fn stay(node: &Node, interrupts: &mut Interrupts, report: &Report) {
    if let Some(kubeconfig) = node.kubeconfig() {
        let message = format!("the node stays until Ctrl-C: export KUBECONFIG={}", kubeconfig.display());
        report.tell(&Happening::Notice { message: &message });
    }
    interrupts.next().await;
}

/// Deletes all pods through the API and waits until they are gone; with their grace period when they are stopped early.
async fn take_away(node: &Node, with_grace: bool) {
    use k8s_openapi::api::core::v1::Pod;
    use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};

    node.end_controllers().await;
    let everywhere = Api::<Pod>::all(node.client().clone());
    let Ok(pods) = everywhere.list(&ListParams::default()).await else { return };
    let mut longest = 0;
    for pod in pods {
        let is_held = pod.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
        let (Some(name), Some(namespace)) = (pod.metadata.name, pod.metadata.namespace) else { continue };
        let grace = pod.spec.and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        longest = longest.max(grace);
        let params =
            if with_grace { DeleteParams::default() } else { DeleteParams::default().grace_period(1) };
        let namespaced = Api::<Pod>::namespaced(node.client().clone(), &namespace);
        if is_held {
            // Nobody counts it any more.
            let patch = Patch::Merge(serde_json::json!({"metadata": {"finalizers": null}}));
            let _ = namespaced.patch(&name, &PatchParams::default(), &patch).await;
        }
        // Whatever does not go by itself is taken down with the node.
        let _ = namespaced.delete(&name, &params).await;
    }
    let patience = Duration::from_secs(u64::try_from(longest).unwrap_or(30)) + REMOVAL;
    let _ = tokio::time::timeout(patience, node.drained()).await;
}
