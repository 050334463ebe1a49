//! The resolution itself: sources in, ordered environment, command, arguments and findings out.
//!
//! Services first, then `envFrom`, then `env`, all into one list; what a later definition hides is marked and
//! handed to the winner. Expansion sees what stands in the list so far.

mod compose;
mod downward;
mod env;
mod env_file;
mod env_from;
mod finish;
mod name_index;
mod references;
mod service_variables;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::Pod;

use self::compose::known_size;
use self::name_index::NameIndex;
pub use self::service_variables::service_variable_names;
pub(crate) use self::service_variables::service_variables;
use self::service_variables::{chosen_services, count_of, emit_variables};
use crate::error::{ObjectKind, Subject};
use crate::{
    ContainerView, Entry, Environment, Finding, FindingCode, Options, Origin, Part, Reference, ResolveError,
    ResolveProblem, ServiceLinksDefault, Services, Severity, Shadowed, Sources, Text, Value,
};

/// One element of `command` or `args`, expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its value.
    pub value: Value,
    /// The references that it used, in order; at most [`crate::Entry::MAX_REFERENCES`] are kept.
    pub references: Vec<Reference>,
}

/// What a container gets from its manifest and services, as far as it could be resolved.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Resolution {
    /// Service variables, `envFrom` and `env`, in order, each name once: what a kubelet hands to the runtime.
    pub environment: Environment,
    /// `command`; `None` when the container declares none.
    pub command: Option<Vec<Argument>>,
    /// `args`; `None` when the container declares none.
    pub args: Option<Vec<Argument>>,
    /// Findings in the order in which they were met. Errors stand in [`Resolved::errors`] only.
    pub findings: Vec<Finding>,
}

/// The answer of [`resolve`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Resolved {
    /// As far as it goes: a variable that failed is shown as missing.
    pub resolution: Resolution,
    /// Every error, in the order in which a kubelet would meet them.
    pub errors: Vec<ResolveError>,
}

impl Resolved {
    /// The resolution, if there is no error at all.
    ///
    /// # Errors
    ///
    /// Every error, the first first.
    pub fn into_result(self) -> Result<Resolution, Vec<ResolveError>> {
        if self.errors.is_empty() { Ok(self.resolution) } else { Err(self.errors) }
    }

    /// All findings, the errors first.
    pub fn findings(&self) -> Vec<Finding> {
        let errors = self.errors.iter().map(ResolveError::finding);
        errors.chain(self.resolution.findings.iter().cloned()).collect()
    }
}

/// Resolves the environment of one container.
///
/// Nothing of the pod needs to be valid or defaulted; what cannot be used becomes an error in the answer.
pub fn resolve(pod: &Pod, container: &ContainerView<'_>, sources: &Sources, options: &Options) -> Resolved {
    let mut resolver = Resolver::new(pod, container, sources, options);
    resolver.add_services();
    resolver.add_env_from();
    resolver.add_env();
    resolver.finish()
}

/// Findings of one container; a hostile manifest could ask for millions.
const MAX_FINDINGS: usize = 500;

/// Parts of all partly unknown or secret values of one container together.
const MAX_PARTS: usize = 65_536;

/// A variable of `env` that is not set.
#[derive(Clone, Copy)]
struct Skipped {
    /// Its place in `env`.
    index: usize,
    why: SkipReason,
}

/// Why a variable is not set.
#[derive(Clone, Copy)]
enum SkipReason {
    /// Its optional source is absent.
    OptionalAbsent,
    /// The gate `EnvFiles` is off.
    GateOff,
}

/// An `envFrom` source that may define names which are not known here.
struct OpenSource<'a> {
    prefix: &'a str,
    missing: bool,
}

