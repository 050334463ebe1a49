//! How long a pod may stay on a node with taints that drive pods away. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#taint-based-evictions>.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Taint};

/// What becomes of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    /// As long as the taints are as they are.
    Forever,
    /// It goes now.
    Not,
    /// This long, from when the taint was added, or from when it was noticed where that is not said.
    For(Duration, Option<Timestamp>),
}

impl Stay {
    /// What is left of it, for a pod whose taint was noticed so long ago. A clock that was set neither shortens nor lengthens
    /// it beyond its own length.
    pub(super) fn left(self, now: Timestamp, noticed: Duration) -> Option<Duration> {
        match self {
            Self::Forever => None,
            Self::Not => Some(Duration::ZERO),
            Self::For(length, None) => Some(length.saturating_sub(noticed)),
            Self::For(length, Some(since)) => {
                let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
                Some(length.saturating_sub(passed))
            }
        }
    }
}

/// The taints of a node that drive pods away.
pub(super) fn driving(node: &Node) -> impl Iterator<Item = &Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute")
}

/// How long the pod may stay.
pub(super) fn stay(pod: &Pod, node: &Node) -> Stay {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let mut shortest = Stay::Forever;
    for taint in driving(node) {
        let Some(toleration) = tolerations.iter().find(|one| lifecycle::tolerates(one, taint)) else {
            return Stay::Not;
        };
        let Some(seconds) = toleration.toleration_seconds else { continue };
        let Ok(seconds @ 1..) = u64::try_from(seconds) else { return Stay::Not };
        let length = Duration::from_secs(seconds);
        let is_shorter = match shortest {
            Stay::Forever => true,
            Stay::For(known, _) => length < known,
            Stay::Not => false,
        };
        if is_shorter {
            shortest = Stay::For(length, taint.time_added.as_ref().map(|time| time.0));
        }
    }
    shortest
}
