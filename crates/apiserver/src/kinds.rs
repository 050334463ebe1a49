//! The table of kinds that are served. A kind is an entry here and a strategy file; everything else is generic.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use bytes::{Bytes, BytesMut};
use schema::{FieldValidation, Resource, Type};
use serde_json::Value;
use store::Collection;

use crate::reviews::Review;
use crate::strategy::{
    Strategy, config_map, controller_revision, cron_job, daemon_set, deployment, endpoint_slice, endpoints,
    event, horizontal_pod_autoscaler, ingress, ingress_class, job, lease, limit_range, namespace,
    network_policy, node, persistent_volume, persistent_volume_claim, pod, pod_disruption_budget,
    pod_template, priority_class, replica_keeper, resource_quota, review::Reviews, role, role_binding,
    runtime_class, scale, secret, service, service_account, stateful_set, storage_class, template,
};

/// One resource that is served.
pub(crate) struct Kind {
    resource: &'static Resource,
    /// What its objects are in the store; differs from `resource` for a second path to the same objects.
    stored: &'static Resource,
    ty: Type,
    stored_ty: Type,
    collection: Collection,
    strategy: &'static dyn Strategy,
    list_kind: String,
    is_discovered: bool,
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kind({} {})", self.resource.group_version, self.resource.kind)
    }
}

impl Kind {
    fn new(
        resource: &'static Resource,
        stored: &'static Resource,
        strategy: &'static dyn Strategy,
        is_discovered: bool,
    ) -> Result<Kind, UnknownKind> {
        let type_of = |resource: &Resource| {
            let unknown = UnknownKind { group_version: resource.group_version, plural: resource.plural };
            schema::builtin().type_for(resource.group_version, resource.kind).ok_or(unknown)
        };
        Ok(Kind {
            resource,
            stored,
            ty: type_of(resource)?,
            stored_ty: type_of(stored)?,
            collection: Collection::new(stored.group, stored.plural),
            strategy,
            list_kind: format!("{}List", resource.kind),
            is_discovered,
        })
    }

    pub(crate) fn resource(&self) -> &'static Resource {
        self.resource
    }

    pub(crate) fn group(&self) -> &'static str {
        self.resource.group
    }

    /// `v1`, `coordination.k8s.io/v1`.
    pub(crate) fn group_version(&self) -> &'static str {
        self.resource.group_version
    }

    pub(crate) fn plural(&self) -> &'static str {
        self.resource.plural
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.resource.kind
    }

    pub(crate) fn list_kind(&self) -> &str {
        &self.list_kind
    }

    pub(crate) fn namespaced(&self) -> bool {
        self.resource.namespaced
    }

    pub(crate) fn ty(&self) -> Type {
        self.ty
    }

    /// Whether its objects have a form in protobuf.
    pub(crate) fn travels(&self) -> bool {
        schema::protobuf::has_form(self.ty)
    }

    /// The type of its objects in the store.
    pub(crate) fn stored_ty(&self) -> Type {
        self.stored_ty
    }

    /// Whether this is a second path to objects that are another kind's.
    pub(crate) fn is_alias(&self) -> bool {
        self.resource.group_version != self.stored.group_version
    }

    /// Turns an object that came over this path into what the store holds.
    pub(crate) fn adopt(&self, object: &mut Value) {
        if !self.is_alias() {
            return;
        }
        self.strategy.adopt(object);
        object["apiVersion"] = self.stored.group_version.into();
        if self.strategy.converts() {
            // What the other form leaves out may be something that this one always says.
            if let Ok(decoded) = schema::decode_value(self.stored_ty, object, FieldValidation::Ignore) {
                *object = decoded.value;
                object["kind"] = self.stored.kind.into();
                object["apiVersion"] = self.stored.group_version.into();
            }
        }
    }

    /// A stored object as this path shows it.
    pub(crate) fn shown(&self, mut stored: Value) -> Value {
        if !self.is_alias() {
            return stored;
        }
        stored["apiVersion"] = self.resource.group_version.into();
        if self.strategy.converts() {
            self.strategy.present(&mut stored);
            if let Ok(decoded) = schema::decode_value(self.ty, &stored, FieldValidation::Ignore) {
                stored = decoded.value;
                stored["kind"] = self.resource.kind.into();
                stored["apiVersion"] = self.resource.group_version.into();
            }
        }
        stored
    }

    /// What its objects are in the store.
    pub(crate) fn stored_resource(&self) -> &'static Resource {
        self.stored
    }

    /// The `apiVersion` that its objects have in the store.
    pub(crate) fn stored_group_version(&self) -> &'static str {
        self.stored.group_version
    }

    /// The bytes of a stored object as this path shows it.
    pub(crate) fn shown_bytes(&self, stored: &Bytes) -> Bytes {
        if !self.is_alias() {
            return stored.clone();
        }
        if self.strategy.converts() {
            return match serde_json::from_slice(stored) {
                Ok(tree) => Bytes::from(self.shown(tree).to_string()),
                Err(_) => stored.clone(),
            };
        }
        // `object::encode` writes the type first.
        let head = |version: &str| format!("{{\"kind\":\"{}\",\"apiVersion\":\"{version}\",", self.kind());
        let Some(rest) = stored.strip_prefix(head(self.stored.group_version).as_bytes()) else {
            return stored.clone();
        };
        let mut bytes = BytesMut::from(head(self.resource.group_version).as_bytes());
        bytes.extend_from_slice(rest);
        bytes.freeze()
    }

    pub(crate) fn collection(&self) -> &Collection {
        &self.collection
    }

    pub(crate) fn strategy(&self) -> &'static dyn Strategy {
        self.strategy
    }

    /// The subresources that are served.
    pub(crate) fn has_subresource(&self, name: &str) -> bool {
        self.strategy.subresources().contains(&name)
    }
}

