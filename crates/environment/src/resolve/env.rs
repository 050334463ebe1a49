//! `env`: literal values, expanded in order, and keys of ConfigMaps and Secrets.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource};
use names::{EnvNameGrammar, EnvVarName, is_posix_shell_name};

use super::references::Target;
use super::{Resolver, SkipReason, Skipped, is_possible_name};
use crate::error::ObjectKind;
use crate::text::quoted;
use crate::{Availability, FindingCode, Origin, Part, ResolveProblem, Value};

/// The sources of `valueFrom`, as the API lists them.
const VALUE_SOURCES: &str =
    "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";

/// What a key of an object said.
enum KeyAnswer<'b> {
    /// Its bytes.
    Bytes(&'b [u8]),
    /// Nothing, and the reference is optional.
    Skip,
    /// Nothing, and an error was noted.
    Failed,
    /// It is not known here.
    Open { missing: bool },
}

impl<'a> Resolver<'a> {
    pub(super) fn add_env(&mut self) {
        let container = self.container;
        let mut first_places = HashMap::with_capacity(container.env.len());
        for (index, variable) in container.env.iter().enumerate() {
            if !is_possible_name(&variable.name) {
                let field = format!("{}.env[{index}].name", self.path);
                self.fail(ResolveProblem::InvalidName(variable.name.clone()), field);
                continue;
            }
            self.note_name(index, &variable.name);
            if let Some(earlier) = first_places.insert(variable.name.as_str(), index) {
                self.note_duplicate(earlier, index, variable);
            }
            match (&variable.value, &variable.value_from) {
                (Some(text), _) if !text.is_empty() => self.add_literal(index, &variable.name, text),
                (_, Some(source)) => self.add_value_from(index, &variable.name, source),
                _ => {
                    if self.admit(&variable.name, 0, || format!("env[{index}]")) {
                        let empty = Value::EMPTY;
                        self.define(&variable.name, empty, Origin::Value { index }, Vec::new());
                    }
                }
            }
        }
    }

    fn note_name(&mut self, index: usize, name: &str) {
        if is_posix_shell_name(name) {
            return;
        }
        let grammar =
            if self.options.gates.relaxed_names { EnvNameGrammar::Relaxed } else { EnvNameGrammar::Strict };
        let field = format!("{}.env[{index}].name", self.path);
        match EnvVarName::check(name, grammar) {
            Err(error) => {
                let message = format!("the API server refuses the name {}: {error}", quoted(name));
                self.warn(FindingCode::NameNotAccepted, field, name, message, "choose another name");
            }
            Ok(()) => {
                let message = format!("a POSIX shell cannot read a variable called {}", quoted(name));
                let hint =
                    "fine for programs that read it themselves; shells need letters, digits and '_' only";
                self.inform(FindingCode::NameNotPosix, field, name, message, hint);
            }
        }
    }

    /// Kubernetes warns of a second definition that does not build upon the first; so do we, in its words.
    fn note_duplicate(&mut self, earlier: usize, index: usize, variable: &EnvVar) {
        let reference = format!("$({})", variable.name);
        let builds_upon = variable.value_from.is_none()
            && variable.value.as_deref().is_some_and(|text| text != reference && text.contains(&reference));
        if builds_upon {
            return;
        }
        let field = format!("{}.env[{index}]", self.path);
        let message = format!(
            "hides previous definition of {}, which may be dropped when using apply",
            quoted(&variable.name)
        );
        let hint = format!("remove env[{earlier}] or env[{index}], or build upon the first with {reference}");
        self.warn(FindingCode::DuplicateName, field, &variable.name, message, &hint);
    }

