//! Profiles against an interpreter of the kernel's filter programs, and against the kernel itself.

use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use super::numbers::{AUDIT_ARCHITECTURE, number};
use super::*;

const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const SYS_ADMIN: u64 = 1 << 21;
/// What a container gets unless its pod says otherwise.
const USUAL: u64 = 0xa804_25fb;

fn fail(errno: i32) -> u32 {
    0x0005_0000 | u32::try_from(errno).expect("positive")
}

/// Runs one program over the 64 bytes that the kernel shows it.
fn run(program: &[(u16, u8, u8, u32)], call: &[u8; 64]) -> u32 {
    let (mut accumulator, mut at) = (0_u32, 0_usize);
    loop {
        let (code, jump_true, jump_false, operand) = program[at];
        at += 1;
        let mut jump = |condition: bool| at += usize::from(if condition { jump_true } else { jump_false });
        match code {
            0x20 => {
                let place = operand as usize;
                accumulator = u32::from_ne_bytes(call[place..place + 4].try_into().expect("four bytes"));
            }
            0x05 => at += operand as usize,
            0x15 => jump(accumulator == operand),
            0x25 => jump(accumulator > operand),
            0x35 => jump(accumulator >= operand),
            0x54 => accumulator &= operand,
            0x06 => return operand,
            other => panic!("instruction {other:#x}"),
        }
    }
}

/// The answer of the whole stack, as the kernel finds it: the last program first, and only a stricter answer replaces.
fn answer_on(architecture: u32, filters: &Filters, number: u32, arguments: [u64; 6]) -> u32 {
    let mut call = [0; 64];
    call[..4].copy_from_slice(&number.to_ne_bytes());
    call[4..8].copy_from_slice(&architecture.to_ne_bytes());
    for (place, argument) in arguments.iter().enumerate() {
        call[16 + 8 * place..24 + 8 * place].copy_from_slice(&argument.to_ne_bytes());
    }
    // Strictness is the order of the action as a signed number.
    let strictness = |answer: u32| (answer & 0xffff_0000).cast_signed();
    filters.iter().rev().map(|program| run(program, &call)).fold(ALLOW, |strictest, answer| {
        if strictness(answer) < strictness(strictest) { answer } else { strictest }
    })
}

fn answer(filters: &Filters, name: &str, arguments: [u64; 6]) -> u32 {
    let number = number(name).unwrap_or_else(|| panic!("{name} is a call"));
    answer_on(AUDIT_ARCHITECTURE, filters, number, arguments)
}

fn plain(filters: &Filters, name: &str) -> u32 {
    answer(filters, name, [0; 6])
}

#[test]
fn a_usual_container_may_compute_and_not_reach_for_the_machine() {
    let filters = default_filters(USUAL);
    for name in
        ["read", "write", "openat", "execve", "futex", "clone", "mmap", "exit_group", "fchmodat2", "rseq"]
    {
        assert_eq!(plain(&filters, name), ALLOW, "{name}");
    }
    let forbidden = "mount umount2 setns unshare bpf perf_event_open add_key keyctl request_key userfaultfd kexec_load \
        init_module finit_module delete_module reboot swapon swapoff pivot_root settimeofday clock_settime acct \
        open_by_handle_at iopl quotactl fsopen fsmount move_mount open_tree mount_setattr io_uring_setup kcmp \
        pidfd_getfd lookup_dcookie syslog vhangup nfsservctl mbind sethostname";
    for name in forbidden.split_whitespace() {
        assert_eq!(plain(&filters, name), fail(libc::EPERM), "{name}");
    }
    assert_eq!(plain(&filters, "chroot"), ALLOW, "it has CAP_SYS_CHROOT");
    assert_eq!(plain(&default_filters(0), "chroot"), fail(libc::EPERM), "without it");
}