/// Every kind that is served, in the order of discovery.
#[derive(Debug)]
pub(crate) struct KindTable {
    kinds: Vec<Arc<Kind>>,
    by_path: BTreeMap<(String, String, String), usize>,
    /// No path of its own leads to it.
    scales: Arc<Kind>,
}

/// A kind that is to be served but that the schema does not know: a mistake in this file.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the schema has no resource {group_version}/{plural}")]
pub struct UnknownKind {
    /// Group and version.
    pub group_version: &'static str,
    /// Plural name.
    pub plural: &'static str,
}

/// What discovery does not list as a resource: it is only the form of a subresource.
static SCALES: LazyLock<Resource> = LazyLock::new(|| Resource {
    group: "autoscaling",
    version: "v1",
    group_version: "autoscaling/v1",
    plural: "scales",
    singular: "scale",
    kind: "Scale",
    namespaced: true,
    short_names: Vec::new(),
    categories: Vec::new(),
    verbs: Vec::new(),
    subresources: Vec::new(),
});

const SERVED: &[(&str, &str, &str, &dyn Strategy)] = &[
    ("", "v1", "configmaps", &config_map::ConfigMaps),
    ("", "v1", "endpoints", &endpoints::Endpoints),
    ("", "v1", "events", &event::Events),
    ("", "v1", "limitranges", &limit_range::LimitRanges),
    ("", "v1", "namespaces", &namespace::Namespaces),
    ("", "v1", "nodes", &node::Nodes),
    ("", "v1", "persistentvolumeclaims", &persistent_volume_claim::PersistentVolumeClaims),
    ("", "v1", "persistentvolumes", &persistent_volume::PersistentVolumes),
    ("", "v1", "pods", &pod::Pods),
    ("", "v1", "podtemplates", &pod_template::PodTemplates),
    ("", "v1", "replicationcontrollers", &replica_keeper::REPLICATION_CONTROLLERS),
    ("", "v1", "resourcequotas", &resource_quota::ResourceQuotas),
    ("", "v1", "secrets", &secret::Secrets),
    ("", "v1", "serviceaccounts", &service_account::ServiceAccounts),
    ("", "v1", "services", &service::Services),
    ("apps", "v1", "controllerrevisions", &controller_revision::ControllerRevisions),
    ("apps", "v1", "daemonsets", &daemon_set::DaemonSets),
    ("apps", "v1", "deployments", &deployment::Deployments),
    ("apps", "v1", "replicasets", &replica_keeper::REPLICA_SETS),
    ("apps", "v1", "statefulsets", &stateful_set::StatefulSets),
    ("autoscaling", "v2", "horizontalpodautoscalers", &horizontal_pod_autoscaler::HorizontalPodAutoscalers),
    ("batch", "v1", "cronjobs", &cron_job::CronJobs),
    ("batch", "v1", "jobs", &job::Jobs),
    ("coordination.k8s.io", "v1", "leases", &lease::Leases),
    ("authentication.k8s.io", "v1", "selfsubjectreviews", &Reviews(Review::SelfSubject)),
    ("authentication.k8s.io", "v1", "tokenreviews", &Reviews(Review::Token)),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews", &Reviews(Review::LocalSubjectAccess)),
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews", &Reviews(Review::SelfSubjectAccess)),
    ("authorization.k8s.io", "v1", "selfsubjectrulesreviews", &Reviews(Review::SelfSubjectRules)),
    ("authorization.k8s.io", "v1", "subjectaccessreviews", &Reviews(Review::SubjectAccess)),
    ("discovery.k8s.io", "v1", "endpointslices", &endpoint_slice::EndpointSlices),
    ("networking.k8s.io", "v1", "ingressclasses", &ingress_class::IngressClasses),
    ("networking.k8s.io", "v1", "ingresses", &ingress::Ingresses),
    ("networking.k8s.io", "v1", "networkpolicies", &network_policy::NetworkPolicies),
    ("node.k8s.io", "v1", "runtimeclasses", &runtime_class::RuntimeClasses),
    ("policy", "v1", "poddisruptionbudgets", &pod_disruption_budget::PodDisruptionBudgets),
    ("rbac.authorization.k8s.io", "v1", "clusterrolebindings", &role_binding::RoleBindings),
    ("rbac.authorization.k8s.io", "v1", "clusterroles", &role::Roles),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", &role_binding::RoleBindings),
    ("rbac.authorization.k8s.io", "v1", "roles", &role::Roles),
    ("scheduling.k8s.io", "v1", "priorityclasses", &priority_class::PriorityClasses),
    ("storage.k8s.io", "v1", "storageclasses", &storage_class::StorageClasses),
    // In this order: for clients the last resource of a kind is the kind's own.
    ("template.coracle.dev", "v1", "processedtemplates", &template::ProcessedTemplates),
    ("template.coracle.dev", "v1", "templates", &template::Templates),
];

