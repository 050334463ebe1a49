//! Roles and bindings, indexed by whom they concern. Pure: fed with objects, asked for decisions.

use std::collections::HashMap;

use serde_json::Value;

use super::rule::Rule;
use crate::authorize::{Attributes, Target};
use crate::object::{list, text};

/// A namespace (empty: none, of the whole cluster) and a name.
type Place = (String, String);

/// Which role a binding refers to: its namespace (empty for a ClusterRole) and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RoleRef {
    namespace: String,
    name: String,
}

impl RoleRef {
    /// The role of a binding in `namespace` (empty for a ClusterRoleBinding).
    pub(crate) fn of(binding: &Value, namespace: &str) -> RoleRef {
        let is_local = text(binding, &["roleRef", "kind"]) == "Role";
        RoleRef {
            namespace: if is_local { namespace.to_owned() } else { String::new() },
            name: text(binding, &["roleRef", "name"]).to_owned(),
        }
    }

    /// The resource of the role.
    pub(crate) fn resource(&self) -> &'static str {
        if self.namespace.is_empty() { "clusterroles" } else { "roles" }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        if self.namespace.is_empty() { "ClusterRole" } else { "Role" }
    }

    /// What upstream says about a role that does not exist.
    pub(crate) fn not_found(&self) -> String {
        let kind = self.kind().to_lowercase();
        format!("{kind}.rbac.authorization.k8s.io {} not found", schema::go_quote(&self.name))
    }
}

/// What one subject got by one binding.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    /// The namespace in which it counts; empty: everywhere.
    scope: String,
    binding: String,
    role: RoleRef,
    /// `User "jane"`.
    subject: String,
}

impl Grant {
    /// Why something is allowed, in upstream's words.
    pub(crate) fn reason(&self) -> String {
        let (kind, place) = match self.scope.as_str() {
            "" => ("ClusterRoleBinding", self.binding.clone()),
            scope => ("RoleBinding", format!("{}/{scope}", self.binding)),
        };
        format!(
            "RBAC: allowed by {kind} {} of {} {} to {}",
            schema::go_quote(&place),
            self.role.kind(),
            schema::go_quote(&self.role.name),
            self.subject
        )
    }
}

/// Who or which group a binding names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    User(String),
    Group(String),
}

/// The grants of one subject by where they count; empty: everywhere.
type Scopes = HashMap<String, Vec<Grant>>;

/// Every role and binding.
#[derive(Debug, Default)]
pub(crate) struct RoleIndex {
    roles: HashMap<RoleRef, Vec<Rule>>,
    bindings: HashMap<Place, Vec<Subject>>,
    users: HashMap<String, Scopes>,
    groups: HashMap<String, Scopes>,
}

impl RoleIndex {
    /// Notes a role of `namespace` (empty for a ClusterRole), or with `None` that it is gone.
    pub(crate) fn set_role(&mut self, namespace: &str, name: &str, role: Option<&Value>) {
        let place = RoleRef { namespace: namespace.to_owned(), name: name.to_owned() };
        match role {
            Some(role) => self.roles.insert(place, Rule::read_all(role)),
            None => self.roles.remove(&place),
        };
    }

    /// Notes a binding of `namespace` (empty for a ClusterRoleBinding), or with `None` that it is gone.
    pub(crate) fn set_binding(&mut self, namespace: &str, name: &str, binding: Option<&Value>) {
        let place = (namespace.to_owned(), name.to_owned());
        for subject in self.bindings.remove(&place).unwrap_or_default() {
            let (grants, key) = self.grants_mut(&subject);
            let Some(scopes) = grants.get_mut(key) else { continue };
            if let Some(list) = scopes.get_mut(namespace) {
                list.retain(|grant| grant.binding != name);
                if list.is_empty() {
                    scopes.remove(namespace);
                }
            }
            if scopes.is_empty() {
                grants.remove(key);
            }
        }
        let Some(binding) = binding else { return };
        let role = RoleRef::of(binding, namespace);
        let mut subjects: Vec<Subject> = Vec::new();
        for told in list(binding, &["subjects"]) {
            let Some((subject, shown)) = read_subject(told, namespace) else { continue };
            if subjects.contains(&subject) {
                continue;
            }
            let grant = Grant {
                scope: namespace.to_owned(),
                binding: name.to_owned(),
                role: role.clone(),
                subject: shown,
            };
            let (grants, key) = self.grants_mut(&subject);
            let scopes = grants.entry(key.clone()).or_default();
            scopes.entry(namespace.to_owned()).or_default().push(grant);
            subjects.push(subject);
        }
        self.bindings.insert(place, subjects);
    }

