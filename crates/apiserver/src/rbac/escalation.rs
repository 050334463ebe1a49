//! Nobody grants what he does not have: checked whenever a role or a binding is written, unless its writer may `escalate` or `bind`.

use serde_json::Value;

use super::index::RoleRef;
use super::rule::{Rule, covers_all, missing};
use super::{GROUP, RoleIndex};
use crate::authorize::{self, Attributes};
use crate::identity::{Identity, MASTERS};
use crate::object;
use crate::status::ApiError;
use crate::writing::Write;

/// Whether an update changes nothing but what garbage collection needs.
fn only_for_collection(old: &Value, new: &Value) -> bool {
    let stripped = |value: &Value| {
        let mut value = value.clone();
        for field in ["ownerReferences", "finalizers", "resourceVersion", "managedFields"] {
            object::set_metadata(&mut value, field, None);
        }
        value
    };
    stripped(old) == stripped(new)
}

/// Checks who writes a Role or ClusterRole.
pub(crate) fn check_role(write: &Write<'_>, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
    if write.identity.is_in(MASTERS) {
        return Ok(());
    }
    if let Some(old) = old
        && (only_for_collection(old, new)
            || (old["rules"] == new["rules"] && old["aggregationRule"] == new["aggregationRule"]))
    {
        return Ok(());
    }
    let name = object::name(new);
    let asked =
        Attributes::resource("escalate", GROUP, write.kind.plural()).within(write.namespace).named(name);
    if authorize::may(write.server, write.identity, &asked) {
        return Ok(());
    }
    let held = write.server.roles.read(|index| held(index, write.identity, write.namespace));
    let gathers = |role: &Value| role["aggregationRule"].is_object();
    if (gathers(new) || old.is_some_and(gathers)) && !covers_all(&held.0, &Rule::everything()) {
        return Err(ApiError::forbidden(
            write.kind,
            name,
            "must have cluster-admin privileges to use the aggregationRule",
        ));
    }
    confirm(write, name, &held, &Rule::read_all(new))
}

/// Checks who writes a RoleBinding or ClusterRoleBinding.
pub(crate) fn check_binding(write: &Write<'_>, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
    if write.identity.is_in(MASTERS) || old.is_some_and(|old| only_for_collection(old, new)) {
        return Ok(());
    }
    let role = RoleRef::of(new, write.namespace);
    let asked =
        Attributes::resource("bind", GROUP, role.resource()).within(write.namespace).named(role.name());
    if authorize::may(write.server, write.identity, &asked) {
        return Ok(());
    }
    let (held, rules) = write.server.roles.read(|index| {
        (held(index, write.identity, write.namespace), index.role(&role).map(<[Rule]>::to_vec))
    });
    let Some(rules) = rules else {
        return Err(ApiError::NotFound {
            group: GROUP.to_owned(),
            resource: role.resource().to_owned(),
            name: role.name().to_owned(),
        });
    };
    confirm(write, object::name(new), &held, &rules)
}

/// The rules that somebody holds in a namespace, and which of his roles are missing.
type Held = (Vec<Rule>, Vec<String>);

fn held(index: &RoleIndex, identity: &Identity, namespace: &str) -> Held {
    index.rules(identity.name(), identity.groups(), namespace)
}

fn confirm(write: &Write<'_>, name: &str, (held, errors): &Held, rules: &[Rule]) -> Result<(), ApiError> {
    let lacking =
        missing(held, rules).map_err(|error| ApiError::forbidden(write.kind, name, error.to_string()))?;
    if lacking.is_empty() {
        return Ok(());
    }
    let groups: Vec<String> = write.identity.groups().iter().map(|group| schema::go_quote(group)).collect();
    let mut detail = format!(
        "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        schema::go_quote(write.identity.name()),
        groups.join(" "),
        lacking.join("\n")
    );
    if !errors.is_empty() {
        detail.push_str(&format!("; resolution errors: [{}]", errors.join(", ")));
    }
    Err(ApiError::forbidden(write.kind, name, detail))
}
