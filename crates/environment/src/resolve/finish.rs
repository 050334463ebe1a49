//! The last steps: command and arguments with the complete set, what hides what, limits, and the final order.

use super::compose::known_size;
use super::references::Target;
use super::service_variables::variable_prefix;
use super::{Argument, POINTER_BYTES, Resolution, Resolved, Resolver, counted_bytes};
use crate::error::Subject;
use crate::paths::expand_sub_path_with;
use crate::text::quoted;
use crate::{
    Availability, Environment, Finding, FindingCode, Origin, Part, Reference, ReferenceTarget,
    ResolveProblem, Severity, State, Value,
};

impl Resolver<'_> {
    pub(super) fn finish(mut self) -> Resolved {
        let container = self.container;
        let script = script_place(container.command.unwrap_or_default(), container.args.unwrap_or_default());
        let is_script = |list, place| script == Some((list, place));
        let command = container.command.filter(|list| !list.is_empty());
        let command =
            command.map(|list| self.expand_list("command", list, |place| is_script(List::Command, place)));
        let args = container.args.filter(|list| !list.is_empty());
        let args = args.map(|list| self.expand_list("args", list, |place| is_script(List::Args, place)));
        self.check_sub_paths();
        self.hide_services();
        self.note_image();
        self.check_total(command.as_deref(), args.as_deref());
        self.note_unshown();
        if self.findings_dropped > 0 {
            let message = format!("{} more findings are not shown", self.findings_dropped);
            let field_path = self.path.clone();
            self.findings.push(Finding {
                code: FindingCode::FindingsTruncated,
                severity: Severity::Info,
                field_path,
                span: None,
                variable: None,
                message,
                hint: None,
            });
        }
        let mut entries = self.entries;
        let mut winners = self.winners;
        if !winners.is_empty() {
            winners.sort_unstable();
            winners.dedup();
            for winner in winners {
                entries[winner].shadowed.reverse();
            }
            let mut overridden = self.overridden.iter();
            entries.retain(|_| !overridden.next().copied().unwrap_or(false));
        }
        let environment = Environment::from_entries(entries);
        let resolution = Resolution { environment, command, args, findings: self.findings };
        Resolved { resolution, errors: self.errors }
    }

    /// Says once which values cannot be told although nothing is wrong with themselves.
    fn note_unshown(&mut self) {
        let and_others = |first: &str, count: usize| match count {
            1 => quoted(first).to_string(),
            2 => format!("{} and one other", quoted(first)),
            more => format!("{} and {} others", quoted(first), more - 1),
        };
        if let Some((first, refused, count)) = self.built_on_refused.take() {
            let message = format!(
                "the value of {} is not known, because {} has an error",
                and_others(&first, count),
                quoted(&refused)
            );
            let hint = format!("mend {} first", quoted(&refused));
            self.inform(FindingCode::ValueDependsOnError, self.path.clone(), &first, message, &hint);
        }
        if let Some((first, count)) = self.summed_up.take() {
            let message = format!(
                "the value of {} has too many parts that are secret or not known to show each of them",
                and_others(&first, count)
            );
            self.inform(FindingCode::ValueSummedUp, self.path.clone(), &first, message, "");
        }
    }

    /// Reports each `subPathExpr` that no run can use; one with a value that is not known yet may be fine.
    fn check_sub_paths(&mut self) {
        for (place, mount) in self.container.volume_mounts.iter().enumerate() {
            let Some(expression) = mount.sub_path_expr.as_deref().filter(|text| !text.is_empty()) else {
                continue;
            };
            let lookup = |name: &str| -> Option<&Value> {
                let found = self.declared.find(name, &self.entries);
                let found = found.or_else(|| self.services.find(name, &self.entries));
                found.map(|found| &self.entries[found].value)
            };
            let is_open = |name: &str| match lookup(name) {
                Some(value) => matches!(value.state(), State::UnknownUntilRun | State::Missing),
                None => self.openness(name).is_some(),
            };
            if expansion::references(expression).any(|(name, _)| is_open(name)) {
                continue;
            }
            if let Err(error) = expand_sub_path_with(expression, lookup) {
                let field = format!("{}.volumeMounts[{place}].subPathExpr", self.path);
                self.fail(ResolveProblem::SubPath(error), field);
            }
        }
    }

    fn expand_list(
        &mut self,
        list: &str,
        texts: &[String],
        is_script: impl Fn(usize) -> bool,
    ) -> Vec<Argument> {
        let path = self.path.clone();
        let mut expanded = Vec::with_capacity(texts.len());
        for (place, text) in texts.iter().enumerate() {
            let field = || format!("{path}.{list}[{place}]");
            let missing = || Value::Composed(vec![Part::Refused { label: "argument".to_owned() }]);
            if text.as_bytes().contains(&0) {
                self.fail(ResolveProblem::Nul(Subject::Argument), field());
                expanded.push(Argument { value: missing(), references: Vec::new() });
                continue;
            }
            let is_shell_script = is_script(place);
            let (value, references) = self
                .expand(text, Target::Argument { is_shell_script }, &field)
                .unwrap_or_else(|| (missing(), Vec::new()));
            if is_shell_script {
                self.note_script(&references, field());
            }
            expanded.push(Argument { value, references });
        }
        expanded
    }

    /// A value that someone other than the author of the manifest writes becomes part of a program.
    fn note_script(&mut self, references: &[Reference], field_path: String) {
        let pod_annotation =
            |path: &str| path.starts_with("metadata.annotations[") || path.starts_with("metadata.labels[");
        for reference in references {
            let ReferenceTarget::Resolved(origin) = &reference.target else { continue };
            let what = match origin {
                Origin::FileKeyRef { .. } => "an env file",
                Origin::FieldRef { field_path, .. } if pod_annotation(field_path) => "a label or annotation",
                _ => continue,
            };
            let message = format!(
                "the value of {} comes from {what} and becomes part of a shell script",
                quoted(&reference.name)
            );
            let hint = format!("let the shell read the variable itself: write \"${{{}}}\"", reference.name);
            self.note(Finding {
                code: FindingCode::ShellScriptExpansion,
                severity: Severity::Warning,
                field_path,
                span: Some(reference.span.clone()),
                variable: Some(reference.name.clone()),
                message,
                hint: Some(hint),
            });
            // One sentence a script says it.
            return;
        }
    }

    /// Declared variables win over service variables in what the process sees.
    fn hide_services(&mut self) {
        for place in self.service_count..self.entries.len() {
            if self.overridden[place] {
                continue;
            }
            let Some(hidden) = self.services.find(&self.entries[place].name, &self.entries) else { continue };
            // Weakest first: what the service hid, then the service's own, then what was declared before.
            let declared_before = std::mem::take(&mut self.entries[place].shadowed);
            self.hide(hidden, place);
            self.entries[place].shadowed.extend(declared_before);
            let name = self.entries[place].name.clone();
            let field = self.field_of(&self.entries[place].origin);
            let message = format!("{} hides the service variable of the same name", quoted(&name));
            let hint = format!(
                "nothing to do if it is meant as a fixed value; to let references find the service first, set the \
                 annotation {}: {}",
                crate::SERVICE_VARIABLES_ANNOTATION,
                crate::SERVICE_VARIABLES_PREFER
            );
            self.inform(FindingCode::ServiceVariableShadowed, field, &name, message, &hint);
        }
        self.note_collisions();
    }

    fn note_collisions(&mut self) {
        let mut winners: Vec<usize> =
            self.winners.iter().copied().filter(|winner| *winner < self.service_count).collect();
        winners.dedup();
        for place in winners {
            let entry = &self.entries[place];
            let (Origin::Service(winner), Some(shadowed)) = (&entry.origin, entry.shadowed.last()) else {
                continue;
            };
            let Origin::Service(loser) = &shadowed.origin else { continue };
            let (winner, loser) = (&winner.name, &loser.name);
            if winner == loser {
                continue;
            }
            let message = format!(
                "services {} and {} both give the variable {}; the one of {} is taken",
                quoted(loser),
                quoted(winner),
                quoted(&entry.name),
                quoted(winner)
            );
            let name = entry.name.clone();
            let hint = "which one wins is not defined in Kubernetes; rename one of the services";
            self.inform(FindingCode::ServicesCollide, self.path.clone(), &name, message, hint);
        }
    }

    fn note_image(&mut self) {
        let sources = self.sources;
        let Availability::Present(image) = &sources.image else { return };
        for name in image.env.iter().filter_map(|variable| variable.split_once('=')).map(|(name, _)| name) {
            if let Some(place) = self.declared.find(name, &self.entries) {
                let field = self.field_of(&self.entries[place].origin);
                let message = format!("{} replaces the value that the image sets", quoted(name));
                self.inform(FindingCode::ImageVariableShadowed, field, name, message, "");
            } else if let Some(place) = self.services.find(name, &self.entries) {
                let service = match &self.entries[place].origin {
                    Origin::Service(service) => service.name.to_string(),
                    _ => String::new(),
                };
                let message = format!(
                    "the variable {} of service {} replaces the value that the image sets",
                    quoted(name),
                    quoted(&service)
                );
                let hint = format!(
                    "declare {} in env, set enableServiceLinks: false, or give the service another name (its \
                     variables begin with {}_)",
                    quoted(name),
                    variable_prefix(&service)
                );
                self.warn(FindingCode::ServiceShadowsImage, self.path.clone(), name, message, &hint);
            }
        }
    }

    /// Compares what `execve` would get with what it accepts, as far as the values are known.
    fn check_total(&mut self, command: Option<&[Argument]>, args: Option<&[Argument]>) {
        let limits = self.options.limits;
        let services = self.service_bytes;
        let mut total = services;
        let mut count = self.service_count;
        let mut largest: Option<(usize, usize)> = None;
        let mut near = Vec::new();
        let declared = self.entries.iter().enumerate().skip(self.service_count);
        for (place, entry) in declared.filter(|(place, _)| !self.overridden[*place]) {
            let counted = counted_bytes(&entry.name, &entry.value);
            let size = counted - POINTER_BYTES;
            if size > limits.string_bytes / 10 * 9 {
                near.push((place, size));
            }
            total = total.saturating_add(counted);
            count += 1;
            if largest.is_none_or(|(most, _)| size > most) {
                largest = Some((size, place));
            }
        }
        let declared = |list: Option<&[Argument]>| -> usize {
            list.into_iter().flatten().map(|argument| known_size(&argument.value) + 1 + POINTER_BYTES).sum()
        };
        total = total.saturating_add(declared(command)).saturating_add(declared(args));
        let sources = self.sources;
        if let Availability::Present(image) = &sources.image {
            let strings =
                |list: &[String]| -> usize { list.iter().map(|text| text.len() + 1 + POINTER_BYTES).sum() };
            let mut of_image = 0;
            if command.is_none() {
                of_image += strings(&image.entrypoint);
                if args.is_none() {
                    of_image += strings(&image.cmd);
                }
            }
            let is_hidden = |text: &str| {
                let name = text.split_once('=').map_or(text, |(name, _)| name);
                self.declared
                    .find(name, &self.entries)
                    .or_else(|| self.services.find(name, &self.entries))
                    .is_some()
            };
            let visible = image.env.iter().filter(|text| !is_hidden(text));
            of_image += visible.map(|text| text.len() + 1 + POINTER_BYTES).sum::<usize>();
            total = total.saturating_add(of_image);
        }
        for (place, size) in near {
            let name = self.entries[place].name.clone();
            let field = self.field_of(&self.entries[place].origin);
            let message = format!(
                "environment variable {} has {size} bytes with its name; the kernel accepts {}",
                quoted(&name),
                limits.string_bytes
            );
            self.warn(FindingCode::NearLimit, field, &name, message, "mount large values as files");
        }
        let cause = || match largest {
            _ if services > total / 2 => format!("{services} bytes of them are service variables"),
            Some((size, place)) => {
                format!(
                    "{count} variables, the largest is {} with {size} bytes",
                    quoted(&self.entries[place].name)
                )
            }
            None => format!("{count} variables"),
        };
        if total > limits.total_bytes {
            let problem =
                ResolveProblem::TotalTooLarge { size: total, limit: limits.total_bytes, cause: cause() };
            self.fail(problem, self.path.clone());
        } else if total > limits.total_bytes / 10 * 9 {
            let message = format!(
                "environment and arguments have {total} bytes, the kernel accepts {}; {}",
                limits.total_bytes,
                cause()
            );
            let hint = "mount large values as files, or set enableServiceLinks: false";
            self.warn(FindingCode::NearLimit, self.path.clone(), "", message, hint);
        }
    }

    /// The field of the manifest that an origin stands for.
    fn field_of(&self, origin: &Origin) -> String {
        match (origin.env_index(), origin.env_from_index()) {
            (Some(index), _) => format!("{}.env[{index}]", self.path),
            (None, Some(index)) => format!("{}.envFrom[{index}]", self.path),
            (None, None) => self.path.clone(),
        }
    }
}

/// `command` or `args`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Command,
    Args,
}

/// Which element, if any, is the script of `sh -c SCRIPT`.
fn script_place(command: &[String], args: &[String]) -> Option<(List, usize)> {
    let shell = command.first()?.rsplit('/').next()?;
    if !matches!(shell, "sh" | "ash" | "bash" | "dash" | "ksh" | "zsh") {
        return None;
    }
    let words = command.iter().skip(1).enumerate().map(|(place, word)| (List::Command, place + 1, word));
    let mut words = words.chain(args.iter().enumerate().map(|(place, word)| (List::Args, place, word)));
    let is_flag = |word: &str| word.starts_with('-') && !word.starts_with("--") && word.ends_with('c');
    words.find(|(_, _, word)| is_flag(word))?;
    words.next().map(|(list, place, _)| (list, place))
}
