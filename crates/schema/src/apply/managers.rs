//! The entries of `metadata.managedFields`: who set which field, by which operation.

use serde_json::{Map, Value};

use super::combine::merge_applied;
use super::compare::{Comparison, compare, fields_of};
use super::element::display_path;
use super::prune::prune;
use super::set::{BadFields, FieldSet};
use super::{Paths, STRIPPED};
use crate::gotext::go_quote;
use crate::table::Type;

/// Most entries of updates; the oldest of more become one.
const UPDATES: usize = 10;
/// The manager of what the oldest of too many updates set.
const ANCIENT: &str = "ancient-changes";
/// The manager of what an object without entries has when something is applied to it.
const BEFORE: &str = "before-first-apply";

/// What a manager did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Applied a configuration.
    Apply,
    /// Wrote in any other way.
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who set fields, and which. Entries are the same manager's when all but fields and time agree; of what is applied,
/// the version does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    /// The name.
    pub name: String,
    /// What it did.
    pub operation: Operation,
    /// The version whose fields these are.
    pub api_version: String,
    /// The subresource that it wrote through; empty for the object itself.
    pub subresource: String,
    /// When fields were added last, as the API writes times.
    pub time: Option<String>,
    /// The fields.
    pub fields: FieldSet,
}

/// The managers of an object's fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManagedFields {
    managers: Vec<Manager>,
}

/// A write whose fields are to be noted.
#[derive(Clone, Copy, Debug)]
pub struct Write<'w> {
    /// The type of the object.
    pub ty: Type,
    /// The version in which the client wrote.
    pub api_version: &'w str,
    /// Every version in which the object's fields are the same; entries of other versions are dropped.
    pub versions: &'w [&'w str],
    /// The name of the manager.
    pub manager: &'w str,
    /// The subresource; empty for the object itself.
    pub subresource: &'w str,
    /// What the write cannot change.
    pub ignored: Paths<'w>,
    /// The time, as the API writes it.
    pub now: &'w str,
}

/// Why `managedFields` cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagedFieldsError {
    /// Neither `Apply` nor `Update`.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// No `apiVersion`.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// No or another `fieldsType`.
    #[error("invalid fieldsType {} in managed fields entry {index}", go_quote(found))]
    FieldsType {
        /// The place in the list.
        index: usize,
        /// What it is.
        found: String,
    },
    /// A broken `fieldsV1`.
    #[error("error decoding set: {0}")]
    Fields(#[from] BadFields),
    /// No list of objects.
    #[error("managedFields must be a list of entries")]
    Form,
}

/// A field that somebody else manages and that would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager as messages show it: `"kubectl" using v1`.
    pub manager: String,
    /// `.spec.replicas`.
    pub path: String,
    elements: Vec<String>,
}

/// Every field that stands in the way of an apply; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts(pub Vec<Conflict>);

impl std::error::Error for Conflicts {}

impl std::fmt::Display for Conflicts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let [Conflict { manager, path, .. }] = self.0.as_slice() {
            return write!(f, "Apply failed with 1 conflict: conflict with {manager}: {path}");
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut last = None;
        for Conflict { manager, path, .. } in &self.0 {
            if last != Some(manager) {
                let line = if last.is_some() { "\n" } else { "" };
                write!(f, "{line}conflicts with {manager}:")?;
                last = Some(manager);
            }
            write!(f, "\n- {path}")?;
        }
        Ok(())
    }
}

impl Conflicts {
    /// What is left of them when the fields of `allowed` are no conflict; `None`: nothing.
    #[must_use]
    pub fn except(self, allowed: &FieldSet) -> Option<Conflicts> {
        let is_allowed = |conflict: &Conflict| {
            let elements: Vec<&str> = conflict.elements.iter().map(String::as_str).collect();
            allowed.contains(&elements)
        };
        let left: Vec<Conflict> = self.0.into_iter().filter(|conflict| !is_allowed(conflict)).collect();
        (!left.is_empty()).then_some(Conflicts(left))
    }
}

impl ManagedFields {
    /// Reads `metadata.managedFields`; nothing there means no entries.
    ///
    /// # Errors
    ///
    /// Entries that are none.
    pub fn parse(told: Option<&Value>) -> Result<ManagedFields, ManagedFieldsError> {
        let entries = match told {
            None | Some(Value::Null) => return Ok(ManagedFields::default()),
            Some(Value::Array(entries)) => entries,
            Some(_) => return Err(ManagedFieldsError::Form),
        };
        let mut managers: Vec<Manager> = Vec::with_capacity(entries.len() + 1);
        for (index, entry) in entries.iter().enumerate() {
            let manager = parse_entry(index, entry)?;
            // The last of several entries of one manager counts.
            match managers.iter_mut().find(|known| is_same_manager(known, &manager)) {
                Some(known) => *known = manager,
                None => managers.push(manager),
            }
        }
        Ok(ManagedFields { managers })
    }

