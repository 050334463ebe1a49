//! The templates of `examples/templates` that cannot run here are processed by the command in their comment; the one in
//! JSON, which has no comments, runs by the command in its annotation.

use e2e::{Place, finish, privileged, project};

/// The commands of an opening comment.
fn commands(text: &str) -> Vec<&str> {
    let comment = text.lines().take_while(|line| line.starts_with('#'));
    comment
        .filter_map(|line| line.strip_prefix("#     "))
        .filter(|line| line.starts_with("coracle "))
        .collect()
}

#[test]
fn templates_of_workloads_process_by_the_command_in_their_comment() {
    let place = Place::new();
    let mut count = 0;
    for entry in std::fs::read_dir(project().join("examples/templates")).expect("examples").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("text");
        for command in commands(&text).into_iter().filter(|command| command.starts_with("coracle template "))
        {
            let arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
            let said = finish(place.coracle(&arguments).current_dir(project()), "");
            assert_eq!(said.status, 0, "{command}: {}", said.all());
            assert!(said.stdout.contains("kind: List"), "{command}: {}", said.all());
            // Standard error has the template's message, if it has one.
            assert_eq!(said.stderr.is_empty(), !text.contains("\nmessage:"), "{command}: {}", said.all());
            let is_finding =
                |line: &str| ["warning", "error", "note"].iter().any(|word| line.starts_with(word));
            assert!(
                !said.stderr.lines().any(is_finding),
                "{command}: nothing is worth a warning: {}",
                said.all()
            );
            count += 1;
        }
    }
    assert!(count >= 3, "the examples are there");
}

#[test]
fn an_old_openshift_template_in_json_runs_unchanged() {
    if !privileged("an_old_openshift_template_in_json_runs_unchanged") {
        return;
    }
    let place = Place::new();
    let text =
        std::fs::read_to_string(project().join("examples/templates/openshift-job.json")).expect("text");
    let (_, rest) = text.split_once("\"run\": \"").expect("the annotation run");
    let command = rest.split('"').next().expect("a command");
    let data = place.data();
    let mut arguments: Vec<&str> = command.split_whitespace().skip(1).collect();
    arguments.extend(["--quiet", "--data-dir", data.to_str().expect("text")]);
    let said = finish(place.coracle(&arguments).current_dir(project()), "");
    assert_eq!(said.status, 0, "{}", said.all());
    assert_eq!(said.stdout, "the token has 24 characters\n", "{}", said.all());
}