struct Resolver<'a> {
    pod: &'a Pod,
    container: &'a ContainerView<'a>,
    sources: &'a Sources,
    options: &'a Options,
    /// Field path of the container.
    path: String,
    namespace: &'a str,
    /// Whether the services of the pod's namespace give variables.
    links: bool,
    /// Whether references find service variables first.
    prefers_services: bool,
    /// Service variables, then declared ones, in order; overridden ones included.
    entries: Vec<Entry>,
    /// For each entry, whether a later one of its kind hides it.
    overridden: Vec<bool>,
    service_count: usize,
    /// Bytes of the service variables that are not hidden, as `execve` counts them.
    service_bytes: usize,
    /// Places of entries that hide others; may name one twice.
    winners: Vec<usize>,
    services: NameIndex,
    declared: NameIndex,
    /// Variables that were left out, with their place in `env` and why.
    skipped: HashMap<&'a str, Skipped>,
    open_sources: Vec<OpenSource<'a>>,
    /// Sources that were already reported as not in the input.
    reported: BTreeSet<(ObjectKind, &'a str)>,
    /// Env files by volume and path, each opened once.
    files: BTreeMap<(&'a str, &'a str), env_file::OpenedFile>,
    /// Volumes of env files whose mounts were looked at.
    volumes_checked: BTreeSet<&'a str>,
    vocabulary: Option<references::Vocabulary<'a>>,
    /// Values that refer to one that could not be used: the first with that one, and their number.
    built_on_refused: Option<(String, String, usize)>,
    /// Values with too many parts to show each: the first, and their number.
    summed_up: Option<(String, usize)>,
    /// Bytes of all values that were built.
    spent: usize,
    parts_left: usize,
    errors: Vec<ResolveError>,
    findings: Vec<Finding>,
    findings_dropped: usize,
}

