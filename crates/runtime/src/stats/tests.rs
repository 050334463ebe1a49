//! Figures from files as both versions write them, and from this machine.

use super::*;

/// A group's directories: files given as `controller/file` for version 1, `file` for version 2.
fn group(files: &[(&str, &str)]) -> GroupUsage {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let version_2 = files.iter().any(|(path, _)| !path.contains('/'));
    read_group(|controller| {
        let directory = if version_2 { root.path().to_owned() } else { root.path().join(controller) };
        directory.exists().then_some(directory)
    })
}

#[test]
fn version_1_is_read_with_the_groups_below() {
    let usage = group(&[
        ("cpuacct/cpuacct.usage", "123456789\n"),
        ("memory/memory.usage_in_bytes", "10485760\n"),
        ("memory/memory.limit_in_bytes", "67108864\n"),
        ("memory/memory.memsw.usage_in_bytes", "11485760\n"),
        ("memory/memory.memsw.limit_in_bytes", "134217728\n"),
        (
            "memory/memory.stat",
            "cache 1\nrss 2\ninactive_file 3\ntotal_cache 5000\ntotal_rss 4000000\ntotal_inactive_file 485760\n\
             total_pgfault 77\ntotal_pgmajfault 7\n",
        ),
        ("pids/pids.current", "12\n"),
    ]);
    let memory = MemoryFigures {
        usage: 10_485_760,
        working_set: 10_000_000,
        available: Some(57_108_864),
        resident: Some(4_000_000),
        page_faults: Some(77),
        major_page_faults: Some(7),
    };
    let swap = SwapFigures { usage: 1_000_000, available: Some(66_108_864) };
    let expected = GroupUsage {
        cpu_nanoseconds: Some(123_456_789),
        memory: Some(memory),
        swap: Some(swap),
        processes: Some(12),
    };
    assert_eq!(usage, expected);
}

#[test]
fn version_2_is_read_from_its_one_directory() {
    let usage = group(&[
        ("cpu.stat", "usage_usec 123456\nuser_usec 1\nsystem_usec 2\n"),
        ("memory.current", "10485760\n"),
        ("memory.max", "max\n"),
        ("memory.swap.current", "4096\n"),
        ("memory.swap.max", "8192\n"),
        (
            "memory.stat",
            "anon 4000000\nfile 1\ninactive_file 485760\ninactive_file_x 9\npgfault 77\npgmajfault 7\n",
        ),
        ("pids.current", "3\n"),
    ]);
    let memory = usage.memory.expect("counted");
    assert_eq!((memory.usage, memory.working_set), (10_485_760, 10_000_000));
    assert_eq!((memory.available, memory.resident), (None, Some(4_000_000)));
    assert_eq!(usage.swap, Some(SwapFigures { usage: 4096, available: Some(4096) }));
    assert_eq!((usage.cpu_nanoseconds, usage.processes), (Some(123_456_000), Some(3)));
}

#[test]
fn what_is_not_counted_is_absent_and_what_is_damaged_too() {
    assert_eq!(group(&[]), GroupUsage::default());
    assert_eq!(read_group(|_| None), GroupUsage::default());
    let damaged = group(&[
        ("cpuacct/cpuacct.usage", "many\n"),
        ("memory/memory.usage_in_bytes", "-1\n"),
        ("pids/pids.current", "\n"),
    ]);
    assert_eq!(damaged, GroupUsage::default());
    let sparse =
        group(&[("memory/memory.usage_in_bytes", "5"), ("memory/memory.stat", "inactive_file 9\nrss\n")]);
    let memory = sparse.memory.expect("the usage alone");
    assert_eq!((memory.working_set, memory.available, memory.resident), (0, None, None), "never below zero");
}

#[test]
fn version_1_writes_no_limit_as_a_large_number() {
    for (text, expected) in [
        ("9223372036854771712\n", None),
        ("9223372036854710272\n", None),
        ("max\n", None),
        ("67108864\n", Some(67_108_864)),
        ("", None),
    ] {
        assert_eq!(limit(text), expected, "{text}");
    }
}

#[test]
fn a_tree_is_measured_without_links_and_with_each_file_once() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("large"), vec![1; 1 << 20]).unwrap();
    let empty = measure_tree(root.path()).unwrap();
    assert_eq!(empty.inodes, 1);
    fs::create_dir(root.path().join("d")).unwrap();
    fs::write(root.path().join("d/file"), vec![1; 64 * 1024]).unwrap();
    fs::hard_link(root.path().join("d/file"), root.path().join("again")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), root.path().join("link")).unwrap();
    std::os::unix::fs::symlink(root.path(), root.path().join("loop")).unwrap();
    let usage = measure_tree(root.path()).unwrap();
    assert_eq!(usage.inodes, 5, "root, d, file, and two links");
    assert!((64 * 1024..512 * 1024).contains(&usage.bytes), "{usage:?}");
    assert!(measure_tree(&root.path().join("absent")).is_err());
}

#[test]
fn links_are_read_from_the_kernels_table() {
    let text = "Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
        lo:     100       1    0    0    0     0          0         0      100       1    0    0    0     0       0          0\n  \
        eth0: 4242 7 1 0 0 0 0 0 2121 9 2 0 0 0 0 0\n broken: 1 2\n";
    let eth0 = LinkFigures {
        name: "eth0".into(),
        received_bytes: 4242,
        receive_errors: 1,
        sent_bytes: 2121,
        send_errors: 2,
    };
    assert_eq!(parse_links(text), std::slice::from_ref(&eth0));
    let message = network_message(&[eth0], 1).expect("a link");
    assert_eq!(message.default_interface.expect("eth0").rx_bytes, number(4242));
    assert_eq!(network_message(&[], 1), None);
}

#[test]
fn this_process_is_counted_where_the_machine_counts() {
    // Wherever a machine counts processes at all, its root group has the files of one version or the other.
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let usage = read_group(|controller| {
        let version_1 = Path::new("/sys/fs/cgroup").join(controller);
        if version_1.is_dir() {
            Some(version_1)
        } else {
            roots.iter().map(PathBuf::from).find(|root| root.is_dir())
        }
    });
    if Path::new("/sys/fs/cgroup/cpuacct/cpuacct.usage").exists()
        || Path::new("/sys/fs/cgroup/cpu.stat").exists()
    {
        assert!(usage.cpu_nanoseconds.is_some_and(|nanoseconds| nanoseconds > 0));
        assert!(usage.cpu_message(1).is_some());
    } else {
        assert_eq!(usage.cpu_nanoseconds, None);
    }
}

#[test]
fn a_disk_is_named_by_its_mount_point() {
    assert_eq!(mount_point_of(Path::new("/proc/self")), Path::new("/proc"));
    assert_eq!(mount_point_of(Path::new("/")), Path::new("/"));
}