    fn grants_mut<'s, 'k>(
        &'s mut self,
        subject: &'k Subject,
    ) -> (&'s mut HashMap<String, Scopes>, &'k String) {
        match subject {
            Subject::User(name) => (&mut self.users, name),
            Subject::Group(name) => (&mut self.groups, name),
        }
    }

    /// What a user has everywhere (an empty scope) or in one namespace.
    fn scoped<'s>(
        &'s self,
        user: &str,
        groups: &'s [String],
        scope: &'s str,
    ) -> impl Iterator<Item = &'s Grant> {
        let own = self.users.get(user).into_iter();
        let all = own.chain(groups.iter().filter_map(|group| self.groups.get(group)));
        all.filter_map(move |scopes| scopes.get(scope)).flatten()
    }

    /// What a user has everywhere or in `namespace`: what counts everywhere first.
    fn grants<'s>(
        &'s self,
        user: &str,
        groups: &'s [String],
        namespace: &'s str,
    ) -> impl Iterator<Item = &'s Grant> {
        let local = (!namespace.is_empty()).then(|| self.scoped(user, groups, namespace));
        self.scoped(user, groups, "").chain(local.into_iter().flatten())
    }

    /// The first grant that allows what is asked.
    pub(crate) fn find<'s>(
        &'s self,
        user: &str,
        groups: &'s [String],
        asked: &Attributes<'s>,
    ) -> Option<&'s Grant> {
        let namespace = match asked.target {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        };
        self.grants(user, groups, namespace).find(|grant| {
            self.roles.get(&grant.role).is_some_and(|rules| rules.iter().any(|rule| rule.allows(asked)))
        })
    }

    /// The rules that a user has in `namespace` (empty: in the whole cluster), and the roles that bindings name but that are not
    /// there, in upstream's words.
    pub(crate) fn rules(&self, user: &str, groups: &[String], namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for grant in self.grants(user, groups, namespace) {
            match self.roles.get(&grant.role) {
                Some(found) => rules.extend(found.iter().cloned()),
                None => errors.push(grant.role.not_found()),
            }
        }
        errors.sort();
        errors.dedup();
        (rules, errors)
    }

    /// What is wrong with a user's bindings where their roles are missing: `RBAC: ...`; empty otherwise.
    pub(crate) fn trouble(&self, user: &str, groups: &[String], namespace: &str) -> String {
        let mut errors: Vec<String> = self
            .grants(user, groups, namespace)
            .filter(|grant| !self.roles.contains_key(&grant.role))
            .map(|grant| grant.role.not_found())
            .collect();
        errors.sort();
        errors.dedup();
        match errors.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            several => format!("RBAC: [{}]", several.join(", ")),
        }
    }

    /// The rules of a role.
    pub(crate) fn role(&self, role: &RoleRef) -> Option<&[Rule]> {
        self.roles.get(role).map(Vec::as_slice)
    }
}

