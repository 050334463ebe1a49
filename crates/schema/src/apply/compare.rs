//! Which fields two versions of an object differ in, and which fields a configuration names.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element;
use super::place::{Atom, Identity, Place, is_same};
use super::set::{FieldSet, Node};
use super::{Paths, STRIPPED};
use crate::decode::zero;
use crate::table::{Shape, Type};

/// What a write did to the fields of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that are new or have another value.
    pub taken: FieldSet,
    /// Fields that are gone.
    pub removed: FieldSet,
}

impl Comparison {
    /// Whether nothing that can be owned differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty() && self.removed.is_empty()
    }
}

/// Compares two versions of an object of type `ty`, but for `ignored` fields and those that nobody owns. No old
/// version: the object is new.
#[must_use]
pub fn compare(ty: Type, old: Option<&Value>, new: &Value, ignored: Paths<'_>) -> Comparison {
    let empty;
    let old = match old {
        Some(old) => old,
        None => {
            empty = zero(Shape::Named(ty));
            &empty
        }
    };
    let skipped: Vec<&[&str]> = STRIPPED.iter().chain(ignored).copied().collect();
    let (mut taken, mut removed) = (Node::default(), Node::default());
    Walk { taken: &mut taken, removed: &mut removed }.value(Place::root(ty), Some(old), Some(new), &skipped);
    let (mut taken, mut removed) = (taken.into_set(), removed.into_set());
    // The metadata as a whole is nobody's.
    for set in [&mut taken, &mut removed] {
        if set.contains(&["f:metadata"]) {
            set.subtract(&FieldSet::of_names(&[&["metadata"]]));
        }
    }
    Comparison { taken, removed }
}

/// Every field that `config`, an object of type `ty`, names, but for `ignored` ones.
#[must_use]
pub fn fields_of(ty: Type, config: &Value, ignored: Paths<'_>) -> FieldSet {
    let mut root = Node::default();
    collect(Place::root(ty), config, ignored, &mut root);
    root.into_set()
}

/// What of the skipped paths is left below a name; `None`: the name itself is skipped.
pub(super) fn skipped_below<'p>(skipped: &[&'p [&'p str]], name: &str) -> Option<Vec<&'p [&'p str]>> {
    let mut below = Vec::new();
    for path in skipped {
        match path.split_first() {
            Some((first, [])) if *first == name => return None,
            Some((first, rest)) if *first == name => below.push(rest),
            _ => {}
        }
    }
    Some(below)
}

/// The fields of one place that a write took and removed.
struct Walk<'n> {
    taken: &'n mut Node,
    removed: &'n mut Node,
}

