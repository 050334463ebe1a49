//! A clock that is put forward by an hour and back again while a node works: back-off, CronJobs, the node's health, names and
//! tokens.

use std::collections::BTreeSet;
use std::time::Instant;

use e2e::{Node, PATIENCE, Place};

use super::machine::{fake_clock, set_clock, with_clock};
use super::node::with_kubectl;

const WORK: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: crashing}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: seen, hostPath: {path: SEEN}}]
  containers:
  - {name: c, image: coracle.dev/host, command: [/bin/sh, -c, "cut -d ' ' -f 1 /proc/uptime >> /seen/starts; exit 1"], volumeMounts: [{name: seen, mountPath: /seen}]}
---
apiVersion: v1
kind: Pod
metadata: {name: asking}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: c, image: coracle.dev/host, command: [/bin/sh, -c, "exec sleep 100000"]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick}
spec:
  schedule: "* * * * *"
  successfulJobsHistoryLimit: 100
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: coracle.dev/host, command: ["true"]}]
"#;

/// The times for which the CronJob has started a job; panics when one was started twice.
fn times(node: &Node) -> BTreeSet<String> {
    let when = r#"jsonpath={range .items[*]}{.metadata.annotations.batch\.kubernetes\.io/cronjob-scheduled-timestamp}{"\n"}{end}"#;
    let text = node.kubectl_ok(&["get", "jobs", "-o", when], "");
    let times: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(times.len(), text.lines().count(), "{text}");
    times
}

#[test]
fn a_clock_that_jumps_shortens_no_back_off_floods_with_no_jobs_and_renews_tokens() {
    let test = "a_clock_that_jumps_shortens_no_back_off_floods_with_no_jobs_and_renews_tokens";
    if !with_kubectl(test) {
        return;
    }
    let Some(library) = fake_clock() else { return };
    let place = Place::new();
    let node = Node::up_by(with_clock(&place, &library), &place, &[]);
    let seen = place.data().with_file_name("seen");
    std::fs::create_dir_all(&seen).expect("made");
    let starts = || -> Vec<f64> {
        let text = std::fs::read_to_string(seen.join("starts")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let wait_for_starts = |count: usize| {
        let deadline = Instant::now() + PATIENCE;
        while starts().len() < count {
            assert!(Instant::now() < deadline, "{:?}\n{}", starts(), node.log());
            std::thread::yield_now();
        }
    };
    let ready = ["get", "nodes", "-o", "jsonpath={.items[0].status.conditions[?(@.type=='Ready')]}"];
    let ready_since = |text: &str| {
        let condition: serde_json::Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(condition["status"], "True", "{text}");
        condition["lastTransitionTime"].clone()
    };
    // Whoever looks at them looks at the clock, too.
    let touch = || {
        let mark = format!("test.coracle.dev/at={:?}", Instant::now()).replace([' ', '{', '}', ':'], "");
        node.kubectl_ok(&["annotate", "--overwrite", "pod/asking", "cronjob/tick", &mark], "");
    };
    let token = ["exec", "asking", "--", "cat", "/var/run/secrets/kubernetes.io/serviceaccount/token"];
    let names = ["exec", "asking", "--", "busybox", "nslookup", "kubernetes.default.svc.cluster.local"];
    // What the API server says to a token: 403 to one that may nothing, 401 to one that is no good.
    let answer = |token: &str| {
        let script = format!(
            "printf 'GET /api/v1/nodes HTTP/1.0\\r\\nHost: kubernetes.default\\r\\nAuthorization: Bearer {token}\\r\\n\\r\\n' | \
             openssl s_client -quiet -connect $KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT 2>/dev/null | head -n 1"
        );
        let said = node.kubectl_ok(&["exec", "asking", "--", "/bin/sh", "-c", &script], "");
        said.split(' ').nth(1).unwrap_or_default().to_owned()
    };

    node.kubectl_ok(&["create", "-f", "-"], &WORK.replace("SEEN", &seen.display().to_string()));
    node.kubectl_ok(&["wait", "--for=condition=Ready", "pod/asking", "--timeout=60s"], "");
    // The first restart is at once.
    wait_for_starts(2);
    let since = ready_since(&node.kubectl_ok(&ready, ""));
    let first_token = node.kubectl_ok(&token, "");
    let asked = r#"{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}"#;
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let given = node.kubectl_ok(&["create", "--raw", path, "-f", "-"], asked);
    let given: serde_json::Value = serde_json::from_str(&given).expect("JSON");
    let short_token = given["status"]["token"].as_str().expect("a token").to_owned();
    assert_eq!((answer(&first_token), answer(&short_token)), ("403".to_owned(), "403".to_owned()));
    node.kubectl_ok(&names, "");
    let before = times(&node);

    // An hour on: sixty times were missed, and one is made good; the token in the pod has ended, and is another soon.
    set_clock(&place, "+3700s");
    touch();
    node.wait_for(&["get", "cronjob", "tick", "-o", "jsonpath={.status.lastScheduleTime}"], |text| {
        !text.is_empty()
    });
    node.wait_for(&token, |text| !text.is_empty() && *text != first_token);
    let second_token = node.kubectl_ok(&token, "");
    assert_eq!((answer(&short_token), answer(&second_token)), ("401".to_owned(), "403".to_owned()));
    node.kubectl_ok(&names, "");
    wait_for_starts(3);
    let after = times(&node);
    assert!(!after.is_empty() && after.len() <= before.len() + 3, "{before:?} {after:?}");

    // And back: nothing is started a second time.
    set_clock(&place, "+0");
    touch();
    node.wait_for(&token, |text| !text.is_empty() && *text != second_token);
    // Within its ten minutes, by a clock that nobody sets.
    assert_eq!(
        (answer(&short_token), answer(&node.kubectl_ok(&token, ""))),
        ("403".to_owned(), "403".to_owned())
    );
    node.kubectl_ok(&names, "");
    wait_for_starts(4);
    assert_eq!(times(&node), after, "these times are still to come");
    let gaps: Vec<f64> = starts().windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[1] >= 9.9 && gaps[2] >= 19.9, "the back-off was cut short: {gaps:?}");

    assert_eq!(ready_since(&node.kubectl_ok(&ready, "")), since, "the node was ready all the time");
    assert!(!node.kubectl_ok(&["get", "events", "-A"], "").contains("NodeNotReady"));
    node.kubectl_ok(&["delete", "cronjob", "tick"], "");
}