    /// Whether `metadata.managedFields` says that the entries shall be forgotten: an empty list, or one empty entry.
    #[must_use]
    pub fn is_reset(told: &Value) -> bool {
        match told.as_array().map(Vec::as_slice) {
            Some([]) => true,
            Some([Value::Object(entry)]) => entry.is_empty(),
            _ => false,
        }
    }

    /// As `metadata.managedFields`; `None`: no entries.
    #[must_use]
    pub fn into_value(mut self) -> Option<Value> {
        if self.managers.is_empty() {
            return None;
        }
        self.managers.sort_by(|left, right| left.order().cmp(&right.order()));
        Some(Value::Array(self.managers.into_iter().map(Manager::into_value).collect()))
    }

    /// Whether nobody manages anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.managers.is_empty()
    }

    /// The entries.
    #[must_use]
    pub fn managers(&self) -> &[Manager] {
        &self.managers
    }

    /// Notes a write that is no apply: what differs from the old version is the manager's now, and nobody else's. No
    /// old version: the object is new.
    pub fn update(&mut self, write: &Write<'_>, old: Option<&Value>, new: &Value) {
        self.note(write, compare(write.ty, old, new, write.ignored));
    }

    /// Notes what a write that is no apply changed.
    pub fn note(&mut self, write: &Write<'_>, change: Comparison) {
        self.drop_strangers(write);
        if change.is_empty() {
            return;
        }
        self.take_away(&change);
        if !change.taken.is_empty() {
            self.give(write, change.taken);
        }
        self.unite_ancient();
    }

    /// Applies `config` to `live`: returns what the object becomes and notes the manager's fields. What it applied
    /// before and does not any more goes, unless others have it.
    ///
    /// # Errors
    ///
    /// Fields of others that would change, unless `force`; nothing is changed then.
    pub fn apply(
        &mut self,
        write: &Write<'_>,
        live: &Value,
        config: &Value,
        force: bool,
    ) -> Result<Value, Conflicts> {
        let mut after = self.clone();
        if after.is_empty() {
            after.update(&Write { manager: BEFORE, ..*write }, None, live);
        }
        after.drop_strangers(write);
        let own = |manager: &Manager| {
            manager.operation == Operation::Apply
                && manager.name == write.manager
                && manager.subresource == write.subresource
        };
        let mut named = fields_of(write.ty, config, write.ignored);
        let previous = after.managers.iter().position(own).map(|place| after.managers.remove(place));
        let mut managed = named.clone();
        for other in &after.managers {
            managed.unite(&other.fields);
        }
        let last = previous.map(|manager| manager.fields).unwrap_or_default();
        let new = prune(write.ty, merge_applied(write.ty, live, config), &last, &managed);
        let change = compare(write.ty, Some(live), &new, write.ignored);
        if !force && let Some(conflicts) = after.conflicts(&change.taken) {
            return Err(conflicts);
        }
        after.take_away(&change);
        named.subtract(&FieldSet::of_names(STRIPPED));
        named.subtract(&FieldSet::of_names(&[&["metadata"]]));
        if !named.is_empty() {
            after.managers.push(Manager {
                name: write.manager.to_owned(),
                operation: Operation::Apply,
                api_version: write.api_version.to_owned(),
                subresource: write.subresource.to_owned(),
                time: Some(write.now.to_owned()),
                fields: named,
            });
        }
        *self = after;
        Ok(new)
    }

    fn drop_strangers(&mut self, write: &Write<'_>) {
        self.managers.retain(|manager| {
            manager.api_version == write.api_version || write.versions.contains(&manager.api_version.as_str())
        });
    }

    fn conflicts(&self, taken: &FieldSet) -> Option<Conflicts> {
        let mut others: Vec<&Manager> = self.managers.iter().collect();
        others.sort_by_key(|manager| manager.identity());
        let mut found = Vec::new();
        for manager in others {
            let both = manager.fields.intersection(taken);
            found.extend(both.paths().into_iter().map(|path| Conflict {
                manager: manager.shown(),
                path: display_path(&path),
                elements: path.into_iter().map(str::to_owned).collect(),
            }));
        }
        (!found.is_empty()).then_some(Conflicts(found))
    }

    fn take_away(&mut self, change: &Comparison) {
        for manager in &mut self.managers {
            manager.fields.subtract(&change.taken);
            manager.fields.subtract(&change.removed);
        }
        self.managers.retain(|manager| !manager.fields.is_empty());
    }

    fn give(&mut self, write: &Write<'_>, fields: FieldSet) {
        let manager = Manager {
            name: write.manager.to_owned(),
            operation: Operation::Update,
            api_version: write.api_version.to_owned(),
            subresource: write.subresource.to_owned(),
            time: Some(write.now.to_owned()),
            fields,
        };
        match self.managers.iter_mut().find(|known| is_same_manager(known, &manager)) {
            Some(known) => {
                known.fields.unite(&manager.fields);
                known.time = manager.time;
            }
            None => self.managers.push(manager),
        }
    }

    /// Makes one entry of the oldest updates, version by version, until there are few enough.
    fn unite_ancient(&mut self) {
        let mut excess = self
            .managers
            .iter()
            .filter(|manager| manager.operation == Operation::Update)
            .count()
            .saturating_sub(UPDATES);
        if excess == 0 {
            return;
        }
        let (mut updates, applied): (Vec<Manager>, Vec<Manager>) =
            self.managers.drain(..).partition(|manager| manager.operation == Operation::Update);
        // What is ancient already stays first, so that there is one such entry of a version.
        updates.sort_by(|left, right| left.age().cmp(&right.age()));
        let mut kept: Vec<Manager> = Vec::with_capacity(UPDATES);
        for manager in updates {
            let first = kept.iter_mut().find(|known| known.api_version == manager.api_version);
            match first {
                Some(bucket) if excess > 0 => {
                    excess -= 1;
                    bucket.fields.unite(&manager.fields);
                    bucket.name = ANCIENT.to_owned();
                    bucket.subresource = String::new();
                    bucket.time = manager.time;
                }
                _ => kept.push(manager),
            }
        }
        self.managers = applied;
        self.managers.append(&mut kept);
    }
}

