//! Pods of the input to records with places: what `coracle env -f` knows, before it is printed in any form.

use std::collections::BTreeMap;

use api::FeatureGates;
use environment::record::{
    ContainerRecord, EnvironmentRecord, FindingRecord, OriginRecord, PodRecord, PositionRecord, SourceRecord,
    VariableRecord,
};
use environment::{
    Availability, ContainerView, Finding, FindingCode, Gates, Options, Reveal, RuntimeFacts, Severity,
    Sources, State,
};
use manifest::{Document, Notice, Span};

use super::excerpt::{Mistake, Place};
use super::local_images::LocalImages;
use super::refusals::{entry_of, refusals};
use super::sources::InputSources;
use super::workload::{Workload, has_pods, workload};
use crate::input::{Input, InputObject};

/// What the flags decide.
pub(super) struct Settings {
    /// Namespace of objects that name none.
    pub(super) namespace: String,
    /// Feature gates.
    pub(super) gates: FeatureGates,
    /// Syntax of env files.
    pub(super) env_file_syntax: envfile::Syntax,
    /// Whether Secrets are shown.
    pub(super) reveal: Reveal,
}

/// All that is to be said.
#[derive(Default)]
pub(super) struct Explanation {
    /// The pods in the order of the input.
    pub(super) pods: Vec<ExplainedPod>,
    /// What could not be read.
    pub(super) mistakes: Vec<Mistake>,
}

/// One pod.
pub(super) struct ExplainedPod {
    /// Kind of the object that it comes from.
    pub(super) kind: String,
    /// The record.
    pub(super) record: PodRecord,
    /// One element for each container of the record.
    pub(super) containers: Vec<ContainerNotes>,
}

/// What is known of a container beside its record.
#[derive(Default)]
pub(super) struct ContainerNotes {
    /// Its image, when something about it deserves to be said.
    pub(super) image: String,
    /// Whether the image's own variables are part of the record.
    pub(super) image_is_known: bool,
    /// The place of each finding of the record.
    pub(super) places: Vec<Option<Place>>,
}

impl Explanation {
    /// A record that was read elsewhere: nothing is known of places.
    pub(super) fn of_record(record: EnvironmentRecord) -> Self {
        let explained = |record: PodRecord| ExplainedPod {
            kind: "Pod".to_owned(),
            containers: record
                .containers
                .iter()
                .map(|container| ContainerNotes {
                    image: String::new(),
                    image_is_known: true,
                    places: vec![None; container.findings.len()],
                })
                .collect(),
            record,
        };
        Self { pods: record.pods.into_iter().map(explained).collect(), mistakes: Vec::new() }
    }

    /// Leaves out every other container, and pods without any; answers the names that there were.
    pub(super) fn keep_container(&mut self, name: &str) -> Vec<String> {
        let mut known = Vec::new();
        for pod in &mut self.pods {
            known.extend(pod.record.containers.iter().map(|container| container.name.clone()));
            let mut keeps = pod.record.containers.iter().map(|container| container.name == name);
            pod.containers.retain(|_| keeps.next().unwrap_or(false));
            pod.record.containers.retain(|container| container.name == name);
        }
        self.pods.retain(|pod| !pod.record.containers.is_empty());
        known
    }

    /// The worst severity of all findings.
    pub(super) fn worst_severity(&self) -> Option<Severity> {
        let findings =
            self.pods.iter().flat_map(|pod| &pod.record.containers).flat_map(|each| &each.findings);
        findings.map(|finding| finding.severity).max()
    }
}

/// Explains every pod and pod template of the input.
pub(super) fn explain(input: &Input, images: &LocalImages, settings: &Settings) -> Explanation {
    let mut explanation = Explanation::default();
    let mut offered = InputSources::default();
    for object in &input.objects {
        if let Err(mistake) = offered.take(object, namespace_of(object, settings)) {
            explanation.mistakes.push(FileOf::new(input, object).mistake(mistake));
        }
    }
    // Each namespace's sources are put together once: charts have hundreds of pods.
    let mut sources: BTreeMap<&str, Sources> = BTreeMap::new();
    for object in input.objects.iter().filter(|object| has_pods(object)) {
        match workload(object, namespace_of(object, settings)) {
            Err(mistake) => explanation.mistakes.push(FileOf::new(input, object).mistake(mistake)),
            Ok(None) => {}
            Ok(Some(workload)) => {
                let namespace = namespace_of(object, settings);
                let sources = sources.entry(namespace).or_insert_with(|| offered.of_namespace(namespace));
                let file = FileOf::new(input, object);
                let subject = Subject { file, object, workload: &workload, images, settings };
                explanation.pods.push(subject.explain(sources));
            }
        }
    }
    explanation
}

fn namespace_of<'a>(object: &'a InputObject, settings: &'a Settings) -> &'a str {
    object.namespace.as_deref().unwrap_or(&settings.namespace)
}

