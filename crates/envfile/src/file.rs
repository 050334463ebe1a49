//! What a file says: its assignments in file order, the answer to a key, and what deserves a remark.

use std::ops::Range;

use crate::index::NameIndex;
use crate::{EnvFileError, Position, Syntax};

/// The assignments of an env file, in file order, and an index by name.
///
/// Its `Debug` shows no content: env files hold secrets.
#[derive(Clone)]
pub struct EnvFile {
    pub(crate) syntax: Syntax,
    pub(crate) text: String,
    /// Values that do not stand in the text as they are: joined lines, and quoted lines that ended in CR LF.
    pub(crate) joined: String,
    pub(crate) declarations: Vec<Declaration>,
    pub(crate) index: NameIndex,
    pub(crate) notes: Vec<(NoteKind, u32)>,
    /// Kubernetes syntax only: the error that ends the search of every key not found before it.
    pub(crate) ended_by: Option<EnvFileError>,
}

/// Where one declaration and its parts are.
#[derive(Clone)]
pub(crate) struct Declaration {
    pub(crate) name: Range<u32>,
    pub(crate) value: ValueRange,
    pub(crate) line: u32,
    pub(crate) line_start: u32,
}

/// Which buffer holds a value, and where.
#[derive(Clone)]
pub(crate) enum ValueRange {
    InText(Range<u32>),
    Joined(Range<u32>),
}

/// One declaration of a variable. Its `Debug` shows the name and the place, not the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Assignment<'f> {
    /// The variable's name.
    pub name: &'f str,
    /// The value, as the process gets it.
    pub value: &'f str,
    /// Where the name begins.
    pub position: Position,
}

impl std::fmt::Debug for Assignment<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Assignment")
            .field("name", &self.name)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

/// Something about a valid declaration that its author may not have meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<'f> {
    /// What it is.
    pub kind: NoteKind,
    /// The declaration that it is about.
    pub assignment: Assignment<'f>,
}

/// The kinds of [`Note`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// Today's Kubernetes would read this declaration differently.
    KubernetesDiffers(Difference),
    /// The name begins with `export `, which is part of the name.
    ExportPrefix,
}

/// How today's Kubernetes would read a declaration that was read by another syntax.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// It refuses the file here: the value does not stand in single quotes.
    RefusesUnquoted,
    /// It refuses the file here: white space stands before `=`.
    RefusesSpaceBeforeEquals,
    /// It reads an empty value, because white space stands after `=`.
    ReadsEmpty,
    /// It treats the empty value as if the variable were not there.
    TreatsEmptyAsMissing,
    /// It takes an earlier declaration of the same name.
    TakesFirstDuplicate,
    /// It takes the quotes away.
    RemovesQuotes,
}

impl Difference {
    /// What Kubernetes would do, as the predicate of a sentence about the declaration.
    pub fn message(self) -> &'static str {
        match self {
            Self::RefusesUnquoted => "Kubernetes refuses it: the value is not enclosed in single quotes",
            Self::RefusesSpaceBeforeEquals => "Kubernetes refuses it: white space before '='",
            Self::ReadsEmpty => "Kubernetes reads an empty value: white space after '='",
            Self::TreatsEmptyAsMissing => "Kubernetes treats the empty value as missing",
            Self::TakesFirstDuplicate => "Kubernetes takes the first declaration of the name, not the last",
            Self::RemovesQuotes => "Kubernetes removes the quotes",
        }
    }
}

impl EnvFile {
    /// The syntax that the file was read by.
    pub fn syntax(&self) -> Syntax {
        self.syntax
    }

    /// The declaration that answers for `key`: the last of that name, in the Kubernetes syntax the first.
    ///
    /// `None` means that the file does not declare it, or, in the Kubernetes syntax only, that it is empty.
    ///
    /// # Errors
    ///
    /// In the Kubernetes syntax, the first error before the key; the other syntaxes have refused such a file.
    pub fn lookup(&self, key: &str) -> Result<Option<Assignment<'_>>, EnvFileError> {
        if let Some(number) = self.index.find(key, |number| self.name_of(number)) {
            let assignment = self.assignment(number);
            let missing = self.syntax == Syntax::Kubernetes && assignment.value.is_empty();
            return Ok((!missing).then_some(assignment));
        }
        match &self.ended_by {
            Some(error) => Err(error.clone()),
            None => Ok(None),
        }
    }

    /// Every declaration, in file order, duplicates included.
    pub fn assignments(&self) -> impl ExactSizeIterator<Item = Assignment<'_>> {
        (0..self.declarations.len()).map(|number| self.assignment(number as u32))
    }

    /// What deserves a remark, in file order.
    pub fn notes(&self) -> impl ExactSizeIterator<Item = Note<'_>> {
        self.notes.iter().map(|(kind, number)| Note { kind: *kind, assignment: self.assignment(*number) })
    }

    /// Kubernetes syntax: the error that ends every search that reaches it.
    pub fn ended_by(&self) -> Option<&EnvFileError> {
        self.ended_by.as_ref()
    }

    pub(crate) fn name_of(&self, number: u32) -> &str {
        let range = &self.declarations[number as usize].name;
        &self.text[range.start as usize..range.end as usize]
    }

    fn assignment(&self, number: u32) -> Assignment<'_> {
        let declaration = &self.declarations[number as usize];
        let value = match &declaration.value {
            ValueRange::InText(range) => &self.text[range.start as usize..range.end as usize],
            ValueRange::Joined(range) => &self.joined[range.start as usize..range.end as usize],
        };
        // Before a name stands white space only, so bytes are characters.
        let column = declaration.name.start - declaration.line_start + 1;
        Assignment {
            name: self.name_of(number),
            value,
            position: Position { line: declaration.line, column },
        }
    }
}

impl std::fmt::Debug for EnvFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("EnvFile")
            .field("syntax", &self.syntax)
            .field("declarations", &self.declarations.len())
            .finish_non_exhaustive()
    }
}
