//! Kill -9 of the process at each named point of the work on StatefulSets, DaemonSets, claims and their directories: no pod is made
//! twice, no claim is lost or answered twice, and no directory is left behind.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::crash_lane::{Lane, Outcome, ensure};
use super::kill_points::has_points;
use super::node::with_kubectl;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const STATEFUL_SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const FINALIZER: &str = "test.coracle.dev/counted";

/// What is under way when the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// A StatefulSet of two with a claim for each pod comes up.
    Rise,
    /// It is scaled to one, and the claim of the other pod goes with it.
    Shrink,
    /// A DaemonSet comes up.
    Daemon,
    /// It gets another template.
    Roll,
    /// A pod with an ephemeral volume comes and goes.
    Ephemeral,
    /// A claim finds a volume made by hand.
    ByHand,
}

fn kills() -> Vec<(Story, &'static str, u32)> {
    vec![
        (Story::Rise, "revision.written", 1),
        (Story::Rise, "stateful_set.claim_created", 1),
        (Story::Rise, "claim.volume_created", 1),
        (Story::Rise, "claim.bound", 1),
        (Story::Rise, "claim.bound", 3),
        (Story::Rise, "claim.status_written", 1),
        (Story::Rise, "volume.status_written", 1),
        (Story::Rise, "claim.directory_made", 1),
        (Story::Rise, "stateful_set.pod_created", 1),
        (Story::Rise, "stateful_set.pod_created", 2),
        (Story::Rise, "stateful_set.status_written", 2),
        (Story::Shrink, "stateful_set.claim_owned", 1),
        (Story::Shrink, "stateful_set.pod_deleted", 1),
        (Story::Shrink, "claim.freed", 1),
        (Story::Shrink, "volume.deleted", 1),
        (Story::Shrink, "volume.written", 1),
        (Story::Shrink, "claim.directory_leaving", 1),
        (Story::Shrink, "claim.directory_removed", 1),
        (Story::Daemon, "daemon_set.pods_created", 1),
        (Story::Daemon, "daemon_set.status_written", 1),
        (Story::Roll, "daemon_set.pod_deleted", 1),
        (Story::Ephemeral, "ephemeral_claim.created", 1),
        (Story::ByHand, "claim.volume_given", 1),
    ]
}

/// The points of this table.
pub(crate) fn points() -> BTreeSet<String> {
    kills().iter().map(|(_, point, _)| (*point).to_owned()).collect()
}

#[test]
fn kill_9_at_any_point_of_sets_and_claims_makes_no_pod_twice_and_loses_no_claim() {
    let test = "kill_9_at_any_point_of_sets_and_claims_makes_no_pod_twice_and_loses_no_claim";
    if !with_kubectl(test) || !has_points(test) {
        return;
    }
    let only = std::env::var("KILL_POINT").unwrap_or_default();
    let mut lane = Lane::new();
    let mut failures = Vec::new();
    for (number, (story, point, visit)) in kills().into_iter().enumerate() {
        let title = format!("{story:?} {point} {visit}");
        if !title.contains(&only) {
            continue;
        }
        let mut case = Case { lane: &mut lane, name: format!("s{number}") };
        if let Err(problem) = case.survive(story, &format!("kill {point} {visit}\n")) {
            failures.push(format!("{title}: {problem}\n--- node\n{}", lane.last_of_log()));
            eprintln!("{}", failures.last().expect("one"));
            // What is wrong here must not spoil the next case.
            lane = Lane::new();
        }
    }
    assert!(failures.is_empty(), "{} cases:\n{}", failures.len(), failures.join("\n"));
}

struct Case<'l> {
    lane: &'l mut Lane,
    name: String,
}

