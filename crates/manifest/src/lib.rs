//! Bytes to documents: YAML and JSON streams as positioned trees, resolved exactly as kubectl resolves them.
//!
//! This crate decides what a scalar means (`0644` is 420, `no` is a boolean), which of two equal keys wins
//! (the last, with a notice), what anchors and merge keys expand to, and where everything stands.
//! It knows nothing of Kubernetes' types.
//! [`to_yaml`] and [`to_json_text`] are the way back: what they write is read as the same tree, by this crate and by
//! any reader of YAML 1.1 or 1.2, keys in their order.
//! Input is hostile: bytes, depth, nodes and what aliases expand to are limited.

mod json;
mod mistake;
mod node;
mod path;
mod plain;
mod resolve;
mod write;
mod yaml;

pub use mistake::SyntaxMistake;
pub use node::{Entry, Mark, Node, NodeValue, Span};
pub use path::{Located, PathStep};
pub use write::{to_json_text, to_yaml};

/// How much input is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest stream, in bytes.
    pub bytes: usize,
    /// How deep lists and maps may be nested.
    pub depth: usize,
    /// How many nodes all documents of a stream may have together.
    pub nodes: usize,
    /// How much anchors, aliases and merge keys may copy, counted in nodes plus bytes of text.
    pub copies: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 16 * 1024 * 1024, depth: 200, nodes: 1_000_000, copies: 4_000_000 }
    }
}

/// One document of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// What it holds; an empty document is null.
    pub root: Node,
    /// What was accepted although its author may not have meant it.
    pub notices: Vec<Notice>,
}

/// Something that Kubernetes accepts silently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// A map has a key twice; the last one won.
    DuplicateKey {
        /// The key.
        key: String,
        /// Where it stood first.
        first: Span,
        /// Where it stands again.
        again: Span,
    },
}

/// Why a stream cannot be read. Carries the place, never the text that stands there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// More bytes than [`Limits::bytes`].
    #[error("input is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The input is not UTF-8.
    #[error("input is not valid UTF-8")]
    NotUtf8 {
        /// The first byte that is not.
        mark: Mark,
        /// Whether it looks like UTF-16.
        is_utf16: bool,
    },
    /// The text is neither YAML nor JSON.
    #[error("{message}")]
    Syntax {
        /// Where the parser gave up.
        mark: Mark,
        /// What kind of mistake it is.
        mistake: SyntaxMistake,
        /// What it says.
        message: String,
    },
    /// Deeper than [`Limits::depth`].
    #[error("lists and maps are nested deeper than {limit} levels")]
    TooDeep {
        /// Where the limit was passed.
        mark: Mark,
        /// The limit in levels.
        limit: usize,
    },
    /// More nodes than [`Limits::nodes`].
    #[error("input has more than {limit} values")]
    TooManyNodes {
        /// Where the limit was passed.
        mark: Mark,
        /// The limit in nodes.
        limit: usize,
    },
    /// Aliases copy more than [`Limits::copies`].
    #[error("document contains excessive aliasing")]
    ExcessiveAliasing {
        /// Where the limit was passed.
        mark: Mark,
    },
    /// An alias stands inside the value that it stands for.
    #[error("an anchored value contains itself")]
    RecursiveAnchor {
        /// The alias.
        mark: Mark,
    },
    /// A key that JSON cannot have.
    #[error("{found} cannot be a map key")]
    UnsupportedKey {
        /// The key.
        mark: Mark,
        /// What the key is.
        found: &'static str,
    },
    /// A merge key whose value is not a map.
    #[error("a merge key needs a map or a list of maps")]
    UnmergeableValue {
        /// The value.
        mark: Mark,
    },
    /// `.inf` or `.nan`.
    #[error("infinity and NaN have no JSON form; quote the value if a string is meant")]
    NotFinite {
        /// The value.
        mark: Mark,
    },
    /// A scalar that its explicit tag does not fit.
    #[error("cannot decode a {found} as {tag}")]
    WrongTag {
        /// The value.
        mark: Mark,
        /// The tag, such as `!!int`.
        tag: String,
        /// What the value is without it, such as `!!str`.
        found: &'static str,
    },
    /// A `!!binary` value that is not base64.
    #[error("!!binary value contains invalid base64 text")]
    InvalidBinary {
        /// The value.
        mark: Mark,
    },
}

