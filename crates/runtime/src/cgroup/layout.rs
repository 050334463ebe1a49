//! Where the control group hierarchies of this machine are mounted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The hierarchies of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CgroupLayout {
    /// None.
    Missing,
    /// One hierarchy for each controller (or few); a version 2 hierarchy beside them has no controllers.
    Version1 {
        /// By controller. A hierarchy for names only, such as systemd's, is under `name=...`.
        mounts: BTreeMap<String, PathBuf>,
    },
    /// One hierarchy for all.
    Version2 {
        /// Its root.
        mount: PathBuf,
    },
}

/// Controllers that containers of Kubernetes are limited by.
const KNOWN: [&str; 10] =
    ["blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "net_cls", "pids"];

impl CgroupLayout {
    /// Reads the mount table of this process: once, for it grows with every pod of the node, and hierarchies stay where they
    /// are. A forked process knows what its parent knew.
    pub(crate) fn detect() -> Self {
        static DETECTED: OnceLock<CgroupLayout> = OnceLock::new();
        let read = || {
            let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            Self::from_mount_table(&table)
        };
        DETECTED.get_or_init(read).clone()
    }

    fn from_mount_table(table: &str) -> Self {
        let mut version1 = BTreeMap::new();
        let mut version2 = None;
        for line in table.lines() {
            let Some((mount, filesystem)) = line.split_once(" - ") else { continue };
            let Some(mount_point) = mount.split(' ').nth(4) else { continue };
            let mut filesystem = filesystem.split(' ');
            let kind = filesystem.next();
            let options = filesystem.nth(1).unwrap_or_default();
            match kind {
                Some("cgroup") => {
                    for option in options.split(',') {
                        if KNOWN.contains(&option) || option.starts_with("name=") {
                            version1.entry(option.to_owned()).or_insert_with(|| PathBuf::from(mount_point));
                        }
                    }
                }
                Some("cgroup2") if version2.is_none() => version2 = Some(PathBuf::from(mount_point)),
                _ => {}
            }
        }
        let limits_in_version1 = KNOWN.iter().any(|controller| version1.contains_key(*controller));
        match version2 {
            Some(mount) if !limits_in_version1 => Self::Version2 { mount },
            _ if !version1.is_empty() => Self::Version1 { mounts: version1 },
            _ => Self::Missing,
        }
    }

    /// The root of the hierarchy that has `controller`; in version 2 the one hierarchy, whatever it has.
    pub(crate) fn mount_of(&self, controller: &str) -> Option<&Path> {
        match self {
            Self::Missing => None,
            Self::Version1 { mounts } => mounts.get(controller).map(PathBuf::as_path),
            Self::Version2 { mount } => Some(mount),
        }
    }

    /// The roots of all hierarchies; one mounted for several controllers appears once.
    pub(crate) fn mounts(&self) -> Vec<&Path> {
        let mut mounts: Vec<&Path> = match self {
            Self::Missing => Vec::new(),
            Self::Version1 { mounts } => mounts.values().map(PathBuf::as_path).collect(),
            Self::Version2 { mount } => vec![mount],
        };
        mounts.sort_unstable();
        mounts.dedup();
        mounts
    }

    /// Version 1 hierarchies by the name of their directory, for showing them inside a container.
    pub(crate) fn version1_mounts(&self) -> BTreeMap<&str, &Path> {
        match self {
            Self::Missing | Self::Version2 { .. } => BTreeMap::new(),
            Self::Version1 { mounts } => {
                mounts.iter().map(|(controllers, mount)| (controllers.as_str(), mount.as_path())).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TMPFS: &str = "30 1 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n";
    const MEMORY: &str =
        "31 30 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n";
    const CPU: &str = "32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
    const NAMED: &str = "33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";

    fn unified(at: &str) -> String {
        format!("34 30 0:30 / {at} rw - cgroup2 cgroup2 rw\n")
    }

    #[test]
    fn every_kind_of_machine_is_recognised() {
        assert_eq!(CgroupLayout::from_mount_table(TMPFS), CgroupLayout::Missing);
        assert_eq!(
            CgroupLayout::from_mount_table(&unified("/sys/fs/cgroup")),
            CgroupLayout::Version2 { mount: "/sys/fs/cgroup".into() }
        );
        let hybrid = CgroupLayout::from_mount_table(&format!(
            "{TMPFS}{MEMORY}{CPU}{NAMED}{}",
            unified("/sys/fs/cgroup/unified")
        ));
        assert_eq!(hybrid.mount_of("cpuacct"), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct")));
        assert_eq!(hybrid.mount_of("pids"), None);
        assert_eq!(hybrid.mounts().len(), 3);
        // systemd's hybrid form: names in version 1, all controllers in version 2.
        let names_only = CgroupLayout::from_mount_table(&format!("{NAMED}{}", unified("/sys/fs/cgroup")));
        assert_eq!(names_only, CgroupLayout::Version2 { mount: "/sys/fs/cgroup".into() });
    }
}
