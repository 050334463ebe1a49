//! What this node makes of every field of a pod's spec: it does what Kubernetes says, or it says by name that it does not.
//!
//! [`FIELD_RULES`] is the table; a test walks the whole schema and fails where a field has no rule, and where a rule names a
//! test that does not exist. [`check`] refuses and warns by the same table, so that it cannot say anything else than what
//! happens.

mod table;

use serde_json::Value;

use crate::containers::CONTAINER_LISTS;
use crate::errors::FieldErrors;
use crate::path::Path;
use crate::request::Warning;
use crate::tree::is_set;

pub use table::FIELD_RULES;

/// What is made of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSupport {
    /// It does what Kubernetes says.
    Supported {
        /// The test that shows it: file and function, `pod_fields::host_aliases_are_in_the_hosts_file`.
        test: &'static str,
    },
    /// It is accepted and has no effect, or makes the pod fail later; the message says so.
    Warned {
        /// The warning behind the field's path.
        message: &'static str,
    },
    /// It is not accepted: a pod that went on without it would be less safe than its author thinks, or could never run.
    Refused {
        /// The error behind the field's path.
        message: &'static str,
    },
}

/// For which values of the field a rule counts.
#[derive(Clone, Copy, Debug)]
pub enum FieldValues {
    /// For all that are set.
    All,
    /// For some.
    Some {
        /// Which.
        which: fn(&Value) -> bool,
        /// One of them, as JSON.
        sample: &'static str,
    },
}

/// One rule of the table. A rule that supports covers exactly the fields that it names; one that warns or refuses covers what
/// lies below them, too.
#[derive(Clone, Copy, Debug)]
pub struct FieldRule {
    /// Where the fields stand, in canonical form (see [`canonical_path`]); empty for the spec itself.
    pub place: &'static str,
    /// Their names.
    pub fields: &'static [&'static str],
    /// What is made of them.
    pub support: FieldSupport,
    /// For which values.
    pub values: FieldValues,
}

impl FieldRule {
    /// The canonical paths of the fields.
    pub fn paths(&self) -> impl Iterator<Item = String> + use<'_> {
        self.fields.iter().map(|field| match self.place {
            "" => (*field).to_owned(),
            place => format!("{place}.{field}"),
        })
    }

    fn applies_to(&self, value: &Value) -> bool {
        match self.values {
            FieldValues::All => is_set(value),
            FieldValues::Some { which, .. } => is_set(value) && which(value),
        }
    }
}

/// Names that mean the same for the table, and the word that stands for them.
const ALIASES: [(&str, &[&str]); 4] = [
    ("container[]", &["initContainers[]", "containers[]", "ephemeralContainers[]"]),
    ("probe", &["startupProbe", "livenessProbe", "readinessProbe"]),
    ("hook", &["postStart", "preStop"]),
    ("betweenPods", &["podAffinity", "podAntiAffinity"]),
];

/// A path of the schema (`initContainers[].livenessProbe.exec`) in the form of the table (`container[].probe.exec`).
pub fn canonical_path(path: &str) -> String {
    let canonical = |segment| {
        ALIASES.iter().find(|(_, names)| names.contains(&segment)).map_or(segment, |(alias, _)| *alias)
    };
    path.split('.').map(canonical).collect::<Vec<&str>>().join(".")
}

/// The rules that cover a path of the schema; none: nobody has thought about the field.
pub fn rules_of(path: &str) -> Vec<&'static FieldRule> {
    let path = canonical_path(path);
    let covers = |rule: &FieldRule| {
        rule.paths().any(|covered| {
            path == covered
                || match rule.support {
                    FieldSupport::Supported { .. } => false,
                    FieldSupport::Warned { .. } | FieldSupport::Refused { .. } => {
                        path.strip_prefix(&covered).is_some_and(|rest| rest.starts_with(['.', '[']))
                    }
                }
        })
    };
    FIELD_RULES.iter().filter(|rule| covers(rule)).collect()
}

/// Refuses and warns about what the table says of the fields of a spec.
pub(crate) fn check(errors: &mut FieldErrors, warnings: &mut Vec<Warning>, path: &Path, spec: &Value) {
    for rule in FIELD_RULES {
        if matches!(rule.support, FieldSupport::Supported { .. }) {
            continue;
        }
        for field in rule.paths() {
            let segments: Vec<&str> = field.split('.').collect();
            visit(spec, path, &segments, &mut |at, value| {
                if !rule.applies_to(value) {
                    return;
                }
                match rule.support {
                    FieldSupport::Supported { .. } => {}
                    FieldSupport::Warned { message } => warnings.push(Warning(format!("{at}: {message}"))),
                    FieldSupport::Refused { message } => errors.forbidden(at, message),
                }
            });
        }
    }
}

/// What the table warns about in a pod's spec, each with the field's path.
pub fn field_warnings(spec: &Value) -> Vec<String> {
    let (mut errors, mut warnings) = (FieldErrors::default(), Vec::new());
    check(&mut errors, &mut warnings, &Path::root("spec"), spec);
    warnings.into_iter().map(|warning| warning.0).collect()
}

/// Calls `found` with every value that a path of the table means.
fn visit(value: &Value, at: &Path, segments: &[&str], found: &mut dyn FnMut(&Path, &Value)) {
    let Some((segment, rest)) = segments.split_first() else {
        return found(at, value);
    };
    let lists = CONTAINER_LISTS.map(|list| format!("{list}[]"));
    let names: Vec<&str> = match ALIASES.iter().find(|(alias, _)| alias == segment) {
        // In the order in which everything else visits them.
        Some(("container[]", _)) => lists.iter().map(String::as_str).collect(),
        Some((_, names)) => names.to_vec(),
        None => vec![segment],
    };
    for name in names {
        match name.strip_suffix("[]") {
            None => match value.get(name) {
                Some(inner) if is_set(inner) => visit(inner, &at.child(name), rest, found),
                Some(_) | None => {}
            },
            Some(list) => {
                let items = value.get(list).and_then(Value::as_array).into_iter().flatten();
                for (index, item) in items.enumerate() {
                    visit(item, &at.child(list).index(index), rest, found);
                }
            }
        }
    }
}
