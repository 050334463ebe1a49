//! The life of containers: start, output, end, and what happens when somebody in between dies.

use std::path::Path;

use cri::v1::{
    ContainerEventType, ContainerState, GetEventsRequest, ListPodSandboxRequest, PodSandboxState,
    ReopenContainerLogRequest, StopPodSandboxRequest,
};
use futures::StreamExt as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::Test;
use crate::node::{Node, info, program, read_log, script, texts};

pub(crate) const TESTS: [Test; 16] = [
    ("output is logged as it comes and the exit code is kept", || Box::pin(output_and_exit_code())),
    ("a long line is split and a last line without end is logged", || Box::pin(long_lines())),
    ("a program that cannot start says why", || Box::pin(start_errors())),
    ("a container is asked to end and then killed", || Box::pin(stopping())),
    ("a container that gets the number of one that has ended has an end of its own", || {
        Box::pin(number_used_again())
    }),
    ("a flood of output is rotated", || Box::pin(flood())),
    ("a log that was moved away is opened again", || Box::pin(reopening())),
    ("commands are executed with the container's environment", || Box::pin(executing())),
    ("a command gets variables of whoever asks besides the container's", || {
        Box::pin(variables_of_the_asker())
    }),
    ("a sandbox that is stopped from outside gives its containers a last moment", || Box::pin(last_moment())),
    ("a command that takes too long is killed", || Box::pin(executing_too_long())),
    ("the daemon is killed and the next one adopts what runs", || Box::pin(adoption())),
    ("a container that ends while no daemon lives is reported", || Box::pin(end_without_daemon())),
    ("a shim that is killed takes its containers along", || Box::pin(shim_killed())),
    ("damaged state is set aside and the rest goes on", || Box::pin(damaged_state())),
    ("events tell of every change", || Box::pin(events())),
];

async fn output_and_exit_code() {
    let mut node = Node::start().await;
    let (status, log) = node.run(script("echo out; echo err >&2; exit 3")).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (3, "Error"));
    assert!(status.started_at >= status.created_at && status.finished_at >= status.started_at);
    let mut lines: Vec<(&str, &str, &str)> =
        log.iter().map(|line| (line.stream.as_str(), line.tag.as_str(), line.text.as_str())).collect();
    lines.sort_unstable();
    assert_eq!(lines, [("stderr", "F", "err"), ("stdout", "F", "out")]);
    let (status, _) = node.run(script("exit 0")).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (0, "Completed"));
    let (status, _) = node.run(script("kill -9 $$; sleep 5")).await;
    // Process 1 of its namespace cannot kill itself.
    assert_eq!(status.exit_code, 0);
    let (status, _) = node.run(script("sh -c 'kill -SEGV $$'")).await;
    assert_eq!(status.exit_code, 139);
    node.end().await;
}

async fn long_lines() {
    let mut node = Node::start().await;
    let (_, log) = node.run(script("head -c 20000 /dev/zero | tr '\\0' x; echo; printf end")).await;
    let shape: Vec<(&str, usize)> = log.iter().map(|line| (line.tag.as_str(), line.text.len())).collect();
    assert_eq!(shape, [("P", 16384), ("F", 3616), ("F", 3)]);
    node.end().await;
}

async fn start_errors() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("errors", true)).await;
    let mut wrong_directory = program(&["/bin/true"]);
    wrong_directory.working_dir = "/etc/passwd".to_owned();
    let rows = [
        (program(&["no-such-program"]), "\"no-such-program\": executable file not found in $PATH"),
        (program(&["/no/such/program"]), "no such file or directory"),
        (program(&["/etc/passwd"]), "permission denied"),
        (program(&["/usr"]), "is a directory"),
        (wrong_directory, "cannot enter the working directory \"/etc/passwd\""),
        (program(&[]), "no command"),
    ];
    for (config, expected) in rows {
        let id = node.create(&sandbox, config).await.unwrap();
        let error = node.start_container(&id).await.unwrap_err();
        assert!(error.message().contains(expected), "{error}");
        let status = node.status(&id).await;
        assert_eq!(status.state(), ContainerState::ContainerExited);
        assert_eq!((status.exit_code, status.reason.as_str()), (128, "StartError"));
        assert!(status.message.contains(expected), "{status:?}");
    }
    let mut missing = script("true");
    missing.image.as_mut().unwrap().image = "no/such:image".to_owned();
    let error = node.create(&sandbox, missing).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::NotFound);
    node.end().await;
}

