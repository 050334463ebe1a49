//! Expansion of one text: tokens are resolved and measured first, then copied once.

use std::borrow::Cow;
use std::ops::Range;

use crate::scan::{Token, scan};

/// A reference of an expanded text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference<'i> {
    /// Bytes of the whole `$(NAME)` in the input.
    pub span: Range<usize>,
    /// NAME.
    pub name: &'i str,
    /// Whether the lookup knew it; if not, it stays in the result as it was.
    pub resolved: bool,
}

/// The result of [`expand`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanded<'i> {
    /// The expanded text; borrowed where there was nothing to do.
    pub value: Cow<'i, str>,
    /// Every reference in order.
    pub references: Vec<Reference<'i>>,
}

/// Why a text was not expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpandError {
    /// The result would be larger than allowed. Nothing was copied.
    #[error("the expanded value has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// Bytes of the result.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
}

/// Replaces each `$(NAME)` in `input` whose NAME `lookup` knows, and each `$$` by `$`.
///
/// `lookup` is asked once for each reference, in order; what it answers is not scanned again.
///
/// # Errors
///
/// The result would have more than `limit` bytes.
pub fn expand<'i, 'v>(
    input: &'i str,
    mut lookup: impl FnMut(&'i str) -> Option<&'v str>,
    limit: usize,
) -> Result<Expanded<'i>, ExpandError> {
    let mut pieces: Vec<&str> = Vec::new();
    let mut references = Vec::new();
    let mut size = 0usize;
    for token in scan(input) {
        let piece = match token {
            // The whole input is one literal run: nothing to copy.
            Token::Text(text) if text.len() == input.len() => {
                refuse_above(limit, text.len())?;
                return Ok(Expanded { value: Cow::Borrowed(text), references });
            }
            Token::Text(text) => text,
            Token::Reference { name, span } => {
                let value = lookup(name);
                references.push(Reference { span: span.clone(), name, resolved: value.is_some() });
                value.unwrap_or(&input[span])
            }
        };
        size = size.saturating_add(piece.len());
        // Above the limit only the size matters any more.
        if size <= limit {
            if pieces.is_empty() {
                // About what ordinary text needs, so that long texts do not grow the list again and again.
                pieces.reserve(8 + input.len() / 32);
                references.reserve(4 + input.len() / 64);
            }
            pieces.push(piece);
        }
    }
    refuse_above(limit, size)?;
    let mut value = String::with_capacity(size);
    for piece in pieces {
        value.push_str(piece);
    }
    Ok(Expanded { value: Cow::Owned(value), references })
}

fn refuse_above(limit: usize, size: usize) -> Result<(), ExpandError> {
    if size > limit { Err(ExpandError::TooLarge { size, limit }) } else { Ok(()) }
}
