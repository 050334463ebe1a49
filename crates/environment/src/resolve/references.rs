//! Expansion of one text with the variables defined so far, and the diagnosis of what was not found.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use expansion::{Token, scan};

use super::compose::{Piece, compose, measure};
use super::{Resolver, SkipReason, Skipped, Subject};
use crate::text::{escaped, quoted};
use crate::{
    Availability, Entry, Finding, FindingCode, Reference, ReferenceTarget, ResolveProblem, Services,
    Severity, Value,
};

/// Names that every runtime sets, and that no reference can see.
const RUNTIME_NAMES: &[&str] = &["PATH", "HOSTNAME", "TERM", "HOME"];

/// What a text is expanded for.
#[derive(Clone, Copy)]
pub(super) enum Target<'t> {
    /// The value of `env[index]`.
    Variable { name: &'t str, index: usize },
    /// An element of `command` or `args`.
    Argument { is_shell_script: bool },
}

/// What makes a reference that was not found worth a sentence.
struct Unfound<'t> {
    name: &'t str,
    span: Range<usize>,
    open: Option<Open>,
}

/// Why a name may yet be defined.
pub(super) enum Open {
    /// An `envFrom` source is not known here.
    EnvFrom { missing: bool },
    /// A service of this variable prefix may exist outside of the input.
    Service { prefix: String },
}

/// Names for the diagnosis, collected when the first reference is not found.
#[derive(Default)]
pub(super) struct Vocabulary<'a> {
    /// Places in `env`, ascending, by name.
    env: HashMap<&'a str, Vec<usize>>,
    /// Names of the image.
    image: HashSet<&'a str>,
    /// All names that a reference could have meant, by their lower-case form.
    by_lower_case: HashMap<String, Vec<String>>,
    /// Services outside of the input that were already mentioned.
    services_mentioned: BTreeSet<String>,
    /// How often a similar name may still be searched for.
    searches_left: usize,
}

impl<'a> Resolver<'a> {
    /// The place of the variable that a reference to `name` finds.
    fn lookup(&self, name: &str) -> Option<usize> {
        let declared = || self.declared.find(name, &self.entries);
        let services = || self.services.find(name, &self.entries);
        if self.prefers_services { services().or_else(declared) } else { declared().or_else(services) }
    }

    /// Expands `text`. `None` when the result is too large, which is then noted.
    pub(super) fn expand(
        &mut self,
        text: &str,
        target: Target<'_>,
        field: &dyn Fn() -> String,
    ) -> Option<(Value, Vec<Reference>)> {
        if !text.contains('$') {
            return self
                .admit_for(target, text.len(), field)
                .then(|| (Value::plain(text.to_owned()), Vec::new()));
        }
        let mut pieces = Vec::new();
        let mut references = Vec::new();
        let mut unfound: Vec<Unfound<'_>> = Vec::new();
        let mut preferred: Vec<(&str, Range<usize>)> = Vec::new();
        let mut names_seen: HashSet<&str> = HashSet::new();
        for token in scan(text) {
            let (name, span) = match token {
                Token::Text(literal) => {
                    pieces.push(Piece::Text(literal));
                    continue;
                }
                Token::Reference { name, span } => (name, span),
            };
            let place = self.lookup(name);
            let target = match place {
                Some(place) => {
                    let entry = &self.entries[place];
                    pieces.push(Piece::Variable { name, value: &entry.value });
                    let is_preferred = self.prefers_services
                        && place < self.service_count
                        && self.declared.find(name, &self.entries).is_some();
                    if is_preferred && names_seen.insert(name) {
                        preferred.push((name, span.clone()));
                    }
                    (references.len() < Entry::MAX_REFERENCES)
                        .then(|| ReferenceTarget::Resolved(entry.origin.clone()))
                }
                None => {
                    let open = self.openness(name);
                    let target = match &open {
                        Some(open) => {
                            let missing = !matches!(open, Open::EnvFrom { missing: false });
                            pieces.push(Piece::Open { name, missing });
                            ReferenceTarget::Undecided
                        }
                        None => {
                            pieces.push(Piece::Text(&text[span.clone()]));
                            ReferenceTarget::Unresolved
                        }
                    };
                    if names_seen.insert(name) {
                        unfound.push(Unfound { name, span: span.clone(), open });
                    }
                    Some(target)
                }
            };
            if let Some(target) = target
                && references.len() < Entry::MAX_REFERENCES
            {
                references.push(Reference { name: name.to_owned(), span, target });
            }
        }
        let size = measure(&pieces);
        let own_name = match target {
            Target::Variable { name, .. } => name,
            Target::Argument { .. } => "argument",
        };
        let mut parts_left = self.parts_left;
        // Nothing is copied before the limits have agreed.
        let composed = self.fits(target, size).then(|| compose(&pieces, size, own_name, &mut parts_left));
        let refused = pieces.iter().find_map(|piece| match piece {
            Piece::Variable { name, value } if value.is_refused() => Some(*name),
            Piece::Variable { .. } | Piece::Text(_) | Piece::Open { .. } => None,
        });
        drop(pieces);
        self.parts_left = parts_left;
        if let Some(refused) = refused {
            let first = || (own_name.to_owned(), refused.to_owned(), 0);
            self.built_on_refused.get_or_insert_with(first).2 += 1;
        } else if composed.as_ref().is_some_and(|composed| composed.is_summed_up) {
            self.summed_up.get_or_insert_with(|| (own_name.to_owned(), 0)).1 += 1;
        }
        let admitted = self.admit_for(target, size, field);
        for (name, span) in preferred {
            self.note_preferred(name, span, field());
        }
        for unfound in unfound {
            self.diagnose(&unfound, target, field);
        }
        if admitted { composed.map(|composed| (composed.value, references)) } else { None }
    }

