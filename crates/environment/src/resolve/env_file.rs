//! `fileKeyRef`: a key of an env file in a volume of the pod.

use envfile::{EnvFile, NoteKind};
use k8s_openapi::api::core::v1::FileKeySelector;
use names::EnvNameGrammar;

use super::Resolver;
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

impl<'a> Resolver<'a> {
    pub(super) fn add_file_key(&mut self, index: usize, name: &'a str, reference: &'a FileKeySelector) {
        let field = format!("{}.env[{index}].valueFrom.fileKeyRef", self.path);
        if !self.options.gates.env_files {
            self.skipped.insert(name, index);
            let message = format!("{} is not set: the feature gate EnvFiles is off", quoted(name));
            let hint = "switch the gate on, or take the value from a ConfigMap";
            return self.warn(FindingCode::EnvFilesDisabled, field, name, message, hint);
        }
        self.note_mounts(&field, name, &reference.volume_name);
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
                self.define_missing(name, origin);
            }
        }
    }

    fn ask_file(&mut self, variable: &str, reference: &FileKeySelector, field: &str) -> FileAnswer {
        let key = EnvFileKey { volume: reference.volume_name.clone(), path: reference.path.clone() };
        let problem_with =
            |problem| ResolveProblem::EnvFile { volume: key.volume.clone(), path: key.path.clone(), problem };
        let sources = self.sources;
        let content = match sources.env_files.get(&key) {
            Some(EnvFileSource::Content(content)) => content,
            Some(EnvFileSource::UnknownUntilRun) => return FileAnswer::Open,
            None if self.has_volume(&key.volume) => return FileAnswer::Open,
            None | Some(EnvFileSource::VolumeNotFound) => {
                return FileAnswer::Failed(ResolveProblem::VolumeNotFound(key.volume));
            }
            Some(EnvFileSource::NotFound) => {
                let problem = problem_with(EnvFileProblem::NotFound);
                let what = format!(
                    "the file {} of volume {} does not exist",
                    quoted(&key.path),
                    quoted(&key.volume)
                );
                // Kubernetes excuses a missing key, but not a missing file.
                return match self.options.env_file_syntax {
                    envfile::Syntax::Kubernetes => FileAnswer::Failed(problem),
                    envfile::Syntax::Default | envfile::Syntax::Rfc2 => FileAnswer::Absent { what, problem },
                };
            }
            Some(EnvFileSource::Refused(refusal)) => {
                return FileAnswer::Failed(problem_with(EnvFileProblem::Refused(refusal.clone())));
            }
        };
        if !self.files.contains_key(&key) {
            let grammar = if self.options.gates.relaxed_names {
                EnvNameGrammar::Relaxed
            } else {
                EnvNameGrammar::Strict
            };
            let parsed = envfile::parse(content.expose(), self.options.env_file_syntax, grammar);
            if let Ok(file) = &parsed {
                self.note_file(file, &key, field);
            }
            self.files.insert(key.clone(), parsed.map_err(EnvFileProblem::Invalid));
        }
        let (text, line) = match &self.files[&key] {
            Err(problem) => return FileAnswer::Failed(problem_with(problem.clone())),
            Ok(file) => match file.lookup(&reference.key) {
                Err(error) => return FileAnswer::Failed(problem_with(EnvFileProblem::Invalid(error))),
                Ok(None) => {
                    let exported = format!("export {}", reference.key);
                    let problem = ResolveProblem::EnvFileKeyNotFound {
                        key: reference.key.clone(),
                        volume: key.volume.clone(),
                        path: key.path.clone(),
                        exported: matches!(file.lookup(&exported), Ok(Some(_))),
                    };
                    let what =
                        format!("the file {} has no key {}", quoted(&key.path), quoted(&reference.key));
                    return FileAnswer::Absent { what, problem };
                }
                Ok(Some(assignment)) => (assignment.value.to_owned(), assignment.position.line),
            },
        };
        if !self.admit(variable, text.len(), || field.to_owned()) {
            // The error is noted already; the entry is shown as missing.
            let label = short_label(variable);
            return FileAnswer::Value { value: Value::Composed(vec![Part::Missing { label }]), line };
        }
        FileAnswer::Value { value: Value::Plain(text), line }
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
        let already = |finding: &crate::Finding| finding.code == FindingCode::EnvFileVolumeMounted;
        if self.findings.iter().any(already) {
            return;
        }
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
