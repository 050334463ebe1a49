//! Limits as the files of control groups take them.

use super::CgroupLayout;
use crate::launch::Resources;

/// One value for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) controller: &'static str,
    pub(super) file: String,
    pub(super) value: String,
    /// A refusal is not worth a word.
    pub(super) optional: bool,
}

impl Setting {
    /// The limit as a warning names it.
    pub(super) fn described(&self) -> String {
        format!("{}={}", self.file, self.value)
    }
}

/// The settings for `resources`, in the order in which they must be written.
pub(super) fn settings(layout: &CgroupLayout, resources: &Resources) -> Vec<Setting> {
    match layout {
        CgroupLayout::Missing => Vec::new(),
        CgroupLayout::Version1 { .. } => version1(resources),
        CgroupLayout::Version2 { .. } => version2(resources),
    }
}

fn setting(controller: &'static str, file: &str, value: impl ToString) -> Setting {
    Setting { controller, file: file.to_owned(), value: value.to_string(), optional: false }
}

fn version1(resources: &Resources) -> Vec<Setting> {
    let mut settings = Vec::new();
    if let Some(shares) = resources.cpu_shares {
        settings.push(setting("cpu", "cpu.shares", shares));
    }
    if let Some(period) = resources.cpu_period {
        settings.push(setting("cpu", "cpu.cfs_period_us", period));
    }
    if let Some(quota) = resources.cpu_quota {
        settings.push(setting("cpu", "cpu.cfs_quota_us", quota));
    }
    if let Some(limit) = resources.memory_limit {
        settings.push(setting("memory", "memory.limit_in_bytes", limit));
    }
    if let Some(limit) = resources.memory_swap_limit {
        // A kernel without swap accounting has no such file.
        settings.push(Setting { optional: true, ..setting("memory", "memory.memsw.limit_in_bytes", limit) });
    }
    for (file, value) in [("cpuset.cpus", &resources.cpuset_cpus), ("cpuset.mems", &resources.cpuset_mems)] {
        if let Some(value) = value {
            settings.push(setting("cpuset", file, value));
        }
    }
    for (size, limit) in &resources.huge_pages {
        settings.push(setting("hugetlb", &format!("hugetlb.{size}.limit_in_bytes"), limit));
    }
    if let Some(pids) = resources.pids {
        settings.push(setting("pids", "pids.max", pids));
    }
    settings
}

fn version2(resources: &Resources) -> Vec<Setting> {
    let mut settings = Vec::new();
    if let Some(shares) = resources.cpu_shares {
        settings.push(setting("cpu", "cpu.weight", weight_of_shares(shares)));
    }
    if resources.cpu_quota.is_some() || resources.cpu_period.is_some() {
        let quota = match resources.cpu_quota {
            Some(quota) if quota > 0 => quota.to_string(),
            _ => "max".to_owned(),
        };
        settings.push(setting(
            "cpu",
            "cpu.max",
            format!("{quota} {}", resources.cpu_period.unwrap_or(100_000)),
        ));
    }
    if let Some(limit) = resources.memory_limit {
        settings.push(setting("memory", "memory.max", bytes_or_max(limit)));
        // The container is one unit: when the kernel must kill, it kills all of it, as Kubernetes has it.
        settings.push(Setting { optional: true, ..setting("memory", "memory.oom.group", 1) });
    }
    if let Some(limit) = resources.memory_swap_limit {
        let swap = match resources.memory_limit {
            Some(memory) if limit >= memory && memory >= 0 => (limit - memory).to_string(),
            _ => bytes_or_max(limit),
        };
        settings.push(Setting { optional: true, ..setting("memory", "memory.swap.max", swap) });
    }
    for (file, value) in [("cpuset.cpus", &resources.cpuset_cpus), ("cpuset.mems", &resources.cpuset_mems)] {
        if let Some(value) = value {
            settings.push(setting("cpuset", file, value));
        }
    }
    for (size, limit) in &resources.huge_pages {
        settings.push(setting("hugetlb", &format!("hugetlb.{size}.max"), limit));
    }
    if let Some(pids) = resources.pids {
        settings.push(setting("pids", "pids.max", pids));
    }
    for (file, value) in &resources.unified {
        // A file name only, never a path.
        if !file.contains('/') {
            settings.push(setting("unified", file, value));
        }
    }
    settings
}

fn bytes_or_max(limit: i64) -> String {
    if limit < 0 { "max".to_owned() } else { limit.to_string() }
}

/// 2 to 262,144 shares become weight 1 to 10,000, on the line that container runtimes agree on.
fn weight_of_shares(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(layout: &CgroupLayout, resources: &Resources) -> Vec<String> {
        settings(layout, resources).iter().map(Setting::described).collect()
    }

    #[test]
    fn limits_are_written_as_each_version_wants_them() {
        let resources = Resources {
            cpu_period: Some(100_000),
            cpu_quota: Some(50_000),
            cpu_shares: Some(512),
            memory_limit: Some(64 << 20),
            memory_swap_limit: Some(64 << 20),
            pids: Some(4096),
            ..Default::default()
        };
        let version1 = CgroupLayout::Version1 { mounts: std::collections::BTreeMap::new() };
        assert_eq!(
            written(&version1, &resources),
            [
                "cpu.shares=512",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=50000",
                "memory.limit_in_bytes=67108864",
                "memory.memsw.limit_in_bytes=67108864",
                "pids.max=4096",
            ]
        );
        let version2 = CgroupLayout::Version2 { mount: "/sys/fs/cgroup".into() };
        assert_eq!(
            written(&version2, &resources),
            [
                "cpu.weight=20",
                "cpu.max=50000 100000",
                "memory.max=67108864",
                "memory.oom.group=1",
                "memory.swap.max=0",
                "pids.max=4096",
            ]
        );
        assert!(written(&version2, &Resources::default()).is_empty());
    }

    #[test]
    fn shares_become_weights() {
        for (shares, weight) in [(0, 1), (2, 1), (1024, 39), (262_144, 10_000), (u64::MAX, 10_000)] {
            assert_eq!(weight_of_shares(shares), weight, "{shares}");
        }
    }

    #[test]
    fn a_unified_name_is_never_a_path() {
        let unified = [("../x".to_owned(), "1".to_owned()), ("memory.high".to_owned(), "5".to_owned())];
        let resources = Resources { unified: unified.into(), ..Default::default() };
        let version2 = CgroupLayout::Version2 { mount: "/sys/fs/cgroup".into() };
        assert_eq!(written(&version2, &resources), ["memory.high=5"]);
    }
}
