//! Where names are looked up: one map, or several in the order of their priority.

use std::collections::{BTreeMap, HashMap};

/// Something that knows the values of names. Absent and empty are different answers.
pub trait Lookup {
    /// The value of `name`, if it is defined.
    fn value_of(&self, name: &str) -> Option<&str>;
}

impl Lookup for BTreeMap<String, String> {
    fn value_of(&self, name: &str) -> Option<&str> {
        self.get(name).map(String::as_str)
    }
}

impl Lookup for HashMap<String, String> {
    fn value_of(&self, name: &str) -> Option<&str> {
        self.get(name).map(String::as_str)
    }
}

/// Several lookups: the first that has the name wins, also when its value is empty.
///
/// The design document calls its constructor `MakeMappingFunc`. Default values for variables that may not
/// exist are given by a later lookup.
pub struct Prioritised<'l> {
    lookups: Vec<&'l dyn Lookup>,
}

impl<'l> Prioritised<'l> {
    /// The strongest first.
    pub fn new(lookups: impl IntoIterator<Item = &'l dyn Lookup>) -> Self {
        Self { lookups: lookups.into_iter().collect() }
    }
}

impl Lookup for Prioritised<'_> {
    fn value_of(&self, name: &str) -> Option<&str> {
        self.lookups.iter().find_map(|lookup| lookup.value_of(name))
    }
}
