//! What a process and this machine hold, read from `/proc` and `/sys`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// Control groups in whose path this name stands.
#[must_use]
pub fn control_groups(name: &str) -> u64 {
    groups(Path::new("/sys/fs/cgroup"), name)
}

fn groups(dir: &Path, name: &str) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| groups(&entry.path(), name) + u64::from(entry.path().to_string_lossy().contains(name)))
        .sum()
}

/// Network interfaces whose names begin so.
#[must_use]
pub fn interfaces(beginning: &str) -> u64 {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(beginning)).count() as u64
}

/// Milliseconds of processor time of a process and of its children that have ended: user and system of each.
///
/// # Errors
///
/// When the process is gone.
pub fn processor_time(pid: u32) -> Outcome<[u64; 4]> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields = text.rsplit(')').next().ok_or("no fields")?.split_whitespace();
    // Hundredths of a second, on every machine of today.
    let times: Vec<u64> =
        fields.skip(11).take(4).filter_map(|field| field.parse().ok()).map(|ticks: u64| ticks * 10).collect();
    times.try_into().map_err(|_| "no times".into())
}

/// Keeps the calling thread, and those that it starts, on one of the processors that it may have. Two places are two
/// processors, where there are as many.
///
/// # Errors
///
/// When the kernel refuses.
pub fn stay_on_processor(place: usize) -> Outcome<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let usable = sched_getaffinity(None)?;
    let usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|processor| usable.is_set(*processor)).collect();
    let mut one = CpuSet::new();
    one.set(*usable.get(place % usable.len().max(1)).ok_or("there is no processor")?);
    Ok(sched_setaffinity(None, &one)?)
}

/// Processor time of a thread of this process, where the kernel counts it.
#[must_use]
pub fn thread_time(thread: i32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    Some(Duration::from_nanos(text.split_whitespace().next()?.parse().ok()?))
}