async fn stopping() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("stop", true)).await;
    let polite = node
        .launch(&sandbox, script("trap 'echo bye; exit 42' TERM; echo up; while :; do sleep 0.05; done"))
        .await;
    node.logged(&polite, "up").await;
    node.stop(&polite, 20).await;
    let status = node.status(&polite).await;
    assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 42));
    assert_eq!(texts(&read_log(Path::new(&status.log_path))), ["up", "bye"]);

    let mut stubborn = script("trap '' TERM; (while :; do sleep 1; done) & echo stubborn; wait; wait");
    stubborn.log_path = "d/0.log".to_owned();
    let stubborn = node.launch(&sandbox, stubborn).await;
    node.logged(&stubborn, "stubborn").await;
    node.stop(&stubborn, 1).await;
    assert_eq!(node.status(&stubborn).await.exit_code, 137);
    // Once more does nothing.
    node.stop(&stubborn, 1).await;

    let created = node.create(&sandbox, script("true")).await.unwrap();
    node.stop(&created, 5).await;
    assert_eq!(node.status(&created).await.state(), ContainerState::ContainerExited);
    node.end().await;
}

/// It never ended for anybody: its end was taken for that of the container that had had its number before.
async fn number_used_again() {
    const COUNTER: &str = "/proc/sys/kernel/ns_last_pid";
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("again", true)).await;
    let first = node.launch(&sandbox, script("sleep 1000")).await;
    let number = info(&mut node, &first).await["pid"].as_i64().unwrap();
    node.stop(&first, 0).await;
    assert_eq!(node.ended(&first).await.exit_code, 137);
    let mut was_used_again = false;
    for _ in 0..200 {
        // Whoever begins next gets the number, which may be somebody else of this machine.
        std::fs::write(COUNTER, (number - 1).to_string()).unwrap();
        let second = node
            .launch(&sandbox, script("trap 'exit 3' TERM; echo up; while true; do sleep 0.02; done"))
            .await;
        was_used_again = info(&mut node, &second).await["pid"] == number;
        if was_used_again {
            node.logged(&second, "up").await;
        }
        node.stop(&second, 10).await;
        let ended = node.ended(&second).await;
        if was_used_again {
            assert_eq!(ended.exit_code, 3);
            assert_eq!(node.status(&first).await.exit_code, 137, "and the first one keeps its own");
            break;
        }
    }
    assert!(was_used_again, "nobody got the number {number}");
    node.end().await;
}

async fn flood() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("flood", true)).await;
    let id = node
        .launch(&sandbox, script("yes 0123456789012345678901234567890123456789 | head -c 30000000"))
        .await;
    let status = node.ended(&id).await;
    assert_eq!(status.exit_code, 0);
    let directory = Path::new(&status.log_path).parent().unwrap();
    let sizes: Vec<u64> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    assert_eq!(sizes.len(), 5, "{sizes:?}");
    // A turn of the shim's loop may go over by what it had read.
    assert!(sizes.iter().all(|size| *size < 12 * 1024 * 1024), "{sizes:?}");
    node.end().await;
}

async fn reopening() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("reopen", true)).await;
    let id = node
        .launch(&sandbox, script("echo one; while [ ! -e /tmp/go ]; do sleep 0.02; done; echo two"))
        .await;
    node.logged(&id, "one").await;
    let path = node.status(&id).await.log_path;
    let moved = format!("{path}.moved");
    std::fs::rename(&path, &moved).unwrap();
    node.runtime.reopen_container_log(ReopenContainerLogRequest { container_id: id.clone() }).await.unwrap();
    node.exec_in(&id, &["touch", "/tmp/go"], 10).await.unwrap();
    node.ended(&id).await;
    assert_eq!(texts(&read_log(Path::new(&moved))), ["one"]);
    assert_eq!(texts(&read_log(Path::new(&path))), ["two"]);
    node.end().await;
}

