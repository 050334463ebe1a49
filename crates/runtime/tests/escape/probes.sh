# Tries, from inside a container, what a container must not be able to do. Needs a POSIX shell, busybox or coreutils, and for
# bare system calls perl (left out without). Prints one line a probe: `held NAME`, or `ESCAPED NAME: WHAT`.
# Nothing here changes anything even where a probe succeeds: files are opened for appending and nothing is written.
# EXPECTED_CAPABILITIES: the effective set, in hexadecimal, as /proc shows it.

held() { echo "held $1"; }
escaped() { echo "ESCAPED $1: $2"; }

# must_fail NAME COMMAND...: the command must not succeed.
must_fail() {
    name=$1
    shift
    if "$@" >/dev/null 2>&1; then escaped "$name" "$*"; else held "$name"; fi
}
# A command that is not there proves nothing, so it is not counted.
must_fail_if_there() {
    if command -v "$2" >/dev/null 2>&1; then must_fail "$@"; fi
}
opens_for_writing() { ( : >>"$1" ); }
has_content() { [ -n "$(head -c 1 "$1" 2>/dev/null | od -An -tx1)" ]; }
field() { sed -n "s/^$1:[[:space:]]*//p" /proc/self/status; }
equals() { if [ "$2" = "$3" ]; then held "$1"; else escaped "$1" "$2 instead of $3"; fi; }

# Who we are.
equals "effective capabilities" "$(field CapEff)" "$EXPECTED_CAPABILITIES"
equals "inheritable capabilities" "$(field CapInh)" 0000000000000000
equals "ambient capabilities" "$(field CapAmb)" 0000000000000000
equals "bounding capabilities" "$(field CapBnd)" 00000000a80425fb
equals "seccomp filter" "$(field Seccomp)" 2

# What was left open: nothing but standard input, output and error (and the directory that is being listed).
extra=
for descriptor in /proc/self/fd/*; do
    case ${descriptor##*/} in
    0 | 1 | 2) ;;
    *)
        target=$(readlink "$descriptor" 2>/dev/null) || continue
        case $target in
        /proc/*/fd) ;;
        *) extra="$extra $target" ;;
        esac
        ;;
    esac
done
equals "inherited descriptors" "$extra" ""
case $(readlink /proc/self/cwd) in
/*) held "working directory" ;;
*) escaped "working directory" "$(readlink /proc/self/cwd)" ;;
esac
must_fail "runtime program" sh -c 'readlink /proc/1/exe /proc/self/exe | grep -q coracle'

# Masked: nothing of the machine is read there.
for path in /proc/kcore /proc/keys /proc/latency_stats /proc/timer_list /proc/timer_stats /proc/sched_debug \
    /proc/interrupts; do
    if [ -e "$path" ]; then must_fail "read $path" has_content "$path"; fi
done
for path in /proc/acpi /proc/scsi /proc/asound /sys/firmware /sys/devices/virtual/powercap; do
    if [ -d "$path" ]; then equals "list $path" "$(ls -A "$path" 2>/dev/null)" ""; fi
done

# Read-only: nothing of the machine is set there.
for path in /proc/sysrq-trigger /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/kernel/hostname \
    /proc/sys/vm/panic_on_oom /proc/sys/fs/binfmt_misc/register /proc/sys/net/ipv4/ip_forward /proc/irq/default_smp_affinity \
    /sys/kernel/uevent_helper /sys/power/state /sys/kernel/mm/transparent_hugepage/enabled /proc/bus/pci/00/00.0; do
    if [ -e "$path" ]; then must_fail "write $path" opens_for_writing "$path"; fi
done

# Control groups: no limit of one's own is raised, no program of the machine is named.
count=0
for file in $(find /sys/fs/cgroup -type f 2>/dev/null | head -n 400); do
    case ${file##*/} in
    release_agent | notify_on_release | cgroup.procs | tasks | *.max | *limit_in_bytes | devices.allow | cgroup.kill | cpu.*)
        count=$((count + 1))
        if opens_for_writing "$file" 2>/dev/null; then escaped "write $file" opened; fi
        ;;
    esac
