//! The command `coracle controllers`: the controllers and the scheduler alone, for an API server elsewhere.
//!
//! Several may be started; the one that holds the lease acts. A node (`coracle up`, `coracle run`) has its own and needs none of these.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use ::controllers::{ControllersConfig, Informers, NodeWatch, OneClient, leadership};
use tokio_util::sync::CancellationToken;

use crate::api_elsewhere::ApiElsewhere;
use crate::failure::{CANNOT_START, Failure, exit_code};
use crate::interrupt::Interrupts;

/// What it calls itself towards the API server.
const AGENT: &str = concat!("coracle-controllers/", env!("CARGO_PKG_VERSION"));

/// Arguments of `coracle controllers`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  coracle apiserver --data-dir ./api &
  coracle controllers --kubeconfig ./api/kubeconfig &
  coracle kubelet --kubeconfig ./api/kubeconfig --data-dir ./node-1

The kubeconfig must name somebody who may do what all the controllers do, such as an administrator.")]
pub(crate) struct ControllersArgs {
    /// How to reach the API server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    #[command(flatten)]
    nodes: NodeMonitor,
}

/// How nodes are watched over.
#[derive(Debug, clap::Args)]
pub(crate) struct NodeMonitor {
    /// After how many seconds without a sign a node counts as unreachable.
    #[arg(long, value_name = "SECONDS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=86400))]
    node_monitor_grace_period: u64,
}

impl NodeMonitor {
    /// As a duration.
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_secs(self.node_monitor_grace_period)
    }
}

/// Runs the command.
pub(crate) fn run(args: &ControllersArgs) -> ExitCode {
    exit_code(crate::prerequisites::stay(stay(args)))
}

async fn stay(args: &ControllersArgs) -> Result<(), Failure> {
    let mut interrupts = Interrupts::listen()?;
    let api = ApiElsewhere::of_kubeconfig(&args.kubeconfig, AGENT).await?;
    let root_certificates = api.authorities_pem();
    let client = api.client;
    let mut leadership = tokio::select! {
        leadership = leadership::win(client.clone(), holder()?) => leadership,
        () = interrupts.next() => return Ok(()),
    };
    tracing::info!("the controllers run");
    let end = CancellationToken::new();
    ::controllers::provide_default_class(&client).await;
    let config = ControllersConfig {
        clients: Arc::new(OneClient(client)),
        informers: Informers::idle(),
        root_certificates,
        node_watch: NodeWatch { own: None, grace: args.nodes.grace() },
    };
    let controllers = ::controllers::spawn(&config, &end);
    let lost = tokio::select! {
        () = interrupts.next() => false,
        () = leadership.lost() => true,
    };
    end.cancel();
    if lost {
        // What is under way must not meet what the next holder does.
        return Err(Failure::text(
            CANNOT_START,
            "the lease was lost: another process runs the controllers now",
        )
        .hint("start it again; it then waits for its turn"));
    }
    controllers.stopped().await;
    leadership.give_back().await;
    Ok(())
}

/// A name that no other process has.
fn holder() -> Result<String, Failure> {
    let mut random = [0_u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Failure::new(CANNOT_START, &error))?;
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Ok(format!("{machine}_{:016x}", u64::from_ne_bytes(random)))
}
