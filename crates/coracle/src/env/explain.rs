//! Pods of the input to records with places: what `coracle env -f` knows, before it is printed in any form.

use std::collections::BTreeMap;

use api::FeatureGates;
use environment::record::{
    ContainerRecord, EnvironmentRecord, FindingRecord, ObjectRecord, OriginRecord, PodRecord, PositionRecord,
    SourceRecord, VariableRecord,
};
use environment::{
    Availability, ContainerView, Finding, FindingCode, Gates, Options, Reveal, RuntimeFacts, Severity,
    Sources, State,
};
use manifest::Span;

use super::live::{Fetched, Wanted};
use super::local_images::LocalImages;
use super::refusals::{entry_of, refusals};
use super::sources::InputSources;
use super::survey::{DecodeMistake, DocumentNote, Survey, duplicate, survey};
use super::workload::{Workload, has_pods, workload};
use crate::excerpt::{Mistake, Place};
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

impl Settings {
    fn options(&self, workload: &Workload) -> Options {
        Options {
            spec_path: workload.spec_path.clone(),
            gates: Gates {
                env_files: self.gates.env_files,
                relaxed_names: self.gates.relaxed_environment_variable_validation,
            },
            env_file_syntax: self.env_file_syntax,
            ..Options::default()
        }
    }
}

/// All that is to be said.
#[derive(Default)]
pub(super) struct Explanation {
    /// The pods in the order of the input.
    pub(super) pods: Vec<ExplainedPod>,
    /// What was found in objects outside of their containers, in the order of the input.
    pub(super) objects: Vec<ExplainedObject>,
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

/// An object with what was found in it outside of its containers.
pub(super) struct ExplainedObject {
    /// The record.
    pub(super) record: ObjectRecord,
    /// The place of each finding of the record.
    pub(super) places: Vec<Option<Place>>,
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
        let pods = record.pods.into_iter().map(explained).collect();
        Self { pods, objects: Vec::new(), mistakes: Vec::new() }
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

    /// Masks what `redact` changes, as if it came from a Secret.
    pub(super) fn mask(&mut self, redact: impl Fn(&str) -> String) {
        let hide = |value: &mut Option<String>, display: &mut String, state: &mut State| {
            let masked = redact(display);
            if masked != *display {
                (*display, *value) = (masked, None);
                *state = if *state == State::Known { State::Masked } else { *state };
            }
        };
        for container in self.pods.iter_mut().flat_map(|pod| &mut pod.record.containers) {
            for variable in &mut container.environment {
                hide(&mut variable.value, &mut variable.display, &mut variable.state);
                for shadowed in &mut variable.shadowed {
                    hide(&mut shadowed.value, &mut shadowed.display, &mut shadowed.state);
                }
            }
            let command = container.command.iter_mut().flatten().chain(container.args.iter_mut().flatten());
            for word in command {
                hide(&mut word.value, &mut word.display, &mut word.state);
            }
            for finding in &mut container.findings {
                finding.message = redact(&finding.message);
            }
        }
        for finding in self.objects.iter_mut().flat_map(|object| &mut object.record.findings) {
            finding.message = redact(&finding.message);
        }
    }

    /// The worst severity of all findings.
    pub(super) fn worst_severity(&self) -> Option<Severity> {
        self.findings().map(|finding| finding.severity).max()
    }

