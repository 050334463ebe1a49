//! Create and update, for every kind: what only the server says, admission, and the write itself.

mod admit;
pub(crate) mod fields;

use std::sync::{Arc, LazyLock};

use manifest::Node;
use schema::apply::{ManagedFields, same_but_times};
use serde_json::{Value, json};
use store::{Draft, Key, Purpose, WriteError};

use crate::identity::Identity;
use crate::kinds::Kind;
use crate::object::{self, list, same_content, set_metadata, text};
use crate::render::Shown;
use crate::rights::{self, Change};
use crate::server::Server;
use crate::service_addresses::Allocation;
use crate::status::ApiError;
use crate::strategy::Hooks;
use crate::{body, field_manager, namespaces, timestamps};

use admit::{admission_request, await_default_account, warning_texts};

/// How often an update is tried again after somebody else was quicker.
const ATTEMPTS: usize = 16;
/// How often another name is tried for `generateName`.
const NAME_ATTEMPTS: usize = 8;
/// Longest prefix of a generated name.
const GENERATED_PREFIX: usize = 58;

/// Where and for whom something is written.
#[derive(Clone, Copy)]
pub(crate) struct Write<'w> {
    pub(crate) server: &'w Arc<Server>,
    pub(crate) kind: &'w Arc<Kind>,
    /// Empty for objects of the whole cluster.
    pub(crate) namespace: &'w str,
    pub(crate) identity: &'w Identity,
    /// Who is noted as the manager of the fields that the write sets.
    pub(crate) manager: &'w str,
    pub(crate) dry_run: bool,
    /// The object as the client wrote it, for kinds that keep the order of keys.
    pub(crate) order: Option<&'w Node>,
}

impl<'w> Write<'w> {
    /// A write that the server does by itself, in its own name.
    pub(crate) fn of_server(server: &'w Arc<Server>, kind: &'w Arc<Kind>, namespace: &'w str) -> Write<'w> {
        static OWN: LazyLock<Identity> = LazyLock::new(Identity::admin);
        Write {
            server,
            kind,
            namespace,
            identity: &OWN,
            manager: field_manager::OWN,
            dry_run: false,
            order: None,
        }
    }

    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(self.kind.collection(), self.namespace, name)
    }
}

/// What was written.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) shown: Shown,
    pub(crate) warnings: Vec<String>,
}

/// Which part of an object an update replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but the status.
    Main,
    /// The status.
    Status,
    /// The ephemeral containers of a pod.
    EphemeralContainers,
    /// How many replicas there shall be; by all rules of the object itself.
    Scale,
}

impl Part {
    /// The subresource that stands beside a manager's name.
    pub(crate) fn subresource(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::EphemeralContainers => "ephemeralcontainers",
            Self::Scale => "scale",
        }
    }

    /// Whether a change of it is a new generation of the spec.
    fn is_of_spec(self) -> bool {
        match self {
            Self::Main | Self::EphemeralContainers | Self::Scale => true,
            Self::Status => false,
        }
    }
}

/// What of an object's fields a writer says itself; `None`: what differs is the writer's.
pub(crate) type Noted = Option<ManagedFields>;

/// What an object shall become.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
    /// Whether its resource version says which version it replaces.
    pub(crate) keeps_version: bool,
}

/// Creates a decoded object.
pub(crate) async fn create_object(write: &Write<'_>, value: Value) -> Result<Written, ApiError> {
    create_noted(write, value, None).await
}

