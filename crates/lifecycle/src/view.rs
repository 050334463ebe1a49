//! Everything that a decision may look at.

use k8s_openapi::api::core::v1::Pod;

use crate::clock::Now;
use crate::hook::UnderWay;
use crate::memory::PodMemory;
use crate::observed::{Health, RuntimePod};

/// Everything that a decision may look at.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    /// What is wanted. Of a pod that has vanished from the API, the last known object.
    pub pod: &'a Pod,
    /// What the runtime shows.
    pub runtime: &'a RuntimePod,
    /// What is remembered, after [`PodMemory::note_observed`].
    pub memory: &'a PodMemory,
    /// What probes found out.
    pub health: &'a Health,
    /// Hash of a container's specification as it is now, by which a changed image is noticed. Ephemeral containers never
    /// change.
    pub spec_hash: fn(&k8s_openapi::api::core::v1::Container) -> String,
    /// What this process is carrying out.
    pub under_way: &'a UnderWay,
    /// The moment.
    pub now: Now,
}