fn read_subject(subject: &Value, namespace: &str) -> Option<(Subject, String)> {
    let name = text(subject, &["name"]);
    let shown = |kind: &str, name: &str| format!("{kind} {}", schema::go_quote(name));
    match text(subject, &["kind"]) {
        "User" => Some((Subject::User(name.to_owned()), shown("User", name))),
        "Group" => Some((Subject::Group(name.to_owned()), shown("Group", name))),
        "ServiceAccount" => {
            let told = text(subject, &["namespace"]);
            let namespace = if told.is_empty() { namespace } else { told };
            if namespace.is_empty() {
                return None;
            }
            let user = crate::identity::service_account_user(namespace, name);
            Some((Subject::User(user), shown("ServiceAccount", &format!("{name}/{namespace}"))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::RoleIndex;
    use crate::authorize::Attributes;

    fn role(resources: &[&str], verbs: &[&str]) -> Value {
        json!({"rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}]})
    }

    fn binding(kind: &str, role: &str, subjects: Value) -> Value {
        json!({"roleRef": {"apiGroup": super::super::GROUP, "kind": kind, "name": role}, "subjects": subjects})
    }

    fn index() -> RoleIndex {
        let mut index = RoleIndex::default();
        index.set_role("", "reader", Some(&role(&["pods"], &["get", "list"])));
        index.set_role("a", "writer", Some(&role(&["pods"], &["create"])));
        index.set_role("", "paths", Some(&json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]})));
        let jane = json!([{"kind": "User", "name": "jane"}]);
        index.set_binding(
            "",
            "everywhere",
            Some(&binding("ClusterRole", "reader", json!([{"kind": "Group", "name": "ops"}]))),
        );
        index.set_binding("a", "reads", Some(&binding("ClusterRole", "reader", jane.clone())));
        index.set_binding(
            "a",
            "writes",
            Some(&binding("Role", "writer", json!([{"kind": "ServiceAccount", "name": "bot"}]))),
        );
        index.set_binding("a", "paths", Some(&binding("ClusterRole", "paths", jane.clone())));
        index.set_binding("b", "lost", Some(&binding("Role", "nowhere", jane)));
        index
    }

    #[test]
    fn bindings_count_where_they_are_and_for_whom_they_name() {
        let index = index();
        // User, group, verb, namespace, allowed.
        let table = [
            ("jane", "", "get", "a", true),
            ("jane", "", "get", "b", false),
            ("jane", "", "get", "", false),
            ("jane", "", "create", "a", false),
            ("joe", "ops", "list", "b", true),
            ("joe", "ops", "list", "", true),
            ("joe", "", "list", "b", false),
            ("ops", "", "list", "b", false),
            ("system:serviceaccount:a:bot", "", "create", "a", true),
            ("system:serviceaccount:b:bot", "", "create", "a", false),
            ("system:serviceaccount:a:bot", "", "create", "b", false),
        ];
        for (user, group, verb, namespace, allowed) in table {
            let asked = Attributes::resource(verb, "", "pods").within(namespace);
            let found = index.find(user, &[group.to_owned()], &asked).is_some();
            assert_eq!(found, allowed, "{user} {group} {verb} {namespace}");
        }
        assert!(
            index.find("jane", &[], &Attributes::path("get", "/x")).is_none(),
            "a path is in no namespace"
        );
    }

    #[test]
    fn the_reason_names_binding_role_and_subject() {
        let index = index();
        let pods = |verb| Attributes::resource(verb, "", "pods").within("a");
        let reason = |user: &str, groups: &[String], verb| {
            index.find(user, groups, &pods(verb)).map(super::Grant::reason).unwrap_or_default()
        };
        assert_eq!(
            reason("jane", &[], "get"),
            r#"RBAC: allowed by RoleBinding "reads/a" of ClusterRole "reader" to User "jane""#
        );
        assert_eq!(
            reason("joe", &["ops".to_owned()], "get"),
            r#"RBAC: allowed by ClusterRoleBinding "everywhere" of ClusterRole "reader" to Group "ops""#
        );
        assert_eq!(
            reason("system:serviceaccount:a:bot", &[], "create"),
            r#"RBAC: allowed by RoleBinding "writes/a" of Role "writer" to ServiceAccount "bot/a""#
        );
        assert_eq!(
            index.trouble("jane", &[], "b"),
            r#"RBAC: role.rbac.authorization.k8s.io "nowhere" not found"#
        );
    }

    #[test]
    fn what_is_taken_away_is_gone() {
        let mut index = index();
        let asked = Attributes::resource("get", "", "pods").within("a");
        assert!(index.find("jane", &[], &asked).is_some());
        index.set_binding("a", "reads", Some(&binding("ClusterRole", "reader", json!([]))));
        assert!(index.find("jane", &[], &asked).is_none());
        let group = ["ops".to_owned()];
        assert!(index.find("joe", &group, &asked).is_some());
        index.set_role("", "reader", None);
        assert!(index.find("joe", &group, &asked).is_none());
        assert_eq!(
            index.trouble("joe", &group, ""),
            r#"RBAC: clusterrole.rbac.authorization.k8s.io "reader" not found"#
        );
        index.set_binding("", "everywhere", None);
        assert_eq!(index.trouble("joe", &group, ""), "");
    }
}
