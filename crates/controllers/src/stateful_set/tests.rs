//! Tables of what a StatefulSet needs done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde_json::{Value, json};

use super::decision::{Action, Decision, Known, decide};
use super::{holder, identity};
use crate::deletion::Why;
use crate::revisions::{self, Place};

fn now() -> Timestamp {
    "2026-01-01T00:01:00Z".parse().expect("a time")
}

/// A set of three with one claim a pod; `change` is merged into its spec.
fn set(change: Value) -> StatefulSet {
    let mut object = json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "set", "generation": 4},
        "spec": {
            "replicas": 3,
            "serviceName": "svc",
            "podManagementPolicy": "OrderedReady",
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i:2"}], "volumes": [{"name": "data", "emptyDir": {}}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    for (field, value) in change.as_object().expect("fields") {
        object["spec"][field] = value.clone();
    }
    serde_json::from_value(object).expect("a set")
}

fn revision(set: &StatefulSet, image: &str) -> ControllerRevision {
    let mut set = set.clone();
    let template = &mut set.spec.as_mut().expect("a spec").template;
    template.spec.as_mut().expect("a spec").containers[0].image = Some(image.to_owned());
    match revisions::place(&holder(&set, 0), &[]) {
        Place::New(revision) => revision,
        other => panic!("{other:?}"),
    }
}

/// A pod by its description: `web-0 old ready`, with `leaving`, `failed`, `succeeded`, `pending`, `unready`, `ready=SECONDS`.
fn pod(set: &StatefulSet, text: &str) -> Arc<Pod> {
    let mut words = text.split(' ');
    let name = words.next().expect("a name");
    let mut of = revision(set, "i:2");
    let (mut phase, mut ready, mut since, mut leaving) = ("Running", "True", 60, false);
    for word in words {
        match word {
            "old" => of = revision(set, "i:1"),
            "ready" => {}
            "unready" => ready = "False",
            "pending" => (phase, ready) = ("Pending", "False"),
            "failed" => (phase, ready) = ("Failed", "False"),
            "succeeded" => (phase, ready) = ("Succeeded", "False"),
            "leaving" => leaving = true,
            other => {
                since = other.strip_prefix("ready=").expect("a word that is known").parse().expect("seconds")
            }
        }
    }
    let ordinal = name.rsplit('-').next().expect("an ordinal");
    let transition = now() - jiff::SignedDuration::from_secs(since);
    let mut object = json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": format!("uid-{name}"),
            "labels": {
                "app": "web", "controller-revision-hash": of.metadata.name,
                identity::POD_NAME: name, identity::POD_INDEX: ordinal,
            },
        },
        "status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": transition.to_string()},
        ]},
    });
    if leaving {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:59Z");
    }
    Arc::new(serde_json::from_value(object).expect("a pod"))
}

