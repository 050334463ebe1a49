//! Control groups: where they are mounted, making one, its limits, its processes, its end.
//!
//! Version 1, version 2 and both together look the same from outside. What the machine lacks becomes a
//! [`CgroupWarning`]; a container without a limit runs, a container that cannot be listed does too.

mod devices;
mod layout;
mod limits;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::launch::{DeviceSpec, Resources};

pub(crate) use layout::CgroupLayout;

/// Something that a control group could not be told.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(crate) enum CgroupWarning {
    /// The limit does not hold: its controller is not there.
    #[error("the machine has no {controller} controller: {limit} is not enforced")]
    NoController { controller: &'static str, limit: String },
    /// The kernel refused the value.
    #[error("{limit} is not enforced: {error}")]
    Refused { limit: String, error: String },
    /// There are no control groups at all.
    #[error("the machine has no control groups: nothing is limited")]
    NoCgroups,
    /// The directory could not be made.
    #[error("cannot make the control group {path}: {error}")]
    CannotMake { path: String, error: String },
}

/// Lets the kernel do early what makes the first move of a process between groups slow.
///
/// Such a move waits until every processor has passed a quiet state (8 to 16 ms were measured), unless another move was
/// made within the last 10 ms or so. Moving this process to the group where it is already changes nothing but that, so
/// whoever is about to start a container has it done beside the other preparations. What is refused is not needed.
pub(crate) fn anticipate_moves(layout: &CgroupLayout) {
    let Some(mount) = layout.mount_of(ANTICIPATED) else { return };
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let is_version2 = matches!(layout, CgroupLayout::Version2 { .. });
    if let Some(path) = own_group(&groups, if is_version2 { "" } else { ANTICIPATED }) {
        let processes = mount.join(path.trim_start_matches('/')).join("cgroup.procs");
        let _ = fs::write(processes, std::process::id().to_string());
    }
}

/// A controller that every machine with limits has. The wait is the same for all of them.
const ANTICIPATED: &str = "pids";

/// The group of a process in the hierarchy of a controller, from the text of its `/proc/PID/cgroup`.
fn own_group<'g>(groups: &'g str, controller: &str) -> Option<&'g str> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        controllers.split(',').any(|one| one == controller).then_some(())?;
        // A group outside of what this process may see is written with `..`.
        parts.next().filter(|path| !path.contains("/.."))
    })
}

/// Whether a process with this text in its `/proc/PID/cgroup` is in the group of a path, or in one below. What lies above the
/// mount of a hierarchy may stand before the path; the names of our groups are unique.
fn is_in(groups: &str, path: &str) -> bool {
    groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).any(|group| {
        group.match_indices(path).any(|(at, _)| {
            let rest = &group[at + path.len()..];
            rest.is_empty() || rest.starts_with('/')
        })
    })
}

/// One control group: the same relative path below every hierarchy that matters.
#[derive(Debug, Clone)]
pub(crate) struct Cgroup {
    layout: CgroupLayout,
    /// Starts with a slash.
    path: String,
}

impl Cgroup {
    /// The group at `path`, whether or not it exists. Components `.` and `..` are dropped.
    pub(crate) fn at(layout: CgroupLayout, path: &str) -> Self {
        let clean: Vec<&str> =
            path.split('/').filter(|part| !part.is_empty() && *part != "." && *part != "..").collect();
        Self { layout, path: format!("/{}", clean.join("/")) }
    }

    /// The path below each hierarchy.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The group's directory of one version 1 controller, or of the one version 2 hierarchy.
    pub(crate) fn directory(&self, controller: &str) -> Option<PathBuf> {
        self.layout.mount_of(controller).map(|mount| self.below(mount))
    }

    fn below(&self, mount: &Path) -> PathBuf {
        mount.join(self.path.trim_start_matches('/'))
    }

    fn directories(&self) -> BTreeSet<PathBuf> {
        self.layout.mounts().into_iter().map(|mount| self.below(mount)).collect()
    }

    /// Makes the group in every hierarchy, with all controllers available to it.
    pub(crate) fn create(&self) -> Vec<CgroupWarning> {
        let mut warnings = Vec::new();
        match &self.layout {
            CgroupLayout::Missing => warnings.push(CgroupWarning::NoCgroups),
            CgroupLayout::Version2 { mount } => {
                let mut directory = mount.clone();
                for part in self.path.split('/').filter(|part| !part.is_empty()) {
                    enable_controllers(&directory);
                    directory.push(part);
                    if let Err(error) = make_directory(&directory) {
                        warnings.push(CgroupWarning::CannotMake {
                            path: directory.display().to_string(),
                            error: error.to_string(),
                        });
                        break;
                    }
                }
            }
            CgroupLayout::Version1 { .. } => {
                for mount in self.layout.mounts() {
                    let mut directory = mount.to_owned();
                    for part in self.path.split('/').filter(|part| !part.is_empty()) {
                        let parent = directory.clone();
                        directory.push(part);
                        if let Err(error) = make_directory(&directory) {
                            warnings.push(CgroupWarning::CannotMake {
                                path: directory.display().to_string(),
                                error: error.to_string(),
                            });
                            break;
                        }
                        inherit_cpuset(&parent, &directory);
                    }
                }
            }
        }
        warnings
    }