async fn executing() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("exec", false)).await;
    let mut config = script("echo up; exec sleep 1000");
    config.envs = crate::node::variables(&[("A", "1"), ("B.c", "2")]);
    config.working_dir = "/usr".to_owned();
    let id = node.launch(&sandbox, config).await;
    let done =
        node.exec_in(&id, &["/bin/sh", "-c", "pwd; hostname; echo err >&2; exit 5"], 10).await.unwrap();
    assert_eq!(done.exit_code, 5);
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "/usr\nexec\n");
    assert_eq!(done.stderr, b"err\n");
    let done = node.exec_in(&id, &["env"], 10).await.unwrap();
    assert!(String::from_utf8(done.stdout).unwrap().ends_with("\nA=1\nB.c=2\nHOME=/root\n"));
    let error = node.exec_in(&id, &["nope"], 10).await.unwrap_err();
    assert!(error.message().contains("\"nope\": executable file not found in $PATH"), "{error}");
    // More than fits into any pipe, and more than is kept.
    let done = node.exec_in(&id, &["head", "-c", "20000000", "/dev/zero"], 30).await.unwrap();
    assert_eq!(done.stdout.len(), 16 * 1024 * 1024);
    // A process that is left behind does not hold the answer up.
    let done = node.exec_in(&id, &["/bin/sh", "-c", "sleep 500 & echo here"], 30).await.unwrap();
    assert_eq!((done.exit_code, done.stdout), (0, b"here\n".to_vec()));
    node.stop(&id, 0).await;
    let error = node.exec_in(&id, &["true"], 10).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::FailedPrecondition, "{error}");
    node.end().await;
}

async fn executing_too_long() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("slow", true)).await;
    let id = node.launch(&sandbox, script("exec sleep 1000")).await;
    let error = node.exec_in(&id, &["sleep", "500"], 1).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::DeadlineExceeded, "{error}");
    let processes = node.exec_in(&id, &["/bin/sh", "-c", "cat /proc/[0-9]*/cmdline"], 10).await.unwrap();
    assert!(!String::from_utf8_lossy(&processes.stdout).contains("500"));
    node.end().await;
}

async fn adoption() {
    let mut node = Node::start_daemon().await;
    let sandbox = node.sandbox(node.pod("survivor", false)).await;
    let running =
        node.launch(&sandbox, script("i=0; while :; do i=$((i+1)); echo line $i; sleep 0.02; done")).await;
    let mut short = script("echo short; exit 7");
    short.log_path = "d/0.log".to_owned();
    let short = node.launch(&sandbox, short).await;
    node.ended(&short).await;
    let created = node.create(&sandbox, script("exit 4")).await.unwrap();
    node.logged(&running, "line 3").await;
    let before = node.status(&running).await;

    node.kill_and_restart().await;
    let after = node.status(&running).await;
    assert_eq!(after, before);
    assert_eq!(node.status(&short).await.exit_code, 7);
    let lines = read_log(Path::new(&after.log_path)).len();
    node.logged(&running, &format!("line {}", lines + 5)).await;
    let done = node.exec_in(&running, &["hostname"], 10).await.unwrap();
    assert_eq!(done.stdout, b"survivor\n");
    node.start_container(&created).await.unwrap();
    assert_eq!(node.ended(&created).await.exit_code, 4);
    // Nothing was lost in between.
    let log = read_log(Path::new(&after.log_path));
    for (index, line) in texts(&log).into_iter().enumerate() {
        assert_eq!(line, format!("line {}", index + 1));
    }
    let list =
        node.runtime.list_pod_sandbox(ListPodSandboxRequest::default()).await.unwrap().into_inner().items;
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].state(), PodSandboxState::SandboxReady);
    node.end().await;
}