impl Manager {
    /// What makes it the same manager, in the order in which managers are named.
    fn identity(&self) -> (&str, Operation, &str, &str) {
        let version = match self.operation {
            Operation::Apply => "",
            Operation::Update => self.api_version.as_str(),
        };
        (&self.name, self.operation, version, &self.subresource)
    }

    /// The order in which updates grow old.
    fn age(&self) -> (bool, &Option<String>, (&str, Operation, &str, &str)) {
        (self.name != ANCIENT, &self.time, self.identity())
    }

    /// The order of entries: applied before updated, then by time.
    fn order(&self) -> (Operation, &Option<String>, &str, &str, &str) {
        (self.operation, &self.time, &self.name, &self.api_version, &self.subresource)
    }

    /// As messages show it.
    fn shown(&self) -> String {
        let mut shown = go_quote(&self.name);
        if !self.subresource.is_empty() {
            shown.push_str(&format!(" with subresource {}", go_quote(&self.subresource)));
        }
        match self.operation {
            Operation::Apply => {}
            Operation::Update => shown.push_str(&format!(" using {}", self.api_version)),
        }
        shown
    }

    fn into_value(self) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, value: String| {
            if !value.is_empty() {
                entry.insert(key.to_owned(), Value::String(value));
            }
        };
        put("manager", self.name);
        put("operation", self.operation.as_str().to_owned());
        put("apiVersion", self.api_version);
        put("time", self.time.unwrap_or_default());
        put("fieldsType", "FieldsV1".to_owned());
        put("subresource", self.subresource);
        entry.insert("fieldsV1".to_owned(), self.fields.into_value());
        Value::Object(entry)
    }
}

fn is_same_manager(one: &Manager, other: &Manager) -> bool {
    one.identity() == other.identity()
}

fn parse_entry(index: usize, entry: &Value) -> Result<Manager, ManagedFieldsError> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err(ManagedFieldsError::Operation),
    };
    if text("apiVersion").is_empty() {
        return Err(ManagedFieldsError::ApiVersion);
    }
    if text("fieldsType") != "FieldsV1" {
        return Err(ManagedFieldsError::FieldsType { index, found: text("fieldsType").to_owned() });
    }
    let fields = match entry.get("fieldsV1") {
        None | Some(Value::Null) => FieldSet::default(),
        Some(fields) => FieldSet::parse(fields)?,
    };
    let time = Some(text("time")).filter(|time| !time.is_empty()).map(str::to_owned);
    Ok(Manager {
        name: text("manager").to_owned(),
        operation,
        api_version: text("apiVersion").to_owned(),
        subresource: text("subresource").to_owned(),
        time,
        fields,
    })
}

/// Whether two `managedFields` say the same, whatever times they hold.
#[must_use]
pub fn same_but_times(one: Option<&Value>, other: Option<&Value>) -> bool {
    let (Some(one), Some(other)) = (one.and_then(Value::as_array), other.and_then(Value::as_array)) else {
        return one == other;
    };
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| match (one.as_object(), other.as_object()) {
            (Some(one), Some(other)) => {
                let rest = |entry: &Map<String, Value>| entry.len() - usize::from(entry.contains_key("time"));
                rest(one) == rest(other)
                    && one.iter().all(|(key, value)| key == "time" || other.get(key) == Some(value))
            }
            _ => one == other,
        })
}
