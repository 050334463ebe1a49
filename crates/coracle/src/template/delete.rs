//! `coracle template delete`: everything of an instance, and what it keeps.

use std::time::Duration;

use ::template::{INSTANCE_LABEL, instance};
use http::Method;

use super::Ended;
use super::list::{Member, members};
use crate::cluster::ClusterArgs;
use crate::cluster::{Cluster, ClusterError, block_on, escaped};
use crate::failure::{Failure, INPUT};
use crate::standard_output;

/// Arguments of `coracle template delete`.
#[derive(clap::Args)]
pub(super) struct DeleteArgs {
    /// Name of the instance.
    #[arg(value_name = "INSTANCE")]
    instance: String,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Do not wait until the objects are gone.
    #[arg(long)]
    no_wait: bool,
}

/// How often it is looked whether an object is gone.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs the command.
pub(super) fn run(args: &DeleteArgs) -> Ended {
    if instance::check_instance_name(&args.instance).is_err() {
        return Err(Failure::text(INPUT, format!("{:?} cannot be the name of an instance", args.instance))
            .hint("coracle template list shows which there are"));
    }
    block_on(delete(args))?
}

async fn delete(args: &DeleteArgs) -> Ended {
    let failed = |error: ClusterError| error.failure();
    let cluster = Cluster::connect(&args.cluster).await.map_err(failed)?;
    let selector = format!("{INSTANCE_LABEL}={}", args.instance);
    let mut found = members(&cluster, &selector).await.map_err(failed)?;
    if found.is_empty() {
        let what = format!("there is no instance {} in namespace {}", args.instance, cluster.namespace);
        return Err(Failure::text(1, what)
            .hint("coracle template list shows which there are; -n names another namespace"));
    }
    // What runs goes first, what it reads goes last.
    found.sort_by_key(|member| match member.kind.kind.as_str() {
        "ConfigMap" | "Secret" | "ServiceAccount" | "PersistentVolumeClaim" => 2,
        "Pod" => 1,
        _ => 0,
    });
    let mut is_complete = true;
    for member in &found {
        let what = format!("{}/{}", member.kind.shown(), member.name);
        let path = path(&cluster, member);
        let answer =
            cluster.call(Method::DELETE, &path, "application/json", Vec::new()).await.map_err(failed)?;
        if answer.code == 404 {
            continue;
        }
        match answer.accepted(&what) {
            Ok(_) => {
                standard_output::line(format_args!("{} \"{}\" deleted", member.kind.shown(), member.name))?
            }
            Err(error) => {
                let _ = error.failure().report();
                is_complete = false;
            }
        }
    }
    if !args.no_wait && is_complete {
        for member in &found {
            let path = path(&cluster, member);
            while cluster.get(&path, &member.name).await.map_err(failed)?.is_some() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
    Ok(u8::from(!is_complete))
}

fn path(cluster: &Cluster, member: &Member) -> String {
    format!("{}/{}", member.kind.collection(&cluster.namespace), escaped(&member.name))
}
