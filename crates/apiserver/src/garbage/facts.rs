//! What garbage collection knows of an object: who owns it, and whether it is on its way out.

use std::borrow::Cow;

use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;
use store::{Key, Object};

use crate::deletion::{FOREGROUND, ORPHAN};
use crate::kinds::KindTable;
use crate::object::text;

/// How far an object is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It stays.
    No,
    /// It goes when somebody else lets it go: its grace, or other finalizers.
    Otherwise,
    /// It waits for its dependents to go first.
    Foreground,
    /// It waits for its dependents to be told to forget it.
    Orphaning,
}

/// The finalizer that says what becomes of the dependents, also while the object stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    None,
    Foreground,
    Orphan,
}

/// A reference to an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// Where the owner would be.
    pub(super) place: OwnerPlace,
    pub(super) uid: String,
    /// Whether the owner, when it waits for its dependents, waits for this one.
    pub(super) blocks: bool,
    /// `[v1/ConfigMap, namespace: a, name: b, uid: c]`, as upstream prints it.
    pub(super) shown: String,
}

impl Owner {
    /// Whether it is what an entry of `ownerReferences` names.
    pub(super) fn is_named_by(&self, reference: &Value) -> bool {
        let has_name = match &self.place {
            OwnerPlace::At(place) => text(reference, &["name"]) == place.name(),
            OwnerPlace::UnknownKind | OwnerPlace::NoNamespace => true,
        };
        has_name && text(reference, &["uid"]) == self.uid
    }
}

/// Where a reference leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OwnerPlace {
    /// To this object, if it is there and has the uid.
    At(Key),
    /// To a kind that is not served: nothing is known about the owner, so nothing follows.
    UnknownKind,
    /// From an object of the whole cluster into some namespace, which the reference cannot name.
    NoNamespace,
}

/// What is known of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) uid: String,
    pub(super) owners: Vec<Owner>,
    pub(super) ending: Ending,
    pub(super) wish: Wish,
}

impl Facts {
    /// Whether collection ever has to look at the object by itself.
    pub(super) fn matters(&self) -> bool {
        let ends_here = match self.ending {
            Ending::Foreground | Ending::Orphaning => true,
            Ending::No | Ending::Otherwise => false,
        };
        ends_here || !self.owners.is_empty()
    }
}

#[derive(Deserialize)]
struct Head<'v> {
    #[serde(borrow)]
    metadata: Metadata<'v>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'v> {
    #[serde(borrow, default)]
    uid: Cow<'v, str>,
    #[serde(borrow, default)]
    owner_references: Vec<Reference<'v>>,
    #[serde(borrow, default)]
    finalizers: Vec<Cow<'v, str>>,
    #[serde(borrow, default)]
    deletion_timestamp: Option<Cow<'v, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'v> {
    #[serde(borrow, default)]
    api_version: Cow<'v, str>,
    #[serde(borrow, default)]
    kind: Cow<'v, str>,
    #[serde(borrow, default)]
    name: Cow<'v, str>,
    #[serde(borrow, default)]
    uid: Cow<'v, str>,
    #[serde(default)]
    block_owner_deletion: Option<bool>,
}

/// Whether an object can matter at all: most do not, and for them nothing is parsed.
pub(super) fn may_matter(object: &Object) -> bool {
    let value = object.value();
    memmem::find(value, b"\"ownerReferences\"").is_some()
        || memmem::find(value, b"\"deletionTimestamp\"").is_some()
}

/// Reads the facts of a stored object.
pub(super) fn read(kinds: &KindTable, object: &Object) -> Option<Facts> {
    let head: Head<'_> = serde_json::from_slice(object.value()).ok()?;
    let metadata = head.metadata;
    let has = |wanted: &str| metadata.finalizers.iter().any(|finalizer| finalizer == wanted);
    let wish = match (has(ORPHAN), has(FOREGROUND)) {
        (true, _) => Wish::Orphan,
        (false, true) => Wish::Foreground,
        (false, false) => Wish::None,
    };
    let ending = match (metadata.deletion_timestamp.is_some(), wish) {
        (false, _) => Ending::No,
        (true, Wish::None) => Ending::Otherwise,
        (true, Wish::Foreground) => Ending::Foreground,
        (true, Wish::Orphan) => Ending::Orphaning,
    };
    let owners = metadata
        .owner_references
        .iter()
        .map(|reference| Owner {
            place: place(kinds, object.key().namespace(), reference),
            uid: reference.uid.to_string(),
            blocks: reference.block_owner_deletion == Some(true),
            shown: format!(
                "[{}/{}, namespace: {}, name: {}, uid: {}]",
                reference.api_version,
                reference.kind,
                object.key().namespace(),
                reference.name,
                reference.uid
            ),
        })
        .collect();
    Some(Facts { uid: metadata.uid.into_owned(), owners, ending, wish })
}

fn place(kinds: &KindTable, namespace: &str, reference: &Reference<'_>) -> OwnerPlace {
    match kinds.of_type(&reference.api_version, &reference.kind) {
        None => OwnerPlace::UnknownKind,
        Some(kind) if kind.namespaced() && namespace.is_empty() => OwnerPlace::NoNamespace,
        Some(kind) => {
            let namespace = if kind.namespaced() { namespace } else { "" };
            OwnerPlace::At(Key::new(kind.collection(), namespace, &reference.name))
        }
    }
}
