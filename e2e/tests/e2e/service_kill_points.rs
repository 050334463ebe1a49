//! Kill -9 of the process at each named point of what keeps Endpoints and EndpointSlices, mirrors them, and removes pods that
//! nobody ends: afterwards each says what is true, once.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::crash_lane::{Lane, Outcome, ensure};
use super::kill_points::has_points;
use super::node::with_kubectl;

const FINALIZER: &str = "test.coracle.dev/counted";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// What is under way when the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// Two pods get a service.
    Serve,
    /// One of them is deleted.
    Lose,
    /// The service is deleted.
    Close,
    /// A service without a selector gets endpoints by hand.
    Mirror,
    /// They are taken away.
    Unmirror,
    /// A pod that no node has is deleted, and somebody's finalizer keeps it.
    Garbage,
}

const KILLS: [(Story, &str, u32); 16] = [
    (Story::Serve, "endpoints.due", 1),
    (Story::Serve, "endpoints.written", 1),
    (Story::Serve, "endpointslices.due", 1),
    (Story::Serve, "endpointslices.written", 1),
    (Story::Lose, "endpoints.due", 1),
    (Story::Lose, "endpoints.written", 1),
    (Story::Lose, "endpointslices.due", 1),
    (Story::Lose, "endpointslices.written", 1),
    (Story::Close, "endpoints.written", 1),
    (Story::Mirror, "mirroring.due", 1),
    (Story::Mirror, "endpointslices.written", 1),
    (Story::Mirror, "mirroring.written", 1),
    (Story::Unmirror, "endpointslices.deleted", 1),
    (Story::Garbage, "podgarbage.due", 1),
    (Story::Garbage, "podgarbage.marked", 1),
    (Story::Garbage, "podgarbage.deleted", 1),
];

/// The points of this table.
pub(crate) fn points() -> BTreeSet<String> {
    KILLS.iter().map(|kill| kill.1.to_owned()).collect()
}

#[test]
fn kill_9_at_any_point_of_endpoints_and_pod_garbage_leaves_each_told_once_and_truly() {
    let test = "kill_9_at_any_point_of_endpoints_and_pod_garbage_leaves_each_told_once_and_truly";
    if !with_kubectl(test) || !has_points(test) {
        return;
    }
    let only = std::env::var("KILL_POINT").unwrap_or_default();
    let mut lane = Lane::new();
    let mut failures = Vec::new();
    for (number, (story, point, visit)) in KILLS.into_iter().enumerate() {
        let shown = format!("{story:?} {point} {visit}");
        if !shown.contains(&only) {
            continue;
        }
        let lived =
            Case { name: format!("e{number}"), story }.survive(&mut lane, &format!("kill {point} {visit}\n"));
        if let Err(problem) = lived {
            failures.push(format!("{shown}: {problem}\n--- node\n{}", lane.last_of_log()));
            eprintln!("{}", failures.last().expect("one"));
            // What is wrong here must not spoil the next case.
            lane = Lane::new();
        }
    }
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), KILLS.len(), failures.join("\n"));
}

struct Case {
    name: String,
    story: Story,
}

