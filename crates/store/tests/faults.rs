//! Faults of the disk, injected at the backend trait and, where the test may mount, on a real full file system.
#![allow(missing_docs)]

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use store::{Purpose, Store, WriteError};
use support::{Fault, FaultyBackend, draft, key, pods};

#[tokio::test]
async fn after_a_failed_commit_nothing_is_acknowledged_any_more() {
    for fault in [Fault::LostCommit, Fault::SilentCommit] {
        let backend = FaultyBackend::new();
        let store = Store::start(backend.clone(), Path::new("faulty")).expect("opens");
        store.create(key("a", "before"), draft("1")).await.expect("the disk works");
        backend.set(fault);
        let refused = store.create(key("a", "during"), draft("2")).await;
        assert!(matches!(refused, Err(WriteError::Stopped { .. })), "{fault:?}: {refused:?}");
        // Even if the disk recovers: what it holds is no longer known.
        backend.set(Fault::None);
        let later = store.create(key("a", "after"), draft("3")).await;
        assert!(matches!(later, Err(WriteError::Stopped { .. })), "{fault:?}: {later:?}");
        assert_eq!(store.stopped().await, "EIO");
        assert_eq!(backend.0.lock().unwrap().commits_after_failure, 0);
        assert!(store.get(&key("a", "before")).is_some(), "reads go on");
        assert!(store.get(&key("a", "during")).is_none(), "nothing unconfirmed is shown");

        let restarted = Store::start(backend.restarted(), Path::new("faulty")).expect("opens");
        assert!(restarted.get(&key("a", "before")).is_some(), "acknowledged, so still there");
        let next = restarted.create(key("a", "next"), draft("4")).await.expect("the disk works");
        assert!(next.revision() > 1);
    }
}

#[tokio::test]
async fn a_full_disk_refuses_writes_but_not_removals_and_recovers() {
    let backend = FaultyBackend::new();
    let store = Store::start(backend.clone(), Path::new("faulty")).expect("opens");
    let first = store.create(key("a", "first"), draft("1")).await.expect("room");
    store.create(key("a", "second"), draft("1")).await.expect("room");
    backend.set(Fault::DiskFull);
    let refused = store.create(key("a", "third"), draft("1")).await;
    assert!(matches!(refused, Err(WriteError::Full { .. })), "{refused:?}");
    let refused = store.update(key("a", "first"), first.revision(), draft("2"), Purpose::Ordinary).await;
    assert!(matches!(refused, Err(WriteError::Full { .. })), "{refused:?}");
    store.delete(key("a", "second"), None).await.expect("removals work on a full disk");
    assert_eq!(store.list(&pods(), None, None, None).expect("reads work").objects.len(), 1);
    backend.set(Fault::None);
    let freed = Instant::now();
    let third = loop {
        match store.create(key("a", "third"), draft("3")).await {
            Ok(object) => break object,
            Err(WriteError::Full { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
        assert!(freed.elapsed() < Duration::from_secs(5), "recovery takes too long");
    };
    assert!(third.revision() > first.revision());
}

struct Mount(std::path::PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_really_full_file_system_leaves_removals_working() {
    let directory = tempfile::tempdir().expect("a directory");
    let point = directory.path().join("small");
    std::fs::create_dir(&point).expect("a mount point");
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=32m", "tmpfs"])
        .arg(&point)
        .output()
        .is_ok_and(|output| output.status.success());
    if !mounted {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none(), "cannot mount a tmpfs");
        eprintln!("skipped: mounting a tmpfs needs root");
        return;
    }
    let mount = Mount(point.clone());
    let path = point.join("state.db");
    let store = Store::open(&path).expect("opens").store;
    let block = "x".repeat(100_000);
    let mut stored = Vec::new();
    let full = loop {
        let name = format!("n{}", stored.len());
        match store.create(key("a", &name), draft(&block)).await {
            Ok(object) => stored.push(object),
            Err(error) => break error,
        }
        assert!(stored.len() < 1000, "32 MiB cannot hold this");
    };
    assert!(matches!(full, WriteError::Full { .. }), "{full:?}");
    assert!(stored.len() > 10);
    for object in stored.split_off(2) {
        store
            .delete(object.key().clone(), Some(object.revision()))
            .await
            .expect("removals work on a full disk");
    }
    assert!(store.get(stored[0].key()).is_some());
    let freed = Instant::now();
    loop {
        match store.create(key("a", "again"), draft("small")).await {
            Ok(_) => break,
            Err(WriteError::Full { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
        assert!(freed.elapsed() < Duration::from_secs(5), "recovery takes too long");
    }
    store.close().await;
    let reopened = Store::open(&path).expect("opens");
    assert_eq!(reopened.quarantine, None);
    assert_eq!(reopened.store.count(&pods()), 3);
    reopened.store.close().await;
    drop(mount);
}
