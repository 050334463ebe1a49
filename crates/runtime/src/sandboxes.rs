//! Making, stopping and removing pod sandboxes.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use cri::v1::{ContainerEventType, NamespaceMode, PodSandboxConfig, PortMapping};
use network::{HostPort, ResolvConf};
use prost::Message as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::call_error::{CallError, OnPath as _};
use crate::cgroup::Cgroup;
use crate::compose::{limits, own_users, shares_processes};
use crate::container::{Container, Phase};
use crate::launch::Resources;
use crate::protocol::{self, Call, Reply, ShimReady, ShimSpec};
use crate::reexec;
use crate::runtime::{Runtime, RuntimeState, new_id, now};
use crate::sandbox::{self, Sandbox, SandboxRecord, Standing, namespace_options, record_path};
use crate::shim_link::{self, ShimLink};
use crate::state_files::{self, Durability};

/// A shim that is not ready by then never will be.
const SHIM_DEADLINE: Duration = Duration::from_secs(20);

/// A kill takes effect within this time, or the process hangs in the kernel.
pub(crate) const KILL_DEADLINE: Duration = Duration::from_secs(20);

/// How long containers of a sandbox that is stopped from outside may take to end in order, once nothing is executed in them.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// How long whoever manages them may take to begin with that: on a busy machine it hears of it late.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);

/// How long what it then executes in them may take.
const LONGEST_HOOK: Duration = Duration::from_secs(10);

/// Size of /dev/shm of a pod, in bytes.
const SHM_BYTES: u64 = 64 * 1024 * 1024;

impl Runtime {
    /// Makes a sandbox and waits until its network and its shim stand.
    pub(crate) async fn run_sandbox(
        &self,
        config: PodSandboxConfig,
        runtime_handler: String,
    ) -> Result<String, CallError> {
        if !runtime_handler.is_empty() {
            return Err(CallError::Invalid {
                field: "runtime_handler",
                problem: format!(
                    "{runtime_handler:?} is not known; there is only the default, which has no name"
                ),
            });
        }
        if config.metadata.is_none() {
            return Err(CallError::Missing { field: "config.metadata" });
        }
        self.state.anticipate_moves();
        let id = new_id();
        let directory = self.state.sandboxes_directory().join(&id);
        match self.build_sandbox(&id, &directory, config).await {
            Ok(()) => Ok(id),
            Err(error) => {
                self.discard_sandbox(&id, &directory).await;
                Err(error)
            }
        }
    }

    async fn build_sandbox(
        &self,
        id: &str,
        directory: &Path,
        config: PodSandboxConfig,
    ) -> Result<(), CallError> {
        let state = &self.state;
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).create(directory).on_path("make", directory)?;
        let containers = directory.join(protocol::files::CONTAINERS);
        builder.create(&containers).on_path("make", &containers)?;
        fault::point("sandbox.directory");
        state_files::write_file(
            &directory.join(sandbox::files::CONFIG),
            &config.encode_to_vec(),
            Durability::Synced,
        )?;
        fault::point("sandbox.config");
        let options = namespace_options(&config);
        let host_network = options.network() == NamespaceMode::Node;
        let linux = config.linux.clone().unwrap_or_default();
        let hostname = if config.hostname.is_empty() { node_name() } else { config.hostname.clone() };

        let limits = linux.resources.as_ref().map(limits).unwrap_or_default();
        let (cgroup_parent, made_cgroup_parent) = state.make_cgroup_parent(&linux.cgroup_parent, id, limits);
        fault::point("sandbox.group");
        let spec = ShimSpec {
            hostname: hostname.clone(),
            host_network,
            host_ipc: options.ipc() == NamespaceMode::Node,
            shared_pid: shares_processes(&config),
            sysctls: linux.sysctls.into_iter().collect(),
            users: own_users(&options)?,
            shm_bytes: SHM_BYTES,
        };
        state_files::write_json(&directory.join(protocol::files::SPEC), &spec, Durability::Cached)?;
        fault::point("sandbox.described");
        let shim_pid = spawn_shim(state, directory).await?;
        fault::point("shim.ready");

