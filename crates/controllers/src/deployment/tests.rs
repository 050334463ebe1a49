//! Tables of limits, history, scaling and conditions; and whole rollouts, played with pods that come and go one by one.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::decision::{Plan, decide};
use super::history::{self, Annotations};
use super::limits::Limits;

fn at(seconds: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn deployment(spec: Value) -> Deployment {
    let mut whole = json!({
        "metadata": {"name": "web", "namespace": "n", "uid": "web", "generation": 1},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}},
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        whole["spec"][key] = value.clone();
    }
    serde_json::from_value(whole).unwrap()
}

fn rolling(surge: Value, unavailable: Value) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

#[test]
fn percentages_are_rounded_so_that_a_rollout_is_safe_and_moves() {
    // replicas, maxSurge, maxUnavailable; then surge and unavailable
    let rows = [
        (3, json!("25%"), json!("25%"), 1, 0),
        (4, json!("25%"), json!("25%"), 1, 1),
        (10, json!("25%"), json!("25%"), 3, 2),
        (10, json!(0), json!("5%"), 0, 1),
        (10, json!("0%"), json!("0%"), 0, 1),
        (2, json!(5), json!(7), 5, 2),
        (0, json!("25%"), json!("25%"), 0, 0),
        (1, json!("100%"), json!(0), 1, 0),
        (3, json!("nonsense"), json!(1), 0, 1),
    ];
    for (replicas, surge, unavailable, expected_surge, expected_unavailable) in rows {
        let name = format!("{replicas} {surge} {unavailable}");
        let limits =
            Limits::of(&deployment(json!({"replicas": replicas, "strategy": rolling(surge, unavailable)})));
        assert_eq!((limits.surge, limits.unavailable), (expected_surge, expected_unavailable), "{name}");
    }
    let limits = Limits::of(&deployment(json!({"strategy": {"type": "Recreate"}})));
    assert_eq!((limits.surge, limits.unavailable), (0, 0));
}

#[test]
fn revisions_grow_and_the_former_ones_are_noted() {
    let mut annotations = Annotations::new();
    for (revision, expected) in
        [(1, ("1", None)), (3, ("3", Some("1"))), (4, ("4", Some("1,3"))), (2, ("4", Some("1,3")))]
    {
        history::set_revision(&mut annotations, revision);
        let get = |name: &str| annotations.get(name).map(String::as_str);
        assert_eq!((get(history::REVISION).unwrap(), get(history::REVISION_HISTORY)), expected, "{revision}");
    }
    for revision in 5..2000 {
        history::set_revision(&mut annotations, revision);
    }
    let noted = &annotations[history::REVISION_HISTORY];
    assert!(noted.len() <= 2000 && noted.ends_with(",1997,1998"), "{noted}");
    annotations.insert(history::REVISION.to_owned(), "mine".to_owned());
    history::set_revision(&mut annotations, 3000);
    assert_eq!(annotations[history::REVISION], "mine", "what is no number is not ours");
}

/// The API and the replica set controller, played: what a plan asks for is done, and pods come and go one step at a time.
struct World {
    deployment: Deployment,
    sets: BTreeMap<String, ReplicaSet>,
    now: i64,
    /// What was scaled, in order: beginning of the image, from, to.
    scaled: Vec<String>,
    /// Images whose pods never become ready.
    bad: &'static str,
}

impl World {
    fn new(spec: Value) -> World {
        World {
            deployment: deployment(spec),
            sets: BTreeMap::new(),
            now: 0,
            scaled: Vec::new(),
            bad: "i:bad",
        }
    }

    fn spec(&mut self, change: impl FnOnce(&mut k8s_openapi::api::apps::v1::DeploymentSpec)) {
        change(self.deployment.spec.as_mut().unwrap());
        *self.deployment.metadata.generation.as_mut().unwrap() += 1;
    }

    fn image(&mut self, image: &str) {
        let image = image.to_owned();
        self.spec(|spec| spec.template.spec.as_mut().unwrap().containers[0].image = Some(image));
    }