/// Creates a decoded object whose fields may have been noted already.
pub(crate) async fn create_noted(
    write: &Write<'_>,
    mut value: Value,
    noted: Noted,
) -> Result<Written, ApiError> {
    let kind = write.kind;
    place_in_namespace(write, &mut value)?;
    if !text(&value, &["metadata", "resourceVersion"]).is_empty() {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    if kind.namespaced() {
        namespaces::check_open(write, object::name(&value))?;
    }
    match kind.strategy().hooks() {
        Hooks::Pods => await_default_account(write, &value).await,
        Hooks::None | Hooks::Services | Hooks::Namespaces => {}
    }
    for field in [
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
        "generation",
    ] {
        set_metadata(&mut value, field, None);
    }
    set_metadata(&mut value, "uid", Some(json!(uuid::Uuid::new_v4().to_string())));
    set_metadata(&mut value, "creationTimestamp", Some(json!(timestamps::now_text())));
    if kind.strategy().has_generation() {
        set_metadata(&mut value, "generation", Some(json!(1)));
    }
    let prefix = text(&value, &["metadata", "generateName"]).to_owned();
    let generates = object::name(&value).is_empty() && !prefix.is_empty();
    let mut attempt = 0;
    loop {
        attempt += 1;
        let mut candidate = value.clone();
        if generates {
            set_metadata(&mut candidate, "name", Some(json!(generated_name(&prefix))));
        }
        match create_named(write, candidate, noted.clone()).await {
            Err(ApiError::AlreadyExists { .. }) if generates && attempt < NAME_ATTEMPTS => {}
            outcome => return outcome,
        }
    }
}

async fn create_named(write: &Write<'_>, mut value: Value, noted: Noted) -> Result<Written, ApiError> {
    let kind = write.kind;
    kind.adopt(&mut value);
    let may_forget = noted.is_none();
    let managed = noted.unwrap_or_else(|| fields::of_creation(write, &value));
    kind.strategy().prepare_create(&mut value);
    kind.strategy().admit(write, &mut value)?;
    let request = admission_request(write, &value)?;
    let admitted = {
        let kind = kind.clone();
        let is_large = kind.strategy().keeps_order();
        let work = move || (admission::prepare_create(kind.resource(), &mut value, &request), value);
        if is_large { write.server.workshop.run(work).await? } else { work() }
    };
    let (warnings, mut value) = admitted;
    let warnings = warnings.map_err(|errors| ApiError::invalid(kind, object::name(&value), errors))?;
    kind.strategy().check(write, None, &value)?;
    rights::check(write, Change::Create(&value))?;
    let allocation = allocate(write, &mut value, None)?;
    set_metadata(&mut value, "managedFields", managed.into_value());
    let draft = fields::encode_within(write, &mut value, write.order, may_forget)?;
    let name = object::name(&value).to_owned();
    let room = write.server.quotas.hold(write, None, &value)?;
    let shown = store_new(write, &value, draft, &name).await?;
    drop(room);
    if !write.dry_run
        && let Some(allocation) = allocation
    {
        allocation.keep();
    }
    if !write.dry_run {
        match kind.strategy().hooks() {
            Hooks::Namespaces => namespaces::fill(write.server, &name).await?,
            Hooks::None | Hooks::Pods | Hooks::Services => {}
        }
        if kind.namespaced() {
            namespaces::check_still_open(write, &value).await?;
        }
    }
    Ok(Written { shown, warnings: warning_texts(warnings) })
}

async fn store_new(write: &Write<'_>, value: &Value, draft: Draft, name: &str) -> Result<Shown, ApiError> {
    let kind = write.kind;
    if write.dry_run {
        if write.server.store.get(&write.key(name)).is_some() {
            return Err(ApiError::AlreadyExists {
                group: kind.group().to_owned(),
                resource: kind.plural().to_owned(),
                name: name.to_owned(),
            });
        }
        return Ok(Shown::Tree(value.clone()));
    }
    let created = write.server.store.create(write.key(name), draft).await;
    created.map(Shown::Stored).map_err(|error| ApiError::from_write(kind, name, error))
}

fn place_in_namespace(write: &Write<'_>, value: &mut Value) -> Result<(), ApiError> {
    let told = text(value, &["metadata", "namespace"]);
    if !told.is_empty() && told != write.namespace {
        return Err(ApiError::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request ({told} != {})",
            write.namespace
        )));
    }
    let namespace = (!write.namespace.is_empty()).then(|| json!(write.namespace));
    set_metadata(value, "namespace", namespace);
    Ok(())
}

fn generated_name(prefix: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let end =
        prefix.char_indices().map(|(at, _)| at).find(|at| *at >= GENERATED_PREFIX).unwrap_or(prefix.len());
    let mut name = prefix[..end].to_owned();
    name.extend((0..5).map(|_| char::from(LETTERS[rand::random_range(0..LETTERS.len())])));
    name
}

