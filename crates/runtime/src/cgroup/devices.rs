//! Which devices a container may use.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use sys::{DeviceAccess, DeviceKind, DeviceRule};

use crate::launch::DeviceSpec;

const ALL: DeviceAccess = DeviceAccess { read: true, write: true, make_node: true };
const NODE_ONLY: DeviceAccess = DeviceAccess { read: false, write: false, make_node: true };

/// Character devices of every container: null, zero, full, random, urandom, tty, console, ptmx, and all terminals.
const ALWAYS: [(u32, Option<u32>); 9] = [
    (1, Some(3)),
    (1, Some(5)),
    (1, Some(7)),
    (1, Some(8)),
    (1, Some(9)),
    (5, Some(0)),
    (5, Some(1)),
    (5, Some(2)),
    (136, None),
];

/// What is allowed; everything else is not. Nodes of any device may be made, but not opened.
pub(super) fn rules(devices: &[DeviceSpec]) -> Vec<DeviceRule> {
    let any_node = |kind| DeviceRule { kind: Some(kind), major: None, minor: None, access: NODE_ONLY };
    let mut rules = vec![any_node(DeviceKind::Character), any_node(DeviceKind::Block)];
    rules.extend(ALWAYS.iter().map(|&(major, minor)| DeviceRule {
        kind: Some(DeviceKind::Character),
        major: Some(major),
        minor,
        access: ALL,
    }));
    rules.extend(devices.iter().filter_map(rule_of));
    rules
}

fn rule_of(device: &DeviceSpec) -> Option<DeviceRule> {
    let metadata = std::fs::metadata(&device.source).ok()?;
    let kind = match metadata.file_type() {
        kind if kind.is_block_device() => DeviceKind::Block,
        kind if kind.is_char_device() => DeviceKind::Character,
        _ => return None,
    };
    let has = |letter| device.access.contains(letter);
    Some(DeviceRule {
        kind: Some(kind),
        major: Some(rustix::fs::major(metadata.rdev())),
        minor: Some(rustix::fs::minor(metadata.rdev())),
        access: DeviceAccess { read: has('r'), write: has('w'), make_node: has('m') },
    })
}

/// A rule as version 1 takes it, such as `c 136:* rwm`.
pub(super) fn written(rule: &DeviceRule) -> String {
    let kind = match rule.kind {
        Some(DeviceKind::Block) => 'b',
        Some(DeviceKind::Character) => 'c',
        None => 'a',
    };
    let number = |number: Option<u32>| number.map_or_else(|| "*".to_owned(), |number| number.to_string());
    let mut access = String::new();
    for (allowed, letter) in [(rule.access.read, 'r'), (rule.access.write, 'w'), (rule.access.make_node, 'm')]
    {
        if allowed {
            access.push(letter);
        }
    }
    format!("{kind} {}:{} {access}", number(rule.major), number(rule.minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_as_version_1_reads_them() {
        let lines: Vec<String> = rules(&[DeviceSpec {
            source: "/dev/null".into(),
            destination: "/dev/x".into(),
            access: "r".into(),
        }])
        .iter()
        .map(written)
        .collect();
        assert_eq!(lines[..3], ["c *:* m", "b *:* m", "c 1:3 rwm"]);
        assert!(lines.contains(&"c 136:* rwm".to_owned()));
        assert_eq!(lines.last().map(String::as_str), Some("c 1:3 r"));
    }
}
