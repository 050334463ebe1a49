//! The table for people: one a container, variables in the order that the process sees, findings below.

use std::fmt::Write;

use anstyle::{AnsiColor, Effects, Style};
use environment::State;
use environment::record::{
    AbsentServiceRecord, ContainerRecord, FindingRecord, OriginRecord, PodRecord, ValueRecord, VariableRecord,
};

use super::explain::{ContainerNotes, ExplainedObject, Explanation};
use super::origin::origin_text;
use crate::excerpt::{Message, Place};
use crate::terminal_text::one_line;

/// Wider cells do not push the next column to the right.
const WIDEST_CELL: usize = 64;

/// Longer values are cut, in characters.
const LONGEST_VALUE: usize = 256;

/// Characters that are shown of a value that is cut.
const SHOWN_OF_LONG: usize = 200;

const HEADING: Style = Style::new().effects(Effects::BOLD);
const QUIET: Style = Style::new().effects(Effects::DIMMED);
const SECRET: Style = AnsiColor::Yellow.on_default();
const UNKNOWN: Style = AnsiColor::Cyan.on_default();
const MISSING: Style = AnsiColor::Red.on_default();

/// Everything, as text for a terminal or, without colour, for a file.
pub(super) fn render(explanation: &Explanation, colour: bool) -> String {
    let mut page = Page { text: String::new(), colour };
    for (number, pod) in explanation.pods.iter().enumerate() {
        if number > 0 {
            page.text.push('\n');
        }
        page.pod_heading(&pod.kind, &pod.record);
        for (container, notes) in pod.record.containers.iter().zip(&pod.containers) {
            page.container(container, notes);
        }
    }
    for object in &explanation.objects {
        page.object(object);
    }
    page.legend(explanation);
    page.text
}

/// What a mark in a value means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    UnknownUntilRun,
    ImageNotHere,
    NotInInput,
    Refused,
    Secret,
}

impl Meaning {
    const ALL: [Self; 5] =
        [Self::UnknownUntilRun, Self::ImageNotHere, Self::NotInInput, Self::Refused, Self::Secret];

    fn of(variable: &VariableRecord) -> Option<Self> {
        match (variable.state, &variable.origin) {
            (State::Known, _) => None,
            (State::Masked, _) => Some(Self::Secret),
            (State::UnknownUntilRun, _) => Some(Self::UnknownUntilRun),
            (State::Missing, OriginRecord::Image) => Some(Self::ImageNotHere),
            (State::Missing, _) if variable.refused => Some(Self::Refused),
            (State::Missing, _) => Some(Self::NotInInput),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::UnknownUntilRun => "<...>  known only when the pod runs",
            Self::ImageNotHere => "<...>  the image is not on this machine",
            Self::NotInInput => "<...>  its source is not in the input",
            Self::Refused => "<!...> cannot be used: an error above says why",
            Self::Secret => "****   comes from a Secret; --show-secrets shows it",
        }
    }
}

struct Page {
    text: String,
    colour: bool,
}

