//! How long things take: printed, not judged. `cargo test --release -p runtime --test containers -- --latency`.

use std::time::{Duration, Instant};

use crate::node::{Node, script};

const ROUNDS: usize = 40;

pub(crate) async fn measure() {
    let mut node = Node::start().await;
    let (mut sandboxes, mut host_sandboxes) = (Vec::new(), Vec::new());
    let (mut creates, mut starts, mut outputs, mut executions) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let begun = Instant::now();
        let host = node.sandbox(node.pod("host", true)).await;
        host_sandboxes.push(begun.elapsed());
        node.remove(&host).await;
        let begun = Instant::now();
        let sandbox = node.sandbox(node.pod("latency", false)).await;
        sandboxes.push(begun.elapsed());
        let mut config = script("echo up; exec sleep 1000");
        config.log_path = format!("{round}.log");
        let begun = Instant::now();
        let id = node.create(&sandbox, config).await.unwrap();
        creates.push(begun.elapsed());
        let log = node.status(&id).await.log_path;
        let start = Instant::now();
        node.start_container(&id).await.unwrap();
        starts.push(start.elapsed());
        while !std::fs::read_to_string(&log).unwrap_or_default().contains("up") {
            tokio::task::yield_now().await;
        }
        outputs.push(begun.elapsed());
        let begun = Instant::now();
        node.exec_in(&id, &["true"], 10).await.unwrap();
        executions.push(begun.elapsed());
        if round + 1 == ROUNDS {
            let pid = node.shim_pid(&sandbox).await;
            let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
            for line in text
                .lines()
                .filter(|line| ["Rss", "Pss:", "Private"].iter().any(|word| line.starts_with(word)))
            {
                println!("shim {line}");
            }
        }
        node.remove(&sandbox).await;
    }
    node.end().await;
    for (name, mut times) in [
        ("sandbox, node's network", host_sandboxes),
        ("sandbox, own network", sandboxes),
        ("create container", creates),
        ("start container", starts),
        ("create to first output in the log", outputs),
        ("execute", executions),
    ] {
        times.sort_unstable();
        let at = |percent: usize| millis(times[(times.len() * percent / 100).min(times.len() - 1)]);
        println!("{name}: p50 {:.2} ms, p95 {:.2} ms, min {:.2} ms", at(50), at(95), millis(times[0]));
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