#[test]
fn arguments_decide_where_the_call_alone_does_not() {
    let filters = default_filters(USUAL);
    let table: [(&str, u64, bool); 14] = [
        ("clone", 0x0120_0011, true),
        ("clone", 0x1000_0000, false),
        ("clone", 0x0002_0000, false),
        ("clone", 0x0200_0000, false),
        ("clone", 0x4000_0011, false),
        ("socket", 1, true),
        ("socket", 16, true),
        ("socket", 40, false),
        ("socket", 40 | (1 << 32), false),
        ("personality", 0, true),
        ("personality", 0xffff_ffff, true),
        ("personality", 0x0004_0000, false),
        ("personality", 0x0002_0008, true),
        ("personality", 0x0040_0000, false),
    ];
    for (name, argument, allowed) in table {
        let expected = if allowed { ALLOW } else { fail(libc::EPERM) };
        assert_eq!(answer(&filters, name, [argument, 0, 0, 0, 0, 0]), expected, "{name} {argument:#x}");
    }
}

#[test]
fn calls_that_cannot_be_judged_or_are_not_known_do_not_exist() {
    let filters = default_filters(USUAL);
    assert_eq!(plain(&filters, "clone3"), fail(libc::ENOSYS));
    assert_eq!(answer_on(AUDIT_ARCHITECTURE, &filters, 600, [0; 6]), fail(libc::ENOSYS));
    assert_eq!(answer_on(AUDIT_ARCHITECTURE, &filters, 0x4000_0001, [0; 6]), fail(libc::EPERM), "x32");
    assert_eq!(
        answer_on(0x4000_0003, &filters, 1, [0; 6]),
        KILL_PROCESS,
        "a foreign architecture has other numbers"
    );
}

#[test]
fn an_administrator_may_make_namespaces_and_mounts() {
    let filters = default_filters(USUAL | SYS_ADMIN);
    for name in ["mount", "unshare", "setns", "bpf", "clone3", "fsopen"] {
        assert_eq!(plain(&filters, name), ALLOW, "{name}");
    }
    assert_eq!(answer(&filters, "clone", [0x7E02_0000, 0, 0, 0, 0, 0]), ALLOW);
    assert_eq!(plain(&filters, "keyctl"), fail(libc::EPERM), "still not a call for containers");
}

#[test]
fn each_capability_opens_its_own_calls() {
    let table = [
        (2, "open_by_handle_at"),
        (16, "init_module"),
        (17, "iopl"),
        (18, "chroot"),
        (19, "kcmp"),
        (20, "acct"),
        (22, "reboot"),
        (23, "mbind"),
        (25, "settimeofday"),
        (26, "vhangup"),
        (34, "syslog"),
        (38, "perf_event_open"),
        (39, "bpf"),
    ];
    for (capability, name) in table.into_iter().filter(|(_, name)| number(name).is_some()) {
        assert_eq!(plain(&default_filters(1 << capability), name), ALLOW, "{name}");
        assert_eq!(
            plain(&default_filters(!(1 << capability | SYS_ADMIN)), name),
            fail(libc::EPERM),
            "{name}"
        );
    }
}

#[test]
fn every_default_profile_compiles_within_the_kernels_limits_and_once() {
    for capability in 0..64 {
        for filters in [default_filters(1 << capability), default_filters(!(1 << capability))] {
            assert!(filters.iter().all(|program| (1..=4096).contains(&program.len())), "{capability}");
        }
    }
    assert!(
        Arc::ptr_eq(&default_filters(USUAL), &default_filters(USUAL | 1 << 10)),
        "CAP_NET_BIND_SERVICE changes nothing"
    );
}

#[test]
fn every_name_of_the_default_profile_is_known_on_some_architecture() {
    let tables = [include_str!("syscalls_x86_64.txt"), include_str!("syscalls_aarch64.txt")].join(" ");
    let known: std::collections::BTreeSet<&str> =
        tables.split_whitespace().filter_map(|word| word.split_once(':')).map(|(_, name)| name).collect();
    for group in default_profile::default_profile(u64::MAX).groups {
        for name in group.names {
            assert!(known.contains(name.as_str()), "{name}");
        }
    }
}

