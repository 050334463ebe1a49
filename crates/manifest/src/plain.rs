//! The plain block style that `helm template`, kubectl and most people write, read in one pass.
//!
//! This reader takes a stream only if it is sure of every line of it: printable text, one key or item a line, scalars that end
//! on their line, literal blocks, lists of scalars in brackets. Everything else (anchors, tags, merge keys, folded
//! text, maps in braces, tabs, any mistake) makes it give up, and the complete parser reads the stream from its
//! beginning. A test over generated and damaged documents shows that both give the same trees, to the last position.

use crate::{Document, Entry, Limits, Mark, Node, NodeValue, Notice, Span, resolve, yaml};

/// Deeper streams are left to the complete parser, which has the error for too deep ones.
const DEPTH: usize = 48;

/// Reads every document of a stream in plain style; `None` for any other stream.
pub(crate) fn parse(text: &str, limits: &Limits) -> Option<Vec<Document>> {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
    let is_ascii = text.as_bytes().iter().all(is_plain);
    if limits.depth < DEPTH || !(is_ascii || text.chars().all(is_printable)) {
        return None;
    }
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        line: Line { start: 0, number: 0, indent: 0, end: 0, kind: LineKind::Blank },
        behind: 0,
        nodes: 0,
        limit: limits.nodes,
        notices: Vec::new(),
    };
    reader.stream()
}

/// Whether a character is surely ordinary text: no control character, no line break of any kind, no byte-order mark.
fn is_printable(character: char) -> bool {
    matches!(
        character,
        ' '..='~' | '\n' | '\u{a1}'..='\u{1fff}' | '\u{2030}'..='\u{d7ff}' | '\u{10000}'..='\u{1ffff}'
    )
}

/// What a line begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineKind {
    /// Nothing, or a comment.
    Blank,
    /// Content.
    Content,
    /// `---`.
    Marker,
    /// The stream is over.
    End,
}

/// A line of the text.
#[derive(Clone, Copy)]
struct Line {
    /// Its first byte.
    start: usize,
    /// From 1.
    number: u32,
    /// Blanks before its content.
    indent: usize,
    /// The byte behind its last one that is no blank.
    end: usize,
    kind: LineKind,
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    /// The line that is being read.
    line: Line,
    /// The first byte of the line behind it.
    behind: usize,
    nodes: usize,
    limit: usize,
    notices: Vec<Notice>,
}

