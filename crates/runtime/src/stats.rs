//! Figures of a container or a pod: processor time, memory, processes, the writable layer, the network.
//!
//! Control groups of version 1, version 2 and both together give the same figures; what a machine does not count is absent.
//! Parsing is pure; the readers below it only open files. Rates are left to the kubelet, which has the earlier sample.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use cri::v1;

/// What a control group has used. Bytes, nanoseconds and counts since the group was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GroupUsage {
    /// Processor time, summed over processors.
    pub(crate) cpu_nanoseconds: Option<u64>,
    pub(crate) memory: Option<MemoryFigures>,
    pub(crate) swap: Option<SwapFigures>,
    pub(crate) processes: Option<u64>,
}

/// Memory of a control group, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MemoryFigures {
    pub(crate) usage: u64,
    /// What cannot be given back at once: usage without file pages that are not in use.
    pub(crate) working_set: u64,
    /// What the group may still take; absent without a limit.
    pub(crate) available: Option<u64>,
    /// Memory of the processes themselves, without file pages.
    pub(crate) resident: Option<u64>,
    pub(crate) page_faults: Option<u64>,
    pub(crate) major_page_faults: Option<u64>,
}

/// Swap of a control group, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SwapFigures {
    pub(crate) usage: u64,
    /// Absent without a limit.
    pub(crate) available: Option<u64>,
}

/// What a directory tree takes on the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TreeUsage {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

/// Counters of one network link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LinkFigures {
    pub(crate) name: String,
    pub(crate) received_bytes: u64,
    pub(crate) receive_errors: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) send_errors: u64,
}

/// Version 1 writes "no limit" as the largest number of whole pages.
const NO_LIMIT: u64 = 0x7fff_ffff_ffff_0000;

/// A limit as either version writes it; `None` for no limit.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
}