done
held "control group files ($count)"
if [ -d /sys/fs/cgroup ]; then must_fail "make a control group" mkdir /sys/fs/cgroup/escape; fi
for controller in /sys/fs/cgroup/*/; do
    if [ -d "$controller" ]; then must_fail "make a control group in $controller" mkdir "${controller}escape"; fi
done

# Mounts and namespaces.
scratch=$(mktemp -d)
must_fail "mount tmpfs" mount -t tmpfs none "$scratch"
must_fail "mount proc" mount -t proc none "$scratch"
must_fail "mount sysfs" mount -t sysfs none "$scratch"
must_fail "mount cgroup" mount -t cgroup -o memory none "$scratch"
must_fail "mount cgroup2" mount -t cgroup2 none "$scratch"
must_fail "bind mount" mount --bind / "$scratch"
must_fail "remount /proc/sys" mount -o remount,rw /proc/sys
must_fail "remount /sys" mount -o remount,rw /sys
must_fail "unmask /proc/kcore" umount /proc/kcore
must_fail "unmask /sys/firmware" umount /sys/firmware
must_fail_if_there "new user namespace" unshare -U true
must_fail_if_there "new mount namespace" unshare -m true
must_fail_if_there "new network namespace" unshare -n true
must_fail_if_there "enter a mount namespace" nsenter --mount=/proc/1/ns/mnt true
must_fail_if_there "enter a network namespace" nsenter --net=/proc/1/ns/net true

# Devices: a node may be made, but leads nowhere.
device() {
    rm -f "$scratch/node"
    mknod "$scratch/node" "$2" "$3" "$4" 2>/dev/null || { held "make $1"; return; }
    if head -c 1 "$scratch/node" >/dev/null 2>&1 || opens_for_writing "$scratch/node" 2>/dev/null; then
        escaped "open $1" "$2 $3 $4"
    else
        held "open $1"
    fi
}
device "the memory" c 1 1
device "the ports" c 1 4
device "the kernel log" c 1 11
device "the kernel's virtual machines" c 10 232
device "the first disk" b 8 0
device "the first virtual disk" b 254 0
device "the first loop device" b 7 0
device "the loop control" c 10 237
while read -r major minor _ name; do
    case $major in
    *[0-9]*) device "the disk $name" b "$major" "$minor" ;;
    esac
done </proc/partitions
for node in /dev/*; do
    if [ -b "$node" ]; then escaped "disk in /dev" "$node"; fi
done
for node in /dev/mem /dev/kmem /dev/port /dev/kmsg /dev/kvm /dev/fuse /dev/loop-control /dev/mapper/control; do
    if [ -c "$node" ]; then must_fail "device $node" opens_for_writing "$node"; fi
done

# The machine itself.
must_fail_if_there "kernel log" dmesg
must_fail "set the host name" hostname escaped
must_fail "set the clock" date -s "@$(date +%s)"
must_fail_if_there "load a module" insmod /nonexistent.ko
must_fail "lower the OOM score" sh -c 'echo -1000 >/proc/self/oom_score_adj'
must_fail_if_there "switch swap on" swapon /nonexistent

# Others: only processes of one's own, no socket of the machine, no metadata service.
must_fail "processes of the machine" sh -c 'grep -qx -e systemd -e kthreadd -e containerd -e coracle -e ksoftirqd/0 /proc/[0-9]*/comm'
must_fail "abstract sockets of the machine" grep -q '@' /proc/net/unix
if command -v wget >/dev/null 2>&1; then
    must_fail "metadata service" wget -q -T 1 -t 1 -O /dev/null http://169.254.169.254/
fi

# Bare system calls: each must be refused with EPERM (1) or as unknown, ENOSYS (38).
case $(uname -m) in
x86_64) calls="keyctl=250 add_key=248 request_key=249 userfaultfd=323 bpf=321 perf_event_open=298 io_uring_setup=425 \
open_by_handle_at=304 kexec_load=246 init_module=175 setns=308 pivot_root=155 unshare=272 fsopen=430 open_tree=428 \
move_mount=429 mount_setattr=442 kcmp=312 pidfd_getfd=438 clone3=435 swapoff=168 reboot=169 iopl=172 acct=163 \
settimeofday=164 quotactl=179 lookup_dcookie=212" ;;
aarch64) calls="keyctl=219 add_key=217 request_key=218 userfaultfd=282 bpf=280 perf_event_open=241 io_uring_setup=425 \
open_by_handle_at=265 kexec_load=104 init_module=105 setns=268 pivot_root=41 unshare=97 fsopen=430 open_tree=428 \
move_mount=429 mount_setattr=442 kcmp=272 pidfd_getfd=438 clone3=435 swapoff=225 reboot=142 acct=89 settimeofday=170 \
quotactl=60 lookup_dcookie=18" ;;
*) calls= ;;
esac
if command -v perl >/dev/null 2>&1; then
    for call in $calls; do
        # Arguments that no call accepts: where the filter lets it through, the kernel says EFAULT, EINVAL or EBADF.
        answer=$(perl -e '$! = 0; my $r = syscall($ARGV[0] + 0, -1, -1, -1, -1, -1, -1); print $r == -1 ? $! + 0 : "done"' "${call#*=}")
        case $answer in
        1 | 38) held "call ${call%=*}" ;;
        *) escaped "call ${call%=*}" "answer $answer" ;;
        esac
    done
    # A socket to the hypervisor, and flags of clone that make a user namespace.
    answer=$(perl -e '$! = 0; my $r = syscall($ARGV[0] + 0, 40, 1, 0); print $r == -1 ? $! + 0 : "done"' \
        "$(case $(uname -m) in x86_64) echo 41 ;; *) echo 198 ;; esac)")
    equals "socket to the hypervisor" "$answer" 1
fi
rm -rf "$scratch"
echo "probes done"
