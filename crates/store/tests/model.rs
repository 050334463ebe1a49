//! Random histories against a model of twenty lines: reads, older lists and watches agree with it, in memory and in SQLite,
//! with the store closed and opened again in between.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use store::{EventKind, Purpose, ReadError, Store, WriteError};
use support::{FaultyBackend, draft, key, pods, text_of, value_of};

#[derive(Clone, Debug)]
enum Op {
    Create { place: u8 },
    Update { place: u8, stale: bool },
    Delete { place: u8, stale: bool },
    Reopen,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => (0u8..6).prop_map(|place| Op::Create { place }),
        4 => (0u8..6, any::<bool>()).prop_map(|(place, stale)| Op::Update { place, stale }),
        3 => (0u8..6, any::<bool>()).prop_map(|(place, stale)| Op::Delete { place, stale }),
        1 => Just(Op::Reopen),
    ];
    prop::collection::vec(op, 1..60)
}

fn place_key(place: u8) -> store::Key {
    key(["a", "b"][usize::from(place % 2)], &format!("n{}", place / 2))
}

type Snapshot = BTreeMap<store::Key, (u64, String)>;

#[derive(Default)]
struct Model {
    current: Snapshot,
    /// After each revision: the state, and what the change was.
    history: Vec<(u64, Snapshot, EventKind, store::Key)>,
    /// Nothing at or before this revision is remembered by the running store.
    began: u64,
}

impl Model {
    fn record(&mut self, revision: u64, kind: EventKind, key: &store::Key) {
        let last = self.history.last().map_or(0, |entry| entry.0);
        assert!(revision > last, "revision {revision} after {last}");
        self.history.push((revision, self.current.clone(), kind, key.clone()));
    }
}

async fn check_history(store: &Store, model: &Model) {
    let listing = store.list(&pods(), None, None, None).expect("the newest list is always there");
    let seen: Snapshot = listing
        .objects
        .iter()
        .map(|object| (object.key().clone(), (object.revision(), text_of(object))))
        .collect();
    assert_eq!(seen, model.current);
    for (place, (revision, _)) in &model.current {
        assert_eq!(store.get(place).expect("in the model").revision(), *revision);
    }
    for (revision, snapshot, _, _) in model.history.iter().filter(|entry| entry.0 > model.began) {
        let listing = store.list(&pods(), Some("a"), None, Some(*revision)).expect("remembered");
        let names: Vec<_> =
            listing.objects.iter().map(|object| (object.key().clone(), object.revision())).collect();
        let expected: Vec<_> = snapshot
            .iter()
            .filter(|(key, _)| key.namespace() == "a")
            .map(|(key, (revision, _))| (key.clone(), *revision))
            .collect();
        assert_eq!(names, expected, "list of namespace a at {revision}");
        let mut watch = store.watch(&pods(), None, *revision).expect("remembered");
        let mut seen = Vec::new();
        loop {
            let events = watch.advance().expect("remembered");
            if events.is_empty() {
                break;
            }
            seen.extend(
                events.into_iter().map(|event| (event.revision(), event.kind, event.object.key().clone())),
            );
        }
        let expected: Vec<_> = model
            .history
            .iter()
            .filter(|entry| entry.0 > *revision)
            .map(|(revision, _, kind, key)| (*revision, *kind, key.clone()))
            .collect();
        assert_eq!(seen, expected, "watch from {revision}");
        assert_eq!(watch.position(), store.revision());
    }
    if model.began > 0 {
        let too_old = model.began - 1;
        assert!(matches!(store.list(&pods(), None, None, Some(too_old)), Err(ReadError::Expired { .. })));
        assert!(matches!(store.watch(&pods(), None, too_old), Err(ReadError::Expired { .. })));
    }
}

/// What keeps the objects.
enum Kept<'p> {
    Nowhere,
    File(&'p std::path::Path),
    Faulty(FaultyBackend),
}