    fn add_literal(&mut self, index: usize, name: &'a str, text: &'a str) {
        let path = self.path.clone();
        let field = || format!("{path}.env[{index}].value");
        let origin = Origin::Value { index };
        if text.as_bytes().contains(&0) {
            let subject = crate::error::Subject::Variable(name.to_owned());
            self.fail(ResolveProblem::Nul(subject), field());
            return self.define_refused(name, origin);
        }
        match self.expand(text, Target::Variable { name, index }, &field) {
            Some((value, references)) => self.define(name, value, origin, references),
            None => self.define_refused(name, origin),
        }
    }

    fn add_value_from(&mut self, index: usize, name: &'a str, source: &'a EnvVarSource) {
        if let Some(reference) = &source.field_ref {
            self.add_field(index, name, reference);
        } else if let Some(reference) = &source.resource_field_ref {
            self.add_resource(index, name, reference);
        } else if let Some(reference) = &source.config_map_key_ref {
            let optional = reference.optional.unwrap_or(false);
            self.add_config_map_key(index, name, &reference.name, &reference.key, optional);
        } else if let Some(reference) = &source.secret_key_ref {
            let optional = reference.optional.unwrap_or(false);
            self.add_secret_key(index, name, &reference.name, &reference.key, optional);
        } else if let Some(reference) = &source.file_key_ref {
            self.add_file_key(index, name, reference);
        } else {
            let field = format!("{}.env[{index}].valueFrom", self.path);
            self.fail(ResolveProblem::NoSource(VALUE_SOURCES), field);
        }
    }

    fn add_config_map_key(
        &mut self,
        index: usize,
        variable: &'a str,
        name: &'a str,
        key: &'a str,
        optional: bool,
    ) {
        let sources = self.sources;
        let found = sources
            .config_maps
            .get(name)
            .map_or_else(|| sources.unlisted.as_if_listed(), Availability::as_ref);
        let resource_version = match &found {
            Availability::Present(object) => object.resource_version.as_deref().map(Arc::from),
            _ => None,
        };
        let origin = Origin::ConfigMapKeyRef { index, name: name.into(), key: key.into(), resource_version };
        let found = found.map(|object| {
            let value = object.data.get(key).map(String::as_bytes);
            value.ok_or_else(|| MissingKey {
                similar: similar_key(object.data.keys(), key),
                in_binary_data: object.binary_keys.contains(key),
            })
        });
        let place = KeyPlace { kind: ObjectKind::ConfigMap, index, variable, name, key, optional };
        let answer = self.ask_key(&place, found);
        self.add_key_answer(&place, answer, origin);
    }

    fn add_secret_key(
        &mut self,
        index: usize,
        variable: &'a str,
        name: &'a str,
        key: &'a str,
        optional: bool,
    ) {
        let sources = self.sources;
        let found =
            sources.secrets.get(name).map_or_else(|| sources.unlisted.as_if_listed(), Availability::as_ref);
        let resource_version = match &found {
            Availability::Present(object) => object.resource_version.as_deref().map(Arc::from),
            _ => None,
        };
        let origin = Origin::SecretKeyRef { index, name: name.into(), key: key.into(), resource_version };
        let found = found.map(|object| {
            let value = object.data.get(key).map(|value| value.expose());
            value.ok_or_else(|| MissingKey {
                similar: similar_key(object.data.keys(), key),
                in_binary_data: false,
            })
        });
        let place = KeyPlace { kind: ObjectKind::Secret, index, variable, name, key, optional };
        let answer = self.ask_key(&place, found);
        self.add_key_answer(&place, answer, origin);
    }