    fn image_of(set: &ReplicaSet) -> String {
        let template = set.spec.as_ref().unwrap().template.as_ref().unwrap();
        template.spec.as_ref().unwrap().containers[0].image.clone().unwrap()
    }

    /// One look, carried out. Tells whether it changed anything.
    fn look(&mut self) -> bool {
        let objects: Vec<Arc<ReplicaSet>> = self.sets.values().cloned().map(Arc::new).collect();
        let lives = |set: &ReplicaSet| set.status.as_ref().is_some_and(|status| status.replicas > 0);
        let Plan { changes, surplus, status, revision, .. } =
            decide(&self.deployment, &objects, lives, at(self.now));
        let is_quiet = changes.is_empty()
            && surplus.is_empty()
            && revision.is_none()
            && self.deployment.status.as_ref() == Some(&status);
        for set in &changes {
            let mut object = (*set.object).clone();
            let (was, is) = (set.was(), set.replicas);
            if was != is {
                self.scaled.push(format!("{} {was}->{is}", Self::image_of(&object)));
            }
            let spec = object.spec.as_mut().unwrap();
            if spec.replicas != Some(is) || set.is_created {
                *object.metadata.generation.get_or_insert(0) += 1;
            }
            spec.replicas = Some(is);
            spec.min_ready_seconds = Some(set.min_ready_seconds);
            object.metadata.annotations = Some(set.annotations.clone());
            if set.is_created {
                object.metadata.uid = object.metadata.name.clone();
                object.metadata.creation_timestamp = Some(Time(at(self.now)));
            }
            self.sets.insert(set.name().to_owned(), object);
        }
        for set in surplus {
            self.sets.remove(set.metadata.name.as_deref().unwrap());
        }
        if let Some(revision) = revision {
            let annotations = self.deployment.metadata.annotations.get_or_insert_default();
            annotations.insert(history::REVISION.to_owned(), revision);
        }
        self.deployment.status = Some(status);
        !is_quiet
    }

    /// Each replica set goes one pod nearer to what it is to have, and one pod of it becomes ready. Tells whether
    /// anything changed.
    fn pods(&mut self, which: impl Fn(usize) -> bool) -> bool {
        let mut changed = false;
        for (index, set) in self.sets.values_mut().enumerate() {
            if !which(index) {
                continue;
            }
            let wanted = set.spec.as_ref().unwrap().replicas.unwrap();
            let is_bad = Self::image_of(set) == self.bad;
            let generation = set.metadata.generation;
            let status = set.status.get_or_insert_default();
            let before = status.clone();
            status.observed_generation = generation;
            status.terminating_replicas = Some(0);
            let ready = status.ready_replicas.unwrap_or(0);
            if ready < status.replicas && !is_bad && ready < wanted {
                status.ready_replicas = Some(ready + 1);
            }
            status.replicas += (wanted - status.replicas).signum();
            let ready = status.ready_replicas.unwrap_or(0).min(status.replicas);
            (status.ready_replicas, status.available_replicas) = (Some(ready), Some(ready));
            changed |= *status != before;
        }
        changed
    }

    fn sum(&self, of: impl Fn(&ReplicaSet) -> i32) -> i32 {
        self.sets.values().map(of).sum()
    }