impl Case {
    /// One story with one kill.
    fn survive(&self, lane: &mut Lane, armed: &str) -> Outcome {
        let name = &self.name;
        let named = |path: &str| format!("{path}/{name}");
        let asked: (&str, String, Value) = match self.story {
            Story::Serve | Story::Lose | Story::Close => {
                for number in [1, 2] {
                    lane.ask("POST", PODS, &self.pod(number).to_string());
                }
                lane.wait("the pods do not run", || {
                    let ready = self.list(lane, PODS).iter().filter(|pod| is_ready(pod)).count();
                    ensure(ready == 2, || format!("{ready} are ready"))
                })?;
                if self.story == Story::Serve {
                    ("POST", SERVICES.to_owned(), self.service(true))
                } else {
                    lane.ask("POST", SERVICES, &self.service(true).to_string());
                    self.wait_for_addresses(lane, 2)?;
                    let path =
                        if self.story == Story::Lose { format!("{PODS}/{name}-1") } else { named(SERVICES) };
                    ("DELETE", path, Value::Null)
                }
            }
            Story::Mirror | Story::Unmirror => {
                lane.ask("POST", SERVICES, &self.service(false).to_string());
                if self.story == Story::Mirror {
                    ("POST", ENDPOINTS.to_owned(), self.endpoints())
                } else {
                    lane.ask("POST", ENDPOINTS, &self.endpoints().to_string());
                    self.wait_for_addresses(lane, 2)?;
                    ("PATCH", named(ENDPOINTS), json!({"subsets": null}))
                }
            }
            Story::Garbage => {
                let mut pod = self.pod(1);
                pod["spec"]["schedulingGates"] = json!([{"name": "test.coracle.dev/closed"}]);
                lane.ask("POST", PODS, &pod.to_string());
                ("DELETE", format!("{PODS}/{name}-1"), Value::Null)
            }
        };
        let (method, path, body) = asked;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        lane.arm_lines(armed);
        lane.ask(method, &path, &body);
        lane.wait_for_death()?;
        lane.up();
        // It may have been cut off; what is done already is refused, which is as well.
        lane.ask(method, &path, &body);
        match self.story {
            Story::Serve | Story::Mirror => self.wait_for_addresses(lane, 2)?,
            Story::Lose => self.wait_for_addresses(lane, 1)?,
            Story::Unmirror => self.wait_for_slices(lane, 0, 0)?,
            Story::Close => {
                lane.wait("the endpoints are still there", || {
                    let there = get(lane, &named(ENDPOINTS)).is_some();
                    ensure(!there, || "so they are".to_owned())
                })?;
                self.wait_for_slices(lane, 0, 0)?;
            }
            Story::Garbage => lane.wait("the pod does not go", || {
                let pods = self.list(lane, PODS);
                let [pod] = pods.as_slice() else { return Err(format!("{} pods", pods.len())) };
                let goes = pod["metadata"]["deletionTimestamp"].is_string();
                ensure(goes && pod["status"]["phase"] == "Failed", || pod.to_string())
            })?,
        }
        self.clear(lane)
    }

    fn pod(&self, number: u32) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("{}-{number}", self.name), "labels": {"story": self.name}, "finalizers": [FINALIZER],
            },
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "coracle.dev/host", "command": ["sleep", "100000"]}],
            },
        })
    }

    fn service(&self, selects: bool) -> Value {
        let selector = if selects { json!({"story": self.name}) } else { Value::Null };
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": self.name, "labels": {"story": self.name}},
            "spec": {"selector": selector, "ports": [{"port": 80}]},
        })
    }

    fn endpoints(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": self.name},
            "subsets": [{"addresses": [{"ip": "10.99.98.1"}, {"ip": "10.99.98.2"}], "ports": [{"port": 80}]}],
        })
    }

    fn list(&self, lane: &Lane, path: &str) -> Vec<Value> {
        self.list_by(lane, path, "story")
    }

    fn list_by(&self, lane: &Lane, path: &str, label: &str) -> Vec<Value> {
        let list = get(lane, &format!("{path}?labelSelector={label}%3D{}", self.name)).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until Endpoints and one slice have so many addresses.
    fn wait_for_addresses(&self, lane: &Lane, count: usize) -> Outcome {
        lane.wait("the endpoints are not so", || {
            let endpoints = get(lane, &format!("{ENDPOINTS}/{}", self.name)).ok_or("there are none")?;
            let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
            let addresses: usize =
                subsets.iter().filter_map(|subset| subset["addresses"].as_array()).map(Vec::len).sum();
            ensure(addresses == count, || endpoints.to_string())
        })?;
        self.wait_for_slices(lane, 1, count)
    }

    fn wait_for_slices(&self, lane: &Lane, slices: usize, addresses: usize) -> Outcome {
        lane.wait("the slices are not so", || {
            let found = self.list_by(lane, SLICES, "kubernetes.io%2Fservice-name");
            let endpoints = found.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten();
            let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != json!(false)).count();
            ensure(found.len() == slices && ready == addresses, || format!("{ready} ready in {found:?}"))
        })
    }

    /// Takes everything of the story away.
    fn clear(&self, lane: &Lane) -> Outcome {
        for path in [SERVICES, ENDPOINTS] {
            lane.ask("DELETE", &format!("{path}/{}", self.name), "");
        }
        lane.wait("pods are left", || {
            let pods = self.list(lane, PODS);
            for pod in &pods {
                let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap_or_default());
                lane.ask("DELETE", &path, "");
                lane.ask("PATCH", &path, &json!({"metadata": {"finalizers": null}}).to_string());
            }
            ensure(pods.is_empty(), || format!("{} pods", pods.len()))
        })
    }
}

fn get(lane: &Lane, path: &str) -> Option<Value> {
    let (code, body) = lane.ask("GET", path, "")?;
    (code == 200).then(|| serde_json::from_str(&body).ok()).flatten()
}

fn is_ready(pod: &Value) -> bool {
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    pod["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_ready))
}
