//! Deployments, jobs and their kin at home: kubectl's ordinary work with objects on which nothing acts yet.

use e2e::{Node, Place, newer_kubectl};

use super::node::with_kubectl;

const FILE: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
      - {name: db, image: "db:1", volumeMounts: [{name: data, mountPath: /data}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: agent, image: "agent:1"}]}
---
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  template:
    metadata: {labels: {app: old}}
    spec: {containers: [{name: old, image: "old:1"}]}
"#;

const NOTICE: &str = "nothing here acts on it yet";

#[test]
fn kubectl_does_its_ordinary_work_with_deployments_and_jobs() {
    if !with_kubectl("kubectl_does_its_ordinary_work_with_deployments_and_jobs")
        || !newer_kubectl("kubectl_does_its_ordinary_work_with_deployments_and_jobs")
    {
        return;
    }
    let place = Place::new();
    let server = Node::api_alone(&place, "workloads", &[]);
    // The generators write protobuf.
    for (arguments, created) in [
        (
            &["create", "deployment", "web", "--image=web:1", "--replicas=2"][..],
            "deployment.apps/web created",
        ),
        (&["create", "job", "once", "--image=busybox", "--", "true"], "job.batch/once created"),
        (
            &["create", "cronjob", "tick", "--image=busybox", "--schedule=*/5 * * * *", "--", "date"],
            "cronjob.batch/tick created",
        ),
    ] {
        let said = server.kubectl(arguments, "");
        assert!(said.status == 0 && said.stdout.contains(created), "{arguments:?}: {}", said.all());
        assert!(!said.stderr.contains(NOTICE), "{arguments:?}: {}", said.all());
    }
    let row = |arguments: &[&str]| {
        let shown = server.kubectl_ok(arguments, "");
        let row = shown.lines().last().unwrap_or_default().to_owned();
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let shown = row(&["get", "deploy", "web", "-o", "wide"]);
    assert!(shown.starts_with("web 0/2 0 0 ") && shown.ends_with(" web web:1 app=web"), "{shown}");
    let shown = row(&["get", "job", "once", "-o", "wide"]);
    assert!(shown.starts_with("once Running 0/1 ") && shown.contains(" once busybox batch."), "{shown}");
    let shown = row(&["get", "cj", "tick"]);
    assert!(shown.starts_with("tick */5 * * * * <none> False 0 <none> "), "{shown}");

    let get =
        |path: &str| server.kubectl_ok(&["get", "deployment", "web", "-o", &format!("jsonpath={path}")], "");
    server.kubectl_ok(&["scale", "deployment", "web", "--replicas=5"], "");
    assert_eq!(get("{.spec.replicas} {.metadata.generation}"), "5 2");
    let said = server.kubectl(&["scale", "deployment", "web", "--current-replicas=2", "--replicas=1"], "");
    assert!(said.status != 0 && said.stderr.contains("xpected replicas"), "{}", said.all());
    server.kubectl_ok(&["set", "image", "deployment/web", "web=web:2"], "");
    server.kubectl_ok(&["set", "env", "deployment/web", "A=1"], "");
    server.kubectl_ok(&["patch", "deploy", "web", "-p", r#"{"spec": {"minReadySeconds": 3}}"#], "");
    server.kubectl_ok(&["label", "deploy", "web", "tier=front"], "");
    server.kubectl_ok(&["rollout", "pause", "deployment/web"], "");
    assert_eq!(
        get(
            "{.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[0].value} {.spec.minReadySeconds} {.metadata.labels.tier} {.spec.paused}"
        ),
        "web:2 1 3 front true"
    );
    assert!(server.kubectl_ok(&["rollout", "history", "deployment/web"], "").contains("No rollout history"));
    let said = server.kubectl(
        &["patch", "deploy", "web", "-p", r#"{"spec": {"selector": {"matchLabels": {"a": "b"}}}}"#],
        "",
    );
    assert!(said.stderr.contains("field is immutable"), "{}", said.all());
    assert!(server.kubectl_ok(&["describe", "deployment", "web"], "").contains("web:2"));

    server.kubectl_ok(&["create", "job", "now", "--from=cronjob/tick"], "");
    let owner = "jsonpath={.metadata.ownerReferences[0].kind}/{.spec.template.spec.containers[0].command[0]}";
    assert_eq!(server.kubectl_ok(&["get", "job", "now", "-o", owner], ""), "CronJob/date");
    let said = server.kubectl(&["create", "cronjob", "bad", "--image=i", "--schedule=often"], "");
    assert!(said.stderr.contains("expected exactly 5 fields, found 1: [often]"), "{}", said.all());

    server.kubectl_ok(&["apply", "-f", "-"], FILE);
    // Claims are one list: kubectl sends it again without the defaults, here as anywhere. Nothing changes.
    assert_eq!(
        server.kubectl_ok(&["apply", "-f", "-"], FILE),
        "statefulset.apps/db configured\ndaemonset.apps/agent unchanged\nreplicationcontroller/old unchanged\n"
    );
    assert_eq!(server.kubectl_ok(&["get", "sts", "db", "-o", "jsonpath={.metadata.generation}"], ""), "1");
    let said = server.kubectl(&["apply", "-f", "-"], &FILE.replace("serviceName: db", "serviceName: other"));
    assert!(said.stderr.contains("updates to statefulset spec for fields other than"), "{}", said.all());
    server.kubectl_ok(&["scale", "--replicas=3", "sts/db", "rc/old"], "");
    let all = server.kubectl_ok(&["get", "all", "-o", "name"], "");
    for name in [
        "deployment.apps/web",
        "statefulset.apps/db",
        "daemonset.apps/agent",
        "replicationcontroller/old",
        "job.batch/once",
        "cronjob.batch/tick",
    ] {
        assert!(all.lines().any(|line| line == name), "{name}: {all}");
    }
    let wanted =
        server.kubectl_ok(&["get", "sts/db", "rc/old", "-o", "jsonpath={.items[*].spec.replicas}"], "");
    assert_eq!(wanted, "3 3");

    server.kubectl_ok(&["delete", "deploy,sts,ds,rc,job,cj", "--all"], "");
    let left = server.kubectl_ok(&["get", "all", "-o", "name"], "");
    assert_eq!(left.trim(), "service/kubernetes");
}
