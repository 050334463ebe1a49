//! One container as its shim sees it: from the fork of its first process to its exit record.
//!
//! ```text
//! Creating --ready--> Created --word to go--> Starting --execve--> Running --exit--> Exited
//!     |                  |                        |                                    ^
//!     +-----failed-------+------------------------+----------(its process ends)--------+
//! ```

use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sched::CloneFlags;
use rustix::process::{Signal, WaitStatus};
use sys::{ChildProcess, Forked, NewNamespaces};

use super::clients::Asker;
use super::log_file::{LogFile, Stream};
use super::output::{Output, OutputState};
use crate::cgroup::{Cgroup, CgroupLayout};
use crate::init::{ContainerChild, StandardStreams, run_container};
use crate::launch::{ExitRecord, LaunchSpec, PidNamespace, StartRecord, files};
use crate::protocol::InitMessage;
use crate::state_files::{self, Durability, StateFileError};
use crate::wire::{FrameReader, Inflow};

/// Where a container is in its life.
#[derive(Debug)]
pub(super) enum Phase {
    /// Its first process builds it.
    Creating(Asker),
    /// Built; waits for the word to go.
    Created,
    /// The word was given.
    Starting(Asker),
    /// Its program runs.
    Running,
    /// Ended; its exit record is on the disk.
    Exited,
    /// Could not be built. It is forgotten as soon as its process has ended.
    Abandoned,
}

impl Phase {
    /// Nothing of it runs, or soon will not.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Exited | Self::Abandoned)
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Creating(_) => "being created",
            Self::Created => "created",
            Self::Starting(_) => "starting",
            Self::Running => "running",
            Self::Exited => "ended",
            Self::Abandoned => "not to be created",
        }
    }
}

/// Somebody wants the container to end.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    pub(super) kill_at: Option<Instant>,
    pub(super) askers: Vec<Asker>,
}

/// One container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) id: String,
    directory: PathBuf,
    pub(super) phase: Phase,
    pub(super) process: ChildProcess,
    /// To and from the first process until its program begins.
    pub(super) status: Option<UnixStream>,
    reader: FrameReader,
    /// What the first process said before it gave up.
    failure: Option<String>,
    pub(super) outputs: Vec<Output>,
    log: Option<LogFile>,
    input: Option<OwnedFd>,
    stdin_once: bool,
    terminal: bool,
    own_pid_namespace: bool,
    cgroup: Cgroup,
    pub(super) stopping: Stopping,
}

/// What the status socket brought.
#[derive(Debug)]
pub(super) enum Progress {
    Nothing,
    /// Built.
    Ready {
        asker: Asker,
        warnings: Vec<String>,
    },
    /// The program began.
    Started {
        asker: Asker,
    },
    /// It never will; its process is about to end.
    Failed {
        asker: Asker,
        message: String,
    },
}

