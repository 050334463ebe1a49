//! One rule of a role: what it allows, whether it covers another rule, and how messages show it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::authorize::{Attributes, Target};
use crate::object::list;

/// Most single permissions that the rules of one role may stand for, when it has to be checked whether somebody holds them all.
const BREAKDOWN: usize = 1 << 16;

/// What some verbs may do to some resources, or to some paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) urls: Vec<String>,
}

/// The rules of a role stand for too many single permissions to check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rules stand for more than {BREAKDOWN} single permissions; write several roles")]
pub(crate) struct TooManyPermissions;

fn texts(value: &Value, field: &str) -> Vec<String> {
    list(value, &[field]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|own| own == wanted)
}

fn has_all(list: &[String], wanted: &[String]) -> bool {
    wanted.iter().all(|one| has(list, one))
}

impl Rule {
    /// Reads a rule.
    pub(crate) fn read(value: &Value) -> Rule {
        Rule {
            verbs: texts(value, "verbs"),
            groups: texts(value, "apiGroups"),
            resources: texts(value, "resources"),
            names: texts(value, "resourceNames"),
            urls: texts(value, "nonResourceURLs"),
        }
    }

    /// The rules of a role.
    pub(crate) fn read_all(role: &Value) -> Vec<Rule> {
        list(role, &["rules"]).iter().map(Rule::read).collect()
    }

    /// The rule that allows everything to resources, and the one that allows every path.
    pub(crate) fn everything() -> [Rule; 2] {
        let all = || vec!["*".to_owned()];
        [
            Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() },
            Rule { verbs: all(), urls: all(), ..Rule::default() },
        ]
    }

    /// Whether the rule allows what is asked.
    pub(crate) fn allows(&self, asked: &Attributes<'_>) -> bool {
        if !has(&self.verbs, "*") && !has(&self.verbs, asked.verb) {
            return false;
        }
        match asked.target {
            Target::Path(path) => self.urls.iter().any(|url| covers_path(url, path)),
            Target::Resource { group, resource, subresource, name, .. } => {
                (has(&self.groups, "*") || has(&self.groups, group))
                    && self.resources.iter().any(|own| resource_matches(own, resource, subresource))
                    && (self.names.is_empty() || has(&self.names, name))
            }
        }
    }

    /// Whether whoever holds this rule holds all of `other`.
    fn covers(&self, other: &Rule) -> bool {
        let names = match (self.names.is_empty(), other.names.is_empty()) {
            (true, _) => true,
            (false, true) => false,
            (false, false) => has_all(&self.names, &other.names),
        };
        (has(&self.verbs, "*") || has_all(&self.verbs, &other.verbs))
            && (has(&self.groups, "*") || has_all(&self.groups, &other.groups))
            && other.resources.iter().all(|wanted| covers_resource(&self.resources, wanted))
            && names
            && other.urls.iter().all(|wanted| self.urls.iter().any(|own| covers_path(own, wanted)))
    }

    /// The rule as single permissions: one verb, one group, one resource, at most one name; or one verb and one path.
    fn break_down(&self) -> impl Iterator<Item = Rule> + '_ {
        let names: Vec<Vec<String>> = if self.names.is_empty() {
            vec![Vec::new()]
        } else {
            self.names.iter().map(|name| vec![name.clone()]).collect()
        };
        let one = |text: &String| vec![text.clone()];
        let resources = self.groups.iter().flat_map(move |group| {
            let names = names.clone();
            self.resources.iter().flat_map(move |resource| {
                let names = names.clone();
                self.verbs.iter().flat_map(move |verb| {
                    names.clone().into_iter().map(move |names| Rule {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        names,
                        urls: Vec::new(),
                    })
                })
            })
        });
        let urls = self.urls.iter().flat_map(move |url| {
            self.verbs.iter().map(move |verb| Rule { verbs: one(verb), urls: one(url), ..Rule::default() })
        });
        resources.chain(urls)
    }

    /// How many single permissions the rule stands for.
    fn weight(&self) -> usize {
        let resources = self
            .groups
            .len()
            .saturating_mul(self.resources.len())
            .saturating_mul(self.names.len().max(1))
            .saturating_mul(self.verbs.len());
        resources.saturating_add(self.urls.len().saturating_mul(self.verbs.len()))
    }

    /// The rule as messages show it: `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`.
    pub(crate) fn compact(&self) -> String {
        let quoted =
            |items: &[String]| items.iter().map(|item| schema::go_quote(item)).collect::<Vec<_>>().join(" ");
        let parts: Vec<String> = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.urls),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ]
        .into_iter()
        .filter(|(_, items)| !items.is_empty())
        .map(|(label, items)| format!("{label}:[{}]", quoted(items)))
        .collect();
        format!("{{{}}}", parts.join(", "))
    }

    /// The rule as a `ResourceRule` or `NonResourceRule` of a rules review.
    pub(crate) fn shown(&self) -> Value {
        if !self.urls.is_empty() {
            return json!({"verbs": self.verbs, "nonResourceURLs": self.urls});
        }
        let mut shown = json!({"verbs": self.verbs});
        for (field, items) in
            [("apiGroups", &self.groups), ("resources", &self.resources), ("resourceNames", &self.names)]
        {
            if !items.is_empty() {
                shown[field] = json!(items);
            }
        }
        shown
    }
}

/// Whether a path of a rule (`/x`, `/x/*`, `*`) reaches a path.
fn covers_path(own: &str, wanted: &str) -> bool {
    own == wanted || own == "*" || own.strip_suffix('*').is_some_and(|start| wanted.starts_with(start))
}

