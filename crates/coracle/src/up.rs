//! The command `coracle up`: a node that stays. Its pods outlive it; the next start adopts them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use ::controllers::NodeWatch;

use crate::controllers::NodeMonitor;
use crate::failure::{Failure, exit_code};
use crate::flag_values;
use crate::interrupt::Interrupts;
use crate::node::options::NodeOptions;
use crate::node::{Keeping, Node, NodeConfig};
use crate::standard_output;

/// Arguments of `coracle up`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  coracle up &                                   a node on this machine
  export KUBECONFIG=$(coracle kubeconfig)        then: kubectl get nodes
  coracle up --data-dir ./node --listen 127.0.0.1:0")]
pub(crate) struct UpArgs {
    /// Address of the API; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:6443", value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// Further names and addresses by which clients reach the API.
    #[arg(long, value_name = "NAME", value_parser = flag_values::certificate_name)]
    tls_san: Vec<String>,
    /// Allow pods to use the machine's own root file system as image `coracle.dev/host`.
    #[arg(long)]
    allow_host_image: bool,
    /// Let a container with an unresolved reference wait with CreateContainerConfigError.
    #[arg(long)]
    strict_references: bool,
    /// Name of the node [default: the host name].
    #[arg(long, value_name = "NAME", value_parser = flag_values::node_name)]
    node_name: Option<String>,
    /// Directory of manifests whose pods run whatever the API says (static pods).
    #[arg(long, alias = "pod-manifest-path", value_name = "DIR", value_parser = flag_values::existing_directory())]
    pod_manifest_dir: Option<PathBuf>,
    /// Print what the API takes from clients at most, and end.
    #[arg(long)]
    limits: bool,
    #[command(flatten)]
    nodes: NodeMonitor,
    #[command(flatten)]
    node: NodeOptions,
}

/// Runs the command.
pub(crate) fn run(args: UpArgs) -> ExitCode {
    exit_code(start(&args))
}

fn start(args: &UpArgs) -> Result<(), Failure> {
    if args.limits {
        return print_limits();
    }
    crate::prerequisites::require_root("up")?;
    let base = args.node.data_dir();
    let mut config = NodeConfig {
        listen: Some(args.listen),
        names: args.tls_san.clone(),
        keeping: Keeping::Everything,
        host_image: args.allow_host_image,
        strict_references: args.strict_references,
        static_pod_dir: args.pod_manifest_dir.clone(),
        node_watch: NodeWatch { own: None, grace: args.nodes.grace() },
        ..NodeConfig::new(&args.node, &base)
    };
    if let Some(name) = &args.node_name {
        config.node_name.clone_from(name);
    }
    crate::prerequisites::stay(stay(config))
}

async fn stay(config: NodeConfig) -> Result<(), Failure> {
    let mut interrupts = Interrupts::listen()?;
    let node = Node::start(config).await?;
    if let Some(kubeconfig) = node.kubeconfig() {
        // The node does not live to print this line: it stays also when nobody can read it.
        if standard_output::line(format_args!("export KUBECONFIG={}", kubeconfig.display())).is_err() {
            tracing::warn!(kubeconfig = %kubeconfig.display(), "standard output cannot be written; the node is ready all the same");
        }
    }
    let ended = tokio::select! {
        () = interrupts.next() => Ok(()),
        failure = node.failed() => Err(failure),
    };
    node.stop().await;
    ended
}

/// The table of limits, in columns.
fn print_limits() -> Result<(), Failure> {
    let table = apiserver::Limits::default().table();
    let width = |cell: fn(&apiserver::Limit) -> usize| table.iter().map(cell).max().unwrap_or(0);
    let (what, value) = (width(|limit| limit.what.len()), width(|limit| limit.value.len()));
    for limit in &table {
        let written = standard_output::line(format_args!(
            "{:what$}  {:value$}  {}",
            limit.what, limit.value, limit.beyond
        ));
        if written.is_err() {
            break;
        }
    }
    Ok(())
}