fn claim(name: &str, owner: Option<(&str, &str, &str)>) -> Arc<PersistentVolumeClaim> {
    let owners = owner.map(|(kind, name, uid)| {
        vec![json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": true})]
    });
    Arc::new(
        serde_json::from_value(
            json!({"metadata": {"name": name, "namespace": "n", "ownerReferences": owners}}),
        )
        .expect("a claim"),
    )
}

fn decided(set: &StatefulSet, pods: &[&str], claims: &[Arc<PersistentVolumeClaim>]) -> Decision {
    let pods: Vec<_> = pods.iter().map(|text| pod(set, text)).collect();
    let claims: BTreeMap<_, _> = claims
        .iter()
        .map(|claim| (claim.metadata.name.clone().expect("a name"), Arc::clone(claim)))
        .collect();
    let (current, update) = (revision(set, "i:1"), revision(set, "i:2"));
    decide(&Known {
        set,
        current: &current,
        update: &update,
        collisions: None,
        pods: &pods,
        claims: &claims,
        now: now(),
    })
}

/// All claims of five pods.
fn claims() -> Vec<Arc<PersistentVolumeClaim>> {
    (0..5).map(|ordinal| claim(&format!("data-web-{ordinal}"), None)).collect()
}

/// The actions in short: `claim data-web-0`, `create web-0@2`, `delete web-2 Outdated`.
fn shown(set: &StatefulSet, decision: &Decision) -> String {
    let new = revision(set, "i:2").metadata.name;
    let actions = decision.actions.iter().map(|action| match action {
        Action::CreateClaim { claim, .. } => format!("claim {}", claim.metadata.name.as_deref().unwrap()),
        Action::CreatePod(pod) => format!(
            "create {}@{}",
            pod.metadata.name.as_deref().unwrap(),
            if Some(identity::revision_of(pod)) == new.as_deref() { 2 } else { 1 }
        ),
        Action::DeletePod { pod, why } => {
            format!(
                "delete {}{}",
                pod.metadata.name.as_deref().unwrap(),
                match why {
                    Why::Unwanted => "",
                    Why::Outdated => " outdated",
                    Why::Failed => " failed",
                    Why::Ended => " ended",
                }
            )
        }
        Action::UpdatePod(pod) => format!("label {}", pod.metadata.name.as_deref().unwrap()),
        Action::UpdateClaim(claim) => {
            let owners = claim.metadata.owner_references.iter().flatten();
            let owners: Vec<_> = owners.map(|owner| owner.uid.clone()).collect();
            format!("own {}={}", claim.metadata.name.as_deref().unwrap(), owners.join("+"))
        }
    });
    actions.collect::<Vec<_>>().join(", ")
}

#[test]
fn what_is_done_about_pods() {
    let parallel = || json!({"podManagementPolicy": "Parallel"});
    let rolling =
        |fields: Value| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": fields}});
    let both = |fields: Value| {
        let mut both = rolling(fields);
        both["podManagementPolicy"] = json!("Parallel");
        both
    };
    let rows: Vec<(&str, Value, &[&str], &str)> = vec![
        ("nothing is there", json!({}), &[], "create web-0@2"),
        ("the first is not ready yet", json!({}), &["web-0 pending"], ""),
        ("the first is ready", json!({}), &["web-0"], "create web-1@2"),
        ("all are there", json!({}), &["web-0", "web-1", "web-2"], ""),
        ("one in the middle is gone", json!({}), &["web-0", "web-2"], "create web-1@2"),
        ("one is on its way out", json!({}), &["web-0", "web-1 leaving", "web-2"], ""),
        ("one failed", json!({}), &["web-0", "web-1 failed", "web-2"], "delete web-1 failed"),
        ("one ended", json!({}), &["web-0 succeeded"], "delete web-0 ended"),
        ("one failed and is on its way out", json!({}), &["web-0 failed leaving"], ""),
        ("two too many", json!({}), &["web-0", "web-1", "web-2", "web-3", "web-4"], "delete web-4"),
        ("the higher is going", json!({}), &["web-0", "web-1", "web-2", "web-3", "web-4 leaving"], ""),
        (
            "the higher is not well, and no lower one is not",
            json!({}),
            &["web-0", "web-1", "web-2", "web-3", "web-4 unready"],
            "delete web-4",
        ),
        (
            "both are not well: the lower is the first",
            json!({}),
            &["web-0", "web-1", "web-2", "web-3 unready", "web-4 unready"],
            "",
        ),
        (
            "nothing goes before all before it are well",
            json!({}),
            &["web-0", "web-1 unready", "web-2", "web-3"],
            "",
        ),
        ("ordinals from 5", json!({"ordinals": {"start": 5}}), &["web-0"], "create web-5@2"),
        ("no replicas", json!({"replicas": 0}), &["web-0"], "delete web-0"),
        ("parallel: all at once", parallel(), &["web-1 pending"], "create web-0@2, create web-2@2"),
        (
            "parallel: all that are too many",
            parallel(),
            &["web-0 unready", "web-1", "web-2", "web-3", "web-4 unready"],
            "delete web-4, delete web-3",
        ),
        (
            "an update goes from the highest",
            json!({}),
            &["web-0 old", "web-1 old", "web-2 old"],
            "delete web-2 outdated",
        ),
        ("what was replaced comes up first", json!({}), &["web-0 old", "web-1 old", "web-2 pending"], ""),
        ("then the next", json!({}), &["web-0 old", "web-1 old", "web-2"], "delete web-1 outdated"),
        (
            "the partition keeps the others",
            rolling(json!({"partition": 2})),
            &["web-0 old", "web-1 old", "web-2"],
            "",
        ),
        (
            "one below the partition is made of the old revision",
            rolling(json!({"partition": 2})),
            &["web-1 old", "web-2"],
            "create web-0@1",
        ),
        (
            "the partition counts from the first ordinal",
            json!({"ordinals": {"start": 5}, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}),
            &["web-5 old", "web-6 old", "web-7 old"],
            "delete web-7 outdated",
        ),
        (
            "on delete: nothing",
            json!({"updateStrategy": {"type": "OnDelete"}}),
            &["web-0 old", "web-1 old", "web-2 old"],
            "",
        ),
        (
            "on delete: what is missing is new",
            json!({"updateStrategy": {"type": "OnDelete"}}),
            &["web-0 old", "web-2 old"],
            "create web-1@2",
        ),
        (
            "two may be unavailable",
            rolling(json!({"maxUnavailable": 2})),
            &["web-0 old", "web-1 old", "web-2 old"],
            "delete web-2 outdated, delete web-1 outdated",
        ),
        (
            "a percentage is rounded down, to one at least",
            rolling(json!({"maxUnavailable": "34%"})),
            &["web-0 old", "web-1 old", "web-2 old"],
            "delete web-2 outdated",
        ),
        (
            "a broken pod of an old revision is replaced in any case, for nothing is lost",
            both(json!({})),
            &["web-0 old unready", "web-1 old", "web-2 old"],
            "delete web-0 outdated",
        ),
        (
            "a broken pod of the new revision holds the update up",
            both(json!({})),
            &["web-0 old", "web-1 old", "web-2 unready"],
            "",
        ),
        (
            "what the partition keeps does not hold it up",
            both(json!({"partition": 1})),
            &["web-0 old unready", "web-1 old", "web-2 old"],
            "delete web-2 outdated",
        ),
    ];
    for (what, change, pods, expected) in rows {
        let set = set(change);
        assert_eq!(shown(&set, &decided(&set, pods, &claims_from(&set))), expected, "{what}");
    }
}

fn claims_from(set: &StatefulSet) -> Vec<Arc<PersistentVolumeClaim>> {
    let range = identity::ordinals(set);
    let more = (range.start..range.end + 2).map(|ordinal| claim(&format!("data-web-{ordinal}"), None));
    claims().into_iter().chain(more).collect()
}

#[test]
fn a_pod_that_is_ready_for_too_short_a_time_is_waited_for() {
    let set = set(json!({"minReadySeconds": 10}));
    let decision = decided(&set, &["web-0 ready=4"], &claims());
    assert_eq!(shown(&set, &decision), "");
    assert_eq!(decision.look_again, Some(Duration::from_secs(6)));
    assert_eq!((decision.status.ready_replicas, decision.status.available_replicas), (Some(1), Some(0)));
    assert_eq!(shown(&set, &decided(&set, &["web-0 ready=10"], &claims())), "create web-1@2");
}

#[test]
fn a_set_that_goes_does_nothing_any_more() {
    let mut set = set(json!({}));
    set.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    let decision = decided(&set, &["web-0 failed"], &claims());
    assert_eq!(shown(&set, &decision), "");
    assert_eq!(decision.status.replicas, 1);
}

#[test]
fn a_pod_has_its_name_labels_host_name_and_claims() {
    let set = set(json!({}));
    let decision = decided(&set, &[], &[]);
    assert_eq!(shown(&set, &decision), "claim data-web-0, create web-0@2");
    let (Action::CreateClaim { claim, .. }, Action::CreatePod(pod)) =
        (&decision.actions[0], &decision.actions[1])
    else {
        panic!("{decision:?}")
    };
    let revision = revision(&set, "i:2").metadata.name.expect("a name");
    assert_eq!(
        serde_json::to_value(&**pod).expect("JSON"),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-0", "namespace": "n",
                "labels": {
                    "app": "web", "apps.kubernetes.io/pod-index": "0", "controller-revision-hash": revision,
                    "statefulset.kubernetes.io/pod-name": "web-0",
                },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set",
                    "controller": true, "blockOwnerDeletion": true,
                }],
            },
            "spec": {
                "containers": [{"name": "c", "image": "i:2"}], "hostname": "web-0", "subdomain": "svc",
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}],
            },
        })
    );
    assert_eq!(
        serde_json::to_value(&**claim).expect("JSON"),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data-web-0", "namespace": "n", "labels": {"app": "web"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        })
    );
}