    /// Sets the limits that are present.
    pub(crate) fn limit(&self, resources: &Resources) -> Vec<CgroupWarning> {
        let mut warnings = Vec::new();
        for setting in limits::settings(&self.layout, resources) {
            let Some(directory) = self.directory(setting.controller) else {
                if self.layout != CgroupLayout::Missing {
                    warnings.push(CgroupWarning::NoController {
                        controller: setting.controller,
                        limit: setting.described(),
                    });
                }
                continue;
            };
            if let Err(error) = fs::write(directory.join(&setting.file), &setting.value)
                && !setting.optional
            {
                warnings
                    .push(CgroupWarning::Refused { limit: setting.described(), error: error.to_string() });
            }
        }
        warnings
    }

    /// Lets the group use the devices that every container has, and those given; or all.
    pub(crate) fn limit_devices(&self, devices: &[DeviceSpec], privileged: bool) -> Vec<CgroupWarning> {
        let refused = |error: String| {
            vec![CgroupWarning::Refused { limit: "the list of allowed devices".to_owned(), error }]
        };
        match &self.layout {
            CgroupLayout::Missing => Vec::new(),
            CgroupLayout::Version2 { mount } => {
                if privileged {
                    return Vec::new();
                }
                let directory = match fs::File::open(self.below(mount)) {
                    Ok(directory) => directory,
                    Err(error) => return refused(error.to_string()),
                };
                match sys::attach_device_filter(directory.as_fd(), &devices::rules(devices)) {
                    Ok(()) => Vec::new(),
                    Err(error) => refused(error.to_string()),
                }
            }
            CgroupLayout::Version1 { .. } => {
                let Some(directory) = self.directory("devices") else {
                    return vec![CgroupWarning::NoController {
                        controller: "devices",
                        limit: "the list of allowed devices".to_owned(),
                    }];
                };
                if privileged {
                    return match fs::write(directory.join("devices.allow"), "a") {
                        Ok(()) => Vec::new(),
                        Err(error) => refused(error.to_string()),
                    };
                }
                let applied = fs::write(directory.join("devices.deny"), "a").and_then(|()| {
                    devices::rules(devices).iter().try_for_each(|rule| {
                        fs::write(directory.join("devices.allow"), devices::written(rule))
                    })
                });
                match applied {
                    Ok(()) => Vec::new(),
                    Err(error) => refused(error.to_string()),
                }
            }
        }
    }

