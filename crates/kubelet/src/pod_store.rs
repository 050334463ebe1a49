//! What the agent remembers of pods, on disk: one file a pod, with a checksum, written whole.
//!
//! A file that cannot be read is put aside (`quarantine/`), never deleted and never a reason not to start; the pod then
//! begins with what the API and the runtime know.

use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;
use lifecycle::PodMemory;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::clock;
use crate::files;

/// The content of a pod's state file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct SavedPod {
    /// The boot of the machine that the times in `memory` belong to.
    pub(crate) boot_id: String,
    /// The object as it was last seen, without its status: that follows from the rest.
    pub(crate) pod: Pod,
    /// What is remembered.
    pub(crate) memory: PodMemory,
}

/// The same, as it is written.
#[derive(Serialize)]
struct SavedPodRef<'s> {
    boot_id: &'s str,
    pod: &'s Pod,
    memory: &'s PodMemory,
}

/// Whether a state file that has the one object says what one with the other would say. Each status that the node writes
/// comes back to it as a newer object, and none of them is a reason to write the file again.
pub(crate) fn is_kept_alike(one: &Pod, other: &Pod) -> bool {
    let (a, b) = (&one.metadata, &other.metadata);
    one.spec == other.spec
        && a.uid == b.uid
        && a.labels == b.labels
        && a.annotations == b.annotations
        && a.deletion_timestamp == b.deletion_timestamp
        && a.deletion_grace_period_seconds == b.deletion_grace_period_seconds
        && a.generation == b.generation
        && a.finalizers == b.finalizers
        && a.owner_references == b.owner_references
}

/// Why a state file could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadPodError {
    /// It could not be read.
    #[error("state file cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// Its checksum does not fit, or it is no state file.
    #[error("state file is damaged; it was put aside as {}", .0.display())]
    Damaged(PathBuf),
}

/// State files of all pods of a node.
#[derive(Clone, Debug)]
pub(crate) struct PodStore {
    root_dir: PathBuf,
    boot_id: String,
}

impl PodStore {
    pub(crate) fn new(root_dir: &Path) -> Self {
        Self { root_dir: root_dir.to_owned(), boot_id: clock::boot_id() }
    }

    /// The text of a state file.
    pub(crate) fn render(&self, pod: &Pod, memory: &PodMemory) -> String {
        let mut metadata = pod.metadata.clone();
        metadata.resource_version = None;
        let pod = Pod { metadata, spec: pod.spec.clone(), status: None };
        let saved = SavedPodRef { boot_id: &self.boot_id, pod: &pod, memory };
        let body = serde_json::to_string(&saved).expect("a pod and its memory are plain JSON");
        format!("{}\n{body}\n", hex::encode(Sha256::digest(body.as_bytes())))
    }

    /// Writes what [`Self::render`] gave.
    pub(crate) fn write(&self, uid: &str, text: &str) -> io::Result<()> {
        files::write_whole(&self.state_file(uid), text.as_bytes(), 0o600)
    }

    /// The same, and waits until it is on the disk.
    pub(crate) fn write_durably(&self, uid: &str, text: &str) -> io::Result<()> {
        files::write_durably(&self.state_file(uid), text.as_bytes(), 0o600)
    }

    /// Reads a pod's state; `None` if there is none. Times of another boot are put right.
    pub(crate) fn load(&self, uid: &str) -> Result<Option<SavedPod>, LoadPodError> {
        let path = self.state_file(uid);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LoadPodError::Unreadable(error)),
        };
        let Some(mut saved) = parse(&text) else {
            return Err(LoadPodError::Damaged(self.quarantine(uid, &path)?));
        };
        saved.memory.note_node_back();
        if saved.boot_id != self.boot_id {
            saved.memory.rebase(clock::now());
            saved.boot_id.clone_from(&self.boot_id);
        }
        Ok(Some(saved))
    }

    fn quarantine(&self, uid: &str, path: &Path) -> Result<PathBuf, LoadPodError> {
        let dir = self.root_dir.join("quarantine");
        files::create_dirs(&dir).map_err(LoadPodError::Unreadable)?;
        let target = (0_u32..)
            .map(|number| dir.join(format!("{uid}.{number}.json")))
            .find(|target| !target.exists())
            .expect("there are more numbers than files");
        std::fs::rename(path, &target).map_err(LoadPodError::Unreadable)?;
        Ok(target)
    }

    /// The UIDs of all pods that have a directory here.
    pub(crate) fn known_uids(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.root_dir.join("pods")) else {
            return Vec::new();
        };
        let mut uids: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        uids.sort();
        uids
    }

    /// Removes everything of a pod. Call it when nothing is mounted below any more.
    pub(crate) fn remove(&self, uid: &str) -> io::Result<()> {
        files::remove_dir_all(&self.root_dir.join("pods").join(uid))
    }

    fn state_file(&self, uid: &str) -> PathBuf {
        crate::config::PodDirs::new(&self.root_dir, uid).state_file()
    }
}

