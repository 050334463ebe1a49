//! The order in which the process sees its variables: what runtime and image add around what was declared.

use std::collections::HashMap;

use crate::{Entry, Environment, Origin, Part, RuntimeVariable, Shadowed, Value};

/// The search path of a process whose image sets none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What the runtime knows about a container.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeFacts {
    /// The pod's host name; `None` when not known yet.
    pub hostname: Option<String>,
    /// Whether the container has a terminal.
    pub tty: bool,
    /// The home directory of the container's user; `None` when not known yet.
    pub home: Option<String>,
}

/// Puts together what the process sees, each name once, at the place of the source that won:
/// `PATH` (if the image sets none), `HOSTNAME`, `TERM` (with a terminal), the image's variables in image order,
/// `declared` in its order, and `HOME` if nothing set it (an empty `HOME` counts as not set).
///
/// `image_env` holds `NAME=value` strings; one without `=` or without a name is left out.
pub fn compose_process_environment(
    facts: &RuntimeFacts,
    image_env: &[String],
    declared: Environment,
) -> Environment {
    let mut layers = Layers::default();
    let image =
        || image_env.iter().filter_map(|text| text.split_once('=')).filter(|(name, _)| !name.is_empty());
    if !image().any(|(name, _)| name == "PATH") {
        layers.add(from_runtime("PATH", RuntimeVariable::Path, Some(DEFAULT_PATH), "PATH"));
    }
    let hostname = facts.hostname.as_deref();
    layers.add(from_runtime("HOSTNAME", RuntimeVariable::Hostname, hostname, "host name"));
    if facts.tty {
        layers.add(from_runtime("TERM", RuntimeVariable::Term, Some("xterm"), "TERM"));
    }
    for (name, value) in image() {
        layers.add(entry(name, Value::plain(value.to_owned()), Origin::Image));
    }
    for declared in declared.into_entries() {
        layers.add(declared);
    }
    let has_home = layers.value_of("HOME").is_some_and(|value| *value != Value::EMPTY);
    if !has_home {
        layers.add(from_runtime("HOME", RuntimeVariable::Home, facts.home.as_deref(), "home of the user"));
    }
    layers.finish()
}

fn from_runtime(name: &str, variable: RuntimeVariable, value: Option<&str>, label: &str) -> Entry {
    let value = match value {
        Some(value) => Value::plain(value.to_owned()),
        None => Value::Composed(vec![Part::UnknownUntilRun { label: label.to_owned() }]),
    };
    entry(name, value, Origin::Runtime(variable))
}

fn entry(name: &str, value: Value, origin: Origin) -> Entry {
    Entry { name: name.into(), value, origin, references: Vec::new(), shadowed: Vec::new() }
}

/// Entries in order, with holes where a later one of the same name won.
///
/// Runtime and image variables are indexed; declared ones are unique among themselves and come last, so that
/// each of them costs one lookup.
#[derive(Default)]
struct Layers {
    entries: Vec<Option<Entry>>,
    places: HashMap<String, usize>,
}

impl Layers {
    fn add(&mut self, mut entry: Entry) {
        let is_base = matches!(entry.origin, Origin::Runtime(_) | Origin::Image);
        let place = self.entries.len();
        let hidden = if is_base || entry.name == "HOME" {
            self.places.insert(entry.name.to_string(), place)
        } else {
            self.places.get(entry.name.as_str()).copied()
        };
        if let Some(loser) = hidden.and_then(|hidden| self.entries[hidden].take()) {
            entry.shadowed.push(Shadowed { origin: loser.origin, value: loser.value });
            entry.shadowed.extend(loser.shadowed);
        }
        self.entries.push(Some(entry));
    }

    fn value_of(&self, name: &str) -> Option<&Value> {
        let place = *self.places.get(name)?;
        self.entries[place].as_ref().map(|entry| &entry.value)
    }

    fn finish(self) -> Environment {
        Environment::from_entries(self.entries.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests;
