//! Histories of concurrent clients while the disk fails and the store starts again: linearizable for each object, and what a
//! watcher sees is ordered, without gaps or repetitions, and can be resumed or says that it cannot.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use proptest::test_runner::RngAlgorithm;
use store::{EventKind, Purpose, Store, WriteError};
use support::{Fault, FaultyBackend, draft, key, pods, text_of};
use testkit::history::{Action, Operation, Outcome, Seen, check};

const OBJECTS: u64 = 3;
const CLIENTS: u64 = 6;

/// What all clients and the watcher share.
#[derive(Default)]
struct Record {
    clock: AtomicU64,
    operations: Mutex<Vec<Operation>>,
    seen: Mutex<Vec<Seen>>,
}

impl Record {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

/// A small generator of its own for each client, so that a run is told by its seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn value_of(text: &str) -> String {
    text.rsplit(':').next().unwrap_or_default().trim_matches(['"', '}']).to_owned()
}

async fn client(record: Arc<Record>, store: Store, seed: u64, name: String) {
    let mut dice = Dice(seed | 1);
    for count in 0..40 {
        let object = format!("n{}", dice.roll(OBJECTS));
        let place = key("a", &object);
        let value = format!("{name}-{count}");
        let known = store.get(&place).map(|found| found.revision());
        // Sometimes what the client knows is old by the time it writes.
        if dice.roll(2) == 0 {
            tokio::task::yield_now().await;
        }
        let begun = record.now();
        let wish = dice.roll(10);
        let (action, outcome) = match (wish, known) {
            (0..3, _) => {
                let outcome = match store.get(&place) {
                    Some(found) => {
                        Ok(Outcome::Found { revision: found.revision(), value: value_of(&text_of(&found)) })
                    }
                    None => Ok(Outcome::Absent),
                };
                (Action::Read, outcome)
            }
            (3..5, _) | (_, None) => {
                (Action::Create, told(store.create(place, draft(&value)).await.map(|made| made.revision())))
            }
            (5..8, Some(expected)) => {
                let written = store.update(place, expected, draft(&value), Purpose::Ordinary).await;
                (Action::Update { expected }, told(written.map(|made| made.revision())))
            }
            (_, Some(expected)) => {
                let gone = store.delete(place, Some(expected)).await;
                (Action::Delete { expected }, told(gone.map(|gone| gone.revision())))
            }
        };
        let ended = record.now();
        // A full disk refuses: nothing happened, and nothing was said about the object.
        let Ok(outcome) = outcome else { continue };
        let ends = outcome == Outcome::Unknown;
        let operation = Operation { key: object, action, value, begun, ended, outcome };
        record.operations.lock().expect("no panic").push(operation);
        if ends {
            return;
        }
    }
}

struct NoRoom;

fn told(outcome: Result<u64, WriteError>) -> Result<Outcome, NoRoom> {
    match outcome {
        Ok(revision) => Ok(Outcome::Done(revision)),
        Err(WriteError::Exists { .. }) => Ok(Outcome::Exists),
        Err(WriteError::Missing { .. }) => Ok(Outcome::Absent),
        Err(WriteError::Conflict { .. }) => Ok(Outcome::Conflict),
        Err(WriteError::Full { .. }) => Err(NoRoom),
        Err(WriteError::Stopped { .. } | WriteError::Closed) => Ok(Outcome::Unknown),
    }
}

/// What a watcher knows, across starts of the store.
#[derive(Default)]
struct Watcher {
    position: u64,
    states: BTreeMap<String, u64>,
    gaps: usize,
}