    /// Whether `size` bytes are within the limit of one string and the room for all.
    fn fits(&self, target: Target<'_>, size: usize) -> bool {
        let own = match target {
            Target::Variable { name, .. } => name.len() + 2,
            Target::Argument { .. } => 1,
        };
        let whole = size.saturating_add(own);
        let room = self.options.limits.total_bytes.saturating_mul(4);
        whole <= self.options.limits.string_bytes && self.spent.saturating_add(whole) <= room
    }

    fn admit_for(&mut self, target: Target<'_>, size: usize, field: &dyn Fn() -> String) -> bool {
        match target {
            Target::Variable { name, .. } => self.admit(name, size, field),
            Target::Argument { .. } => {
                let limit = self.options.limits.string_bytes;
                let whole = size.saturating_add(1);
                if whole > limit {
                    let problem =
                        ResolveProblem::StringTooLarge { subject: Subject::Argument, size: whole, limit };
                    self.fail(problem, field());
                    return false;
                }
                let fits = self.fits(target, size);
                self.spent = self.spent.saturating_add(whole);
                fits
            }
        }
    }

    /// Whether a name that was not found may be defined by something that is not known here.
    pub(super) fn openness(&self, name: &str) -> Option<Open> {
        let covers = |prefix: &str| name.len() > prefix.len() && name.starts_with(prefix);
        let mut open = self.open_sources.iter().filter(|source| covers(source.prefix));
        if let Some(first) = open.next() {
            let missing = first.missing || open.any(|source| source.missing);
            return Some(Open::EnvFrom { missing });
        }
        if !matches!(self.sources.services, Services::Partial(_)) {
            return None;
        }
        let prefix = service_prefix(name).filter(|prefix| self.links || *prefix == "KUBERNETES")?;
        // A service that is in the input has no such variable.
        let host = format!("{prefix}_SERVICE_HOST");
        let is_in_input = self.services.find(&host, &self.entries).is_some();
        (!is_in_input).then(|| Open::Service { prefix: prefix.to_owned() })
    }

    fn note_preferred(&mut self, name: &str, span: Range<usize>, field_path: String) {
        self.note(Finding {
            code: FindingCode::ServiceVariablePreferred,
            severity: Severity::Info,
            field_path,
            span: Some(span),
            variable: Some(name.to_owned()),
            message: format!(
                "$({}) is the service variable, although a variable of that name is declared",
                escaped(name)
            ),
            hint: Some(format!("the pod's annotation {} asks for that", crate::SERVICE_VARIABLES_ANNOTATION)),
        });
    }

    fn diagnose(&mut self, unfound: &Unfound<'_>, target: Target<'_>, field: &dyn Fn() -> String) {
        let mut vocabulary = self.vocabulary.take().unwrap_or_else(|| self.collect_vocabulary());
        if let Some((code, severity, message, hint)) = self.judge(unfound, target, &mut vocabulary) {
            self.note(Finding {
                code,
                severity,
                field_path: field(),
                span: Some(unfound.span.clone()),
                variable: Some(unfound.name.to_owned()),
                message,
                hint,
            });
        }
        self.vocabulary = Some(vocabulary);
    }