    /// All findings: those of containers, then those of objects.
    pub(super) fn findings(&self) -> impl Iterator<Item = &FindingRecord> {
        let containers = self.pods.iter().flat_map(|pod| &pod.record.containers);
        let objects = self.objects.iter().flat_map(|object| &object.record.findings);
        containers.flat_map(|each| &each.findings).chain(objects)
    }
}

/// What the pods of the input refer to and the input lacks, by namespace: what a cluster can be asked for.
pub(super) fn wanted(input: &Input, settings: &Settings) -> BTreeMap<String, Wanted> {
    let mut offered = InputSources::default();
    let surveys: Vec<Survey> = input.objects.iter().map(survey).collect();
    for (object, survey) in input.objects.iter().zip(&surveys) {
        // What cannot be read is told by `explain`.
        let _ = offered.take(object, &survey.value, namespace_of(object, settings));
    }
    let mut all: BTreeMap<String, Wanted> = BTreeMap::new();
    for (object, survey) in input.objects.iter().zip(&surveys).filter(|(object, _)| has_pods(object)) {
        let namespace = namespace_of(object, settings);
        let Ok(Some(workload)) = workload(object, &survey.value, namespace) else { continue };
        let options = settings.options(&workload);
        let wanted = all.entry(namespace.to_owned()).or_default();
        for container in workload.pod.spec.iter().flat_map(environment::containers) {
            let needs = environment::required(&workload.pod, &container, &options);
            wanted.services |= needs.namespace_services;
            let config_maps = needs.config_maps.into_keys();
            wanted.config_maps.extend(config_maps.filter(|name| !offered.has_config_map(namespace, name)));
            let secrets = needs.secrets.into_keys();
            wanted.secrets.extend(secrets.filter(|name| !offered.has_secret(namespace, name)));
        }
    }
    all
}

/// Explains every pod and pod template of the input, with what a cluster has beside it.
pub(super) fn explain(
    input: &Input,
    images: &LocalImages,
    settings: &Settings,
    fetched: Option<Fetched>,
) -> Explanation {
    let mut explanation = Explanation::default();
    let mut offered = InputSources::default();
    if let Some(fetched) = fetched {
        offered.add(fetched);
    }
    let mut surveys: Vec<Survey> = input.objects.iter().map(survey).collect();
    for (object, survey) in input.objects.iter().zip(&mut surveys) {
        if survey.mistakes.is_empty()
            && let Err(mistake) = offered.take(object, &survey.value, namespace_of(object, settings))
        {
            survey.mistakes.push(mistake);
        }
    }
    // Each namespace's sources are put together once: charts have hundreds of pods.
    let mut sources: BTreeMap<&str, Sources> = BTreeMap::new();
    for (object, survey) in input.objects.iter().zip(&mut surveys) {
        let file = FileOf::new(input, object);
        let namespace = namespace_of(object, settings);
        let mut workload_of_object = None;
        if has_pods(object) && survey.mistakes.is_empty() {
            match workload(object, &survey.value, namespace) {
                Err(mistake) => survey.mistakes.push(mistake),
                Ok(found) => workload_of_object = found,
            }
        }
        let of_object = match &workload_of_object {
            None => survey.notes.iter().collect(),
            Some(workload) => {
                let sources = sources.entry(namespace).or_insert_with(|| offered.of_namespace(namespace));
                survey.notes.extend(no_containers(object, workload));
                let subject = Subject { file: &file, object, workload, images, settings };
                let (pod, of_object) = subject.explain(&survey.notes, sources);
                explanation.pods.push(pod);
                of_object
            }
        };
        explanation.objects.extend(explained_object(&file, object, namespace, of_object));
        explanation.mistakes.extend(survey.mistakes.drain(..).map(|mistake| file.mistake(mistake)));
    }
    for (file, notice) in &input.notices {
        let file =
            FileOf { name: &input.files[*file].name, text: text_of_file(input, *file), is_secret: true };
        let manifest::Notice::DuplicateKey { key, .. } = notice;
        let note = duplicate(notice, key.clone());
        let place = file.place_of_key(&note, false);
        let record = ObjectRecord {
            kind: "List".to_owned(),
            source: Some(SourceRecord { file: file.name.to_owned(), line: place.line }),
            findings: vec![finding(&note, &place)],
            ..ObjectRecord::default()
        };
        explanation.objects.push(ExplainedObject { record, places: vec![Some(place)] });
    }
    explanation
}

/// An object with its notes, if there are any.
fn explained_object(
    file: &FileOf<'_>,
    object: &InputObject,
    namespace: &str,
    notes: Vec<&DocumentNote>,
) -> Option<ExplainedObject> {
    if notes.is_empty() {
        return None;
    }
    let mut places: Vec<Option<Place>> =
        notes.iter().map(|note| Some(file.place_of_key(note, note.path.starts_with("spec.")))).collect();
    let mut findings =
        notes.iter().zip(places.iter().flatten()).map(|(note, place)| finding(note, place)).collect();
    errors_first(&mut findings, &mut places);
    let record = ObjectRecord {
        kind: object.kind.clone(),
        namespace: namespace.to_owned(),
        name: object.name.clone(),
        source: Some(SourceRecord { file: file.name.to_owned(), line: object.document.root.span.start.line }),
        findings,
    };
    Some(ExplainedObject { record, places })
}

/// A pod without any container: the API refuses it.
fn no_containers(object: &InputObject, workload: &Workload) -> Option<DocumentNote> {
    if workload.pod.spec.as_ref().is_some_and(|spec| !spec.containers.is_empty()) {
        return None;
    }
    let path = format!("{}.containers", workload.spec_path);
    let located = object.document.locate(&path);
    Some(DocumentNote {
        code: "refused-by-api",
        severity: Severity::Error,
        message: format!("{path}: Required value"),
        hint: "give the pod at least one container".to_owned(),
        key_span: located.key_span.unwrap_or(located.node.span),
        path,
    })
}

fn finding(note: &DocumentNote, place: &Place) -> FindingRecord {
    FindingRecord {
        code: note.code.to_owned(),
        severity: note.severity,
        field_path: note.path.clone(),
        variable: None,
        message: note.message.clone(),
        hint: note.hint.clone(),
        position: Some(position(place)),
    }
}

fn namespace_of<'a>(object: &'a InputObject, settings: &'a Settings) -> &'a str {
    object.namespace.as_deref().unwrap_or(&settings.namespace)
}

fn text_of_file(input: &Input, file: usize) -> &str {
    // The parser has accepted it, so it is text.
    std::str::from_utf8(&input.files[file].text).unwrap_or_default()
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
        let name = &input.files[object.file].name;
        Self { name, text: text_of_file(input, object.file), is_secret: object.kind == "Secret" }
    }