impl Reader<'_> {
    fn stream(&mut self) -> Option<Vec<Document>> {
        let mut documents = Vec::new();
        self.next_content()?;
        // Where the marker of a document ends that has had no content so far.
        let mut open: Option<Mark> = None;
        loop {
            if let Some(marker) = open
                && self.line.kind != LineKind::Content
            {
                self.count()?;
                let root = Node { value: NodeValue::Null, span: Span { start: marker, end: marker.offset } };
                documents.push(Document { root, notices: Vec::new() });
            }
            match self.line.kind {
                LineKind::Blank => return None,
                LineKind::End => return Some(documents),
                LineKind::Marker => {
                    open = Some(self.mark(self.line.start + 3));
                    self.next_content()?;
                }
                LineKind::Content => {
                    open = None;
                    if self.line.indent != 0 {
                        return None;
                    }
                    let root = self.block(0)?;
                    documents.push(Document { root, notices: std::mem::take(&mut self.notices) });
                    if self.line.kind == LineKind::Content {
                        return None;
                    }
                }
            }
        }
    }

    /// Goes to the next line that is neither blank nor a comment.
    fn next_content(&mut self) -> Option<()> {
        loop {
            self.next_line();
            match self.line.kind {
                LineKind::Blank => {}
                LineKind::Content | LineKind::Marker | LineKind::End => break,
            }
        }
        self.check_content()
    }

    /// Gives up on a line of content that the complete parser has to read.
    fn check_content(&self) -> Option<()> {
        let content = &self.bytes[self.line.start + self.line.indent..self.line.end];
        // The end of a document, directives, and markers with content are the complete parser's.
        let is_odd = self.line.indent == 0
            && self.line.kind == LineKind::Content
            && (content.starts_with(b"---") || content.starts_with(b"...") || content.starts_with(b"%"));
        (!is_odd).then_some(())
    }

    fn next_line(&mut self) {
        let start = self.behind;
        let number = self.line.number + 1;
        if start >= self.bytes.len() {
            self.behind = self.bytes.len();
            self.line = Line { start, number, indent: 0, end: start, kind: LineKind::End };
            return;
        }
        let rest = &self.bytes[start..];
        let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..length];
        self.behind = (start + length + 1).min(self.bytes.len());
        let indent = line.iter().take_while(|byte| **byte == b' ').count();
        let trailing = line[indent..].iter().rev().take_while(|byte| **byte == b' ').count();
        let kind = match line.get(indent) {
            None | Some(b'#') => LineKind::Blank,
            Some(_) if line == b"---" => LineKind::Marker,
            Some(_) => LineKind::Content,
        };
        self.line = Line { start, number, indent, end: start + length - trailing, kind };
    }

    fn mark(&self, offset: usize) -> Mark {
        let before = &self.bytes[self.line.start..offset];
        let is_first_byte = |byte: &&u8| (**byte & 0xC0) != 0x80;
        let column = before.iter().filter(is_first_byte).count() + 1;
        Mark { offset: offset as u32, line: self.line.number, column: column as u32 }
    }

    fn count(&mut self) -> Option<()> {
        self.nodes += 1;
        (self.nodes <= self.limit).then_some(())
    }

    /// A map or list whose first key or item begins the current line.
    fn block(&mut self, depth: usize) -> Option<Node> {
        let at = self.line.start + self.line.indent;
        match self.is_item(at) {
            true => self.list(at, at, depth),
            false => self.map(at, depth),
        }
    }

    /// Whether an item of a list begins at a byte of the current line.
    fn is_item(&self, at: usize) -> bool {
        self.bytes[at] == b'-' && (at + 1 == self.line.end || self.bytes.get(at + 1) == Some(&b' '))
    }

    /// A list whose first `-` stands at a byte of the current line; `place` is where the list itself begins.
    fn list(&mut self, first: usize, place: usize, depth: usize) -> Option<Node> {
        if depth >= DEPTH {
            return None;
        }
        self.count()?;
        let indent = first - self.line.start;
        let start = self.mark(place);
        let mut items = Vec::new();
        let mut at = first;
        loop {
            let content = self.skip_blanks(at + 1);
            let item = match self.is_over(content) {
                // With blanks or a comment behind it, an empty item has another place.
                true if self.line_end() != at + 1 => return None,
                true => self.below(at + 1, indent, indent, depth)?,
                false if self.is_item(content) => self.list(content, content, depth + 1)?,
                false if self.key_end(content)?.is_some() => self.map(content, depth + 1)?,
                false => self.inline(content, indent, depth)?,
            };
            items.push(item);
            if self.line.kind != LineKind::Content || self.line.indent != indent {
                break;
            }
            at = self.line.start + indent;
            if !self.is_item(at) {
                break;
            }
        }
        // What stands deeper fits nothing; what stands in the column and is no item ends a list that has no
        // indentation of its own, which its map decides.
        if self.line.kind == LineKind::Content && self.line.indent > indent {
            return None;
        }
        let end = items.last().map_or(start.offset, |last| last.span.end);
        Some(Node { value: NodeValue::List(items), span: Span { start, end } })
    }

    /// A map whose first key stands at a byte of the current line.
    fn map(&mut self, first: usize, depth: usize) -> Option<Node> {
        if depth >= DEPTH {
            return None;
        }
        self.count()?;
        let indent = first - self.line.start;
        let start = self.mark(first);
        let mut map = yaml::MapBuilder::default();
        let mut at = first;
        loop {
            let key_end = self.key_end(at)??;
            let key_span = Span { start: self.mark(at), end: key_end as u32 };
            self.count()?;
            let key = self.key(at, key_end)?;
            let content = self.skip_blanks(key_end + 1);
            let value = match self.is_over(content) {
                true => self.below(key_end, indent, indent + 1, depth)?,
                false => self.inline(content, indent, depth)?,
            };
            if let Some(first) = map.set(Entry { key, key_span, value }, false) {
                let key = map.key_at(key_span)?.to_owned();
                self.notices.push(Notice::DuplicateKey { key, first, again: key_span });
            }
            if self.line.kind != LineKind::Content || self.line.indent < indent {
                break;
            }
            at = self.line.start + self.line.indent;
            if self.line.indent > indent || self.is_item(at) {
                return None;
            }
        }
        let entries = map.into_entries();
        let end = entries.last().map_or(start.offset, |last| last.value.span.end);
        Some(Node { value: NodeValue::Map(entries), span: Span { start, end } })
    }

    /// What stands on the lines below a key or `-`: a collection that is indented deeper than `indent`, a list in the
    /// column of the key (then `own` is more than `indent`), or nothing.
    fn below(&mut self, behind: usize, indent: usize, own: usize, depth: usize) -> Option<Node> {
        let empty = self.mark(behind);
        self.next_content()?;
        if self.line.kind == LineKind::Content {
            let at = self.line.start + self.line.indent;
            let is_list_in_column = self.line.indent == indent && own > indent && self.is_item(at);
            if is_list_in_column {
                // Such a list begins at its first item, for the complete parser.
                let content = self.skip_blanks(at + 1);
                return if self.is_over(content) { None } else { self.list(at, content, depth + 1) };
            }
            if self.line.indent > indent {
                return self.block(depth + 1);
            }
        }
        self.count()?;
        Some(Node { value: NodeValue::Null, span: Span { start: empty, end: empty.offset } })
    }

    fn skip_blanks(&self, at: usize) -> usize {
        at + self.bytes[at.min(self.line.end)..self.line.end].iter().take_while(|byte| **byte == b' ').count()
    }

    /// Whether nothing or a comment stands at a byte of the current line; blanks stand before it.
    fn is_over(&self, at: usize) -> bool {
        at >= self.line.end || self.bytes[at] == b'#'
    }

    /// Where the key ends that begins at a byte, if a key does; gives up on what may be one.
    #[allow(clippy::option_option)]
    fn key_end(&self, at: usize) -> Option<Option<usize>> {
        let line = &self.bytes[at..self.line.end];
        let end = match line.first()? {
            quote @ (b'"' | b'\'') => {
                let text = &line[1..];
                let length = memchr::memchr2(*quote, b'\\', text)?;
                match text[length] == *quote {
                    true => at + length + 2,
                    // An escape: no key in plain style, and the value is looked at again.
                    false => return self.no_key_with_escape(at),
                }
            }
            first if first.is_ascii_alphanumeric() || matches!(first, b'_' | b'.' | b'/') => {
                let is_of_key =
                    |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'/' | b'-');
                at + line.iter().take_while(is_of_key).count()
            }
            _ => return Some(None),
        };
        let is_key =
            self.bytes.get(end) == Some(&b':') && (end + 1 >= self.line.end || self.bytes[end + 1] == b' ');
        Some(is_key.then_some(end))
    }

    /// A text with escapes is a value unless a `: ` stands somewhere behind it.
    #[allow(clippy::option_option)]
    fn no_key_with_escape(&self, at: usize) -> Option<Option<usize>> {
        let line = &self.bytes[at..self.line.end];
        let may_be_key = line.ends_with(b":") || line.windows(2).any(|pair| pair == b": ");
        // Inside the quotes it may mean nothing: only the value's own end can tell, and it has to end the line.
        if may_be_key && self.quoted(at).is_none_or(|(_, end)| !self.is_end(end)) {
            return None;
        }
        Some(None)
    }

    fn key(&self, at: usize, end: usize) -> Option<String> {
        let value = match self.bytes[at] {
            b'"' | b'\'' => NodeValue::String(self.text[at + 1..end - 1].to_owned()),
            _ => resolve::scalar(&self.text[at..end], true, None, Mark::START).ok()?,
        };
        resolve::key(value).ok()
    }

    /// A value that begins at a byte of the current line and ends on it, or is a literal block below it. Leaves the
    /// reader at the next line of content, which must not be indented deeper than `indent`.
    fn inline(&mut self, at: usize, indent: usize, depth: usize) -> Option<Node> {
        let start = self.mark(at);
        let (value, end) = match self.bytes[at] {
            b'|' => return self.literal(at, indent),
            b'[' => return self.flow_list(at, indent, depth),
            b'{' if self.bytes.get(at + 1) == Some(&b'}') => {
                self.count()?;
                (NodeValue::Map(Vec::new()), at + 2)
            }
            b'"' | b'\'' => {
                self.count()?;
                let (text, end) = self.quoted(at)?;
                (NodeValue::String(text), end)
            }
            _ => {
                self.count()?;
                let end = self.scalar_end(at)?;
                (resolve::scalar(&self.text[at..end], true, None, start).ok()?, end)
            }
        };
        self.end_line(end, indent)?;
        Some(Node { value, span: Span { start, end: end as u32 } })
    }

    /// Goes on to the next line of content behind a value that ends at a byte.
    fn end_line(&mut self, end: usize, indent: usize) -> Option<()> {
        if !self.is_end(end) {
            return None;
        }
        self.next_content()?;
        (self.line.kind != LineKind::Content || self.line.indent <= indent).then_some(())
    }

    /// Whether nothing but a comment follows on the current line.
    fn is_end(&self, at: usize) -> bool {
        let next = self.skip_blanks(at);
        next >= self.line.end || (next > at && self.bytes[next] == b'#')
    }

    /// Where the plain scalar ends that begins at a byte.
    fn scalar_end(&self, at: usize) -> Option<usize> {
        let line = &self.bytes[at..self.line.end];
        let is_first = match line[0] {
            b'-' => line.get(1).is_some_and(|next| *next != b' '),
            first => {
                first.is_ascii_alphanumeric()
                    || !first.is_ascii()
                    || matches!(first, b'_' | b'/' | b'.' | b'$' | b'(' | b'+' | b'~')
            }
        };
        if !is_first || line.ends_with(b":") {
            return None;
        }
        let mut from = 0;
        while let Some(found) = memchr::memchr2(b':', b'#', &line[from..]) {
            let place = from + found;
            match line[place] {
                b':' if line.get(place + 1) == Some(&b' ') => return None,
                b'#' if line[place - 1] == b' ' => {
                    let before = &line[..place];
                    let blanks = before.iter().rev().take_while(|byte| **byte == b' ').count();
                    return Some(at + place - blanks);
                }
                _ => from = place + 1,
            }
        }
        Some(self.line.end)
    }

    /// A quoted text that ends on its line, and the byte behind its closing quote.
    fn quoted(&self, at: usize) -> Option<(String, usize)> {
        let line = &self.bytes[..self.line.end];
        let is_single = line[at] == b'\'';
        let mut text = String::new();
        let mut from = at + 1;
        loop {
            let length = match is_single {
                true => memchr::memchr(b'\'', &line[from..])?,
                false => memchr::memchr2(b'"', b'\\', &line[from..])?,
            };
            let end = from + length;
            text.push_str(&self.text[from..end]);
            match (line[end], line.get(end + 1)) {
                (b'\'', Some(b'\'')) => text.push('\''),
                (b'\\', Some(b'"')) => text.push('"'),
                (b'\\', Some(b'\\')) => text.push('\\'),
                (b'\\', Some(b'n')) => text.push('\n'),
                (b'\\', Some(b't')) => text.push('\t'),
                (b'\\', _) => return None,
                _ => return Some((text, end + 1)),
            }
            from = end + 2;
        }
    }

    /// A list of scalars in brackets on one line.
    fn flow_list(&mut self, first: usize, indent: usize, depth: usize) -> Option<Node> {
        if depth + 1 >= DEPTH {
            return None;
        }
        self.count()?;
        let list_start = self.mark(first);
        let mut start = list_start;
        let mut items: Vec<Node> = Vec::new();
        let mut at = self.skip_blanks(first + 1);
        if self.bytes.get(at) == Some(&b']') {
            self.end_line(at + 1, indent)?;
            let span = Span { start: list_start, end: at as u32 + 1 };
            return Some(Node { value: NodeValue::List(items), span });
        }
        loop {
            self.count()?;
            // Counted on from the item before: the line may be as long as the stream.
            start = start.advanced(self.bytes, at);
            let (value, end) = match self.bytes[..self.line.end].get(at)? {
                b'"' | b'\'' => {
                    let (text, end) = self.quoted(at)?;
                    (NodeValue::String(text), end)
                }
                first if first.is_ascii_alphanumeric() || matches!(first, b'/' | b'$' | b'_') => {
                    let is_simple = |byte: &&u8| {
                        byte.is_ascii_alphanumeric()
                            || matches!(byte, b'/' | b'$' | b'_' | b'-' | b'.' | b'(' | b')' | b'=' | b'+')
                    };
                    let length = self.bytes[at..self.line.end].iter().take_while(is_simple).count();
                    let text = &self.text[at..at + length];
                    (resolve::scalar(text, true, None, start).ok()?, at + length)
                }
                _ => return None,
            };
            items.push(Node { value, span: Span { start, end: end as u32 } });
            let next = self.skip_blanks(end);
            match self.bytes[..self.line.end].get(next)? {
                b']' => {
                    self.end_line(next + 1, indent)?;
                    let span = Span { start: list_start, end: end as u32 };
                    return Some(Node { value: NodeValue::List(items), span });
                }
                b',' if self.bytes.get(next + 1) == Some(&b' ') => at = self.skip_blanks(next + 1),
                _ => return None,
            }
        }
    }

    /// A literal block (`|`, `|-`, `|+`) whose parent stands at `indent`.
    fn literal(&mut self, at: usize, indent: usize) -> Option<Node> {
        self.count()?;
        let chomp = match &self.bytes[at..self.line.end] {
            b"|" => Chomp::Clip,
            b"|-" => Chomp::Strip,
            b"|+" => Chomp::Keep,
            _ => return None,
        };
        let mut text = String::new();
        let mut first: Option<(usize, Mark)> = None;
        loop {
            self.next_line();
            if self.line.kind == LineKind::End {
                break;
            }
            let line_end = self.line_end();
            // A line that the end of the stream cuts off has its own rules for the last line break.
            if self.bytes.get(line_end) != Some(&b'\n') {
                return None;
            }
            let is_empty = self.line.start + self.line.indent >= line_end;
            let own = match first {
                // An empty line before the first one may decide the indentation: left to the complete parser.
                None if is_empty || self.line.indent <= indent => return None,
                None => {
                    first = Some((self.line.indent, self.mark(self.line.start + self.line.indent)));
                    self.line.indent
                }
                Some((own, _)) => own,
            };
            if is_empty {
                if self.line.indent > own {
                    return None;
                }
                text.push('\n');
                continue;
            }
            if self.line.indent < own {
                break;
            }
            text.push_str(&self.text[self.line.start + own..=line_end]);
        }
        let (own, start) = first?;
        let end = (self.line.start + self.line.indent.min(own)) as u32;
        let content = text.trim_end_matches('\n').len();
        match chomp {
            Chomp::Strip => text.truncate(content),
            Chomp::Clip => text.truncate(content + 1),
            Chomp::Keep => {}
        }
        match self.line.kind {
            LineKind::Blank => self.next_content()?,
            LineKind::Content => self.check_content()?,
            LineKind::Marker | LineKind::End => {}
        }
        if self.line.kind == LineKind::Content && self.line.indent > indent {
            return None;
        }
        Some(Node { value: NodeValue::String(text), span: Span { start, end } })
    }

    /// The byte behind the current line, trailing blanks included.
    fn line_end(&self) -> usize {
        match self.bytes.get(self.behind.wrapping_sub(1)) {
            Some(b'\n') => self.behind - 1,
            Some(_) | None => self.behind,
        }
    }
}

/// What becomes of the line breaks at the end of a literal block.
#[derive(Clone, Copy)]
enum Chomp {
    Strip,
    Clip,
    Keep,
}

#[cfg(test)]
mod tests;
