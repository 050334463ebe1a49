//! The one loop of a shim: waits for descriptors, moves containers on, answers clients.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::WaitOptions;
use sys::ChildProcess;

use super::clients::{Asker, Clients};
use super::containers::{Container, Phase, Progress, Surroundings};
use super::executions::{Begun, Execution, ExecutionNamespaces};
use super::output::Listener;
use crate::launch::PidNamespace;
use crate::protocol::{Call, ExecuteCall, Message, Reply, files};

/// Everything that a shim holds.
pub(super) struct Supervisor {
    pub(super) directory: PathBuf,
    pub(super) listener: UnixListener,
    pub(super) signals: SignalFd,
    /// The mount namespace that the daemon was in.
    pub(super) node_mounts: OwnedFd,
    /// The process namespace that this process is in.
    pub(super) own_pid_namespace: OwnedFd,
    /// The pod's own user namespace, if it has one.
    pub(super) user_namespace: Option<OwnedFd>,
    pub(super) pause: Option<ChildProcess>,
    pub(super) clients: Clients,
    pub(super) containers: BTreeMap<String, Container>,
    pub(super) executions: BTreeMap<u64, Execution>,
    pub(super) buffer: Vec<u8>,
    pub(super) quitting: bool,
}

/// What a descriptor that became ready belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    ContainerStatus(String),
    ExecutionStatus(u64),
    Output(String, usize),
    Listeners(String, usize),
    Client(u64),
    Accept,
    Signals,
}