/// The number behind a word in a file of lines `word number`.
fn figure(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Memory from the texts of version 1.
fn memory_of_version_1(usage: u64, statistics: &str, limit_text: &str) -> MemoryFigures {
    // Sums over the groups below, where the machine keeps them.
    let total =
        |word: &str| figure(statistics, &format!("total_{word}")).or_else(|| figure(statistics, word));
    let working_set = usage.saturating_sub(total("inactive_file").unwrap_or(0));
    MemoryFigures {
        usage,
        working_set,
        available: limit(limit_text).map(|limit| limit.saturating_sub(working_set)),
        resident: total("rss"),
        page_faults: total("pgfault"),
        major_page_faults: total("pgmajfault"),
    }
}

/// Memory from the texts of version 2.
fn memory_of_version_2(usage: u64, statistics: &str, limit_text: &str) -> MemoryFigures {
    let working_set = usage.saturating_sub(figure(statistics, "inactive_file").unwrap_or(0));
    MemoryFigures {
        usage,
        working_set,
        available: limit(limit_text).map(|limit| limit.saturating_sub(working_set)),
        resident: figure(statistics, "anon"),
        page_faults: figure(statistics, "pgfault"),
        major_page_faults: figure(statistics, "pgmajfault"),
    }
}

fn read(directory: Option<&Path>, file: &str) -> Option<String> {
    fs::read_to_string(directory?.join(file)).ok()
}

fn read_number(directory: Option<&Path>, file: &str) -> Option<u64> {
    read(directory, file)?.trim().parse().ok()
}

/// Reads what a control group has used. `directory_of` answers the group's directory for a controller of version 1, and the
/// one directory of version 2 whatever the controller.
pub(crate) fn read_group(directory_of: impl Fn(&str) -> Option<PathBuf>) -> GroupUsage {
    let (cpuacct, cpu) = (directory_of("cpuacct"), directory_of("cpu"));
    let (memory, pids) = (directory_of("memory"), directory_of("pids"));
    let memory = memory.as_deref();
    let cpu_nanoseconds = read_number(cpuacct.as_deref(), "cpuacct.usage").or_else(|| {
        figure(&read(cpu.as_deref(), "cpu.stat")?, "usage_usec")
            .map(|microseconds| microseconds.saturating_mul(1000))
    });
    let statistics = read(memory, "memory.stat").unwrap_or_default();
    let text = |file: &str| read(memory, file).unwrap_or_default();
    let (figures, swap) = if let Some(usage) = read_number(memory, "memory.current") {
        let swap = read_number(memory, "memory.swap.current").map(|usage| SwapFigures {
            usage,
            available: limit(&text("memory.swap.max")).map(|limit| limit.saturating_sub(usage)),
        });
        (Some(memory_of_version_2(usage, &statistics, &text("memory.max"))), swap)
    } else if let Some(usage) = read_number(memory, "memory.usage_in_bytes") {
        // Version 1 counts memory and swap together.
        let both_limit = limit(&text("memory.memsw.limit_in_bytes"));
        let swap = read_number(memory, "memory.memsw.usage_in_bytes").map(|both| {
            let used = both.saturating_sub(usage);
            let memory_limit = limit(&text("memory.limit_in_bytes"));
            let swap_limit = both_limit.zip(memory_limit).map(|(both, memory)| both.saturating_sub(memory));
            SwapFigures { usage: used, available: swap_limit.map(|limit| limit.saturating_sub(used)) }
        });
        (Some(memory_of_version_1(usage, &statistics, &text("memory.limit_in_bytes"))), swap)
    } else {
        (None, None)
    };
    GroupUsage {
        cpu_nanoseconds,
        memory: figures,
        swap,
        processes: read_number(pids.as_deref(), "pids.current"),
    }
}

/// Counts what a tree takes on its disk. Follows no link, leaves the disk for no mount, counts a file with several names
/// once. What disappears meanwhile is not counted.
///
/// # Errors
///
/// When the tree itself cannot be read.
pub(crate) fn measure_tree(root: &Path) -> io::Result<TreeUsage> {
    let top = fs::symlink_metadata(root)?;
    let (device, mut usage) = (top.dev(), TreeUsage::default());
    let mut counted = BTreeSet::new();
    let mut add = |metadata: &fs::Metadata| {
        if metadata.nlink() < 2 || metadata.is_dir() || counted.insert(metadata.ino()) {
            usage.bytes += metadata.blocks() * 512;
            usage.inodes += 1;
        }
    };
    add(&top);
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if directory == root => return Err(error),
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.dev() != device {
                continue;
            }
            add(&metadata);
            if metadata.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(usage)
}

/// Reads `/proc/PID/net/dev`: every link but loopback, in the kernel's order.
pub(crate) fn parse_links(text: &str) -> Vec<LinkFigures> {
    let link = |line: &str| {
        let (name, counters) = line.split_once(':')?;
        let counters: Vec<u64> = counters.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [received_bytes, _, receive_errors, ..] = counters[..] else { return None };
        Some(LinkFigures {
            name: name.trim().to_owned(),
            received_bytes,
            receive_errors,
            sent_bytes: *counters.get(8)?,
            send_errors: *counters.get(10)?,
        })
    };
    text.lines().filter_map(link).filter(|link| link.name != "lo").collect()
}

fn number(value: u64) -> Option<v1::UInt64Value> {
    Some(v1::UInt64Value { value })
}

impl GroupUsage {
    /// Processor time as a message. `timestamp` in nanoseconds since 1970, here and below.
    pub(crate) fn cpu_message(&self, timestamp: i64) -> Option<v1::CpuUsage> {
        let usage = self.cpu_nanoseconds?;
        Some(v1::CpuUsage { timestamp, usage_core_nano_seconds: number(usage), usage_nano_cores: None })
    }

    /// Memory as a message.
    pub(crate) fn memory_message(&self, timestamp: i64) -> Option<v1::MemoryUsage> {
        let memory = self.memory.as_ref()?;
        Some(v1::MemoryUsage {
            timestamp,
            working_set_bytes: number(memory.working_set),
            available_bytes: memory.available.and_then(number),
            usage_bytes: number(memory.usage),
            rss_bytes: memory.resident.and_then(number),
            page_faults: memory.page_faults.and_then(number),
            major_page_faults: memory.major_page_faults.and_then(number),
        })
    }

    /// Swap as a message.
    pub(crate) fn swap_message(&self, timestamp: i64) -> Option<v1::SwapUsage> {
        let swap = self.swap.as_ref()?;
        Some(v1::SwapUsage {
            timestamp,
            swap_available_bytes: swap.available.and_then(number),
            swap_usage_bytes: number(swap.usage),
        })
    }

    /// Processes as a message.
    pub(crate) fn process_message(&self, timestamp: i64) -> Option<v1::ProcessUsage> {
        let count = self.processes?;
        Some(v1::ProcessUsage { timestamp, process_count: number(count) })
    }
}

impl TreeUsage {
    /// The writable layer as a message; `mount_point` is that of the disk it lies on.
    pub(crate) fn message(self, timestamp: i64, mount_point: &Path) -> v1::FilesystemUsage {
        v1::FilesystemUsage {
            timestamp,
            fs_id: Some(v1::FilesystemIdentifier { mountpoint: mount_point.display().to_string() }),
            used_bytes: number(self.bytes),
            inodes_used: number(self.inodes),
        }
    }
}

/// The links of a pod as a message; `eth0` is its own.
pub(crate) fn network_message(links: &[LinkFigures], timestamp: i64) -> Option<v1::NetworkUsage> {
    let message = |link: &LinkFigures| v1::NetworkInterfaceUsage {
        name: link.name.clone(),
        rx_bytes: number(link.received_bytes),
        rx_errors: number(link.receive_errors),
        tx_bytes: number(link.sent_bytes),
        tx_errors: number(link.send_errors),
    };
    if links.is_empty() {
        return None;
    }
    Some(v1::NetworkUsage {
        timestamp,
        default_interface: links.iter().find(|link| link.name == "eth0").map(message),
        interfaces: links.iter().filter(|link| link.name != "eth0").map(message).collect(),
    })
}

/// The mount point of the disk on which `path` lies.
pub(crate) fn mount_point_of(path: &Path) -> PathBuf {
    let Ok(device) = fs::metadata(path).map(|metadata| metadata.dev()) else { return path.to_owned() };
    let mut mount_point = path;
    while let Some(parent) = mount_point.parent()
        && fs::metadata(parent).is_ok_and(|metadata| metadata.dev() == device)
    {
        mount_point = parent;
    }
    mount_point.to_owned()
}

#[cfg(test)]
mod tests;
