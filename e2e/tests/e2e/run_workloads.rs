//! `coracle run` of what makes pods: it follows them, ends as they end, and leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use e2e::{Place, Said, finish, left_behind, privileged, project};

use super::own_machine::on_a_machine_of_its_own;

fn nothing_is_left(place: &Place) {
    let mark =
        place.data().parent().expect("a parent").file_name().expect("a name").to_string_lossy().into_owned();
    assert!(left_behind(&mark).is_empty(), "{:?}", left_behind(&mark));
}

/// Runs until a line of the output has this text, then presses Ctrl-C.
fn run_until(place: &Place, arguments: &[&str], text: &str) -> (Vec<String>, Said) {
    let mut command = place.coracle(&["run"]);
    command.args(arguments).arg("--data-dir").arg(place.data()).current_dir(project());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let errors = child.stderr.take().expect("a pipe");
    let errors = std::thread::spawn(move || std::io::read_to_string(errors).unwrap_or_default());
    let mut lines = Vec::new();
    let mut has_come = false;
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        let line = line.expect("text");
        if !has_come && line.contains(text) {
            has_come = true;
            let pid = child.id().to_string();
            assert!(Command::new("kill").args(["-INT", &pid]).status().expect("kill").success());
        }
        lines.push(line);
    }
    let status = child.wait().expect("it ends").code().unwrap_or(-1);
    let stderr = errors.join().expect("the output");
    let said = Said { status, stdout: lines.join("\n"), stderr };
    assert!(has_come, "{}", said.all());
    (lines, said)
}

#[test]
fn a_job_is_followed_and_its_failure_is_the_failure_of_the_run() {
    if !privileged("a_job_is_followed_and_its_failure_is_the_failure_of_the_run") {
        return;
    }
    let job = |name: &str, command: &str, more: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n  backoffLimit: 0\n{more}  template:\n    spec:\n      \
             restartPolicy: Never\n      containers: [{{name: c, image: coracle.dev/host, command: [/bin/sh, -c, '{command}']}}]\n---\n"
        )
    };
    let place = Place::new();
    let good = job("good", "echo done", "");
    let said = place.run(&good, &[]);
    assert_eq!(said.status, 0, "{}", said.all());
    let line = said.lines().into_iter().find(|line| line.contains("done")).expect("the log").to_owned();
    assert!(line.starts_with("good-") && line.contains("/c"), "{line}");
    let place_of =
        |text: &str| said.stderr.find(text).unwrap_or_else(|| panic!("no {text} in {}", said.all()));
    assert!(place_of("ended with status 0") < place_of("job good: Complete"), "{}", said.all());
    assert!(said.stderr.contains("job: 1 succeeded (exit status 0)"), "{}", said.all());

    let said = place.run(&format!("{good}{}", job("bad", "exit 7", "")), &[]);
    assert_eq!(said.status, 7, "{}", said.all());
    assert!(said.stderr.contains("job bad: Failed (BackoffLimitExceeded: "), "{}", said.all());
    assert!(said.stderr.contains("jobs: 1 succeeded, 1 failed (exit status 7)"), "{}", said.all());

    let late = job("late", "exec sleep 100000", "  activeDeadlineSeconds: 1\n")
        .replace("restartPolicy: Never", "terminationGracePeriodSeconds: 0\n      restartPolicy: Never");
    let said = place.run(&late, &["-o", "json"]);
    assert!(said.status != 0, "{}", said.all());
    let ended =
        said.lines().into_iter().find(|line| line.contains("\"type\":\"job\"")).expect("its end").to_owned();
    assert!(ended.contains("\"condition\":\"Failed\"") && ended.contains("DeadlineExceeded"), "{ended}");
    nothing_is_left(&place);
}

#[test]
fn a_deployment_runs_until_ctrl_c_and_leaves_nothing() {
    if !privileged("a_deployment_runs_until_ctrl_c_and_leaves_nothing") {
        return;
    }
    let place = Place::new();
    let file = place.file(
        "web.yaml",
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: coracle.dev/host
        command: [/bin/sh, -c, 'trap "echo stopped; exit 0" TERM; echo up; while :; do sleep 0.1; done']
"#,
    );
    let (lines, said) = run_until(&place, &[file.to_str().expect("text")], "| up");
    assert_eq!(said.status, 130, "{}", said.all());
    assert!(
        lines.iter().any(|line| line.starts_with("web-") && line.contains("| stopped")),
        "{}",
        said.all()
    );
    nothing_is_left(&place);
}