        let mut addresses = Vec::new();
        if !host_network {
            let path = PathBuf::from(format!("/proc/{shim_pid}/ns/net"));
            let namespace = fs::File::open(&path).on_path("open", &path)?;
            let ports: Vec<HostPort> = config.port_mappings.iter().filter_map(host_port).collect();
            let pod = state.network.setup_pod(namespace.as_fd(), id, &ports).await?;
            // The network said these when it was opened.
            for limit in &pod.limits {
                tracing::debug!(sandbox = id, "{limit}");
            }
            addresses.extend(pod.addresses.iter().map(ToString::to_string));
        }
        fault::point("sandbox.connected");
        write_files(directory, &config, &hostname, host_network, &addresses)?;
        fault::point("sandbox.files");

        let record = SandboxRecord {
            id: id.to_owned(),
            created_at: now(),
            runtime_handler: String::new(),
            shim_pid,
            hostname,
            addresses,
            cgroup_parent,
            made_cgroup_parent,
            stopped: false,
        };
        let link = shim_link::connect(directory, state.event_handler(id.to_owned()))
            .await
            .on_path("reach the shim in", directory)?;
        fault::point("sandbox.linked");
        state_files::write_json(&record_path(directory), &record, Durability::Synced)?;
        fault::point("sandbox.recorded");
        state.add_sandbox(Arc::new(Sandbox::new(
            directory.to_owned(),
            config,
            record,
            Standing::Ready(link),
        )));
        Ok(())
    }

    /// Undoes what a sandbox that never stood left behind.
    pub(crate) async fn discard_sandbox(&self, id: &str, directory: &Path) {
        if let Ok(link) = shim_link::connect(directory, |_| {}).await {
            let _ = tokio::time::timeout(KILL_DEADLINE, link.call(Call::Quit { kill: true })).await;
        }
        if let Err(error) = self.state.network.teardown_pod(id).await {
            tracing::warn!(sandbox = id, %error, "a pod's network could not be removed");
        }
        let group = self.state.cgroup(&format!("{}/{id}", self.state.cgroup_root()));
        remove_group(&group).await;
        if let Err(error) = remove_directory(directory).await {
            tracing::warn!(sandbox = id, %error, "the directory of a sandbox could not be removed");
        }
    }

    /// Stops a sandbox from outside. Whoever manages its containers hears of it first, and has a moment to end them in order;
    /// what runs after that is killed.
    pub(crate) async fn stop_sandbox_in_order(&self, id: &str) -> Result<(), CallError> {
        let sandbox = self.state.sandbox(id)?;
        let id = sandbox.id();
        let running: Vec<_> = self
            .state
            .containers_of(&id)
            .into_iter()
            .filter(|container| matches!(container.phase(), Phase::Running(_)))
            .collect();
        if sandbox.is_ready() && !running.is_empty() {
            running.iter().for_each(|container| container.forget_attention());
            sandbox.leave();
            let is_heard = self.state.publish(&id, &id, ContainerEventType::ContainerStoppedEvent);
            last_moment(&running, is_heard).await;
        }
        self.stop_sandbox(&id).await
    }

    /// Ends everything in the sandbox: containers, network, shim. Stopping a stopped one does nothing.
    pub(crate) async fn stop_sandbox(&self, id: &str) -> Result<(), CallError> {
        let sandbox = self.state.sandbox(id)?;
        let id = sandbox.id();
        let containers = self.state.containers_of(&id);
        let stops =
            containers.iter().map(|container| self.stop_container(&container.record.id, Duration::ZERO));
        for stopped in futures::future::join_all(stops).await {
            stopped?;
        }
        fault::point("sandbox.emptied");
        // The kernel takes some time to take a link apart. Should this process end meanwhile, the next one takes away the
        // networks of sandboxes that are marked as stopped; and whoever removes this one disconnects it once more.
        let disconnect = async {
            if !sandbox.host_network() {
                self.state.network.teardown_pod(&id).await?;
            }
            fault::point("sandbox.disconnected");
            Ok(())
        };
        let (disconnected, ()) = tokio::join!(biased; disconnect, self.end_sandbox_process(&sandbox, &id));
        disconnected
    }

    async fn end_sandbox_process(&self, sandbox: &Sandbox, id: &str) {
        let record = sandbox.change_record(|record| record.stopped = true);
        if let Err(error) =
            state_files::write_json(&record_path(&sandbox.directory), &record, Durability::Synced)
        {
            // On a full disk things must still be stopped and removed: that is how room is made.
            tracing::warn!(sandbox = %id, %error, "that a sandbox is stopped could not be written down");
        }
        fault::point("sandbox.marked");
        if let Standing::Ready(link) = sandbox.standing() {
            sandbox.set_standing(Standing::NotReady);
            end_shim(&link, record.shim_pid).await;
            fault::point("shim.ended");
        }
    }

    /// Removes the sandbox and all that belongs to it. Removing what is not there does nothing.
    pub(crate) async fn remove_sandbox(&self, id: &str) -> Result<(), CallError> {
        let Ok(sandbox) = self.state.sandbox(id) else { return Ok(()) };
        self.stop_sandbox(id).await?;
        let id = sandbox.id();
        for container in self.state.containers_of(&id) {
            self.remove_container(&container.record.id).await?;
        }
        let record = sandbox.record();
        if record.made_cgroup_parent {
            remove_group(&self.state.cgroup(&record.cgroup_parent)).await;
        }
        fault::point("sandbox.group_removed");
        remove_directory(&sandbox.directory).await.on_path("remove", &sandbox.directory)?;
        fault::point("sandbox.directory_removed");
        self.state.forget_sandbox(&id);
        self.state.publish(&id, &id, ContainerEventType::ContainerDeletedEvent);
        Ok(())
    }
}

