//! A forked child of a pod's shim on its way to becoming a program inside a container.
//!
//! Two ways lead there: [`run_container`] builds the container around itself first, [`run_execution`] enters one that
//! exists. Both end in `execve` or report over their status socket what failed. Nothing here may return into the shim.
//!
//! The child is a copy of the shim: it closes what it does not need before it does anything else, and makes itself
//! untraceable before it comes near a namespace that others are in.

// Why this is our own and no library: the last steps (user, filters, capabilities, environment in order), the gate between
// create and start, terminals, and clamping what the machine lacks (no control groups at all, among others) must be ours
// in any case, and a fork of the shim needs no second program to be loaded.

mod console;
mod error;
mod filesystems;
mod hiding;
mod program;
mod root;
mod targets;
mod user;
mod volumes;

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use nix::sched::CloneFlags;
use rustix::mount::MountPropagationFlags;
use rustix::process::DumpableBehavior;
use sys::{MountAttributes, MountChange};

use crate::cgroup::{Cgroup, CgroupLayout};
use crate::launch::{LaunchSpec, ProcessRecord, Variable, files};
use crate::protocol::{self, InitMessage};
use crate::state_files::{self, Durability};
use crate::wire::OutgoingFrame;
use error::{InitError, Step as _};

/// CAP_MKNOD, as the kernel's bit.
const MAKE_NODES: u64 = 1 << 27;

/// Standard input, output and error of a new process.
pub(crate) struct StandardStreams {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
    pub(crate) error: OwnedFd,
}

/// What the child of a shim has in hand to build a container.
pub(crate) struct ContainerChild {
    pub(crate) sandbox_directory: PathBuf,
    pub(crate) container_directory: PathBuf,
    /// To the shim: [`InitMessage`]; from the shim: one byte, the word to go.
    pub(crate) status: UnixStream,
    /// The mount namespace that the daemon was in when it started the shim.
    pub(crate) node_mounts: OwnedFd,
    /// The pod's own user namespace, if it has one.
    pub(crate) user_namespace: Option<OwnedFd>,
    pub(crate) streams: StandardStreams,
}

/// What the child of a shim has in hand to execute a command in a container. Its process namespace is right already.
pub(crate) struct ExecutionChild {
    pub(crate) container_directory: PathBuf,
    pub(crate) args: Vec<String>,
    /// Variables besides the container's own.
    pub(crate) environment: Vec<Variable>,
    pub(crate) terminal: bool,
    pub(crate) status: UnixStream,
    /// The container's first process.
    pub(crate) target: OwnedFd,
    /// The pod's own user namespace, if it has one.
    pub(crate) user_namespace: Option<OwnedFd>,
    pub(crate) streams: StandardStreams,
    /// Gets the controlling end of the terminal.
    pub(crate) console: Option<UnixStream>,
}

/// Builds the container and becomes its program.
pub(crate) fn run_container(child: ContainerChild) -> ! {
    let ContainerChild {
        sandbox_directory,
        container_directory,
        mut status,
        node_mounts,
        user_namespace,
        streams,
    } = child;
    let mut keep = vec![
        status.as_fd(),
        node_mounts.as_fd(),
        streams.input.as_fd(),
        streams.output.as_fd(),
        streams.error.as_fd(),
    ];
    keep.extend(user_namespace.as_ref().map(|namespace| namespace.as_fd()));
    let users = user_namespace.as_ref().map(|namespace| namespace.as_fd());
    let prepared = close_and_hide(&keep)
        .and_then(|()| use_streams(&streams))
        .and_then(|()| build(&sandbox_directory, &container_directory, &node_mounts, users));
    drop((streams, node_mounts));
    let built = match prepared {
        Ok(built) => built,
        Err(error) => report_and_exit(&status, &error),
    };
    let Built { process, controller, terminal, warnings } = built;
    let ready = InitMessage::Ready { warnings };
    if send(&status, &ready, controller.into_iter().collect()).is_err() {
        sys::exit_now(1);
    }
    // The word to go. Without it the shim is gone, and so is every reason to live.
    let mut word = [0u8];
    if status.read_exact(&mut word).is_err() {
        sys::exit_now(1);
    }
    let begun = begin_session(terminal).and_then(|()| enter_users(user_namespace));
    let error = match begun {
        Ok(()) => program::become_program(&process),
        Err(error) => error,
    };
    report_and_exit(&status, &error)
}