    fn available(&self) -> i32 {
        self.sum(|set| set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0))
    }

    /// Until nothing happens any more.
    fn settle(&mut self) {
        for _ in 0..500 {
            self.now += 1;
            let looked = self.look();
            if !self.pods(|_| true) && !looked {
                return;
            }
        }
        panic!("it never ends: {:?}", self.scaled);
    }

    /// The sizes of all replica sets with pods, by image.
    fn sizes(&self) -> String {
        let mut sizes: Vec<String> = self
            .sets
            .values()
            .filter(|set| set.spec.as_ref().unwrap().replicas != Some(0))
            .map(|set| format!("{}={}", Self::image_of(set), set.spec.as_ref().unwrap().replicas.unwrap()))
            .collect();
        sizes.sort();
        sizes.join(" ")
    }

    fn progress(&self) -> String {
        self.condition("Progressing")
    }

    fn condition(&self, type_: &str) -> String {
        let conditions = self.deployment.status.as_ref().and_then(|status| status.conditions.as_ref());
        let found = conditions.into_iter().flatten().find(|condition| condition.type_ == type_);
        found.map_or("none".to_owned(), |condition| {
            format!("{} {}", condition.status, condition.reason.as_deref().unwrap_or_default())
        })
    }

    fn revisions(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .sets
            .values()
            .map(|set| {
                let annotations = set.metadata.annotations.as_ref().unwrap();
                let earlier = annotations.get(history::REVISION_HISTORY).map_or("", String::as_str);
                format!("{} {} [{earlier}]", annotations[history::REVISION], Self::image_of(set))
            })
            .collect();
        all.sort();
        all
    }
}

#[test]
fn a_rolling_update_goes_step_by_step_and_a_rollback_back() {
    let mut world = World::new(json!({}));
    world.look();
    assert_eq!(world.progress(), "True NewReplicaSetCreated");
    assert_eq!(world.condition("Available"), "False MinimumReplicasUnavailable");
    world.settle();
    assert_eq!(world.progress(), "True NewReplicaSetAvailable");
    assert_eq!(world.condition("Available"), "True MinimumReplicasAvailable");
    assert_eq!(world.scaled, ["i:1 0->3"]);
    world.scaled.clear();
    world.image("i:2");
    world.look();
    assert_eq!(world.progress(), "True NewReplicaSetCreated");
    world.settle();
    assert_eq!(
        world.scaled,
        ["i:2 0->1", "i:1 3->2", "i:2 1->2", "i:1 2->1", "i:2 2->3", "i:1 1->0"],
        "never more than four, never less than three"
    );
    assert_eq!(world.revisions(), ["1 i:1 []", "2 i:2 []"]);
    world.image("i:1");
    world.settle();
    assert_eq!(
        world.revisions(),
        ["2 i:2 []", "3 i:1 [1]"],
        "a template that was there before gets its set back"
    );
    assert_eq!(world.deployment.metadata.annotations.as_ref().unwrap()[history::REVISION], "3");
    assert!(!world.look(), "a look at what is done does nothing");
}

#[test]
fn the_annotation_of_rollbacks_of_old_has_no_effect_and_reaches_no_replica_set() {
    let mut world = World::new(json!({}));
    world.settle();
    world.image("i:2");
    world.settle();
    world.scaled.clear();
    let annotations = world.deployment.metadata.annotations.get_or_insert_default();
    annotations.insert("deprecated.deployment.rollback.to".to_owned(), "1".to_owned());
    annotations.insert("example.com/mine".to_owned(), "yes".to_owned());
    world.settle();
    assert!(world.scaled.is_empty() && world.sizes() == "i:2=3");
    let is_on_sets = |name: &str| {
        world.sets.values().any(|set| set.metadata.annotations.iter().any(|all| all.contains_key(name)))
    };
    assert!(is_on_sets("example.com/mine") && !is_on_sets("deprecated.deployment.rollback.to"));
}

#[test]
fn a_bad_image_holds_the_rollout_and_undo_mends_it() {
    let mut world = World::new(json!({}));
    world.settle();
    world.image("i:bad");
    world.settle();
    assert_eq!(world.sizes(), "i:1=3 i:bad=1");
    assert_eq!(world.progress(), "True ReplicaSetUpdated");
    world.now += 601;
    world.settle();
    assert_eq!(world.progress(), "False ProgressDeadlineExceeded");
    assert_eq!(world.available(), 3);
    // A third template: what never worked goes at once, what works stays.
    world.image("i:3");
    world.look();
    assert_eq!(world.progress(), "True NewReplicaSetCreated", "it counts anew");
    world.settle();
    assert_eq!(world.sizes(), "i:3=3");
    world.image("i:bad");
    world.settle();
    world.now += 601;
    world.settle();
    assert_eq!(world.progress(), "False ProgressDeadlineExceeded");
    world.image("i:3");
    world.look();
    assert_eq!(world.progress(), "True ReplicaSetUpdated", "a rollback does not fail before it begins");
    world.settle();
    assert_eq!((world.sizes().as_str(), world.progress().as_str()), ("i:3=3", "True NewReplicaSetAvailable"));
}