async fn end_without_daemon() {
    let mut node = Node::start_daemon().await;
    let sandbox = node.sandbox(node.pod("alone", true)).await;
    let volume = node.directory.path().join("volume");
    std::fs::create_dir(&volume).unwrap();
    let mut config = script("echo up; while [ ! -e /volume/go ]; do sleep 0.02; done; echo last; exit 9");
    config.mounts = vec![cri::v1::Mount {
        container_path: "/volume".into(),
        host_path: volume.display().to_string(),
        ..Default::default()
    }];
    let id = node.launch(&sandbox, config).await;
    node.logged(&id, "up").await;
    let log = node.status(&id).await.log_path;
    let record = node.directory.path().join("runtime/sandboxes").join(&sandbox).join("containers").join(&id);
    node.kill_daemon();
    std::fs::write(volume.join("go"), "").unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !record.join("exit.json").exists() {
        assert!(std::time::Instant::now() < deadline, "the shim never wrote the exit down");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    node.restart_daemon().await;
    let status = node.status(&id).await;
    assert_eq!((status.state(), status.exit_code), (ContainerState::ContainerExited, 9));
    assert_eq!(texts(&read_log(Path::new(&log))), ["up", "last"]);
    node.end().await;
}

async fn variables_of_the_asker() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("asked", true)).await;
    let mut config = script("exec sleep 1000");
    config.envs = crate::node::variables(&[("OWN", "the container's")]);
    let id = node.launch(&sandbox, config).await;
    let answer = node
        .runtime
        .exec_sync(cri::v1::ExecSyncRequest {
            container_id: id,
            cmd: ["/bin/sh", "-c", "echo $OWN; echo $HOOK_NAME"].map(str::to_owned).to_vec(),
            coracle_environment: crate::node::variables(&[("HOOK_NAME", "postStart"), ("OWN", "another")]),
            ..cri::v1::ExecSyncRequest::default()
        })
        .await
        .unwrap()
        .into_inner();
    assert_eq!(String::from_utf8_lossy(&answer.stdout), "the container's\npostStart\n");
    node.end().await;
}

/// Whoever manages the containers sees that the sandbox goes, and can still use it.
async fn last_moment() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("leaving", true)).await;
    let id =
        node.launch(&sandbox, script("trap 'exit 7' TERM; echo up; while true; do sleep 0.02; done")).await;
    node.logged(&id, "up").await;
    let mut runtime = node.runtime.clone();
    let request = StopPodSandboxRequest { pod_sandbox_id: sandbox.clone() };
    let manage = async {
        loop {
            let list =
                node.runtime.list_pod_sandbox(ListPodSandboxRequest::default()).await.unwrap().into_inner();
            if list.items[0].state() == PodSandboxState::SandboxNotready {
                break;
            }
            tokio::task::yield_now().await;
        }
        // Longer than a container that nobody attends to is waited for.
        let answer = node.exec_in(&id, &["/bin/sh", "-c", "sleep 2.5; echo bye"], 0).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&answer.stdout), "bye\n");
        node.stop(&id, 10).await;
        assert_eq!(node.ended(&id).await.exit_code, 7, "it ended in order");
    };
    let (stopped, ()) = tokio::join!(runtime.stop_pod_sandbox(request), manage);
    stopped.unwrap();
    // One that nobody ends is killed.
    let stubborn = node.sandbox(node.pod("stubborn", true)).await;
    let id = node.launch(&stubborn, script("trap '' TERM; echo up; while true; do sleep 0.02; done")).await;
    node.logged(&id, "up").await;
    node.runtime.stop_pod_sandbox(StopPodSandboxRequest { pod_sandbox_id: stubborn }).await.unwrap();
    assert_eq!(node.ended(&id).await.exit_code, 137);
    node.end().await;
}