/// Leaves the node's users for those of the pod. What needs rights of the node is done by now.
fn enter_users(namespace: Option<OwnedFd>) -> Result<(), InitError> {
    match namespace {
        None => Ok(()),
        Some(namespace) => {
            nix::sched::setns(&namespace, CloneFlags::CLONE_NEWUSER).step("become one of the pod's users")
        }
    }
}

/// Gives the pipes of a process to its user: it may open them again, as `/dev/stdout` is.
fn give_streams(first_user: u32, uid: u32, gid: u32) {
    use rustix::fs::{FileType, Gid, Uid};
    let (Some(uid), Some(gid)) = (first_user.checked_add(uid), first_user.checked_add(gid)) else { return };
    for stream in [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()] {
        let is_pipe = rustix::fs::fstat(stream)
            .is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Fifo);
        if is_pipe {
            // What stays another's is only not opened again.
            let _ = rustix::fs::fchown(stream, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        }
    }
}

/// Enters the container and becomes the command.
pub(crate) fn run_execution(child: ExecutionChild) -> ! {
    let ExecutionChild {
        container_directory,
        args,
        environment,
        terminal,
        status,
        target,
        user_namespace,
        streams,
        console,
    } = child;
    let mut keep = vec![
        status.as_fd(),
        target.as_fd(),
        streams.input.as_fd(),
        streams.output.as_fd(),
        streams.error.as_fd(),
    ];
    keep.extend(console.as_ref().map(|console| console.as_fd()));
    keep.extend(user_namespace.as_ref().map(|namespace| namespace.as_fd()));
    let entered = close_and_hide(&keep)
        .and_then(|()| use_streams(&streams))
        .and_then(|()| enter(&container_directory, target.as_fd()));
    drop((streams, target));
    let mut process = match entered {
        Ok(process) => process,
        Err(error) => report_and_exit(&status, &error),
    };
    process.args = args;
    for variable in environment {
        if !process.environment.iter().any(|own| own.name == variable.name) {
            process.environment.push(variable);
        }
    }
    give_streams(process.first_user, process.uid, process.gid);
    let begun = execution_console(terminal, console, &mut process)
        .and_then(begin_session)
        .and_then(|()| enter_users(user_namespace));
    let error = match begun {
        Ok(()) => program::become_program(&process),
        Err(error) => error,
    };
    report_and_exit(&status, &error)
}

struct Built {
    process: ProcessRecord,
    controller: Option<OwnedFd>,
    terminal: Option<OwnedFd>,
    warnings: Vec<String>,
}

