//! The walk over a file: line by line, each a blank, a comment or a declaration.

use names::{EnvNameGrammar, EnvVarName};

use crate::file::{Declaration, Difference, EnvFile, NoteKind, ValueRange};
use crate::index::NameIndex;
use crate::line::{Line, Lines};
use crate::{EnvFileError, MAX_FILE_BYTES, MAX_NAME_CHARACTERS, MAX_VALUE_BYTES, Position, Syntax};

/// Reads the whole file.
pub(crate) fn scan(bytes: &[u8], syntax: Syntax, grammar: EnvNameGrammar) -> Result<EnvFile, EnvFileError> {
    let text = checked_text(bytes, syntax)?;
    let mut scanner = Scanner {
        lines: Lines::new(text.as_bytes()),
        text,
        syntax,
        grammar,
        file: EnvFile {
            syntax,
            text: String::new(),
            joined: String::new(),
            declarations: Vec::with_capacity(text.len() / 24),
            index: NameIndex::with_capacity(text.len() / 24),
            notes: Vec::new(),
            ended_by: None,
        },
    };
    let end = scanner.scan_lines();
    let mut file = scanner.file;
    if let Err(error) = end {
        if syntax != Syntax::Kubernetes {
            return Err(error);
        }
        file.ended_by = Some(error);
    }
    file.text = text.to_owned();
    Ok(file)
}

/// Checks that hold for the file as a whole, in every syntax.
fn checked_text(bytes: &[u8], syntax: Syntax) -> Result<&str, EnvFileError> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(EnvFileError::FileTooLarge);
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|error| EnvFileError::NotUtf8(position_in(bytes, error.valid_up_to())))?;
    if let Some(offset) = memchr::memchr(0, bytes) {
        return Err(EnvFileError::Nul(position_in(bytes, offset)));
    }
    // Kubernetes takes the mark as a part of the first name.
    if syntax != Syntax::Kubernetes && text.starts_with('\u{feff}') {
        return Err(EnvFileError::ByteOrderMark);
    }
    Ok(text)
}

/// The position of a byte; everything before it is valid UTF-8.
fn position_in(bytes: &[u8], offset: usize) -> Position {
    let before = &bytes[..offset];
    let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    let is_first_byte = |byte: &&u8| (**byte & 0xC0) != 0x80;
    Position {
        line: memchr::memchr_iter(b'\n', before).count() as u32 + 1,
        column: before[line_start..].iter().filter(is_first_byte).count() as u32 + 1,
    }
}

struct Scanner<'t> {
    lines: Lines<'t>,
    text: &'t str,
    syntax: Syntax,
    grammar: EnvNameGrammar,
    file: EnvFile,
}

/// A declaration that has been read, before the file takes it in.
struct Read {
    value: ValueRange,
    difference: Option<Difference>,
}

impl<'t> Scanner<'t> {
    fn scan_lines(&mut self) -> Result<(), EnvFileError> {
        while let Some(line) = self.lines.advance() {
            let start = self.skip_blanks(line.start, line.end);
            if start == line.end || self.byte(start) == b'#' {
                continue;
            }
            self.scan_declaration(line, start)?;
        }
        Ok(())
    }

    fn scan_declaration(&mut self, line: Line, start: usize) -> Result<(), EnvFileError> {
        let bytes = self.text.as_bytes();
        let end = self.line_end(line);
        let Some(length) = memchr::memchr(b'=', &bytes[start..end.max(start)]) else {
            // A lone CR at the end of a Kubernetes line is no content.
            return if start >= end {
                Ok(())
            } else {
                Err(EnvFileError::MissingEquals(self.position(line, start)))
            };
        };
        let equals = start + length;
        let name_end = self.trim_blanks_back(start, equals);
        if name_end == start {
            return Err(EnvFileError::EmptyName(self.position(line, equals)));
        }
        if self.syntax == Syntax::Kubernetes && name_end != equals {
            return Err(EnvFileError::SpaceBeforeEquals(self.position(line, name_end)));
        }
        let name = &self.text[start..name_end];
        self.check_name(line, start, name)?;

        let mut read = match self.syntax {
            Syntax::Kubernetes => self.read_kubernetes_value(line, equals + 1)?,
            Syntax::Rfc2 => self.read_plain_value(line, equals + 1),
            Syntax::Default => {
                let value_start = self.skip_to_value(line, equals + 1);
                if value_start.1 < self.text.len() && self.byte(value_start.1) == b'\'' {
                    let continued = value_start.0.number != line.number;
                    let mut read = self.read_quoted_value(value_start.0, value_start.1)?;
                    if continued {
                        read.difference = Some(Difference::RefusesUnquoted);
                    } else if value_start.1 != equals + 1 {
                        read.difference = Some(Difference::ReadsEmpty);
                    }
                    read
                } else {
                    self.read_plain_value(line, equals + 1)
                }
            }
        };
        let value_length = match &read.value {
            ValueRange::InText(range) | ValueRange::Joined(range) => (range.end - range.start) as usize,
        };
        if value_length > MAX_VALUE_BYTES {
            return Err(EnvFileError::ValueTooLong(self.position(line, equals + 1)));
        }
        if name_end != equals {
            read.difference = Some(Difference::RefusesSpaceBeforeEquals);
        }
        self.declare(line, start..name_end, read);
        Ok(())
    }

