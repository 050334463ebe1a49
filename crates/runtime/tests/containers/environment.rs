//! What a process sees of its environment, and what nobody else sees of it.

use crate::harness::Test;
use crate::node::{Node, info, program, script, texts, variables};

pub(crate) const TESTS: [Test; 4] = [
    ("variables arrive in order, each once, odd names intact", || Box::pin(order_and_odd_names())),
    ("the verbose status says what the process really got", || Box::pin(verbose_status())),
    ("a nul in a variable is refused by name without its value", || Box::pin(nul_is_refused())),
    ("no process of ours carries a variable of a pod", || Box::pin(nothing_leaks())),
];

async fn order_and_odd_names() {
    let mut node = Node::start().await;
    let mut config = program(&["/usr/bin/env"]);
    config.envs = variables(&[
        ("B", "1"),
        ("A", "2"),
        ("Logging:LogLevel:Default", "Debug"),
        ("B", "3"),
        ("EMPTY", ""),
        ("SPACES", "a  b = c"),
    ]);
    let (status, log) = node.run(config).await;
    assert_eq!(status.exit_code, 0, "{log:?}");
    let seen = texts(&log);
    let (by_runtime, declared) = seen.split_at(2);
    assert!(by_runtime.iter().any(|line| line.starts_with("PATH=/usr/local/sbin:")), "{seen:?}");
    assert!(by_runtime.iter().any(|line| line.starts_with("HOSTNAME=")), "{seen:?}");
    assert_eq!(
        declared,
        ["A=2", "Logging:LogLevel:Default=Debug", "B=3", "EMPTY=", "SPACES=a  b = c", "HOME=/root"]
    );
    node.end().await;
}

async fn verbose_status() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("verbose", true)).await;
    let mut config = script("exit 0");
    config.envs = variables(&[("HOME", "/own"), ("A", "1")]);
    config.working_dir = "/usr".to_owned();
    let id = node.launch(&sandbox, config).await;
    let info = info(&mut node, &id).await;
    let process = &info["runtimeSpec"]["process"];
    assert_eq!(process["args"], serde_json::json!(["/bin/sh", "-c", "exit 0"]));
    assert_eq!(process["cwd"], "/usr");
    assert_eq!(process["user"]["uid"], 0);
    let environment: Vec<&str> =
        process["env"].as_array().unwrap().iter().map(|entry| entry.as_str().unwrap()).collect();
    assert_eq!(environment[2..], ["HOME=/own", "A=1"]);
    node.ended(&id).await;
    node.end().await;
}

async fn nul_is_refused() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("nul", true)).await;
    let mut config = script("exit 0");
    config.envs = variables(&[("BROKEN", "hunter\0two")]);
    let id = node.create(&sandbox, config).await.unwrap();
    let error = node.start_container(&id).await.unwrap_err();
    assert!(error.message().contains("\"BROKEN\""), "{error}");
    assert!(!error.message().contains("hunter"), "{error}");
    assert_eq!(node.status(&id).await.exit_code, 128);
    node.end().await;
}

async fn nothing_leaks() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("secret", false)).await;
    let mut config = script("sleep 1000");
    config.envs = variables(&[("TOKEN", "sup3rs3cret")]);
    let first = node.launch(&sandbox, config).await;
    let mut config = script("exec sleep 1001");
    config.metadata.as_mut().unwrap().name = "d".to_owned();
    config.log_path = "d/0.log".to_owned();
    node.launch(&sandbox, config).await;
    let created = node.create(&sandbox, script("true")).await.unwrap();
    let mut carriers = Vec::new();
    let mut shims = 0;
    for entry in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        assert!(!arguments.contains("sup3rs3cret"), "{arguments}");
        if arguments.starts_with("coracle shim")
            && arguments.contains(node.directory.path().to_str().unwrap())
        {
            assert!(environment.is_empty(), "a process of ours has an environment");
            shims += 1;
        }
        if String::from_utf8_lossy(&environment).contains("sup3rs3cret") {
            carriers.push(arguments);
        }
    }
    assert_eq!(shims, 2, "one shim, and one container that waits to be started");
    assert!(!carriers.is_empty(), "the container itself has it");
    assert!(carriers.iter().all(|arguments| arguments.contains("sleep 1000")), "{carriers:?}");
    // The other container of the same pod does not see it.
    let seen = node.exec(&sandbox, "d", &["/bin/sh", "-c", "cat /proc/*/environ"]).await;
    assert!(!String::from_utf8_lossy(&seen.stdout).contains("sup3rs3cret"));
    for id in [first, created] {
        node.stop(&id, 0).await;
    }
    node.end().await;
}
