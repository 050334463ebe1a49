//! `fileKeyRef`: a key of an env file in a volume of the pod.

use envfile::{EnvFile, NoteKind};
use k8s_openapi::api::core::v1::FileKeySelector;
use names::EnvNameGrammar;

use super::{Resolver, SkipReason, Skipped};
use crate::error::EnvFileProblem;
use crate::text::{quoted, short_label};
use crate::{EnvFileKey, EnvFileSource, FindingCode, Origin, Part, ResolveProblem, Value};

/// What an env file said.
enum FileAnswer {
    Value { value: Value, line: u32 },
    Open,
    Absent { what: String, problem: ResolveProblem },
    Failed(ResolveProblem),
}

/// An env file after it was looked for, kept for the other references to it.
pub(super) enum OpenedFile {
    Parsed(EnvFile),
    Problem(EnvFileProblem),
    NoVolume,
    /// Only a running pod has it.
    Unknown,
}

impl<'a> Resolver<'a> {
    pub(super) fn add_file_key(&mut self, index: usize, name: &'a str, reference: &'a FileKeySelector) {
        let field = format!("{}.env[{index}].valueFrom.fileKeyRef", self.path);
        if !self.options.gates.env_files {
            self.skipped.insert(name, Skipped { index, why: SkipReason::GateOff });
            let message = format!("{} is not set: the feature gate EnvFiles is off", quoted(name));
            let hint =
                "switch the gate on with --feature-gates EnvFiles=true, or take the value from a ConfigMap";
            return self.warn(FindingCode::EnvFilesDisabled, field, name, message, hint);
        }
        if self.volumes_checked.insert(&reference.volume_name) {
            self.note_mounts(&field, name, &reference.volume_name);
        }
        let mut origin = Origin::FileKeyRef {
            index,
            volume: reference.volume_name.as_str().into(),
            path: reference.path.as_str().into(),
            key: reference.key.as_str().into(),
            line: None,
        };
        match self.ask_file(name, reference, &field) {
            FileAnswer::Value { value, line } => {
                if let Origin::FileKeyRef { line: of_origin, .. } = &mut origin {
                    *of_origin = Some(line);
                }
                self.define(name, value, origin, Vec::new());
            }
            FileAnswer::Open => {
                let label = format!("{}:{} key {}", reference.volume_name, reference.path, reference.key);
                let part = Part::UnknownUntilRun { label: short_label(&label) };
                self.define(name, Value::Composed(vec![part]), origin, Vec::new());
            }
            FileAnswer::Absent { what, .. } if reference.optional == Some(true) => {
                self.skip(index, name, &what)
            }
            FileAnswer::Absent { problem, .. } | FileAnswer::Failed(problem) => {
                self.fail(problem, field);
                self.define_refused(name, origin);
            }
        }
    }

    fn ask_file(&mut self, variable: &str, reference: &'a FileKeySelector, field: &str) -> FileAnswer {
        let (volume, path) = (reference.volume_name.as_str(), reference.path.as_str());
        if !self.files.contains_key(&(volume, path)) {
            let file = self.open_file(volume, path, field);
            self.files.insert((volume, path), file);
        }
        let problem_with =
            |problem| ResolveProblem::EnvFile { volume: volume.to_owned(), path: path.to_owned(), problem };
        let file = match &self.files[&(volume, path)] {
            OpenedFile::Parsed(file) => file,
            OpenedFile::Unknown => return FileAnswer::Open,
            OpenedFile::NoVolume => {
                return FileAnswer::Failed(ResolveProblem::VolumeNotFound(volume.to_owned()));
            }
            OpenedFile::Problem(problem) => {
                // Kubernetes excuses a missing key, but not a missing file.
                let excusable = *problem == EnvFileProblem::NotFound
                    && self.options.env_file_syntax != envfile::Syntax::Kubernetes;
                let problem = problem_with(problem.clone());
                return if excusable {
                    let what =
                        format!("the file {} of volume {} does not exist", quoted(path), quoted(volume));
                    FileAnswer::Absent { what, problem }
                } else {
                    FileAnswer::Failed(problem)
                };
            }
        };
        let (text, line) = match file.lookup(&reference.key) {
            Ok(Some(assignment)) => (assignment.value.to_owned(), assignment.position.line),
            Ok(None) => {
                let exported = format!("export {}", reference.key);
                let problem = ResolveProblem::EnvFileKeyNotFound {
                    key: reference.key.clone(),
                    volume: volume.to_owned(),
                    path: path.to_owned(),
                    exported: matches!(file.lookup(&exported), Ok(Some(_))),
                };
                let what = format!("the file {} has no key {}", quoted(path), quoted(&reference.key));
                return FileAnswer::Absent { what, problem };
            }
            Err(error) => return FileAnswer::Failed(problem_with(EnvFileProblem::Invalid(error))),
        };
        if !self.admit(variable, text.len(), || field.to_owned()) {
            // The error is noted already; the entry is shown as missing.
            let label = short_label(variable);
            return FileAnswer::Value { value: Value::Composed(vec![Part::Refused { label }]), line };
        }
        FileAnswer::Value { value: Value::plain(text), line }
    }

