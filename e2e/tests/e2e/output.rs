//! What becomes of `coracle run` when its output is not taken, and in which order it tells.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use e2e::{Place, Said, finish, left_behind, privileged};

/// Writes for ever, and leaves a file behind when it is stopped with grace.
fn chatterer(place: &Place) -> String {
    let seen = place.data().parent().expect("a parent").join("seen");
    std::fs::create_dir_all(&seen).expect("a directory");
    format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: chatterer}}
spec:
  terminationGracePeriodSeconds: 20
  volumes: [{{name: seen, hostPath: {{path: {seen}}}}}]
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "trap 'echo yes > /seen/stopped; exit 0' TERM; while :; do echo tick; sleep 0.05; done"]
    volumeMounts: [{{name: seen, mountPath: /seen}}]
"#,
        seen = seen.display()
    )
}

fn was_stopped_with_grace(place: &Place) -> bool {
    place.data().parent().expect("a parent").join("seen/stopped").exists()
}

fn nothing_is_left(place: &Place) {
    let mark =
        place.data().parent().expect("a parent").file_name().expect("a name").to_string_lossy().into_owned();
    assert!(left_behind(&mark).is_empty(), "{:?}", left_behind(&mark));
}

#[test]
fn a_full_disk_behind_standard_output_ends_the_run_with_an_error() {
    if !privileged("a_full_disk_behind_standard_output_ends_the_run_with_an_error") {
        return;
    }
    let place = Place::new();
    let file = place.file("pod.yaml", &chatterer(&place));
    for form in [&["-q"][..], &["-o", "json"], &[]] {
        let mut command = place.coracle(&["run", file.to_str().expect("text"), "--data-dir"]);
        command.arg(place.data()).args(form).stdin(Stdio::null()).stderr(Stdio::piped());
        command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device"));
        let output = command.spawn().expect("it starts").wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{form:?}: {said}");
        assert!(said.contains("error: the output cannot be written: No space left on device"), "{said}");
        // With -o json the first line fails already, before the container runs.
        assert!(form.contains(&"json") || was_stopped_with_grace(&place), "{form:?}: {said}");
    }
    nothing_is_left(&place);
}

#[test]
fn a_reader_that_went_away_ends_the_run_quietly() {
    if !privileged("a_reader_that_went_away_ends_the_run_quietly") {
        return;
    }
    let place = Place::new();
    let file = place.file("pod.yaml", &chatterer(&place));
    let mut command = place.coracle(&["run", file.to_str().expect("text"), "-q", "--data-dir"]);
    command.arg(place.data()).stdin(Stdio::null()).stderr(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "tick\n");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(141));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "other tools say nothing either");
    assert!(was_stopped_with_grace(&place));
    nothing_is_left(&place);
}

#[test]
fn other_commands_do_not_panic_when_their_output_is_not_taken() {
    let place = Place::new();
    for arguments in [&["version"][..], &["completion", "bash"], &["image", "list", "-o", "json"]] {
        let mut command = place.coracle(arguments);
        command.env("HOME", place.data()).stdin(Stdio::null()).stderr(Stdio::piped());
        if arguments[0] == "image" {
            command.arg("--data-dir").arg(place.data());
        }
        command.stdout(std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device"));
        let output = command.spawn().expect("it starts").wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("No space left on device") && !said.contains("panicked"), "{said}");
    }
}

