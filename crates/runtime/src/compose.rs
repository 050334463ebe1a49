//! From what the kubelet asks to what the shim's child does: pure, but for the files that a seccomp profile lies in.

use std::path::{Path, PathBuf};

use cri::v1::security_profile::ProfileType;
use cri::v1::{
    ContainerConfig, LinuxContainerResources, LinuxContainerSecurityContext, NamespaceMode, PodSandboxConfig,
    SecurityProfile, SupplementalGroupsPolicy,
};
use images::{Image, MaskedPathKind};

use crate::call_error::{CallError, OnPath as _};
use crate::capabilities::grant_capabilities;
use crate::launch::{
    DeviceSpec, HiddenPath, LaunchSpec, LogSpec, MountPropagation, PidNamespace, Resources, RootSpec,
    UserRequest, VolumeMount,
};
use crate::process_environment::compose_environment;
use crate::protocol::OwnUsers;
use crate::seccomp::{self, Filters, ProfileFacts};

/// Longest file that is read as a seccomp profile.
const MAX_PROFILE_BYTES: u64 = 1024 * 1024;

/// What surrounds a container to be composed.
pub(crate) struct Surroundings<'a> {
    pub(crate) sandbox: &'a PodSandboxConfig,
    pub(crate) sandbox_directory: &'a Path,
    /// Host name that containers see.
    pub(crate) hostname: &'a str,
    pub(crate) container_directory: &'a Path,
    pub(crate) cgroup: String,
    /// Capabilities that this process has.
    pub(crate) held_capabilities: u64,
    pub(crate) private_directories: &'a [PathBuf],
    /// Whether a container that names no seccomp profile gets the default one.
    pub(crate) seccomp_default: bool,
    pub(crate) log_max_bytes: u64,
    pub(crate) log_max_files: u32,
}

/// A launch specification, and what the machine could not give.
pub(crate) struct Composed {
    pub(crate) spec: LaunchSpec,
    pub(crate) lacking_capabilities: Vec<&'static str>,
}

/// Composes the launch specification of a container.
pub(crate) fn compose_launch(
    config: &ContainerConfig,
    image: &Image,
    surroundings: &Surroundings<'_>,
) -> Result<Composed, CallError> {
    let linux = config.linux.clone().unwrap_or_default();
    let security = linux.security_context.unwrap_or_default();
    let namespaces = security.namespace_options.clone().unwrap_or_default();
    if security.run_as_group.is_some()
        && security.run_as_user.is_none()
        && security.run_as_username.is_empty()
    {
        return Err(CallError::Invalid {
            field: "run_as_group",
            problem: "needs run_as_user or run_as_username beside it".to_owned(),
        });
    }
    let granted = grant_capabilities(
        security.capabilities.as_ref(),
        security.privileged,
        surroundings.held_capabilities,
    )?;
    let resources = linux.resources.unwrap_or_default();
    let privileged = security.privileged;
    let users = own_users(&namespaces)?;
    let nothing_hidden = privileged || (users.is_some() && security.masked_paths.is_empty());
    let (masked_paths, read_only_paths) = if nothing_hidden {
        (Vec::new(), Vec::new())
    } else {
        (
            or_default(&security.masked_paths, &MASKED_PATHS),
            or_default(&security.readonly_paths, &READ_ONLY_PATHS),
        )
    };
    let spec = LaunchSpec {
        args: command_line(config, image),
        environment: compose_environment(surroundings.hostname, config.tty, &image.config.env, &config.envs),
        working_directory: if config.working_dir.is_empty() {
            image.config.working_dir.clone()
        } else {
            config.working_dir.clone()
        },
        user: user_request(&security, image)?,
        capabilities: granted.bits,
        no_new_privileges: security.no_new_privs,
        filters: filters(&security, granted.bits.bounding, surroundings.seccomp_default)?,
        oom_score_adj: i32::try_from(resources.oom_score_adj.clamp(-1000, 1000)).expect("clamped"),
        terminal: config.tty,
        stdin: config.stdin,
        stdin_once: config.stdin_once,
        root: root(image, &security, surroundings),
        mounts: mounts(config, surroundings)?,
        masked_paths,
        read_only_paths,
        devices: devices(config)?,
        privileged,
        pid_namespace: pid_namespace(&namespaces, surroundings.sandbox)?,
        host_ipc: namespaces.ipc() == NamespaceMode::Node,
        first_user: users.map_or(0, |users| users.first),
        cgroup: surroundings.cgroup.clone(),
        resources: limits(&resources),
        log: log(config, surroundings),
    };
    Ok(Composed { spec, lacking_capabilities: granted.lacking })
}

