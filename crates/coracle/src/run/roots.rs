//! What of the input runs, and how it stands when its pods stand as they do. Pure.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::outcome::Standing;

/// How an object of the input runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RootKind {
    /// A pod: it ends with its containers.
    Pod,
    /// A job: it ends when its pods have done, or failed, often enough.
    Job,
    /// Something that keeps pods running, or starts jobs again and again: it goes on.
    GoesOn,
}

/// An object of the input that runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Root {
    /// How it runs.
    pub(crate) runs: RootKind,
    /// Its kind.
    pub(crate) kind: String,
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name.
    pub(crate) name: String,
}

/// The label by which pods of a Deployment say of which of its ReplicaSets they are.
const HASH: &str = "pod-template-hash";

impl Root {
    /// Whether the pod is this object, or comes from it.
    pub(crate) fn has(&self, pod: &Pod) -> bool {
        if pod.metadata.namespace.as_deref() != Some(&self.namespace) {
            return false;
        }
        if self.runs == RootKind::Pod {
            return pod.metadata.name.as_ref() == Some(&self.name);
        }
        let Some(controller) = pod.owner_references().iter().find(|owner| owner.controller == Some(true))
        else {
            return false;
        };
        if controller.kind == self.kind {
            return controller.name == self.name;
        }
        let hash = pod.labels().get(HASH);
        self.kind == "Deployment"
            && controller.kind == "ReplicaSet"
            && hash.is_some_and(|hash| controller.name == format!("{}-{hash}", self.name))
    }
}

/// How a job has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobEnd {
    /// Whether it is complete.
    pub(crate) is_complete: bool,
    /// Why it has ended.
    pub(crate) reason: String,
    /// The same in a sentence.
    pub(crate) message: String,
}

impl JobEnd {
    /// How this job has ended, if it has.
    pub(crate) fn of(job: &Job) -> Option<JobEnd> {
        let conditions = job.status.as_ref()?.conditions.as_ref()?;
        let ends = ["Complete", "Failed"];
        let end =
            conditions.iter().find(|each| each.status == "True" && ends.contains(&each.type_.as_str()))?;
        Some(JobEnd {
            is_complete: end.type_ == "Complete",
            reason: end.reason.clone().unwrap_or_default(),
            message: end.message.clone().unwrap_or_default(),
        })
    }
}

/// How a root stands. `pods` are where its pods stand that are still there, `end` how it has ended, if it is a job that has, and
/// `status` the exit status of the last of its pods that has failed.
pub(crate) fn stand(root: &Root, pods: &[&Standing], end: Option<&JobEnd>, status: Option<i32>) -> Standing {
    if root.runs == RootKind::Pod {
        return pods.first().map_or(Standing::Underway, |standing| (*standing).clone());
    }
    if let Some(end) = end {
        // What its pods wrote belongs before its end.
        return if pods.contains(&&Standing::Underway) {
            Standing::Underway
        } else if end.is_complete {
            Standing::Succeeded
        } else {
            Standing::Failed { status: status.unwrap_or(1) }
        };
    }
    // As long as one of its pods runs, or may, there is something to wait for.
    let is_over = |standing: &&&Standing| matches!(standing, Standing::Succeeded | Standing::Failed { .. });
    let mut living = pods.iter().filter(|standing| !is_over(standing));
    let first = living.next();
    match first {
        Some(stuck @ Standing::CannotStart { .. })
            if living.all(|standing| matches!(standing, Standing::CannotStart { .. })) =>
        {
            (*stuck).clone()
        }
        Some(_) | None => Standing::Underway,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn root(runs: RootKind, kind: &str, name: &str) -> Root {
        Root { runs, kind: kind.to_owned(), namespace: "n".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_pod_belongs_to_what_made_it() {
        let pod = |owner: &str, name: &str, hash: Option<&str>| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "n", "labels": {"pod-template-hash": hash.unwrap_or("none")},
                "ownerReferences": [{"apiVersion": "v1", "kind": owner, "name": name, "uid": "u", "controller": true}]}}))
            .unwrap()
        };
        let deployment = root(RootKind::GoesOn, "Deployment", "web");
        assert!(deployment.has(&pod("ReplicaSet", "web-5d4f", Some("5d4f"))));
        assert!(!deployment.has(&pod("ReplicaSet", "web-2-5d4f", Some("5d4f"))));
        assert!(!deployment.has(&pod("ReplicaSet", "web-5d4f", None)));
        assert!(root(RootKind::Job, "Job", "pi").has(&pod("Job", "pi", None)));
        assert!(!root(RootKind::GoesOn, "ReplicaSet", "pi").has(&pod("Job", "pi", None)));
        assert!(root(RootKind::Pod, "Pod", "p").has(&pod("Job", "pi", None)));
    }

    #[test]
    fn a_root_stands_as_its_pods_do() {
        let stuck = Standing::CannotStart { container: None, reason: "R".into(), message: "m".into() };
        let (runs, good, bad) = (Standing::Underway, Standing::Succeeded, Standing::Failed { status: 7 });
        let job = root(RootKind::Job, "Job", "pi");
        let web = root(RootKind::GoesOn, "Deployment", "web");
        let done = JobEnd { is_complete: true, reason: String::new(), message: String::new() };
        let failed = JobEnd { is_complete: false, ..done.clone() };
        for (root, pods, end, status, expected) in [
            (&job, &[][..], None, None, &runs),
            (&job, &[&good][..], None, None, &runs),
            (&job, &[&good], Some(&done), None, &good),
            (&job, &[&good, &runs], Some(&done), None, &runs),
            (&job, &[&bad], Some(&failed), Some(7), &bad),
            (&job, &[], Some(&failed), None, &Standing::Failed { status: 1 }),
            (&job, &[&bad, &stuck], None, Some(7), &stuck),
            (&web, &[&stuck, &runs], None, None, &runs),
            (&web, &[&stuck, &stuck], None, None, &stuck),
            (&web, &[&bad], None, Some(7), &runs),
        ] {
            assert_eq!(stand(root, pods, end, status), *expected, "{root:?} {pods:?}");
        }
    }
}