#[test]
fn what_a_container_wrote_comes_before_its_end() {
    if !privileged("what_a_container_wrote_comes_before_its_end") {
        return;
    }
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "seq 1 5000; echo last words"]
"#;
    let said = Place::new().run(manifest, &["-o", "json"]);
    assert_eq!(said.status, 0, "{}", said.all());
    let place_of = |text: &str| {
        let found = said.lines().iter().rposition(|line| line.contains(text));
        found.unwrap_or_else(|| panic!("no {text} in {}", said.all()))
    };
    let order = [
        place_of("\"state\":\"started\""),
        place_of("\"line\":\"1\""),
        place_of("\"line\":\"last words\""),
        place_of("\"state\":\"ended\""),
        place_of("\"phase\":\"Succeeded\""),
        place_of("\"type\":\"result\""),
    ];
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn why_a_pod_cannot_be_started_is_told_once() {
    if !privileged("why_a_pod_cannot_be_started_is_told_once") {
        return;
    }
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: test
    image: coracle.dev/host
    env: [{name: A, valueFrom: {configMapKeyRef: {name: nowhere, key: a}}}]
"#;
    let place = Place::new();
    let said = place.run(manifest, &[]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert_eq!(said.stderr.matches("configmap \"nowhere\" not found").count(), 1, "{}", said.all());
    let end = "pod p: container test could not be started: CreateContainerConfigError\n";
    assert!(said.stderr.contains(end), "{}", said.all());
    let said = place.run(manifest, &["-q"]);
    assert!(
        said.stderr.contains("CreateContainerConfigError: configmap \"nowhere\" not found"),
        "{}",
        said.all()
    );
}

#[test]
fn values_of_flags_that_make_no_sense_are_refused() {
    let place = Place::new();
    let refused = |arguments: &[&str], expected: &str| {
        let said: Said = finish(&mut place.coracle(arguments), "");
        assert_eq!(said.status, 2, "{arguments:?}: {}", said.all());
        assert!(said.stderr.contains(expected), "{arguments:?}: no {expected:?} in {}", said.all());
        let flag = arguments[1].split('=').next().expect("a flag");
        assert!(said.stderr.contains(flag), "the flag is named: {}", said.all());
    };
    refused(&["up", "--tls-san", "a b"], "must be an IP address or a DNS name");
    refused(&["up", "--node-name", "Node_1"], "RFC 1123 subdomain");
    refused(&["up", "--listen", "6443"], "invalid socket address");
    refused(&["up", "--data-dir", ""], "value is required");
    refused(&["up", "--feature-gates", "EnvFile=true"], "known are");
    refused(&["up", "--seccomp-default", "maybe"], "true, false");
    refused(&["up", "--pod-max-pids", "0"], "unlimited");
    refused(&["cri", "--pod-max-pids", "0"], "unlimited");
    refused(&["cri", "--listen", "tcp://127.0.0.1:1"], "unix:///");
    refused(&["run", "--pod-max-pids=-1", "-"], "from 1 to 4194304");
    refused(&["run", "--namespace", "Not A Name", "-"], "RFC 1123 label");
    refused(&["run", "--env-file-syntax", "bash", "-"], "rfc2");
}

#[test]
fn a_relative_data_directory_serves_as_well_as_an_absolute_one() {
    if !privileged("a_relative_data_directory_serves_as_well_as_an_absolute_one") {
        return;
    }
    let place = Place::new();
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  containers: [{name: test, image: coracle.dev/host, command: [/bin/echo, here]}]
"#;
    let said = finish(&mut place.coracle(&["run", "-", "-q", "--data-dir", "a/./b: c,d"]), manifest);
    assert_eq!((said.status, said.stdout.as_str()), (0, "here\n"), "{}", said.all());
    let said = finish(&mut place.coracle(&["kubeconfig", "--data-dir", "nowhere"]), "");
    assert_eq!(said.status, 2, "{}", said.all());
    assert!(said.stderr.contains("the data directory does not exist"), "{}", said.all());
    let said = finish(&mut place.coracle(&["kubeconfig", "--data-dir", "a"]), "");
    assert!(said.stderr.contains("no node has been started on this data directory"), "{}", said.all());
}

#[test]
fn a_failed_post_start_hook_is_told_after_the_start_that_it_follows() {
    if !privileged("a_failed_post_start_hook_is_told_after_the_start_that_it_follows") {
        return;
    }
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "exec sleep 100000"]
    lifecycle: {postStart: {exec: {command: ["/bin/sh", "-c", "exit 3"]}}}
"#;
    let said = Place::new().run(manifest, &[]);
    let place_of =
        |text: &str| said.stderr.find(text).unwrap_or_else(|| panic!("no {text} in {}", said.all()));
    let order = [
        place_of("container test started"),
        place_of("FailedPostStartHook"),
        place_of("container test ended"),
    ];
    assert!(order.is_sorted(), "{}", said.all());
}