/// Gives a service its addresses; nothing for other kinds.
fn allocate<'w>(
    write: &Write<'w>,
    value: &mut Value,
    old: Option<&Value>,
) -> Result<Option<Allocation<'w>>, ApiError> {
    match write.kind.strategy().hooks() {
        Hooks::Services => write
            .server
            .addresses
            .allocate(value, old)
            .map(Some)
            .map_err(|errors| ApiError::invalid(write.kind, object::name(value), errors)),
        Hooks::None | Hooks::Pods | Hooks::Namespaces => Ok(None),
    }
}

/// Replaces `part` of the object `name` by what `make` makes of its newest version.
pub(crate) async fn update_object(
    write: &Write<'_>,
    name: &str,
    part: Part,
    make: impl Fn(&Value) -> Result<Candidate, ApiError>,
) -> Result<Written, ApiError> {
    update_noted(write, name, part, |live| make(live).map(|candidate| (candidate, None))).await
}

/// [`update_object`] with what `make` says of the fields.
pub(crate) async fn update_noted(
    write: &Write<'_>,
    name: &str,
    part: Part,
    make: impl Fn(&Value) -> Result<(Candidate, Noted), ApiError>,
) -> Result<Written, ApiError> {
    let kind = write.kind;
    for _ in 0..ATTEMPTS {
        let current =
            write.server.store.get(&write.key(name)).ok_or_else(|| ApiError::not_found(kind, name))?;
        let mut old = object::tree(&current);
        let (mut candidate, noted) =
            if kind.is_alias() { make(&kind.shown(old.clone())) } else { make(&old) }?;
        let demanded = demanded_revision(write, &candidate, name)?;
        if demanded.is_some_and(|revision| revision != current.revision()) {
            return Err(ApiError::stale(kind, name));
        }
        kind.adopt(&mut candidate.object);
        let live = fields::take(&mut old);
        let may_forget = noted.is_none();
        let managed = match noted {
            Some(managed) => managed.into_value(),
            None => fields::of_update(write, part, &old, live.as_ref(), &mut candidate.object)?,
        };
        let Replacement { mut new, warnings, allocation } =
            prepare_replacement(write, &old, candidate, part, name)?;
        if same_content(&old, &new) && same_but_times(live.as_ref(), managed.as_ref()) {
            return Ok(Written { shown: Shown::Stored(current), warnings });
        }
        let stored = if write.order.is_none() { body::stored_order(kind, &current) } else { None };
        let room = match part {
            Part::Main | Part::Scale => write.server.quotas.hold(write, Some(&old), &new)?,
            Part::Status | Part::EphemeralContainers => None,
        };
        set_metadata(&mut new, "managedFields", managed);
        let draft = fields::encode_within(write, &mut new, write.order.or(stored.as_ref()), may_forget)?;
        let stored = store_update(write, &old, &new, draft, current.revision(), name).await;
        drop(room);
        match stored {
            Ok(shown) => {
                if let Some(allocation) = allocation
                    && !write.dry_run
                {
                    allocation.keep();
                    write.server.addresses.replace(&old, &new);
                }
                return Ok(Written { shown, warnings });
            }
            Err(WriteError::Conflict { .. }) if demanded.is_none() => {}
            Err(error) => return Err(ApiError::from_write(kind, name, error)),
        }
    }
    Err(ApiError::stale(kind, name))
}

/// A version that is ready to be stored.
struct Replacement<'w> {
    new: Value,
    warnings: Vec<String>,
    allocation: Option<Allocation<'w>>,
}