impl RuntimeState {
    /// The group below which the pod's containers get theirs. One that exists belongs to whoever made it.
    fn make_cgroup_parent(&self, asked: &str, id: &str, limits: Resources) -> (String, bool) {
        let (path, ours) = if asked.is_empty() {
            (format!("{}/{id}", self.cgroup_root()), true)
        } else {
            (asked.to_owned(), false)
        };
        let group = self.cgroup(&path);
        if !ours && group.exists() {
            return (group.path().to_owned(), false);
        }
        for warning in group.create() {
            self.warn_once(&warning.to_string());
        }
        for warning in group.limit(&Resources { pids: self.config.pod_max_pids, ..limits }) {
            self.warn_once(&warning.to_string());
        }
        (group.path().to_owned(), true)
    }
}

/// Gives containers time to end in order: until somebody attends to one of them, until what that one executes in them has
/// ended, and a moment more. Late or not: what has not ended after that is ended then.
async fn last_moment(running: &[Arc<Container>], is_heard: bool) {
    let attended =
        running.iter().map(|container| Box::pin(container.ended_or_attended(|attention| attention.came)));
    let silence = if is_heard { LONGEST_SILENCE } else { LAST_MOMENT };
    if tokio::time::timeout(silence, futures::future::select_all(attended)).await.is_err() {
        return;
    }
    let idle =
        running.iter().map(|container| container.ended_or_attended(|attention| attention.commands == 0));
    let _ = tokio::time::timeout(LONGEST_HOOK, futures::future::join_all(idle)).await;
    let ends = running.iter().map(|container| container.ended());
    let _ = tokio::time::timeout(LAST_MOMENT, futures::future::join_all(ends)).await;
}

/// Ends a shim with whatever it may still run, and waits until it is gone.
pub(crate) async fn end_shim(link: &ShimLink, pid: i32) {
    let process = rustix::process::Pid::from_raw(pid)
        .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::NONBLOCK).ok());
    match tokio::time::timeout(KILL_DEADLINE, link.call(Call::Quit { kill: true })).await {
        // The connection closes with the shim, which may come before the answer.
        Ok(Ok(Reply::Done) | Err(_)) => {}
        Ok(Ok(reply)) => tracing::warn!(pid, ?reply, "a pod's shim does not want to end"),
        Err(_) => tracing::warn!(pid, "a pod's shim does not answer"),
    }
    let Some(process) = process else { return };
    // Whoever looks for leftovers after this call must not find it.
    let gone = tokio::task::spawn_blocking(move || {
        let limit = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
        let mut polled = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
        let _ = rustix::event::poll(&mut polled, Some(&limit));
    });
    let _ = gone.await;
}

