//! The known variables in Kubernetes' env file syntax: `NAME='VALUE'`, taken literally.
//!
//! What the syntax cannot express, and what is not known, is said in a comment in its place.

use std::fmt::Write;

use environment::State;
use environment::record::VariableRecord;

use super::explain::Explanation;

/// Everything of the explanation, one block a container.
pub(super) fn render(explanation: &Explanation) -> String {
    let mut text = String::new();
    for pod in &explanation.pods {
        for container in &pod.record.containers {
            if !text.is_empty() {
                text.push('\n');
            }
            let (namespace, name) = (&pod.record.namespace, &pod.record.name);
            let _ = writeln!(text, "# {namespace}/{name}, {} {}", container.kind.as_str(), container.name);
            for variable in &container.environment {
                text.push_str(&line(variable));
            }
        }
    }
    text
}

fn line(variable: &VariableRecord) -> String {
    let name = &variable.name;
    let Some(value) = &variable.value else {
        let why = match variable.state {
            State::Masked => "comes from a Secret (--show-secrets writes it)",
            State::UnknownUntilRun => "is known only when the pod runs",
            State::Missing if variable.refused => "could not be used, which an error says",
            State::Missing => "comes from a source that is not in the input",
            State::Known => "is not shown",
        };
        return format!("# {} {why}\n", comment_safe(name));
    };
    match obstacle(name, value) {
        None => format!("{name}='{value}'\n"),
        Some(why) => format!("# {} cannot be written in an env file: {why}\n", comment_safe(name)),
    }
}

/// What the syntax has no words for.
fn obstacle(name: &str, value: &str) -> Option<&'static str> {
    if name.starts_with([' ', '\t', '#']) {
        return Some("its name begins with a blank or `#`");
    }
    if name.ends_with([' ', '\t']) {
        return Some("its name ends with a blank");
    }
    if name.chars().count() > envfile::MAX_NAME_CHARACTERS {
        return Some("its name is too long");
    }
    if value.contains('\'') {
        return Some("its value has a single quote");
    }
    if value.contains("\r\n") {
        return Some("its value has lines that end in CR LF");
    }
    if value.is_empty() {
        return Some("its value is empty, which an env file treats as missing");
    }
    if value.len() > envfile::MAX_VALUE_BYTES {
        return Some("its value is too long");
    }
    None
}

/// A name may hold anything printable; a comment must stay one line.
fn comment_safe(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}