    fn check_name(&self, line: Line, start: usize, name: &str) -> Result<(), EnvFileError> {
        if name.len() > MAX_NAME_CHARACTERS && name.chars().count() > MAX_NAME_CHARACTERS {
            return Err(EnvFileError::NameTooLong(self.position(line, start)));
        }
        if self.syntax == Syntax::Kubernetes {
            return Ok(());
        }
        EnvVarName::check(name, self.grammar).map_err(|error| EnvFileError::InvalidName {
            position: self.position(line, start),
            messages: error.messages(),
        })
    }

    fn declare(&mut self, line: Line, name: std::ops::Range<usize>, read: Read) {
        let number = self.file.declarations.len() as u32;
        let text = self.text;
        let name_text = &text[name.clone()];
        self.file.declarations.push(Declaration {
            name: name.start as u32..name.end as u32,
            value: read.value,
            line: line.number,
            line_start: line.start as u32,
        });
        let declarations = &self.file.declarations;
        let duplicate =
            self.file.index.insert(name_text, number, self.syntax != Syntax::Kubernetes, |number| {
                let range = &declarations[number as usize].name;
                &text[range.start as usize..range.end as usize]
            });
        if name_text.strip_prefix("export").is_some_and(|rest| rest.starts_with([' ', '\t'])) {
            self.file.notes.push((NoteKind::ExportPrefix, number));
        }
        if self.syntax == Syntax::Kubernetes {
            return;
        }
        if let Some(difference) = read.difference {
            self.file.notes.push((NoteKind::KubernetesDiffers(difference), number));
        }
        if duplicate.is_some() {
            self.file.notes.push((NoteKind::KubernetesDiffers(Difference::TakesFirstDuplicate), number));
        }
    }

    /// Kubernetes: a blank ends the value before it began; else it stands in single quotes.
    fn read_kubernetes_value(&mut self, line: Line, start: usize) -> Result<Read, EnvFileError> {
        let end = self.line_end(line);
        match self.text.as_bytes()[start..end].first() {
            Some(b' ' | b'\t') => Ok(Read { value: in_text(start, start), difference: None }),
            Some(b'\'') => self.read_quoted_value(line, start),
            Some(_) | None => Err(EnvFileError::NotQuoted(self.position(line, start))),
        }
    }

    /// Everything up to the next quote, across lines; then blanks and a comment at most.
    fn read_quoted_value(&mut self, line: Line, quote: usize) -> Result<Read, EnvFileError> {
        let bytes = self.text.as_bytes();
        let start = quote + 1;
        let Some(length) = memchr::memchr(b'\'', &bytes[start..]) else {
            return Err(EnvFileError::UnclosedQuote(self.position(line, quote)));
        };
        let end = start + length;
        let last = self.lines.advance_to(line, end);
        let rest = self.skip_blanks(end + 1, self.line_end(last).max(end + 1));
        if rest < self.line_end(last) && self.byte(rest) != b'#' {
            return Err(EnvFileError::AfterQuote(self.position(last, rest)));
        }
        let content = &self.text[start..end];
        let value = if last.number != line.number && content.contains("\r\n") {
            let from = self.file.joined.len();
            self.file.joined.push_str(&content.replace("\r\n", "\n"));
            joined(from, self.file.joined.len())
        } else {
            in_text(start, end)
        };
        let difference = (start == end).then_some(Difference::TreatsEmptyAsMissing);
        Ok(Read { value, difference })
    }