/// What every container runtime hides unless it is told what to hide.
const MASKED_PATHS: [&str; 10] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/sys/firmware",
];

const READ_ONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// An empty list on the wire is the same as none: the kubelet leaves both lists out for an unmasked `/proc` only together
/// with `privileged` or user namespaces, so none means the defaults.
fn or_default(given: &[String], default: &[&str]) -> Vec<String> {
    if given.is_empty() { default.iter().map(|path| (*path).to_owned()).collect() } else { given.to_vec() }
}

/// `command` replaces the entrypoint and drops the image's arguments; `args` alone replaces the arguments.
fn command_line(config: &ContainerConfig, image: &Image) -> Vec<String> {
    let mut line =
        if config.command.is_empty() { image.config.entrypoint.clone() } else { config.command.clone() };
    if !config.args.is_empty() {
        line.extend(config.args.iter().cloned());
    } else if config.command.is_empty() {
        line.extend(image.config.cmd.iter().cloned());
    }
    line
}

fn id(field: &'static str, value: i64) -> Result<u32, CallError> {
    // The last number means "unchanged" to the kernel.
    u32::try_from(value).ok().filter(|id| *id != u32::MAX).ok_or_else(|| CallError::Invalid {
        field,
        problem: format!("{value} is out of range 0 to 4294967294"),
    })
}

fn user_request(security: &LinuxContainerSecurityContext, image: &Image) -> Result<UserRequest, CallError> {
    let uid = security.run_as_user.map(|value| id("run_as_user", value.value)).transpose()?;
    let gid = security.run_as_group.map(|value| id("run_as_group", value.value)).transpose()?;
    let supplemental_groups = security
        .supplemental_groups
        .iter()
        .map(|value| id("supplemental_groups", *value))
        .collect::<Result<_, _>>()?;
    Ok(UserRequest {
        uid,
        gid,
        name: Some(security.run_as_username.clone()).filter(|name| !name.is_empty()),
        image_user: image.config.user.clone(),
        supplemental_groups,
        merge_image_groups: security.supplemental_groups_policy() == SupplementalGroupsPolicy::Merge,
    })
}

fn filters(
    security: &LinuxContainerSecurityContext,
    bounding: u64,
    by_default: bool,
) -> Result<Filters, CallError> {
    if security.privileged {
        return Ok(Vec::new());
    }
    #[allow(deprecated, reason = "older kubelets and crictl still send the path form")]
    let old_form = security.seccomp_profile_path.as_str();
    let profile = match (&security.seccomp, old_form) {
        (Some(profile), _) => profile.clone(),
        (None, "") if by_default => SecurityProfile::default(),
        (None, "" | "unconfined") => return Ok(Vec::new()),
        (None, "runtime/default" | "docker/default") => SecurityProfile::default(),
        (None, path) => SecurityProfile {
            profile_type: ProfileType::Localhost.into(),
            localhost_ref: path.strip_prefix("localhost/").unwrap_or(path).to_owned(),
        },
    };
    match profile.profile_type() {
        ProfileType::RuntimeDefault => Ok(seccomp::default_filters(bounding).as_ref().clone()),
        ProfileType::Unconfined => Ok(Vec::new()),
        ProfileType::Localhost => {
            let path = PathBuf::from(&profile.localhost_ref);
            if !path.is_absolute() {
                return Err(CallError::Invalid {
                    field: "seccomp.localhost_ref",
                    problem: format!("{:?} is not an absolute path", profile.localhost_ref),
                });
            }
            let content = read_profile(&path).on_path("read the seccomp profile", &path)?;
            seccomp::file_filters(&content, ProfileFacts::of_this_machine(bounding))
                .map_err(|source| CallError::Seccomp { path, source })
        }
    }
}

