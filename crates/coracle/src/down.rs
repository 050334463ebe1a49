//! The command `coracle down`: ends a node that stays, with its pods, and takes away what it made on the machine.
//!
//! Pods end in order, with their preStop hooks and within their grace; `--now`, or the second Ctrl-C, kills them.
//! Without `--purge` its data stays, and the next `coracle up` starts its pods again, as after a restart of the machine.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::data_directory;
use crate::failure::{CANNOT_START, Failure, INPUT, exit_code};
use crate::flag_values;
use crate::node::options::HookHosts;
use crate::node::take_down::{TakeDown, take_down};
use crate::standard_output;

/// How long the process of a node may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(60);

/// Arguments of `coracle down`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  coracle down                               end the node of this machine; `coracle up` starts its pods again
  coracle down --now                         the same, and its pods are killed without hooks and without waiting
  coracle down --data-dir ./node --purge     end that node and remove everything that it kept")]
pub(crate) struct DownArgs {
    /// Data directory of the node [default: /var/lib/coracle].
    #[arg(long, value_name = "DIR", value_parser = flag_values::directory())]
    data_dir: Option<PathBuf>,
    /// Most seconds that a pod gets to end, its preStop hooks included [default: each pod's own grace].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=86_400))]
    grace_period: Option<u32>,
    /// Kill the pods: no preStop hook, no stop signal, no waiting. So does the second Ctrl-C.
    #[arg(long, conflicts_with = "grace_period")]
    now: bool,
    /// Where preStop hooks may connect to.
    #[arg(long, value_enum, default_value_t = HookHosts::Any, value_name = "RULE")]
    hook_hosts: HookHosts,
    /// Remove its data as well: objects, volumes, logs, certificates and images.
    #[arg(long)]
    purge: bool,
}

/// Runs the command.
pub(crate) fn run(args: DownArgs) -> ExitCode {
    exit_code(act(&args))
}

fn act(args: &DownArgs) -> Result<(), Failure> {
    let base = args.data_dir.clone().unwrap_or_else(|| data_directory::DEFAULT.into());
    let shown = base.display().to_string();
    if !base.join("runtime").is_dir() {
        return Err(Failure::text(INPUT, "there is no node")
            .place(shown)
            .hint("name the directory that the node was started with (--data-dir)"));
    }
    crate::prerequisites::require_root("down")?;
    crate::logging::start_brief();
    if let Some(pid) = holder(&base.join("runtime/runtime.lock")) {
        end(pid).map_err(|error| {
            Failure::text(CANNOT_START, format!("the node's process {pid} does not end: {error}"))
                .place(shown.clone())
                .hint("end it, and run this again")
        })?;
        standard_output::line(format_args!("ended the node's process {pid}"))?;
    }
    let how = TakeDown {
        longest_grace: args.grace_period.map(|seconds| Duration::from_secs(seconds.into())),
        at_once: args.now || args.grace_period == Some(0),
        hook_hosts: args.hook_hosts,
        purge: args.purge,
    };
    let runtime = crate::prerequisites::async_runtime()?;
    let pods = runtime.block_on(take_down(&base, how))?;
    let pods = match pods {
        1 => "1 pod".to_owned(),
        count => format!("{count} pods"),
    };
    let data = if args.purge { "its data was removed" } else { "its data stays" };
    standard_output::line(format_args!("the node of {shown} is down: {pods} stopped; {data}"))
}

/// The process that holds the lock on a file.
fn holder(path: &Path) -> Option<Pid> {
    let file = std::fs::metadata(path).ok()?;
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let wanted = format!("{major:02x}:{minor:02x}:{}", file.ino());
    locking_process(&std::fs::read_to_string("/proc/locks").ok()?, &wanted).and_then(Pid::from_raw)
}

/// The process with a lock of the whole file, in the text of `/proc/locks`. Pure.
fn locking_process(locks: &str, file: &str) -> Option<i32> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, "FLOCK", _, "WRITE", pid, place, ..] if place == file => pid.parse().ok(),
            _ => None,
        }
    })
}

/// Asks a process to end, and waits until it has.
fn end(pid: Pid) -> io::Result<()> {
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    match pidfd_send_signal(&process, Signal::TERM) {
        Ok(()) => {}
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let patience = Timespec { tv_sec: i64::try_from(PATIENCE.as_secs()).unwrap_or(60), tv_nsec: 0 };
    let mut polled = [PollFd::new(&process, PollFlags::IN)];
    if poll(&mut polled, Some(&patience))? == 0 {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::locking_process;

    #[test]
    fn the_process_of_a_node_is_the_one_that_holds_its_lock() {
        let locks = "1: POSIX  ADVISORY  WRITE 11 08:01:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 42 08:01:77 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 43 08:01:77 0 EOF\n3: FLOCK  ADVISORY  WRITE 44 08:01:78 0 EOF\n";
        assert_eq!(locking_process(locks, "08:01:77"), Some(42));
        assert_eq!(locking_process(locks, "08:01:79"), None);
    }
}
