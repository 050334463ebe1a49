//! Kill -9 of the process at each named point of the controllers' work (see the crate `fault`): what was asked for comes to be,
//! and no pod is made twice. Pods of these tests keep a finalizer, so that every one that was ever created is there to be
//! counted at the end.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use super::crash_lane::{Lane, Outcome, ensure};
use super::kill_points::has_points;
use super::node::with_kubectl;

/// Lanes that work at the same time, each a node of its own.
const LANES: usize = 3;

const FINALIZER: &str = "test.coracle.dev/counted";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

/// What is under way when the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// A deployment of three is created.
    Create,
    /// It gets another template.
    Roll,
    /// It is scaled down to one.
    Shrink,
    /// A replica set of two finds a pod that nobody controls.
    Adopt,
    /// A pod of a replica set loses its label.
    Release,
}

/// One kill: at which visit of the point since the story began.
#[derive(Clone, Copy, Debug)]
struct Kill(Story, &'static str, u32);

impl fmt::Display for Kill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {} {}", self.0, self.1, self.2)
    }
}

fn kills() -> Vec<Kill> {
    let mut kills = Vec::new();
    let mut add = |story, points: &[(&'static str, u32)]| {
        kills.extend(points.iter().map(|(point, visit)| Kill(story, point, *visit)));
    };
    add(
        Story::Create,
        &[
            ("deployment.set_due", 1),
            ("deployment.set_created", 1),
            ("deployment.status_due", 1),
            ("deployment.status_written", 1),
            ("controller.pod_due", 1),
            ("controller.pod_created", 1),
            // The second and the third are created at once.
            ("controller.pod_due", 3),
            ("controller.pod_created", 2),
            ("controller.pod_created", 3),
            ("replicas.status_due", 1),
            ("replicas.status_written", 1),
            ("replicas.status_written", 2),
        ],
    );
    add(
        Story::Roll,
        &[
            ("deployment.set_due", 1),
            ("deployment.set_created", 1),
            ("deployment.scale_due", 1),
            ("deployment.scaled", 1),
            ("deployment.scaled", 2),
            ("controller.pod_due", 1),
            ("controller.pod_created", 2),
            ("controller.pod_deletion_due", 1),
            ("controller.pod_deleted", 1),
            ("deployment.set_deleted", 1),
        ],
    );
    add(
        Story::Shrink,
        &[
            ("deployment.scale_due", 1),
            ("deployment.scaled", 1),
            ("controller.pod_deletion_due", 1),
            ("controller.pod_deleted", 1),
            ("controller.pod_deleted", 2),
        ],
    );
    add(Story::Adopt, &[("controller.adopted", 1), ("controller.pod_created", 1)]);
    add(Story::Release, &[("controller.released", 1), ("controller.pod_created", 1)]);
    kills
}

/// The points of this table.
pub(crate) fn points() -> BTreeSet<String> {
    kills().iter().map(|kill| kill.1.to_owned()).collect()
}

#[test]
fn kill_9_at_any_point_of_the_controllers_makes_no_pod_twice() {
    let test = "kill_9_at_any_point_of_the_controllers_makes_no_pod_twice";
    if !with_kubectl(test) || !has_points(test) {
        return;
    }
    let only = std::env::var("KILL_POINT").unwrap_or_default();
    let kills: Vec<Kill> = kills().into_iter().filter(|kill| kill.to_string().contains(&only)).collect();
    let next = AtomicUsize::new(0);
    let failures: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..LANES.min(kills.len()) {
            scope.spawn(|| {
                let mut lane = Lane::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(kill) = kills.get(number) else { return };
                    if let Err(problem) = survive(&mut lane, *kill, &format!("w{number}")) {
                        let text = format!("{kill}: {problem}\n--- node\n{}", lane.last_of_log());
                        eprintln!("{text}");
                        failures.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                        // What is wrong here must not spoil the next case.
                        lane = Lane::new();
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), kills.len(), failures.join("\n"));
}

/// One story with one kill.
fn survive(lane: &mut Lane, Kill(story, point, visit): Kill, name: &str) -> Outcome {
    let arm = |lane: &Lane| lane.arm_lines(&format!("kill {point} {visit}\n"));
    // What the story asks for; it is asked for again if the answer was cut off.
    let (asked, steady): (Ask, Steady) = match story {
        Story::Create => {
            arm(lane);
            (Ask::create(DEPLOYMENTS, deployment(name)), Steady::deployment(3))
        }
        Story::Roll | Story::Shrink => {
            Ask::create(DEPLOYMENTS, deployment(name)).send(lane);
            Steady::deployment(3).wait(lane, name)?;
            arm(lane);
            let path = format!("{DEPLOYMENTS}/{name}");
            if story == Story::Roll {
                let env = json!([{"name": "c", "env": [{"name": "ROUND", "value": "2"}]}]);
                let patch = json!({"spec": {"template": {"spec": {"containers": env}}}});
                (Ask::patch(path, patch), Steady::deployment(3))
            } else {
                (Ask::patch(path, json!({"spec": {"replicas": 1}})), Steady::deployment(1))
            }
        }
        Story::Adopt => {
            Ask::create(PODS, orphan(name)).send(lane);
            // Pods and replica sets are watched apart: one that has just been created may be unknown when its taker comes.
            lane.wait("the pod does not run", || {
                let pods = pods_of(lane, name);
                ensure(pods.iter().any(|pod| pod["status"]["phase"] == "Running"), || format!("{pods:?}"))
            })?;
            arm(lane);
            (Ask::create(SETS, set(name)), Steady::set(2))
        }
        Story::Release => {
            Ask::create(SETS, set(name)).send(lane);
            Steady::set(2).wait(lane, name)?;
            arm(lane);
            let pods = pods_of(lane, name);
            let pod = pods[0]["metadata"]["name"].as_str().unwrap_or_default();
            let patch = json!({"metadata": {"labels": {"app": "nobody"}}});
            (Ask::patch(format!("{PODS}/{pod}"), patch), Steady::set(2))
        }
    };
    asked.send(lane);
    lane.wait_for_death()?;
    lane.up();
    asked.send(lane);
    steady.wait(lane, name)?;
    let expected = match story {
        Story::Create | Story::Shrink | Story::Release => 3,
        Story::Roll => 6,
        Story::Adopt => 2,
    };
    let pods = pods_of(lane, name);
    ensure(pods.len() == expected, || {
        let shown = |pod: &Value| {
            let meta = &pod["metadata"];
            format!("{} deleted {} {}", meta["name"], meta["deletionTimestamp"], pod["status"]["phase"])
        };
        let shown: Vec<_> = pods.iter().map(shown).collect();
        format!("{} pods were created, not {expected}: {shown:?}", pods.len())
    })?;
    let sets = labelled(lane, SETS, name);
    // The history of these deployments has no length.
    ensure(sets.len() == 1, || format!("{} replica sets are there", sets.len()))?;
    clear(lane, name)
}

/// A request that may be sent again.
struct Ask {
    method: &'static str,
    path: String,
    body: Value,
}

impl Ask {
    fn create(path: &str, body: Value) -> Ask {
        Ask { method: "POST", path: path.to_owned(), body }
    }

    fn patch(path: String, body: Value) -> Ask {
        Ask { method: "PATCH", path, body }
    }

    fn send(&self, lane: &Lane) {
        // What is there already is refused, which is as well.
        lane.ask(self.method, &self.path, &self.body.to_string());
    }
}

/// When a story has come to its end.
struct Steady {
    path: &'static str,
    replicas: u64,
}

impl Steady {
    fn deployment(replicas: u64) -> Steady {
        Steady { path: DEPLOYMENTS, replicas }
    }

    fn set(replicas: u64) -> Steady {
        Steady { path: SETS, replicas }
    }

    fn wait(&self, lane: &Lane, name: &str) -> Outcome {
        lane.wait("it does not become steady", || {
            let answer = lane.ask("GET", &format!("{}/{name}", self.path), "");
            let (_, body) = answer.ok_or("nobody answers")?;
            let object: Value = serde_json::from_str(&body).map_err(|error| error.to_string())?;
            let status = &object["status"];
            let observed = status["observedGeneration"] == object["metadata"]["generation"];
            let is_set = self.path == SETS;
            let counts = status["replicas"] == self.replicas
                && status["availableReplicas"] == self.replicas
                && (is_set || status["updatedReplicas"] == self.replicas);
            let sets = labelled(lane, SETS, name).len();
            ensure(observed && counts && sets == 1, || format!("{sets} replica sets; {object}"))
        })
    }
}

fn template(name: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": name, "story": name}, "finalizers": [FINALIZER]},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "coracle.dev/host", "command": ["sleep", "100000"]}],
        },
    })
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"story": name}},
        "spec": {
            "replicas": 3, "revisionHistoryLimit": 0, "selector": {"matchLabels": {"app": name}}, "template": template(name),
        },
    })
}

