//! What can be done with a kind, by path: the same for both versions of the documents.

use std::collections::{BTreeMap, BTreeSet};

use schema::openapi::collect;
use schema::{Type, builtin};
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::request::Verb;

const META: &str = "apimachinery/pkg/apis/meta/v1";

/// Everything that can be done with one path.
pub(super) struct Path {
    pub(super) path: String,
    /// The parameters in the path itself.
    pub(super) variables: Vec<Parameter>,
    pub(super) operations: Vec<Operation>,
}

/// One method of a path.
pub(super) struct Operation {
    /// `get`, `post`, ...
    pub(super) method: &'static str,
    pub(super) action: &'static str,
    pub(super) id: String,
    pub(super) description: String,
    pub(super) kind: GroupVersionKind,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Type>,
    /// `None`: text, or nothing that has a schema.
    pub(super) answer: Option<Type>,
}

/// A group, version and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupVersionKind {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
}

impl GroupVersionKind {
    pub(super) fn to_value(self) -> Value {
        json!({"group": self.group, "version": self.version, "kind": self.kind})
    }

    fn ty(self) -> Option<Type> {
        let group_version = match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        };
        builtin().type_for(&group_version, self.kind)
    }
}

/// A parameter of the query, or a part of the path.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `string`, `integer`, `boolean`.
    pub(super) form: &'static str,
    pub(super) description: &'static str,
}

const fn parameter(name: &'static str, form: &'static str, description: &'static str) -> Parameter {
    Parameter { name, form, description }
}

const NAME: Parameter = parameter("name", "string", "The name of the object.");
const NAMESPACE: Parameter = parameter("namespace", "string", "The namespace of the object.");
const DRY_RUN: Parameter = parameter("dryRun", "string", "`All`: everything but the write itself is done.");
const FIELD_MANAGER: Parameter = parameter("fieldManager", "string", "In whose name fields are set.");
const FIELD_VALIDATION: Parameter = parameter(
    "fieldValidation",
    "string",
    "What happens to unknown and duplicate fields: Strict refuses them, Warn tells them, Ignore drops them.",
);
const FORCE: Parameter = parameter("force", "boolean", "Apply takes fields from others that have set them.");
const SELECTION: [Parameter; 9] = [
    parameter("continue", "string", "Where the next part of a list begins, as the part before says."),
    parameter("fieldSelector", "string", "Only objects whose fields have these values."),
    parameter("labelSelector", "string", "Only objects with these labels."),
    parameter("limit", "integer", "Most objects of one answer."),
    parameter("resourceVersion", "string", "The version that is asked for."),
    parameter("resourceVersionMatch", "string", "Exact, or NotOlderThan."),
    parameter("sendInitialEvents", "boolean", "A watch tells the state first and then where it ends."),
    parameter("timeoutSeconds", "integer", "Seconds after which the answer ends."),
    parameter("watch", "boolean", "Changes as they happen instead of a list."),
];
const BOOKMARKS: Parameter =
    parameter("allowWatchBookmarks", "boolean", "A watch says from time to time how far it is.");
const REMOVAL: [Parameter; 4] = [
    DRY_RUN,
    parameter("gracePeriodSeconds", "integer", "Seconds until the object goes."),
    parameter("orphanDependents", "boolean", "In old clients what propagationPolicy says."),
    parameter(
        "propagationPolicy",
        "string",
        "What becomes of dependents: Background, Foreground, or Orphan.",
    ),
];