    /// The place of the key that a note is about. `is_open`: whether other values of its line may be shown.
    fn place_of_key(&self, note: &DocumentNote, is_open: bool) -> Place {
        Place::of_key(self.name, self.text, note.key_span, is_open && !self.is_secret)
    }

    fn place(&self, span: Span) -> Place {
        Place::of(self.name, self.text, span)
    }

    fn mistake(&self, mistake: DecodeMistake) -> Mistake {
        let mut place = self.place(mistake.span);
        if self.is_secret {
            place = place.without_text();
        }
        let written = &place.text[place.range.clone()];
        let hint = if mistake.wants_quotes { text_hint(written) } else { None };
        let hint = hint.unwrap_or(mistake.hint);
        Mistake { message: mistake.message, hint, label: mistake.label, place }
    }
}

/// What to write so that a value becomes text. In a template, quotes do not help: a doubled reference such as `$((P))` or
/// `${{P}}` makes a number or a boolean of the whole value, and the single form makes text.
fn text_hint(written: &str) -> Option<String> {
    let single = with_single_references(written);
    if single != written {
        return Some(format!("write {single}: a doubled reference makes a value that is no text"));
    }
    let is_quoted = written.starts_with(['"', '\'']);
    (!written.is_empty() && !is_quoted).then(|| format!("put it in quotes: \"{written}\""))
}

