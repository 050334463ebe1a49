//! What a container may and may not do: users, capabilities, filters, file systems, limits, namespaces.

use std::collections::BTreeMap;

use cri::v1::security_profile::ProfileType;
use cri::v1::{
    Capability, ContainerConfig, Int64Value, LinuxContainerResources, Mount, MountPropagation, NamespaceMode,
    SecurityProfile,
};

use crate::harness::Test;
use crate::node::{Node, program, script, security, texts};

pub(crate) const TESTS: [Test; 12] = [
    ("a container runs as the user and groups it was given", || Box::pin(users())),
    ("capabilities and filters are exactly the default ones", || Box::pin(capabilities())),
    ("capabilities are added, dropped and given to a user", || Box::pin(chosen_capabilities())),
    ("a container that eats memory is killed and said to be", || Box::pin(out_of_memory())),
    ("a fork bomb meets the limit of its pod", || Box::pin(fork_bomb())),
    ("the way out of a container is closed", || Box::pin(escape_probes())),
    ("secrets of the machine are hidden from its own image", || Box::pin(hidden_paths())),
    ("volumes are mounted as asked", || Box::pin(volumes())),
    ("a read-only root stays what it is", || Box::pin(read_only_root())),
    ("containers of a pod share what they should", || Box::pin(sharing())),
    ("processes are shared when the pod asks for it", || Box::pin(shared_processes())),
    ("a privileged container is", || Box::pin(privileged())),
];