/// A second path to objects that are another kind's.
struct SecondPath {
    group: &'static str,
    plural: &'static str,
    /// Group and version under which the objects are stored.
    stored: (&'static str, &'static str),
    /// Where it differs from the one of the stored kind.
    strategy: Option<&'static dyn Strategy>,
    is_discovered: bool,
}

/// Second paths, all of version `v1`. The paths of the template proposal are the core group's; discovery names one group
/// only, so that `kubectl get templates` is not ambiguous.
const SECOND_PATHS: &[SecondPath] = &[
    SecondPath {
        group: "autoscaling",
        plural: "horizontalpodautoscalers",
        stored: ("autoscaling", "v2"),
        strategy: None,
        is_discovered: true,
    },
    SecondPath {
        group: "events.k8s.io",
        plural: "events",
        stored: ("", "v1"),
        strategy: Some(&event::RegardingEvents),
        is_discovered: true,
    },
    SecondPath {
        group: "",
        plural: "templates",
        stored: ("template.coracle.dev", "v1"),
        strategy: None,
        is_discovered: false,
    },
    SecondPath {
        group: "",
        plural: "processedtemplates",
        stored: ("template.coracle.dev", "v1"),
        strategy: None,
        is_discovered: false,
    },
];

impl KindTable {
    /// The table of this program.
    pub(crate) fn builtin() -> Result<KindTable, UnknownKind> {
        let scales = Arc::new(Kind::new(&SCALES, &SCALES, &scale::Scales, false)?);
        let mut table = KindTable { kinds: Vec::new(), by_path: BTreeMap::new(), scales };
        for &(group, version, plural, strategy) in SERVED {
            table.add((group, version, plural), (group, version), strategy, true)?;
        }
        for second in SECOND_PATHS {
            let (group, version) = second.stored;
            let unknown = UnknownKind { group_version: group, plural: second.plural };
            let own = table.find(group, version, second.plural).ok_or(unknown)?.strategy;
            let strategy = second.strategy.unwrap_or(own);
            table.add((second.group, "v1", second.plural), second.stored, strategy, second.is_discovered)?;
        }
        Ok(table)
    }

    fn add(
        &mut self,
        (group, version, plural): (&'static str, &'static str, &'static str),
        stored: (&str, &str),
        strategy: &'static dyn Strategy,
        is_discovered: bool,
    ) -> Result<(), UnknownKind> {
        let unknown =
            || UnknownKind { group_version: if group.is_empty() { version } else { group }, plural };
        let resource = schema::resource(group, version, plural).ok_or_else(unknown)?;
        let stored = schema::resource(stored.0, stored.1, plural).ok_or_else(unknown)?;
        let kind = Kind::new(resource, stored, strategy, is_discovered)?;
        self.by_path.insert((group.to_owned(), version.to_owned(), plural.to_owned()), self.kinds.len());
        self.kinds.push(Arc::new(kind));
        Ok(())
    }

    /// The kind that a path names.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Kind>> {
        let index = self.by_path.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))?;
        self.kinds.get(*index)
    }

    /// The kind that an object's `apiVersion` and `kind` name.
    pub(crate) fn of_type(&self, group_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.kinds.iter().rfind(|own| own.kind() == kind && own.group_version() == group_version)
    }

    /// A kind of the core group that this program serves itself.
    pub(crate) fn core(&self, plural: &str) -> Option<&Arc<Kind>> {
        self.find("", "v1", plural)
    }

    /// The kind of the bodies of the subresource `scale`.
    pub(crate) fn scales(&self) -> &Arc<Kind> {
        &self.scales
    }

    /// Every kind that discovery names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter().filter(|kind| kind.is_discovered)
    }

    /// Every kind of stored objects once: without second paths.
    pub(crate) fn stored(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.iter().filter(|kind| !kind.is_alias() && kind.strategy.is_stored())
    }
}
