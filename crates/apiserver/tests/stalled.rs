//! Watchers that stop reading: alone in their process, since its memory is measured.
#![allow(missing_docs)]

mod support;

use std::time::Duration;

use apiserver::Identity;
use store::{Collection, Draft, Key, Purpose};
use support::Running;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const WATCHERS: usize = 100;
const VALUE: usize = 50 * 1024;

/// Memory of this process in bytes.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("readable");
    let pages: usize = text.split(' ').nth(1).expect("two numbers").parse().expect("a number");
    pages * 4096
}

/// Writes far more than the store remembers.
async fn write_much(running: &Running, name: &str) {
    let key = Key::new(&Collection::new("", "configmaps"), "default", name);
    let draft = |round: usize| {
        let head = format!(
            "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"\",\"name\":\"{name}\",\"namespace\":\"default\"}},\"data\":{{\"k\":\""
        );
        let at = head.find("Version\":\"\",\"name").expect("there") + "Version\":\"".len();
        let text = format!("{head}{round:0>VALUE$}\"}}}}");
        Draft::new(text.into_bytes(), at).expect("inside")
    };
    let store = running.server.store();
    let mut current = store.create(key.clone(), draft(0)).await.expect("stored");
    for round in 1..600 {
        current = store
            .update(key.clone(), current.revision(), draft(round), Purpose::Ordinary)
            .await
            .expect("stored");
        // The watchers' tasks come to their turn.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_stalled_watcher_costs_at_most_256_kib_and_is_then_closed_with_410() {
    let running = Running::start().await;
    write_much(&running, "warm").await;
    let before = resident();
    let mut stalled = Vec::new();
    let from = running.server.store().revision();
    for _ in 0..WATCHERS {
        let mut io = running.server.in_memory(Identity::admin()).open();
        let head = format!(
            "GET /api/v1/namespaces/default/configmaps?watch=true&resourceVersion={from} HTTP/1.1\r\nhost: localhost\r\n\r\n"
        );
        io.write_all(head.as_bytes()).await.expect("written");
        stalled.push(io);
    }
    write_much(&running, "busy").await;
    let grown = resident().saturating_sub(before);
    assert!(grown < WATCHERS * 256 * 1024, "{} KiB a watcher", grown / WATCHERS / 1024);
    for mut io in stalled {
        let mut text = Vec::new();
        // The end of the answer, not of the connection.
        while !text.ends_with(b"\r\n0\r\n\r\n") {
            let read = tokio::time::timeout(Duration::from_secs(20), io.read_buf(&mut text));
            assert!(read.await.expect("goes on").expect("readable") > 0, "the answer ends in order");
        }
        let text = String::from_utf8_lossy(&text);
        let last = text.lines().rev().find(|line| line.starts_with("{\"type\"")).expect("an event");
        assert!(last.starts_with("{\"type\":\"ERROR\"") && last.contains("\"code\":410"), "{last}");
    }
}