async fn users() {
    let mut node = Node::start().await;
    let identity = "id -u; id -g; id -G; echo $HOME";
    let run = |config: &mut ContainerConfig, uid: i64, gid: Option<i64>, groups: &[i64]| {
        let security = security(config);
        security.run_as_user = Some(Int64Value { value: uid });
        security.run_as_group = gid.map(|value| Int64Value { value });
        security.supplemental_groups = groups.to_vec();
    };
    let mut config = script(identity);
    run(&mut config, 1234, Some(3000), &[2000, 4000]);
    let (status, log) = node.run(config).await;
    assert_eq!(texts(&log), ["1234", "3000", "3000 2000 4000", "/"]);
    let user = status.user.unwrap().linux.unwrap();
    assert_eq!((user.uid, user.gid, user.supplemental_groups), (1234, 3000, vec![3000, 2000, 4000]));
    let mut config = script(identity);
    security(&mut config).run_as_username = "daemon".to_owned();
    let (_, log) = node.run(config).await;
    assert_eq!(texts(&log), ["1", "1", "1", "/usr/sbin"]);
    let mut config = script("true");
    security(&mut config).run_as_username = "no-such-user".to_owned();
    let sandbox = node.sandbox(node.pod("nobody", true)).await;
    let error = node.create(&sandbox, config).await.unwrap_err();
    assert!(error.message().contains("no user \"no-such-user\""), "{error}");
    let mut config = script("true");
    run(&mut config, 4_294_967_296, None, &[]);
    assert_eq!(node.create(&sandbox, config).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    node.end().await;
}

/// Lines of /proc/self/status of a container.
async fn process_status(
    node: &mut Node,
    change: impl FnOnce(&mut ContainerConfig),
) -> BTreeMap<String, String> {
    let mut config = program(&["/bin/cat", "/proc/self/status"]);
    change(&mut config);
    let (status, log) = node.run(config).await;
    assert_eq!(status.exit_code, 0, "{log:?}");
    log.iter()
        .filter_map(|line| line.text.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

const DEFAULT: &str = "00000000a80425fb";
const NONE: &str = "0000000000000000";

fn default_filter(config: &mut ContainerConfig) {
    security(config).seccomp = Some(SecurityProfile::default());
}

async fn capabilities() {
    let mut node = Node::start().await;
    let status = process_status(&mut node, default_filter).await;
    for (name, value) in
        [("CapBnd", DEFAULT), ("CapEff", DEFAULT), ("CapPrm", DEFAULT), ("CapInh", NONE), ("CapAmb", NONE)]
    {
        assert_eq!(status[name], value, "{name}");
    }
    assert_eq!((status["Seccomp"].as_str(), status["NoNewPrivs"].as_str()), ("2", "0"));
    let status = process_status(&mut node, |config| {
        default_filter(config);
        security(config).run_as_user = Some(Int64Value { value: 1000 });
        security(config).no_new_privs = true;
    })
    .await;
    assert_eq!((status["CapEff"].as_str(), status["CapBnd"].as_str()), (NONE, DEFAULT));
    assert_eq!((status["Seccomp"].as_str(), status["NoNewPrivs"].as_str()), ("2", "1"));
    assert_eq!(status["Uid"], "1000\t1000\t1000\t1000");
    let status = process_status(&mut node, |config| {
        security(config).seccomp = Some(SecurityProfile {
            profile_type: ProfileType::Unconfined.into(),
            localhost_ref: String::new(),
        });
    })
    .await;
    assert_eq!(status["Seccomp"], "0");
    let profile = node.directory.path().join("profile.json");
    std::fs::write(
        &profile,
        r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO","errnoRet":1}]}"#,
    )
    .unwrap();
    let mut config = script("mkdir /tmp/x || echo refused");
    security(&mut config).seccomp = Some(SecurityProfile {
        profile_type: ProfileType::Localhost.into(),
        localhost_ref: profile.display().to_string(),
    });
    let (_, log) = node.run(config).await;
    assert!(texts(&log).contains(&"refused"), "{log:?}");
    node.end().await;
}

async fn chosen_capabilities() {
    let mut node = Node::start().await;
    let change = |add: &[&str], drop: &[&str], ambient: &[&str]| {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Capability {
            add_capabilities: own(add),
            drop_capabilities: own(drop),
            add_ambient_capabilities: own(ambient),
        }
    };
    let wish = change(&["NET_BIND_SERVICE"], &["ALL"], &[]);
    let status = process_status(&mut node, |config| security(config).capabilities = Some(wish)).await;
    assert_eq!(status["CapEff"], "0000000000000400");
    let wish = change(&[], &["ALL"], &["NET_BIND_SERVICE"]);
    let status = process_status(&mut node, |config| {
        security(config).capabilities = Some(wish);
        security(config).run_as_user = Some(Int64Value { value: 1000 });
    })
    .await;
    assert_eq!(
        (status["CapEff"].as_str(), status["CapAmb"].as_str()),
        ("0000000000000400", "0000000000000400")
    );
    node.end().await;
}

async fn out_of_memory() {
    let mut node = Node::start().await;
    let mut config = script("exec tail /dev/zero");
    config.linux.as_mut().unwrap().resources =
        Some(LinuxContainerResources { memory_limit_in_bytes: 32 << 20, ..Default::default() });
    let (status, _) = node.run(config).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (137, "OOMKilled"));
    node.end().await;
}

async fn fork_bomb() {
    let mut node = Node::start_with(|config| config.pod_max_pids = Some(40)).await;
    let (status, log) = node.run(script("for i in $(seq 100); do sleep 100 & done; echo forked")).await;
    assert!(!texts(&log).contains(&"forked") || status.exit_code != 0 || log.len() > 1, "{log:?}");
    assert!(log.iter().any(|line| line.text.contains("fork")), "{log:?}");
    node.end().await;
}

async fn escape_probes() {
    let mut node = Node::start().await;
    let probes = r#"
        probe() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "OPEN $name"; fi; }
        probe write-sysrq sh -c 'echo h > /proc/sysrq-trigger'
        probe write-proc-sys sh -c 'echo 1 > /proc/sys/kernel/panic'
        probe read-kcore sh -c 'head -c 1 /proc/kcore | grep -q .'
        probe write-sys sh -c 'echo 1 > /sys/kernel/profiling'
        probe remount-proc mount -o remount,rw /proc/sys
        probe mount-tmpfs mount -t tmpfs none /mnt
        probe unshare unshare -m true
        probe user-namespace unshare -U true
        probe raise-memory sh -c 'echo -1 > /sys/fs/cgroup/memory/memory.limit_in_bytes'
        probe raise-pids sh -c 'echo max > /sys/fs/cgroup/pids/pids.max || echo max > /sys/fs/cgroup/pids.max'
        probe enter-init nsenter -t 1 -m -- test -e /proc/1/root/etc/shadow
        probe keyring keyctl show
        probe hostname hostname other
        probe ptrace-parent test -r /proc/1/mem -a ! -e /proc/1/exe
        probe ws test -e /proc/self/fd/3
        for major in 8 253 254 259; do
            mknod /tmp/disk$major b $major 0 2>/dev/null
            probe read-disk$major dd if=/tmp/disk$major of=/dev/null bs=1 count=1
        done
        mknod /tmp/mem c 1 1 2>/dev/null
        probe read-mem dd if=/tmp/mem of=/dev/null bs=1 count=1
        ls /proc | grep -c '^[0-9]' | sed 's/^/processes /'
        grep -c . /proc/self/mountinfo | sed 's/^/mounts /'
        readlink /proc/1/exe
        head -c 100 /proc/1/cgroup | head -1
    "#;
    let mut config = script(probes);
    default_filter(&mut config);
    let (status, log) = node.run(config).await;
    assert_eq!(status.exit_code, 0);
    let seen = texts(&log);
    let open: Vec<&&str> = seen.iter().filter(|line| line.starts_with("OPEN")).collect();
    assert!(open.is_empty(), "{open:?}");
    let processes: usize =
        seen.iter().find_map(|line| line.strip_prefix("processes ")).unwrap().parse().unwrap();
    assert!(processes < 8, "other processes are visible: {processes}");
    // The program file of ours is nowhere to be seen.
    assert!(seen.iter().all(|line| !line.contains("containers-")), "{seen:?}");
    node.end().await;
}

async fn hidden_paths() {
    let mut node = Node::start().await;
    let own = node.directory.path().join("runtime");
    let (_, log) = node
        .run(script(&format!(
            "ls -A /root | head -3; cat /etc/shadow | head -1; ls -A {} | head -3; touch /root/x && echo home; touch /new && echo written",
            own.display()
        )))
        .await;
    assert_eq!(texts(&log), ["home", "written"]);
    assert!(!std::path::Path::new("/new").exists() && !std::path::Path::new("/root/x").exists());
    node.end().await;
}

async fn volumes() {
    let mut node = Node::start().await;
    let volume = node.directory.path().join("volume");
    std::fs::create_dir_all(volume.join("inner")).unwrap();
    std::fs::write(volume.join("file"), "content\n").unwrap();
    let host = volume.display().to_string();
    let mut config = script(
        "cat /data/file; echo more > /data/out; echo x > /readonly/out || echo refused; cat /one/file; cat /etc/resolv.conf > /dev/null && echo resolver; cat /etc/hostname",
    );
    config.mounts = vec![
        Mount { container_path: "/one/file".into(), host_path: format!("{host}/file"), ..Default::default() },
        Mount { container_path: "/data".into(), host_path: host.clone(), ..Default::default() },
        Mount {
            container_path: "/readonly".into(),
            host_path: host.clone(),
            readonly: true,
            ..Default::default()
        },
    ];
    let (status, log) = node.run(config).await;
    assert_eq!(status.exit_code, 0, "{log:?}");
    let out: Vec<&str> =
        log.iter().filter(|line| line.stream == "stdout").map(|line| line.text.as_str()).collect();
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    assert_eq!(out, ["content", "refused", "content", "resolver", hostname.as_str()]);
    assert_eq!(std::fs::read_to_string(volume.join("out")).unwrap(), "more\n");

    let sandbox = node.sandbox(node.pod("missing", true)).await;
    let mut config = script("true");
    config.mounts = vec![Mount {
        container_path: "/data".into(),
        host_path: format!("{host}/nothing"),
        ..Default::default()
    }];
    let error = node.create(&sandbox, config).await.unwrap_err();
    assert!(error.message().contains("nothing"), "{error}");

    // What the node mounts later arrives where the pod asked for it.
    let mut config = script("echo up; while [ ! -e /data/inner/late ]; do sleep 0.02; done; echo late");
    config.mounts = vec![Mount {
        container_path: "/data".into(),
        host_path: host.clone(),
        propagation: MountPropagation::PropagationHostToContainer.into(),
        ..Default::default()
    }];
    let shared = std::fs::read_to_string("/proc/self/mountinfo")
        .unwrap()
        .lines()
        .any(|line| line.split(' ').nth(4) == Some("/") && line.contains("shared:"));
    if shared {
        let id = node.launch(&sandbox, config).await;
        node.logged(&id, "up").await;
        rustix::mount::mount(
            "tmpfs",
            volume.join("inner"),
            "tmpfs",
            rustix::mount::MountFlags::empty(),
            None,
        )
        .unwrap();
        std::fs::write(volume.join("inner/late"), "").unwrap();
        let ended = node.ended(&id).await;
        rustix::mount::unmount(volume.join("inner"), rustix::mount::UnmountFlags::empty()).unwrap();
        assert_eq!(ended.exit_code, 0);
    }
    node.end().await;
}

async fn read_only_root() {
    let mut node = Node::start().await;
    let mut config =
        script("touch /x || echo refused; touch /dev/shm/y && echo shm; touch /tmp/z || echo refused");
    security(&mut config).readonly_rootfs = true;
    let (_, log) = node.run(config).await;
    let out: Vec<&str> =
        log.iter().filter(|line| line.stream == "stdout").map(|line| line.text.as_str()).collect();
    assert_eq!(out, ["refused", "shm", "refused"]);
    node.end().await;
}

async fn sharing() {
    let mut node = Node::start().await;
    let mut pod = node.pod("shared", false);
    pod.linux.as_mut().unwrap().sysctls =
        BTreeMap::from([("net.ipv4.ip_unprivileged_port_start".into(), "7".into())]);
    let sandbox = node.sandbox(pod).await;
    let first = node.launch(&sandbox, script("echo hello > /dev/shm/x; hostname; cat /proc/sys/net/ipv4/ip_unprivileged_port_start; ls /sys/class/net; echo done; exec sleep 1000")).await;
    node.logged(&first, "done").await;
    let mut second = script("cat /dev/shm/x; ls /proc | grep -c '^[0-9]'");
    second.log_path = "d/0.log".to_owned();
    let second = node.launch(&sandbox, second).await;
    let status = node.ended(&second).await;
    let log = crate::node::read_log(std::path::Path::new(&status.log_path));
    let seen = texts(&log);
    assert_eq!(seen[0], "hello");
    assert!(seen[1].parse::<u32>().unwrap() < 6, "own process namespace: {seen:?}");
    let path = node.status(&first).await.log_path;
    let log = crate::node::read_log(std::path::Path::new(&path));
    let seen = texts(&log);
    assert_eq!(seen[..2], ["shared", "7"]);
    assert!(seen.contains(&"eth0") && seen.contains(&"lo"), "{seen:?}");
    node.end().await;
}

async fn shared_processes() {
    let mut node = Node::start().await;
    let mut pod = node.pod("processes", true);
    let options =
        pod.linux.as_mut().unwrap().security_context.as_mut().unwrap().namespace_options.as_mut().unwrap();
    options.pid = NamespaceMode::Pod.into();
    let sandbox = node.sandbox(pod).await;
    let shared = |text: &str, log: &str| {
        let mut config = script(text);
        security(&mut config).namespace_options.as_mut().unwrap().pid = NamespaceMode::Pod.into();
        config.log_path = log.to_owned();
        config
    };
    let first = node.launch(&sandbox, shared("(sleep 1234 &); echo up; exec sleep 1000", "a/0.log")).await;
    node.logged(&first, "up").await;
    let second = node
        .launch(
            &sandbox,
            shared("tr '\\0' ' ' < /proc/1/cmdline; cat /proc/[0-9]*/cmdline | tr '\\0' ' '", "b/0.log"),
        )
        .await;
    let status = node.ended(&second).await;
    let text = std::fs::read_to_string(&status.log_path).unwrap();
    assert!(text.contains("sleep 1000") && text.contains("sleep 1234"), "{text}");
    // Through the process that keeps the namespace even a tracer finds nothing.
    let mut tracer = shared("ls -A /proc/1/root/ | wc -l; grep CapEff /proc/1/status", "t/0.log");
    security(&mut tracer).capabilities =
        Some(Capability { add_capabilities: vec!["SYS_PTRACE".into()], ..Default::default() });
    let tracer = node.launch(&sandbox, tracer).await;
    let status = node.ended(&tracer).await;
    let log = crate::node::read_log(std::path::Path::new(&status.log_path));
    assert_eq!(texts(&log), ["0", "CapEff:\t0000000000000000"]);
    // What a container leaves behind ends with it, although its namespace goes on.
    node.stop(&first, 0).await;
    let third = node.launch(&sandbox, shared("cat /proc/[0-9]*/cmdline | tr '\\0' ' '", "c/0.log")).await;
    let status = node.ended(&third).await;
    let text = std::fs::read_to_string(&status.log_path).unwrap();
    // The time in front of a line may hold any digits.
    assert!(text.contains("cat ") && !text.contains("sleep 1234"), "{text}");
    node.end().await;
}

async fn privileged() {
    let mut node = Node::start().await;
    let mut config = script(
        "mount -t tmpfs none /mnt && echo mounted; test -w /proc/sys/kernel/panic && echo writable; ls /dev | wc -l",
    );
    security(&mut config).privileged = true;
    let (_, log) = node.run(config).await;
    let seen = texts(&log);
    assert_eq!(seen[..2], ["mounted", "writable"]);
    assert!(seen[2].parse::<u32>().unwrap() > 15, "{seen:?}");
    node.end().await;
}
