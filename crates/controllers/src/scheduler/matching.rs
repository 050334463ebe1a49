//! Which pods a term of affinity or spreading is about: namespaces and labels.
//!
//! Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors>.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels of an object.
pub(super) type Labels = BTreeMap<String, String>;

/// One condition on labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Requirement {
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    Exists(String),
    Absent(String),
    /// An operator that nobody knows: nothing meets it.
    Unknown,
}

impl Requirement {
    fn is_met(&self, labels: &Labels) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Self::Exists(key) => labels.contains_key(key),
            Self::Absent(key) => !labels.contains_key(key),
            Self::Unknown => false,
        }
    }
}

/// A label selector, ready to be asked often. Sorted: two that say the same are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Selector {
    /// There is none: it selects nothing.
    Nothing,
    /// All of these hold; without any, everything is selected.
    All(BTreeSet<Requirement>),
}

impl Selector {
    pub(super) fn of(selector: Option<&LabelSelector>) -> Self {
        let Some(selector) = selector else {
            return Self::Nothing;
        };
        let equal = selector
            .match_labels
            .iter()
            .flatten()
            .map(|(key, value)| Requirement::In(key.clone(), [value.clone()].into()));
        let expressions = selector.match_expressions.iter().flatten().map(|one| {
            let values = || one.values.iter().flatten().cloned().collect();
            match one.operator.as_str() {
                "In" => Requirement::In(one.key.clone(), values()),
                "NotIn" => Requirement::NotIn(one.key.clone(), values()),
                "Exists" => Requirement::Exists(one.key.clone()),
                "DoesNotExist" => Requirement::Absent(one.key.clone()),
                _ => Requirement::Unknown,
            }
        });
        Self::All(equal.chain(expressions).collect())
    }

    pub(super) fn selects(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(requirements) => requirements.iter().all(|one| one.is_met(labels)),
        }
    }

    /// Asks in addition that these labels are as `own` has them (`matchLabelKeys`), and those others
    /// (`mismatchLabelKeys`). Keys that `own` lacks do not count.
    pub(super) fn bound_to(mut self, own: &Labels, same: &[String], other: &[String]) -> Self {
        if let Self::All(requirements) = &mut self {
            let value = |key: &String| own.get(key).map(|value| BTreeSet::from([value.clone()]));
            for key in same {
                requirements.extend(value(key).map(|v| Requirement::In(key.clone(), v)));
            }
            for key in other {
                requirements.extend(value(key).map(|v| Requirement::NotIn(key.clone(), v)));
            }
        }
        self
    }
}

/// The namespaces of a term.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Namespaces {
    /// These by name.
    pub(super) named: BTreeSet<String>,
    /// And those whose labels are selected.
    pub(super) selected: Selector,
}

impl Namespaces {
    /// One.
    pub(super) fn only(name: &str) -> Self {
        Self { named: [name.to_owned()].into(), selected: Selector::Nothing }
    }

    fn holds(&self, name: &str, labels: &NamespaceLabels) -> bool {
        let nothing = Labels::new();
        self.named.contains(name)
            || (self.selected != Selector::Nothing
                && self.selected.selects(labels.get(name).unwrap_or(&nothing)))
    }

    /// Whether it depends on the labels of namespaces.
    pub(super) fn asks_for_labels(&self) -> bool {
        matches!(&self.selected, Selector::All(requirements) if !requirements.is_empty())
    }
}

/// The labels of all namespaces.
pub(super) type NamespaceLabels = BTreeMap<String, Labels>;

/// A group of pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    /// Where they are.
    pub(super) namespaces: Namespaces,
    /// What marks them.
    pub(super) selector: Selector,
}

impl Term {
    pub(super) fn covers(&self, namespace: &str, labels: &Labels, namespaces: &NamespaceLabels) -> bool {
        self.selector.selects(labels) && self.namespaces.holds(namespace, namespaces)
    }
}