#[test]
fn claims_belong_to_whom_they_go_with() {
    let policy = |deleted: &str, scaled: &str| {
        set(json!({"replicas": 1,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": deleted, "whenScaled": scaled}}))
    };
    let pods = ["web-0", "web-1"];
    let rows = [
        ("Retain", "Retain", "", "own data-web-0=, own data-web-1=, "),
        ("Delete", "Retain", "own data-web-0=set, own data-web-1=set, ", ""),
        ("Retain", "Delete", "own data-web-1=uid-web-1, ", "own data-web-0=, own data-web-1=uid-web-1, "),
        ("Delete", "Delete", "own data-web-0=set, own data-web-1=uid-web-1, ", "own data-web-1=uid-web-1, "),
    ];
    let owned: Vec<_> =
        (0..2).map(|n| claim(&format!("data-web-{n}"), Some(("StatefulSet", "web", "set")))).collect();
    for (deleted, scaled, from_none, from_set) in rows {
        let set = policy(deleted, scaled);
        assert_eq!(
            shown(&set, &decided(&set, &pods, &claims())),
            format!("{from_none}delete web-1"),
            "{deleted} {scaled}"
        );
        assert_eq!(
            shown(&set, &decided(&set, &pods, &owned)),
            format!("{from_set}delete web-1"),
            "{deleted} {scaled}"
        );
    }
    let set = policy("Delete", "Delete");
    let foreign = [claim("data-web-0", Some(("Other", "other", "other")))];
    assert_eq!(shown(&set, &decided(&set, &["web-0"], &foreign)), "", "what another controls is left alone");
    let decision = decided(&set, &[], &[]);
    let Action::CreateClaim { claim, .. } = &decision.actions[0] else { panic!("{decision:?}") };
    assert_eq!(claim.metadata.owner_references.as_ref().expect("owners")[0].uid, "set");
}

#[test]
fn a_claim_that_goes_with_an_earlier_pod_of_that_name_is_waited_for() {
    let set = set(json!({}));
    let decision = decided(&set, &[], &[claim("data-web-0", Some(("Pod", "web-0", "earlier")))]);
    assert_eq!(shown(&set, &decision), "");
    assert_eq!(decision.waits_for.as_deref(), Some("data-web-0"));
    let mut leaving = PersistentVolumeClaim::clone(&claim("data-web-0", None));
    leaving.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
    assert_eq!(shown(&set, &decided(&set, &[], &[Arc::new(leaving)])), "");
}

#[test]
fn a_claim_that_was_deleted_is_made_again_while_its_pod_waits() {
    let set = set(json!({}));
    assert_eq!(shown(&set, &decided(&set, &["web-0 pending"], &[])), "claim data-web-0");
}

#[test]
fn the_status_counts_pods_by_their_revisions() {
    let set = set(json!({}));
    let (old, new) = (revision(&set, "i:1").metadata.name, revision(&set, "i:2").metadata.name);
    let status = decided(&set, &["web-0 old", "web-1 old unready", "web-2"], &claims()).status;
    assert_eq!(
        (status.replicas, status.ready_replicas, status.available_replicas, status.observed_generation),
        (3, Some(2), Some(2), Some(4))
    );
    assert_eq!((status.current_replicas, status.updated_replicas), (Some(2), Some(1)));
    assert_eq!((&status.current_revision, &status.update_revision), (&old, &new));
    let status = decided(&set, &["web-0", "web-1", "web-2"], &claims()).status;
    assert_eq!((&status.current_revision, &status.update_revision), (&new, &new), "the update is complete");
    assert_eq!(status.current_replicas, Some(3));
}

#[test]
fn a_set_that_asks_for_more_than_anybody_has_is_created_in_portions() {
    let set =
        set(json!({"replicas": i32::MAX, "podManagementPolicy": "Parallel", "volumeClaimTemplates": []}));
    let decision = decided(&set, &["web-600"], &[]);
    assert_eq!(decision.actions.len(), 500);
    assert_eq!(decision.status.replicas, 1);
}

#[test]
fn names_that_only_look_like_ours_are_not() {
    let set = set(json!({"replicas": 2}));
    let decision = decided(&set, &["web-0", "web-01", "web-x-1", "other-1"], &claims());
    assert_eq!(shown(&set, &decision), "create web-1@2");
}
