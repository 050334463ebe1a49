//! Device access of a cgroup v2: a small eBPF program made from rules.
//!
//! The program answers 1 (allowed) when a rule matches kind, number and every access bit that is asked for, else 0.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// Block or character device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// Block device.
    Block,
    /// Character device.
    Character,
}

/// What may be done with a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceAccess {
    /// Open for reading.
    pub read: bool,
    /// Open for writing.
    pub write: bool,
    /// Make nodes of it.
    pub make_node: bool,
}

/// One permission; `None` means any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceRule {
    /// Kind of device.
    pub kind: Option<DeviceKind>,
    /// Major number.
    pub major: Option<u32>,
    /// Minor number.
    pub minor: Option<u32>,
    /// What is allowed.
    pub access: DeviceAccess,
}

/// Why device access of a cgroup could not be limited.
#[derive(Debug, thiserror::Error)]
pub enum DeviceFilterError {
    /// The kernel did not load the program.
    #[error("the kernel refused the device filter")]
    Load(#[source] io::Error),
    /// The program could not be attached to the cgroup.
    #[error("the device filter cannot be attached to the cgroup")]
    Attach(#[source] io::Error),
}

#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

const fn instruction(code: u8, destination: u8, source: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: destination | (source << 4), offset, immediate }
}

const LOAD_WORD: u8 = 0x61;
const AND_IMMEDIATE: u8 = 0x54;
const MOVE_REGISTER: u8 = 0xbc;
const RIGHT_SHIFT_IMMEDIATE: u8 = 0x74;
const MOVE_IMMEDIATE: u8 = 0xb7;
const JUMP_NOT_EQUAL: u8 = 0x56;
const EXIT: u8 = 0x95;

/// Registers: 2 kind, 3 access asked for, 4 major, 5 minor, 1 scratch.
fn compile(rules: &[DeviceRule]) -> Vec<Instruction> {
    let mut program = vec![
        instruction(LOAD_WORD, 2, 1, 0, 0),
        instruction(MOVE_REGISTER, 3, 2, 0, 0),
        instruction(AND_IMMEDIATE, 2, 0, 0, 0xffff),
        instruction(RIGHT_SHIFT_IMMEDIATE, 3, 0, 0, 16),
        instruction(LOAD_WORD, 4, 1, 4, 0),
        instruction(LOAD_WORD, 5, 1, 8, 0),
    ];
    for rule in rules {
        let mut checks: Vec<(u8, i32)> = Vec::new();
        match rule.kind {
            Some(DeviceKind::Block) => checks.push((2, 1)),
            Some(DeviceKind::Character) => checks.push((2, 2)),
            None => {}
        }
        for (register, number) in [(4, rule.major), (5, rule.minor)] {
            if let Some(number) = number {
                checks.push((register, number.cast_signed()));
            }
        }
        let DeviceAccess { read, write, make_node } = rule.access;
        let allowed = i32::from(make_node) | i32::from(read) << 1 | i32::from(write) << 2;
        let limited = allowed != 7;
        // Distances: from after each jump to the end of this rule.
        let mut rest =
            i16::try_from(checks.len()).expect("at most three checks") + if limited { 3 } else { 0 } + 2;
        for (register, value) in checks {
            rest -= 1;
            program.push(instruction(JUMP_NOT_EQUAL, register, 0, rest, value));
        }
        if limited {
            program.push(instruction(MOVE_REGISTER, 1, 3, 0, 0));
            program.push(instruction(AND_IMMEDIATE, 1, 0, 0, 7 & !allowed));
            program.push(instruction(JUMP_NOT_EQUAL, 1, 0, 2, 0));
        }
        program.push(instruction(MOVE_IMMEDIATE, 0, 0, 0, 1));
        program.push(instruction(EXIT, 0, 0, 0, 0));
    }
    program.push(instruction(MOVE_IMMEDIATE, 0, 0, 0, 0));
    program.push(instruction(EXIT, 0, 0, 0, 0));
    program
}

#[repr(C, align(8))]
struct LoadArguments {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    rest: [u64; 14],
}

#[repr(C, align(8))]
struct AttachArguments {
    target: u32,
    program: u32,
    attach_type: u32,
    flags: u32,
    rest: [u64; 14],
}

const COMMAND_LOAD: libc::c_int = 5;
const COMMAND_ATTACH: libc::c_int = 8;
const PROGRAM_CGROUP_DEVICE: u32 = 15;
const ATTACH_CGROUP_DEVICE: u32 = 6;
const ALLOW_MULTIPLE: u32 = 2;

/// Limits the devices of a cgroup v2 directory to those that a rule allows.
///
/// # Errors
///
/// See [`DeviceFilterError`].
#[allow(unsafe_code)]
pub fn attach_device_filter(cgroup: BorrowedFd<'_>, rules: &[DeviceRule]) -> Result<(), DeviceFilterError> {
    let program = compile(rules);
    let load = LoadArguments {
        program_type: PROGRAM_CGROUP_DEVICE,
        instruction_count: u32::try_from(program.len()).expect("a few instructions a rule"),
        instructions: program.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        rest: [0; 14],
    };
    // SAFETY: `program`, the licence and `load` outlive the call; the kernel reads them and writes nothing.
    // JUSTIFICATION: no wrapper in the tree speaks bpf(2).
    let loaded = unsafe {
        libc::syscall(libc::SYS_bpf, COMMAND_LOAD, std::ptr::from_ref(&load), size_of::<LoadArguments>())
    };
    if loaded < 0 {
        return Err(DeviceFilterError::Load(io::Error::last_os_error()));
    }
    let number = i32::try_from(loaded).expect("a descriptor number");
    // SAFETY: the kernel just made this descriptor for us.
    let program = unsafe { OwnedFd::from_raw_fd(number) };
    let attach = AttachArguments {
        target: cgroup.as_raw_fd().cast_unsigned(),
        program: program.as_raw_fd().cast_unsigned(),
        attach_type: ATTACH_CGROUP_DEVICE,
        flags: ALLOW_MULTIPLE,
        rest: [0; 14],
    };
    // SAFETY: `attach` outlives the call; both descriptors are open.
    let attached = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            COMMAND_ATTACH,
            std::ptr::from_ref(&attach),
            size_of::<AttachArguments>(),
        )
    };
    if attached == 0 { Ok(()) } else { Err(DeviceFilterError::Attach(io::Error::last_os_error())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the few instructions that `compile` emits.
    fn allows(program: &[Instruction], kind: u32, access: u32, major: u32, minor: u32) -> bool {
        let memory = [kind | access << 16, major, minor];
        let mut registers = [0u32; 11];
        let mut next = 0usize;
        loop {
            let current = program[next];
            let destination = usize::from(current.registers & 15);
            let source = usize::from(current.registers >> 4);
            next += 1;
            match current.code {
                LOAD_WORD => registers[destination] = memory[usize::try_from(current.offset).unwrap() / 4],
                AND_IMMEDIATE => registers[destination] &= current.immediate.cast_unsigned(),
                MOVE_REGISTER => registers[destination] = registers[source],
                RIGHT_SHIFT_IMMEDIATE => registers[destination] >>= current.immediate,
                MOVE_IMMEDIATE => registers[destination] = current.immediate.cast_unsigned(),
                JUMP_NOT_EQUAL => {
                    if registers[destination] != current.immediate.cast_unsigned() {
                        next += usize::try_from(current.offset).unwrap();
                    }
                }
                EXIT => return registers[0] == 1,
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn rules_allow_exactly_what_they_say() {
        let all = DeviceAccess { read: true, write: true, make_node: true };
        let node_only = DeviceAccess { read: false, write: false, make_node: true };
        let program = compile(&[
            DeviceRule { kind: Some(DeviceKind::Character), major: Some(1), minor: Some(3), access: all },
            DeviceRule { kind: Some(DeviceKind::Character), major: Some(136), minor: None, access: all },
            DeviceRule { kind: Some(DeviceKind::Block), major: None, minor: None, access: node_only },
        ]);
        let (block, character) = (1, 2);
        let (make_node, read, write) = (1, 2, 4);
        assert!(allows(&program, character, read | write, 1, 3));
        assert!(allows(&program, character, make_node, 136, 77));
        assert!(allows(&program, block, make_node, 8, 0));
        assert!(!allows(&program, block, make_node | read, 8, 0));
        assert!(!allows(&program, block, write, 1, 3));
        assert!(!allows(&program, character, read, 1, 4));
        assert!(!allows(&compile(&[]), character, read, 1, 3));
    }
}
