//! Pods from files: a directory is looked at again and again, and what its files hold is told to the pods task.
//!
//! A file that cannot be read as pods (it may be half-written) changes nothing: its pods go on as they were, and what is wrong
//! is told, once for each version of the file. Hidden files and everything that is no regular file are left alone.

mod manifest;
mod mirror;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::FeatureGates;
use api::reasons::event;
use k8s_openapi::api::core::v1::Pod;

pub(crate) use manifest::{ManifestOwner, mirror_of};
pub(crate) use mirror::{MirrorStep, mirror_step};

use crate::agent::SharedAgent;
use crate::pods::{PodsHandle, PodsMessage};
use events::EventType;

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

#[derive(Debug, Default)]
struct KnownFile {
    version: Option<Version>,
    pods: Vec<Arc<Pod>>,
    problem: Option<String>,
}

/// What a look at the directory found.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Findings {
    /// All pods of all files.
    pub(crate) pods: Vec<Arc<Pod>>,
    /// Files, by their paths, whose pods are not known.
    pub(crate) unreadable: bool,
    /// Something is different from the last look.
    pub(crate) changed: bool,
    /// What was not yet told.
    pub(crate) news: Vec<String>,
}

/// A directory of manifests, and what is known of its files.
#[derive(Debug)]
pub(crate) struct StaticPodDirectory {
    path: PathBuf,
    node: String,
    gates: FeatureGates,
    files: BTreeMap<OsString, KnownFile>,
    /// Why the directory itself cannot be read.
    trouble: Option<String>,
    looked: bool,
}

impl StaticPodDirectory {
    pub(crate) fn new(path: PathBuf, node: String, gates: FeatureGates) -> Self {
        Self { path, node, gates, files: BTreeMap::new(), trouble: None, looked: false }
    }

    /// Looks at the directory. Blocks on the file system.
    pub(crate) fn look(&mut self) -> Findings {
        let mut findings = Findings { changed: !self.looked, ..Findings::default() };
        self.looked = true;
        match self.names() {
            Ok(names) => {
                findings.changed |= self.trouble.take().is_some();
                let before = self.files.len();
                self.files.retain(|name, _| names.contains(name));
                findings.changed |= self.files.len() != before;
                for name in names {
                    self.look_at(name, &mut findings);
                }
            }
            Err(error) => {
                let trouble =
                    format!("{}: the directory of static pods cannot be read: {error}", self.path.display());
                if self.trouble.as_ref() != Some(&trouble) {
                    findings.news.push(format!("{trouble}; its pods go on as they were"));
                    self.trouble = Some(trouble);
                }
                findings.unreadable = true;
            }
        }
        let mut names = BTreeMap::new();
        for (file, known) in &self.files {
            findings.unreadable |= known.problem.is_some();
            for pod in &known.pods {
                let key = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
                match names.insert(key, file) {
                    None => findings.pods.push(pod.clone()),
                    Some(first) if findings.changed => findings.news.push(format!(
                        "{}: the pod {} is in {} already; this one does not run",
                        self.path.join(file).display(),
                        pod.metadata.name.as_deref().unwrap_or_default(),
                        first.display(),
                    )),
                    Some(_) => {}
                }
            }
        }
        findings
    }

    /// The names of all files that count.
    fn names(&self) -> io::Result<BTreeSet<OsString>> {
        let mut names = BTreeSet::new();
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            if !name.as_encoded_bytes().starts_with(b".") {
                names.insert(name);
            }
        }
        Ok(names)
    }

    fn look_at(&mut self, name: OsString, findings: &mut Findings) {
        let path = self.path.join(&name);
        let Ok(metadata) = std::fs::metadata(&path) else {
            // It went while the directory was read, or is a link to nowhere.
            findings.changed |= self.files.remove(&name).is_some();
            return;
        };
        if !metadata.is_file() {
            return;
        }
        let version = Version {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        let known = self.files.entry(name.clone()).or_default();
        if known.version == Some(version) {
            return;
        }
        known.version = Some(version);
        let file = name.to_string_lossy();
        let owner = ManifestOwner { node: &self.node, file: &file, gates: self.gates };
        match read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
            manifest::pods_of(&bytes, owner).map_err(|problem| match problem.mark {
                Some(mark) => format!("{mark}: {}", problem.message),
                None => format!(" {}", problem.message),
            })
        }) {
            Ok(content) => {
                let told = content.warnings.iter().map(|warning| format!("{}: {warning}", path.display()));
                findings.news.extend(told);
                let pods = content.pods;
                let same = known.pods.len() == pods.len()
                    && known.pods.iter().zip(&pods).all(|(old, new)| old.metadata.uid == new.metadata.uid);
                let was_wrong = known.problem.take().is_some();
                if !same {
                    known.pods = pods.into_iter().map(Arc::new).collect();
                }
                findings.changed |= !same || was_wrong;
            }
            Err(problem) => {
                let kept = if known.pods.is_empty() { "" } else { "; its pods go on as they were" };
                findings.news.push(format!("{}:{problem}{kept}", path.display()));
                findings.changed |= known.problem.is_none();
                known.problem = Some(problem);
            }
        }
    }
}

/// Reads a file that may have become something else since it was looked at: nothing blocks, and nothing is read without end.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file =
        std::fs::OpenOptions::new().read(true).custom_flags(i32::try_from(flags).unwrap_or(0)).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let limit = manifest::MAXIMUM_BYTES;
    let mut bytes = Vec::new();
    file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        return Err(io::Error::other(format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

/// Looks at the directory for ever and tells what changes.
pub(crate) async fn watch_static_pods(agent: SharedAgent, path: PathBuf, pods: PodsHandle) {
    let mut directory =
        StaticPodDirectory::new(path, agent.config.node_name.clone(), agent.config.feature_gates);
    loop {
        let look = agent.tasks.spawn_blocking(move || {
            let findings = directory.look();
            (directory, findings)
        });
        let Ok((looked, findings)) = look.await else {
            tracing::error!("the directory of static pods is not looked at any more");
            return;
        };
        directory = looked;
        for message in findings.news {
            tracing::warn!("{message}");
            agent.node_event(EventType::Warning, event::INVALID_STATIC_POD, message);
        }
        if findings.changed {
            pods.tell(PodsMessage::StaticPods { pods: findings.pods, unreadable: findings.unreadable });
        }
        tokio::time::sleep(agent.config.static_pod_interval).await;
    }
}

#[cfg(test)]
mod tests;