/// Every path of a kind.
pub(super) fn paths(kind: &Kind) -> Vec<Path> {
    let resource = kind.resource();
    let root = super::root(kind);
    let (collection, scope) = if kind.namespaced() {
        (format!("/{root}/namespaces/{{namespace}}/{}", resource.plural), vec![NAMESPACE])
    } else {
        (format!("/{root}/{}", resource.plural), Vec::new())
    };
    let item = format!("{collection}/{{name}}");
    let own = Maker { kind, name: if kind.namespaced() { "Namespaced" } else { "" } };
    let has = |verb: Verb| resource.verbs.contains(&verb.as_str());
    let of = |verbs: &[Verb]| -> Vec<Operation> {
        verbs.iter().filter(|verb| has(**verb)).map(|verb| own.operation(*verb)).collect()
    };
    let in_item: Vec<Parameter> = std::iter::once(NAME).chain(scope.iter().copied()).collect();
    let mut paths = vec![
        Path {
            path: collection,
            variables: scope,
            operations: of(&[Verb::List, Verb::Create, Verb::DeleteCollection]),
        },
        Path {
            path: item.clone(),
            variables: in_item.clone(),
            operations: of(&[Verb::Get, Verb::Update, Verb::Patch, Verb::Delete]),
        },
    ];
    if kind.namespaced() && has(Verb::List) {
        let everywhere = Maker { kind, name: "ForAllNamespaces" };
        paths.push(Path {
            path: format!("/{root}/{}", resource.plural),
            variables: Vec::new(),
            operations: vec![everywhere.operation(Verb::List)],
        });
    }
    for subresource in resource.subresources.iter().filter(|entry| kind.has_subresource(entry.name)) {
        let version = if subresource.version.is_empty() { resource.version } else { subresource.version };
        let group = if subresource.version.is_empty() { resource.group } else { subresource.group };
        let shown = GroupVersionKind { group, version, kind: subresource.kind };
        let operations = [Verb::Get, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete]
            .into_iter()
            .filter(|verb| subresource.verbs.contains(&verb.as_str()))
            .map(|verb| own.of_subresource(verb, subresource.name, shown))
            .collect();
        paths.push(Path {
            path: format!("{item}/{}", subresource.name),
            variables: in_item.clone(),
            operations,
        });
    }
    paths.retain(|path| !path.operations.is_empty());
    paths
}

/// Makes the operations of a kind; `name` is the part of their ids that says where.
struct Maker<'k> {
    kind: &'k Kind,
    name: &'static str,
}

impl Maker<'_> {
    fn gvk(&self) -> GroupVersionKind {
        let resource = self.kind.resource();
        GroupVersionKind { group: resource.group, version: resource.version, kind: resource.kind }
    }

    /// `CoreV1NamespacedPod`.
    fn id(&self, verb: &str, tail: &str) -> String {
        let resource = self.kind.resource();
        let group = match resource.group {
            "" => "core",
            group => group.split('.').next().unwrap_or_default(),
        };
        let middle = format!("{}{}", capital(group), capital(resource.version));
        // A second resource of the same kind has no name for one of its objects.
        let noun =
            if resource.singular.is_empty() { capital(resource.plural) } else { resource.kind.to_owned() };
        match self.name {
            "ForAllNamespaces" => format!("{verb}{middle}{noun}{tail}ForAllNamespaces"),
            scope => format!("{verb}{middle}{scope}{noun}{tail}"),
        }
    }

    fn operation(&self, verb: Verb) -> Operation {
        let own = self.gvk().ty();
        let (answer, word) = match verb {
            Verb::List | Verb::Watch => (list_type(self.kind), "list"),
            Verb::Create => (own, "create"),
            Verb::Get => (own, "read"),
            Verb::Update => (own, "replace"),
            Verb::Patch => (own, "patch"),
            Verb::Delete => (meta("Status"), "delete"),
            Verb::DeleteCollection => (meta("Status"), "deleteCollection"),
        };
        let body = match verb {
            Verb::Create | Verb::Update => own,
            Verb::Patch => meta("Patch"),
            Verb::Delete | Verb::DeleteCollection => meta("DeleteOptions"),
            Verb::Get | Verb::List | Verb::Watch => None,
        };
        Operation {
            method: method(verb),
            action: action(verb),
            id: self.id(word, ""),
            description: format!("{} of the kind {}.", said(verb), self.kind.kind()),
            kind: self.gvk(),
            parameters: parameters(verb),
            body,
            answer,
        }
    }

    fn of_subresource(&self, verb: Verb, name: &str, shown: GroupVersionKind) -> Operation {
        let ty = shown.ty();
        let body = match verb {
            Verb::Create | Verb::Update => ty,
            Verb::Patch => meta("Patch"),
            Verb::Get | Verb::List | Verb::Watch | Verb::Delete | Verb::DeleteCollection => None,
        };
        let is_stream = matches!(name, "attach" | "exec" | "log" | "portforward" | "proxy");
        Operation {
            method: method(verb),
            action: if is_stream && name != "log" { "connect" } else { action(verb) },
            id: self.id(&format!("{}{}", action(verb), capital(method(verb))), &capital(name)),
            description: format!(
                "The part {name} of an object of the kind {}: {}.",
                self.kind.kind(),
                action(verb)
            ),
            kind: shown,
            parameters: if is_stream { Vec::new() } else { parameters(verb) },
            body: if is_stream { None } else { body },
            answer: if is_stream { None } else { ty },
        }
    }
}