async fn shim_killed() {
    let mut node = Node::start().await;
    let sandbox = node.sandbox(node.pod("orphan", false)).await;
    let id = node.launch(&sandbox, script("trap '' TERM; echo up; sleep 1000 & wait")).await;
    node.logged(&id, "up").await;
    let shim = node.shim_pid(&sandbox).await;
    kill_process(Pid::from_raw(shim).unwrap(), Signal::KILL).unwrap();
    let status = node.ended(&id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (137, "Unknown"));
    let list =
        node.runtime.list_pod_sandbox(ListPodSandboxRequest::default()).await.unwrap().into_inner().items;
    assert_eq!(list[0].state(), PodSandboxState::SandboxNotready);
    let error = node.create(&sandbox, script("true")).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::FailedPrecondition);
    node.runtime.stop_pod_sandbox(StopPodSandboxRequest { pod_sandbox_id: sandbox.clone() }).await.unwrap();
    node.end().await;
}

async fn damaged_state() {
    let mut node = Node::start_daemon().await;
    let good = node.sandbox(node.pod("good", true)).await;
    let id = node.launch(&good, script("exec sleep 1000")).await;
    let bad = node.sandbox(node.pod("bad", true)).await;
    let truncated = node.sandbox(node.pod("truncated", true)).await;
    let broken = node
        .launch(&good, {
            let mut config = script("exit 0");
            config.log_path = "d/0.log".to_owned();
            config
        })
        .await;
    node.ended(&broken).await;
    node.kill_daemon();
    let sandboxes = node.directory.path().join("runtime/sandboxes");
    std::fs::write(sandboxes.join(&bad).join("sandbox.json"), "{ not json").unwrap();
    std::fs::write(sandboxes.join(&truncated).join("sandbox.pb"), [0xff; 7]).unwrap();
    std::fs::write(sandboxes.join(&good).join("containers").join(&broken).join("exit.json"), "").unwrap();
    std::fs::create_dir_all(sandboxes.join("foreign/data")).unwrap();
    // Never finished: no record was written.
    let unfinished = sandboxes.join("f".repeat(64));
    std::fs::create_dir_all(unfinished.join("containers")).unwrap();
    std::fs::write(unfinished.join("shim.json"), "{}").unwrap();

    node.restart_daemon().await;
    let list =
        node.runtime.list_pod_sandbox(ListPodSandboxRequest::default()).await.unwrap().into_inner().items;
    assert_eq!(list.iter().map(|sandbox| sandbox.id.as_str()).collect::<Vec<_>>(), [good.as_str()]);
    assert_eq!(node.status(&id).await.state(), ContainerState::ContainerRunning);
    let mut aside: Vec<String> = std::fs::read_dir(node.directory.path().join("runtime/quarantine"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    aside.sort();
    let mut expected = vec![bad, truncated, broken, "foreign".to_owned()];
    expected.sort();
    assert_eq!(aside, expected);
    assert!(!unfinished.exists());
    node.stop(&id, 0).await;
    node.end().await;
}

async fn events() {
    let mut node = Node::start().await;
    let mut stream = node.runtime.get_container_events(GetEventsRequest {}).await.unwrap().into_inner();
    let sandbox = node.sandbox(node.pod("events", true)).await;
    let id = node.launch(&sandbox, script("exit 3")).await;
    node.ended(&id).await;
    node.remove(&sandbox).await;
    let mut kinds = Vec::new();
    while let Some(Ok(event)) = stream.next().await {
        if event.container_id == sandbox
            && event.container_event_type() == ContainerEventType::ContainerDeletedEvent
        {
            break;
        }
        if event.container_id == id {
            kinds.push(event.container_event_type());
            if event.container_event_type() == ContainerEventType::ContainerStoppedEvent {
                assert_eq!(event.containers_statuses[0].exit_code, 3);
                assert_eq!(event.pod_sandbox_status.unwrap().id, sandbox);
            }
        }
    }
    use ContainerEventType as Kind;
    let mut sorted = kinds.clone();
    sorted.sort_unstable_by_key(|kind| *kind as i32);
    let all = [
        Kind::ContainerCreatedEvent,
        Kind::ContainerStartedEvent,
        Kind::ContainerStoppedEvent,
        Kind::ContainerDeletedEvent,
    ];
    // One that ends at once may be noted as ended before whoever started it could say that it runs.
    let without_started = [all[0], all[2], all[3]];
    assert!(sorted == all || sorted == without_started, "{kinds:?}");
    node.end().await;
}
