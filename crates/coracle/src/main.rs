//! The command line of Coracle: which command was asked for, and nothing else.
//!
//! Each command is a module with its arguments and a `run` that answers the exit status.
//! The hidden mode of a pod's shim branches off before anything is set up.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod api_elsewhere;
mod apiserver;
mod cluster;
mod cluster_dns;
mod control_plane;
mod controllers;
mod core_dumps;
mod cri;
mod data_directory;
mod down;
mod env;
mod excerpt;
mod failure;
mod flag_values;
mod image;
mod input;
mod interrupt;
mod kubeconfig;
mod kubelet;
mod logging;
mod logs;
mod node;
mod nodes;
mod pod_ranges;
mod prerequisites;
mod run;
mod service_proxy;
mod standard_output;
mod template;
mod terminal_text;
mod up;

/// Runs Kubernetes pods on one machine and explains every environment variable.
#[derive(Parser)]
#[command(
    name = "coracle",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    max_term_width = 110
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run what the files hold on a throwaway node, and end as the pods end.
    Run(run::RunArgs),
    /// Run a node that stays: API server, kubelet and runtime in one process.
    Up(up::UpArgs),
    /// End a node that stays, with its pods, and take away what it made on this machine.
    Down(down::DownArgs),
    /// Show what each container gets as environment, and from where.
    Env(env::EnvArgs),
    /// Print the log of a container of a pod, or of one of its hooks.
    Logs(logs::LogsArgs),
    /// Process, check, apply and export templates.
    Template(template::TemplateArgs),
    /// Pull, import, list and remove images.
    Image(image::ImageArgs),
    /// Serve the API alone, without a node.
    Apiserver(apiserver::ApiserverArgs),
    /// Run the controllers and the scheduler alone, for an API server elsewhere.
    Controllers(controllers::ControllersArgs),
    /// Run the node agent alone: on a directory of manifests, or for an API server elsewhere.
    Kubelet(kubelet::KubeletArgs),
    /// Serve the container runtime alone, over its standard interface (CRI).
    Cri(cri::CriArgs),
    /// Print the path of the kubeconfig of a node that stays.
    Kubeconfig(kubeconfig::KubeconfigArgs),
    /// Print the completion script of a shell.
    Completion {
        /// The shell to complete for.
        shell: clap_complete::Shell,
    },
    /// Print the version.
    Version,
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(status) = runtime::reexec(&arguments) {
        return status;
    }
    fault::point("process.begun");
    let command = match CommandLine::try_parse_from(plugin_arguments(arguments)) {
        Ok(line) => line.command,
        Err(error) => error.exit(),
    };
    match command {
        Command::Run(args) => run::run(args),
        Command::Up(args) => up::run(args),
        Command::Down(args) => down::run(args),
        Command::Env(args) => env::run(args),
        Command::Logs(args) => logs::run(args),
        Command::Template(args) => template::run(args),
        Command::Image(args) => image::run(args),
        Command::Apiserver(args) => apiserver::run(args),
        Command::Controllers(args) => controllers::run(&args),
        Command::Kubelet(args) => kubelet::run(args),
        Command::Cri(args) => cri::run(args),
        Command::Kubeconfig(args) => kubeconfig::run(args),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), "coracle", &mut script);
            failure::exit_code(standard_output::print(String::from_utf8_lossy(&script)))
        }
        Command::Version => failure::exit_code(standard_output::line(format_args!(
            "coracle {} (Kubernetes 1.36)",
            env!("CARGO_PKG_VERSION")
        ))),
    }
}

/// Invoked as `kubectl-env` or `kubectl-template`, the binary is that kubectl plugin.
fn plugin_arguments(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let called_as = arguments.first().map(Path::new).and_then(Path::file_stem).and_then(|stem| stem.to_str());
    let command = match called_as {
        Some("kubectl-env") => "env",
        Some("kubectl-template") => "template",
        _ => return arguments,
    };
    arguments[0] = OsString::from("coracle");
    arguments.insert(1, OsString::from(command));
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn a_plugin_name_becomes_its_command() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            plugin_arguments(words(&["/usr/bin/kubectl-env", "-f", "x"])),
            words(&["coracle", "env", "-f", "x"])
        );
        assert_eq!(
            plugin_arguments(words(&["kubectl-template", "list"])),
            words(&["coracle", "template", "list"])
        );
        assert_eq!(plugin_arguments(words(&["coracle", "env"])), words(&["coracle", "env"]));
    }
}
