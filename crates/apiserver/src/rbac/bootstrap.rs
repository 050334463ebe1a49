//! The roles and bindings that every cluster has (`facts/bootstrap_rbac.json`), and those of what only this server serves:
//! made at the start, completed where rules or subjects are missing, left alone where an annotation says so.

use std::sync::Arc;

use futures::future::try_join_all;
use serde_json::{Value, json};
use store::{Key, WriteError};

use super::GROUP;
use super::aggregation::{gathered, refresh_aggregated};
use super::rule::{Rule, covers_all};
use crate::kinds::Kind;
use crate::object::{self, encode, list, set_metadata, text};
use crate::server::{Server, StartError};
use crate::status::ApiError;
use crate::timestamps;
use crate::writing::{Candidate, Part, Write, update_object};

const FACTS: &str = include_str!("../../facts/bootstrap_rbac.json");

/// Says whether the server may complete a role or binding; `"false"` keeps it off.
const AUTOUPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// The objects by resource, as they shall be.
fn wanted() -> Vec<(&'static str, Vec<Value>)> {
    let facts: Value = serde_json::from_str(FACTS).expect("the facts are JSON, which a test reads");
    let mut sections: Vec<(&'static str, Vec<Value>)> = [
        ("clusterroles", "clusterRoles"),
        ("roles", "roles"),
        ("clusterrolebindings", "clusterRoleBindings"),
        ("rolebindings", "roleBindings"),
    ]
    .into_iter()
    .map(|(resource, section)| (resource, list(&facts, &[section]).iter().map(whole).collect()))
    .collect();
    let roles = &mut sections[0].1;
    for role in roles.iter_mut() {
        let own = own_rules(object::name(role));
        if let Some(rules) = role["rules"].as_array_mut() {
            rules.extend(own);
        }
    }
    roles.sort_by(|left, right| object::name(left).cmp(object::name(right)));
    // `view` before `edit` before `admin`: each gathers from the one before.
    for name in ["view", "edit", "admin"] {
        let all = roles.clone();
        if let Some(role) = roles.iter_mut().find(|role| object::name(role) == name) {
            role["rules"] = json!(gathered(role, &all));
        }
    }
    sections
}

/// A line of the facts as an object.
fn whole(fact: &Value) -> Value {
    let mut object = fact.clone();
    let mut metadata = json!({"annotations": {AUTOUPDATE: "true"}});
    if let Some(map) = object.as_object_mut() {
        for field in ["name", "namespace", "labels"] {
            if let Some(value) = map.remove(field) {
                metadata[field] = value;
            }
        }
        map.insert("metadata".to_owned(), metadata);
    }
    object
}

/// What the roles of users allow besides, for what only this server has: templates under both of their groups, and the
/// environment record of pods (which shows values of Secrets to those only who may read Secrets).
fn own_rules(role: &str) -> Vec<Value> {
    let groups = ["template.coracle.dev", ""];
    match role {
        "system:aggregate-to-view" => vec![
            json!({"verbs": ["get", "list", "watch"], "apiGroups": groups, "resources": ["templates"]}),
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/environment"]}),
        ],
        "system:aggregate-to-edit" => vec![
            json!({"verbs": ["create", "delete", "deletecollection", "patch", "update"], "apiGroups": groups, "resources": ["templates"]}),
            json!({"verbs": ["create"], "apiGroups": groups, "resources": ["processedtemplates", "templates/processed"]}),
        ],
        _ => Vec::new(),
    }
}

