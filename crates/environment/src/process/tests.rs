//! The order of design: runtime, image, declared, `HOME` last.

use super::*;

fn facts() -> RuntimeFacts {
    RuntimeFacts { hostname: Some("web-1".to_owned()), tty: false, home: Some("/root".to_owned()) }
}

fn declared(pairs: &[(&str, &str)]) -> Environment {
    let entries = pairs.iter().enumerate().map(|(index, (name, value))| {
        entry(name, Value::plain((*value).to_owned()), Origin::Value { index })
    });
    Environment::from_entries(entries.collect())
}

fn composed(facts: &RuntimeFacts, image: &[&str], pairs: &[(&str, &str)]) -> Vec<String> {
    let image: Vec<String> = image.iter().map(|text| (*text).to_owned()).collect();
    let environment = compose_process_environment(facts, &image, declared(pairs));
    let line = |entry: &Entry| {
        let display = entry.value.display(crate::Reveal::Nothing).into_owned();
        format!("{}={display} ({})", entry.name, entry.origin)
    };
    environment.entries().iter().map(line).collect()
}

#[test]
fn runtime_then_image_then_declared_then_home() {
    let with_tty = RuntimeFacts { tty: true, ..facts() };
    assert_eq!(
        composed(&with_tty, &["B=image", "A=image"], &[("Z", "1"), ("Y", "2")]),
        [
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin (runtime)",
            "HOSTNAME=web-1 (runtime)",
            "TERM=xterm (runtime)",
            "B=image (image)",
            "A=image (image)",
            "Z=1 (env[0] value)",
            "Y=2 (env[1] value)",
            "HOME=/root (runtime)",
        ]
    );
}

#[test]
fn each_name_stands_once_at_the_place_of_the_winner() {
    let image = ["PATH=/image", "HOSTNAME=image", "A=1", "A=2", "broken", "=x"];
    let pairs = [("HOME", "/home"), ("A", "3")];
    assert_eq!(
        composed(&facts(), &image, &pairs),
        ["PATH=/image (image)", "HOSTNAME=image (image)", "HOME=/home (env[0] value)", "A=3 (env[1] value)"]
    );
}

#[test]
fn the_winner_tells_what_it_hides() {
    let image = ["A=1".to_owned(), "A=2".to_owned()];
    let environment = compose_process_environment(&facts(), &image, declared(&[("A", "3"), ("PATH", "/x")]));
    let hidden = |name: &str| -> Vec<String> {
        let entry = environment.get(name).expect("defined");
        let display = |shadowed: &Shadowed| shadowed.value.display(crate::Reveal::Nothing).into_owned();
        entry.shadowed.iter().map(display).collect()
    };
    assert_eq!(hidden("A"), ["2", "1"]);
    assert_eq!(hidden("PATH"), [DEFAULT_PATH]);
}

#[test]
fn an_empty_home_counts_as_not_set() {
    assert_eq!(
        composed(&facts(), &["PATH=/p"], &[("HOME", "")]),
        ["HOSTNAME=web-1 (runtime)", "PATH=/p (image)", "HOME=/root (runtime)"]
    );
}

#[test]
fn what_the_runtime_does_not_know_yet_is_shown_as_such() {
    assert_eq!(
        composed(&RuntimeFacts::default(), &["PATH=/p"], &[]),
        ["HOSTNAME=<host name> (runtime)", "PATH=/p (image)", "HOME=<home of the user> (runtime)"]
    );
}
