//! The shim: one long-lived process a pod, between the daemon and the pod's containers.
//!
//! It holds the pod's namespaces, forks the containers' first processes, writes their logs, keeps their exit codes on
//! the disk, and reaps. It is single-threaded and waits for descriptors only. It was started with an empty environment
//! and survives the daemon: nothing it needs is in the daemon.
//!
//! Invariant: no variable of any pod is ever in the arguments, the environment or the memory of the shim itself; launch
//! files are read by the forked child only, except for the few fields that describe streams and the log.

mod clients;
mod containers;
mod executions;
mod log_file;
mod output;
mod pause;
mod supervisor;
mod users;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags};

use crate::protocol::{ShimReady, ShimSpec, files};
use crate::state_files::{self, StateFileError};
use clients::Clients;
use supervisor::Supervisor;

/// Why a sandbox could not be made.
#[derive(Debug, thiserror::Error)]
enum ShimError {
    #[error(transparent)]
    StateFile(#[from] StateFileError),
    #[error("the sandbox's description is missing")]
    NoSpec,
    #[error("cannot {step}: {source}")]
    Step {
        step: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("cannot set sysctl {name}: {source}")]
    Sysctl {
        name: String,
        #[source]
        source: io::Error,
    },
    #[error("cannot begin a shared process namespace: {0}")]
    Pause(#[from] sys::ForkError),
}

fn step<T, E: Into<io::Error>>(step: &'static str, result: Result<T, E>) -> Result<T, ShimError> {
    result.map_err(|source| ShimError::Step { step, source: source.into() })
}

/// Is a shim until the runtime asks it to quit. Standard output carries one line: whether the sandbox stands.
pub(crate) fn run_shim(directory: &Path) -> ExitCode {
    fault::point("supervisor.begun");
    let (ready, supervisor) = match set_up(directory) {
        Ok(supervisor) => {
            (ShimReady::Ready { pid: rustix::process::getpid().as_raw_nonzero().get() }, Some(supervisor))
        }
        Err(error) => (ShimReady::Failed { message: error.to_string() }, None),
    };
    let mut line = serde_json::to_string(&ready).expect("a closed enum of texts and numbers");
    line.push('\n');
    if io::stdout().write_all(line.as_bytes()).and_then(|()| io::stdout().flush()).is_err() {
        return ExitCode::FAILURE;
    }
    let Some(supervisor) = supervisor else { return ExitCode::FAILURE };
    fault::point("supervisor.told");
    if let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        // The daemon waits for the end of the pipe as well.
        let _ = rustix::stdio::dup2_stdout(&null);
    }
    match supervisor.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "the shim's loop failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn set_up(directory: &Path) -> Result<Supervisor, ShimError> {
    let spec: ShimSpec = state_files::read_json(&directory.join(files::SPEC))?.ok_or(ShimError::NoSpec)?;
    // A session of its own: no terminal's Ctrl-C reaches the pod.
    step("begin a session", rustix::process::setsid())?;
    step("adopt orphans", rustix::process::set_child_subreaper(Some(rustix::process::getpid())))?;
    let _ = rustix::thread::set_name(c"coracle-shim");
    // When memory runs out, containers go first. Refused without CAP_SYS_RESOURCE, and then it stays.
    let _ = fs::write("/proc/self/oom_score_adj", "-998");

    let mut signals = SigSet::empty();
    for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGPIPE] {
        signals.add(signal);
    }
    step("block signals", signals.thread_block())?;
    let signals = step(
        "watch signals",
        SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK),
    )?;

    let node_mounts = step("open the node's mount namespace", supervisor::node_mounts())?;
    let own_pid_namespace = step("open the process namespace", supervisor::own_pid_namespace())?;
    // Namespaces that are made with users of their own belong to these: whoever is root there may do in them what root may.
    let user_namespace = match spec.users {
        None => None,
        Some(users) => Some(step("make the pod's users", users::enter_namespaces_of(users))?),
    };
    let mut namespaces = CloneFlags::CLONE_NEWNS;
    if user_namespace.is_none() && !spec.host_network {
        // The host name goes with the network: a pod on the node's network has the node's name.
        namespaces |= CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWUTS;
    }
    if user_namespace.is_none() && !spec.host_ipc {
        namespaces |= CloneFlags::CLONE_NEWIPC;
    }
    step("make the pod's namespaces", nix::sched::unshare(namespaces))?;
    fault::point("supervisor.namespaces_made");
    step(
        "separate the mounts from the node's",
        rustix::mount::mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC),
    )?;
    if !spec.host_network && !spec.hostname.is_empty() {
        step("set the host name", rustix::system::sethostname(spec.hostname.as_bytes()))?;
    }
    for (name, value) in &spec.sysctls {
        set_sysctl(name, value)?;
    }
    if !spec.host_ipc {
        let path = directory.join(files::SHM);
        step("make the directory of the shared memory", fs::create_dir_all(&path))?;
        let options = format!("mode=1777,size={}", spec.shm_bytes);
        let options = std::ffi::CString::new(options).expect("digits hold no NUL");
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        step(
            "mount the shared memory",
            rustix::mount::mount("shm", &path, "tmpfs", flags, options.as_c_str()),
        )?;
    }
    let pause = if spec.shared_pid { Some(pause::spawn_pause(directory)?) } else { None };
    fault::point("supervisor.set_up");
    let listener = step("listen on the socket", listen(directory))?;
    fault::point("supervisor.listening");
    Ok(Supervisor {
        directory: directory.to_owned(),
        listener,
        signals,
        node_mounts,
        own_pid_namespace,
        user_namespace,
        pause,
        clients: Clients::default(),
        containers: BTreeMap::new(),
        executions: BTreeMap::new(),
        buffer: vec![0; 32 * 1024],
        quitting: false,
    })
}

/// Dots or slashes separate the parts of a name, as sysctl(8) has it.
fn set_sysctl(name: &str, value: &str) -> Result<(), ShimError> {
    let failed = |source| ShimError::Sysctl { name: name.to_owned(), source };
    let slashes = name.find('/').is_some_and(|slash| name.find('.').is_none_or(|dot| slash < dot));
    let relative = if slashes { name.to_owned() } else { name.replace('.', "/") };
    if relative.split('/').any(|part| part.is_empty() || part == "..") {
        return Err(failed(io::Error::from(io::ErrorKind::InvalidInput)));
    }
    fs::write(Path::new("/proc/sys").join(relative), value).map_err(failed)
}

/// A socket path of any length: the kernel takes 107 bytes, a descriptor of the directory makes it short.
fn listen(directory: &Path) -> io::Result<UnixListener> {
    let socket = directory.join(files::SOCKET);
    match fs::remove_file(&socket) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let handle =
        rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd())).join(files::SOCKET);
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(short);
    rustix::process::umask(before);
    let listener = listener?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