    /// What to say about a reference that was not found, if anything.
    fn judge(
        &self,
        unfound: &Unfound<'_>,
        target: Target<'_>,
        vocabulary: &mut Vocabulary<'a>,
    ) -> Option<(FindingCode, Severity, String, Option<String>)> {
        let name = unfound.name;
        let shown = escaped(name);
        let stays = |why: String| format!("$({shown}) stays as it is: {why}");
        let warning = |code, why, hint| Some((code, Severity::Warning, stays(why), Some(hint)));
        if let Target::Variable { index, .. } = target
            && let Some(later) = vocabulary.declared_after(name, index)
        {
            let why = format!("{} is declared later, at env[{later}]", quoted(name));
            let hint = format!("move env[{later}] above env[{index}]");
            return warning(FindingCode::ReferenceDeclaredLater, why, hint);
        }
        match &unfound.open {
            // The source itself has been reported.
            Some(Open::EnvFrom { .. }) => return None,
            Some(Open::Service { prefix }) => {
                if !vocabulary.services_mentioned.insert(prefix.clone()) {
                    return None;
                }
                let service = prefix.to_ascii_lowercase().replace('_', "-");
                let message = format!(
                    "$({shown}) is a variable of service {}, which is not in the input",
                    quoted(&service)
                );
                let hint =
                    "add the manifest of the service to the input; it must exist before the pod starts";
                return Some((FindingCode::SourceNotInInput, Severity::Info, message, Some(hint.to_owned())));
            }
            None => {}
        }
        if let Some(Skipped { index, why }) = self.skipped.get(name) {
            let why = match why {
                SkipReason::OptionalAbsent => format!("the optional source of env[{index}] is absent"),
                SkipReason::GateOff => {
                    format!("env[{index}] reads an env file and the feature gate EnvFiles is off")
                }
            };
            let why = format!("{} is not set, because {why}", quoted(name));
            let hint = format!("declare a default for {} above env[{index}]", quoted(name));
            return warning(FindingCode::ReferenceSkipped, why, hint);
        }
        if vocabulary.image.contains(name) || RUNTIME_NAMES.contains(&name) {
            let by = if vocabulary.image.contains(name) { "the image" } else { "the runtime" };
            let why = format!("{} is set only by {by}, which no reference can see", quoted(name));
            let hint = "write its value out, or let a shell in the container expand it".to_owned();
            return warning(FindingCode::ReferenceImageOnly, why, hint);
        }
        if let Some(exact) = vocabulary.other_spelling(name) {
            let why = format!("names are case-sensitive, and only {} exists", quoted(exact));
            let hint = format!("write $({})", escaped(exact));
            return warning(FindingCode::ReferenceCaseDiffers, why, hint);
        }
        let similar = vocabulary.similar_to(name);
        if similar.is_none() && looks_like_shell(name) {
            let message =
                format!("$({shown}) stays as it is: Kubernetes runs no commands, only a shell does");
            let hint = match target {
                Target::Argument { is_shell_script: true } => return None,
                Target::Argument { .. } | Target::Variable { .. } => {
                    format!("write $$({shown}) to say that the text is meant, or run it in a shell script")
                }
            };
            return Some((FindingCode::ShellSubstitution, Severity::Info, message, Some(hint)));
        }
        let is_image_known = matches!(self.sources.image, Availability::Present(_));
        let hint = match (similar, target) {
            (Some(similar), _) => format!("did you mean $({})?", escaped(&similar)),
            (None, _) if name.contains("$(") => {
                "references cannot be nested; declare the inner one as a variable of its own".to_owned()
            }
            (None, Target::Variable { name: own, .. }) if own == name => {
                "a value may only refer to an earlier definition of its own name".to_owned()
            }
            (None, _) if !self.links && service_prefix(name).is_some() => {
                "enableServiceLinks is false, so services give no variables".to_owned()
            }
            (None, _) if is_image_known => {
                format!("declare {} above, or write $$({shown}) to keep the text", quoted(name))
            }
            (None, _) => format!(
                "declare {} above (a variable of the image cannot be referenced), or write $$({shown}) to keep the text",
                quoted(name)
            ),
        };
        // Without the image nobody can say that it does not exist at all.
        let why = match is_image_known {
            true => format!("{} is not defined", quoted(name)),
            false => format!("{} is not defined by the pod or a service", quoted(name)),
        };
        warning(FindingCode::ReferenceUndefined, why, hint)
    }