impl Page {
    fn styled(&self, style: Style, text: &str) -> String {
        if self.colour { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }

    fn pod_heading(&mut self, kind: &str, record: &PodRecord) {
        let name = self.styled(HEADING, &one_line(&format!("{}/{}", record.namespace, record.name)));
        let source = record.source.as_ref().map(|source| format!("  {}:{}", source.file, source.line));
        let source = self.styled(QUIET, &one_line(&source.unwrap_or_default()));
        let _ = writeln!(self.text, "{} {name}{source}", kind.to_lowercase());
    }

    /// What was found in an object outside of its containers.
    fn object(&mut self, object: &ExplainedObject) {
        let record = &object.record;
        let name = match record.name.as_str() {
            "" => String::new(),
            name => format!(" {}/{name}", record.namespace),
        };
        let name = self.styled(HEADING, &one_line(&name));
        let source = record.source.as_ref().map(|source| format!("  {}:{}", source.file, source.line));
        let source = self.styled(QUIET, &one_line(&source.unwrap_or_default()));
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let kind = one_line(&record.kind.to_lowercase());
        let _ = writeln!(self.text, "{kind}{name}{source}");
        for (finding, place) in record.findings.iter().zip(&object.places) {
            self.text.push('\n');
            self.finding(finding, place.as_ref());
        }
    }

    fn container(&mut self, record: &ContainerRecord, notes: &ContainerNotes) {
        let name = self.styled(HEADING, &one_line(&record.name));
        let image = match (notes.image.is_empty(), notes.image_is_known) {
            (true, _) => String::new(),
            (false, true) => format!("  image {}", notes.image),
            (false, false) => {
                format!("  image {}, not on this machine: its own variables are not shown", notes.image)
            }
        };
        let image = self.styled(QUIET, &one_line(&image));
        let _ = writeln!(self.text, "\n{} {name}{image}\n", record.kind.as_str());
        self.variables(&record.environment);
        if record.command.is_some() || record.args.is_some() {
            self.text.push('\n');
        }
        self.words("command", record.command.as_deref());
        self.words("args", record.args.as_deref());
        self.absent(&record.absent_service_variables);
        for (finding, place) in record.findings.iter().zip(&notes.places) {
            self.text.push('\n');
            self.finding(finding, place.as_ref());
        }
    }

    /// What the marks in the values mean, where there are any.
    fn legend(&mut self, explanation: &Explanation) {
        let records = || explanation.pods.iter().flat_map(|pod| &pod.record.containers);
        let meanings: Vec<Meaning> =
            records().flat_map(|container| &container.environment).filter_map(Meaning::of).collect();
        let legend: Vec<&str> =
            Meaning::ALL.iter().filter(|each| meanings.contains(each)).map(|each| each.words()).collect();
        if !legend.is_empty() {
            let text = self.styled(QUIET, &legend.join("\n"));
            let _ = writeln!(self.text, "\n{text}");
        }
    }

    fn variables(&mut self, variables: &[VariableRecord]) {
        let rows: Vec<[String; 2]> = variables
            .iter()
            .map(|each| [one_line(&each.name), shown_value(&each.display, each.state)])
            .collect();
        let width = |column: usize, heading: &str| {
            let cells =
                rows.iter().map(|row| row[column].chars().count()).filter(|width| *width <= WIDEST_CELL);
            cells.max().unwrap_or(0).max(heading.len())
        };
        let (name_width, value_width) = (width(0, "VARIABLE"), width(1, "VALUE"));
        let heading = format!("  {:name_width$}  {:value_width$}  ORIGIN", "VARIABLE", "VALUE");
        let heading = self.styled(QUIET, &heading);
        let _ = writeln!(self.text, "{heading}");
        for ([name, value], variable) in rows.iter().zip(variables) {
            let style = match variable.state {
                State::Known => Style::new(),
                State::Masked => SECRET,
                State::UnknownUntilRun => UNKNOWN,
                State::Missing => MISSING,
            };
            let padding = " ".repeat(value_width.saturating_sub(value.chars().count()));
            let value = self.styled(style, value);
            let origin = self.styled(QUIET, &one_line(&origin_of(variable)));
            let _ = writeln!(self.text, "  {name:name_width$}  {value}{padding}  {origin}");
        }
    }

    fn words(&mut self, label: &str, words: Option<&[ValueRecord]>) {
        let Some(words) = words else { return };
        let shown: Vec<String> = words.iter().map(shown_word).collect();
        let label = self.styled(QUIET, &format!("{label:7}"));
        let _ = writeln!(self.text, "  {label}  [{}]", shown.join(", "));
    }

    /// Services whose variables came after the start.
    fn absent(&mut self, services: &[AbsentServiceRecord]) {
        if services.is_empty() {
            return;
        }
        self.text.push('\n');
        for service in services {
            let (count, name) = (service.variables.len(), one_line(&service.name));
            let first = service.variables.first().map(|name| one_line(name)).unwrap_or_default();
            let what = match count {
                1 => format!("  absent   {first} of service {name}"),
                2 => format!("  absent   {first} and one more variable of service {name}"),
                _ => format!("  absent   {first} and {} more variables of service {name}", count - 1),
            };
            let text = self.styled(QUIET, &format!("{what} (came after the start)"));
            let _ = writeln!(self.text, "{text}");
        }
    }

    fn finding(&mut self, finding: &FindingRecord, place: Option<&Place>) {
        let message = Message::of(finding, place).render(self.colour);
        let _ = writeln!(self.text, "{message}");
    }
}

/// Where a variable comes from, what it hides, and whether that is still so.
fn origin_of(variable: &VariableRecord) -> String {
    let mut text = origin_text(&variable.origin);
    for shadowed in &variable.shadowed {
        let _ = write!(text, ", hides {}", origin_text(&shadowed.origin));
    }
    if variable.stale {
        text.push_str(" (changed since)");
    }
    text
}

/// A value as the table has room for it; programs get all of it from `-o json`.
fn shown_value(display: &str, state: State) -> String {
    let (beginning, rest) = shortened(display, state);
    one_line(beginning) + &rest
}

fn shown_word(word: &ValueRecord) -> String {
    let (beginning, rest) = shortened(&word.display, word.state);
    format!("{beginning:?}{rest}")
}

/// The beginning of a value, and what says that there is more. Only of a known value its size is told.
fn shortened(display: &str, state: State) -> (&str, String) {
    let mut ends = display.char_indices().map(|(at, _)| at);
    let Some(end) = ends.nth(SHOWN_OF_LONG) else { return (display, String::new()) };
    if ends.nth(LONGEST_VALUE - SHOWN_OF_LONG - 1).is_none() {
        return (display, String::new());
    }
    let rest = match state {
        State::Known => format!("… ({} bytes in all)", display.len()),
        State::Masked | State::UnknownUntilRun | State::Missing => "… (cut)".to_owned(),
    };
    (&display[..end], rest)
}