fn build(
    sandbox_directory: &std::path::Path,
    container_directory: &std::path::Path,
    node_mounts: &OwnedFd,
    users: Option<BorrowedFd<'_>>,
) -> Result<Built, InitError> {
    let spec: LaunchSpec = state_files::read_json(&container_directory.join(files::LAUNCH))?
        .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
        .step("find the launch file")?;
    let mut warnings = Vec::new();
    let layout = CgroupLayout::detect();

    // The pod's shared memory is mounted in the shim's mount namespace; everything else is the node's.
    let shared_memory = if spec.host_ipc {
        None
    } else {
        let path = sandbox_directory.join(protocol::files::SHM);
        Some(
            filesystems::copy_mount(&path, false)
                .step_path("use the shared memory of the pod at", path.display())?,
        )
    };
    nix::sched::setns(node_mounts, CloneFlags::CLONE_NEWNS).step("enter the node's mount namespace")?;
    let volumes = volumes::open_volumes(spec.mounts, users)?;
    let shared_memory = match shared_memory {
        Some(mount) => Some(mount),
        None => filesystems::copy_mount(std::path::Path::new("/dev/shm"), false).ok(),
    };
    nix::sched::unshare(CloneFlags::CLONE_NEWNS).step("make a mount namespace")?;
    // What is mounted from here on stays here; what the node mounts still arrives where it is asked for.
    rustix::mount::mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .step("separate the mounts from the node's")?;

    let root = root::mount_root(&spec.root, users, spec.first_user)?;
    let root = root.as_fd();
    let user = user::resolve_user(&spec.user, &user::Accounts::read(root))?;
    for hidden in &spec.root.hidden {
        hiding::hide(root, hidden)?;
    }
    filesystems::mount_proc(root)?;
    filesystems::mount_sys(root, spec.privileged)?;
    filesystems::mount_dev(root, shared_memory, &spec.devices, spec.privileged, spec.first_user)?;

    let cgroup = Cgroup::at(layout.clone(), &spec.cgroup);
    warnings.extend(cgroup.create().iter().map(ToString::to_string));
    warnings.extend(cgroup.limit(&spec.resources).iter().map(ToString::to_string));
    let unlimited_devices = cgroup.limit_devices(&spec.devices, spec.privileged);
    let mut capabilities = spec.capabilities;
    if !spec.privileged && (layout == CgroupLayout::Missing || !unlimited_devices.is_empty()) {
        // Nothing would stop the container from opening a disk that it made a node of.
        capabilities = capabilities.without(MAKE_NODES);
    }
    warnings.extend(unlimited_devices.iter().map(ToString::to_string));
    cgroup.join().step_path("enter the control group", cgroup.path())?;
    match nix::sched::unshare(CloneFlags::CLONE_NEWCGROUP) {
        Ok(()) => filesystems::mount_cgroups(root, &layout, spec.privileged)?,
        // Without a namespace of its own the container would see the groups of the whole node: it sees none.
        Err(error) => warnings.push(format!("control groups are not shown inside the container: {error}")),
    }

    for volume in volumes {
        volumes::attach_volume(root, volume)?;
    }
    let console = if spec.terminal {
        let console = console::open_console(root)?;
        console::give_console(&console.terminal, spec.first_user, user.uid)?;
        console::show_console(root, &console.terminal)?;
        Some(console)
    } else {
        None
    };
    for path in &spec.masked_paths {
        hiding::mask(root, path)?;
    }
    for path in &spec.read_only_paths {
        hiding::make_read_only(root, path)?;
    }
    let working_directory = if spec.working_directory.is_empty() { "/" } else { &spec.working_directory };
    make_working_directory(root, working_directory);

    let mut environment = spec.environment;
    if !environment.iter().any(|variable| variable.name == "HOME" && !variable.value.is_empty()) {
        environment.retain(|variable| variable.name != "HOME");
        environment.push(Variable { name: "HOME".to_owned(), value: user.home });
    }
    let process = ProcessRecord {
        args: spec.args,
        environment,
        working_directory: working_directory.to_owned(),
        uid: user.uid,
        gid: user.gid,
        groups: user.groups,
        capabilities,
        no_new_privileges: spec.no_new_privileges,
        filters: spec.filters,
        oom_score_adj: spec.oom_score_adj,
        terminal: spec.terminal,
        first_user: spec.first_user,
        cgroup: cgroup.path().to_owned(),
    };
    give_streams(process.first_user, process.uid, process.gid);
    state_files::write_json(&container_directory.join(files::PROCESS), &process, Durability::Cached)?;
    if let Some(warning) = set_oom_score(process.oom_score_adj) {
        warnings.push(warning);
    }
    root::switch_root(root)?;
    if spec.root.read_only {
        let root = File::open("/").step("open the root directory")?;
        let read_only = MountAttributes { read_only: true, ..Default::default() };
        sys::change_mount(root.as_fd(), MountChange { set: read_only, ..Default::default() })
            .step("make the root file system read-only")?;
    }
    let (controller, terminal) = match console {
        Some(console) => (Some(console.controller), Some(console.terminal)),
        None => (None, None),
    };
    Ok(Built { process, controller, terminal, warnings })
}

