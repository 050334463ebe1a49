//! What a namespace that ends takes along, what keeps it, and what it says of that. Pure.
//!
//! Source of the conditions: `NamespaceConditionType` of the API, and what Kubernetes' namespace controller writes into them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::discovery::ApiResource;
use kube::core::discovery::v2::{APIGroupDiscoveryList, APIResourceDiscovery};

/// What keeps a namespace until it is empty.
pub(crate) const FINALIZER: &str = "kubernetes";
/// How many resources, finalizers or failures one message names.
const NAMED: usize = 32;

/// Whether a namespace ends and waits for its content to go.
pub(crate) fn is_to_be_emptied(namespace: &Namespace) -> bool {
    namespace.metadata.deletion_timestamp.is_some()
        && finalizers(namespace).iter().any(|finalizer| finalizer == FINALIZER)
}

fn finalizers(namespace: &Namespace) -> &[String] {
    namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref()).unwrap_or_default()
}

/// The namespace as it is once nothing is in it any more.
pub(crate) fn finalized(namespace: &Namespace) -> Namespace {
    let mut namespace = namespace.clone();
    if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    namespace
}

/// What can be in a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Discovered {
    /// Every resource whose objects can be listed and deleted, in its group's preferred version.
    pub(crate) resources: Vec<ApiResource>,
    /// Groups and versions whose server did not say what they have.
    pub(crate) failed: Vec<String>,
}

/// Reads what the API says that it has: its core group, and all others.
pub(crate) fn discovered(core: &APIGroupDiscoveryList, others: &APIGroupDiscoveryList) -> Discovered {
    let mut found = Discovered::default();
    for group in core.items.iter().chain(&others.items) {
        let name = group.metadata.as_ref().and_then(|meta| meta.name.as_deref()).unwrap_or_default();
        let mut known = BTreeSet::new();
        for of_version in &group.versions {
            let version = of_version.version.as_deref().unwrap_or_default();
            let group_version =
                if name.is_empty() { version.to_owned() } else { format!("{name}/{version}") };
            if of_version.freshness.as_deref() == Some("Stale") {
                found.failed.push(group_version);
                continue;
            }
            for resource in of_version.resources.iter().filter(|resource| goes_with_its_namespace(resource)) {
                let plural = resource.resource.clone().unwrap_or_default();
                let kind = resource.response_kind.as_ref().and_then(|kind| kind.kind.clone());
                if known.insert(plural.clone()) {
                    found.resources.push(ApiResource {
                        group: name.to_owned(),
                        version: version.to_owned(),
                        api_version: group_version.clone(),
                        kind: kind.unwrap_or_default(),
                        plural,
                    });
                }
            }
        }
    }
    found
}

fn goes_with_its_namespace(resource: &APIResourceDiscovery) -> bool {
    let can = |wanted: &str| resource.verbs.iter().any(|verb| verb == wanted);
    resource.scope.as_deref() == Some("Namespaced") && can("list") && can("delete")
}

/// Whether it is what pods are: everything else stays until they are gone, for they use it.
pub(crate) fn is_pods(resource: &ApiResource) -> bool {
    resource.group.is_empty() && resource.plural == "pods"
}

/// An object in a namespace, as far as its end is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) finalizers: Vec<String>,
    /// Whether it was told to go already.
    pub(crate) leaving: bool,
}

impl Found {
    pub(crate) fn of(meta: &ObjectMeta) -> Found {
        Found {
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            leaving: meta.deletion_timestamp.is_some(),
        }
    }
}

/// What is still in a namespace after everything was told to go.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// How many objects, by `RESOURCE.GROUP`.
    objects: BTreeMap<String, usize>,
    /// How many objects, by the finalizer that keeps them.
    finalizers: BTreeMap<String, usize>,
    /// Why objects could not be deleted.
    pub(crate) failures: Vec<String>,
    /// Groups and versions of which nobody knows what they have in the namespace.
    pub(crate) unknown: Vec<String>,
}