/// Everything between what a client wants and what is stored.
fn prepare_replacement<'w>(
    write: &Write<'w>,
    old: &Value,
    candidate: Candidate,
    part: Part,
    name: &str,
) -> Result<Replacement<'w>, ApiError> {
    let kind = write.kind;
    let Candidate { object: mut new, mut warnings, .. } = candidate;
    keep_identity(write, old, &mut new, name)?;
    let request = admission_request(write, &new)?;
    let told = match part {
        Part::Main | Part::Scale => admission::prepare_update(kind.resource(), old, &mut new, &request),
        Part::Status => admission::prepare_status_update(kind.resource(), old, &mut new),
        Part::EphemeralContainers => {
            admission::prepare_ephemeral_containers_update(kind.resource(), old, &mut new, &request)
        }
    }
    .map_err(|errors| ApiError::invalid(kind, name, errors))?;
    warnings.extend(warning_texts(told));
    if matches!(part, Part::Main | Part::Scale) {
        kind.strategy().check(write, Some(old), &new)?;
    }
    rights::check(write, Change::Update(old, &new))?;
    let allocation = match part {
        Part::Main | Part::Scale => allocate(write, &mut new, Some(old))?,
        Part::Status | Part::EphemeralContainers => None,
    };
    if part.is_of_spec() && kind.strategy().has_generation() && old.get("spec") != new.get("spec") {
        let generation = object::at(old, &["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
        set_metadata(&mut new, "generation", Some(json!(generation + 1)));
    }
    Ok(Replacement { new, warnings, allocation })
}

/// The revision that the client wants to replace; `None` when any will do.
fn demanded_revision(write: &Write<'_>, candidate: &Candidate, name: &str) -> Result<Option<u64>, ApiError> {
    let told = text(&candidate.object, &["metadata", "resourceVersion"]);
    if !candidate.keeps_version {
        return Ok(None);
    }
    if told.is_empty() || told == "0" {
        if write.kind.strategy().needs_resource_version() {
            return Err(ApiError::invalid(
                write.kind,
                name,
                admission::FieldErrors(vec![admission::FieldError {
                    kind: admission::FieldErrorKind::Invalid,
                    field: "metadata.resourceVersion".to_owned(),
                    bad_value: admission::BadValue::Json(json!(0)),
                    detail: "must be specified for an update".to_owned(),
                }]),
            ));
        }
        return Ok(None);
    }
    told.parse().map(Some).map_err(|_| ApiError::stale(write.kind, name))
}

/// What no update changes: where the object is, which one it is, since when, and whether it is going.
fn keep_identity(write: &Write<'_>, old: &Value, new: &mut Value, name: &str) -> Result<(), ApiError> {
    place_in_namespace(write, new)?;
    let told = object::name(new);
    if told != name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({told}) does not match the name on the URL ({name})"
        )));
    }
    let uid = text(new, &["metadata", "uid"]);
    let own = text(old, &["metadata", "uid"]);
    if !uid.is_empty() && uid != own {
        return Err(ApiError::conflict(
            write.kind,
            name,
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}"),
        ));
    }
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "generateName",
    ] {
        set_metadata(new, field, old.pointer(&format!("/metadata/{field}")).cloned());
    }
    for field in ["managedFields", "selfLink"] {
        set_metadata(new, field, None);
    }
    let version = old.pointer("/metadata/resourceVersion").cloned();
    set_metadata(new, "resourceVersion", version);
    Ok(())
}

/// Stores a new version, or removes the object when nothing keeps it any more.
async fn store_update(
    write: &Write<'_>,
    old: &Value,
    new: &Value,
    draft: Draft,
    revision: u64,
    name: &str,
) -> Result<Shown, WriteError> {
    if write.dry_run {
        return Ok(Shown::Tree(new.clone()));
    }
    let is_going = object::at(new, &["metadata", "deletionTimestamp"]).is_some_and(Value::is_string);
    if is_going && may_go(write.kind, new) && !may_go(write.kind, old) {
        let key = write.key(name);
        let removed = write.server.store.delete(key, Some(revision)).await?;
        released(write, old);
        let mut last = new.clone();
        set_metadata(&mut last, "resourceVersion", Some(json!(removed.revision().to_string())));
        return Ok(Shown::Tree(last));
    }
    // What leads an object out of the store is written even when the disk is full.
    let purpose = if is_going { Purpose::Removal } else { Purpose::Ordinary };
    write.server.store.update(write.key(name), revision, draft, purpose).await.map(Shown::Stored)
}

/// Whether nothing keeps an object that is marked as deleted.
pub(crate) fn may_go(kind: &Kind, value: &Value) -> bool {
    let grace =
        object::at(value, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64).unwrap_or(0);
    let spec_keeps = match kind.strategy().hooks() {
        Hooks::Namespaces => !list(value, &["spec", "finalizers"]).is_empty(),
        Hooks::None | Hooks::Pods | Hooks::Services => false,
    };
    grace == 0 && list(value, &["metadata", "finalizers"]).is_empty() && !spec_keeps
}

/// Gives back what a removed object held.
pub(crate) fn released(write: &Write<'_>, value: &Value) {
    match write.kind.strategy().hooks() {
        Hooks::Services => write.server.addresses.release_service(value),
        Hooks::None | Hooks::Pods | Hooks::Namespaces => {}
    }
}
