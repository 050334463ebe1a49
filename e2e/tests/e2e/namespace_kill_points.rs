//! Kill -9 of the process at each named point of what ends namespaces and of what each of them has: a namespace that was deleted
//! goes whole, no pod comes into it any more, and what is missing in one that stays is there again.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Value, json};

use super::crash_lane::{Lane, Outcome, ensure};
use super::kill_points::has_points;
use super::node::with_kubectl;

/// What is under way when the process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    /// A namespace with a deployment of two pods is deleted.
    End,
    /// A namespace loses its default account.
    Account,
    /// Somebody puts other certificates into a namespace.
    Certificates,
}

/// One kill: at which visit of the point since the story began.
#[derive(Clone, Copy, Debug)]
struct Kill(Story, &'static str, u32);

impl fmt::Display for Kill {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {} {}", self.0, self.1, self.2)
    }
}

const KILLS: [Kill; 13] = [
    Kill(Story::End, "namespace.content_due", 1),
    Kill(Story::End, "namespace.content_deleted", 1),
    Kill(Story::End, "namespace.status_due", 1),
    Kill(Story::End, "namespace.status_written", 1),
    // When the pods are gone, everything else goes, kind by kind.
    Kill(Story::End, "namespace.content_due", 2),
    Kill(Story::End, "namespace.content_deleted", 2),
    Kill(Story::End, "namespace.content_deleted", 4),
    Kill(Story::End, "namespace.finalize_due", 1),
    Kill(Story::End, "namespace.finalized", 1),
    Kill(Story::Account, "each_namespace.create_due", 1),
    Kill(Story::Account, "each_namespace.created", 1),
    Kill(Story::Certificates, "each_namespace.replace_due", 1),
    Kill(Story::Certificates, "each_namespace.replaced", 1),
];

/// The points whose table this is.
pub(crate) fn points() -> BTreeSet<String> {
    KILLS.iter().map(|kill| kill.1.to_owned()).collect()
}

#[test]
fn kill_9_at_any_point_of_namespaces_leaves_nothing_in_one_that_ends_and_nothing_out_of_one_that_stays() {
    let test =
        "kill_9_at_any_point_of_namespaces_leaves_nothing_in_one_that_ends_and_nothing_out_of_one_that_stays";
    if !with_kubectl(test) || !has_points(test) {
        return;
    }
    let only = std::env::var("KILL_POINT").unwrap_or_default();
    let mut lane = Lane::new();
    let mut failures = Vec::new();
    for (number, kill) in KILLS.iter().enumerate().filter(|(_, kill)| kill.to_string().contains(&only)) {
        if let Err(problem) = survive(&mut lane, *kill, &format!("n{number}")) {
            failures.push(format!("{kill}: {problem}\n--- node\n{}", lane.last_of_log()));
            // What is wrong here must not spoil the next case.
            lane = Lane::new();
        }
    }
    assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), KILLS.len(), failures.join("\n"));
}

/// One story with one kill.
fn survive(lane: &mut Lane, Kill(story, point, visit): Kill, name: &str) -> Outcome {
    let namespace = format!("/api/v1/namespaces/{name}");
    let account = format!("{namespace}/serviceaccounts/default");
    let certificates = format!("{namespace}/configmaps/kube-root-ca.crt");
    lane.ask("POST", "/api/v1/namespaces", &json!({"metadata": {"name": name}}).to_string());
    let uid = get(lane, &namespace)?["metadata"]["uid"].clone();
    let right = get(lane, &certificates)?["data"]["ca.crt"].clone();
    let (method, path, body) = match story {
        Story::End => {
            let deployments = format!("/apis/apps/v1/namespaces/{name}/deployments");
            lane.ask("POST", &deployments, &deployment().to_string());
            lane.wait("its pods do not run", || {
                let deployment = get(lane, &format!("{deployments}/web"))?;
                ensure(deployment["status"]["availableReplicas"] == 2, || deployment.to_string())
            })?;
            ("DELETE", &namespace, String::new())
        }
        Story::Account => ("DELETE", &account, String::new()),
        Story::Certificates => ("PATCH", &certificates, json!({"data": {"ca.crt": "another"}}).to_string()),
    };
    lane.arm_lines(&format!("kill {point} {visit}\n"));
    lane.ask(method, path, &body);
    lane.wait_for_death()?;
    lane.up();
    match story {
        Story::End => {
            lane.wait("it does not go", || match lane.ask("GET", &namespace, "") {
                Some((404, _)) => Ok(()),
                other => Err(format!("{other:?}")),
            })?;
            for path in [
                "/api/v1/pods",
                "/api/v1/configmaps",
                "/apis/apps/v1/replicasets",
                "/apis/apps/v1/deployments",
            ] {
                let list = get(lane, path)?;
                let left = list["items"].as_array().into_iter().flatten();
                let left: Vec<&Value> =
                    left.map(|one| &one["metadata"]).filter(|meta| meta["namespace"] == name).collect();
                ensure(left.is_empty(), || format!("{path}: {left:?}"))?;
            }
            // One of the same name begins anew.
            lane.ask("POST", "/api/v1/namespaces", &json!({"metadata": {"name": name}}).to_string());
            let again = get(lane, &namespace)?;
            ensure(again["metadata"]["uid"] != uid && again["status"]["phase"] == "Active", || {
                again.to_string()
            })?;
        }
        Story::Account => {
            lane.wait("there is no account", || get(lane, &account).map(drop))?;
        }
        Story::Certificates => lane.wait("the certificates stay wrong", || {
            let map = get(lane, &certificates)?;
            ensure(map["data"]["ca.crt"] == right, || map.to_string())
        })?,
    }
    lane.ask("DELETE", &namespace, "");
    Ok(())
}

fn get(lane: &Lane, path: &str) -> Result<Value, String> {
    let (status, body) = lane.ask("GET", path, "").ok_or("nobody answers")?;
    ensure(status == 200, || format!("{path}: {status} {body}"))?;
    serde_json::from_str(&body).map_err(|error| error.to_string())
}

fn deployment() -> Value {
    let container = json!({"name": "c", "image": "coracle.dev/host", "command": ["sleep", "100000"]});
    // They take that second, in which the namespace says what it waits for.
    let spec = json!({"terminationGracePeriodSeconds": 1, "containers": [container]});
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    })
}
