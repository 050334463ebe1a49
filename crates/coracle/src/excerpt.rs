//! A message with the line of the file that it is about.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use environment::Severity;
use environment::record::FindingRecord;

/// Longer lines (compact JSON) are not shown; their place is.
const LONGEST_LINE: usize = 400;

/// A stretch of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// The file, as it was named.
    pub(crate) file: String,
    /// Line, from 1.
    pub(crate) line: u32,
    /// Column, from 1.
    pub(crate) column: u32,
    /// The text of the line.
    pub(crate) text: String,
    /// The bytes of the line that are meant.
    pub(crate) range: Range<usize>,
}

impl Place {
    /// The place of a span; of several lines only the first is meant. Of a line that is too long to be shown no more is
    /// taken than shows that it is: compact JSON may have a thousand places on one line.
    pub(crate) fn of(file: &str, source: &str, span: manifest::Span) -> Self {
        let range = span.range();
        let start = range.start.min(source.len());
        let nearest = boundary(source, start.saturating_sub(LONGEST_LINE + 4));
        let farthest = boundary(source, start.saturating_add(LONGEST_LINE + 4));
        let line_start = match source[nearest..start].rfind('\n') {
            Some(newline) => nearest + newline + 1,
            None => nearest,
        };
        let line_end = source[start..farthest].find('\n').map_or(farthest, |length| start + length);
        let text = source[line_start..line_end].trim_end_matches('\r').to_owned();
        let end = range.end.clamp(start, line_end) - line_start;
        let end = end.min(text.len());
        Self {
            file: file.to_owned(),
            line: span.start.line,
            column: span.start.column,
            range: (start - line_start).min(end)..end,
            text,
        }
    }
}

impl Place {
    /// The place of a key, with nothing of what stands behind it. Before it in its line there may be another value:
    /// the line is shown then only if `is_open`.
    pub(crate) fn of_key(file: &str, source: &str, span: manifest::Span, is_open: bool) -> Self {
        let place = Self::of(file, source, span);
        let before = &place.text[..place.range.start];
        if before.chars().all(|character| matches!(character, ' ' | '-' | '?')) {
            let text = place.text[..place.range.end].to_owned();
            return Self { text, ..place };
        }
        if is_open { place } else { place.without_text() }
    }

    /// The same place, of which nothing is shown.
    pub(crate) fn without_text(self) -> Self {
        Self { text: String::new(), range: 0..0, ..self }
    }
}

/// The first place from a byte on where a character begins.
fn boundary(text: &str, from: usize) -> usize {
    (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len())
}

/// Something that makes a part of the input unreadable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mistake {
    /// What is wrong.
    pub(crate) message: String,
    /// What to do.
    pub(crate) hint: String,
    /// Where, and what stands there.
    pub(crate) place: Place,
    /// A few words below the place.
    pub(crate) label: &'static str,
}

impl Mistake {
    /// The message with its excerpt.
    pub(crate) fn render(&self, colour: bool) -> String {
        let message = Message {
            severity: Severity::Error,
            code: None,
            text: &self.message,
            label: self.label,
            hint: &self.hint,
            place: Some(&self.place),
            field: "",
        };
        message.render(colour)
    }
}

/// What is said about a place.
pub(crate) struct Message<'m> {
    pub(crate) severity: Severity,
    /// The stable code of a finding.
    pub(crate) code: Option<&'m str>,
    pub(crate) text: &'m str,
    pub(crate) label: &'m str,
    pub(crate) hint: &'m str,
    pub(crate) place: Option<&'m Place>,
    /// The field path, shown where there is no place.
    pub(crate) field: &'m str,
}

impl<'m> Message<'m> {
    /// A finding.
    pub(crate) fn of(finding: &'m FindingRecord, place: Option<&'m Place>) -> Self {
        Self {
            severity: finding.severity,
            code: Some(&finding.code),
            text: &finding.message,
            label: "",
            hint: &finding.hint,
            place,
            field: &finding.field_path,
        }
    }

    /// The message, the line that it is about, and the hint.
    pub(crate) fn render(&self, colour: bool) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
            Severity::Info => Level::INFO,
        };
        let mut title = level.primary_title(self.text);
        if let Some(code) = self.code {
            title = title.id(code);
        }
        let mut group = Group::with_title(title);
        match self.place {
            Some(place) if place.text.len() <= LONGEST_LINE && !place.text.is_empty() => {
                let mut annotation = AnnotationKind::Primary.span(place.range.clone());
                if !self.label.is_empty() {
                    annotation = annotation.label(self.label);
                }
                group = group.element(
                    Snippet::source(place.text.as_str())
                        .line_start(place.line as usize)
                        .path(place.file.as_str())
                        .annotation(annotation),
                );
            }
            Some(place) => {
                let origin = annotate_snippets::Origin::path(place.file.as_str());
                group = group.element(origin.line(place.line as usize).char_column(place.column as usize));
            }
            None if !self.field.is_empty() => {
                group = group.element(annotate_snippets::Origin::path(self.field));
            }
            None => {}
        }
        if !self.hint.is_empty() {
            group = group.element(Level::HELP.message(self.hint));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

/// An error and what caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // A transparent wrapper repeats its cause.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_on_a_line_of_megabytes_takes_no_copy_of_the_line() {
        let long = "é".repeat(1 << 20);
        let source = format!("a: 1\n{long}b: 2{long}\n");
        let start = manifest::Mark::at(source.as_bytes(), 5 + long.len());
        let span = manifest::Span { start, end: start.offset + 1 };
        let place = Place::of("f", &source, span);
        assert_eq!((place.line, place.column, &place.text[place.range.clone()]), (2, (1 << 20) + 1, "b"));
        assert!((LONGEST_LINE + 1..4 * LONGEST_LINE).contains(&place.text.len()), "too long to be shown");
        let short = manifest::Span { start: manifest::Mark::START, end: 1 };
        assert_eq!(Place::of("f", &source, short).text, "a: 1");
    }
}