#[test]
fn recreate_waits_until_everything_old_has_ended() {
    let mut world = World::new(json!({"strategy": {"type": "Recreate"}}));
    world.settle();
    world.image("i:2");
    let mut most = 0;
    for _ in 0..40 {
        world.now += 1;
        world.look();
        world.pods(|_| true);
        let living =
            world.sets.values().filter(|set| set.status.as_ref().is_some_and(|status| status.replicas > 0));
        most = most.max(living.count());
    }
    assert_eq!(most, 1, "never pods of both");
    assert_eq!(world.scaled, ["i:1 0->3", "i:1 3->0", "i:2 0->3"]);
    world.spec(|spec| spec.replicas = Some(5));
    world.settle();
    assert_eq!(world.sizes(), "i:2=5");
}

#[test]
fn a_deployment_that_was_scaled_in_the_middle_of_a_rollout_keeps_its_shares() {
    let strategy = rolling(json!(3), json!(2));
    let mut world = World::new(json!({"replicas": 10, "strategy": strategy}));
    world.settle();
    world.image("i:bad");
    world.settle();
    assert_eq!(world.sizes(), "i:1=8 i:bad=5");
    world.spec(|spec| spec.replicas = Some(15));
    world.look();
    assert_eq!(world.sizes(), "i:1=11 i:bad=7", "as the documentation has it");
    world.settle();
    world.spec(|spec| spec.replicas = Some(0));
    world.settle();
    assert_eq!(world.sizes(), "");
    world.spec(|spec| spec.replicas = Some(2));
    world.settle();
    assert_eq!(world.sizes(), "i:bad=2", "with nothing left, only the newest grows");
}

#[test]
fn a_paused_deployment_is_scaled_but_not_rolled_out() {
    let mut world = World::new(json!({}));
    world.settle();
    world.spec(|spec| spec.paused = Some(true));
    world.image("i:2");
    world.settle();
    assert_eq!((world.sizes().as_str(), world.progress().as_str()), ("i:1=3", "Unknown DeploymentPaused"));
    world.spec(|spec| spec.replicas = Some(5));
    world.settle();
    assert_eq!(world.sizes(), "i:1=5");
    world.now += 10_000;
    world.spec(|spec| spec.paused = Some(false));
    world.look();
    world.settle();
    assert_eq!((world.sizes().as_str(), world.progress().as_str()), ("i:2=5", "True NewReplicaSetAvailable"));
    let mut new = World::new(json!({"paused": true}));
    new.settle();
    assert!(new.sets.is_empty(), "one that was created paused has nothing");
    assert_eq!(new.progress(), "Unknown DeploymentPaused");
}

#[test]
fn old_replica_sets_are_cleaned_up_the_oldest_first() {
    let mut world = World::new(json!({"revisionHistoryLimit": 2}));
    for image in ["i:1", "i:2", "i:3", "i:4", "i:2"] {
        world.image(image);
        world.settle();
    }
    assert_eq!(world.revisions(), ["3 i:3 []", "4 i:4 []", "5 i:2 [2]"]);
    world.spec(|spec| spec.revision_history_limit = Some(0));
    world.settle();
    assert_eq!(world.revisions(), ["5 i:2 [2]"]);
    let mut for_ever = World::new(json!({"revisionHistoryLimit": i32::MAX}));
    for number in 0..15 {
        for_ever.image(&format!("i:{number}"));
        for_ever.settle();
    }
    assert_eq!(for_ever.sets.len(), 15);
}

