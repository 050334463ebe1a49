//! Lines of a text that is walked once: where each begins and ends, and which number it has.

/// One physical line, as byte offsets into the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// The first byte.
    pub(crate) start: usize,
    /// One past the last byte; the line feed is not part of the line, a carriage return before it is.
    pub(crate) end: usize,
    /// The line number, from 1.
    pub(crate) number: u32,
}

/// Walks the lines of a text and can jump forward when a value spans several.
pub(crate) struct Lines<'t> {
    text: &'t [u8],
    next: usize,
    number: u32,
}

impl<'t> Lines<'t> {
    /// Begins before the first line.
    pub(crate) fn new(text: &'t [u8]) -> Self {
        Self { text, next: 0, number: 0 }
    }

    /// Begins behind `line`.
    pub(crate) fn resume(text: &'t [u8], line: Line) -> Self {
        Self { text, next: line.end + 1, number: line.number }
    }

    /// The next line, if the text has one. A final line feed opens no further line.
    pub(crate) fn advance(&mut self) -> Option<Line> {
        if self.next >= self.text.len() {
            return None;
        }
        let start = self.next;
        let end = memchr::memchr(b'\n', &self.text[start..]).map_or(self.text.len(), |length| start + length);
        self.next = end + 1;
        self.number += 1;
        Some(Line { start, end, number: self.number })
    }

    /// The line that holds the byte at `offset`, which lies in `line` or after it; the walk goes on behind it.
    pub(crate) fn advance_to(&mut self, line: Line, offset: usize) -> Line {
        let mut current = line;
        (self.next, self.number) = (line.end + 1, line.number);
        while offset > current.end {
            match self.advance() {
                Some(next) => current = next,
                None => break,
            }
        }
        current
    }
}