/// Creates what is missing and completes what is there.
pub(crate) async fn create_missing(server: &Arc<Server>) -> Result<(), StartError> {
    let failed = |error| StartError::bootstrap("the roles that every cluster has", &error);
    let mut new = Vec::new();
    let mut changed = Vec::new();
    for (resource, objects) in wanted() {
        let Some(kind) = server.kinds.find(GROUP, "v1", resource) else { continue };
        for object in objects {
            let namespace = text(&object, &["metadata", "namespace"]).to_owned();
            let key = Key::new(kind.collection(), &namespace, object::name(&object));
            match server.store.get(&key) {
                None => new.push((kind, key, finished(kind, &object).map_err(failed)?)),
                Some(stored) => {
                    if completed(kind, &object::tree(&stored), &object).is_some() {
                        changed.push((kind, namespace, object));
                    }
                }
            }
        }
    }
    // All at once, so that they share commits.
    try_join_all(new.into_iter().map(|(kind, key, object)| async move {
        let name = key.name().to_owned();
        match server.store.create(key, encode(&object)).await {
            Ok(_) | Err(WriteError::Exists { .. }) => Ok(()),
            Err(error) => Err(ApiError::from_write(kind, &name, error)),
        }
    }))
    .await
    .map_err(failed)?;
    for (kind, namespace, object) in changed {
        complete(server, kind, &namespace, &object).await.map_err(failed)?;
    }
    refresh_aggregated(server).await.map_err(failed)
}

/// A new object as the server would store it.
fn finished(kind: &Kind, object: &Value) -> Result<Value, ApiError> {
    let internal = |message: String| ApiError::Internal { message };
    let decoded = schema::decode_value(kind.ty(), object, schema::FieldValidation::Strict)
        .map_err(|error| internal(error.to_string()))?;
    let mut object = decoded.value;
    crate::body::set_type(kind, &mut object);
    set_metadata(&mut object, "uid", Some(json!(uuid::Uuid::new_v4().to_string())));
    set_metadata(&mut object, "creationTimestamp", Some(json!(timestamps::now_text())));
    admission::prepare_create(kind.resource(), &mut object, &admission::AdmissionRequest::default())
        .map_err(|errors| internal(errors.to_string()))?;
    Ok(object)
}

