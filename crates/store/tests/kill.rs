//! Kill -9 at random moments of a process that writes without pause: what it was told is stored is there afterwards, no
//! revision comes twice, and the file is sound.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use store::{Purpose, Store, WriteError};
use support::{draft, key, pods, text_of};

const DIRECTORY: &str = "STORE_KILL_TEST_FILE";
const ROUND: &str = "STORE_KILL_TEST_ROUND";

/// The victim: not a test by itself, it writes until it is killed and says on standard output what was acknowledged.
#[test]
fn victim_process_writes_until_it_is_killed() {
    let (Some(path), Ok(round)) = (std::env::var_os(DIRECTORY), std::env::var(ROUND)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(async {
        let store = Store::open(Path::new(&path)).expect("opens").store;
        let mut tasks = Vec::new();
        for writer in 0..8 {
            let (store, round) = (store.clone(), round.clone());
            tasks.push(tokio::spawn(async move {
                for count in 0u64.. {
                    let place = key(&format!("w{writer}"), &format!("n{}", count % 5));
                    let text = format!("{round}-{writer}-{count}");
                    match store.get(&place) {
                        Some(current) if count % 7 == 0 => {
                            let gone =
                                store.delete(place, Some(current.revision())).await.expect("the only writer");
                            println!("ack {} w{writer} n{} gone", gone.revision(), count % 5);
                        }
                        Some(current) => {
                            let object = store
                                .update(place, current.revision(), draft(&text), Purpose::Ordinary)
                                .await
                                .expect("the only writer");
                            println!("ack {} w{writer} n{} {text}", object.revision(), count % 5);
                        }
                        None => match store.create(place, draft(&text)).await {
                            Ok(object) => {
                                println!("ack {} w{writer} n{} {text}", object.revision(), count % 5)
                            }
                            Err(WriteError::Exists { .. }) => {}
                            Err(error) => panic!("{error}"),
                        },
                    }
                }
            }));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
    });
}

#[tokio::test]
async fn no_acknowledged_write_is_lost_by_kill_9() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.db");
    let mut acknowledged: BTreeMap<(String, String), (u64, String)> = BTreeMap::new();
    let mut revisions = std::collections::BTreeSet::new();
    for round in 0..8u64 {
        let mut child = Command::new(std::env::current_exe().expect("a test has a path"))
            .args(["--exact", "victim_process_writes_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, &path)
            .env(ROUND, round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let wanted = 40 + round * 67;
        let mut count = 0;
        let mut killed = false;
        // After the kill the rest of the pipe is read: everything in it was acknowledged before.
        while let Some(Ok(line)) = lines.next() {
            let Some(at) = line.find("ack ") else { continue };
            let mut words = line[at + 4..].split(' ');
            let (Some(revision), Some(writer), Some(name), Some(text)) =
                (words.next().and_then(|word| word.parse().ok()), words.next(), words.next(), words.next())
            else {
                continue;
            };
            assert!(revisions.insert(revision), "revision {revision} was given twice");
            acknowledged.insert((writer.to_owned(), name.to_owned()), (revision, text.to_owned()));
            count += 1;
            if count >= wanted && !killed {
                child.kill().expect("runs");
                killed = true;
            }
        }
        child.wait().expect("ends");
        assert!(killed, "the victim ended by itself after {count} writes");

        let opened = Store::open(&path).expect("opens");
        assert_eq!(opened.quarantine, None, "round {round}");
        let newest = *revisions.last().expect("some");
        assert!(opened.store.revision() >= newest, "{} < {newest}", opened.store.revision());
        // A writer has one write in flight at most, so at most one of its objects may differ from what it was told last.
        for writer in (0..8).map(|number| format!("w{number}")) {
            let mut in_flight = 0;
            for name in (0..5).map(|number| format!("n{number}")) {
                let told = acknowledged.get(&(writer.clone(), name.clone()));
                let found = opened.store.get(&key(&writer, &name));
                let agrees = match (told, &found) {
                    (None, None) => true,
                    (Some((_, text)), None) => text == "gone",
                    (Some((revision, text)), Some(object)) => {
                        object.revision() == *revision && text_of(object).contains(&format!("\"{text}\""))
                    }
                    (None, Some(_)) => false,
                };
                if agrees {
                    continue;
                }
                in_flight += 1;
                assert!(in_flight <= 1, "round {round}: {writer} {name} was told {told:?}, found {found:?}");
                let told_revision = told.map_or(0, |(revision, _)| *revision);
                match found {
                    Some(object) => {
                        assert!(object.revision() > told_revision, "{writer} {name} went back");
                        let text = text_of(&object);
                        let text =
                            text.rsplit(':').next().expect("one part at least").trim_matches(['"', '}']);
                        acknowledged.insert((writer.clone(), name), (object.revision(), text.to_owned()));
                    }
                    None => {
                        acknowledged.insert((writer.clone(), name), (told_revision, "gone".to_owned()));
                    }
                }
            }
        }
        // Unacknowledged writes that became durable count as given out from now on.
        for object in opened.store.list(&pods(), None, None, None).expect("a list").objects {
            revisions.insert(object.revision());
        }
        opened.store.close().await;
    }
}
