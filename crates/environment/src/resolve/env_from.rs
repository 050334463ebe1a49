//! `envFrom`: every key of a ConfigMap or Secret becomes a variable, behind a prefix.

use std::sync::Arc;

use names::is_posix_shell_name;

use super::{OpenSource, Resolver, is_possible_name};
use crate::error::{ObjectKind, Subject};
use crate::text::quoted;
use crate::{Availability, FindingCode, Origin, Part, ResolveProblem, SecretText, Value};

impl<'a> Resolver<'a> {
    pub(super) fn add_env_from(&mut self) {
        let container = self.container;
        for (index, source) in container.env_from.iter().enumerate() {
            let prefix = source.prefix.as_deref().unwrap_or_default();
            match (&source.config_map_ref, &source.secret_ref) {
                (Some(reference), _) => {
                    self.add_config_map(index, prefix, &reference.name, reference.optional.unwrap_or(false));
                }
                (None, Some(reference)) => {
                    self.add_secret(index, prefix, &reference.name, reference.optional.unwrap_or(false));
                }
                (None, None) => {
                    let field = format!("{}.envFrom", self.path);
                    self.fail(ResolveProblem::NoSource("`configMapRef` or `secretRef`"), field);
                }
            }
        }
    }

    fn add_config_map(&mut self, index: usize, prefix: &'a str, name: &'a str, optional: bool) {
        let sources = self.sources;
        let found = sources
            .config_maps
            .get(name)
            .map_or_else(|| sources.unlisted.as_if_listed(), Availability::as_ref);
        let Some(config_map) = self.open_source(ObjectKind::ConfigMap, index, prefix, name, optional, found)
        else {
            return;
        };
        let object: Arc<str> = name.into();
        let resource_version: Option<Arc<str>> = config_map.resource_version.as_deref().map(Arc::from);
        for (key, value) in &config_map.data {
            let origin = Origin::EnvFromConfigMap {
                index,
                name: object.clone(),
                key: key.as_str().into(),
                resource_version: resource_version.clone(),
            };
            self.add_key(index, prefix, key, value.as_bytes(), origin);
        }
        self.note_unreadable_names(index, prefix, config_map.data.keys());
    }

    fn add_secret(&mut self, index: usize, prefix: &'a str, name: &'a str, optional: bool) {
        let sources = self.sources;
        let found =
            sources.secrets.get(name).map_or_else(|| sources.unlisted.as_if_listed(), Availability::as_ref);
        let Some(secret) = self.open_source(ObjectKind::Secret, index, prefix, name, optional, found) else {
            return;
        };
        let object: Arc<str> = name.into();
        let resource_version: Option<Arc<str>> = secret.resource_version.as_deref().map(Arc::from);
        for (key, value) in &secret.data {
            let origin = Origin::EnvFromSecret {
                index,
                name: object.clone(),
                key: key.as_str().into(),
                resource_version: resource_version.clone(),
            };
            self.add_key(index, prefix, key, value.expose(), origin);
        }
        self.note_unreadable_names(index, prefix, secret.data.keys());
    }

    /// Says once a source that keys such as `app.properties` give names that shells cannot read.
    fn note_unreadable_names<'k>(
        &mut self,
        index: usize,
        prefix: &str,
        keys: impl Iterator<Item = &'k String>,
    ) {
        let names = keys.map(|key| [prefix, key].concat());
        let mut unreadable = names.filter(|name| is_possible_name(name) && !is_posix_shell_name(name));
        let Some(first) = unreadable.next() else { return };
        let message = match unreadable.count() {
            0 => format!("a POSIX shell cannot read a variable called {}", quoted(&first)),
            1 => format!("a POSIX shell cannot read variables called {} and one other", quoted(&first)),
            more => {
                format!("a POSIX shell cannot read variables called {} and {more} others", quoted(&first))
            }
        };
        let field = format!("{}.envFrom[{index}]", self.path);
        let hint =
            "fine for programs that read them themselves; mount keys that are meant as files as a volume";
        self.inform(FindingCode::NameNotPosix, field, &first, message, hint);
    }

    /// The source, if it can be read; otherwise what that means is noted.
    fn open_source<T>(
        &mut self,
        kind: ObjectKind,
        index: usize,
        prefix: &'a str,
        name: &'a str,
        optional: bool,
        found: Availability<&'a T>,
    ) -> Option<&'a T> {
        let field = match kind {
            ObjectKind::ConfigMap => format!("{}.envFrom[{index}].configMapRef.name", self.path),
            ObjectKind::Secret => format!("{}.envFrom[{index}].secretRef.name", self.path),
        };
        match found {
            Availability::Present(object) => return Some(object),
            Availability::Absent if optional => {
                let message = format!(
                    "the optional {} {} does not exist; it gives no variables",
                    kind.as_str(),
                    quoted(name)
                );
                self.inform(FindingCode::OptionalSkipped, field, "", message, "");
            }
            Availability::Absent => {
                self.fail(ResolveProblem::ObjectNotFound { kind, name: name.to_owned() }, field);
            }
            Availability::Unavailable(reason) => {
                let namespace = self.namespace.to_owned();
                let problem =
                    ResolveProblem::ObjectUnavailable { kind, namespace, name: name.to_owned(), reason };
                self.fail(problem, field);
            }
            Availability::NotInInput => {
                self.open_sources.push(OpenSource { prefix, missing: true });
                self.report_not_in_input(kind, name, field, "");
            }
            Availability::UnknownUntilRun => self.open_sources.push(OpenSource { prefix, missing: false }),
        }
        None
    }

    fn add_key(&mut self, index: usize, prefix: &str, key: &str, value: &[u8], origin: Origin) {
        let name = [prefix, key].concat();
        let path = self.path.clone();
        let field = || format!("{path}.envFrom[{index}]");
        if !is_possible_name(&name) {
            return self.fail(ResolveProblem::InvalidName(name), field());
        }
        let is_secret = matches!(origin, Origin::EnvFromSecret { .. });
        match self.read_value(&name, value, is_secret, field) {
            Some(value) => self.define(&name, value, origin, Vec::new()),
            None => self.define_refused(&name, origin),
        }
    }

    /// The value of a variable from the bytes of an object, unless it is not text, has a NUL, or is too large.
    pub(super) fn read_value(
        &mut self,
        name: &str,
        bytes: &[u8],
        is_secret: bool,
        field: impl Fn() -> String,
    ) -> Option<Value> {
        if bytes.contains(&0) {
            self.fail(ResolveProblem::Nul(Subject::Variable(name.to_owned())), field());
            return None;
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.fail(ResolveProblem::NotUtf8(Subject::Variable(name.to_owned())), field());
            return None;
        };
        if !self.admit(name, text.len(), &field) {
            return None;
        }
        Some(if is_secret {
            Value::Composed(vec![Part::Secret(SecretText::new(text))])
        } else {
            Value::plain(text.to_owned())
        })
    }

    /// Says once for each object and container that it is not in the input.
    pub(super) fn report_not_in_input(
        &mut self,
        kind: ObjectKind,
        name: &'a str,
        field: String,
        variable: &str,
    ) {
        if self.reported.insert((kind, name)) {
            let message = format!("the {} {} is not in the input", kind.as_str(), quoted(name));
            let hint = "add its manifest to the input to see what it gives";
            self.inform(FindingCode::SourceNotInInput, field, variable, message, hint);
        }
    }
}
