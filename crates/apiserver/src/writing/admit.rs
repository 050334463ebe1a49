//! What admission is told besides the object: gates, and for pods what their environment and identity need.

use std::collections::BTreeMap;
use std::time::Duration;

use admission::{AdmissionRequest, SourceLookup, SourceObjects, Warning};
use serde_json::Value;
use store::Key;

use super::Write;
use crate::authorize::may_read_secrets;
use crate::lookup::{find, objects};
use crate::namespaces::DEFAULT_ACCOUNT;
use crate::object::{self, text};
use crate::status::ApiError;
use crate::strategy::Hooks;

const PRIORITY_GROUP: &str = "scheduling.k8s.io";
/// Marks a pod that stands for one of the node's own.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How long a new pod waits for the account `default` of its namespace.
const PATIENCE: Duration = Duration::from_secs(2);

/// Gathers what admission needs for `value`.
pub(super) fn admission_request(write: &Write<'_>, value: &Value) -> Result<AdmissionRequest, ApiError> {
    let mut request = AdmissionRequest {
        gates: write.server.config.gates,
        env_file_mounts: write.server.config.env_file_mounts,
        families: write.server.addresses.ranges().families(),
        ..AdmissionRequest::default()
    };
    match write.kind.strategy().hooks() {
        Hooks::Pods => {
            request.service_account = service_account(write, value)?;
            if is_new(value) {
                request.limit_ranges = objects(write.server, "", "limitranges", Some(write.namespace));
                request.priority_class = priority_class(write, value)?;
            }
        }
        Hooks::None | Hooks::Services | Hooks::Namespaces => {}
    }
    request.sources = sources(write, value);
    Ok(request)
}

fn core_object(write: &Write<'_>, plural: &str, namespace: &str, name: &str) -> Option<Value> {
    let kind = write.server.kinds.core(plural)?;
    let key = Key::new(kind.collection(), namespace, name);
    write.server.store.get(&key).map(|found| object::tree(&found))
}

/// Which service account a pod has; the pods that stand for a node's own have none.
fn account_name(pod: &Value) -> Option<&str> {
    if pod.pointer("/metadata/annotations").is_some_and(|annotations| annotations.get(MIRROR).is_some()) {
        return None;
    }
    let named = ["serviceAccountName", "serviceAccount"].map(|field| text(pod, &["spec", field]));
    Some(named.into_iter().find(|name| !name.is_empty()).unwrap_or(DEFAULT_ACCOUNT))
}

fn service_account(write: &Write<'_>, pod: &Value) -> Result<Option<Value>, ApiError> {
    let Some(name) = account_name(pod) else { return Ok(None) };
    match core_object(write, "serviceaccounts", write.namespace, name) {
        Some(found) => Ok(Some(found)),
        // An update of a pod whose account went meanwhile is not the place to complain.
        None if !is_new(pod) => Ok(None),
        None => Err(ApiError::forbidden(
            write.kind,
            object::name(pod),
            format!(
                "error looking up service account {}/{name}: serviceaccount \"{name}\" not found",
                write.namespace
            ),
        )),
    }
}

/// Gives the controller of the account `default` a moment to make it again, for a new pod of that account. Whether it has come is
/// seen by whoever looks it up.
pub(super) async fn await_default_account(write: &Write<'_>, pod: &Value) {
    let Some(accounts) = write.server.kinds.core("serviceaccounts") else { return };
    if account_name(pod) != Some(DEFAULT_ACCOUNT) {
        return;
    }
    let store = &write.server.store;
    let key = Key::new(accounts.collection(), write.namespace, DEFAULT_ACCOUNT);
    let is_there = || store.get(&key).is_some();
    if is_there() {
        return;
    }
    let come = async {
        // Watched before it is looked for: nothing is missed.
        let watch = store.watch(accounts.collection(), Some(write.namespace), store.revision());
        if let Ok(mut watch) = watch {
            while !is_there() && matches!(watch.next().await, Ok(Some(_))) {}
        }
    };
    let _ = tokio::time::timeout(PATIENCE, come).await;
}

/// Whether an object is being created: what is stored has a version.
fn is_new(object: &Value) -> bool {
    text(object, &["metadata", "resourceVersion"]).is_empty()
}

/// The priority class that a new pod names, or the cluster's default one.
fn priority_class(write: &Write<'_>, pod: &Value) -> Result<Option<Value>, ApiError> {
    let refused = |detail: String| ApiError::forbidden(write.kind, object::name(pod), detail);
    let name = text(pod, &["spec", "priorityClassName"]);
    let class = if name.is_empty() {
        let classes = objects(write.server, PRIORITY_GROUP, "priorityclasses", None);
        classes.into_iter().find(|class| class["globalDefault"] == true)
    } else {
        let found = find(write.server, PRIORITY_GROUP, "priorityclasses", "", name);
        Some(found.ok_or_else(|| refused(format!("no PriorityClass with name {name} was found")))?)
    };
    let computed = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or(0);
    if let Some(given) = object::at(pod, &["spec", "priority"]).and_then(Value::as_i64)
        && given != computed
    {
        return Err(refused(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {computed} from the given PriorityClass name"
        )));
    }
    let policy = class.as_ref().map_or("", |class| text(class, &["preemptionPolicy"]));
    let policy = if policy.is_empty() { "PreemptLowerPriority" } else { policy };
    let given = text(pod, &["spec", "preemptionPolicy"]);
    if !given.is_empty() && given != policy {
        return Err(refused(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        )));
    }
    Ok(class)
}

/// The sources of the environment of a pod, or of the pods of a template, as far as the caller may read them.
fn sources(write: &Write<'_>, object: &Value) -> SourceObjects {
    let needed = admission::needed_sources(write.kind.resource(), object);
    let look_up = |plural: &str, names: Vec<String>| -> BTreeMap<String, SourceLookup> {
        names
            .into_iter()
            .map(|name| {
                let found = core_object(write, plural, write.namespace, &name);
                let lookup = found.map_or(SourceLookup::Absent, SourceLookup::Present);
                (name, lookup)
            })
            .collect()
    };
    let secrets = if may_read_secrets(write.server, write.identity, write.namespace) {
        look_up("secrets", needed.secrets)
    } else {
        BTreeMap::new()
    };
    SourceObjects {
        config_maps: look_up("configmaps", needed.config_maps),
        secrets,
        services: needed.services.then(|| services(write)),
    }
}

fn services(write: &Write<'_>) -> Vec<Value> {
    let Some(kind) = write.server.kinds.core("services") else { return Vec::new() };
    let listed = write.server.store.list(kind.collection(), Some(write.namespace), None, None);
    let mut found: Vec<Value> = listed
        .map(|listing| listing.objects.iter().map(|one| object::tree(one)).collect())
        .unwrap_or_default();
    if write.namespace != "default" {
        found.extend(core_object(write, "services", "default", "kubernetes"));
    }
    found
}

pub(super) fn warning_texts(warnings: Vec<Warning>) -> Vec<String> {
    warnings.into_iter().map(|warning| warning.0).collect()
}

/// Refuses objects that are too large to be stored.
pub(super) fn check_size(write: &Write<'_>, bytes: usize) -> Result<(), ApiError> {
    let limit = write.server.limits().object_bytes;
    if bytes > limit { Err(ApiError::TooLarge { limit }) } else { Ok(()) }
}
