//! What `coracle run` will create, in which order, and what it refuses before anything starts. Pure.

use std::collections::BTreeSet;

use super::roots::RootKind;
use crate::input::{Input, InputObject};

/// What others need comes first, in this order.
const FIRST: [&str; 17] = [
    "Namespace",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
    "LimitRange",
    "ResourceQuota",
    "ClusterRole",
    "Role",
    "ServiceAccount",
    "ClusterRoleBinding",
    "RoleBinding",
    "ConfigMap",
    "Secret",
    "PersistentVolume",
    "PersistentVolumeClaim",
    // A pod has the variables of the services that are there when it starts.
    "Service",
    "EndpointSlice",
];

/// What runs comes last, in this order.
const RUNNING: [(&str, RootKind); 8] = [
    ("Pod", RootKind::Pod),
    ("ReplicationController", RootKind::GoesOn),
    ("ReplicaSet", RootKind::GoesOn),
    ("Deployment", RootKind::GoesOn),
    ("StatefulSet", RootKind::GoesOn),
    ("DaemonSet", RootKind::GoesOn),
    // They often use what the others serve.
    ("Job", RootKind::Job),
    ("CronJob", RootKind::GoesOn),
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
    /// How it runs, if it does.
    pub(crate) runs: Option<RootKind>,
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
        match resource(object) {
            Some(resource) if !is_refused(object) => ranked.push((rank(&object.kind), index, resource)),
            Some(_) | None => refusals.push(refusal(input, object)),
        }
    }
    if refusals.is_empty() && !ranked.iter().any(|(_, index, _)| runs(&input.objects[*index].kind).is_some())
    {
        refusals.push(Refusal {
            place: input.files.first().map(|file| file.name.clone()).unwrap_or_default(),
            problem: "there is no pod in the input, and nothing that makes pods, so there is nothing to run".to_owned(),
            hint: "add a Pod, a Job or a Deployment, or use a node that stays (`coracle up`) and kubectl for the rest"
                .to_owned(),
        });
    }
    if !refusals.is_empty() {
        return Err(refusals);
    }
    ranked.sort_by_key(|(rank, index, _)| (*rank, *index));
    let mut plan = Plan::default();
    let mut declared =
        BTreeSet::from(["default", "kube-system", "kube-public", "kube-node-lease"].map(str::to_owned));
    for (_, index, resource) in ranked {
        let object = &input.objects[index];
        let namespace = resource
            .namespaced
            .then(|| object.namespace.clone().unwrap_or_else(|| default_namespace.to_owned()));
        if object.kind == "Namespace" {
            declared.insert(object.name.clone());
        }
        if let Some(namespace) = namespace.as_ref().filter(|namespace| !declared.contains(*namespace)) {
            plan.missing_namespaces.insert(namespace.clone());
        }
        let root = if resource.group.is_empty() { "api" } else { "apis" };
        let (version, plural) = (resource.group_version, resource.plural);
        let collection = match &namespace {
            Some(namespace) => format!("/{root}/{version}/namespaces/{}/{plural}", path_segment(namespace)),
            None => format!("/{root}/{version}/{plural}"),
        };
        plan.objects.push(Planned { object: index, collection, namespace, runs: runs(&object.kind) });
    }
    Ok(plan)
}

/// The collection of an object, if the API keeps such objects.
fn resource(object: &InputObject) -> Option<&'static schema::Resource> {
    schema::resources().iter().find(|resource| {
        let is_it = resource.group_version == object.api_version && resource.kind == object.kind;
        is_it && resource.verbs.contains(&"create") && resource.verbs.contains(&"get")
    })
}

fn runs(kind: &str) -> Option<RootKind> {
    RUNNING.iter().find(|(running, _)| *running == kind).map(|(_, how)| *how)
}

fn rank(kind: &str) -> usize {
    let first = FIRST.iter().position(|first| *first == kind);
    let running = || {
        let place = RUNNING.iter().position(|(running, _)| *running == kind)?;
        Some(FIRST.len() + 1 + place)
    };
    first.or_else(running).unwrap_or(FIRST.len())
}

