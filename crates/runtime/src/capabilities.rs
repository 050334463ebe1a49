//! Capabilities by name, the default set of containers, and what a pod adds and drops.

use cri::v1::Capability;

use crate::launch::CapabilityBits;

/// Names in the kernel's order; the position is the number.
const NAMES: [&str; 41] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
];

/// What a container has unless its pod says otherwise: containerd's list.
const DEFAULT: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

/// A name that is no capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown capability {name:?}; capabilities are named as in capabilities(7), with or without CAP_")]
pub(crate) struct UnknownCapability {
    name: String,
}

/// What was asked for and is not there to give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GrantedCapabilities {
    pub(crate) bits: CapabilityBits,
    /// Names that this process does not have itself.
    pub(crate) lacking: Vec<&'static str>,
}

/// Decides the sets of a container, out of what this process has (`held`, its bounding set).
pub(crate) fn grant_capabilities(
    wish: Option<&Capability>,
    privileged: bool,
    held: u64,
) -> Result<GrantedCapabilities, UnknownCapability> {
    if privileged {
        let bits = CapabilityBits { bounding: held, effective: held, ambient: 0 };
        return Ok(GrantedCapabilities { bits, lacking: Vec::new() });
    }
    let mut wanted = 0;
    for name in DEFAULT {
        wanted |= bit_of(name)?;
    }
    let mut ambient = 0;
    if let Some(wish) = wish {
        // All of them means all: "ALL" first, single names refine it.
        if has_all(&wish.add_capabilities) {
            wanted = held;
        }
        if has_all(&wish.drop_capabilities) {
            wanted = 0;
        }
        for name in wish.add_capabilities.iter().filter(|name| !is_all(name)) {
            wanted |= bit_of(name)?;
        }
        for name in &wish.add_ambient_capabilities {
            let bits = if is_all(name) { held } else { bit_of(name)? };
            wanted |= bits;
            ambient |= bits;
        }
        for name in wish.drop_capabilities.iter().filter(|name| !is_all(name)) {
            wanted &= !bit_of(name)?;
        }
    }
    let granted = wanted & held;
    let lacking = NAMES
        .iter()
        .enumerate()
        .filter(|(number, _)| wanted & !held & (1 << number) != 0)
        .map(|(_, name)| *name)
        .collect();
    let bits = CapabilityBits { bounding: granted, effective: granted, ambient: ambient & granted };
    Ok(GrantedCapabilities { bits, lacking })
}

fn is_all(name: &str) -> bool {
    name.eq_ignore_ascii_case("ALL")
}

fn has_all(names: &[String]) -> bool {
    names.iter().any(|name| is_all(name))
}

fn bit_of(name: &str) -> Result<u64, UnknownCapability> {
    let upper = name.to_ascii_uppercase();
    let short = upper.strip_prefix("CAP_").unwrap_or(&upper);
    NAMES
        .iter()
        .position(|known| *known == short)
        .map(|number| 1 << number)
        .ok_or_else(|| UnknownCapability { name: name.to_owned() })
}

/// Names of a set, as the OCI specification writes them.
pub(crate) fn names_of(bits: u64) -> Vec<String> {
    NAMES
        .iter()
        .enumerate()
        .filter(|(number, _)| bits & (1 << number) != 0)
        .map(|(_, name)| format!("CAP_{name}"))
        .collect()
}

/// The bounding set of this process, as bits.
pub(crate) fn held_capabilities() -> u64 {
    (0..64)
        .map(|number| 1u64 << number)
        .take_while(|bit| {
            rustix::thread::capability_is_in_bounding_set(rustix::thread::CapabilitySet::from_bits_retain(
                *bit,
            ))
            .is_ok()
        })
        .filter(|bit| {
            rustix::thread::capability_is_in_bounding_set(rustix::thread::CapabilitySet::from_bits_retain(
                *bit,
            ))
            .unwrap_or(false)
        })
        .fold(0, |set, bit| set | bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = (1 << 41) - 1;

    fn wish(add: &[&str], drop: &[&str]) -> Capability {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Capability { add_capabilities: own(add), drop_capabilities: own(drop), ..Default::default() }
    }

    fn effective(wish: &Capability, held: u64) -> u64 {
        grant_capabilities(Some(wish), false, held).unwrap().bits.effective
    }

    #[test]
    fn the_default_set_is_containerds() {
        let granted = grant_capabilities(None, false, ALL).unwrap();
        assert_eq!(format!("{:016x}", granted.bits.effective), "00000000a80425fb");
        assert_eq!(granted.bits.bounding, granted.bits.effective);
        assert_eq!(granted.bits.ambient, 0);
    }

    #[test]
    fn names_are_added_and_dropped() {
        let default = effective(&wish(&[], &[]), ALL);
        let net_admin = 1 << 12;
        assert_eq!(effective(&wish(&["NET_ADMIN"], &[]), ALL), default | net_admin);
        assert_eq!(effective(&wish(&["cap_net_admin"], &["ALL"]), ALL), net_admin);
        assert_eq!(effective(&wish(&[], &["all"]), ALL), 0);
        assert_eq!(effective(&wish(&["ALL"], &["NET_ADMIN"]), ALL), ALL & !net_admin);
        assert_eq!(effective(&wish(&["NET_ADMIN"], &["NET_ADMIN"]), ALL), default);
        assert!(grant_capabilities(Some(&wish(&["FLY"], &[])), false, ALL).is_err());
    }

    #[test]
    fn what_the_machine_lacks_is_left_out_and_named() {
        let held = ALL & !(1 << 24) & !(1 << 27);
        let granted = grant_capabilities(Some(&wish(&["SYS_RESOURCE"], &[])), false, held).unwrap();
        assert_eq!(granted.lacking, ["SYS_RESOURCE", "MKNOD"]);
        assert_eq!(granted.bits.effective & !held, 0);
        assert_eq!(grant_capabilities(None, true, held).unwrap().bits.effective, held);
    }
}