/// The file that an object stands in.
struct FileOf<'i> {
    name: &'i str,
    text: &'i str,
    /// Whether what stands there may be shown.
    is_secret: bool,
}

impl<'i> FileOf<'i> {
    fn new(input: &'i Input, object: &InputObject) -> Self {
        let file = &input.files[object.file];
        // The parser has accepted it, so it is text.
        let text = std::str::from_utf8(&file.text).unwrap_or_default();
        Self { name: &file.name, text, is_secret: object.kind == "Secret" }
    }

    fn place(&self, span: Span) -> Place {
        Place::of(self.name, self.text, span)
    }

    fn mistake(&self, mistake: super::decode::DecodeMistake) -> Mistake {
        let mut place = self.place(mistake.span);
        if self.is_secret {
            place = Place { text: String::new(), range: 0..0, ..place };
        }
        let written = &place.text[place.range.clone()];
        let hint = match mistake.wants_quotes && !written.is_empty() {
            true => format!("put it in quotes: \"{written}\""),
            false => mistake.hint,
        };
        Mistake { message: mistake.message, hint, label: mistake.label, place }
    }
}

/// A pod that is being explained, with everything that it takes.
struct Subject<'i> {
    file: FileOf<'i>,
    object: &'i InputObject,
    workload: &'i Workload,
    images: &'i LocalImages,
    settings: &'i Settings,
}

impl Subject<'_> {
    fn explain(&self, sources: &mut Sources) -> ExplainedPod {
        let pod = &self.workload.pod;
        let options = Options {
            spec_path: self.workload.spec_path.clone(),
            gates: Gates {
                env_files: self.settings.gates.env_files,
                relaxed_names: self.settings.gates.relaxed_environment_variable_validation,
            },
            env_file_syntax: self.settings.env_file_syntax,
            ..Options::default()
        };
        let mut record = PodRecord {
            namespace: namespace_of(self.object, self.settings).to_owned(),
            name: self.object.name.clone(),
            source: Some(SourceRecord {
                file: self.file.name.to_owned(),
                line: self.object.document.root.span.start.line,
            }),
            containers: Vec::new(),
        };
        let mut notes = Vec::new();
        let refusals = refusals(pod, &self.workload.spec_path, self.settings.gates);
        for container in pod.spec.iter().flat_map(environment::containers) {
            let image = self.images.config_of(container.image);
            let facts = RuntimeFacts { hostname: self.hostname(), tty: container.tty, home: None };
            let image_is_known = image.is_some();
            sources.image = image.map_or(Availability::NotInInput, Availability::Present);
            let resolved = environment::resolve(pod, &container, sources, &options);
            let image_env = match &sources.image {
                Availability::Present(image) => image.env.as_slice(),
                Availability::Absent
                | Availability::NotInInput
                | Availability::UnknownUntilRun
                | Availability::Unavailable(_) => &[],
            };
            let declared = resolved.resolution.environment.clone();
            let process = environment::compose_process_environment(&facts, image_env, declared);
            let mut places = Vec::new();
            let mut container_record =
                ContainerRecord::new(&container, &process, &resolved, self.settings.reveal, |finding| {
                    let place = self.place_of(finding);
                    let position = place.as_ref().map(position);
                    places.push(place);
                    position
                });
            if !image_is_known {
                forget_default_path(&mut container_record);
            }
            self.add_refusals(&container, &refusals, &mut container_record.findings, &mut places);
            for (finding, place) in self.notices(&container) {
                container_record.findings.push(finding);
                places.push(Some(place));
            }
            errors_first(&mut container_record.findings, &mut places);
            record.containers.push(container_record);
            notes.push(ContainerNotes { image: container.image.to_owned(), image_is_known, places });
        }
        ExplainedPod { kind: self.object.kind.clone(), record, containers: notes }
    }

    /// Adds what the API would refuse about this container, unless the engine has said it of the same entry.
    fn add_refusals(
        &self,
        container: &ContainerView<'_>,
        refusals: &[FindingRecord],
        findings: &mut Vec<FindingRecord>,
        places: &mut Vec<Option<Place>>,
    ) {
        let container_path = format!("{}.{}.", self.workload.spec_path, container.path_in_spec());
        for refusal in refusals.iter().filter(|refusal| refusal.field_path.starts_with(&container_path)) {
            let is_said = |each: &FindingRecord| {
                (each.severity == Severity::Error || each.code == FindingCode::NameNotAccepted.as_str())
                    && each.code != refusal.code
                    && entry_of(&each.field_path) == entry_of(&refusal.field_path)
            };
            if findings.iter().any(is_said) {
                continue;
            }
            let place = self.file.place(self.object.document.locate(&refusal.field_path).span());
            findings.push(FindingRecord { position: Some(position(&place)), ..refusal.clone() });
            places.push(Some(place));
        }
    }

    /// The host name that the pod will have, where its name is known already.
    fn hostname(&self) -> Option<String> {
        let spec = self.workload.pod.spec.as_ref()?;
        if spec.host_network == Some(true) {
            return None;
        }
        let name = spec.hostname_override.as_ref().or(spec.hostname.as_ref()).or(self
            .workload
            .pod
            .metadata
            .name
            .as_ref())?;
        let cut: String = name.chars().take(63).collect();
        Some(cut.trim_end_matches(['-', '.']).to_owned())
    }

    /// Where a finding's field, or the part of its value, stands.
    fn place_of(&self, finding: &Finding) -> Option<Place> {
        let located = self.object.document.locate(&finding.field_path);
        let span = match &finding.span {
            Some(part) if located.is_complete => located.node.span_of(self.file.text, part.clone()),
            Some(_) | None => located.span(),
        };
        Some(self.file.place(span))
    }

    /// What the document itself deserves to be told, for the container that it is about.
    fn notices(&self, container: &ContainerView<'_>) -> Vec<(FindingRecord, Place)> {
        let document = &self.object.document;
        let container_path = format!("{}.{}", self.workload.spec_path, container.path_in_spec());
        // What is about no container is told with the first one.
        let is_first = self
            .workload
            .pod
            .spec
            .iter()
            .flat_map(environment::containers)
            .next()
            .is_some_and(|first| (first.kind, first.index) == (container.kind, container.index));
        let is_mine = |path: &str| {
            let rest = path.strip_prefix(&container_path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
                || (is_first && !self.is_in_container(path))
        };
        let mut notices = Vec::new();
        for warning in &self.workload.warnings {
            let Some(path) = warning.split('"').nth(1).filter(|path| is_mine(path)) else { continue };
            let located = document.locate(path);
            let span = located.key_span.filter(|_| located.is_complete).unwrap_or(located.span());
            let place = self.place_of_notice(path, span);
            let finding = FindingRecord {
                code: "unknown-field".to_owned(),
                severity: Severity::Warning,
                field_path: path.to_owned(),
                variable: None,
                message: warning.clone(),
                hint: "Kubernetes drops it; check its spelling and indentation".to_owned(),
                position: Some(position(&place)),
            };
            notices.push((finding, place));
        }
        for Notice::DuplicateKey { key, first, again } in &document.notices {
            let path = path_of_key(document, *again).unwrap_or_default();
            if !is_mine(&path) {
                continue;
            }
            let place = self.place_of_notice(&path, *again);
            let finding = FindingRecord {
                code: "duplicate-key".to_owned(),
                severity: Severity::Warning,
                field_path: path,
                variable: None,
                message: format!(
                    "key {key} was written before at line {}; the last one wins",
                    first.start.line
                ),
                hint: "remove one of them".to_owned(),
                position: Some(position(&place)),
            };
            notices.push((finding, place));
        }
        notices
    }

    /// The place of something about the document. Outside the pod spec, where a forgotten `---` may have left a
    /// Secret, only the place is told.
    fn place_of_notice(&self, path: &str, span: Span) -> Place {
        let place = self.file.place(span);
        if path.starts_with(&self.workload.spec_path) {
            return place;
        }
        Place { text: String::new(), range: 0..0, ..place }
    }

    fn is_in_container(&self, path: &str) -> bool {
        let rest =
            path.strip_prefix(self.workload.spec_path.as_str()).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some_and(|rest| {
            ["containers[", "initContainers[", "ephemeralContainers["]
                .iter()
                .any(|list| rest.starts_with(list))
        })
    }
}