fn method(verb: Verb) -> &'static str {
    match verb {
        Verb::Get | Verb::List | Verb::Watch => "get",
        Verb::Create => "post",
        Verb::Update => "put",
        Verb::Patch => "patch",
        Verb::Delete | Verb::DeleteCollection => "delete",
    }
}

fn action(verb: Verb) -> &'static str {
    match verb {
        Verb::Create => "post",
        Verb::Update => "put",
        other => other.as_str(),
    }
}

fn said(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "Reads an object",
        Verb::List | Verb::Watch => "Lists or watches objects",
        Verb::Create => "Creates an object",
        Verb::Update => "Replaces an object",
        Verb::Patch => "Changes a part of an object",
        Verb::Delete => "Deletes an object",
        Verb::DeleteCollection => "Deletes the selected objects",
    }
}

fn parameters(verb: Verb) -> Vec<Parameter> {
    match verb {
        Verb::Get => Vec::new(),
        Verb::List | Verb::Watch => std::iter::once(BOOKMARKS).chain(SELECTION).collect(),
        Verb::Create | Verb::Update => vec![DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION],
        Verb::Patch => vec![DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE],
        Verb::Delete => REMOVAL.to_vec(),
        Verb::DeleteCollection => REMOVAL.into_iter().chain(SELECTION).collect(),
    }
}

fn meta(name: &str) -> Option<Type> {
    builtin().type_named(META, name)
}

fn list_type(kind: &Kind) -> Option<Type> {
    builtin().type_for(kind.group_version(), kind.list_kind()).filter(|ty| ty.name() == kind.list_kind())
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// The schemas that the kinds and what is done with them need, each with the kinds that it is.
pub(super) fn types(kinds: &[&Kind], paths: &[Path]) -> BTreeMap<Type, BTreeSet<GroupVersionKind>> {
    let mut found = BTreeSet::new();
    let mut named: BTreeMap<Type, BTreeSet<GroupVersionKind>> = BTreeMap::new();
    let mut name = |ty: Type, gvk: GroupVersionKind| {
        named.entry(struct_of(ty)).or_default().insert(gvk);
    };
    for operation in paths.iter().flat_map(|path| &path.operations) {
        for ty in [operation.body, operation.answer].into_iter().flatten() {
            collect(ty, &mut found);
        }
        if let Some(ty) = operation.kind.ty() {
            collect(ty, &mut found);
            name(ty, operation.kind);
        }
    }
    for kind in kinds {
        let resource = kind.resource();
        let of = |kind| GroupVersionKind { group: resource.group, version: resource.version, kind };
        if let (Some(ty), Some(options)) = (list_type(kind), meta("DeleteOptions")) {
            name(ty, GroupVersionKind { kind: ty.name(), ..of("") });
            name(options, of("DeleteOptions"));
        }
    }
    if let Some(ty) = meta("Status") {
        name(ty, GroupVersionKind { group: "", version: "v1", kind: "Status" });
    }
    found.into_iter().map(|ty| (ty, named.remove(&ty).unwrap_or_default())).collect()
}

/// The struct behind a type that is another name for it.
fn struct_of(ty: Type) -> Type {
    schema::Shape::Named(ty).named().unwrap_or(ty)
}
