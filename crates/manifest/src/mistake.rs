//! What is wrong with text that is no YAML, in words for who wrote it, and what to do about it.

use granit_parser::ErrorKind;

/// The kinds of mistakes in YAML and JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyntaxMistake {
    /// A tab where blanks are needed.
    Tab,
    /// A quoted text that does not end where it should.
    UnclosedQuote,
    /// Text behind a closing quote.
    TextBehindQuote {
        /// The quote.
        quote: char,
    },
    /// A list or map in brackets that is not closed, or closed with the wrong bracket.
    Bracket,
    /// A second `: ` in one line.
    ColonInValue,
    /// A line without `: ` where a key is needed.
    MissingColon,
    /// A line that stands too far right or left.
    Indentation,
    /// A `- ` behind a key.
    ListBehindKey,
    /// An alias of an anchor that is not there.
    UnknownAlias,
    /// A `*` or `&` without a name.
    NoAnchorName,
    /// A value that begins with a character that YAML keeps for itself.
    Reserved {
        /// The character.
        character: char,
    },
    /// A control character.
    ControlCharacter,
    /// A tag such as `!name`.
    Tag,
    /// An escape in double quotes that does not exist.
    Escape,
    /// Text behind `|` or `>`.
    BlockHeader,
    /// A comment in the middle of a text of several lines.
    CommentInText,
    /// A line that begins with `%`, or the end of a document.
    Directive,
    /// The text of a template that was not rendered.
    Template,
    /// The marks that git leaves of a merge conflict.
    MergeConflict,
    /// Text that looks like JSON and is none.
    Json,
    /// Anything else.
    Other,
}

impl SyntaxMistake {
    /// What to do about it.
    pub fn hint(self) -> String {
        let hint = match self {
            Self::Tab => "indent with blanks: YAML takes no tabs",
            Self::UnclosedQuote => {
                "close the quote of the text that begins there; a quote of the other kind does not end it"
            }
            Self::TextBehindQuote { quote: '\'' } => {
                "a quote inside single quotes is written twice: 'it''s'; or use double quotes"
            }
            Self::TextBehindQuote { .. } => {
                "a quote inside double quotes is written \\\"; or use single quotes around the whole value"
            }
            Self::Bracket => {
                "close each [ with ] and each { with }, and put commas between the entries; quote text that has brackets"
            }
            Self::ColonInValue => {
                "put the value in quotes: a colon with a blank behind it begins a value of its own"
            }
            Self::MissingColon => "write KEY: VALUE with a colon and a blank, or begin an item with `- `",
            Self::Indentation => {
                "indent the line exactly as the entries beside it; the entries of one map or list begin in one column"
            }
            Self::ListBehindKey => {
                "begin the list on the next line, or write it in brackets: [a, b]; quote text that begins with `- `"
            }
            Self::UnknownAlias => {
                "declare the anchor &NAME above in the same document, or quote the value if the * is meant"
            }
            Self::NoAnchorName => "put the value in quotes if its * or & is meant",
            Self::Reserved { character } => {
                return format!(
                    "put the value in quotes: YAML keeps {character} at the beginning for itself"
                );
            }
            Self::ControlCharacter => {
                "remove the control character, or write it as an escape in double quotes: \"\\x01\""
            }
            Self::Tag => "put the value in quotes if the ! is meant",
            Self::Escape => {
                "in double quotes a backslash begins an escape: write \\\\ for the character itself, or use single quotes"
            }
            Self::BlockHeader => "begin the text on the line below the | or >",
            Self::CommentInText => "put the text in quotes, or move the comment out of it",
            Self::Directive => "remove the line, or begin the document below it with ---",
            Self::Template => {
                "render the template first (helm template CHART | coracle env -f -), or quote the text in braces"
            }
            Self::MergeConflict => {
                "resolve the merge conflict and remove the marks <<<<<<<, ======= and >>>>>>>"
            }
            Self::Json => {
                "write JSON with keys and text in double quotes, a comma between entries and none behind the last"
            }
            Self::Other => {
                "mend the file there; compare indentation, quotes and brackets with the lines around"
            }
        };
        hint.to_owned()
    }

    /// What is wrong, where these words are better than the parser's, which are about tokens.
    fn message(self) -> Option<&'static str> {
        Some(match self {
            Self::Tab => "found a tab where indentation needs blanks",
            Self::UnclosedQuote => "a quoted text does not end",
            Self::TextBehindQuote { .. } => "text stands behind a closing quote",
            Self::ColonInValue => "a second `: ` in one line",
            Self::MissingColon => "a key needs a colon and a blank behind it",
            Self::Indentation => "the indentation does not fit the lines above",
            Self::ListBehindKey => "a list cannot begin behind a key",
            Self::UnknownAlias => "there is no anchor of this name above",
            Self::NoAnchorName => "a * or & needs a name",
            Self::ControlCharacter => "a control character",
            Self::BlockHeader => "text stands behind | or >",
            Self::CommentInText => "a comment interrupts a text of several lines",
            Self::Template => "this looks like a template that was not rendered",
            Self::MergeConflict => "this looks like a merge conflict",
            Self::Bracket
            | Self::Reserved { .. }
            | Self::Tag
            | Self::Escape
            | Self::Directive
            | Self::Json
            | Self::Other => return None,
        })
    }
}

/// A mistake with its message and the byte where it stands.
pub(crate) struct Found {
    pub(crate) mistake: SyntaxMistake,
    pub(crate) message: String,
    pub(crate) offset: usize,
}

