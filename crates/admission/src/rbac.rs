//! Roles and bindings: what a rule must say, whom a binding may name, and that a binding keeps its role.

use names::{DnsLabel, DnsSubdomain};
use schema::Resource;
use serde_json::Value;

use crate::errors::FieldErrors;
use crate::path::Path;
use crate::scalars::messages;
use crate::selector::label_selector;
use crate::tree::{default_field, is_set, items, items_mut, text};

/// The API group of roles, and of the users and groups that bindings name.
const GROUP: &str = "rbac.authorization.k8s.io";

/// Fills in the API groups of a binding.
pub(crate) fn default_binding(object: &mut Value) {
    default_field(&mut object["roleRef"], "apiGroup", GROUP);
    for subject in items_mut(object, "subjects") {
        if matches!(text(&subject["kind"]), "User" | "Group") {
            default_field(subject, "apiGroup", GROUP);
        }
    }
}

/// The sentences about a name that stands in a path.
pub(crate) fn path_segment(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    if matches!(name, "." | "..") {
        found.push(format!("may not be '{name}'"));
    }
    let forbidden = ["/", "%"].iter().filter(|part| name.contains(**part));
    found.extend(forbidden.map(|part| format!("may not contain '{part}'")));
    found
}

/// Checks an object of the group.
pub(crate) fn validate(errors: &mut FieldErrors, resource: &Resource, object: &Value) {
    match resource.kind {
        "Role" | "ClusterRole" => role(errors, object, resource.namespaced),
        "RoleBinding" => binding(errors, object, true),
        "ClusterRoleBinding" => binding(errors, object, false),
        _ => {}
    }
}

fn role(errors: &mut FieldErrors, object: &Value, is_namespaced: bool) {
    let rules = Path::root("rules");
    for (index, each) in items(&object["rules"]).iter().enumerate() {
        rule(errors, &rules.index(index), each, is_namespaced);
    }
    let aggregation = &object["aggregationRule"];
    if is_namespaced || !is_set(aggregation) {
        return;
    }
    let path = Path::root("aggregationRule").child("clusterRoleSelectors");
    let selectors = items(&aggregation["clusterRoleSelectors"]);
    if selectors.is_empty() {
        errors.required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, selector) in selectors.iter().enumerate() {
        label_selector(errors, &path.index(index), selector);
    }
}

fn rule(errors: &mut FieldErrors, path: &Path, rule: &Value, is_namespaced: bool) {
    let is_empty = |name: &str| items(&rule[name]).is_empty();
    if is_empty("verbs") {
        errors.required(&path.child("verbs"), "verbs must contain at least one value");
    }
    if !is_empty("nonResourceURLs") {
        let at = path.child("nonResourceURLs");
        let urls = &rule["nonResourceURLs"];
        if is_namespaced {
            errors.invalid(&at, urls.clone(), "namespaced rules cannot apply to non-resource URLs");
        }
        if !is_empty("apiGroups") || !is_empty("resources") || !is_empty("resourceNames") {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&at, urls.clone(), detail);
        }
        return;
    }
    if is_empty("apiGroups") {
        errors.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
    }
    if is_empty("resources") {
        errors.required(&path.child("resources"), "resource rules must supply at least one resource");
    }
}

fn binding(errors: &mut FieldErrors, object: &Value, is_namespaced: bool) {
    let reference = Path::root("roleRef");
    let group = text(&object["roleRef"]["apiGroup"]);
    if group != GROUP {
        errors.not_supported(&reference.child("apiGroup"), group, &[GROUP]);
    }
    let kind = text(&object["roleRef"]["kind"]);
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        errors.not_supported(&reference.child("kind"), kind, kinds);
    }
    let name = text(&object["roleRef"]["name"]);
    if name.is_empty() {
        errors.required(&reference.child("name"), "");
    } else {
        errors.invalid_each(&reference.child("name"), name, path_segment(name));
    }
    let subjects = Path::root("subjects");
    for (index, each) in items(&object["subjects"]).iter().enumerate() {
        subject(errors, &subjects.index(index), each, is_namespaced);
    }
}