/// Why no first process was made.
#[derive(Debug, thiserror::Error)]
pub(super) enum CreateError {
    #[error(transparent)]
    StateFile(#[from] StateFileError),
    #[error("the launch file of container {0} is missing")]
    NoLaunchFile(String),
    #[error("container {0}, whose processes are to be shared, does not run")]
    NoTarget(String),
    #[error("cannot {step}: {source}")]
    Step {
        step: &'static str,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot open the log {path}: {source}", path = path.display())]
    Log {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Fork(#[from] sys::ForkError),
}

fn step<T, E: Into<std::io::Error>>(step: &'static str, result: Result<T, E>) -> Result<T, CreateError> {
    result.map_err(|source| CreateError::Step { step, source: source.into() })
}

/// What all containers of a sandbox share.
pub(super) struct Surroundings<'a> {
    pub(super) sandbox_directory: &'a Path,
    pub(super) container_directory: PathBuf,
    pub(super) node_mounts: &'a OwnedFd,
    pub(super) own_pid_namespace: &'a OwnedFd,
    /// The pod's own user namespace, if it has one.
    pub(super) user_namespace: Option<&'a OwnedFd>,
    /// Process namespaces of others, looked up by the wish of the launch file.
    pub(super) target_of: &'a dyn Fn(&PidNamespace) -> Option<OwnedFd>,
}

impl Container {
    /// Forks the first process of a container whose launch file lies in its directory.
    pub(super) fn create(
        id: String,
        asker: Asker,
        surroundings: Surroundings<'_>,
    ) -> Result<Self, CreateError> {
        let Surroundings {
            sandbox_directory,
            container_directory,
            node_mounts,
            own_pid_namespace,
            user_namespace,
            target_of,
        } = surroundings;
        let spec: LaunchSpec = state_files::read_json(&container_directory.join(files::LAUNCH))?
            .ok_or_else(|| CreateError::NoLaunchFile(id.clone()))?;
        let log = match spec.log.clone() {
            Some(log) => {
                let path = log.path.clone();
                Some(LogFile::open(log).map_err(|source| CreateError::Log { path, source })?)
            }
            None => None,
        };
        let mut outputs = Vec::new();
        let mut input = None;
        let null = || {
            rustix::fs::open(
                "/dev/null",
                rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
                rustix::fs::Mode::empty(),
            )
        };
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let streams = if spec.terminal {
            // The terminal is made inside the container; its controlling end comes with the message that it is ready.
            StandardStreams {
                input: step("open the null device", null())?,
                output: step("open the null device", null())?,
                error: step("open the null device", null())?,
            }
        } else {
            let (output, output_end) = step("make a pipe", pipe())?;
            let (error, error_end) = step("make a pipe", pipe())?;
            outputs.push(step("prepare a pipe", Output::new(Stream::Output, output))?);
            outputs.push(step("prepare a pipe", Output::new(Stream::Error, error))?);
            let input_end = if spec.stdin {
                let (end, own) = step("make a pipe", pipe())?;
                input = Some(own);
                end
            } else {
                step("open the null device", null())?
            };
            StandardStreams { input: input_end, output: output_end, error: error_end }
        };
        let (status, child_status) = step("make a socket", UnixStream::pair())?;
        let target = match &spec.pid_namespace {
            PidNamespace::Own | PidNamespace::Node => None,
            wish @ (PidNamespace::Pod | PidNamespace::Container(_)) => {
                let name = match wish {
                    PidNamespace::Container(name) => name.clone(),
                    PidNamespace::Own | PidNamespace::Node | PidNamespace::Pod => "pause".to_owned(),
                };
                Some(target_of(wish).ok_or(CreateError::NoTarget(name))?)
            }
        };
        let own = spec.pid_namespace == PidNamespace::Own;
        let node_mounts = step("copy a descriptor", node_mounts.try_clone())?;
        let user_namespace = step("copy a descriptor", user_namespace.map(OwnedFd::try_clone).transpose())?;
        let child = ContainerChild {
            sandbox_directory: sandbox_directory.to_owned(),
            container_directory: container_directory.clone(),
            status: child_status,
            node_mounts,
            user_namespace,
            streams,
        };
        let forked =
            fork_in(target.as_ref(), own_pid_namespace, NewNamespaces { pid: own, ..Default::default() })?;
        let process = match forked {
            Forked::Child => run_container(child),
            Forked::Parent(process) => process,
        };
        drop(child);
        step("prepare a socket", status.set_nonblocking(true))?;
        Ok(Self {
            id,
            directory: container_directory,
            phase: Phase::Creating(asker),
            process,
            status: Some(status),
            reader: FrameReader::default(),
            failure: None,
            outputs,
            log,
            input,
            stdin_once: spec.stdin_once,
            terminal: spec.terminal,
            own_pid_namespace: own,
            cgroup: Cgroup::at(CgroupLayout::detect(), &spec.cgroup),
            stopping: Stopping::default(),
        })
    }

    /// Reads what the first process has to say.
    pub(super) fn advance(&mut self) -> Progress {
        let Some(status) = &self.status else { return Progress::Nothing };
        let inflow = self.reader.receive(status).unwrap_or(Inflow::Closed);
        match self.reader.next::<InitMessage>() {
            Ok(Some(InitMessage::Ready { warnings })) => return self.ready(warnings),
            Ok(Some(InitMessage::Failed { message })) => return self.failed(message),
            Ok(None) => {}
            Err(error) => {
                return self.failed(format!("the container's first process spoke nonsense: {error}"));
            }
        }
        if inflow != Inflow::Closed {
            return Progress::Nothing;
        }
        self.status = None;
        match self.phase {
            // The socket closes by itself when the program begins.
            Phase::Starting(asker) => {
                self.phase = Phase::Running;
                let started = StartRecord { started_at: now(), pid: self.process.pid.as_raw_nonzero().get() };
                // The daemon can do without this file; what it cannot do without is the exit record.
                let _ = state_files::write_json(
                    &self.directory.join(files::STARTED),
                    &started,
                    Durability::Cached,
                );
                Progress::Started { asker }
            }
            Phase::Creating(_) => self.failed("its first process was killed while it was set up".to_owned()),
            Phase::Created | Phase::Running | Phase::Exited | Phase::Abandoned => Progress::Nothing,
        }
    }

    fn ready(&mut self, warnings: Vec<String>) -> Progress {
        let Phase::Creating(asker) = self.phase else { return Progress::Nothing };
        if self.terminal {
            let Some(controller) = self.reader.take_descriptor() else {
                return self.failed("the terminal did not arrive".to_owned());
            };
            let output = controller.try_clone().and_then(|copy| Ok(Output::new(Stream::Output, copy)?));
            match output {
                Ok(output) => self.outputs.push(output),
                Err(error) => return self.failed(format!("the terminal cannot be read: {error}")),
            }
            self.input = Some(controller);
        }
        self.phase = Phase::Created;
        Progress::Ready { asker, warnings }
    }

    fn failed(&mut self, message: String) -> Progress {
        self.status = None;
        self.failure = Some(message.clone());
        match self.phase {
            Phase::Creating(asker) => {
                self.phase = Phase::Abandoned;
                Progress::Failed { asker, message }
            }
            Phase::Starting(asker) => Progress::Failed { asker, message },
            Phase::Created | Phase::Running | Phase::Exited | Phase::Abandoned => Progress::Nothing,
        }
    }

    /// Gives the word to go.
    pub(super) fn start(&mut self, asker: Asker) -> Result<(), std::io::Error> {
        let Some(status) = &mut self.status else {
            return Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        };
        status.write_all(&[1])?;
        self.phase = Phase::Starting(asker);
        Ok(())
    }

    /// Sends a signal to the first process.
    pub(super) fn signal(&self, signal: i32) {
        // Ended already is what a signal is for.
        let _ = sys::send_signal(self.process.pidfd.as_fd(), signal);
    }

    /// Kills everything that belongs to the container.
    pub(super) fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.process.pidfd, Signal::KILL);
        self.cgroup.kill();
    }

    /// Asks for the end: the signal now, everything killed after the timeout.
    pub(super) fn stop(&mut self, asker: Asker, signal: i32, timeout: Duration) {
        self.stopping.askers.push(asker);
        let kill_at = Instant::now().checked_add(timeout);
        // Of several who want it to end, the most impatient one counts.
        self.stopping.kill_at = match (self.stopping.kill_at, kill_at) {
            (Some(before), Some(now)) => Some(before.min(now)),
            (before, now) => before.or(now),
        };
        if timeout.is_zero() || !matches!(self.phase, Phase::Running) {
            self.kill();
        } else {
            self.signal(signal);
        }
    }

    /// Reads one of the outputs.
    pub(super) fn pump(&mut self, index: usize, buffer: &mut [u8]) {
        let Some(output) = self.outputs.get_mut(index) else { return };
        if output.pump(self.log.as_mut(), buffer) == OutputState::Ended {
            self.outputs.remove(index);
        }
    }

    pub(super) fn reopen_log(&mut self) -> std::io::Result<()> {
        self.log.as_mut().map_or(Ok(()), LogFile::reopen)
    }

    /// The input side for a client that attaches: a copy, or the only one when it ends with that client.
    pub(super) fn take_input(&mut self) -> Option<OwnedFd> {
        if self.stdin_once && !self.terminal {
            return self.input.take();
        }
        self.input.as_ref().and_then(|input| input.try_clone().ok())
    }

    /// The first process ended: reads the last output, and makes the exit record durable.
    pub(super) fn ended(&mut self, status: WaitStatus, buffer: &mut [u8]) -> ExitRecord {
        if !self.own_pid_namespace {
            // No namespace ended with the process, so what it left behind has to be killed.
            self.cgroup.kill();
        }
        self.status = None;
        self.input = None;
        for output in self.outputs.drain(..) {
            output.drain(self.log.as_mut(), buffer);
        }
        self.log = None;
        let exit = self.exit_record(status);
        // Without the record on the disk the daemon still gets it by message; a full disk must not hide the end.
        let _ = state_files::write_json(&self.directory.join(files::EXIT), &exit, Durability::Synced);
        // The group of a container that ended holds nothing any more. Its directory goes with the container.
        self.phase = Phase::Exited;
        exit
    }

    fn exit_record(&self, status: WaitStatus) -> ExitRecord {
        let finished_at = now();
        if let Some(message) = &self.failure {
            let reason = "StartError".to_owned();
            return ExitRecord { exit_code: 128, reason, message: message.clone(), finished_at };
        }
        let exit_code = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => 255,
        };
        let reason = if exit_code != 0 && self.cgroup.out_of_memory_kills() > 0 {
            "OOMKilled"
        } else if exit_code == 0 {
            "Completed"
        } else {
            "Error"
        };
        ExitRecord { exit_code, reason: reason.to_owned(), message: String::new(), finished_at }
    }

    /// Removes the control group. False when something is still in it.
    pub(super) fn remove_cgroup(&self) -> bool {
        self.cgroup.remove()
    }
}

/// Forks, in another process namespace when one is given. The caller's own children are born where they were before.
pub(super) fn fork_in(
    target: Option<&OwnedFd>,
    own_pid_namespace: &OwnedFd,
    namespaces: NewNamespaces,
) -> Result<Forked, CreateError> {
    let Some(target) = target else { return Ok(sys::fork_process(namespaces)?) };
    step("enter the process namespace", nix::sched::setns(target.as_fd(), CloneFlags::CLONE_NEWPID))?;
    let forked = sys::fork_process(namespaces);
    if !matches!(forked, Ok(Forked::Child)) {
        step("leave the process namespace", nix::sched::setns(own_pid_namespace, CloneFlags::CLONE_NEWPID))?;
    }
    Ok(forked?)
}

/// Nanoseconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