impl Supervisor {
    /// Runs until a client asks it to quit.
    pub(super) fn run(mut self) -> io::Result<()> {
        while !self.quitting {
            let ready = self.wait()?;
            // First what began, then what was written, then requests, and ends last: in the order in which it happened.
            for source in ready {
                self.serve(source);
            }
            self.kill_overdue();
            self.clients.forget_broken();
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<Vec<Source>> {
        let mut sources = Vec::new();
        let mut polled: Vec<PollFd<'_>> = Vec::new();
        for container in self.containers.values() {
            if let Some(status) = &container.status {
                sources.push(Source::ContainerStatus(container.id.clone()));
                polled.push(PollFd::new(status, PollFlags::IN));
            }
        }
        for execution in self.executions.values() {
            if let Some(status) = &execution.status {
                sources.push(Source::ExecutionStatus(execution.number));
                polled.push(PollFd::new(status, PollFlags::IN));
            }
        }
        for container in self.containers.values() {
            // Highest first: an output that ends is removed, and must not shift one that is still to be served.
            for (index, output) in container.outputs.iter().enumerate().rev() {
                sources.push(Source::Output(container.id.clone(), index));
                polled.push(PollFd::new(output.source(), PollFlags::IN));
            }
        }
        for container in self.containers.values() {
            for (index, output) in container.outputs.iter().enumerate() {
                for listener in output.listeners.iter().filter(|listener| listener.is_behind()) {
                    sources.push(Source::Listeners(container.id.clone(), index));
                    polled.push(PollFd::new(listener.descriptor(), PollFlags::OUT));
                }
            }
        }
        for client in &self.clients.list {
            let wanted = if client.has_outgoing() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            sources.push(Source::Client(client.id));
            polled.push(PollFd::new(&client.stream, wanted));
        }
        sources.push(Source::Accept);
        polled.push(PollFd::new(&self.listener, PollFlags::IN));
        sources.push(Source::Signals);
        polled.push(PollFd::new(&self.signals, PollFlags::IN));

        let timeout = self.next_deadline().map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = polled.iter().map(|polled| !polled.revents().is_empty()).collect::<Vec<bool>>();
        Ok(sources.into_iter().zip(ready).filter_map(|(source, ready)| ready.then_some(source)).collect())
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.containers.values().filter_map(|container| container.stopping.kill_at).min()
    }

    fn serve(&mut self, source: Source) {
        match source {
            Source::ContainerStatus(id) => self.advance_container(&id),
            Source::ExecutionStatus(number) => self.advance_execution(number),
            Source::Output(id, index) => {
                if let Some(container) = self.containers.get_mut(&id) {
                    container.pump(index, &mut self.buffer);
                }
            }
            Source::Listeners(id, index) => {
                if let Some(output) =
                    self.containers.get_mut(&id).and_then(|container| container.outputs.get_mut(index))
                {
                    output.listeners.retain_mut(Listener::flush);
                }
            }
            Source::Client(id) => self.serve_client(id),
            Source::Accept => {
                if let Ok((stream, _)) = self.listener.accept() {
                    self.clients.add(stream);
                }
            }
            Source::Signals => self.reap(),
        }
    }

    fn advance_container(&mut self, id: &str) {
        let Some(container) = self.containers.get_mut(id) else { return };
        match container.advance() {
            Progress::Nothing => {}
            Progress::Ready { asker, warnings } => {
                fault::point("supervisor.built");
                self.clients.reply(asker, Reply::Created { warnings });
            }
            Progress::Started { asker } => {
                fault::point("supervisor.start_recorded");
                self.clients.reply(asker, Reply::Done);
            }
            Progress::Failed { asker, message } => self.clients.reply(asker, Reply::Failed { message }),
        }
    }

    fn advance_execution(&mut self, number: u64) {
        let Some(execution) = self.executions.get_mut(&number) else { return };
        match execution.advance() {
            Begun::NotYet => {}
            Begun::Yes(asker) => {
                fault::point("supervisor.execution_begun");
                self.clients.reply(asker, Reply::Done);
            }
            Begun::Failed(asker, message) => self.clients.reply(asker, Reply::Failed { message }),
        }
    }

    fn serve_client(&mut self, id: u64) {
        let Some(client) = self.clients.list.iter_mut().find(|client| client.id == id) else { return };
        client.flush();
        for request in client.receive() {
            self.answer(Asker { client: id, number: request.number }, request.call);
        }
    }

    fn take_descriptors(&mut self, asker: Asker, count: usize) -> Vec<OwnedFd> {
        let Some(client) = self.clients.list.iter_mut().find(|client| client.id == asker.client) else {
            return Vec::new();
        };
        std::iter::from_fn(|| client.take_descriptor()).take(count).collect()
    }

    fn answer(&mut self, asker: Asker, call: Call) {
        match call {
            Call::Create { container } => self.create(asker, container),
            Call::Start { container } => self.start(asker, &container),
            Call::Stop { container, signal, timeout_ms } => {
                self.stop(asker, &container, signal, Duration::from_millis(timeout_ms));
            }
            Call::Forget { container } => self.forget(asker, &container),
            Call::Execute(call) => self.execute(asker, call),
            Call::KillExecuted { execution } => {
                let reply = match self.executions.get(&execution) {
                    Some(execution) => {
                        execution.kill();
                        Reply::Done
                    }
                    None => Reply::Unknown,
                };
                self.clients.reply(asker, reply);
            }
            Call::Attach { container, stdin, stdout, stderr } => {
                self.attach(asker, &container, stdin, [stdout, stderr]);
            }
            Call::ReopenLog { container } => {
                let reply = match self.containers.get_mut(&container) {
                    None => Reply::Unknown,
                    Some(container) => match container.reopen_log() {
                        Ok(()) => Reply::Done,
                        Err(error) => Reply::Failed { message: format!("cannot open the log: {error}") },
                    },
                };
                self.clients.reply(asker, reply);
            }
            Call::Quit { kill } => {
                fault::point("supervisor.quit_asked");
                let mut running =
                    self.containers.values().filter(|container| !container.phase.is_over()).peekable();
                if running.peek().is_some() && !kill {
                    return self.clients.reply(asker, Reply::WrongState { state: "running".to_owned() });
                }
                running.for_each(Container::kill);
                self.quitting = true;
                fault::point("supervisor.quitting");
                self.clients.reply(asker, Reply::Done);
            }
        }
    }

    fn create(&mut self, asker: Asker, id: String) {
        if let Some(container) = self.containers.get(&id) {
            let state = container.phase.name().to_owned();
            return self.clients.reply(asker, Reply::WrongState { state });
        }
        let target_of = |wish: &PidNamespace| -> Option<OwnedFd> {
            match wish {
                PidNamespace::Own | PidNamespace::Node => None,
                PidNamespace::Pod => self.pause.as_ref()?.pidfd.try_clone().ok(),
                PidNamespace::Container(id) => {
                    let container = self.containers.get(id)?;
                    if !matches!(container.phase, Phase::Running) {
                        return None;
                    }
                    container.process.pidfd.try_clone().ok()
                }
            }
        };
        let surroundings = Surroundings {
            sandbox_directory: &self.directory,
            container_directory: self.directory.join(files::CONTAINERS).join(&id),
            node_mounts: &self.node_mounts,
            own_pid_namespace: &self.own_pid_namespace,
            user_namespace: self.user_namespace.as_ref(),
            target_of: &target_of,
        };
        fault::point("supervisor.create_asked");
        match Container::create(id.clone(), asker, surroundings) {
            Ok(container) => {
                fault::point("supervisor.forked");
                drop(self.containers.insert(id, container));
            }
            Err(error) => self.clients.reply(asker, Reply::Failed { message: error.to_string() }),
        }
    }

    fn start(&mut self, asker: Asker, id: &str) {
        let Some(container) = self.containers.get_mut(id) else {
            return self.clients.reply(asker, Reply::Unknown);
        };
        if !matches!(container.phase, Phase::Created) {
            let state = container.phase.name().to_owned();
            return self.clients.reply(asker, Reply::WrongState { state });
        }
        fault::point("supervisor.start_asked");
        let started = container.start(asker);
        fault::point("supervisor.word_given");
        if let Err(error) = started {
            let message = format!("the container's first process is gone: {error}");
            self.clients.reply(asker, Reply::Failed { message });
        }
    }

    fn stop(&mut self, asker: Asker, id: &str, signal: i32, timeout: Duration) {
        match self.containers.get_mut(id) {
            None => self.clients.reply(asker, Reply::Unknown),
            Some(container) if matches!(container.phase, Phase::Exited) => {
                self.clients.reply(asker, Reply::Done)
            }
            Some(container) => {
                fault::point("supervisor.stop_asked");
                container.stop(asker, signal, timeout);
                fault::point("supervisor.stop_signalled");
            }
        }
    }

    fn forget(&mut self, asker: Asker, id: &str) {
        let reply = match self.containers.get(id) {
            None => Reply::Unknown,
            Some(container) if matches!(container.phase, Phase::Exited) => {
                // What is left in the group is a matter of the daemon, which removes it once more.
                fault::point("supervisor.forget_asked");
                container.remove_cgroup();
                self.containers.remove(id);
                Reply::Done
            }
            Some(container) => Reply::WrongState { state: container.phase.name().to_owned() },
        };
        self.clients.reply(asker, reply);
    }

    fn execute(&mut self, asker: Asker, call: ExecuteCall) {
        let descriptors = self.take_descriptors(asker, if call.terminal { 1 } else { 3 });
        let Some(container) = self.containers.get(&call.container) else {
            return self.clients.reply(asker, Reply::Unknown);
        };
        if !matches!(container.phase, Phase::Running) {
            let state = container.phase.name().to_owned();
            return self.clients.reply(asker, Reply::WrongState { state });
        }
        let number = call.execution;
        let directory = self.directory.join(files::CONTAINERS).join(&call.container);
        let begun = container
            .process
            .pidfd
            .try_clone()
            .map_err(|source| super::containers::CreateError::Step { step: "copy a descriptor", source });
        fault::point("supervisor.execute_asked");
        let begun = begun.and_then(|target| {
            let namespaces =
                ExecutionNamespaces { pid: &self.own_pid_namespace, user: self.user_namespace.as_ref() };
            Execution::begin(call, asker, directory, target, namespaces, descriptors)
        });
        match begun {
            Ok(execution) => {
                fault::point("supervisor.execution_forked");
                drop(self.executions.insert(number, execution));
            }
            Err(error) => self.clients.reply(asker, Reply::Failed { message: error.to_string() }),
        }
    }

    fn attach(&mut self, asker: Asker, id: &str, stdin: bool, wanted: [bool; 2]) {
        let descriptors = self.take_descriptors(asker, wanted.iter().filter(|wanted| **wanted).count());
        let Some(container) = self.containers.get_mut(id) else {
            return self.clients.reply(asker, Reply::Unknown);
        };
        if !matches!(container.phase, Phase::Created | Phase::Starting(_) | Phase::Running) {
            let state = container.phase.name().to_owned();
            return self.clients.reply(asker, Reply::WrongState { state });
        }
        let mut descriptors = descriptors.into_iter();
        for (stream, _) in [super::log_file::Stream::Output, super::log_file::Stream::Error]
            .into_iter()
            .zip(wanted)
            .filter(|(_, wanted)| *wanted)
        {
            let listener = descriptors.next().and_then(|descriptor| Listener::new(descriptor).ok());
            let output = container.outputs.iter_mut().find(|output| output.stream() == stream);
            // An output that ended already has nothing to say: dropping the descriptor tells so.
            if let (Some(listener), Some(output)) = (listener, output) {
                output.listeners.push(listener);
            }
        }
        let input = if stdin { container.take_input() } else { None };
        match input {
            Some(input) => self.clients.reply_with(asker, Reply::DoneWithDescriptors, vec![input]),
            None => self.clients.reply(asker, Reply::Done),
        }
    }

    fn reap(&mut self) {
        while let Ok(Some(_)) = self.signals.read_signal() {}
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if let Some(id) = self
                .containers
                .values()
                // What has ended is reaped: its number is free, and by now perhaps that of another.
                .find(|container| container.process.pid == pid && !matches!(container.phase, Phase::Exited))
                .map(|found| found.id.clone())
            {
                self.container_ended(&id, status);
            } else if let Some(number) = self
                .executions
                .values()
                .find(|execution| execution.process.pid == pid)
                .map(|execution| execution.number)
            {
                self.advance_execution(number);
                if let Some(execution) = self.executions.remove(&number)
                    && let Some(exit_code) = execution.exit_code(status)
                {
                    fault::point("supervisor.execution_ended");
                    self.clients.broadcast(&Message::Executed { execution: number, exit_code });
                }
            }
            // Anybody else is an orphan of a container that shares a process namespace: reaped, and that is all.
        }
    }

    fn container_ended(&mut self, id: &str, status: rustix::process::WaitStatus) {
        // What it said last comes before its end. A second reading finds the socket closed.
        self.advance_container(id);
        self.advance_container(id);
        let Some(container) = self.containers.get_mut(id) else { return };
        if matches!(container.phase, Phase::Creating(_) | Phase::Abandoned) {
            // It never was a container: the failure was reported, and its asker may try again under the same name.
            container.remove_cgroup();
            self.containers.remove(id);
            return;
        }
        fault::point("supervisor.end_seen");
        let exit = container.ended(status, &mut self.buffer);
        fault::point("supervisor.end_recorded");
        container.stopping.kill_at = None;
        let askers = std::mem::take(&mut container.stopping.askers);
        for execution in self.executions.values().filter(|execution| execution.container == id) {
            execution.kill();
        }
        self.clients.broadcast(&Message::ContainerExited { container: id.to_owned(), exit });
        for asker in askers {
            self.clients.reply(asker, Reply::Done);
        }
    }

    fn kill_overdue(&mut self) {
        let now = Instant::now();
        for container in self.containers.values_mut() {
            if container.stopping.kill_at.is_some_and(|deadline| deadline <= now) {
                container.kill();
                // Once more a little later: what forks while it is killed may have escaped.
                container.stopping.kill_at = now.checked_add(Duration::from_millis(250));
            }
        }
    }
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Supervisor").field("directory", &self.directory).finish_non_exhaustive()
    }
}

/// Descriptors that a new supervisor needs.
pub(super) fn own_pid_namespace() -> io::Result<OwnedFd> {
    Ok(std::fs::File::open("/proc/self/ns/pid")?.into())
}

pub(super) fn node_mounts() -> io::Result<OwnedFd> {
    Ok(std::fs::File::open("/proc/self/ns/mnt")?.into())
}
