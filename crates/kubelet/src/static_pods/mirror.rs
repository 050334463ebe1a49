//! What is to be done with the object by which the API shows a static pod. Pure.

use api::annotations::CONFIG_MIRROR;
use k8s_openapi::api::core::v1::Pod;

use crate::pod_origin::annotation;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MirrorStep {
    /// It is as it should be.
    Nothing,
    /// Make it.
    Create,
    /// Take it away: it shows another version, is marked as deleted, or shows nothing any more.
    Remove,
}

/// Decides from the static pod that runs (or still stops) under a name and the mirror of that name.
pub(crate) fn mirror_step(running: Option<&Pod>, mirror: Option<&Pod>) -> MirrorStep {
    match (running, mirror) {
        (None, None) => MirrorStep::Nothing,
        (None, Some(_)) => MirrorStep::Remove,
        (Some(_), None) => MirrorStep::Create,
        (Some(pod), Some(mirror)) => {
            let shows = annotation(mirror, CONFIG_MIRROR) == pod.metadata.uid.as_deref();
            if shows && mirror.metadata.deletion_timestamp.is_none() {
                MirrorStep::Nothing
            } else {
                MirrorStep::Remove
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MirrorStep, mirror_step};
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    #[test]
    fn a_mirror_shows_the_very_pod_that_runs() {
        let running: Pod = serde_json::from_value(json!({"metadata": {"uid": "u"}})).expect("a pod");
        let mirror = |hash: &str, deleted: bool| -> Pod {
            let mut mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": hash}}});
            if deleted {
                mirror["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            serde_json::from_value(mirror).expect("a pod")
        };
        let rows = [
            (None, None, MirrorStep::Nothing),
            (None, Some(mirror("u", false)), MirrorStep::Remove),
            (Some(&running), None, MirrorStep::Create),
            (Some(&running), Some(mirror("u", false)), MirrorStep::Nothing),
            (Some(&running), Some(mirror("u", true)), MirrorStep::Remove),
            (Some(&running), Some(mirror("old", false)), MirrorStep::Remove),
        ];
        for (pod, mirror, expected) in rows {
            assert_eq!(mirror_step(pod, mirror.as_ref()), expected);
        }
    }
}
