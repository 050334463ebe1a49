//! The templates of `examples/templates`: each processes, with what its comment says where it needs something.

use manifest::Node;
use serde_json::{Value, json};

use super::{Run, processed};
use crate::Dialect;

fn example(name: &str) -> Run {
    let path = format!("{}/../../examples/templates/{name}", env!("CARGO_MANIFEST_DIR"));
    Run::of_yaml(&std::fs::read_to_string(&path).expect(&path))
}

fn objects(run: &Run) -> Vec<Value> {
    processed(run).objects.iter().map(Node::to_json).collect()
}

/// A file, its dialect, and what it must be given.
type Row = (&'static str, Dialect, &'static [(&'static str, &'static str)]);

#[test]
fn every_example_is_known_here_and_processes_without_a_warning() {
    let rows: [Row; 8] = [
        ("cron-jobs.yaml", Dialect::Proposal, &[("BUCKET", "backups")]),
        ("mongodb-here.yaml", Dialect::Proposal, &[("MONGODB_PASSWORD", "s3cret")]),
        ("mongodb.json", Dialect::Proposal, &[("MONGODB_PASSWORD", "s3cret")]),
        ("openshift-job.json", Dialect::OpenShift, &[]),
        ("openshift-ruby.yaml", Dialect::OpenShift, &[]),
        ("settings.yaml", Dialect::Proposal, &[("PASSWORD", "correct-horse")]),
        ("two-pods.yaml", Dialect::Proposal, &[]),
        ("web-and-database.yaml", Dialect::Proposal, &[]),
    ];
    let directory = format!("{}/../../examples/templates", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> = std::fs::read_dir(directory)
        .expect("examples")
        .flatten()
        .map(|entry| entry.file_name().into_string().expect("a name"))
        .collect();
    names.sort_unstable();
    assert_eq!(names, rows.map(|(name, ..)| name));
    for (name, dialect, given) in rows {
        let run = given.iter().fold(example(name), |run, (name, value)| run.with(name, value));
        assert_eq!(crate::Template::read(&run.root, None).expect(name).dialect, dialect, "{name}");
        let result = processed(&run);
        let warnings: Vec<_> = result
            .findings
            .iter()
            .filter(|finding| finding.severity() > environment::Severity::Info)
            .collect();
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
        let text = manifest::to_yaml(&result.to_list());
        let signs = ["$(NAME)", "$((", "${NAME}", "${{"];
        assert!(!signs.iter().any(|sign| text.replace("i=$((i + 1))", "").contains(sign)), "{name}: {text}");
        // Without what is required, every missing value is named.
        let bare = example(name).process();
        assert_eq!(bare.is_err(), !given.is_empty(), "{name}");
        assert_eq!(example(name).check().map(|_| ()), Ok(()), "{name}");
    }
}

#[test]
fn the_documents_example_processes_to_what_the_document_says() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../tests/vectors/template_process.json")).expect("JSON");
    let rows = vectors["proposal"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["name"] == "mongodb template, password given").expect("the row");
    let mut wanted = row["wantObjects"].clone();
    // Made whole: a port of a service needs its number.
    wanted[0]["spec"]["ports"][0]["port"] = json!(27017);
    assert_eq!(Value::from(objects(&example("mongodb.json").with("MONGODB_PASSWORD", "s3cret"))), wanted);
}

#[test]
fn two_instances_of_the_web_application_share_no_name_and_no_selector() {
    let make = |name| objects(&example("web-and-database.yaml").with("NAME", name));
    let (one, two) = (make("one"), make("two"));
    for (one, two) in one.iter().zip(&two) {
        assert_ne!(one["metadata"]["name"], two["metadata"]["name"]);
        for selector in ["/spec/selector", "/spec/selector/matchLabels", "/spec/podSelector/matchLabels"] {
            let Some(found) =
                one.pointer(selector).filter(|found| found.is_object() && found.get("matchLabels").is_none())
            else {
                continue;
            };
            assert_eq!(found["app.kubernetes.io/instance"], "one", "{one}");
        }
        // The peer of the policy is left alone.
        if let Some(peer) = one.pointer("/spec/ingress/0/from/0/podSelector/matchLabels") {
            assert_eq!(*peer, json!({"app": "web"}));
        }
    }
    let deployment = one.iter().find(|object| object["kind"] == "Deployment").expect("a deployment");
    assert_eq!(deployment["spec"]["replicas"], 2);
    let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env[2]["value"], "postgres://$(DB_USER):$(DB_PASSWORD)@one-database:5432/shop");
    assert_eq!(env[3]["value"], "false", "a variable is a string");
}