    /// RFC 2: the rest of the line without white space around it; a backslash at its end joins the next line.
    fn read_plain_value(&mut self, line: Line, equals_end: usize) -> Read {
        let bytes = self.text.as_bytes();
        let mut end = self.trim_blanks_back(equals_end, line.end);
        let start = self.skip_blanks(equals_end, end);
        let mut difference = match (start == equals_end, bytes[start..end].first()) {
            (true, Some(b'\'')) => Difference::RemovesQuotes,
            (true, _) => Difference::RefusesUnquoted,
            // A blank behind `=` makes Kubernetes read nothing, which is also what stands there.
            (false, None) => Difference::TreatsEmptyAsMissing,
            (false, Some(_)) => Difference::ReadsEmpty,
        };
        if end <= start || bytes[end - 1] != b'\\' {
            return Read { value: in_text(start, end), difference: Some(difference) };
        }
        if difference == Difference::RemovesQuotes {
            difference = Difference::RefusesUnquoted;
        }
        let from = self.file.joined.len();
        let mut part = start;
        while end > part && bytes[end - 1] == b'\\' {
            self.file.joined.push_str(&self.text[part..end - 1]);
            self.file.joined.push(' ');
            let Some(next) = self.lines.advance() else {
                part = end;
                break;
            };
            end = self.trim_blanks_back(next.start, next.end);
            part = self.skip_blanks(next.start, end);
        }
        self.file.joined.push_str(&self.text[part..end]);
        // The backslash counts as a space, and white space at either end of a value is ignored.
        let value = &self.file.joined[from..];
        let leading = value.len() - value.trim_start_matches(is_blank_char).len();
        let kept = value.trim_end_matches(is_blank_char).len().max(leading);
        self.file.joined.truncate(from + kept);
        Read { value: joined(from + leading, from + kept), difference: Some(difference) }
    }

    /// Where the value begins: behind blanks and behind lines that hold nothing but a joining backslash.
    fn skip_to_value(&self, line: Line, start: usize) -> (Line, usize) {
        let bytes = self.text.as_bytes();
        let mut lines = Lines::resume(bytes, line);
        let (mut line, mut start) = (line, start);
        loop {
            let value = self.skip_blanks(start, line.end);
            let end = self.trim_blanks_back(value, line.end);
            if &bytes[value..end] != b"\\" {
                return (line, value);
            }
            let Some(next) = lines.advance() else {
                return (line, value);
            };
            (line, start) = (next, next.start);
        }
    }

    fn byte(&self, offset: usize) -> u8 {
        self.text.as_bytes()[offset]
    }

    /// The end of the line's content: Kubernetes takes one CR away.
    fn line_end(&self, line: Line) -> usize {
        let ends_in_cr = line.end > line.start && self.byte(line.end - 1) == b'\r';
        if ends_in_cr { line.end - 1 } else { line.end }
    }

    fn is_blank(&self, byte: u8) -> bool {
        match byte {
            b' ' | b'\t' => true,
            b'\r' | 0x0b | 0x0c => self.syntax != Syntax::Kubernetes,
            _ => false,
        }
    }

    fn skip_blanks(&self, start: usize, end: usize) -> usize {
        let bytes = &self.text.as_bytes()[start..end];
        start + bytes.iter().position(|byte| !self.is_blank(*byte)).unwrap_or(bytes.len())
    }

    fn trim_blanks_back(&self, start: usize, end: usize) -> usize {
        let bytes = &self.text.as_bytes()[start..end];
        start + bytes.iter().rposition(|byte| !self.is_blank(*byte)).map_or(0, |last| last + 1)
    }

    fn position(&self, line: Line, offset: usize) -> Position {
        let column = self.text[line.start..offset].chars().count() as u32 + 1;
        Position { line: line.number, column }
    }
}

fn is_blank_char(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\u{b}' | '\u{c}')
}

fn in_text(start: usize, end: usize) -> ValueRange {
    ValueRange::InText(start as u32..end as u32)
}

fn joined(start: usize, end: usize) -> ValueRange {
    ValueRange::Joined(start as u32..end as u32)
}