/// The field path of the key that is written at a span.
fn path_of_key(document: &Document, span: Span) -> Option<String> {
    let mut open = vec![(String::new(), &document.root)];
    while let Some((path, node)) = open.pop() {
        for entry in node.entries() {
            let key_path = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
            if entry.key_span == span {
                return Some(key_path);
            }
            open.push((key_path, &entry.value));
        }
        for (index, item) in node.items().iter().enumerate() {
            open.push((format!("{path}[{index}]"), item));
        }
    }
    None
}

fn position(place: &Place) -> PositionRecord {
    PositionRecord { file: place.file.clone(), line: place.line, column: place.column }
}

/// An image that is not here sets a search path of its own, most likely: the runtime's is not what it gets.
fn forget_default_path(record: &mut ContainerRecord) {
    let is_default = |each: &&mut VariableRecord| each.name == "PATH" && each.origin == OriginRecord::Runtime;
    if let Some(path) = record.environment.iter_mut().find(is_default) {
        path.value = None;
        path.display = "<PATH of the image>".to_owned();
        path.state = State::Missing;
        path.origin = OriginRecord::Image;
    }
}

/// Puts errors before everything else, each kind in the order in which it was found; each finding keeps its place.
fn errors_first(findings: &mut Vec<FindingRecord>, places: &mut Vec<Option<Place>>) {
    let mut both: Vec<_> = findings.drain(..).zip(places.drain(..)).collect();
    both.sort_by_key(|(finding, _)| finding.severity != Severity::Error);
    (*findings, *places) = both.into_iter().unzip();
}
