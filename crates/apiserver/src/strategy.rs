//! What is special about a kind. One file a kind; everything that is not said here is the same for all.

pub(crate) mod config_map;
pub(crate) mod controller_revision;
pub(crate) mod cron_job;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod endpoint_slice;
pub(crate) mod endpoints;
pub(crate) mod event;
pub(crate) mod horizontal_pod_autoscaler;
pub(crate) mod ingress;
pub(crate) mod ingress_class;
pub(crate) mod job;
pub(crate) mod lease;
pub(crate) mod limit_range;
pub(crate) mod namespace;
pub(crate) mod network_policy;
pub(crate) mod node;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
pub(crate) mod pod;
pub(crate) mod pod_disruption_budget;
pub(crate) mod pod_template;
pub(crate) mod priority_class;
pub(crate) mod replica_keeper;
pub(crate) mod resource_quota;
pub(crate) mod review;
pub(crate) mod role;
pub(crate) mod role_binding;
pub(crate) mod runtime_class;
pub(crate) mod scale;
pub(crate) mod secret;
pub(crate) mod service;
pub(crate) mod service_account;
pub(crate) mod stateful_set;
pub(crate) mod storage_class;
pub(crate) mod template;

use jiff::Timestamp;
use schema::Column;
use serde_json::Value;

use crate::request::Verb;
use crate::reviews::Review;
use crate::selector::SelectableField;
use crate::status::ApiError;
use crate::writing::Write;

/// What a kind needs done around a write, beyond the object itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hooks {
    None,
    /// Looks up what findings need, and the service account.
    Pods,
    /// Allocates cluster addresses and node ports, and gives them back.
    Services,
    /// Fills new namespaces; those that end stay until they are empty.
    Namespaces,
}

/// What the subresource `scale` needs to know of a kind that has one. The counts are `replicas` in spec and status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalable {
    /// `spec.selector` as text.
    pub(crate) selector_text: fn(&Value) -> String,
}

/// A notice for the answers to what changes objects.
fn on_writes(verb: Verb, notice: &'static str) -> Option<&'static str> {
    match verb {
        Verb::Create | Verb::Update | Verb::Patch => Some(notice),
        Verb::Get | Verb::List | Verb::Watch | Verb::Delete | Verb::DeleteCollection => None,
    }
}

/// What becomes of the objects that an object of a kind owns, when the client does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultPropagation {
    /// They are deleted after it.
    Background,
    /// They stay.
    Orphan,
    /// Objects of the kind own nothing, whatever the client says.
    Unsupported,
}

/// What is special about a kind.
pub(crate) trait Strategy: Send + Sync {
    /// The subresources that are served.
    fn subresources(&self) -> &'static [&'static str] {
        &[]
    }

    /// Fields besides name and namespace that lists can be selected by.
    fn fields(&self) -> &'static [SelectableField] {
        &[]
    }

    /// What is done around writes.
    fn hooks(&self) -> Hooks {
        Hooks::None
    }

    /// Whether `metadata.generation` counts the versions of the spec.
    fn has_generation(&self) -> bool {
        false
    }

    /// Whether a deletion answers with the object instead of a status.
    fn returns_deleted(&self) -> bool {
        false
    }

    /// Whether an update of an object that does not exist creates it.
    fn creates_on_update(&self) -> bool {
        false
    }

    /// Whether an update must say which version it replaces.
    fn needs_resource_version(&self) -> bool {
        false
    }

    /// Whether there are objects of this kind. Otherwise it can be created only, and the creation is answered at once.
    fn is_stored(&self) -> bool {
        true
    }

    /// The question that an object of this kind asks; it is answered and stored nowhere.
    fn review(&self) -> Option<Review> {
        None
    }

    /// Whether the keys of an object keep the order in which a client wrote them: people wrote them for people.
    fn keeps_order(&self) -> bool {
        false
    }

    /// Turns an object that came over a second path into the stored form, and notes what its group and version there said.
    fn adopt(&self, _object: &mut Value) {}

    /// Whether a second path shows other fields than the store has.
    fn converts(&self) -> bool {
        false
    }

    /// Turns a stored object into what a second path shows; the opposite of [`Strategy::adopt`].
    fn present(&self, _object: &mut Value) {}

    /// A text for the `Warning` header of answers to `verb`: what clients should know about the kind as a whole.
    fn notice(&self, _verb: Verb) -> Option<&'static str> {
        None
    }

    /// How the kind is scaled, if it is.
    fn scalable(&self) -> Option<Scalable> {
        None
    }

    /// Fills in or refuses a new object by what else is stored, before its defaults.
    ///
    /// # Errors
    /// The refusal.
    fn admit(&self, _write: &Write<'_>, _object: &mut Value) -> Result<(), ApiError> {
        Ok(())
    }

    /// Refuses a valid object by what else is stored; `old` is what it replaces.
    ///
    /// # Errors
    /// The refusal.
    fn check(&self, _write: &Write<'_>, _old: Option<&Value>, _new: &Value) -> Result<(), ApiError> {
        Ok(())
    }

    /// Refuses a deletion.
    ///
    /// # Errors
    /// The refusal.
    fn check_deletion(&self, _write: &Write<'_>, _object: &Value) -> Result<(), ApiError> {
        Ok(())
    }

    /// Sets what only the server may set on a new object.
    fn prepare_create(&self, _object: &mut Value) {}

    /// For how many seconds a deletion waits before the object goes: `requested` is the client's wish. 0: at once.
    fn deletion_grace(&self, _object: &Value, _requested: Option<i64>) -> i64 {
        0
    }

    /// Whether objects of the kind end by themselves, within a grace that a later deletion can only shorten.
    fn is_graceful(&self) -> bool {
        false
    }

    /// What becomes of the objects that such an object owns, when the client does not say.
    fn propagation(&self) -> DefaultPropagation {
        DefaultPropagation::Background
    }

    /// What a client is told that deletes an object and does not say what becomes of its dependents.
    fn propagation_warning(&self) -> Option<&'static str> {
        None
    }

    /// The columns of the kind's table, where the schema knows none.
    fn columns(&self) -> &'static [Column] {
        &[]
    }

    /// The cells of the kind's table, in the order of its columns; `None` when the kind has no table of its own.
    fn cells(&self, _object: &Value, _now: Timestamp) -> Option<Vec<Value>> {
        None
    }
}
