//! The way back: from objects that live in a cluster to a template that processes to them again.
//!
//! What only a cluster knows goes: status, identity, what it chose (addresses, nodes, token volumes), and what it would
//! choose again (defaults). Objects that others make are left out. With [`Options::parameterize`] names, image tags,
//! replica counts, hosts and passwords become parameters; their defaults are the values that were found, except for
//! passwords, which have none.

mod clean;
mod minimal;
mod parameters;

use environment::SecretText;
use manifest::Node;
use serde_json::Value;

use crate::limits::MAX_OBJECTS;

pub use clean::Skipped;

/// Fills in what the API server would fill in; `None` for a kind that it does not know.
pub type Defaulting<'f> = &'f dyn Fn(&Value) -> Option<Value>;

/// What is exported, and how.
#[derive(Clone, Copy, Default)]
pub struct Options<'o> {
    /// The template's name.
    pub name: &'o str,
    /// Kinds to take; all when empty.
    pub kinds: &'o [String],
    /// Names to take, as `NAME` or `Kind/NAME`; all when empty.
    pub names: &'o [String],
    /// Labels that an object must have.
    pub labels: &'o [(String, String)],
    /// Whether common values become parameters.
    pub parameterize: bool,
}

/// An exported template. Its `Debug` prints no object.
#[derive(Clone)]
pub struct Exported {
    /// The template.
    pub template: Node,
    /// What it processes to, once secret parameters have the values of [`Exported::taken`].
    pub objects: Vec<Node>,
    /// Values that secret parameters took out of the template, by their names.
    pub taken: Vec<(String, SecretText)>,
    /// What was left out although the filter takes it.
    pub skipped: Vec<Skipped>,
}

impl std::fmt::Debug for Exported {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Exported")
            .field("objects", &self.objects.len())
            .field("taken", &self.taken)
            .field("skipped", &self.skipped)
            .finish_non_exhaustive()
    }
}

/// Why nothing was exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The filter takes nothing.
    #[error("no resources found - nothing to export")]
    Nothing,
    /// More objects than a template may have.
    #[error("{count} objects are more than the {MAX_OBJECTS} that a template may have")]
    TooMany {
        /// How many.
        count: usize,
    },
}

/// Makes a template of objects as an API server shows them.
///
/// # Errors
///
/// There is nothing to export, or too much.
pub fn export(
    objects: &[Value],
    options: &Options<'_>,
    defaulting: Option<Defaulting<'_>>,
) -> Result<Exported, ExportError> {
    let mut skipped = Vec::new();
    let mut kept = Vec::new();
    for object in objects.iter().filter(|object| is_taken(object, options)) {
        match clean::reason_to_skip(object) {
            Some(skip) => skipped.push(skip),
            None => {
                let mut object = object.clone();
                clean::clean(&mut object);
                if let Some(defaulting) = defaulting {
                    minimal::remove_defaults(&mut object, defaulting);
                }
                kept.push(clean::ordered(&object));
            }
        }
    }
    if kept.is_empty() {
        return Err(ExportError::Nothing);
    }
    if kept.len() > MAX_OBJECTS {
        return Err(ExportError::TooMany { count: kept.len() });
    }
    let mut maker = parameters::Maker::new(&kept);
    let mut templated = kept.clone();
    if options.parameterize {
        maker.parameterize(&mut templated);
    }
    maker.protect(&mut templated);
    let mut template = vec![
        ("apiVersion", Node::from(crate::API_VERSION)),
        ("kind", "Template".into()),
        ("metadata", Node::from_iter([("name", Node::from(options.name))])),
    ];
    if maker.has_parameters() {
        template.push(("parameters", maker.declarations()));
    }
    template.push(("objects", templated.into_iter().collect()));
    Ok(Exported { template: template.into_iter().collect(), objects: kept, taken: maker.taken(), skipped })
}

fn is_taken(object: &Value, options: &Options<'_>) -> bool {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let has_name = |wanted: &String| match wanted.split_once('/') {
        Some((wanted_kind, wanted)) => wanted_kind.eq_ignore_ascii_case(kind) && wanted == name,
        None => wanted == name,
    };
    let has_label = |(key, value): &(String, String)| {
        object.pointer("/metadata/labels").and_then(|labels| labels.get(key)).and_then(Value::as_str)
            == Some(value.as_str())
    };
    (options.kinds.is_empty() || options.kinds.iter().any(|wanted| wanted.eq_ignore_ascii_case(kind)))
        && (options.names.is_empty() || options.names.iter().any(has_name))
        && options.labels.iter().all(has_label)
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