impl Watcher {
    /// Takes up where it was, or, when that is forgotten, with the state.
    fn begin(&mut self, record: &Record, store: &Store) -> store::Watch {
        if let Ok(watch) = store.watch(&pods(), None, self.position) {
            return watch;
        }
        self.gaps += 1;
        let listing = store.list(&pods(), None, None, None).expect("the newest state is always there");
        let mut seen = record.seen.lock().expect("no panic");
        let mut left = std::mem::take(&mut self.states);
        for object in &listing.objects {
            let name = object.key().name().to_owned();
            if left.remove(&name) != Some(object.revision()) {
                let value = Some(value_of(&text_of(object)));
                seen.push(Seen { key: name.clone(), revision: object.revision(), value, after_gap: true });
            }
            self.states.insert(name, object.revision());
        }
        for key in (0..OBJECTS).map(|number| format!("n{number}")) {
            if !self.states.contains_key(&key) {
                seen.push(Seen { key, revision: listing.revision, value: None, after_gap: true });
            }
        }
        self.position = listing.revision;
        store.watch(&pods(), None, listing.revision).expect("it is the newest")
    }

    /// Takes everything that is there.
    fn drain(&mut self, record: &Record, watch: &mut store::Watch) {
        loop {
            let events = watch.advance().expect("it never falls behind here");
            if events.is_empty() {
                return;
            }
            for event in events {
                assert!(event.revision() > self.position, "revisions go up, and none comes twice");
                self.position = event.revision();
                let name = event.object.key().name().to_owned();
                let value = match event.kind {
                    EventKind::Added | EventKind::Modified => Some(value_of(&text_of(&event.object))),
                    EventKind::Deleted => None,
                };
                match value {
                    Some(_) => self.states.insert(name.clone(), event.revision()),
                    None => self.states.remove(&name),
                };
                let change = Seen { key: name, revision: event.revision(), value, after_gap: false };
                record.seen.lock().expect("no panic").push(change);
            }
        }
    }
}

async fn run_history(seed: u64) {
    let mut dice = Dice(seed | 1);
    let record = Arc::new(Record::default());
    let mut backend = FaultyBackend::new();
    let mut watcher = Watcher::default();
    for round in 0..4 {
        let store = Store::start(backend.clone(), Path::new("faulty")).expect("opens");
        let mut watch = watcher.begin(&record, &store);
        let mut clients = tokio::task::JoinSet::new();
        for number in 0..CLIENTS {
            let name = format!("r{round}c{number}");
            clients.spawn(client(record.clone(), store.clone(), dice.roll(u64::MAX), name));
        }
        // Somewhere in the middle the disk is full, works again, and then fails for good: noticed or not, durable or not.
        let (full, fails) = (dice.roll(40), 40 + dice.roll(200));
        let last = [Fault::LostCommit, Fault::SilentCommit][dice.roll(2) as usize];
        while !clients.is_empty() {
            watcher.drain(&record, &mut watch);
            let now = record.operations.lock().expect("no panic").len() as u64 % 250;
            backend.set(match now {
                now if now >= fails && round < 3 => last,
                now if round == 1 && (full..full + 10).contains(&now) => Fault::DiskFull,
                _ => Fault::None,
            });
            if let Some(ended) = clients.try_join_next() {
                ended.expect("no panic");
            }
            tokio::task::yield_now().await;
        }
        watcher.drain(&record, &mut watch);
        drop((watch, store));
        backend = backend.restarted();
    }
    let store = Store::start(backend, Path::new("faulty")).expect("opens");
    let mut watch = watcher.begin(&record, &store);
    watcher.drain(&record, &mut watch);
    let operations = record.operations.lock().expect("no panic");
    let seen = record.seen.lock().expect("no panic");
    assert!(operations.len() > 100, "{}", operations.len());
    if let Err(problem) = check(&operations, &seen) {
        panic!("seed {seed}: {problem}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24, failure_persistence: None, rng_algorithm: RngAlgorithm::ChaCha, ..ProptestConfig::default()
    })]

    #[test]
    fn concurrent_histories_are_linearizable_whatever_the_disk_does(seed in any::<u64>()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        runtime.block_on(run_history(seed));
    }
}
