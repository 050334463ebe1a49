//! Names and numbers of system calls on the two architectures that we run on.

use std::collections::BTreeMap;
use std::sync::LazyLock;

#[cfg(target_arch = "x86_64")]
const TABLE: &str = include_str!("syscalls_x86_64.txt");
#[cfg(target_arch = "aarch64")]
const TABLE: &str = include_str!("syscalls_aarch64.txt");

/// How the kernel names the architecture to a filter.
#[cfg(target_arch = "x86_64")]
pub(super) const AUDIT_ARCHITECTURE: u32 = 0xC000_003E;
/// How the kernel names the architecture to a filter.
#[cfg(target_arch = "aarch64")]
pub(super) const AUDIT_ARCHITECTURE: u32 = 0xC000_00B7;

/// How profile files of docker name the architecture.
#[cfg(target_arch = "x86_64")]
pub(super) const DOCKER_ARCHITECTURES: [&str; 2] = ["amd64", "x32"];
/// How profile files of docker name the architecture.
#[cfg(target_arch = "aarch64")]
pub(super) const DOCKER_ARCHITECTURES: [&str; 2] = ["arm64", "arm"];

static NUMBERS: LazyLock<BTreeMap<&'static str, u32>> = LazyLock::new(|| {
    let entry = |word: &'static str| {
        let (number, name) = word.split_once(':')?;
        Some((name, number.parse().ok()?))
    };
    TABLE.split_whitespace().filter_map(entry).collect()
});

/// The number of a call; `None` for a name of another architecture or of a later kernel.
pub(super) fn number(name: &str) -> Option<u32> {
    NUMBERS.get(name).copied()
}

/// The largest number that has a name here.
pub(super) fn largest() -> u32 {
    NUMBERS.values().copied().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_the_table_is_a_number_and_a_name_of_its_own() {
        assert_eq!(NUMBERS.len(), TABLE.split_whitespace().count());
        let numbers: std::collections::BTreeSet<_> = NUMBERS.values().collect();
        assert_eq!(numbers.len(), NUMBERS.len());
    }

    #[test]
    fn the_numbers_are_those_of_the_c_library() {
        let known = [
            ("read", libc::SYS_read),
            ("clone", libc::SYS_clone),
            ("clone3", libc::SYS_clone3),
            ("mount", libc::SYS_mount),
            ("fstat", libc::SYS_fstat),
            ("sendfile", libc::SYS_sendfile),
            ("newfstatat", libc::SYS_newfstatat),
            ("openat2", libc::SYS_openat2),
            ("keyctl", libc::SYS_keyctl),
            ("userfaultfd", libc::SYS_userfaultfd),
            ("set_mempolicy_home_node", libc::SYS_set_mempolicy_home_node),
            ("mseal", libc::SYS_mseal),
        ];
        for (name, expected) in known {
            assert_eq!(number(name).map(i64::from), Some(expected), "{name}");
        }
        assert_eq!(number("no_such_call"), None);
    }
}