const FACTS: ProfileFacts = ProfileFacts { capabilities: USUAL, kernel: (6, 1) };

fn from_file(content: &str) -> Filters {
    file_filters(content.as_bytes(), FACTS).unwrap_or_else(|error| panic!("{content}: {error:?}"))
}

#[test]
fn a_file_that_forbids_some_calls_and_allows_the_rest() {
    let filters = from_file(
        r#"{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_X86_64"],"syscalls":[
            {"names":["mkdir","mkdirat","no_such_call"],"action":"SCMP_ACT_ERRNO"},
            {"name":"chmod","action":"SCMP_ACT_ERRNO","errnoRet":22},
            {"names":["ptrace"],"action":"SCMP_ACT_KILL"},
            {"names":["sync"],"action":"SCMP_ACT_LOG","args":null},
            {"names":["kill"],"action":"SCMP_ACT_ERRNO","args":[
                {"index":1,"value":9,"op":"SCMP_CMP_EQ"},{"index":0,"value":1,"op":"SCMP_CMP_EQ"}]},
            {"names":["dup"],"action":"SCMP_ACT_ERRNO","args":[
                {"index":0,"value":7,"op":"SCMP_CMP_EQ"},{"index":0,"value":100,"op":"SCMP_CMP_GT"}]}]}"#,
    );
    assert_eq!(plain(&filters, "read"), ALLOW);
    assert_eq!(plain(&filters, "mkdirat"), fail(libc::EPERM));
    assert_eq!(plain(&filters, "chmod"), fail(22));
    assert_eq!(plain(&filters, "ptrace"), 0, "the thread is killed");
    assert_eq!(plain(&filters, "sync"), 0x7ffc_0000, "logged");
    assert_eq!(answer(&filters, "kill", [1, 9, 0, 0, 0, 0]), fail(libc::EPERM), "both conditions hold");
    assert_eq!(answer(&filters, "kill", [2, 9, 0, 0, 0, 0]), ALLOW, "only one holds");
    for (argument, expected) in [(7, fail(libc::EPERM)), (101, fail(libc::EPERM)), (8, ALLOW)] {
        assert_eq!(
            answer(&filters, "dup", [argument, 0, 0, 0, 0, 0]),
            expected,
            "two on one argument are alternatives"
        );
    }
    assert_eq!(
        answer_on(AUDIT_ARCHITECTURE, &filters, 600, [0; 6]),
        ALLOW,
        "unknown calls are the kernel's matter"
    );
}

#[test]
fn a_file_that_allows_some_calls_and_forbids_the_rest() {
    let filters = from_file(
        r#"{"defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":13,"syscalls":[
            {"names":["read","write"],"action":"SCMP_ACT_ALLOW"},
            {"names":["bpf"],"action":"SCMP_ACT_ALLOW","includes":{"caps":["CAP_SYS_ADMIN"]}},
            {"names":["chroot"],"action":"SCMP_ACT_ALLOW","includes":{"caps":["CAP_SYS_CHROOT"]}},
            {"names":["chmod"],"action":"SCMP_ACT_ALLOW","excludes":{"caps":["CAP_SYS_CHROOT"]}},
            {"names":["ptrace"],"action":"SCMP_ACT_ALLOW","includes":{"minKernel":"4.8"}},
            {"names":["kcmp"],"action":"SCMP_ACT_ALLOW","includes":{"minKernel":"7.0"}},
            {"names":["reboot"],"action":"SCMP_ACT_ALLOW","includes":{"arches":["s390x"]}},
            {"names":["sync"],"action":"SCMP_ACT_ERRNO","errnoRet":5},
            {"names":["personality"],"action":"SCMP_ACT_ALLOW","args":[
                {"index":0,"value":8,"valueTwo":8,"op":"SCMP_CMP_MASKED_EQ"}]}]}"#,
    );
    for name in ["read", "write", "chroot", "ptrace"] {
        assert_eq!(plain(&filters, name), ALLOW, "{name}");
    }
    for name in ["open", "bpf", "chmod", "kcmp", "reboot", "personality"] {
        if number(name).is_some() {
            assert_eq!(plain(&filters, name), fail(13), "{name}");
        }
    }
    assert_eq!(plain(&filters, "sync"), fail(5));
    assert_eq!(answer(&filters, "personality", [12, 0, 0, 0, 0, 0]), ALLOW);
    assert_eq!(answer_on(AUDIT_ARCHITECTURE, &filters, 600, [0; 6]), fail(libc::ENOSYS));
}

