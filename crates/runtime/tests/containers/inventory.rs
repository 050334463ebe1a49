//! What exists on the machine that a test could have left behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Processes of ours, mounts, control groups, network namespaces, interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inventory {
    items: BTreeSet<String>,
}

impl Inventory {
    pub(crate) fn take() -> Self {
        let mut items = BTreeSet::new();
        let own = std::process::id().to_string();
        for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.bytes().all(|byte| byte.is_ascii_digit()) || name == own {
                continue;
            }
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let state = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            let parent =
                state.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).unwrap_or_default();
            let text = String::from_utf8_lossy(&arguments).replace('\0', " ");
            if text.starts_with("coracle shim ") || text.starts_with("test-daemon ") || parent == own {
                items.insert(format!("process {name} {text}"));
            }
        }
        for line in fs::read_to_string("/proc/self/mountinfo").unwrap().lines() {
            let path = line.split(' ').nth(4).unwrap_or_default();
            if path.contains("/sandboxes/") || path.contains(crate::node::DATA_PREFIX) {
                items.insert(format!("mount {path}"));
            }
        }
        collect_groups(Path::new("/sys/fs/cgroup"), 0, &mut items);
        for entry in fs::read_dir("/sys/class/net").unwrap().filter_map(Result::ok) {
            items.insert(format!("interface {}", entry.file_name().to_string_lossy()));
        }
        for line in fs::read_to_string("/proc/net/route").unwrap_or_default().lines() {
            let interface = line.split('\t').next().unwrap_or_default();
            if interface.starts_with("co") {
                items.insert(format!("route over {interface}"));
            }
        }
        Self { items }
    }

    /// What is there that was not before; given a moment to vanish, since the kernel takes namespaces apart later.
    pub(crate) fn more_than(self, before: &Self) -> Vec<String> {
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut now = self;
        loop {
            let more: Vec<String> = now.items.difference(&before.items).cloned().collect();
            if more.is_empty() || Instant::now() > deadline {
                return more;
            }
            std::thread::yield_now();
            now = Self::take();
        }
    }
}

fn collect_groups(directory: &Path, depth: usize, items: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.filter_map(Result::ok) {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(crate::node::CGROUP_PREFIX) {
            items.insert(format!("control group {}", entry.path().display()));
        }
        if depth < 2 {
            collect_groups(&entry.path(), depth + 1, items);
        }
    }
}
