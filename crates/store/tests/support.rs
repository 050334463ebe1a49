//! What the store's tests share: values that say who wrote them, and a backend whose disk the test controls.
#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use store::{Backend, BackendError, Change, Collection, Draft, Key, Loaded, Object};

pub fn pods() -> Collection {
    Collection::new("", "pods")
}

pub fn key(namespace: &str, name: &str) -> Key {
    Key::new(&pods(), namespace, name)
}

/// `{"rv":"","text":TEXT}` with the revision inside the first quotes.
pub fn draft(text: &str) -> Draft {
    Draft::new(format!("{{\"rv\":\"\",\"text\":\"{text}\"}}").into_bytes(), 7).expect("7 lies inside")
}

pub fn value_of(text: &str, revision: u64) -> String {
    format!("{{\"rv\":\"{revision}\",\"text\":\"{text}\"}}")
}

pub fn text_of(object: &Object) -> String {
    String::from_utf8(object.value().to_vec()).expect("tests write UTF-8")
}

/// What the next commit of a [`FaultyBackend`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Every batch with an insert or a replacement fails for want of room.
    DiskFull,
    /// The next commit fails and nothing of it is durable.
    LostCommit,
    /// The next commit is reported as failed, but a restart will find it.
    SilentCommit,
}

/// The disk under a [`FaultyBackend`]; survives the store that used it.
#[derive(Debug)]
pub struct Disk {
    pub fault: Fault,
    pub revision: u64,
    pub objects: BTreeMap<u64, Object>,
    pub commits_after_failure: usize,
    failed: bool,
}

#[derive(Clone, Debug)]
pub struct FaultyBackend(pub Arc<Mutex<Disk>>);

impl Default for FaultyBackend {
    fn default() -> Self {
        FaultyBackend::new()
    }
}

impl FaultyBackend {
    pub fn new() -> FaultyBackend {
        FaultyBackend(Arc::new(Mutex::new(Disk {
            fault: Fault::None,
            revision: 0,
            objects: BTreeMap::new(),
            commits_after_failure: 0,
            failed: false,
        })))
    }

    pub fn set(&self, fault: Fault) {
        self.0.lock().unwrap().fault = fault;
    }

    /// As after a restart of the process.
    pub fn restarted(&self) -> FaultyBackend {
        let mut disk = self.0.lock().unwrap();
        disk.fault = Fault::None;
        disk.failed = false;
        FaultyBackend(self.0.clone())
    }
}

impl Backend for FaultyBackend {
    fn load(&mut self) -> Result<Loaded, BackendError> {
        let disk = self.0.lock().unwrap();
        Ok(Loaded { revision: disk.revision, objects: disk.objects.values().cloned().collect() })
    }

    fn commit(&mut self, revision: u64, changes: &[Change]) -> Result<(), BackendError> {
        let mut disk = self.0.lock().unwrap();
        if disk.failed {
            disk.commits_after_failure += 1;
        }
        let adds = changes.iter().any(|change| !matches!(change, Change::Remove { .. }));
        let (durable, outcome) = match disk.fault {
            Fault::None => (true, Ok(())),
            Fault::DiskFull if adds => (false, Err(BackendError::Full { reason: "no space".to_owned() })),
            Fault::DiskFull => (true, Ok(())),
            Fault::LostCommit => (false, Err(BackendError::Failed { reason: "EIO".to_owned() })),
            Fault::SilentCommit => (true, Err(BackendError::Failed { reason: "EIO".to_owned() })),
        };
        if matches!(outcome, Err(BackendError::Failed { .. })) {
            disk.failed = true;
        }
        if durable {
            disk.revision = revision;
            for change in changes {
                match change {
                    Change::Insert(object) | Change::Replace(object) => {
                        disk.objects.insert(object.created(), Object::clone(object));
                    }
                    Change::Remove { created } => {
                        disk.objects.remove(created);
                    }
                }
            }
        }
        outcome
    }

    fn has_room(&mut self) -> bool {
        self.0.lock().unwrap().fault != Fault::DiskFull
    }
}