fn enter(container_directory: &std::path::Path, target: BorrowedFd<'_>) -> Result<ProcessRecord, InitError> {
    let process: ProcessRecord = state_files::read_json(&container_directory.join(files::PROCESS))?
        .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
        .step("find the process record")?;
    Cgroup::at(CgroupLayout::detect(), &process.cgroup)
        .join()
        .step_path("enter the control group", &process.cgroup)?;
    // Lowering may be refused; then the command keeps the shim's score, as the container did.
    let _ = set_oom_score(process.oom_score_adj);
    let namespaces = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWNET
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    nix::sched::setns(target, namespaces).step("enter the container")?;
    Ok(process)
}

fn execution_console(
    terminal: bool,
    console: Option<UnixStream>,
    process: &mut ProcessRecord,
) -> Result<Option<OwnedFd>, InitError> {
    if !terminal {
        return Ok(None);
    }
    let root = File::open("/").step("open the root directory")?;
    let made = console::open_console(root.as_fd())?;
    console::give_console(&made.terminal, process.first_user, process.uid)?;
    if let Some(console) = console {
        send(&console, &InitMessage::Ready { warnings: Vec::new() }, vec![made.controller])
            .step("hand out the terminal")?;
    }
    if !process.environment.iter().any(|variable| variable.name == "TERM") {
        process.environment.push(Variable { name: "TERM".to_owned(), value: "xterm".to_owned() });
    }
    Ok(Some(made.terminal))
}

fn close_and_hide(keep: &[BorrowedFd<'_>]) -> Result<(), InitError> {
    sys::close_all_except(keep).step("close inherited files")?;
    sys::mark_all_close_on_exec().step("mark files to be closed")?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).step("become untraceable")
}

fn use_streams(streams: &StandardStreams) -> Result<(), InitError> {
    rustix::stdio::dup2_stdin(&streams.input).step("set standard input")?;
    rustix::stdio::dup2_stdout(&streams.output).step("set standard output")?;
    rustix::stdio::dup2_stderr(&streams.error).step("set standard error")
}

fn begin_session(terminal: Option<OwnedFd>) -> Result<(), InitError> {
    rustix::process::setsid().step("begin a session")?;
    match terminal {
        Some(terminal) => console::take_console(terminal.as_fd()),
        None => Ok(()),
    }
}

/// The directory that a process starts in is made when the image lacks it. Failure shows when it is entered.
fn make_working_directory(root: BorrowedFd<'_>, path: &str) {
    if let Err(rustix::io::Errno::NOENT) = targets::find(root, path) {
        let _ = targets::find_or_make(root, path, targets::TargetKind::Directory);
    }
}

/// Sets the score; a lower one than the process has may be refused, and then stays as it is.
fn set_oom_score(score: i32) -> Option<String> {
    let path = "/proc/self/oom_score_adj";
    let current = fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if current == Some(score) {
        return None;
    }
    match fs::write(path, score.to_string()) {
        Ok(()) => None,
        Err(error) => Some(format!("oom_score_adj={score} is not set: {error}")),
    }
}

fn send(socket: &UnixStream, message: &InitMessage, descriptors: Vec<OwnedFd>) -> std::io::Result<()> {
    let mut frame = OutgoingFrame::encode(message, descriptors)?;
    while !frame.send(socket)? {}
    Ok(())
}

fn report_and_exit(status: &UnixStream, error: &InitError) -> ! {
    // The shim reads the end of the socket as well; nobody else is there to tell.
    let _ = send(status, &InitMessage::Failed { message: error.to_string() }, Vec::new());
    sys::exit_now(1)
}