impl Left {
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Left::default()
    }

    /// Whether trying again may help, even if nothing changes.
    pub(crate) fn is_trouble(&self) -> bool {
        !self.failures.is_empty() || !self.unknown.is_empty()
    }

    /// Counts the objects of a resource that are still there.
    pub(crate) fn note(&mut self, resource: &ApiResource, objects: &[Found]) {
        if objects.is_empty() {
            return;
        }
        // Core resources end in the dot, as upstream has it.
        let name = format!("{}.{}", resource.plural, resource.group);
        *self.objects.entry(name).or_default() += objects.len();
        for finalizer in objects.iter().flat_map(|object| &object.finalizers) {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
}

/// The conditions that a namespace is to have, if they are other than those that it has. One that goes without anybody's delay
/// says nothing: nobody would read it.
pub(crate) fn news(namespace: &Namespace, left: &Left, now: &Time) -> Option<Vec<NamespaceCondition>> {
    let told = namespace.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let stays = finalizers(namespace).len() > 1 || namespace.metadata.finalizers.is_some();
    if left.is_nothing() && told.is_empty() && !stays {
        return None;
    }
    let conditions = conditions(told, left, now);
    (conditions != told).then_some(conditions)
}

/// The conditions of a namespace that ends, in upstream's words; those that stay as they are keep their time, and those of others
/// stay.
fn conditions(old: &[NamespaceCondition], left: &Left, now: &Time) -> Vec<NamespaceCondition> {
    let undiscovered = format!(
        "Discovery failed for some groups, {} failing: unable to retrieve the complete list of server APIs: {}",
        left.unknown.len(),
        first_of(left.unknown.iter().map(|group| format!("{group}: stale GroupVersion discovery: {group}"))),
    );
    let mut failures = left.failures.clone();
    failures.sort();
    let failed = format!(
        "Failed to delete all resource types, {} remaining: {}",
        failures.len(),
        first_of(failures.into_iter())
    );
    let counted = |counts: &BTreeMap<String, usize>, has: &str| {
        first_of(counts.iter().map(|(name, count)| format!("{name} {has} {count} resource instances")))
    };
    // Type, whether it is so; reason and message of either.
    let table = [
        (
            "NamespaceDeletionDiscoveryFailure",
            !left.unknown.is_empty(),
            ("DiscoveryFailed", undiscovered),
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            false,
            ("", String::new()),
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            !left.failures.is_empty(),
            ("ContentDeletionFailed", failed),
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        (
            "NamespaceContentRemaining",
            !left.objects.is_empty(),
            (
                "SomeResourcesRemain",
                format!("Some resources are remaining: {}", counted(&left.objects, "has")),
            ),
            ("ContentRemoved", "All content successfully removed"),
        ),
        (
            "NamespaceFinalizersRemaining",
            !left.finalizers.is_empty(),
            (
                "SomeFinalizersRemain",
                format!(
                    "Some content in the namespace has finalizers remaining: {}",
                    counted(&left.finalizers, "in")
                ),
            ),
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ];
    let ours: Vec<NamespaceCondition> = table
        .into_iter()
        .map(|(type_, is_so, yes, no)| {
            let (status, reason, message) =
                if is_so { ("True", yes.0, yes.1) } else { ("False", no.0, no.1.to_owned()) };
            let standing = old.iter().find(|one| one.type_ == type_ && one.status == status);
            let since = standing.and_then(|one| one.last_transition_time.clone());
            NamespaceCondition {
                last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
                message: Some(message),
                reason: Some(reason.to_owned()),
                status: status.to_owned(),
                type_: type_.to_owned(),
            }
        })
        .collect();
    let is_anothers = |one: &&NamespaceCondition| ours.iter().all(|own| own.type_ != one.type_);
    let others: Vec<NamespaceCondition> = old.iter().filter(is_anothers).cloned().collect();
    ours.into_iter().chain(others).collect()
}

/// The first of many words: a message is no place for thousands.
fn first_of(words: impl ExactSizeIterator<Item = String>) -> String {
    let more = words.len().saturating_sub(NAMED);
    let mut text = words.take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(", and {more} more"));
    }
    text
}

/// The objects of one resource that somebody waits for.
#[derive(Clone, Debug)]
pub(crate) struct Remaining {
    pub(crate) resource: ApiResource,
    /// The version of the list that showed them.
    pub(crate) version: String,
    /// Their finalizers, by UID.
    objects: BTreeMap<String, Vec<String>>,
}

/// What a change means to who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// Nothing.
    None,
    /// What keeps the namespace is something else now.
    Some,
    /// Nothing of the resource is left.
    Gone,
}

impl Remaining {
    pub(crate) fn new(resource: ApiResource, version: String, objects: &[Found]) -> Remaining {
        let objects = objects.iter().map(|found| (found.uid.clone(), found.finalizers.clone())).collect();
        Remaining { resource, version, objects }
    }

    /// An object is there, new or changed.
    pub(crate) fn there(&mut self, found: Found) -> News {
        let is_news = self.objects.get(&found.uid) != Some(&found.finalizers);
        self.objects.insert(found.uid, found.finalizers);
        if is_news { News::Some } else { News::None }
    }

    /// An object is gone.
    pub(crate) fn gone(&mut self, found: &Found) -> News {
        self.objects.remove(&found.uid);
        if self.objects.is_empty() { News::Gone } else { News::Some }
    }
}