    fn collect_vocabulary(&self) -> Vocabulary<'a> {
        let mut vocabulary = Vocabulary { searches_left: 50, ..Vocabulary::default() };
        for (index, variable) in self.container.env.iter().enumerate() {
            vocabulary.env.entry(&variable.name).or_default().push(index);
        }
        let sources = self.sources;
        if let Availability::Present(image) = &sources.image {
            let names =
                image.env.iter().filter_map(|variable| variable.split_once('=')).map(|(name, _)| name);
            vocabulary.image.extend(names);
        }
        let declared = self.entries.iter().map(|entry| entry.name.as_str());
        let names = declared.chain(vocabulary.env.keys().copied()).chain(vocabulary.image.iter().copied());
        let mut by_lower_case: HashMap<String, Vec<String>> = HashMap::new();
        for name in names {
            let spellings = by_lower_case.entry(name.to_lowercase()).or_default();
            if spellings.len() < 4 && !spellings.iter().any(|spelling| spelling == name) {
                spellings.push(name.to_owned());
            }
        }
        vocabulary.by_lower_case = by_lower_case;
        vocabulary
    }
}

impl Vocabulary<'_> {
    /// The next place in `env` after `index` that defines `name`.
    fn declared_after(&self, name: &str, index: usize) -> Option<usize> {
        let places = self.env.get(name)?;
        places.get(places.partition_point(|place| *place <= index)).copied()
    }

    /// A name that differs from `name` only by case.
    fn other_spelling(&self, name: &str) -> Option<&String> {
        self.by_lower_case.get(&name.to_lowercase())?.iter().find(|spelling| *spelling != name)
    }

    /// A name that differs from `name` by one or two letters. Searched a limited number of times only,
    /// because each search looks at all names.
    fn similar_to(&mut self, name: &str) -> Option<String> {
        const LONGEST: usize = 64;
        let most = match name.len() {
            0..4 => return None,
            4..8 => 1,
            _ => 2,
        };
        if name.len() > LONGEST || self.searches_left == 0 || self.by_lower_case.len() > 5000 {
            return None;
        }
        self.searches_left -= 1;
        let wanted = name.to_lowercase();
        let near = |(lower, spellings): (&String, &Vec<String>)| {
            let distance = distance_up_to(&wanted, lower, most)?;
            let spelling = spellings.iter().find(|spelling| *spelling != name)?;
            Some((distance, spelling.clone()))
        };
        self.by_lower_case.iter().filter_map(near).min().map(|(_, exact)| exact)
    }
}

/// How many letters must be inserted, removed or replaced to get from `one` to `other`, if at most `most`.
fn distance_up_to(one: &str, other: &str, most: usize) -> Option<usize> {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len().abs_diff(other.len()) > most {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, left) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, right) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().filter(|distance| *distance <= most)
}

/// The service prefix of a name of the form `P_SERVICE_HOST`, `P_SERVICE_PORT`, `P_SERVICE_PORT_*` or
/// `P_PORT_80_TCP*`. A mere `P_PORT` is left out: too many ordinary variables are called so.
fn service_prefix(name: &str) -> Option<&str> {
    let prefix = name
        .strip_suffix("_SERVICE_HOST")
        .or_else(|| name.strip_suffix("_SERVICE_PORT"))
        .or_else(|| name.split_once("_SERVICE_PORT_").map(|(prefix, _)| prefix))
        .or_else(|| {
            let (prefix, rest) = name.split_once("_PORT_")?;
            let (number, protocol) = rest.split_once('_')?;
            let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            let protocol = protocol.split('_').next().unwrap_or_default();
            (is_number && matches!(protocol, "TCP" | "UDP" | "SCTP")).then_some(prefix)
        })?;
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (!prefix.is_empty() && prefix.bytes().all(is_name)).then_some(prefix)
}

/// Whether a name is rather a command of a shell than a variable: several words that begin with a command,
/// something with the shell's operators, an arithmetic expression, or one word as commands are called.
fn looks_like_shell(name: &str) -> bool {
    let is_command = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_lowercase() || matches!(first, '/' | '.'))
            && word.bytes().all(|byte| {
                byte.is_ascii_lowercase()
                    || byte.is_ascii_digit()
                    || matches!(byte, b'-' | b'/' | b'.' | b'_')
            })
    };
    if name.starts_with(['(', '<']) || name.contains(['|', ';', '&', '>', '`']) {
        return true;
    }
    let mut words = name.split_whitespace();
    match (words.next(), words.next()) {
        (Some(command), Some(_)) => is_command(command),
        (Some(command), None) => is_command(command) && !command.contains(['_', '.']),
        (None, _) => false,
    }
}
