//! What an unknown field was meant to be: a misspelt field of the same struct, or a field of a struct nearby.

use super::inspect::{Step, write_path};
use crate::table::{Field, Shape, Type};

/// How far below a struct a field is searched for.
const DEPTH: usize = 3;

/// Longer keys are not compared: no field is that long.
const LONGEST_KEY: usize = 64;

/// What the author of an unknown field may have meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Suggestion {
    /// A field of the same struct whose name is nearly the same.
    Spelling(&'static str),
    /// The field exists further out: at this path, empty for the object itself.
    Outside(String),
    /// The field exists further in: at this path below the struct, such as `template.spec.containers[]`.
    Inside(String),
}

/// Searches what `key` was meant to be. `types` are the structs around it, the nearest last, each with the number of
/// steps of `path` that lead to it.
pub(super) fn suggest(types: &[(Type, usize)], path: &[Step], key: &str) -> Option<Suggestion> {
    let ((own, _), around) = types.split_last()?;
    if let Some(field) = nearest(*own, key) {
        return Some(Suggestion::Spelling(field));
    }
    if let Some((_, steps)) = around.iter().rev().find(|(ty, _)| ty.field(key).is_some()) {
        let mut place = String::new();
        write_path(&mut place, &path[..*steps]).ok()?;
        return Some(Suggestion::Outside(place));
    }
    inside(*own, key).map(Suggestion::Inside)
}

/// The field of `ty` whose name is nearest to `key`, if it is near enough.
fn nearest(ty: Type, key: &str) -> Option<&'static str> {
    if key.len() > LONGEST_KEY {
        return None;
    }
    let near = |field: Field| Some((nearness(key, field.json())?, field.json()));
    ty.fields().into_iter().filter_map(near).min().map(|(_, name)| name)
}

/// Whether two names are nearly the same: what one mistypes for the other.
#[must_use]
pub fn is_near(one: &str, other: &str) -> bool {
    one.len() <= LONGEST_KEY && nearness(one, other).is_some()
}

/// How far `name` is from `key`, if it is near.
fn nearness(key: &str, name: &str) -> Option<usize> {
    let most = match key.len() {
        0..2 => return None,
        2..=4 => 1,
        5..=8 => 2,
        _ => 3,
    };
    let distance = distance(&key.to_ascii_lowercase(), &name.to_ascii_lowercase());
    (distance <= most).then_some(distance)
}

/// The nearest struct below `ty` that has the field, as a path; of several equally near ones the containers'.
fn inside(ty: Type, key: &str) -> Option<String> {
    let mut level = vec![(String::new(), ty)];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for (path, ty) in &level {
            for field in ty.fields() {
                let Some((inner, suffix)) = element(field.shape()) else { continue };
                let dot = if path.is_empty() { "" } else { "." };
                next.push((format!("{path}{dot}{}{suffix}", field.json()), inner));
            }
        }
        let mut found = next.iter().filter(|(_, ty)| ty.field(key).is_some()).peekable();
        if let Some((first, _)) = found.peek() {
            let first = first.clone();
            let of_containers =
                found.find(|(path, _)| path == "containers[]" || path.ends_with(".containers[]"));
            return Some(of_containers.map_or(first, |(path, _)| path.clone()));
        }
        level = next;
    }
    None
}

/// The struct in a field, itself or as the items of a list.
fn element(shape: Shape) -> Option<(Type, &'static str)> {
    let (shape, suffix) = match shape.resolved() {
        Shape::List(inner) => (inner.shape().resolved(), "[]"),
        other => (other, ""),
    };
    match shape {
        Shape::Named(ty) if ty.special().is_none() => Some((ty, suffix)),
        _ => None,
    }
}

/// How many letters must be inserted, removed, replaced or swapped with their neighbour to get from one to the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (line, left) in one.iter().enumerate() {
        let mut row = vec![line + 1];
        for (column, right) in other.iter().enumerate() {
            let replaced = last[column] + usize::from(left != right);
            let mut least = replaced.min(last[column + 1] + 1).min(row[column] + 1);
            if line > 0 && column > 0 && *left == other[column - 1] && one[line - 1] == *right {
                least = least.min(before[column - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{builtin, inspect};
    use serde_json::json;

    fn suggestion(api_version: &str, kind: &str, object: &serde_json::Value) -> Option<Suggestion> {
        let ty = builtin().type_for(api_version, kind).expect("a built-in kind");
        let problems = inspect(ty, object).problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].suggestion.clone()
    }

    #[test]
    fn a_misspelt_field_is_recognised() {
        for (field, meant) in
            [("contianers", "containers"), ("volume", "volumes"), ("hostnetwork", "hostNetwork")]
        {
            let object = json!({"spec": {field: []}});
            assert_eq!(suggestion("v1", "Pod", &object), Some(Suggestion::Spelling(meant)), "{field}");
        }
        let labels = json!({"metadata": {"lables": {}}});
        assert_eq!(suggestion("v1", "Pod", &labels), Some(Suggestion::Spelling("labels")));
        assert_eq!(suggestion("v1", "ConfigMap", &json!({"dat": {}})), Some(Suggestion::Spelling("data")));
        assert_eq!(suggestion("v1", "Pod", &json!({"spec": {"zzzzzzzz": 1}})), None);
    }

    #[test]
    fn a_field_with_wrong_indentation_is_recognised() {
        let object = json!({"spec": {"containers": [{"restartPolicyRules": [{"hostNetwork": true}]}]}});
        assert_eq!(suggestion("v1", "Pod", &object), Some(Suggestion::Outside("spec".into())));
        let object = json!({"spec": {"env": []}});
        assert_eq!(suggestion("v1", "Pod", &object), Some(Suggestion::Inside("containers[]".into())));
        let object = json!({"spec": {"containers": []}});
        assert_eq!(
            suggestion("apps/v1", "Deployment", &object),
            Some(Suggestion::Inside("template.spec".into()))
        );
    }
}