impl<'a> Resolver<'a> {
    fn new(
        pod: &'a Pod,
        container: &'a ContainerView<'a>,
        sources: &'a Sources,
        options: &'a Options,
    ) -> Self {
        let annotation = pod
            .metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(crate::SERVICE_VARIABLES_ANNOTATION));
        Self {
            pod,
            container,
            sources,
            options,
            path: format!("{}.{}", options.spec_path, container.path_in_spec()),
            namespace: pod.metadata.namespace.as_deref().filter(|name| !name.is_empty()).unwrap_or("default"),
            links: true,
            prefers_services: annotation.is_some_and(|value| value == crate::SERVICE_VARIABLES_PREFER),
            entries: Vec::new(),
            overridden: Vec::new(),
            service_count: 0,
            service_bytes: 0,
            winners: Vec::new(),
            services: NameIndex::default(),
            declared: NameIndex::with_capacity(container.env.len()),
            skipped: HashMap::new(),
            open_sources: Vec::new(),
            reported: BTreeSet::new(),
            files: BTreeMap::new(),
            volumes_checked: BTreeSet::new(),
            vocabulary: None,
            built_on_refused: None,
            summed_up: None,
            spent: 0,
            parts_left: MAX_PARTS,
            errors: Vec::new(),
            findings: Vec::new(),
            findings_dropped: 0,
        }
    }

    fn add_services(&mut self) {
        self.links = match self.pod.spec.as_ref().and_then(|spec| spec.enable_service_links) {
            Some(links) => links,
            None => {
                if self.options.service_links_default == ServiceLinksDefault::Refused {
                    let field_path = format!("{}.enableServiceLinks", self.options.spec_path);
                    self.errors.push(ResolveError { problem: ResolveProblem::ServiceLinksUnset, field_path });
                }
                true
            }
        };
        let list = match &self.sources.services {
            Services::Complete(list) | Services::Partial(list) => list,
            Services::NotYetRead if is_static(self.pod) => return,
            Services::NotYetRead => return self.fail(ResolveProblem::ServicesNotRead, self.path.clone()),
            Services::Unavailable => {
                return self.fail(ResolveProblem::ServicesUnavailable, self.path.clone());
            }
        };
        let chosen = chosen_services(list, self.namespace, self.links);
        let count = chosen.iter().map(|service| count_of(service)).sum();
        self.entries.reserve(count + self.container.env.len());
        self.services = NameIndex::with_capacity(count);
        let mut ends = Vec::new();
        for service in chosen {
            emit_variables(service, &mut ends, |name, value| {
                let place = self.entries.len();
                let hidden = self.services.insert(&name, place, &self.entries);
                self.service_bytes += counted_bytes(&name, &value);
                let entry = Entry {
                    name,
                    value,
                    origin: Origin::Service(service.clone()),
                    references: Vec::new(),
                    shadowed: Vec::new(),
                };
                self.entries.push(entry);
                self.overridden.push(false);
                if let Some(hidden) = hidden {
                    self.hide(hidden, place);
                }
            });
        }
        self.service_count = self.entries.len();
    }

    /// Moves the entry at `hidden` into the list of what the entry at `winner` hides.
    /// Until the end that list has the weakest first, so that a long chain costs no more than its length.
    fn hide(&mut self, hidden: usize, winner: usize) {
        let loser = &mut self.entries[hidden];
        if matches!(loser.origin, Origin::Service(_)) {
            self.service_bytes -= counted_bytes(&loser.name, &loser.value);
        }
        let value = std::mem::replace(&mut loser.value, Value::EMPTY);
        let mut shadowed = std::mem::take(&mut loser.shadowed);
        shadowed.push(Shadowed { origin: loser.origin.clone(), value });
        self.entries[winner].shadowed = shadowed;
        self.overridden[hidden] = true;
        self.winners.push(winner);
    }

    /// Whether a value of `size` bytes may be built for `name`; if not, the error is noted.
    fn admit(&mut self, name: &str, size: usize, field: impl FnOnce() -> String) -> bool {
        let whole = name.len().saturating_add(size).saturating_add(2);
        let limit = self.options.limits.string_bytes;
        if whole > limit {
            let subject = Subject::Variable(name.to_owned());
            self.fail(ResolveProblem::StringTooLarge { subject, size: whole, limit }, field());
            return false;
        }
        // What is overridden later takes memory all the same, hence some room above the limit itself.
        let room = self.options.limits.total_bytes.saturating_mul(4);
        let before = self.spent;
        self.spent = self.spent.saturating_add(whole);
        if self.spent > room {
            if before <= room {
                let problem = ResolveProblem::TotalTooLarge {
                    size: self.spent,
                    limit: self.options.limits.total_bytes,
                    cause: "its definitions alone exceed it several times".to_owned(),
                };
                self.fail(problem, field());
            }
            return false;
        }
        true
    }

    /// Adds a declared variable, which hides earlier ones of its name.
    fn define(&mut self, name: &str, value: Value, origin: Origin, references: Vec<Reference>) {
        let place = self.entries.len();
        let hidden = self.declared.insert(name, place, &self.entries);
        self.entries.push(Entry { name: name.into(), value, origin, references, shadowed: Vec::new() });
        self.overridden.push(false);
        if let Some(hidden) = hidden {
            self.hide(hidden, place);
        }
    }

    /// Adds a variable whose value could not be had, which an error says; references to it show its name.
    fn define_refused(&mut self, name: &str, origin: Origin) {
        let label = crate::text::short_label(name);
        self.define(name, Value::Composed(vec![Part::Refused { label }]), origin, Vec::new());
    }

    fn fail(&mut self, problem: ResolveProblem, field_path: String) {
        self.errors.push(ResolveError { problem, field_path });
    }

    fn note(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        } else {
            self.findings_dropped += 1;
        }
    }

    fn inform(&mut self, code: FindingCode, field_path: String, variable: &str, message: String, hint: &str) {
        self.note(Finding {
            code,
            severity: Severity::Info,
            field_path,
            span: None,
            variable: (!variable.is_empty()).then(|| variable.to_owned()),
            message,
            hint: (!hint.is_empty()).then(|| hint.to_owned()),
        });
    }

    fn warn(&mut self, code: FindingCode, field_path: String, variable: &str, message: String, hint: &str) {
        self.inform(code, field_path, variable, message, hint);
        if self.findings_dropped == 0
            && let Some(finding) = self.findings.last_mut()
        {
            finding.severity = Severity::Warning;
        }
    }
}

/// Bytes that the kernel counts for a pointer to a string.
const POINTER_BYTES: usize = 8;

/// Bytes that `execve` counts for a variable: `NAME=value`, a NUL and a pointer.
fn counted_bytes(name: &Text, value: &Value) -> usize {
    name.len() + known_size(value) + 2 + POINTER_BYTES
}

/// Whether a process can have a variable called `name`. The API accepts fewer names; keys of `envFrom` and
/// pods of files are not checked by it.
fn is_possible_name(name: &str) -> bool {
    !name.is_empty() && !name.bytes().any(|byte| byte == b'=' || byte == 0)
}

/// Whether a pod comes from a file of the node and not from an API server.
fn is_static(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    let source = annotations.and_then(|annotations| annotations.get("kubernetes.io/config.source"));
    source.is_some_and(|source| source != "api")
}

#[cfg(test)]
mod tests;
