//! Deployments, replica sets and replication controllers as people use them with kubectl: rolled out, undone, paused, scaled,
//! deleted; and what goes wrong with them.

use std::collections::BTreeSet;

use e2e::{Node, Place, newer_kubectl};

use super::node::with_kubectl;

/// Two pods that run until they are deleted.
const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  progressDeadlineSeconds: 600
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - {name: c, image: coracle.dev/host, command: [sleep, "100000"]}
"#;

const DONE: &str = "successfully rolled out";

/// Names of the pods with this label that are not on their way out.
fn pods(node: &Node, label: &str) -> BTreeSet<String> {
    let path = "jsonpath={range .items[*]}{.metadata.name}|{.metadata.deletionTimestamp}{\"\\n\"}{end}";
    let out = node.kubectl_ok(&["get", "pods", "-l", label, "-o", path], "");
    out.lines().filter_map(|line| line.strip_suffix('|')).map(str::to_owned).collect()
}

#[test]
fn a_deployment_is_rolled_out_changed_undone_paused_scaled_and_deleted_with_kubectl() {
    let test = "a_deployment_is_rolled_out_changed_undone_paused_scaled_and_deleted_with_kubectl";
    if !with_kubectl(test) || !newer_kubectl(test) {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let run = |arguments: &[&str]| node.kubectl_ok(arguments, "");
    let status = || run(&["rollout", "status", "deployment/web", "--timeout=90s"]);
    let get = |path: &str| run(&["get", "deployment", "web", "-o", &format!("jsonpath={path}")]);

    node.kubectl_ok(&["apply", "-f", "-"], WEB);
    assert!(status().contains(DONE));
    assert!(run(&["get", "deployment", "web"]).contains("2/2"), "both are ready");
    assert_eq!(get("{.metadata.annotations.deployment\\.kubernetes\\.io/revision}"), "1");
    let first = pods(&node, "app=web");
    assert_eq!(first.len(), 2);
    let hash = run(&["get", "rs", "-o", "jsonpath={.items[0].metadata.labels.pod-template-hash}"]);
    assert!(first.iter().all(|name| name.starts_with(&format!("web-{hash}-"))), "{hash}: {first:?}");
    assert!(
        run(&["describe", "deployment", "web"])
            .contains(&format!("Scaled up replica set web-{hash} from 0 to 2"))
    );

    // A pod that is deleted is replaced.
    let killed = first.iter().next().expect("a pod");
    run(&["delete", "pod", killed]);
    node.wait_for(&["get", "deployment", "web"], |out| out.contains("2/2"));
    let second = pods(&node, "app=web");
    assert!(second.len() == 2 && !second.contains(killed), "{second:?}");

    // Another environment, restart, history, undo.
    run(&["set", "env", "deployment/web", "ROUND=2"]);
    run(&["annotate", "deployment/web", "kubernetes.io/change-cause=round two"]);
    assert!(status().contains(DONE));
    run(&["rollout", "restart", "deployment/web"]);
    assert!(status().contains(DONE));
    assert!(pods(&node, "app=web").is_disjoint(&second));
    let history = run(&["rollout", "history", "deployment/web"]);
    assert!(history.contains("round two") && history.lines().count() >= 4, "{history}");
    assert!(run(&["rollout", "history", "deployment/web", "--revision=2"]).contains("ROUND:\t2"));
    run(&["rollout", "undo", "deployment/web", "--to-revision=1"]);
    assert!(status().contains(DONE));
    assert_eq!(get("{.spec.template.spec.containers[0].env}"), "", "the first had none");
    assert_eq!(get("{.metadata.annotations.deployment\\.kubernetes\\.io/revision}"), "4");
    assert_eq!(run(&["get", "rs", "-o", "name"]).lines().count(), 3, "the first one is used again");
    run(&["rollout", "undo", "deployment/web"]);
    assert!(status().contains(DONE));
    assert_eq!(get("{.spec.template.spec.containers[0].env[0].value}"), "2");

    // What is changed while it is paused comes all at once when it goes on; scaling does not wait.
    run(&["rollout", "pause", "deployment/web"]);
    run(&["set", "env", "deployment/web", "ROUND=3"]);
    run(&["set", "env", "deployment/web", "MORE=4"]);
    run(&["scale", "deployment/web", "--replicas=3"]);
    node.wait_for(&["get", "deployment", "web"], |out| out.contains("3/3"));
    assert_eq!(get("{.status.conditions[?(@.type==\"Progressing\")].reason}"), "DeploymentPaused");
    assert_eq!(run(&["get", "rs", "-o", "name"]).lines().count(), 3);
    run(&["rollout", "resume", "deployment/web"]);
    assert!(status().contains(DONE));
    assert_eq!(run(&["get", "rs", "-o", "name"]).lines().count(), 4);

    // Deleted alone, its replica sets stay; those without theirs, the pods stay; and whoever comes takes them in.
    let before = pods(&node, "app=web");
    run(&["delete", "deployment", "web", "--cascade=orphan"]);
    let owners = "jsonpath={.items[*].metadata.ownerReferences}";
    node.wait_for(&["get", "rs", "-o", owners], |out| out.trim().is_empty());
    run(&["delete", "rs", "--all", "--cascade=orphan"]);
    node.wait_for(&["get", "pods", "-l", "app=web", "-o", owners], |out| out.trim().is_empty());
    assert_eq!(pods(&node, "app=web"), before);
    let taker = "kind: ReplicationController\napiVersion: v1\nmetadata: {name: taker}\nspec:\n  replicas: 2\n  selector: {app: web}\n  \
                 template:\n    metadata: {labels: {app: web}}\n    spec: {containers: [{name: c, image: coracle.dev/host}]}\n";
    node.kubectl_ok(&["apply", "-f", "-"], taker);
    node.wait_for(&["get", "rc", "taker"], |out| {
        out.lines()
            .last()
            .is_some_and(|row| row.split_whitespace().collect::<Vec<_>>()[1..4] == ["2", "2", "2"])
    });
    let after = pods(&node, "app=web");
    assert!(after.len() == 2 && after.is_subset(&before), "one of three was one too many: {after:?}");
    // Foreground: when the answer comes, everything is gone.
    run(&["delete", "rc", "taker", "--cascade=foreground"]);
    assert_eq!(pods(&node, "app=web"), BTreeSet::new());
}

#[test]
fn a_bad_image_holds_the_rollout_while_the_old_pods_serve_and_undo_mends_it() {
    let test = "a_bad_image_holds_the_rollout_while_the_old_pods_serve_and_undo_mends_it";
    if !with_kubectl(test) || !newer_kubectl(test) {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["apply", "-f", "-"], &WEB.replace("Seconds: 600", "Seconds: 3"));
    node.kubectl_ok(&["rollout", "status", "deployment/web", "--timeout=90s"], "");
    let before = pods(&node, "app=web");
    // Nobody listens at that port.
    node.kubectl_ok(&["set", "image", "deployment/web", "c=127.0.0.1:1/none:1"], "");
    let said = node.kubectl(&["rollout", "status", "deployment/web", "--timeout=90s"], "");
    assert!(said.status != 0 && said.stderr.contains("exceeded its progress deadline"), "{}", said.all());
    assert!(before.is_subset(&pods(&node, "app=web")), "the old ones serve on");
    assert!(node.kubectl_ok(&["describe", "deployment", "web"], "").contains("ProgressDeadlineExceeded"));
    node.kubectl_ok(&["rollout", "undo", "deployment/web"], "");
    let status = node.kubectl_ok(&["rollout", "status", "deployment/web", "--timeout=90s"], "");
    assert!(status.contains(DONE), "{status}");
    node.wait_for(&["get", "pods", "-l", "app=web", "-o", "name"], |out| out.lines().count() == 2);
    assert_eq!(pods(&node, "app=web"), before, "they were never touched");
}

#[test]
fn a_quota_that_is_used_up_is_said_in_status_and_events_and_nothing_floods() {
    let test = "a_quota_that_is_used_up_is_said_in_status_and_events_and_nothing_floods";
    if !with_kubectl(test) || !newer_kubectl(test) {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "quota", "few", "--hard=pods=2"], "");
    node.kubectl_ok(&["apply", "-f", "-"], &WEB.replace("replicas: 2", "replicas: 20"));
    let condition = "jsonpath={.status.conditions[?(@.type==\"ReplicaFailure\")].message}";
    let said = node
        .wait_for(&["get", "deployment", "web", "-o", condition], |out| out.contains("exceeded quota: few"));
    assert!(said.contains("limited: pods=2"), "{said}");
    let events = node.wait_for(&["get", "events", "--field-selector=reason=FailedCreate"], |out| {
        out.contains("exceeded quota")
    });
    assert!(events.lines().count() < 30, "{events}");
    assert_eq!(pods(&node, "app=web").len(), 2);
    // More room: more of them come, also when one of another owner goes.
    node.kubectl_ok(&["patch", "quota", "few", "-p", r#"{"spec": {"hard": {"pods": "3"}}}"#], "");
    node.wait_for(&["get", "deployment", "web"], |out| out.contains("3/20"));
    // Room for all.
    node.kubectl_ok(&["patch", "quota", "few", "-p", r#"{"spec": {"hard": {"pods": "50"}}}"#], "");
    node.kubectl_ok(&["scale", "deployment/web", "--replicas=4"], "");
    node.wait_for(&["get", "deployment", "web"], |out| out.contains("4/4"));
    let condition = node.kubectl_ok(&["get", "deployment", "web", "-o", condition], "");
    assert_eq!(condition, "", "what was mended is no longer said");
}

#[test]
fn a_container_that_crashes_again_and_again_makes_no_further_pods() {
    let test = "a_container_that_crashes_again_and_again_makes_no_further_pods";
    if !with_kubectl(test) || !newer_kubectl(test) {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["apply", "-f", "-"], &WEB.replace(r#"[sleep, "100000"]"#, "[/bin/false]"));
    let restarts = "jsonpath={range .items[*]}{.status.containerStatuses[0].restartCount} {end}";
    let of_web = ["get", "pods", "-l", "app=web", "-o", restarts];
    node.wait_for(&of_web, |said| said.split_whitespace().filter(|count| *count != "0").count() == 2);
    let first = pods(&node, "app=web");
    assert_eq!(first.len(), 2, "{first:?}");
    node.wait_for(&["get", "pods", "-l", "app=web"], |out| out.matches("CrashLoopBackOff").count() == 2);
    assert_eq!(pods(&node, "app=web"), first);
    let made =
        node.kubectl_ok(&["get", "events", "--field-selector=reason=SuccessfulCreate", "-o", "name"], "");
    assert_eq!(made.lines().count(), 2, "{made}");
}

/// A pod that asks both databases in every way, and says which answered.
fn asks_both(name: &str) -> String {
    format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  containers:
  - name: c
    image: coracle.dev/host
    command:
    - /bin/sh
    - -c
    - |
      for way in $MONGODB_SERVICE_HOST:$MONGODB_SERVICE_PORT ${{MONGODB_PORT#tcp://}} $MONGODB_PORT_27017_TCP_ADDR:$MONGODB_PORT_27017_TCP_PORT mongodb:27017 \
          $OTHER_SERVICE_HOST:$OTHER_SERVICE_PORT other:27017; do
        curl -sS -m 10 http://$way/ 2> /dev/null || echo nobody
      done
"#
    )
}

#[test]
fn the_documents_database_keeps_its_pods_and_is_reached_by_every_way_beside_a_second_instance() {
    let test = "the_documents_database_keeps_its_pods_and_is_reached_by_every_way_beside_a_second_instance";
    if !with_kubectl(test) {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let example =
        std::fs::read_to_string(e2e::project().join("examples/templates/mongodb.json")).expect("the example");
    // An image of this machine stands in for the database.
    let file = place
        .file("mongodb.json", &example.replace("docker.io/centos/mongodb-26-centos7", "coracle.dev/host"));
    let file = file.to_str().expect("text");
    let processed = |name: &str| {
        let service = format!("DATABASE_SERVICE_NAME={name}");
        let arguments = [
            "template",
            "process",
            "-f",
            file,
            "-p",
            &service,
            "-p",
            "MONGODB_PASSWORD=pw",
            "-p",
            "REPLICA_COUNT=2",
            "-o",
            "json",
        ];
        let said = e2e::finish(&mut place.coracle(&arguments), "");
        assert_eq!(said.status, 0, "{}", said.all());
        let mut list: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
        for object in list["items"].as_array_mut().expect("a list") {
            if object["kind"] == "ReplicationController" {
                let spec = &mut object["spec"]["template"]["spec"];
                let serve = "mkdir -p /srv/www && echo $MONGODB_USER of NAME > /srv/www/index.html && \
                             exec busybox httpd -f -p 27017 -h /srv/www";
                spec["containers"][0]["command"] =
                    serde_json::json!(["/bin/sh", "-c", serve.replace("NAME", name)]);
                spec["containers"][0]["readinessProbe"] =
                    serde_json::json!({"tcpSocket": {"port": 27017}, "periodSeconds": 1});
                spec["terminationGracePeriodSeconds"] = serde_json::json!(0);
            }
        }
        list.to_string()
    };
    node.kubectl_ok(&["apply", "-f", "-"], &processed("mongodb"));
    let ready = "jsonpath={.status.replicas} {.status.readyReplicas} {.status.availableReplicas}";
    node.wait_for(&["get", "rc", "mongodb", "-o", ready], |out| out == "2 2 2");
    let before = pods(&node, "name=mongodb");
    let killed = before.iter().next().expect("a pod").clone();
    node.kubectl_ok(&["delete", "pod", &killed], "");
    node.wait_for(&["get", "rc", "mongodb", "-o", ready], |out| out == "2 2 2");
    let after = pods(&node, "name=mongodb");
    assert!(after.len() == 2 && !after.contains(&killed), "{after:?}");
    // A second instance beside it is independent.
    node.kubectl_ok(&["apply", "-f", "-"], &processed("other"));
    node.wait_for(&["get", "rc", "other", "-o", ready], |out| out == "2 2 2");
    let ask = |client: &str, of_other: usize| {
        let addresses = ["get", "endpoints", "other", "-o", "jsonpath={.subsets[*].addresses[*].ip}"];
        node.wait_for(&addresses, |said| said.split_whitespace().count() == of_other);
        node.kubectl_ok(&["create", "-f", "-"], &asks_both(client));
        node.wait_for(&["get", "pod", client, "-o", "jsonpath={.status.phase}"], |phase| {
            phase == "Succeeded"
        });
        node.kubectl_ok(&["logs", client], "")
    };
    let own = "username of mongodb\n".repeat(4);
    assert_eq!(ask("first", 2), format!("{own}{}", "username of other\n".repeat(2)));
    node.kubectl_ok(&["scale", "rc/other", "--replicas=0"], "");
    node.wait_for(&["get", "pods", "-l", "name=other", "-o", "name"], |out| out.trim().is_empty());
    assert_eq!(pods(&node, "name=mongodb"), after);
    assert_eq!(ask("second", 0), format!("{own}{}", "nobody\n".repeat(2)));
}