/// Kinds that the API knows and that nothing here will ever act on.
fn is_refused(object: &InputObject) -> bool {
    object.kind == "HorizontalPodAutoscaler"
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
    if is_refused(object) && resource(object).is_some() {
        return Refusal {
            place,
            problem: format!(
                "{kind} {}: nothing here measures what pods use, so nothing would ever be scaled",
                object.name
            ),
            hint: "leave it out, and give what it would scale the number of replicas that you want"
                .to_owned(),
        };
    }
    if schema::builtin().type_for(group_version, kind).is_some() {
        return Refusal {
            place,
            problem: format!("{kind} {}: the API answers such objects and keeps none", object.name),
            hint: "leave it out".to_owned(),
        };
    }
    let near = schema::resources().iter().find(|known| {
        let is_kept = known.verbs.contains(&"create") && known.verbs.contains(&"get");
        is_kept && is_near(known.kind, kind)
    });
    Refusal {
        place,
        problem: format!("no kind \"{kind}\" is known in version \"{group_version}\""),
        hint: match near {
            Some(known) => format!("did you mean {} (apiVersion {})?", known.kind, known.group_version),
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
    fn every_kind_that_is_not_known_or_never_acted_on_is_named_at_once() {
        let refused = check("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\n---\napiVersion: v1\nkind: pod\n---\nkind: Pod\n---\napiVersion: v1\nkind: Deployment\n---\napiVersion: authentication.k8s.io/v1\nkind: TokenReview\nmetadata: {name: t}\n").unwrap_err();
        let problems = refused.iter().map(|each| each.problem.as_str()).collect::<Vec<_>>();
        assert_eq!(
            problems,
            [
                "HorizontalPodAutoscaler h: nothing here measures what pods use, so nothing would ever be scaled",
                "no kind \"pod\" is known in version \"v1\"",
                "Pod has no apiVersion",
                "no kind \"Deployment\" is known in version \"v1\"",
                "TokenReview t: the API answers such objects and keeps none",
            ]
        );
        assert_eq!(refused[1].hint, "did you mean Pod (apiVersion v1)?");
        assert_eq!(refused[3].hint, "did you mean Deployment (apiVersion apps/v1)?");
        let nothing = check("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n").unwrap_err();
        assert!(nothing[0].problem.starts_with("there is no pod in the input"), "{nothing:?}");
    }

    #[test]
    fn what_others_need_is_created_before_what_runs() {
        let one = |version: &str, kind: &str| {
            format!("apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}\n---\n")
        };
        let text: String = [
            ("batch/v1", "CronJob"),
            ("apps/v1", "Deployment"),
            ("networking.k8s.io/v1", "NetworkPolicy"),
            ("v1", "PersistentVolumeClaim"),
            ("rbac.authorization.k8s.io/v1", "RoleBinding"),
            ("v1", "Service"),
            ("rbac.authorization.k8s.io/v1", "ClusterRole"),
            ("batch/v1", "Job"),
        ]
        .map(|(version, kind)| one(version, kind))
        .concat();
        let plan = check(&text).unwrap();
        assert_eq!(plan.objects.iter().map(|each| each.object).collect::<Vec<_>>(), [6, 4, 3, 5, 2, 1, 7, 0]);
        assert_eq!(plan.objects[0].collection, "/apis/rbac.authorization.k8s.io/v1/clusterroles");
        assert_eq!(plan.objects[5].collection, "/apis/apps/v1/namespaces/default/deployments");
        let runs: Vec<_> = plan.objects.iter().filter_map(|each| each.runs).collect();
        assert_eq!(runs, [RootKind::GoesOn, RootKind::Job, RootKind::GoesOn]);
    }

    #[test]
    fn a_namespace_cannot_lead_to_another_path() {
        let plan = check("apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: \"a/../b\"}\n").unwrap();
        assert_eq!(plan.objects[0].collection, "/api/v1/namespaces/a%2F..%2Fb/pods");
    }
}