/// Whether a resource of a rule (`pods`, `pods/log`, `*/scale`, `*`) is the one asked for.
fn resource_matches(own: &str, resource: &str, subresource: &str) -> bool {
    if own == "*" {
        return true;
    }
    if subresource.is_empty() {
        return own == resource;
    }
    own.split_once('/').is_some_and(|(left, right)| right == subresource && (left == resource || left == "*"))
}

fn covers_resource(own: &[String], wanted: &str) -> bool {
    let by_subresource =
        || wanted.split_once('/').is_some_and(|(_, subresource)| has(own, &format!("*/{subresource}")));
    has(own, "*") || has(own, wanted) || by_subresource()
}

/// What of `wanted` the holder of `held` does not hold, as messages show it, each once and sorted. Empty: everything is held.
pub(crate) fn missing(held: &[Rule], wanted: &[Rule]) -> Result<Vec<String>, TooManyPermissions> {
    let weight = wanted.iter().map(Rule::weight).fold(0usize, usize::saturating_add);
    if weight > BREAKDOWN {
        return Err(TooManyPermissions);
    }
    let mut lacking: Vec<Rule> = Vec::new();
    for single in wanted.iter().flat_map(Rule::break_down) {
        if held.iter().any(|own| own.covers(&single)) {
            continue;
        }
        // Verbs of one resource are shown together.
        let same = |other: &&mut Rule| {
            other.groups == single.groups
                && other.resources == single.resources
                && other.names == single.names
                && other.urls.is_empty()
                && single.urls.is_empty()
        };
        match lacking.iter_mut().rev().find(same) {
            Some(known) if has(&known.verbs, &single.verbs[0]) => {}
            Some(known) => known.verbs.extend(single.verbs),
            None => lacking.push(single),
        }
    }
    Ok(lacking.iter().map(Rule::compact).collect::<BTreeSet<_>>().into_iter().collect())
}

/// Whether `held` covers all of `wanted`; what is too large to check is not covered.
pub(crate) fn covers_all(held: &[Rule], wanted: &[Rule]) -> bool {
    missing(held, wanted).is_ok_and(|missing| missing.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Rule, missing};
    use crate::authorize::Attributes;

    fn rule(value: Value) -> Rule {
        Rule::read(&value)
    }

    #[test]
    fn a_rule_allows_what_upstreams_matching_allows() {
        let pods = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]});
        let named =
            json!({"verbs": ["get"], "apiGroups": ["*"], "resources": ["secrets"], "resourceNames": ["a"]});
        let scale = json!({"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*/scale"]});
        let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        // Rule, verb, group, resource, subresource, name, allowed.
        let table = [
            (&pods, "get", "", "pods", "", "p", true),
            (&pods, "get", "", "pods", "log", "p", true),
            (&pods, "get", "", "pods", "exec", "p", false),
            (&pods, "delete", "", "pods", "", "p", false),
            (&pods, "get", "metrics.k8s.io", "pods", "", "p", false),
            (&named, "get", "", "secrets", "", "a", true),
            (&named, "get", "", "secrets", "", "b", false),
            (&named, "get", "", "secrets", "", "", false),
            (&scale, "patch", "apps", "deployments", "scale", "d", true),
            (&scale, "patch", "apps", "deployments", "", "d", false),
            (&scale, "patch", "apps", "deployments", "status", "d", false),
            (&all, "escalate", "x", "anything", "at-all", "n", true),
        ];
        for (value, verb, group, resource, subresource, name, allowed) in table {
            let asked = Attributes::resource(verb, group, resource).sub(subresource).named(name);
            assert_eq!(rule(value.clone()).allows(&asked), allowed, "{value} {asked:?}");
        }
        let paths = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/version", "/apis/*"]}));
        for (verb, path, allowed) in [
            ("get", "/version", true),
            ("post", "/version", false),
            ("get", "/version/", false),
            ("get", "/apis/apps", true),
            ("get", "/apis", false),
        ] {
            assert_eq!(paths.allows(&Attributes::path(verb, path)), allowed, "{verb} {path}");
        }
        assert!(!paths.allows(&Attributes::resource("get", "", "pods")), "paths are no resources");
    }

    #[test]
    fn what_is_missing_is_told_as_upstream_tells_it() {
        let held = [
            rule(json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]})),
            rule(json!({"verbs": ["get"], "nonResourceURLs": ["/logs/*"]})),
        ];
        let table: [(Value, &[&str]); 7] = [
            (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), &[]),
            (
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]}),
                &[],
            ),
            (json!({"verbs": ["list"], "apiGroups": [""], "resources": ["things/scale"]}), &[]),
            (json!({"verbs": ["get"], "nonResourceURLs": ["/logs/a"]}), &[]),
            (
                json!({"verbs": ["get", "watch", "delete"], "apiGroups": [""], "resources": ["pods", "secrets"]}),
                &[
                    r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch" "delete"]}"#,
                    r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "watch" "delete"]}"#,
                ],
            ),
            (
                json!({"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}),
                &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#],
            ),
            (
                json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]}),
                &[r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#],
            ),
        ];
        for (wanted, expected) in table {
            assert_eq!(missing(&held, &[rule(wanted.clone())]).expect("small"), expected, "{wanted}");
        }
    }

    #[test]
    fn rules_that_stand_for_millions_of_permissions_are_not_counted_out() {
        let many: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
        let huge = rule(json!({"verbs": many, "apiGroups": many, "resources": many, "resourceNames": many}));
        missing(&[], &[huge]).expect_err("too many");
    }
}