fn read_profile(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut content = Vec::new();
    std::fs::File::open(path)?.take(MAX_PROFILE_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_PROFILE_BYTES {
        return Err(std::io::Error::from(std::io::ErrorKind::FileTooLarge));
    }
    Ok(content)
}

fn root(
    image: &Image,
    security: &LinuxContainerSecurityContext,
    surroundings: &Surroundings<'_>,
) -> RootSpec {
    let hidden = if image.is_host {
        images::host_masked_paths(surroundings.private_directories)
            .into_iter()
            .map(|masked| HiddenPath {
                path: masked.path,
                directory: masked.kind == MaskedPathKind::Directory,
            })
            .collect()
    } else {
        Vec::new()
    };
    RootSpec {
        layers: image.layers.clone(),
        host: image.is_host,
        directory: surroundings.container_directory.join("rootfs"),
        read_only: security.readonly_rootfs,
        hidden,
    }
}

fn mounts(config: &ContainerConfig, surroundings: &Surroundings<'_>) -> Result<Vec<VolumeMount>, CallError> {
    let mut mounts = Vec::new();
    for mount in &config.mounts {
        if mount.image.as_ref().is_some_and(|image| !image.image.is_empty()) {
            return Err(CallError::Unsupported("mounting an image as a volume"));
        }
        if !mount.container_path.starts_with('/') {
            return Err(CallError::Invalid {
                field: "mounts.container_path",
                problem: format!("{:?} is not an absolute path", mount.container_path),
            });
        }
        mounts.push(VolumeMount {
            source: PathBuf::from(&mount.host_path),
            destination: mount.container_path.clone(),
            read_only: mount.readonly,
            recursive_read_only: mount.recursive_read_only,
            propagation: match mount.propagation() {
                cri::v1::MountPropagation::PropagationPrivate => MountPropagation::Private,
                cri::v1::MountPropagation::PropagationHostToContainer => MountPropagation::HostToContainer,
                cri::v1::MountPropagation::PropagationBidirectional => MountPropagation::Bidirectional,
            },
        });
    }
    // Files that every pod has, unless it brings its own.
    for name in ["hostname", "hosts", "resolv.conf"] {
        let destination = format!("/etc/{name}");
        let own = mounts.iter().any(|mount| mount.destination.trim_end_matches('/') == destination);
        let source = surroundings.sandbox_directory.join(name);
        if !own && source.exists() {
            mounts.push(VolumeMount {
                source,
                destination,
                read_only: false,
                recursive_read_only: false,
                propagation: MountPropagation::Private,
            });
        }
    }
    Ok(mounts)
}

fn devices(config: &ContainerConfig) -> Result<Vec<DeviceSpec>, CallError> {
    if !config.cdi_devices.is_empty() {
        return Err(CallError::Unsupported("CDI devices"));
    }
    Ok(config
        .devices
        .iter()
        .map(|device| DeviceSpec {
            source: PathBuf::from(&device.host_path),
            destination: device.container_path.clone(),
            access: if device.permissions.is_empty() { "rwm".to_owned() } else { device.permissions.clone() },
        })
        .collect())
}

/// A container that says nothing shares the processes of its sandbox where that has any to share.
fn pid_namespace(
    options: &cri::v1::NamespaceOption,
    sandbox: &PodSandboxConfig,
) -> Result<PidNamespace, CallError> {
    Ok(match options.pid() {
        NamespaceMode::Container => PidNamespace::Own,
        NamespaceMode::Pod if !shares_processes(sandbox) => PidNamespace::Own,
        NamespaceMode::Pod => PidNamespace::Pod,
        NamespaceMode::Node => PidNamespace::Node,
        NamespaceMode::Target if options.target_id.is_empty() => {
            return Err(CallError::Missing { field: "namespace_options.target_id" });
        }
        NamespaceMode::Target => PidNamespace::Container(options.target_id.clone()),
    })
}

/// The numbers of users that a pod has to itself; none where it shares those of the node.
pub(crate) fn own_users(options: &cri::v1::NamespaceOption) -> Result<Option<OwnUsers>, CallError> {
    let Some(users) = options.userns_options.as_ref().filter(|users| users.mode() == NamespaceMode::Pod)
    else {
        return Ok(None);
    };
    let invalid = |problem: &str| CallError::Invalid {
        field: "namespace_options.userns_options",
        problem: problem.to_owned(),
    };
    let ([uids], [gids]) = (users.uids.as_slice(), users.gids.as_slice()) else {
        return Err(invalid("needs one range of users and one of groups"));
    };
    if uids != gids {
        return Err(invalid("users and groups must have the same range"));
    }
    if uids.container_id != 0 || uids.length == 0 || uids.host_id == 0 {
        return Err(invalid("must map a range that begins with 0 to one that does not"));
    }
    if uids.host_id.checked_add(uids.length).is_none() {
        return Err(invalid("the range ends beyond the largest number"));
    }
    Ok(Some(OwnUsers { first: uids.host_id, count: uids.length }))
}

/// Whether a pod's containers are to share one process namespace. A sandbox that says nothing has the interface's default,
/// which is to share.
pub(crate) fn shares_processes(sandbox: &PodSandboxConfig) -> bool {
    crate::sandbox::namespace_options(sandbox).pid() == NamespaceMode::Pod
}

/// Limits as the protocol has them: zero and empty mean unlimited.
pub(crate) fn limits(resources: &LinuxContainerResources) -> Resources {
    let unsigned = |value: i64| u64::try_from(value).ok().filter(|value| *value != 0);
    let signed = |value: i64| Some(value).filter(|value| *value != 0);
    let text = |value: &String| Some(value.clone()).filter(|value| !value.is_empty());
    Resources {
        cpu_period: unsigned(resources.cpu_period),
        cpu_quota: signed(resources.cpu_quota),
        cpu_shares: unsigned(resources.cpu_shares),
        memory_limit: signed(resources.memory_limit_in_bytes),
        memory_swap_limit: signed(resources.memory_swap_limit_in_bytes),
        cpuset_cpus: text(&resources.cpuset_cpus),
        cpuset_mems: text(&resources.cpuset_mems),
        huge_pages: resources
            .hugepage_limits
            .iter()
            .map(|limit| (limit.page_size.clone(), limit.limit))
            .collect(),
        unified: resources.unified.clone(),
        pids: None,
    }
}

/// The whole path of the log; none when pod or container name none.
pub(crate) fn log_path(sandbox: &PodSandboxConfig, config: &ContainerConfig) -> Option<PathBuf> {
    if sandbox.log_directory.is_empty() || config.log_path.is_empty() {
        return None;
    }
    Some(Path::new(&sandbox.log_directory).join(&config.log_path))
}

fn log(config: &ContainerConfig, surroundings: &Surroundings<'_>) -> Option<LogSpec> {
    log_path(surroundings.sandbox, config).map(|path| LogSpec {
        path,
        max_bytes: surroundings.log_max_bytes,
        max_files: surroundings.log_max_files,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(entrypoint: &[&str], cmd: &[&str]) -> Image {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Image {
            id: images::Digest::of(b"test"),
            references: Vec::new(),
            repo_digests: Vec::new(),
            config: images::ImageConfig { entrypoint: own(entrypoint), cmd: own(cmd), ..Default::default() },
            architecture: String::new(),
            layers: vec!["/layer".into()],
            size: 0,
            is_host: false,
        }
    }

    #[test]
    fn command_and_args_replace_what_the_image_says() {
        let rows: [(&[&str], &[&str], &[&str]); 4] = [
            (&[], &[], &["entry", "cmd"]),
            (&["own"], &[], &["own"]),
            (&[], &["arg"], &["entry", "arg"]),
            (&["own"], &["arg"], &["own", "arg"]),
        ];
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        for (command, args, expected) in rows {
            let config = ContainerConfig { command: own(command), args: own(args), ..Default::default() };
            assert_eq!(command_line(&config, &image(&["entry"], &["cmd"])), own(expected));
        }
    }

    #[test]
    fn user_numbers_that_mean_something_else_to_the_kernel_are_refused() {
        for (value, good) in
            [(0, true), (4_294_967_294, true), (4_294_967_295, false), (-1, false), (1 << 32, false)]
        {
            assert_eq!(id("run_as_user", value).is_ok(), good, "{value}");
        }
    }

    #[test]
    fn a_pods_own_users_are_one_range_that_is_nobody_elses() {
        use cri::v1::{IdMapping, NamespaceOption, UserNamespace};
        let range = |container_id, host_id, length| IdMapping { host_id, container_id, length };
        let asked = |uids: Vec<IdMapping>, gids: Vec<IdMapping>| {
            let users = UserNamespace { mode: NamespaceMode::Pod.into(), uids, gids };
            own_users(&NamespaceOption { userns_options: Some(users), ..Default::default() })
        };
        assert_eq!(own_users(&NamespaceOption::default()).unwrap(), None);
        let good = range(0, 65_536, 65_536);
        assert_eq!(asked(vec![good], vec![good]).unwrap(), Some(OwnUsers { first: 65_536, count: 65_536 }));
        let bad = [range(1, 65_536, 10), range(0, 0, 10), range(0, 65_536, 0), range(0, u32::MAX, 10)];
        for mapping in bad {
            assert!(asked(vec![mapping], vec![mapping]).is_err(), "{mapping:?}");
        }
        assert!(asked(vec![good], vec![range(0, 1, 1)]).is_err());
        assert!(asked(Vec::new(), Vec::new()).is_err());
    }

    #[test]
    fn zero_means_no_limit() {
        assert_eq!(limits(&LinuxContainerResources::default()), Resources::default());
        let some = LinuxContainerResources { cpu_quota: -1, memory_limit_in_bytes: 7, ..Default::default() };
        assert_eq!((limits(&some).cpu_quota, limits(&some).memory_limit), (Some(-1), Some(7)));
    }
}