async fn complete(
    server: &Arc<Server>,
    kind: &Arc<Kind>,
    namespace: &str,
    wanted: &Value,
) -> Result<(), ApiError> {
    let write = Write::of_server(server, kind, namespace);
    let make = |old: &Value| {
        let object = completed(kind, old, wanted).unwrap_or_else(|| old.clone());
        Ok(Candidate { object, warnings: Vec::new(), keeps_version: false })
    };
    match update_object(&write, object::name(wanted), Part::Main, make).await {
        Ok(_) => Ok(()),
        // A binding that somebody gave another role keeps it, as it cannot be changed.
        Err(ApiError::Invalid { errors, .. }) => {
            tracing::warn!(name = object::name(wanted), %errors, "a role that every cluster has cannot be completed");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// What is stored with what is missing; `None` when nothing is, or when it may not be touched. Nothing is ever taken away.
fn completed(kind: &Kind, stored: &Value, wanted: &Value) -> Option<Value> {
    if stored["metadata"]["annotations"][AUTOUPDATE] == "false" {
        return None;
    }
    let mut new = stored.clone();
    for field in ["labels", "annotations"] {
        let entries = wanted["metadata"][field].as_object();
        for (key, value) in entries.into_iter().flatten() {
            if new["metadata"][field].get(key).is_none() {
                new["metadata"][field][key.as_str()] = value.clone();
            }
        }
    }
    let append = |new: &mut Value, field: &str, items: Vec<Value>| {
        if !new[field].is_array() {
            new[field] = json!([]);
        }
        if let Some(list) = new[field].as_array_mut() {
            list.extend(items);
        }
    };
    match kind.plural() {
        "clusterroles" | "roles" if wanted["aggregationRule"].is_object() => {
            let known = list(stored, &["aggregationRule", "clusterRoleSelectors"]);
            let missing: Vec<Value> = list(wanted, &["aggregationRule", "clusterRoleSelectors"])
                .iter()
                .filter(|selector| !known.contains(selector))
                .cloned()
                .collect();
            if !missing.is_empty() {
                append(&mut new["aggregationRule"], "clusterRoleSelectors", missing);
            }
        }
        "clusterroles" | "roles" => {
            let held = Rule::read_all(stored);
            let is_missing = |rule: &&Value| !covers_all(&held, &[Rule::read(rule)]);
            let missing: Vec<Value> = list(wanted, &["rules"]).iter().filter(is_missing).cloned().collect();
            if !missing.is_empty() {
                append(&mut new, "rules", missing);
            }
        }
        _ => {
            let same = |left: &Value, right: &Value| {
                ["kind", "name", "namespace"]
                    .iter()
                    .all(|field| text(left, &[field]) == text(right, &[field]))
            };
            let known = list(stored, &["subjects"]);
            let is_missing = |wanted: &&Value| !known.iter().any(|own| same(own, wanted));
            let missing: Vec<Value> =
                list(wanted, &["subjects"]).iter().filter(is_missing).cloned().collect();
            if !missing.is_empty() {
                append(&mut new, "subjects", missing);
            }
        }
    }
    (new != *stored).then_some(new)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{completed, finished, wanted};
    use crate::kinds::KindTable;
    use crate::object;

    #[test]
    fn every_role_and_binding_of_the_facts_is_valid() {
        let kinds = KindTable::builtin().expect("complete");
        for (resource, objects) in wanted() {
            let kind = kinds.find(super::GROUP, "v1", resource).expect("served");
            assert!(!objects.is_empty());
            for wanted in objects {
                let object = finished(kind, &wanted).unwrap_or_else(|error| panic!("{wanted}: {error}"));
                assert_eq!(completed(kind, &object, &wanted), None, "what was just made is complete");
            }
        }
    }

    #[test]
    fn the_roles_of_users_reach_templates_by_both_paths_and_the_environment_record() {
        let roles = wanted().swap_remove(0).1;
        let rules = |name: &str| {
            let role = roles.iter().find(|role| object::name(role) == name).expect("there");
            crate::rbac::Rule::read_all(role)
        };
        let allows = |name: &str, verb: &str, group: &str, resource: &str, subresource: &str| {
            let asked = crate::authorize::Attributes::resource(verb, group, resource).sub(subresource);
            rules(name).iter().any(|rule| rule.allows(&asked))
        };
        for group in ["", "template.coracle.dev"] {
            for role in ["admin", "edit", "view"] {
                assert!(allows(role, "list", group, "templates", ""), "{role} {group}");
                assert_eq!(allows(role, "create", group, "templates", ""), role != "view", "{role} {group}");
                assert_eq!(allows(role, "create", group, "processedtemplates", ""), role != "view");
            }
        }
        for role in ["admin", "edit", "view"] {
            assert!(allows(role, "get", "", "pods", "environment"));
            assert!(allows(role, "get", "", "pods", "log"));
            assert_eq!(allows(role, "get", "", "secrets", ""), role != "view");
        }
    }

    #[test]
    fn what_is_missing_comes_back_and_what_was_added_stays_unless_an_annotation_says_no() {
        let kinds = KindTable::builtin().expect("complete");
        let kind = kinds.find(super::GROUP, "v1", "clusterroles").expect("served");
        let discovery = |objects: Vec<Value>| {
            objects.into_iter().find(|role| object::name(role) == "system:discovery").expect("there")
        };
        let wanted = discovery(wanted().swap_remove(0).1);
        let mut stored = finished(kind, &wanted).expect("valid");
        stored["rules"] = json!([{"verbs": ["get"], "nonResourceURLs": ["/mine"]}]);
        let new = completed(kind, &stored, &wanted).expect("incomplete");
        assert_eq!(new["rules"].as_array().map(Vec::len), Some(2));
        assert_eq!(new["rules"][0]["nonResourceURLs"], json!(["/mine"]));
        stored["metadata"]["annotations"][super::AUTOUPDATE] = json!("false");
        assert_eq!(completed(kind, &stored, &wanted), None);
    }
}