fn set(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "labels": {"story": name}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template(name)},
    })
}

fn orphan(name: &str) -> Value {
    let mut pod = template(name);
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!(format!("{name}-orphan"));
    pod
}

fn labelled(lane: &Lane, path: &str, name: &str) -> Vec<Value> {
    let answer = lane.ask("GET", &format!("{path}?labelSelector=story%3D{name}"), "");
    let list = answer.and_then(|(_, body)| serde_json::from_str::<Value>(&body).ok()).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Every pod that the story ever had.
fn pods_of(lane: &Lane, name: &str) -> Vec<Value> {
    labelled(lane, PODS, name)
}

/// Takes everything of a story away.
fn clear(lane: &Lane, name: &str) -> Outcome {
    let all = format!("?labelSelector=story%3D{name}");
    for path in [DEPLOYMENTS, SETS, PODS] {
        lane.ask("DELETE", &format!("{path}{all}"), "");
    }
    lane.wait("pods are left", || {
        let pods = pods_of(lane, name);
        for pod in &pods {
            let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap_or_default());
            lane.ask("DELETE", &path, "");
            Ask::patch(path, json!({"metadata": {"finalizers": null}})).send(lane);
        }
        ensure(pods.is_empty(), || format!("{} pods", pods.len()))
    })
}
