//! The default profile: which calls a container may make, and which more with which capability.
//!
//! The lists are those of containerd 2 (`contrib/seccomp/seccomp_default.go`), whose profile Kubernetes users know as
//! `RuntimeDefault`, for kernels from 4.8 on.

use super::{Action, ArgumentCondition, CallGroup, Comparison, Profile};

const DAC_READ_SEARCH: u32 = 2;
const SYS_MODULE: u32 = 16;
const SYS_RAWIO: u32 = 17;
const SYS_CHROOT: u32 = 18;
const SYS_PTRACE: u32 = 19;
const SYS_PACCT: u32 = 20;
const SYS_ADMIN: u32 = 21;
const SYS_BOOT: u32 = 22;
const SYS_NICE: u32 = 23;
const SYS_TIME: u32 = 25;
const SYS_TTY_CONFIG: u32 = 26;
const SYSLOG: u32 = 34;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

/// Every container.
const EVERYBODY: &str = "
accept accept4 access adjtimex alarm bind brk cachestat capget capset chdir chmod chown clock_adjtime clock_getres
clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1
epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group
faccessat faccessat2 fadvise64 fallocate fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync
fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait
futex_waitv futex_wake futimesat getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername
getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit get_robust_list getrusage getsid
getsockname getsockopt get_thread_area gettid gettimeofday getuid getxattr getxattrat inotify_add_watch inotify_init
inotify_init1 inotify_rm_watch io_cancel ioctl io_destroy io_getevents io_pgetevents ioprio_get ioprio_set io_setup
io_submit kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen listmount
listxattr listxattrat llistxattr lremovexattr lseek lsetxattr lstat madvise map_shadow_stack membarrier memfd_create
memfd_secret mincore mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap mprotect mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap
name_to_handle_at nanosleep newfstatat open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc
pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_mrelease process_vm_readv
process_vm_writev pselect6 ptrace pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg
recvmsg remap_file_pages removexattr removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction
rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo
sched_getaffinity sched_getattr sched_getparam sched_get_priority_max sched_get_priority_min sched_getscheduler
sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select semctl
semget semop semtimedop sendfile sendmmsg sendmsg sendto setfsgid setfsuid setgid setgroups setitimer setpgid setpriority
setregid setresgid setresuid setreuid setrlimit set_robust_list setsid setsockopt set_thread_area set_tid_address setuid
setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socketpair splice stat statfs
statmount statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create timer_delete
timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate umask uname
unlink unlinkat uretprobe utime utimensat utimes vfork vmsplice wait4 waitid write writev arch_prctl modify_ldt
";

/// With one of these capabilities, these calls too.
const WITH_CAPABILITY: [(u32, &str); 14] = [
    (DAC_READ_SEARCH, "open_by_handle_at"),
    (
        SYS_ADMIN,
        "bpf clone clone3 fanotify_init fsconfig fsmount fsopen fspick lookup_dcookie lsm_get_self_attr lsm_list_modules
         lsm_set_self_attr mount mount_setattr move_mount open_tree open_tree_attr perf_event_open quotactl quotactl_fd
         setdomainname sethostname setns syslog umount2 unshare",
    ),
    (SYS_BOOT, "reboot"),
    (SYS_CHROOT, "chroot"),
    (SYS_MODULE, "delete_module finit_module init_module"),
    (SYS_PACCT, "acct"),
    (SYS_PTRACE, "kcmp pidfd_getfd process_madvise"),
    (SYS_RAWIO, "iopl ioperm"),
    (SYS_TIME, "clock_settime settimeofday"),
    (SYS_TTY_CONFIG, "vhangup"),
    (SYS_NICE, "get_mempolicy mbind set_mempolicy set_mempolicy_home_node"),
    (SYSLOG, "syslog"),
    (BPF, "bpf"),
    (PERFMON, "perf_event_open"),
];

/// Capabilities on which the profile depends.
pub(super) const RELEVANT_CAPABILITIES: u64 = {
    let mut bits = 0;
    let mut place = 0;
    while place < WITH_CAPABILITY.len() {
        bits |= 1 << WITH_CAPABILITY[place].0;
        place += 1;
    }
    bits
};

/// Flags of `clone` that make a namespace: mount, cgroup, UTS, IPC, user, PID, network.
const NEW_NAMESPACES: u64 = 0x7E02_0000;
/// A virtual machine's socket to its host: it leaves every network namespace.
const AF_VSOCK: u64 = 40;
/// Execution domains that programs ask for: plain, 32-bit addresses' name, with either `UNAME26`, and the question itself.
const PERSONALITIES: [u64; 5] = [0, 0x0008, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// The profile for a container with these capabilities in its bounding set.
pub(super) fn default_profile(capabilities: u64) -> Profile {
    let has = |capability: u32| capabilities & (1 << capability) != 0;
    let allowed = |names: &str, conditions: Vec<ArgumentCondition>| CallGroup {
        names: names.split_whitespace().map(str::to_owned).collect(),
        conditions,
        action: Action::Allow,
    };
    let first_argument = |comparison: Comparison, value: u64| {
        vec![ArgumentCondition { index: 0, narrow: true, comparison, value }]
    };

    let mut groups = vec![allowed(EVERYBODY, Vec::new())];
    groups.push(allowed("socket", first_argument(Comparison::NotEqual, AF_VSOCK)));
    groups.extend(
        PERSONALITIES.map(|domain| allowed("personality", first_argument(Comparison::Equal, domain))),
    );
    groups.extend(
        WITH_CAPABILITY
            .iter()
            .filter(|(capability, _)| has(*capability))
            .map(|(_, names)| allowed(names, Vec::new())),
    );
    if !has(SYS_ADMIN) {
        groups.push(allowed("clone", first_argument(Comparison::MaskedEqual(NEW_NAMESPACES), 0)));
        // A filter cannot look into its argument; the C library then falls back to `clone`.
        groups.push(CallGroup {
            names: vec!["clone3".to_owned()],
            conditions: Vec::new(),
            action: Action::Fail(libc::ENOSYS as u16),
        });
    }
    Profile { default: Action::Fail(libc::EPERM as u16), groups }
}