#[test]
fn annotations_are_handed_on_except_those_that_are_its_own() {
    let mut world = World::new(json!({"minReadySeconds": 7}));
    let annotations = [
        ("kubernetes.io/change-cause", "first"),
        ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
        (history::DESIRED, "99"),
    ];
    world.deployment.metadata.annotations =
        Some(annotations.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    world.settle();
    let set = world.sets.values().next().unwrap();
    let expected: Annotations = [
        ("kubernetes.io/change-cause", "first"),
        (history::DESIRED, "3"),
        (history::MAX, "4"),
        (history::REVISION, "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    assert_eq!(set.metadata.annotations.as_ref(), Some(&expected));
    assert_eq!(set.spec.as_ref().unwrap().min_ready_seconds, Some(7));
    let labels = set.metadata.labels.as_ref().unwrap();
    assert_eq!(set.metadata.name, Some(format!("web-{}", labels["pod-template-hash"])));
    world.spec(|spec| spec.min_ready_seconds = Some(9));
    world.settle();
    assert_eq!(world.sets.len(), 1, "no new template");
    assert_eq!(world.sets.values().next().unwrap().spec.as_ref().unwrap().min_ready_seconds, Some(9));
}

#[test]
fn without_a_deadline_nothing_is_said_of_progress() {
    let mut world = World::new(json!({"progressDeadlineSeconds": null}));
    world.settle();
    assert_eq!(world.progress(), "none");
    assert_eq!(world.sizes(), "i:1=3");
}

#[test]
fn a_deployment_that_is_being_deleted_does_nothing_more() {
    let mut world = World::new(json!({}));
    world.deployment.metadata.deletion_timestamp = Some(Time(at(0)));
    world.settle();
    assert!(world.sets.is_empty());
}

#[test]
fn trouble_of_a_replica_set_is_shown_by_its_deployment() {
    let mut world = World::new(json!({}));
    world.look();
    let set = world.sets.values_mut().next().unwrap();
    let condition = json!({
        "replicas": 0,
        "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}],
    });
    set.status = Some(serde_json::from_value(condition).unwrap());
    world.look();
    assert_eq!(world.condition("ReplicaFailure"), "True FailedCreate");
    world.sets.values_mut().next().unwrap().status.as_mut().unwrap().conditions = None;
    world.settle();
    assert_eq!(world.condition("ReplicaFailure"), "none");
}

proptest! {
    /// Statuses come late and in any order, templates and numbers change in the middle: it ends, and on the way there are never more pods than
    /// allowed, and never fewer available ones than promised while the numbers stay.
    #[test]
    fn a_rollout_keeps_its_limits_whatever_is_late(
        replicas in 1_i32..12,
        surge in 0_i32..4,
        unavailable in 0_i32..4,
        steps in proptest::collection::vec((0_u8..4, any::<u8>()), 1..60),
    ) {
        let mut world = World::new(json!({"replicas": replicas, "strategy": rolling(json!(surge), json!(unavailable))}));
        world.settle();
        let limits = Limits::of(&world.deployment);
        let mut image = 1;
        for (what, which) in steps {
            world.now += 1;
            match what {
                0 => { world.look(); }
                1 | 2 => { world.pods(|index| which & (1 << (index % 8)) != 0); }
                _ => {
                    image += 1;
                    world.image(&format!("i:{}", image % 5));
                    world.look();
                }
            }
            let asked = world.sum(|set| set.spec.as_ref().unwrap().replicas.unwrap());
            prop_assert!(asked <= limits.most(), "{asked} asked for: {:?}", world.scaled);
            let lasting = world.sum(|set| {
                let available = set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0);
                available.min(set.spec.as_ref().unwrap().replicas.unwrap())
            });
            prop_assert!(lasting >= limits.least_available(), "{lasting} available: {:?}", world.scaled);
        }
        world.settle();
        prop_assert_eq!(world.available(), replicas);
        let now = format!("i:{}={replicas}", if image == 1 { 1 } else { image % 5 });
        prop_assert_eq!(world.sizes(), now);
    }
}
