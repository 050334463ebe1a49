//! Users of pods with `hostUsers: false`: each such pod has a range of numbers on this machine to itself. It is chosen once and
//! kept in the pod's directory, so that it stays the same for all of the pod's life.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use cri::v1;
use k8s_openapi::api::core::v1::Pod;
use sha2::{Digest as _, Sha256};

use crate::config::KubeletConfig;
use crate::files;

/// Numbers in a range, as Kubernetes has it.
const COUNT: u32 = 65_536;

/// Ranges that there are; the first one is the machine's own, the last one is not whole.
const RANGES: u32 = 65_534;

/// Name of the file in a pod's directory: the first number of its range.
const FILE: &str = "users";

/// Two pods must not look for a free range at the same time.
static CHOOSING: Mutex<()> = Mutex::new(());

/// The first number of the pod's own users; `None` for a pod that shares those of the node. Blocks on the file system.
///
/// # Errors
///
/// What the system says, and that all ranges are taken.
pub(crate) fn first_user(config: &KubeletConfig, pod: &Pod) -> io::Result<Option<u32>> {
    if pod.spec.as_ref().and_then(|spec| spec.host_users) != Some(false) {
        return Ok(None);
    }
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    // Nothing is left half-way when a holder of the lock panics: the file is written in one go.
    let _choosing = CHOOSING.lock().unwrap_or_else(PoisonError::into_inner);
    let dirs = config.pod_dirs(uid);
    let file = dirs.root().join(FILE);
    if let Some(first) = read(&file) {
        return Ok(Some(first));
    }
    let pods = dirs.root().parent().map(Path::to_owned).unwrap_or_default();
    let taken: BTreeSet<u32> = match std::fs::read_dir(&pods) {
        Ok(entries) => entries.filter_map(|entry| read(&entry.ok()?.path().join(FILE))).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeSet::new(),
        Err(error) => return Err(error),
    };
    let first = choose(uid, &taken).ok_or_else(|| io::Error::other("every range of users is taken"))?;
    files::create_dirs(dirs.root())?;
    std::fs::write(&file, first.to_string())?;
    Ok(Some(first))
}

fn read(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The free range that is next to the one that follows from the pod's identity, so that nodes that know nothing of each other
/// seldom choose the same.
fn choose(uid: &str, taken: &BTreeSet<u32>) -> Option<u32> {
    let digest = Sha256::digest(uid.as_bytes());
    let start = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]) % RANGES;
    (0..RANGES).map(|step| (1 + (start + step) % RANGES) * COUNT).find(|first| !taken.contains(first))
}

/// The range as the runtime gets it.
pub(crate) fn options(first: u32) -> v1::UserNamespace {
    let range = v1::IdMapping { host_id: first, container_id: 0, length: COUNT };
    v1::UserNamespace { mode: v1::NamespaceMode::Pod as i32, uids: vec![range], gids: vec![range] }
}

#[cfg(test)]
mod tests {
    use super::{COUNT, RANGES, choose, first_user};
    use crate::config::KubeletConfig;
    use serde_json::json;
    use std::collections::BTreeSet;

    #[test]
    fn no_two_pods_have_the_same_range_and_each_keeps_its_own() {
        let dir = tempfile::tempdir().expect("a directory");
        let config = KubeletConfig::new("n", dir.path());
        let pod = |uid: &str, own: bool| {
            serde_json::from_value(
                json!({"metadata": {"uid": uid}, "spec": {"containers": [], "hostUsers": !own}}),
            )
            .expect("a pod")
        };
        let first = |uid: &str| first_user(&config, &pod(uid, true)).expect("chosen").expect("a range");
        let chosen: BTreeSet<u32> = (0..50).map(|number| first(&format!("pod-{number}"))).collect();
        assert_eq!(chosen.len(), 50);
        assert!(chosen.iter().all(|first| *first >= COUNT && first % COUNT == 0));
        assert_eq!(first("pod-7"), first("pod-7"));
        assert_eq!(first_user(&config, &pod("other", false)).expect("asked"), None);
    }

    #[test]
    fn the_last_range_still_ends_before_the_largest_number() {
        assert!(RANGES.checked_mul(COUNT).and_then(|first| first.checked_add(COUNT)).is_some());
        let all: BTreeSet<u32> = (1..=RANGES).map(|range| range * COUNT).collect();
        assert_eq!(choose("x", &all), None);
    }
}
