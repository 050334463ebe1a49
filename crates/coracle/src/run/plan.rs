//! What `coracle run` will create, in which order, and what it refuses before anything starts. Pure.

use std::collections::BTreeSet;

use crate::input::{Input, InputObject};

/// The kinds that a throwaway node creates, in the order in which it creates them.
const RUNNABLE: [(&str, &str, bool); 6] = [
    ("Namespace", "namespaces", false),
    ("ServiceAccount", "serviceaccounts", true),
    ("ConfigMap", "configmaps", true),
    ("Secret", "secrets", true),
    ("Service", "services", true),
    ("Pod", "pods", true),
];

/// An object to be created.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    /// Index in [`Input::objects`].
    pub(crate) object: usize,
    /// Path of its collection, such as `/api/v1/namespaces/default/pods`.
    pub(crate) collection: String,
    /// Its namespace; none for cluster-wide kinds.
    pub(crate) namespace: Option<String>,
}

/// Everything that is to be created.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Plan {
    /// Namespaces that objects use and that the input does not hold.
    pub(crate) missing_namespaces: BTreeSet<String>,
    /// The objects; kinds in order, within a kind as in the input.
    pub(crate) objects: Vec<Planned>,
}

/// Why an object of the input cannot be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// `file:line:column`.
    pub(crate) place: String,
    /// What is wrong.
    pub(crate) problem: String,
    /// What to do.
    pub(crate) hint: String,
}

/// Plans the creation of everything in the input.
///
/// # Errors
///
/// Every object that nothing runs, in the order of the input.
pub(crate) fn plan(input: &Input, default_namespace: &str) -> Result<Plan, Vec<Refusal>> {
    let mut refusals = Vec::new();
    let mut ranked = Vec::new();
    for (index, object) in input.objects.iter().enumerate() {
        match rank(object) {
            Some(rank) => ranked.push((rank, index)),
            None => refusals.push(refusal(input, object)),
        }
    }
    if !input.objects.iter().any(|object| object.kind == "Pod") && refusals.is_empty() {
        refusals.push(Refusal {
            place: input.files.first().map(|file| file.name.clone()).unwrap_or_default(),
            problem: "there is no pod in the input, so there is nothing to run".to_owned(),
            hint: "add a Pod, or use a node that stays (`coracle up`) and kubectl for the rest".to_owned(),
        });
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    ranked.sort_unstable();
    let mut plan = Plan::default();
    let mut declared =
        BTreeSet::from(["default", "kube-system", "kube-public", "kube-node-lease"].map(str::to_owned));
    for (rank, index) in ranked {
        let (kind, plural, is_namespaced) = RUNNABLE[rank];
        let object = &input.objects[index];
        let namespace =
            is_namespaced.then(|| object.namespace.clone().unwrap_or_else(|| default_namespace.to_owned()));
        if kind == "Namespace" {
            declared.insert(object.name.clone());
        }
        if let Some(namespace) = namespace.as_ref().filter(|namespace| !declared.contains(*namespace)) {
            plan.missing_namespaces.insert(namespace.clone());
        }
        let collection = match &namespace {
            Some(namespace) => format!("/api/v1/namespaces/{}/{plural}", path_segment(namespace)),
            None => format!("/api/v1/{plural}"),
        };
        plan.objects.push(Planned { object: index, collection, namespace });
    }
    Ok(plan)
}

/// A namespace that is no name must not become another path; the API refuses it by its own rules.
fn path_segment(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}

fn rank(object: &InputObject) -> Option<usize> {
    (object.api_version == "v1")
        .then(|| RUNNABLE.iter().position(|(kind, ..)| *kind == object.kind))
        .flatten()
}

fn refusal(input: &Input, object: &InputObject) -> Refusal {
    let place = input.place(object, "kind");
    let group_version = &object.api_version;
    let kind = &object.kind;
    if group_version.is_empty() {
        return Refusal {
            place,
            problem: format!("{kind} has no apiVersion"),
            hint: "add `apiVersion: v1`, or the group and version of the kind".to_owned(),
        };
    }
    if schema::builtin().type_for(group_version, kind).is_some() {
        let templated = matches!(
            kind.as_str(),
            "Deployment"
                | "ReplicaSet"
                | "StatefulSet"
                | "DaemonSet"
                | "Job"
                | "CronJob"
                | "ReplicationController"
        );
        return Refusal {
            place,
            problem: format!("{kind} {}: nothing here runs this kind yet", object.name),
            hint: if templated {
                "give its pod template as a Pod; `coracle env -f` explains it as it is".to_owned()
            } else {
                "leave it out; a throwaway node knows Namespace, ServiceAccount, ConfigMap, Secret, Service and Pod".to_owned()
            },
        };
    }
    let near = RUNNABLE.iter().map(|(kind, ..)| *kind).find(|known| is_near(known, kind));
    Refusal {
        place,
        problem: format!("no kind \"{kind}\" is known in version \"{group_version}\""),
        hint: match near {
            Some(known) => format!("did you mean {known} (apiVersion v1)?"),
            None => "check kind and apiVersion".to_owned(),
        },
    }
}

/// Whether the words differ by case or by one letter.
fn is_near(known: &str, written: &str) -> bool {
    if known.eq_ignore_ascii_case(written) {
        return true;
    }
    let (known, written) = (known.as_bytes(), written.as_bytes());
    let ahead = known.iter().zip(written).take_while(|(a, b)| a == b).count();
    let behind =
        known[ahead..].iter().rev().zip(written[ahead..].iter().rev()).take_while(|(a, b)| a == b).count();
    known.len() - ahead - behind <= 1 && written.len() - ahead - behind <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<Plan, Vec<Refusal>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f.yaml");
        std::fs::write(&path, text).unwrap();
        plan(&Input::read(&[path]).unwrap_or_else(|error| panic!("{error}")), "default")
    }

    #[test]
    fn kinds_are_created_in_the_order_in_which_they_are_needed() {
        let plan = check("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n").unwrap();
        assert_eq!(plan.objects.iter().map(|each| each.object).collect::<Vec<_>>(), [2, 1, 0]);
        assert_eq!(plan.objects[2].collection, "/api/v1/namespaces/shop/pods");
        assert_eq!(plan.missing_namespaces, BTreeSet::from(["shop".to_owned()]));
    }

    #[test]
    fn every_kind_that_nothing_runs_is_named_at_once() {
        let refused = check("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n---\napiVersion: v1\nkind: pod\n---\nkind: Pod\n").unwrap_err();
        let problems = refused.iter().map(|each| each.problem.as_str()).collect::<Vec<_>>();
        assert_eq!(
            problems,
            [
                "Deployment d: nothing here runs this kind yet",
                "no kind \"pod\" is known in version \"v1\"",
                "Pod has no apiVersion"
            ]
        );
        assert_eq!(refused[1].hint, "did you mean Pod (apiVersion v1)?");
    }

    #[test]
    fn a_namespace_cannot_lead_to_another_path() {
        let plan = check("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: \"a/../b\"}\n").unwrap();
        assert_eq!(plan.objects[0].collection, "/api/v1/namespaces/a%2F..%2Fb/pods");
    }
}
