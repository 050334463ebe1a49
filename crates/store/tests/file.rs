//! The SQLite file: permissions, exclusive use, formats, damage.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use store::{OpenError, Store};
use support::{draft, key, pods};

async fn filled(path: &Path, count: usize) -> u64 {
    let store = Store::open(path).expect("opens").store;
    for number in 0..count {
        store.create(key("a", &format!("n{number}")), draft(&"v".repeat(500))).await.expect("created");
    }
    let revision = store.revision();
    store.close().await;
    revision
}

#[tokio::test]
async fn only_the_owner_may_read_the_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("deep/data/state.db");
    let store = Store::open(&path).expect("opens").store;
    store.create(key("a", "n"), draft("secret")).await.expect("created");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&directory.path().join("deep/data")), 0o700);
    for entry in fs::read_dir(directory.path().join("deep/data")).expect("a directory") {
        let entry = entry.expect("an entry").path();
        assert_eq!(mode(&entry), 0o600, "{}", entry.display());
    }
    store.close().await;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("chmod");
    Store::open(&path).expect("opens").store.close().await;
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test]
async fn a_second_user_of_the_file_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.db");
    let first = Store::open(&path).expect("opens").store;
    first.create(key("a", "n"), draft("1")).await.expect("created");
    // The lock belongs to the open file, so that this process is kept out as another one is.
    assert!(matches!(Store::open(&path), Err(OpenError::InUse { .. })));
    // A descriptor that this process closes takes POSIX locks away, also those of others that hold the file.
    drop(fs::File::open(&path).expect("opens"));
    assert!(matches!(Store::open(&path), Err(OpenError::InUse { .. })));
    first.create(key("a", "m"), draft("1")).await.expect("the first goes on");
    first.close().await;
    let second = Store::open(&path).expect("free again").store;
    assert_eq!(second.count(&pods()), 2);
    second.close().await;
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.db");
    filled(&path, 3).await;
    rusqlite::Connection::open(&path)
        .expect("opens")
        .execute_batch("PRAGMA user_version = 9")
        .expect("works");
    let before = fs::read(&path).expect("readable");
    assert!(matches!(Store::open(&path), Err(OpenError::NewerFormat { found: 9, .. })));
    assert_eq!(fs::read(&path).expect("readable"), before);
}

#[tokio::test]
async fn a_damaged_file_is_moved_aside_and_what_can_be_read_is_kept() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [(&str, Damage); 5] = [
        ("not a database", |bytes| bytes[..64].fill(b'x')),
        ("truncated", |bytes| bytes.truncate(bytes.len() / 2)),
        ("zeroed page", |bytes| {
            let at = 4096 * 4;
            bytes[at..at + 4096].fill(0);
        }),
        ("flipped value", |bytes| {
            let at = bytes.windows(8).rposition(|window| window == b"vvvvvvvv").expect("a value");
            bytes[at] ^= 1;
        }),
        ("empty file", Vec::clear),
    ];
    for (what, damage) in damages {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state.db");
        let revision = filled(&path, 60).await;
        let mut bytes = fs::read(&path).expect("readable");
        damage(&mut bytes);
        fs::write(&path, &bytes).expect("writable");
        let opened = Store::open(&path).expect(what);
        let count = opened.store.count(&pods());
        if what == "empty file" {
            assert_eq!((opened.quarantine, count), (None, 0), "an empty file is a new store");
            continue;
        }
        let quarantine = opened.quarantine.expect(what);
        assert!(!quarantine.reason.is_empty());
        assert_eq!(fs::read(&quarantine.moved_to).expect("still there").len(), bytes.len(), "{what}");
        assert_eq!(count, quarantine.kept, "{what}");
        if what == "flipped value" {
            assert_eq!(count, 59);
        }
        let next = opened.store.create(key("a", "new"), draft("1")).await.expect("works");
        assert!(next.revision() > revision, "{what}: a revision came twice");
        opened.store.close().await;
        let again = Store::open(&path).expect("opens");
        assert_eq!(again.quarantine, None, "{what}");
        assert_eq!(again.store.count(&pods()), count + 1, "{what}");
    }
}

#[tokio::test]
async fn an_empty_store_opens_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut best = std::time::Duration::MAX;
    for round in 0..5 {
        let path = directory.path().join(format!("{round}/state.db"));
        let begin = std::time::Instant::now();
        let store = Store::open(&path).expect("opens").store;
        best = best.min(begin.elapsed());
        store.close().await;
    }
    eprintln!("opening an empty store: {best:?}");
    assert!(best < std::time::Duration::from_millis(50), "{best:?}");
}