fn parse(text: &[u8]) -> Option<SavedPod> {
    let text = std::str::from_utf8(text).ok()?;
    let (checksum, body) = text.split_once('\n')?;
    let body = body.strip_suffix('\n')?;
    if checksum != hex::encode(Sha256::digest(body.as_bytes())) {
        return None;
    }
    serde_json::from_str(body).ok()
}

#[cfg(test)]
mod tests {
    use super::{LoadPodError, PodStore, is_kept_alike};
    use k8s_openapi::api::core::v1::Pod;
    use lifecycle::PodMemory;

    fn store_with_pod() -> (tempfile::TempDir, PodStore) {
        let dir = tempfile::tempdir().expect("a directory");
        let store = PodStore::new(dir.path());
        let memory = PodMemory { sandboxes: 3, ..PodMemory::default() };
        store.write("u1", &store.render(&Pod::default(), &memory)).expect("written");
        (dir, store)
    }

    #[test]
    fn a_status_is_no_reason_to_write_the_file_again_and_a_deletion_is() {
        let pod: Pod =
            serde_json::from_value(serde_json::json!({"metadata": {"uid": "u", "resourceVersion": "1"}}))
                .expect("a pod");
        let mut told = pod.clone();
        told.metadata.resource_version = Some("2".to_owned());
        told.status = Some(k8s_openapi::api::core::v1::PodStatus::default());
        assert!(is_kept_alike(&pod, &told));
        let store = PodStore::new(std::path::Path::new("/nowhere"));
        let memory = PodMemory::default();
        assert_eq!(store.render(&pod, &memory), store.render(&told, &memory));
        let mut deleted = pod.clone();
        deleted.metadata.deletion_grace_period_seconds = Some(1);
        assert!(!is_kept_alike(&pod, &deleted));
        assert_ne!(store.render(&pod, &memory), store.render(&deleted, &memory));
    }

    #[test]
    fn what_was_written_is_read_again() {
        let (_dir, store) = store_with_pod();
        assert_eq!(store.load("u1").expect("readable").expect("there").memory.sandboxes, 3);
        assert_eq!(store.known_uids(), ["u1"]);
        assert!(store.load("u2").expect("no error").is_none());
    }

    #[test]
    fn a_damaged_file_is_put_aside_and_the_pod_begins_anew() {
        let (dir, store) = store_with_pod();
        let path = dir.path().join("pods/u1/state.json");
        let whole = std::fs::read(&path).expect("there");
        for damaged in [Vec::new(), whole[..whole.len() / 2].to_vec(), {
            let mut flipped = whole.clone();
            let last = flipped.len() - 10;
            flipped[last] ^= 1;
            flipped
        }] {
            std::fs::write(&path, &damaged).expect("written");
            match store.load("u1") {
                Err(LoadPodError::Damaged(aside)) => {
                    assert_eq!(std::fs::read(aside).expect("kept"), damaged);
                }
                other => panic!("{other:?}"),
            }
            assert!(store.load("u1").expect("no error").is_none());
        }
    }

    #[test]
    fn times_of_an_earlier_boot_are_put_right() {
        let (dir, store) = store_with_pod();
        let earlier = PodStore { boot_id: "another".to_owned(), ..store.clone() };
        let mut memory = PodMemory::default();
        memory.note_sandbox_failed("x".to_owned(), crate::clock::now());
        earlier.write("u1", &earlier.render(&Pod::default(), &memory)).expect("written");
        assert!(store.load("u1").expect("readable").expect("there").memory.sandbox_failure.is_none());
        drop(dir);
    }
}