    /// Finds a key in an object that may not be there.
    fn ask_key<'b>(
        &mut self,
        place: &KeyPlace<'a>,
        found: Availability<Result<&'b [u8], MissingKey>>,
    ) -> KeyAnswer<'b> {
        let KeyPlace { kind, name, key, .. } = *place;
        match found {
            Availability::Present(Ok(value)) => KeyAnswer::Bytes(value),
            Availability::Present(Err(_)) | Availability::Absent if place.optional => {
                let what = match found {
                    Availability::Absent => format!("{} {} does not exist", kind.as_str(), quoted(name)),
                    _ => format!("{} {} has no key {}", kind.as_str(), quoted(name), quoted(key)),
                };
                self.skip(place.index, place.variable, &what);
                KeyAnswer::Skip
            }
            Availability::Present(Err(MissingKey { similar, in_binary_data })) => {
                let problem = ResolveProblem::KeyNotFound {
                    kind,
                    namespace: self.namespace.to_owned(),
                    name: name.to_owned(),
                    key: key.to_owned(),
                    in_binary_data,
                    similar,
                };
                self.fail(problem, place.field(&self.path, "key"));
                KeyAnswer::Failed
            }
            Availability::Absent => {
                let problem = ResolveProblem::ObjectNotFound { kind, name: name.to_owned() };
                self.fail(problem, place.field(&self.path, "name"));
                KeyAnswer::Failed
            }
            Availability::Unavailable(reason) => {
                let namespace = self.namespace.to_owned();
                let problem =
                    ResolveProblem::ObjectUnavailable { kind, namespace, name: name.to_owned(), reason };
                self.fail(problem, place.field(&self.path, "name"));
                KeyAnswer::Failed
            }
            Availability::NotInInput => {
                let field = place.field(&self.path, "name");
                self.report_not_in_input(kind, name, field, place.variable);
                KeyAnswer::Open { missing: true }
            }
            Availability::UnknownUntilRun => KeyAnswer::Open { missing: false },
        }
    }

    fn add_key_answer(&mut self, place: &KeyPlace<'a>, answer: KeyAnswer<'_>, origin: Origin) {
        let value = match answer {
            KeyAnswer::Skip => return,
            KeyAnswer::Failed => None,
            KeyAnswer::Bytes(bytes) => {
                let path = self.path.clone();
                let is_secret = place.kind == ObjectKind::Secret;
                self.read_value(place.variable, bytes, is_secret, || place.field(&path, "key"))
            }
            KeyAnswer::Open { missing } => {
                let kind = match place.kind {
                    ObjectKind::ConfigMap => "configMap",
                    ObjectKind::Secret => "secret",
                };
                let label = crate::text::short_label(&format!("{kind} {} key {}", place.name, place.key));
                let part = if missing { Part::Missing { label } } else { Part::UnknownUntilRun { label } };
                Some(Value::Composed(vec![part]))
            }
        };
        match value {
            Some(value) => self.define(place.variable, value, origin, Vec::new()),
            None => self.define_refused(place.variable, origin),
        }
    }

    /// Notes that an optional source is absent; an earlier definition of the variable stays in place.
    pub(super) fn skip(&mut self, index: usize, variable: &'a str, what: &str) {
        self.skipped.insert(variable, Skipped { index, why: SkipReason::OptionalAbsent });
        let field = format!("{}.env[{index}]", self.path);
        let message = format!("{} is not set here: {what}, and the reference is optional", quoted(variable));
        self.inform(FindingCode::OptionalSkipped, field, variable, message, "");
    }
}

/// What is worth knowing about an object that lacks a key.
struct MissingKey {
    /// A key that differs only by case.
    similar: Option<String>,
    in_binary_data: bool,
}

fn similar_key<'k>(mut keys: impl Iterator<Item = &'k String>, wanted: &str) -> Option<String> {
    keys.find(|key| key.eq_ignore_ascii_case(wanted)).cloned()
}

/// A `configMapKeyRef` or `secretKeyRef`.
struct KeyPlace<'a> {
    kind: ObjectKind,
    index: usize,
    variable: &'a str,
    name: &'a str,
    key: &'a str,
    optional: bool,
}

impl KeyPlace<'_> {
    fn field(&self, path: &str, member: &str) -> String {
        let reference = match self.kind {
            ObjectKind::ConfigMap => "configMapKeyRef",
            ObjectKind::Secret => "secretKeyRef",
        };
        format!("{path}.env[{}].valueFrom.{reference}.{member}", self.index)
    }
}