    /// Finds and parses a file; what is remarkable about it is noted at the reference that came first.
    fn open_file(&mut self, volume: &str, path: &str, field: &str) -> OpenedFile {
        let key = EnvFileKey { volume: volume.to_owned(), path: path.to_owned() };
        let content = match self.sources.env_files.get(&key) {
            Some(EnvFileSource::Content(content)) => content,
            Some(EnvFileSource::UnknownUntilRun) => return OpenedFile::Unknown,
            Some(EnvFileSource::VolumeNotFound) => return OpenedFile::NoVolume,
            Some(EnvFileSource::NotFound) => return OpenedFile::Problem(EnvFileProblem::NotFound),
            Some(EnvFileSource::Refused(refusal)) => {
                return OpenedFile::Problem(EnvFileProblem::Refused(refusal.clone()));
            }
            None if self.has_volume(volume) => return OpenedFile::Unknown,
            None => return OpenedFile::NoVolume,
        };
        let grammar =
            if self.options.gates.relaxed_names { EnvNameGrammar::Relaxed } else { EnvNameGrammar::Strict };
        match envfile::parse(content.expose(), self.options.env_file_syntax, grammar) {
            Ok(file) => {
                self.note_file(&file, &key, field);
                OpenedFile::Parsed(file)
            }
            Err(error) => OpenedFile::Problem(EnvFileProblem::Invalid(error)),
        }
    }

    fn has_volume(&self, name: &str) -> bool {
        let volumes = self.pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
        volumes.into_iter().flatten().any(|volume| volume.name == name)
    }

    /// Reports what is remarkable about a file, each kind once, at the first reference to the file.
    fn note_file(&mut self, file: &EnvFile, key: &EnvFileKey, field: &str) {
        let place = format!("file {} of volume {}", quoted(&key.path), quoted(&key.volume));
        let mut differs = None;
        let mut exported = None;
        for note in file.notes() {
            match note.kind {
                NoteKind::KubernetesDiffers(difference) => {
                    differs.get_or_insert((difference, note.assignment.position))
                }
                NoteKind::ExportPrefix => {
                    exported.get_or_insert(note.assignment.position);
                    continue;
                }
            };
        }
        if let Some((difference, position)) = differs {
            let message = format!("{place}, line {}: {}", position.line, difference.message());
            let hint = "write NAME='value' without blanks around '=' to be read alike everywhere";
            self.inform(FindingCode::EnvFileDiffers, field.to_owned(), "", message, hint);
        }
        if let Some(position) = exported {
            let message =
                format!("{place}, line {}: \"export \" is part of the variable's name", position.line);
            let hint = "remove export; env files are not shell scripts";
            self.warn(FindingCode::EnvFileExport, field.to_owned(), "", message, hint);
        }
    }

    /// The design of env files wants their volume mounted by init containers only, and not consumed by a
    /// container that mounts it. Kubernetes allows both; so do we, with a warning.
    fn note_mounts(&mut self, field: &str, variable: &str, volume: &str) {
        let hint = "mount the volume in the init container that writes the file, and nowhere else";
        if self.container.volume_mounts.iter().any(|mount| mount.name == volume) {
            let message =
                format!("this container both mounts volume {} and reads variables from it", quoted(volume));
            return self.warn(FindingCode::EnvFileVolumeMounted, field.to_owned(), variable, message, hint);
        }
        let Some(spec) = self.pod.spec.as_ref() else { return };
        let other = crate::containers(spec).into_iter().find(|container| {
            container.kind != crate::ContainerKind::Init
                && container.volume_mounts.iter().any(|mount| mount.name == volume)
        });
        if let Some(other) = other {
            let message = format!(
                "volume {} is also mounted by {} {}, which can change the file",
                quoted(volume),
                other.kind.as_str(),
                quoted(other.name)
            );
            self.warn(FindingCode::EnvFileVolumeMounted, field.to_owned(), variable, message, hint);
        }
    }
}