/// The text with each `$((NAME))` as `$(NAME)`, and each `${{NAME}}` as `${NAME}`.
fn with_single_references(written: &str) -> String {
    let (mut single, mut rest) = (String::with_capacity(written.len()), written);
    while let Some(at) = rest.find('$') {
        let (before, reference) = rest.split_at(at);
        single.push_str(before);
        let found = [("$((", "))", '(', ')'), ("${{", "}}", '{', '}')].into_iter().find_map(
            |(begin, end, open, close)| {
                let (name, after) = reference.strip_prefix(begin)?.split_once(end)?;
                let is_name =
                    !name.is_empty() && name.chars().all(|each| each.is_ascii_alphanumeric() || each == '_');
                is_name.then(|| (format!("${open}{name}{close}"), after))
            },
        );
        match found {
            Some((reference, after)) => {
                single.push_str(&reference);
                rest = after;
            }
            None => {
                single.push('$');
                rest = &reference[1..];
            }
        }
    }
    single.push_str(rest);
    single
}

/// A pod that is being explained, with everything that it takes.
struct Subject<'i> {
    file: &'i FileOf<'i>,
    object: &'i InputObject,
    workload: &'i Workload,
    images: &'i LocalImages,
    settings: &'i Settings,
}

impl Subject<'_> {
    /// The pod, and the notes that are about none of its containers.
    fn explain<'n>(
        &self,
        document_notes: &'n [DocumentNote],
        sources: &mut Sources,
    ) -> (ExplainedPod, Vec<&'n DocumentNote>) {
        let pod = &self.workload.pod;
        let options = self.settings.options(self.workload);
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
            let path = format!("{}.{}", self.workload.spec_path, container.path_in_spec());
            for note in document_notes.iter().filter(|note| is_inside(&note.path, &path)) {
                let place = self.file.place_of_key(note, true);
                container_record.findings.push(finding(note, &place));
                places.push(Some(place));
            }
            errors_first(&mut container_record.findings, &mut places);
            record.containers.push(container_record);
            notes.push(ContainerNotes { image: container.image.to_owned(), image_is_known, places });
        }
        let paths: Vec<String> = pod
            .spec
            .iter()
            .flat_map(environment::containers)
            .map(|container| format!("{}.{}", self.workload.spec_path, container.path_in_spec()))
            .collect();
        let is_of_object = |note: &&DocumentNote| !paths.iter().any(|path| is_inside(&note.path, path));
        let of_object = document_notes.iter().filter(is_of_object).collect();
        (ExplainedPod { kind: self.object.kind.clone(), record, containers: notes }, of_object)
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
}

/// Whether a field path is that of a container or of something in it.
fn is_inside(path: &str, container: &str) -> bool {
    path.strip_prefix(container).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
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
        path.refused = false;
    }
}

/// Puts errors before everything else, each kind in the order in which it was found; each finding keeps its place.
fn errors_first(findings: &mut Vec<FindingRecord>, places: &mut Vec<Option<Place>>) {
    let mut both: Vec<_> = findings.drain(..).zip(places.drain(..)).collect();
    both.sort_by_key(|(finding, _)| finding.severity != Severity::Error);
    (*findings, *places) = both.into_iter().unzip();
}

#[cfg(test)]
mod tests {
    use super::text_hint;

    #[test]
    fn a_doubled_reference_of_a_template_is_not_told_to_be_put_in_quotes() {
        let single =
            |text: &str| Some(format!("write {text}: a doubled reference makes a value that is no text"));
        for (written, hint) in [
            ("$((P))", single("$(P)")),
            ("\"1$((P))\"", single("\"1$(P)\"")),
            ("'$((A))$((B_2))'", single("'$(A)$(B_2)'")),
            ("\"${{P}}\"", single("\"${P}\"")),
            ("8080", Some("put it in quotes: \"8080\"".to_owned())),
            ("\"8080\"", None),
            ("", None),
        ] {
            assert_eq!(text_hint(written), hint, "{written}");
        }
        assert_eq!(text_hint("$((no name))$").as_deref(), Some("put it in quotes: \"$((no name))$\""));
    }
}