    /// Moves the calling process into the group.
    ///
    /// # Errors
    ///
    /// When a hierarchy refuses: a process outside its group would have no limits at all.
    pub(crate) fn join(&self) -> io::Result<()> {
        for directory in self.directories() {
            match fs::write(directory.join("cgroup.procs"), "0") {
                Ok(()) => {}
                // A hierarchy whose directory could not be made was reported when it was made.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether any hierarchy has the group.
    pub(crate) fn exists(&self) -> bool {
        self.directories().iter().any(|directory| directory.exists())
    }

    /// Whether the path is that of a hierarchy's root: of the whole machine, which is nobody's to end.
    fn is_root(&self) -> bool {
        self.path == "/"
    }

    /// Kills every process of the group and of the groups below it.
    pub(crate) fn kill(&self) {
        if self.is_root() {
            return;
        }
        if let CgroupLayout::Version2 { mount } = &self.layout
            && fs::write(self.below(mount).join("cgroup.kill"), "1").is_ok()
        {
            return;
        }
        // Frozen, a process that forks as fast as we kill cannot get away. The freezer itself may lack.
        let freezer = self.directory("freezer").map(|directory| directory.join("freezer.state"));
        if let Some(state) = &freezer {
            let _ = fs::write(state, "FROZEN");
        }
        for _ in 0..16 {
            let processes = self.processes();
            if processes.is_empty() {
                break;
            }
            for process in processes {
                self.kill_member(process);
            }
            if freezer.is_some() {
                break;
            }
        }
        if let Some(state) = &freezer {
            let _ = fs::write(state, "THAWED");
        }
    }

    /// Kills a process that was of the group a moment ago, if it still is. Thousands that die at once free their numbers
    /// faster than they are read: by then a number may be that of another pod's shim.
    fn kill_member(&self, process: i32) {
        // The descriptor stands for one process, whoever gets its number later.
        let pidfd = Pid::from_raw(process).map(|process| pidfd_open(process, PidfdFlags::empty()));
        let Some(Ok(pidfd)) = pidfd else { return };
        let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
        if is_in(&groups, &self.path) {
            // Gone already is as good as killed.
            let _ = pidfd_send_signal(&pidfd, Signal::KILL);
        }
    }

    /// The processes of the group and of those below, as this process' namespace counts them; each once, although every
    /// hierarchy names it.
    pub(crate) fn processes(&self) -> BTreeSet<i32> {
        let mut found = BTreeSet::new();
        for directory in self.directories() {
            let mut open = vec![directory];
            while let Some(directory) = open.pop() {
                if let Ok(list) = fs::read_to_string(directory.join("cgroup.procs")) {
                    found.extend(list.lines().filter_map(|line| line.trim().parse::<i32>().ok()));
                }
                open.extend(child_directories(&directory));
            }
        }
        found
    }

    /// How often the kernel killed a process of the group for want of memory.
    pub(crate) fn out_of_memory_kills(&self) -> u64 {
        let (file, word) = match &self.layout {
            CgroupLayout::Missing => return 0,
            CgroupLayout::Version1 { .. } => ("memory.oom_control", "oom_kill"),
            CgroupLayout::Version2 { .. } => ("memory.events", "oom_kill"),
        };
        let Some(directory) = self.directory("memory") else { return 0 };
        let text = fs::read_to_string(directory.join(file)).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(name, _)| *name == word)
            .and_then(|(_, count)| count.trim().parse().ok())
            .unwrap_or(0)
    }

    /// Removes the group and those below it. False when processes are still in it.
    pub(crate) fn remove(&self) -> bool {
        if self.is_root() {
            return true;
        }
        // Every hierarchy, also after one that refused.
        self.directories().iter().filter(|directory| !remove_tree(directory)).count() == 0
    }

    /// Removes the group's parents, as long as they are empty, up to (not including) the hierarchy's root.
    pub(crate) fn remove_empty_parents(&self) {
        let mut path = self.path.as_str();
        while let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty()) {
            path = parent;
            for mount in self.layout.mounts() {
                // Not empty is the usual answer: others are in there.
                let _ = fs::remove_dir(mount.join(path.trim_start_matches('/')));
            }
        }
    }
}

fn make_directory(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

/// A new version 1 cpuset is empty, and no process may enter it: it takes over what its parent has.
fn inherit_cpuset(parent: &Path, directory: &Path) {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let Ok(current) = fs::read_to_string(directory.join(file)) else { return };
        if current.trim().is_empty()
            && let Ok(inherited) = fs::read_to_string(parent.join(file))
        {
            let _ = fs::write(directory.join(file), inherited.trim());
        }
    }
}

/// Children of a version 2 group get every controller that it has. One at a time: one refusal must not cost the others.
fn enable_controllers(directory: &Path) {
    let available = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
    let enabled = fs::read_to_string(directory.join("cgroup.subtree_control")).unwrap_or_default();
    let enabled: BTreeSet<&str> = enabled.split_whitespace().collect();
    for controller in available.split_whitespace().filter(|controller| !enabled.contains(controller)) {
        let _ = fs::write(directory.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

fn child_directories(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove_tree(directory: &Path) -> bool {
    match fs::remove_dir(directory) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(_) => {
            for child in child_directories(directory) {
                remove_tree(&child);
            }
            match fs::remove_dir(directory) {
                Ok(()) => true,
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where nothing freezes a group while it is killed, a number that was read may be somebody else's by the time of the signal.
    #[test]
    fn only_a_process_that_is_still_in_the_group_is_killed() {
        let path = "/coracle/pod/container";
        for (groups, expected) in [
            ("8:pids:/coracle/pod/container\n", true),
            ("9:memory:/\n8:pids:/docker/x/coracle/pod/container/below\n", true),
            ("8:pids:/coracle/pod/container2\n0::/\n", false),
            ("8:pids:/coracle/pod\n", false),
            ("8:pids:/\n", false),
            ("", false),
        ] {
            assert_eq!(is_in(groups, path), expected, "{groups:?}");
        }
    }

    #[test]
    fn the_group_of_a_process_is_found_by_its_controller() {
        let groups = "8:pids:/a\n4:cpu,cpuacct:/b:c\n1:name=systemd:/\n0::/d\n9:memory:/../x\n";
        assert_eq!(own_group(groups, "pids"), Some("/a"));
        assert_eq!(own_group(groups, "cpuacct"), Some("/b:c"));
        assert_eq!(own_group(groups, ""), Some("/d"));
        assert_eq!(own_group(groups, "memory"), None, "outside of what this process may see");
        assert_eq!(own_group(groups, "blkio"), None);
    }

    #[test]
    fn a_path_cannot_climb() {
        let path = |text| Cgroup::at(CgroupLayout::Missing, text).path().to_owned();
        assert_eq!(path("a//b/"), "/a/b");
        assert_eq!(path("/../../etc/./x"), "/etc/x");
        assert_eq!(path(""), "/");
        assert!(Cgroup::at(CgroupLayout::Missing, "/..//").is_root(), "never killed, never removed");
        assert!(!Cgroup::at(CgroupLayout::Missing, "/coracle-1").is_root());
    }

    #[test]
    fn a_machine_without_control_groups_warns_once_and_goes_on() {
        let group = Cgroup::at(CgroupLayout::Missing, "/pod/container");
        assert_eq!(group.create(), vec![CgroupWarning::NoCgroups]);
        assert!(group.limit(&Resources { memory_limit: Some(1 << 20), ..Default::default() }).is_empty());
        assert!(group.limit_devices(&[], false).is_empty());
        group.join().unwrap();
        group.kill();
        assert!(group.processes().is_empty());
        assert!(group.remove());
    }
}
