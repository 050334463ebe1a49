//! What exists on the machine that a test could have left behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use network::NodeIdentity;

/// Processes of ours, mounts, control groups, network namespaces, interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inventory {
    items: BTreeSet<String>,
}

impl Inventory {
    pub(crate) fn take() -> Self {
        let mut items = BTreeSet::new();
        let own = std::process::id().to_string();
        let directories = crate::node::directories();
        let is_ours = |text: &str| directories.iter().any(|ours| text.contains(&*ours.to_string_lossy()));
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
            if is_ours(&text) || parent == own {
                items.insert(format!("process {name} {text}"));
            }
        }
        for line in fs::read_to_string("/proc/self/mountinfo").unwrap().lines() {
            let path = line.split(' ').nth(4).unwrap_or_default();
            if is_ours(path) {
                items.insert(format!("mount {path}"));
            }
        }
        let names: Vec<String> = directories
            .iter()
            .filter_map(|directory| crate::node::config(directory).cgroup_root)
            .map(|path| path.trim_start_matches('/').to_owned())
            .collect();
        collect_groups(Path::new("/sys/fs/cgroup"), 0, &names, &mut items);
        let prefixes: Vec<String> = directories
            .iter()
            .map(|directory| NodeIdentity::of_data_dir(&directory.join("runtime")).interface_prefix())
            .collect();
        for entry in fs::read_dir("/sys/class/net").unwrap().filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                items.insert(format!("interface {name}"));
            }
        }
        for line in fs::read_to_string("/proc/net/route").unwrap_or_default().lines() {
            let interface = line.split('\t').next().unwrap_or_default();
            if prefixes.iter().any(|prefix| interface.starts_with(prefix)) {
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

fn collect_groups(directory: &Path, depth: usize, names: &[String], items: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.filter_map(Result::ok) {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        if names.contains(&name) {
            items.insert(format!("control group {}", entry.path().display()));
        }
        if depth < 2 {
            collect_groups(&entry.path(), depth + 1, names, items);
        }
    }
}