/// Judges an error of the parser at a byte of the text.
pub(crate) fn judge(kind: &ErrorKind, info: &str, text: &str, offset: usize) -> Found {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let line_start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[line_start..].lines().next().unwrap_or_default();
    let before = text[..line_start].lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let begins_with_tab = |line: &str| line.trim_start_matches(' ').starts_with('\t');
    let mut mistake = of_kind(kind, &line[..offset - line_start], before);
    if let ErrorKind::TabInPlainScalar = kind {
        // The parser points at the beginning of the text that the line with the tab seems to continue.
        if let Some(next) = text[offset..].lines().skip(1).find(|line| begins_with_tab(line)) {
            offset = next.as_ptr() as usize - text.as_ptr() as usize;
        }
    } else if begins_with_tab(line) {
        mistake = SyntaxMistake::Tab;
    }
    let is_conflict =
        |line: &str| ["<<<<<<< ", "=======", ">>>>>>> "].iter().any(|mark| line.starts_with(mark));
    if is_conflict(line) || is_conflict(before) {
        mistake = SyntaxMistake::MergeConflict;
    } else if line.contains("{{") || (line.contains("}}") && before.contains("{{")) {
        mistake = SyntaxMistake::Template;
    }
    if mistake == SyntaxMistake::UnclosedQuote {
        // The parser points at where it gave up; the author looks for where the text begins.
        let openings =
            [": \"", ": '", "- \"", "- '"].iter().filter_map(|opening| text[..offset].rfind(opening));
        offset = openings.max().map_or(offset, |opening| opening + 2);
    }
    let message = mistake.message().map_or_else(|| info.to_owned(), str::to_owned);
    Found { mistake, message, offset }
}

/// `head` is the line up to the place, `before` the line above it.
fn of_kind(kind: &ErrorKind, head: &str, before: &str) -> SyntaxMistake {
    match kind {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabAtBlockScalarStart
        | ErrorKind::TabInIndentation
        | ErrorKind::TabInPlainScalar => SyntaxMistake::Tab,
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::DocumentIndicatorInQuotedScalar => SyntaxMistake::UnclosedQuote,
        ErrorKind::InvalidTrailingSingleQuotedScalar => SyntaxMistake::TextBehindQuote { quote: '\'' },
        ErrorKind::InvalidTrailingDoubleQuotedScalar => SyntaxMistake::TextBehindQuote { quote: '"' },
        ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::MismatchedFlowCollectionEnd { .. }
        | ErrorKind::MisplacedFlowCollectionEnd
        | ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator
        | ErrorKind::InvalidColonPlacement
        | ErrorKind::BlockEntryInFlowCollection
        | ErrorKind::FlowMappingValueAdjacentCollection
        | ErrorKind::InvalidFlowScalarIndent => SyntaxMistake::Bracket,
        ErrorKind::MappingValueNotAllowed if head.contains(": ") => SyntaxMistake::ColonInValue,
        ErrorKind::MappingValueNotAllowed if !has_key(before) => SyntaxMistake::MissingColon,
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => SyntaxMistake::MissingColon,
        ErrorKind::MappingValueNotAllowed
        | ErrorKind::MappingKeyNotAllowed
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::InvalidIndentation
        | ErrorKind::InvalidBlockScalarIndent
        | ErrorKind::UnexpectedEofBlockMapping
        | ErrorKind::UnexpectedEofBlockSequence => SyntaxMistake::Indentation,
        ErrorKind::BlockSequenceEntryNotAllowed
        | ErrorKind::InvalidBlockEntryWhitespace
        | ErrorKind::PlainScalarStartsWithDashFlowIndicator => SyntaxMistake::ListBehindKey,
        ErrorKind::UnknownAnchor => SyntaxMistake::UnknownAlias,
        ErrorKind::MissingAnchorOrAliasName => SyntaxMistake::NoAnchorName,
        ErrorKind::UnexpectedCharacter { character } if character.is_control() => {
            SyntaxMistake::ControlCharacter
        }
        ErrorKind::UnexpectedCharacter { character } => SyntaxMistake::Reserved { character: *character },
        ErrorKind::UndeclaredTagHandle
        | ErrorKind::InvalidTagTerminator
        | ErrorKind::InvalidGlobalTagCharacter
        | ErrorKind::UnclosedVerbatimTag
        | ErrorKind::InvalidTagEscape
        | ErrorKind::MissingTagUri
        | ErrorKind::ExpectedTagBang => SyntaxMistake::Tag,
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidUnicodeEscape
        | ErrorKind::InvalidLowSurrogateHexEscape
        | ErrorKind::InvalidLowSurrogate
        | ErrorKind::MissingLowSurrogate
        | ErrorKind::UnpairedLowSurrogate => SyntaxMistake::Escape,
        ErrorKind::InvalidBlockScalarHeader | ErrorKind::ZeroBlockScalarIndent => SyntaxMistake::BlockHeader,
        ErrorKind::CommentInterceptedScalar | ErrorKind::CommentNotSeparated => SyntaxMistake::CommentInText,
        ErrorKind::DuplicateVersionDirective
        | ErrorKind::UnsupportedYamlMajorVersion
        | ErrorKind::DuplicateTagDirective
        | ErrorKind::ExpectedDocumentStart
        | ErrorKind::MissingDocumentEndBeforeDirective
        | ErrorKind::InvalidDocumentEnd
        | ErrorKind::MissingDirectiveName
        | ErrorKind::InvalidDirectiveName
        | ErrorKind::InvalidDirectiveTerminator
        | ErrorKind::MissingYamlVersion
        | ErrorKind::MissingYamlVersionSeparator => SyntaxMistake::Directive,
        // Another crate's enum, with kinds that a text cannot cause.
        _ => SyntaxMistake::Other,
    }
}

/// Whether a line has a key with its colon.
fn has_key(line: &str) -> bool {
    line.contains(": ") || line.trim_end().ends_with(':')
}