async fn run_history(ops: Vec<Op>, kept: Kept<'_>) {
    let open = || match &kept {
        Kept::Nowhere => Store::in_memory().expect("opens"),
        Kept::Faulty(backend) => {
            Store::start(backend.restarted(), std::path::Path::new("faulty")).expect("opens")
        }
        Kept::File(path) => {
            let opened = Store::open(path).expect("opens");
            assert_eq!(opened.quarantine, None);
            opened.store
        }
    };
    let mut store = open();
    let mut model = Model::default();
    for (count, op) in ops.into_iter().enumerate() {
        let text = format!("write {count}");
        match op {
            Op::Create { place } => {
                let place = place_key(place);
                let outcome = store.create(place.clone(), draft(&text)).await;
                if model.current.contains_key(&place) {
                    assert!(matches!(outcome, Err(WriteError::Exists { .. })));
                } else {
                    let object = outcome.expect("nothing stands in the way");
                    assert_eq!(text_of(&object), value_of(&text, object.revision()));
                    model.current.insert(place.clone(), (object.revision(), text_of(&object)));
                    model.record(object.revision(), EventKind::Added, &place);
                }
            }
            Op::Update { place, stale } => {
                let place = place_key(place);
                let expected =
                    model.current.get(&place).map_or(1, |(revision, _)| *revision - u64::from(stale));
                let outcome = store.update(place.clone(), expected, draft(&text), Purpose::Ordinary).await;
                match (model.current.contains_key(&place), stale) {
                    (false, _) => assert!(matches!(outcome, Err(WriteError::Missing { .. }))),
                    (true, true) => assert!(matches!(outcome, Err(WriteError::Conflict { .. }))),
                    (true, false) => {
                        let object = outcome.expect("nothing stands in the way");
                        model.current.insert(place.clone(), (object.revision(), text_of(&object)));
                        model.record(object.revision(), EventKind::Modified, &place);
                    }
                }
            }
            Op::Delete { place, stale } => {
                let place = place_key(place);
                let expected = model.current.get(&place).map(|(revision, _)| *revision - u64::from(stale));
                let outcome = store.delete(place.clone(), expected).await;
                match (model.current.contains_key(&place), stale) {
                    (false, _) => assert!(matches!(outcome, Err(WriteError::Missing { .. }))),
                    (true, true) => assert!(matches!(outcome, Err(WriteError::Conflict { .. }))),
                    (true, false) => {
                        let object = outcome.expect("nothing stands in the way");
                        model.current.remove(&place);
                        model.record(object.revision(), EventKind::Deleted, &place);
                    }
                }
            }
            Op::Reopen if !matches!(kept, Kept::Nowhere) => {
                store.close().await;
                assert!(matches!(store.create(place_key(0), draft("late")).await, Err(WriteError::Closed)));
                store = open();
                model.began = model.history.last().map_or(0, |entry| entry.0);
            }
            Op::Reopen => {}
        }
    }
    check_history(&store, &model).await;
    store.close().await;
}

fn block_on(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_agrees_with_the_model(ops in ops()) {
        block_on(run_history(ops, Kept::Nowhere));
    }

    #[test]
    fn the_backend_that_injects_faults_agrees_with_the_model(ops in ops()) {
        block_on(run_history(ops, Kept::Faulty(FaultyBackend::new())));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_agrees_with_the_model(ops in ops()) {
        let directory = tempfile::tempdir().expect("a directory");
        block_on(run_history(ops, Kept::File(&directory.path().join("state.db"))));
    }
}

#[test]
fn concurrent_increments_are_never_lost() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(async {
        let store = Store::in_memory().expect("opens");
        store.create(key("a", "counter"), draft("0")).await.expect("created");
        let mut tasks = Vec::new();
        for _ in 0..8 {
            let store = store.clone();
            tasks.push(tokio::spawn(async move {
                let mut done = 0;
                while done < 200 {
                    let current = store.get(&key("a", "counter")).expect("there");
                    let text = text_of(&current);
                    let number: u64 =
                        text.rsplit(':').next().unwrap().trim_matches(['"', '}']).parse().expect("a number");
                    let next = draft(&(number + 1).to_string());
                    match store.update(key("a", "counter"), current.revision(), next, Purpose::Ordinary).await
                    {
                        Ok(_) => done += 1,
                        Err(WriteError::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        let end = store.get(&key("a", "counter")).expect("there");
        assert_eq!(text_of(&end), value_of("1600", end.revision()));
    });
}