impl Case<'_> {
    fn send(&self, method: &str, path: &str, body: &Value) {
        // What is there already is refused, which is as well.
        self.lane.ask(method, path, &body.to_string());
    }

    fn get(&self, path: &str) -> Value {
        let answer = self.lane.ask("GET", path, "");
        answer.and_then(|(_, body)| serde_json::from_str(&body).ok()).unwrap_or_default()
    }

    fn items(&self, path: &str) -> Vec<Value> {
        self.get(path)["items"].as_array().cloned().unwrap_or_default()
    }

    fn labelled(&self, path: &str) -> Vec<Value> {
        self.items(&format!("{path}?labelSelector=app%3D{}", self.name))
    }

    fn template(&self, finalizer: bool) -> Value {
        json!({
            "metadata": {"labels": {"app": self.name}, "finalizers": if finalizer { vec![FINALIZER] } else { vec![] }},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "coracle.dev/host", "command": ["sleep", "100000"]}],
            },
        })
    }

    fn stateful_set(&self, finalizer: bool) -> Value {
        let mut template = self.template(finalizer);
        template["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
        json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": self.name},
            "spec": {
                "replicas": 2, "serviceName": "s", "selector": {"matchLabels": {"app": self.name}}, "template": template,
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim_spec()}],
            },
        })
    }

    fn daemon_set(&self, finalizer: bool) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": self.name},
            "spec": {"selector": {"matchLabels": {"app": self.name}}, "template": self.template(finalizer)},
        })
    }

    /// Sends what is asked for, waits for the kill, and sends it again, for the answer may have been cut off.
    fn killed(&mut self, method: &str, path: &str, body: &Value, line: &str) -> Outcome {
        self.lane.arm_lines(line);
        self.send(method, path, body);
        self.lane.wait_for_death()?;
        self.lane.up();
        self.send(method, path, body);
        Ok(())
    }

    /// So many pods are ready, and each claim has its volume, and each volume its directory.
    fn wait(&self, pods: usize, claims: usize) -> Outcome {
        self.lane.wait("it does not become steady", || {
            let found = self.labelled(PODS);
            let ready = found.iter().filter(|pod| {
                let conditions = pod["status"]["conditions"].as_array();
                conditions.is_some_and(|all| {
                    all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
                })
            });
            let bound = self.labelled(CLAIMS);
            let is_bound = |claim: &Value| {
                let volume = format!("pvc-{}", claim["metadata"]["uid"].as_str().unwrap_or_default());
                claim["status"]["phase"] == "Bound" && claim["spec"]["volumeName"] == volume
            };
            let volumes = self.items(VOLUMES);
            let all_bound = bound.len() == claims && bound.iter().all(is_bound) && volumes.len() == claims;
            ensure(ready.count() == pods && found.len() == pods && all_bound, || {
                format!("{} pods, {} claims, {} volumes", found.len(), bound.len(), volumes.len())
            })
        })
    }

    fn survive(&mut self, story: Story, line: &str) -> Outcome {
        match story {
            Story::Rise => {
                // Every pod that was ever made is there to be counted.
                self.killed("POST", STATEFUL_SETS, &self.stateful_set(true), line)?;
                self.wait(2, 2)?;
            }
            Story::Shrink => {
                self.send("POST", STATEFUL_SETS, &self.stateful_set(false));
                self.wait(2, 2)?;
                let path = format!("{STATEFUL_SETS}/{}", self.name);
                self.killed("PATCH", &path, &json!({"spec": {"replicas": 1}}), line)?;
                self.wait(1, 1)?;
            }
            Story::Daemon => {
                self.killed("POST", DAEMON_SETS, &self.daemon_set(true), line)?;
                self.wait(1, 0)?;
            }
            Story::Roll => {
                self.send("POST", DAEMON_SETS, &self.daemon_set(false));
                self.wait(1, 0)?;
                let container = json!([{"name": "c", "env": [{"name": "ROUND", "value": "2"}]}]);
                let patch = json!({"spec": {"template": {"spec": {"containers": container}}}});
                self.killed("PATCH", &format!("{DAEMON_SETS}/{}", self.name), &patch, line)?;
                self.lane.wait("it is not rolled out", || {
                    let pods = self.labelled(PODS);
                    let is_new = |pod: &Value| {
                        pod["spec"]["containers"][0]["env"][0]["value"] == "2"
                            && pod["status"]["phase"] == "Running"
                    };
                    ensure(pods.len() == 1 && pods.iter().all(is_new), || format!("{} pods", pods.len()))
                })?;
            }
            Story::Ephemeral => {
                let mut pod = self.template(false);
                pod["apiVersion"] = json!("v1");
                pod["kind"] = json!("Pod");
                pod["metadata"]["name"] = json!(self.name);
                let template = json!({"metadata": {"labels": {"app": self.name}}, "spec": claim_spec()});
                pod["spec"]["volumes"] =
                    json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]);
                self.killed("POST", PODS, &pod, line)?;
                self.wait(1, 1)?;
            }
            Story::ByHand => {
                let mut spec = claim_spec();
                spec["storageClassName"] = json!("manual");
                let meta = json!({"name": self.name, "labels": {"app": self.name}});
                let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec});
                self.send("POST", CLAIMS, &claim);
                let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": self.name}, "spec": {
                    "storageClassName": "manual", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                    "hostPath": {"path": "/nowhere"}}});
                self.killed("POST", VOLUMES, &volume, line)?;
                self.lane.wait("they are not bound", || {
                    let claim = self.get(&format!("{CLAIMS}/{}", self.name));
                    let volume = self.get(&format!("{VOLUMES}/{}", self.name));
                    let is_bound = |object: &Value| object["status"]["phase"] == "Bound";
                    ensure(is_bound(&claim) && is_bound(&volume), || format!("{claim} {volume}"))
                })?;
            }
        }
        self.clear()
    }

    /// Takes everything of a story away; nothing stays, and no directory.
    fn clear(&self) -> Outcome {
        let nothing = json!({});
        for path in [STATEFUL_SETS, DAEMON_SETS] {
            self.send("DELETE", &format!("{path}/{}", self.name), &nothing);
        }
        self.lane.wait("something is left", || {
            for pod in self.labelled(PODS) {
                let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap_or_default());
                self.send("DELETE", &path, &nothing);
                self.send("PATCH", &path, &json!({"metadata": {"finalizers": null}}));
            }
            for claim in self.labelled(CLAIMS) {
                let name = claim["metadata"]["name"].as_str().unwrap_or_default();
                self.send("DELETE", &format!("{CLAIMS}/{name}"), &nothing);
            }
            let by_hand = format!("{VOLUMES}/{}", self.name);
            if self.get(&by_hand)["status"]["phase"] == "Released" {
                self.send("DELETE", &by_hand, &nothing);
            }
            let left = (self.labelled(PODS).len(), self.labelled(CLAIMS).len(), self.items(VOLUMES).len());
            ensure(left == (0, 0, 0), || format!("{left:?} pods, claims, volumes"))
        })
    }
}

fn claim_spec() -> Value {
    json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}})
}
