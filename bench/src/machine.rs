//! What a process and this machine hold, read from `/proc` and `/sys`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::Outcome;

/// KiB of a row of the memory summary of a process, such as `Pss:` or `Private_Dirty:`.
///
/// # Errors
///
/// When the process is gone or the kernel has no such row.
pub fn memory(pid: u32, row: &str) -> Outcome<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find(|line| line.starts_with(row)).ok_or("no such row")?;
    Ok(line.split_whitespace().nth(1).ok_or("no value")?.parse()?)
}

/// KiB of resident memory of a process.
///
/// # Errors
///
/// As [`memory`].
pub fn resident(pid: u32) -> Outcome<u64> {
    memory(pid, "Rss:")
}

/// The processes in whose command line all of these texts stand.
pub fn processes<'t>(texts: &'t [&'t str]) -> impl Iterator<Item = u32> + 't {
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command);
        texts.iter().all(|text| command.contains(text)).then_some(pid)
    })
}

/// How many network namespaces have a process in them.
#[must_use]
pub fn network_namespaces() -> u64 {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let found: BTreeSet<PathBuf> =
        entries.filter_map(|entry| std::fs::read_link(entry.path().join("ns/net")).ok()).collect();
    found.len() as u64
}

/// How many entries a directory has; none when it is not there.
#[must_use]
pub fn entries(dir: &Path) -> u64 {
    std::fs::read_dir(dir).map_or(0, |entries| entries.count() as u64)
}

/// Control groups of Coracle nodes.
#[must_use]
pub fn control_groups() -> u64 {
    groups(Path::new("/sys/fs/cgroup"))
}

fn groups(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| groups(&entry.path()) + u64::from(entry.path().to_string_lossy().contains("coracle-")))
        .sum()
}