#[test]
fn a_file_that_cannot_be_used_says_why() {
    let group = |group: &str| format!(r#"{{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{group}]}}"#);
    let argument = |argument: &str| {
        group(&format!(r#"{{"names":["kill"],"action":"SCMP_ACT_ERRNO","args":[{argument}]}}"#))
    };
    let table = [
        ("{".to_owned(), "the seccomp profile is not valid"),
        ("{}".to_owned(), "the seccomp profile is not valid"),
        (
            r#"{"defaultAction":"allow"}"#.to_owned(),
            "the seccomp profile uses the action `allow`, which does not exist",
        ),
        (
            group(r#"{"names":["kill"],"action":"SCMP_ACT_NOTIFY"}"#),
            "the seccomp profile uses SCMP_ACT_NOTIFY, which is not supported: nothing would answer",
        ),
        (
            argument(r#"{"index":6,"value":1,"op":"SCMP_CMP_EQ"}"#),
            "the seccomp profile compares argument 6; system calls have arguments 0 to 5",
        ),
        (
            argument(r#"{"index":0,"value":1,"op":"=="}"#),
            "the seccomp profile uses the operator `==`, which does not exist",
        ),
    ];
    for (content, expected) in table {
        assert_eq!(
            file_filters(content.as_bytes(), FACTS).expect_err(&content).to_string(),
            expected,
            "{content}"
        );
    }
    let large = " ".repeat((1 << 20) + 1);
    assert!(matches!(file_filters(large.as_bytes(), FACTS), Err(ProfileFileError::TooLarge(_))));
}

/// Filters hold for the thread that installs them and end with it.
fn under<T: Send>(filters: &Filters, body: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            nix::sys::prctl::set_no_new_privs().expect("always allowed");
            for program in filters {
                let instruction = |&(code, jump_true, jump_false, operand): &(u16, u8, u8, u32)| {
                    sys::FilterInstruction { code, jump_true, jump_false, operand }
                };
                let program: Vec<_> = program.iter().map(instruction).collect();
                sys::install_filter(&program).expect("the kernel takes it");
            }
            body()
        });
        thread.join().expect("the body does not panic")
    })
}

#[test]
fn the_kernel_obeys_the_default_profile() {
    use nix::errno::Errno;
    under(&default_filters(USUAL), || {
        assert_eq!(unshare(CloneFlags::CLONE_NEWUTS), Err(Errno::EPERM));
        assert_eq!(
            unshare(CloneFlags::CLONE_NEWUSER),
            Err(Errno::EPERM),
            "also what any user may do otherwise"
        );
        let vsock = socket(AddressFamily::Vsock, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
        assert_eq!(vsock.map(drop), Err(Errno::EPERM));
        let unix = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
        assert_eq!(unix.map(drop), Ok(()));
        let child = std::process::Command::new("/bin/sh").args(["-c", "exit 7"]).status();
        assert_eq!(child.expect("a process without clone3").code(), Some(7));
    });
}

#[test]
fn the_kernel_obeys_a_file() {
    let filters = from_file(
        r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[
            {"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","errnoRet":74}]}"#,
    );
    let directory = tempfile::tempdir().expect("a directory");
    let made = under(&filters, || std::fs::create_dir(directory.path().join("x")));
    assert_eq!(made.expect_err("refused").raw_os_error(), Some(74));
}