impl ParseError {
    /// Where the trouble is, if it is at one place.
    pub fn mark(&self) -> Option<Mark> {
        match self {
            Self::TooLarge { .. } => None,
            Self::NotUtf8 { mark, .. }
            | Self::Syntax { mark, .. }
            | Self::TooDeep { mark, .. }
            | Self::TooManyNodes { mark, .. }
            | Self::ExcessiveAliasing { mark }
            | Self::RecursiveAnchor { mark }
            | Self::UnsupportedKey { mark, .. }
            | Self::UnmergeableValue { mark }
            | Self::NotFinite { mark }
            | Self::WrongTag { mark, .. }
            | Self::InvalidBinary { mark } => Some(*mark),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::Syntax { mistake, .. } => return mistake.hint(),
            Self::TooLarge { .. } => "split the input into several files, and leave out what no pod needs",
            Self::NotUtf8 { is_utf16: true, .. } => "the file is UTF-16: save it as UTF-8",
            Self::NotUtf8 { .. } => {
                "save the file as UTF-8; bytes that are no text belong into binaryData or data, as base64"
            }
            Self::TooDeep { .. } => "no Kubernetes object is nested so deeply: look for brackets that repeat",
            Self::TooManyNodes { .. } => "split the input into several files",
            Self::ExcessiveAliasing { .. } => {
                "write the values out instead of referring to anchors that refer to anchors"
            }
            Self::RecursiveAnchor { .. } => "move the alias out of the value that its anchor names",
            Self::UnsupportedKey { found: "a map" | "a list", .. } => {
                "quote the text if its braces or brackets are meant; a template in {{ }} must be rendered first"
            }
            Self::UnsupportedKey { .. } => "put the key in quotes",
            Self::UnmergeableValue { .. } => {
                "let << name a map, such as an alias of one; quote \"<<\" if it is meant as a key"
            }
            Self::NotFinite { .. } => "put the value in quotes if the text is meant",
            Self::WrongTag { .. } => "remove the tag, or write a value that it fits",
            Self::InvalidBinary { .. } => "encode the value with base64, or remove the tag !!binary",
        };
        hint.to_owned()
    }
}

/// Reads every document of a YAML or JSON stream.
///
/// Input that begins with `{` or `[` is read as JSON first and as YAML's flow style if it is not JSON.
/// A stream without any document gives none.
///
/// # Errors
///
/// The first thing that makes the stream unreadable; nothing of it is returned then.
pub fn parse_stream(bytes: &[u8], limits: &Limits) -> Result<Vec<Document>, ParseError> {
    if bytes.len() > limits.bytes {
        return Err(ParseError::TooLarge { limit: limits.bytes });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| ParseError::NotUtf8 {
        mark: Mark::at(bytes, error.valid_up_to()),
        is_utf16: bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]),
    })?;
    let is_json_like = text.trim_start().starts_with(['{', '[']);
    if is_json_like {
        return match json::parse(text, limits) {
            Ok(documents) => Ok(documents),
            Err(error @ ParseError::Syntax { .. }) => yaml::parse(text, limits).map_err(|yaml_error| {
                // Flow style that is broken as YAML too was most likely meant as what it looks like.
                let inner = text.trim_start()[1..].trim_start();
                if inner.starts_with(['"', '{', '[']) && !text.trim_start().starts_with("{{") {
                    error
                } else {
                    yaml_error
                }
            }),
            Err(error) => Err(error),
        };
    }
    match plain::parse(text, limits) {
        Some(documents) => Ok(documents),
        None => yaml::parse(text, limits),
    }
}

#[cfg(test)]
mod tests;