async fn spawn_shim(state: &RuntimeState, directory: &Path) -> Result<i32, CallError> {
    let errors_path = directory.join(protocol::files::ERRORS);
    let errors = fs::File::create(&errors_path).on_path("make", &errors_path)?;
    let own;
    let program = match &state.config.shim_program {
        Some(program) => program.clone(),
        None => {
            // Through a read-only mount: a container that gets hold of /proc/PID/exe of one of our processes must not be
            // able to write the program file (CVE-2019-5736).
            own = read_only_program();
            match &own {
                Some(descriptor) => {
                    PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(descriptor)))
                }
                None => PathBuf::from("/proc/self/exe"),
            }
        }
    };
    let mut command = tokio::process::Command::new(&program);
    command
        .arg0("coracle")
        .arg(reexec::SHIM)
        .arg(directory)
        .env_clear()
        .envs(fault::handed_on())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors);
    let mut child = command.spawn().on_path("execute", &program)?;
    fault::point("shim.spawned");
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().expect("it was piped"));
    let read = tokio::time::timeout(SHIM_DEADLINE, output.read_line(&mut line)).await;
    let problem = match read {
        Ok(Ok(_)) => match serde_json::from_str(&line) {
            Ok(ShimReady::Ready { pid }) => return Ok(pid),
            Ok(ShimReady::Failed { message }) => message,
            Err(_) => {
                let errors = fs::read_to_string(&errors_path).unwrap_or_default();
                format!(
                    "it ended before it was ready: {}",
                    errors.lines().next().unwrap_or("it said nothing")
                )
            }
        },
        Ok(Err(error)) => error.to_string(),
        Err(_) => "it was not ready in time".to_owned(),
    };
    let _ = child.start_kill();
    Err(CallError::Shim(problem))
}

/// This program, as a mount that nothing can be written through. None where the kernel refuses.
fn read_only_program() -> Option<std::os::fd::OwnedFd> {
    use rustix::mount::OpenTreeFlags;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let copy = rustix::mount::open_tree(rustix::fs::CWD, "/proc/self/exe", flags).ok()?;
    let read_only = sys::MountAttributes { read_only: true, ..Default::default() };
    sys::change_mount(copy.as_fd(), sys::MountChange { set: read_only, ..Default::default() }).ok()?;
    Some(copy)
}

/// Files that containers see unless their pod brings its own.
fn write_files(
    directory: &Path,
    config: &PodSandboxConfig,
    hostname: &str,
    host_network: bool,
    addresses: &[String],
) -> Result<(), CallError> {
    let write = |name: &str, content: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = directory.join(name);
        fs::write(&path, content).on_path("write", &path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).on_path("set the mode of", &path)
    };
    write("hostname", &format!("{hostname}\n"))?;
    if host_network {
        let hosts = fs::read_to_string("/etc/hosts").unwrap_or_default();
        write("hosts", &hosts)?;
    } else {
        let mut hosts = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n".to_owned();
        for address in addresses {
            hosts.push_str(&format!("{address}\t{hostname}\n"));
        }
        write("hosts", &hosts)?;
    }
    let resolver = match &config.dns_config {
        Some(dns) if !(dns.servers.is_empty() && dns.searches.is_empty() && dns.options.is_empty()) => {
            ResolvConf {
                nameservers: dns.servers.clone(),
                searches: dns.searches.clone(),
                options: dns.options.clone(),
            }
        }
        // Nobody said: the machine's own, but never a stub on the machine's loopback.
        _ => network::machine_resolv_conf().unwrap_or_default(),
    };
    write("resolv.conf", &resolver.to_string())
}

fn host_port(mapping: &PortMapping) -> Option<HostPort> {
    let port = |number: i32| u16::try_from(number).ok().filter(|number| *number != 0);
    Some(HostPort {
        protocol: match mapping.protocol() {
            cri::v1::Protocol::Tcp => network::Protocol::Tcp,
            cri::v1::Protocol::Udp => network::Protocol::Udp,
            cri::v1::Protocol::Sctp => network::Protocol::Sctp,
        },
        host_address: mapping
            .host_ip
            .parse()
            .ok()
            .filter(|address: &std::net::IpAddr| !address.is_unspecified()),
        host_port: port(mapping.host_port)?,
        pod_port: port(mapping.container_port)?,
    })
}

fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Kills what is left in a group and removes it, with the parents that it leaves empty.
///
/// A killed process stays in its group until the kernel has taken it apart, and version 1 has nothing to wait on: this
/// looks again after a moment, each time a longer one.
pub(crate) async fn remove_group(group: &Cgroup) {
    let mut pause = Duration::from_millis(1);
    while !group.remove() {
        if pause > Duration::from_secs(1) {
            tracing::warn!(
                group = group.path(),
                "a control group could not be removed: processes in it do not end"
            );
            return;
        }
        group.kill();
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
    group.remove_empty_parents();
}

/// Removes a directory of ours on a thread that may wait for the disk.
pub(crate) async fn remove_directory(path: &Path) -> std::io::Result<()> {
    let path = path.to_owned();
    let removed = tokio::task::spawn_blocking(move || match fs::remove_dir_all(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        done => done,
    });
    removed.await.map_err(std::io::Error::other)?
}