impl Walk<'_> {
    /// Compares what stood at a place with what stands there; at least one of them is there.
    fn value(&mut self, place: Place, old: Option<&Value>, new: Option<&Value>, skipped: &[&[&str]]) {
        let atom = match (old, new) {
            (Some(old), Some(new)) => match (place.atom_for(old), place.atom_for(new)) {
                // What can be anything was something else before.
                (Atom::Scalar(_), Atom::List { .. } | Atom::Map { .. } | Atom::Struct { .. })
                | (Atom::List { .. }, Atom::Scalar(_) | Atom::Map { .. } | Atom::Struct { .. })
                | (Atom::Map { .. } | Atom::Struct { .. }, Atom::Scalar(_) | Atom::List { .. }) => {
                    return self.leaf(Some(old), Some(new));
                }
                (_, atom) => atom,
            },
            (None, Some(value)) | (Some(value), None) => place.atom_for(value),
            (None, None) => return,
        };
        match atom {
            Atom::Scalar(_) | Atom::Deduced | Atom::List { identity: None, .. } => self.leaf(old, new),
            Atom::List { item, identity: Some(identity) } => {
                let before = old.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let after = new.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                if before.is_empty() && after.is_empty() {
                    return self.leaf(old, new);
                }
                self.items(item, identity, before, after);
                self.container(old, new);
            }
            Atom::Struct { is_atomic, .. } | Atom::Map { is_atomic, .. } => {
                let (before, after) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                let is_empty = |map: Option<&Map<String, Value>>| map.is_none_or(Map::is_empty);
                if is_atomic || (is_empty(before) && is_empty(after)) {
                    return self.leaf(old, new);
                }
                for (name, value) in before.into_iter().flatten() {
                    let now = after.and_then(|after| after.get(name));
                    self.field(atom, name, Some(value), now, skipped);
                }
                for (name, value) in after.into_iter().flatten() {
                    if !before.is_some_and(|before| before.contains_key(name)) {
                        self.field(atom, name, None, Some(value), skipped);
                    }
                }
                self.container(old, new);
            }
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.taken.is_member = true,
            (_, None) => self.removed.is_member = true,
            (Some(old), Some(new)) => self.taken.is_member |= !is_same(old, new),
        }
    }

    /// A struct, map or list itself, apart from what it holds.
    fn container(&mut self, old: Option<&Value>, new: Option<&Value>) {
        self.taken.is_member |= old.is_none();
        self.removed.is_member |= new.is_none();
    }

    fn field(
        &mut self,
        atom: Atom,
        name: &str,
        old: Option<&Value>,
        new: Option<&Value>,
        skipped: &[&[&str]],
    ) {
        let Some(skipped) = skipped_below(skipped, name) else { return };
        // The table is asked last: most fields stay as they are.
        if old.is_some() && old == new {
            return;
        }
        self.below(named_place(atom, name), || element::field(name), old, new, &skipped);
    }

    fn below(
        &mut self,
        place: Place,
        element: impl Fn() -> String,
        old: Option<&Value>,
        new: Option<&Value>,
        skipped: &[&[&str]],
    ) {
        let (mut taken, mut removed) = (Node::default(), Node::default());
        Walk { taken: &mut taken, removed: &mut removed }.value(place, old, new, skipped);
        self.taken.add(&element, taken);
        self.removed.add(&element, removed);
    }

    fn items(&mut self, place: Place, identity: Identity, before: &[Value], after: &[Value]) {
        if before == after {
            return;
        }
        let (before, after) = (index(place, identity, before), index(place, identity, after));
        for (element, old) in &before {
            let new = after.get(element).map(Vec::as_slice).unwrap_or_default();
            self.item(place, element, old, new);
        }
        for (element, new) in after.iter().filter(|(element, _)| !before.contains_key(*element)) {
            self.item(place, element, &[], new);
        }
    }

    /// Items of one identity; usually one at most. Several are taken as a whole, as if the list ended there.
    fn item(&mut self, place: Place, element: &str, old: &[&Value], new: &[&Value]) {
        let element = || element.to_owned();
        let member = || Node { is_member: true, children: Map::new() };
        match (old, new) {
            ([] | [_], [] | [_]) => {
                self.below(place, element, old.first().copied(), new.first().copied(), &[]);
            }
            ([_, _, ..], [_, _, ..]) => {
                if old != new {
                    self.taken.add(element, member());
                }
            }
            (_, [] | [_]) => {
                if let [new] = new {
                    self.below(place, element, None, Some(new), &[]);
                }
                self.removed.add(element, member());
            }
            ([] | [_], _) => {
                if let [old] = old {
                    self.below(place, element, Some(old), None, &[]);
                }
                self.taken.add(element, member());
            }
        }
    }
}

/// The place of a field of a struct or an entry of a map.
pub(super) fn named_place(atom: Atom, name: &str) -> Place {
    match atom {
        Atom::Struct { ty, .. } => Place::field_of(ty, name),
        Atom::Map { value, .. } => value,
        Atom::Scalar(_) | Atom::List { .. } | Atom::Deduced => Place::ANY,
    }
}

/// The items of a list by what identifies them; items that nothing identifies are left out.
fn index(place: Place, identity: Identity, items: &[Value]) -> BTreeMap<String, Vec<&Value>> {
    let mut found: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for item in items {
        if let Ok(element) = element::item(identity, place.ty(), item) {
            found.entry(element).or_default().push(item);
        }
    }
    found
}

fn collect(place: Place, value: &Value, skipped: &[&[&str]], node: &mut Node) {
    let atom = place.atom_for(value);
    match atom {
        Atom::Scalar(_)
        | Atom::Deduced
        | Atom::List { identity: None, .. }
        | Atom::Struct { is_atomic: true, .. }
        | Atom::Map { is_atomic: true, .. } => node.is_member = true,
        Atom::List { item, identity: Some(identity) } => {
            for (element, items) in index(item, identity, value.as_array().map_or(&[], Vec::as_slice)) {
                let mut below = Node::default();
                if let [only] = items.as_slice() {
                    collect(item, only, &[], &mut below);
                }
                below.is_member = true;
                node.add(|| element, below);
            }
        }
        Atom::Struct { .. } | Atom::Map { .. } => {
            for (name, value) in value.as_object().into_iter().flatten() {
                let Some(skipped) = skipped_below(skipped, name) else { continue };
                let mut below = Node::default();
                collect(named_place(atom, name), value, &skipped, &mut below);
                let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                let is_declared = match atom {
                    Atom::Struct { ty, .. } => ty.field(name).is_some(),
                    Atom::Map { .. } | Atom::Scalar(_) | Atom::List { .. } | Atom::Deduced => false,
                };
                below.is_member |= is_empty || !is_declared;
                node.add(|| element::field(name), below);
            }
        }
    }
}
