//! Commands executed in running containers.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::process::{Signal, WaitStatus};
use sys::{ChildProcess, Forked, NewNamespaces};

use super::clients::Asker;
use super::containers::{CreateError, fork_in};
use crate::init::{ExecutionChild, StandardStreams, run_execution};
use crate::protocol::{ExecuteCall, InitMessage};
use crate::wire::{FrameReader, Inflow};

/// One command.
#[derive(Debug)]
pub(super) struct Execution {
    pub(super) number: u64,
    pub(super) container: String,
    pub(super) process: ChildProcess,
    /// Open until the program begins.
    pub(super) status: Option<UnixStream>,
    reader: FrameReader,
    /// Waits to hear that the program began.
    asker: Option<Asker>,
    failed: bool,
}

/// Namespaces that the shim knows and a command needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExecutionNamespaces<'a> {
    /// The process namespace of the shim.
    pub(super) pid: &'a OwnedFd,
    /// The pod's own user namespace, if it has one.
    pub(super) user: Option<&'a OwnedFd>,
}

/// What the status socket brought.
#[derive(Debug)]
pub(super) enum Begun {
    NotYet,
    Yes(Asker),
    Failed(Asker, String),
}

impl Execution {
    /// Forks a process that becomes the command inside the container whose first process is `target`.
    pub(super) fn begin(
        call: ExecuteCall,
        asker: Asker,
        container_directory: PathBuf,
        target: OwnedFd,
        namespaces: ExecutionNamespaces<'_>,
        descriptors: Vec<OwnedFd>,
    ) -> Result<Self, CreateError> {
        let failed = |step, source: std::io::Error| CreateError::Step { step, source };
        let (status, child_status) = UnixStream::pair().map_err(|error| failed("make a socket", error))?;
        let mut descriptors = descriptors.into_iter();
        let console = if call.terminal { descriptors.next().map(UnixStream::from) } else { None };
        let mut next = || match descriptors.next() {
            Some(descriptor) => Ok(descriptor),
            None => rustix::fs::open(
                "/dev/null",
                rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
                rustix::fs::Mode::empty(),
            )
            .map_err(|error| failed("open the null device", error.into())),
        };
        let streams = StandardStreams { input: next()?, output: next()?, error: next()? };
        let user_namespace = namespaces.user.map(OwnedFd::try_clone).transpose();
        let user_namespace = user_namespace.map_err(|error| failed("copy a descriptor", error))?;
        let child = ExecutionChild {
            container_directory,
            args: call.args,
            environment: call.environment,
            terminal: call.terminal,
            status: child_status,
            target,
            user_namespace,
            streams,
            console,
        };
        let process = match fork_in(Some(&child.target), namespaces.pid, NewNamespaces::default())? {
            Forked::Child => run_execution(child),
            Forked::Parent(process) => process,
        };
        drop(child);
        status.set_nonblocking(true).map_err(|error| failed("prepare a socket", error))?;
        Ok(Self {
            number: call.execution,
            container: call.container,
            process,
            status: Some(status),
            reader: FrameReader::default(),
            asker: Some(asker),
            failed: false,
        })
    }

    /// Reads what the child has to say.
    pub(super) fn advance(&mut self) -> Begun {
        let Some(status) = &self.status else { return Begun::NotYet };
        let inflow = self.reader.receive(status).unwrap_or(Inflow::Closed);
        let message = match self.reader.next::<InitMessage>() {
            Ok(Some(InitMessage::Failed { message })) => Some(message),
            Ok(Some(InitMessage::Ready { .. }) | None) => None,
            Err(error) => Some(format!("the command's process spoke nonsense: {error}")),
        };
        match (message, inflow) {
            (Some(message), _) => {
                self.status = None;
                self.failed = true;
                self.asker.take().map_or(Begun::NotYet, |asker| Begun::Failed(asker, message))
            }
            (None, Inflow::Closed) => {
                self.status = None;
                self.asker.take().map_or(Begun::NotYet, Begun::Yes)
            }
            (None, Inflow::Arrived | Inflow::Nothing) => Begun::NotYet,
        }
    }

    pub(super) fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.process.pidfd, Signal::KILL);
    }

    /// The exit code to report; none when the program never began.
    pub(super) fn exit_code(&self, status: WaitStatus) -> Option<i32> {
        if self.failed {
            return None;
        }
        Some(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => 255,
        })
    }
}
