//! The grammar: text into literal runs and references. The only place that knows what `$` means.

use std::iter::FusedIterator;
use std::ops::Range;

use memchr::memchr;

/// A piece of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token<'i> {
    /// Text to emit as it is: a run of the input, without the second `$` of a pair.
    Text(&'i str),
    /// A reference `$(NAME)`.
    Reference {
        /// NAME; may be empty and may hold any character but `)`.
        name: &'i str,
        /// Bytes of the whole `$(NAME)` in the input.
        span: Range<usize>,
    },
}

/// Splits `input` into tokens, in order. Linear on every input.
pub fn scan(input: &str) -> Tokens<'_> {
    Tokens { input, position: 0, reference: None, closer_left: true }
}

/// The references of `input` with their spans, in order.
pub fn references(input: &str) -> impl Iterator<Item = (&str, Range<usize>)> {
    scan(input).filter_map(|token| match token {
        Token::Text(_) => None,
        Token::Reference { name, span } => Some((name, span)),
    })
}

/// The iterator of [`scan`].
#[derive(Clone, Debug)]
pub struct Tokens<'i> {
    input: &'i str,
    /// Where the next token begins.
    position: usize,
    /// A reference that was found behind the text just given.
    reference: Option<Range<usize>>,
    /// Whether a `)` may be left. Once one search has found none, no later search is made:
    /// this is what keeps `$($($(` linear.
    closer_left: bool,
}

impl<'i> Tokens<'i> {
    #[inline]
    fn reference_token(&self, span: Range<usize>) -> Token<'i> {
        Token::Reference { name: &self.input[span.start + 2..span.end - 1], span }
    }
}

impl<'i> Iterator for Tokens<'i> {
    type Item = Token<'i>;

    #[inline]
    fn next(&mut self) -> Option<Token<'i>> {
        if let Some(span) = self.reference.take() {
            return Some(self.reference_token(span));
        }
        let bytes = self.input.as_bytes();
        let start = self.position;
        if start >= bytes.len() {
            return None;
        }
        let mut search = start;
        while let Some(offset) = memchr(b'$', &bytes[search..]) {
            let operator = search + offset;
            match bytes.get(operator + 1) {
                Some(b'$') => {
                    self.position = operator + 2;
                    return Some(Token::Text(&self.input[start..=operator]));
                }
                Some(b'(') if self.closer_left => match memchr(b')', &bytes[operator + 2..]) {
                    Some(length) => {
                        let span = operator..operator + length + 3;
                        self.position = span.end;
                        if start == operator {
                            return Some(self.reference_token(span));
                        }
                        self.reference = Some(span);
                        return Some(Token::Text(&self.input[start..operator]));
                    }
                    None => {
                        self.closer_left = false;
                        search = operator + 2;
                    }
                },
                Some(_) => search = operator + 2,
                None => break,
            }
            // The byte behind the operator may be the first of a longer character; the rest of that
            // character cannot be mistaken for a `$`, so the search may begin inside it.
            if search >= bytes.len() {
                break;
            }
        }
        self.position = bytes.len();
        Some(Token::Text(&self.input[start..]))
    }
}

impl FusedIterator for Tokens<'_> {}