#[test]
fn what_can_never_be_started_ends_the_run_although_it_would_go_on() {
    if !privileged("what_can_never_be_started_ends_the_run_although_it_would_go_on") {
        return;
    }
    let place = Place::new();
    let manifest = r#"
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: coracle.dev/host, env: [{name: A, valueFrom: {configMapKeyRef: {name: nowhere, key: a}}}]}]}
"#;
    let said = place.run(manifest, &[]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(said.stderr.contains("configmap \"nowhere\" not found"), "{}", said.all());
    let scaler = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\n";
    let said = place.run(&format!("{manifest}---\n{scaler}"), &[]);
    assert_eq!(said.status, 2, "{}", said.all());
    assert!(said.stderr.contains("nothing here measures what pods use"), "{}", said.all());
    nothing_is_left(&place);
}

#[test]
fn the_documents_database_runs_with_parameters_by_an_image_of_this_machine() {
    if !privileged("the_documents_database_runs_with_parameters_by_an_image_of_this_machine") {
        return;
    }
    let place = Place::new();
    // The document's own file, with an image of this machine in the place of the database.
    let text =
        std::fs::read_to_string(project().join("examples/templates/mongodb.json")).expect("the example");
    let image = "\"image\": \"docker.io/centos/mongodb-26-centos7\",";
    assert!(text.contains(image), "{text}");
    let command = r#"["/bin/sh", "-c", "echo $MONGODB_USER:$MONGODB_PASSWORD/$MONGODB_DATABASE at $BOOKS_SERVICE_HOST; exec sleep 100000"]"#;
    let text = text.replace(image, &format!("\"image\": \"coracle.dev/host\", \"command\": {command},"));
    let file = place.file("mongodb.json", &text);
    let arguments = [
        file.to_str().expect("text"),
        "-p",
        "MONGODB_PASSWORD=secret",
        "-p",
        "DATABASE_SERVICE_NAME=books",
        "-p",
        "REPLICA_COUNT=2",
    ];
    let (lines, said) = run_until(&place, &arguments, "username:secret/sampledb at 10.43.");
    assert_eq!(said.status, 130, "{}", said.all());
    assert!(lines[0].starts_with("books-"), "{}", said.all());
    assert!(said.stderr.contains("created replicationcontroller books"), "{}", said.all());

    // The example beside it needs nothing but this machine.
    let example = "examples/templates/mongodb-here.yaml";
    let (_, said) =
        run_until(&place, &[example, "-p", "MONGODB_PASSWORD=secret"], "a client: the database is at");
    assert_eq!(said.status, 130, "{}", said.all());
    let said = finish(place.coracle(&["run", example, "--data-dir", "d"]).current_dir(project()), "");
    assert_eq!(said.status, 2, "the password is required: {}", said.all());
    nothing_is_left(&place);
}

#[test]
fn a_run_reaches_its_service_by_address_variable_and_name_and_leaves_no_route_behind() {
    if !privileged("a_run_reaches_its_service_by_address_variable_and_name_and_leaves_no_route_behind") {
        return;
    }
    on_a_machine_of_its_own(|| {
        let place = Place::new();
        let file = place.file(
            "shop.yaml",
            r#"
apiVersion: batch/v1
kind: Job
metadata: {name: asks}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: coracle.dev/host
        command:
        - /bin/sh
        - -c
        - |
          until curl -sS -m 5 -o /dev/null http://shop/; do sleep 0.1; done 2> /dev/null
          for way in 10.43.7.7 $SHOP_SERVICE_HOST:$SHOP_SERVICE_PORT ${SHOP_PORT#tcp://} shop shop.default.svc.cluster.local; do
            curl -sS -m 10 http://$way/
          done
          echo asked every way
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: coracle.dev/host
        command: [/bin/sh, -c, "mkdir -p /srv/www && echo from the shop > /srv/www/index.html && exec busybox httpd -f -p 8080 -h /srv/www"]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {clusterIP: 10.43.7.7, selector: {app: shop}, ports: [{port: 80, targetPort: 8080}]}
"#,
        );
        let (lines, said) = run_until(&place, &[file.to_str().expect("text")], "asked every way");
        assert_eq!(said.status, 130, "{}", said.all());
        let answers = lines.iter().filter(|line| line.ends_with("| from the shop")).count();
        assert_eq!(answers, 5, "{}", said.all());
        nothing_is_left(&place);
        let left = "nft list tables; ip -o link; ip route show table all proto 197";
        let left = finish(Command::new("sh").args(["-c", left]), "");
        assert!(!left.stdout.contains("coracle") && !left.stdout.contains("10.43."), "{}", left.all());
        assert_eq!(left.lines().len(), 3, "the links of the machine: {}", left.all());
    });
}