fn subject(errors: &mut FieldErrors, path: &Path, subject: &Value, is_namespaced: bool) {
    let name = text(&subject["name"]);
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    }
    let group = text(&subject["apiGroup"]);
    match text(&subject["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.invalid_each(&path.child("name"), name, messages(DnsSubdomain::parse(name)));
            }
            if !group.is_empty() {
                errors.not_supported(&path.child("apiGroup"), group, &[""]);
            }
            let namespace = text(&subject["namespace"]);
            if namespace.is_empty() && !is_namespaced {
                errors.required(&path.child("namespace"), "");
            }
            if !namespace.is_empty() {
                let told = messages(DnsLabel::parse(namespace));
                errors.invalid_each(&path.child("namespace"), namespace, told);
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(&path.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => errors.not_supported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

/// A binding keeps its role: whoever may change subjects only could otherwise give them another.
pub(crate) fn validate_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    if old["roleRef"] != new["roleRef"] {
        errors.invalid(&Path::root("roleRef"), new["roleRef"].clone(), "cannot change roleRef");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::{AdmissionRequest, prepare_create, prepare_update};

    fn resource(plural: &str) -> &'static schema::Resource {
        schema::resource("rbac.authorization.k8s.io", "v1", plural).expect("known")
    }

    fn told(plural: &str, mut object: Value) -> String {
        object["metadata"] = json!({"name": "n", "namespace": "default"});
        if plural.starts_with("cluster") {
            object["metadata"] = json!({"name": "system:n"});
        }
        match prepare_create(resource(plural), &mut object, &AdmissionRequest::default()) {
            Ok(_) => String::new(),
            Err(errors) => errors.to_string(),
        }
    }

    #[test]
    fn a_rule_says_verbs_and_either_resources_or_paths() {
        let rule = |rule: Value| json!({"rules": [rule]});
        let table = [
            ("roles", rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]})), ""),
            (
                "roles",
                rule(json!({"apiGroups": [""], "resources": ["pods"]})),
                "rules[0].verbs: Required value: verbs must contain at least one value",
            ),
            (
                "roles",
                rule(json!({"verbs": ["get"]})),
                "[rules[0].apiGroups: Required value: resource rules must supply at least one api group, \
                 rules[0].resources: Required value: resource rules must supply at least one resource]",
            ),
            (
                "roles",
                rule(json!({"verbs": ["get"], "nonResourceURLs": ["/x"]})),
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
            ),
            ("clusterroles", rule(json!({"verbs": ["get"], "nonResourceURLs": ["/x"]})), ""),
            (
                "clusterroles",
                rule(json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]})),
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs",
            ),
            (
                "clusterroles",
                json!({"aggregationRule": {"clusterRoleSelectors": []}}),
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            ),
        ];
        for (plural, object, expected) in table {
            assert_eq!(told(plural, object.clone()), expected, "{object}");
        }
    }

    #[test]
    fn a_binding_names_a_role_that_exists_for_its_scope_and_known_subjects() {
        let binding = |kind: &str, subject: Value| json!({"roleRef": {"kind": kind, "name": "r"}, "subjects": [subject]});
        let user = || json!({"kind": "User", "name": "jane"});
        let table = [
            ("rolebindings", binding("Role", user()), ""),
            ("rolebindings", binding("ClusterRole", json!({"kind": "ServiceAccount", "name": "a"})), ""),
            (
                "clusterrolebindings",
                binding("Role", user()),
                "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
            ),
            (
                "clusterrolebindings",
                binding("ClusterRole", json!({"kind": "ServiceAccount", "name": "a"})),
                "subjects[0].namespace: Required value",
            ),
            (
                "rolebindings",
                binding("Role", json!({"kind": "Robot", "name": "a"})),
                "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
            ),
            ("rolebindings", binding("Role", json!({"kind": "Group"})), "subjects[0].name: Required value"),
        ];
        for (plural, object, expected) in table {
            assert_eq!(told(plural, object.clone()), expected, "{object}");
        }
    }

    #[test]
    fn the_role_of_a_binding_cannot_be_exchanged() {
        let old = json!({"metadata": {"name": "b", "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"}});
        let mut new = old.clone();
        new["roleRef"]["name"] = json!("b");
        let outcome = prepare_update(resource("rolebindings"), &old, &mut new, &AdmissionRequest::default());
        assert_eq!(
            outcome.expect_err("refused").to_string(),
            "roleRef: Invalid value: {\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"Role\",\"name\":\"b\"}: cannot change roleRef"
        );
    }
}
