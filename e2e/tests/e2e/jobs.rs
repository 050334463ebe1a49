//! Jobs and CronJobs as people use them with kubectl, and by `coracle run`.

use e2e::{Node, Place, newer_kubectl};

use super::node::with_kubectl;

#[test]
fn kubectl_creates_waits_for_and_deletes_jobs_and_cron_jobs() {
    let test = "kubectl_creates_waits_for_and_deletes_jobs_and_cron_jobs";
    if !with_kubectl(test) || !newer_kubectl(test) {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let run = |arguments: &[&str]| node.kubectl_ok(arguments, "");
    run(&["create", "job", "once", "--image=coracle.dev/host", "--", "/bin/echo", "from once"]);
    run(&["wait", "--for=condition=complete", "job/once", "--timeout=90s"]);
    assert_eq!(run(&["logs", "job/once"]), "from once\n");
    let row = run(&["get", "job", "once", "--no-headers"]);
    assert!(row.split_whitespace().take(3).eq(["once", "Complete", "1/1"]), "{row}");
    let told = run(&["describe", "job", "once"]);
    for text in
        ["SuccessfulCreate", "Created pod: once-", "Completed", "Job completed", "1 Succeeded / 0 Failed"]
    {
        assert!(told.contains(text), "no {text} in {told}");
    }

    run(&[
        "create",
        "cronjob",
        "tick",
        "--image=coracle.dev/host",
        "--schedule=0 0 1 1 *",
        "--",
        "/bin/echo",
        "tick",
    ]);
    run(&["create", "job", "now", "--from=cronjob/tick"]);
    run(&["wait", "--for=condition=complete", "job/now", "--timeout=90s"]);
    assert_eq!(run(&["logs", "job/now"]), "tick\n");

    // Each pod of an indexed job knows its index in four ways.
    let indexed = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: each}
spec:
  completions: 2
  parallelism: 2
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: coracle.dev/host
        command: [/bin/sh, -c, 'echo "$JOB_COMPLETION_INDEX on $HOSTNAME"']
"#;
    node.kubectl_ok(&["apply", "-f", "-"], indexed);
    run(&["wait", "--for=condition=complete", "job/each", "--timeout=90s"]);
    for index in ["0", "1"] {
        let label = format!("batch.kubernetes.io/job-completion-index={index},job-name=each");
        assert_eq!(run(&["logs", "-l", &label]), format!("{index} on each-{index}\n"));
    }
    assert_eq!(run(&["get", "job", "each", "-o", "jsonpath={.status.completedIndexes}"]), "0,1");

    // One that fails says so, and how.
    let failing = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: bad}
spec:
  backoffLimit: 3
  podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: coracle.dev/host, command: [/bin/sh, -c, exit 42]}]
"#;
    node.kubectl_ok(&["apply", "-f", "-"], failing);
    run(&["wait", "--for=condition=failed", "job/bad", "--timeout=90s"]);
    let why = run(&[
        "get",
        "job",
        "bad",
        "-o",
        "jsonpath={.status.conditions[?(@.type==\"Failed\")].reason} {.status.failed}",
    ]);
    assert_eq!(why, "PodFailurePolicy 1");

    // One that is deleted while it runs takes its pods with it.
    let long = r#"
apiVersion: batch/v1
kind: Job
metadata: {name: long}
spec:
  template:
    spec:
      terminationGracePeriodSeconds: 0
      restartPolicy: Never
      containers: [{name: c, image: coracle.dev/host, command: [/bin/sleep, "100000"]}]
"#;
    node.kubectl_ok(&["apply", "-f", "-"], long);
    node.wait_for(&["get", "pods", "-l", "job-name=long"], |out| out.contains("Running"));
    run(&["delete", "job", "--all", "--timeout=90s"]);
    run(&["delete", "cronjob", "--all"]);
    node.wait_for(&["get", "pods", "-A", "-o", "name"], |out| out.trim().is_empty());
}

#[test]
fn a_cron_job_runs_when_it_is_due_and_a_restart_starts_no_second() {
    let test = "a_cron_job_runs_when_it_is_due_and_a_restart_starts_no_second";
    if !with_kubectl(test) {
        return;
    }
    let place = Place::new();
    let mut node = Node::up(&place, &[]);
    let cron = r#"
apiVersion: batch/v1
kind: CronJob
metadata: {name: tick}
spec:
  schedule: "@every 2s"
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      template:
        spec:
          terminationGracePeriodSeconds: 0
          restartPolicy: Never
          containers: [{name: c, image: coracle.dev/host, command: [/bin/sleep, "100000"]}]
"#;
    node.kubectl_ok(&["apply", "-f", "-"], cron);
    let jobs = ["get", "jobs", "-o", "jsonpath={.items[*].metadata.name}"];
    let first = node.wait_for(&jobs, |out| !out.is_empty());
    node.kill();
    node = Node::up(&place, &[]);
    node.wait_for(&["get", "pods", "-l", &format!("job-name={first}")], |out| out.contains("Running"));
    assert_eq!(node.kubectl_ok(&jobs, ""), first);
    assert_eq!(node.kubectl_ok(&["get", "cj", "tick", "-o", "jsonpath={.status.active[*].name}"], ""), first);
    node.kubectl_ok(&["delete", "cronjob", "tick"], "");
    node.wait_for(&["get", "jobs,pods", "-o", "name"], |out| out.trim().is_empty());
}
