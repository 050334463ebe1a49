//! JSON streams to positioned trees: one pass, no copies of what is not kept.

use std::collections::HashMap;

use crate::{Document, Entry, Limits, Mark, Node, NodeValue, Notice, ParseError, Span, SyntaxMistake};

/// Below this many entries a map is searched from front to back.
const SMALL_MAP: usize = 12;

/// Reads every value of a JSON stream; values follow each other directly, apart by white space or by `---`.
pub(crate) fn parse(text: &str, limits: &Limits) -> Result<Vec<Document>, ParseError> {
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        offset: 0,
        line: 1,
        counted: 0,
        column: 1,
        depth: 0,
        nodes: 0,
        limits,
        notices: Vec::new(),
    };
    let mut documents = Vec::new();
    loop {
        reader.skip_white_space();
        if reader.bytes[reader.offset..].starts_with(b"---") {
            reader.offset += 3;
            continue;
        }
        if reader.peek().is_none() {
            return Ok(documents);
        }
        let root = reader.value()?;
        documents.push(Document { root, notices: std::mem::take(&mut reader.notices) });
    }
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    offset: usize,
    line: u32,
    /// How far the characters of the line are counted: of compact JSON, which is one line, each only once.
    counted: usize,
    /// The column of that place, from 1.
    column: u32,
    depth: usize,
    nodes: usize,
    limits: &'t Limits,
    notices: Vec<Notice>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.offset).copied()
    }

    fn skip_white_space(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => {
                    self.offset += 1;
                    self.line += 1;
                    (self.counted, self.column) = (self.offset, 1);
                }
                b' ' | b'\t' | b'\r' => self.offset += 1,
                _ => return,
            }
        }
    }

    fn mark(&mut self) -> Mark {
        let between = self.text.get(self.counted..self.offset).unwrap_or_default();
        self.column += between.chars().count() as u32;
        self.counted = self.offset;
        Mark { offset: self.offset as u32, line: self.line, column: self.column }
    }

    fn error<T>(&mut self, message: &str) -> Result<T, ParseError> {
        Err(ParseError::Syntax {
            mark: self.mark(),
            mistake: SyntaxMistake::Json,
            message: message.to_owned(),
        })
    }

    fn value(&mut self) -> Result<Node, ParseError> {
        let start = self.mark();
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            return Err(ParseError::TooManyNodes { mark: start, limit: self.limits.nodes });
        }
        let value = match self.peek() {
            Some(b'{') => self.nested(start, Self::map)?,
            Some(b'[') => self.nested(start, Self::list)?,
            Some(b'"') => NodeValue::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true", NodeValue::Bool(true))?,
            Some(b'f') => self.word("false", NodeValue::Bool(false))?,
            Some(b'n') => self.word("null", NodeValue::Null)?,
            Some(_) => return self.error("this is no JSON value"),
            None => return self.error("the JSON text ends before its value"),
        };
        Ok(Node { value, span: Span { start, end: self.offset as u32 } })
    }

    fn nested(
        &mut self,
        start: Mark,
        read: fn(&mut Self) -> Result<NodeValue, ParseError>,
    ) -> Result<NodeValue, ParseError> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(ParseError::TooDeep { mark: start, limit: self.limits.depth });
        }
        self.offset += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<NodeValue, ParseError> {
        let mut items = Vec::new();
        self.skip_white_space();
        if self.peek() == Some(b']') {
            self.offset += 1;
            return Ok(NodeValue::List(items));
        }
        loop {
            self.skip_white_space();
            items.push(self.value()?);
            self.skip_white_space();
            match self.peek() {
                Some(b',') => self.offset += 1,
                Some(b']') => {
                    self.offset += 1;
                    return Ok(NodeValue::List(items));
                }
                Some(_) | None => return self.error("expected `,` or `]` in a JSON list"),
            }
        }
    }

    fn map(&mut self) -> Result<NodeValue, ParseError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        self.skip_white_space();
        if self.peek() == Some(b'}') {
            self.offset += 1;
            return Ok(NodeValue::Map(entries));
        }
        loop {
            self.skip_white_space();
            if self.peek() != Some(b'"') {
                return self.error("expected a JSON key in double quotes");
            }
            let start = self.mark();
            let key = self.string()?;
            let key_span = Span { start, end: self.offset as u32 };
            self.skip_white_space();
            if self.peek() != Some(b':') {
                return self.error("expected `:` behind a JSON key");
            }
            self.offset += 1;
            self.skip_white_space();
            let value = self.value()?;
            if entries.len() == SMALL_MAP {
                places =
                    entries.iter().enumerate().map(|(place, entry)| (entry.key.clone(), place)).collect();
            }
            let present = if entries.len() < SMALL_MAP {
                entries.iter().position(|entry| entry.key == key)
            } else {
                places.get(&key).copied()
            };
            if let Some(place) = present {
                let first = entries[place].key_span;
                self.notices.push(Notice::DuplicateKey { key: key.clone(), first, again: key_span });
                entries[place] = Entry { key, key_span, value };
            } else {
                if entries.len() >= SMALL_MAP {
                    places.insert(key.clone(), entries.len());
                }
                entries.push(Entry { key, key_span, value });
            }
            self.skip_white_space();
            match self.peek() {
                Some(b',') => self.offset += 1,
                Some(b'}') => {
                    self.offset += 1;
                    return Ok(NodeValue::Map(entries));
                }
                Some(_) | None => return self.error("expected `,` or `}` in a JSON map"),
            }
        }
    }

    fn word(&mut self, word: &str, value: NodeValue) -> Result<NodeValue, ParseError> {
        if !self.text[self.offset..].starts_with(word) {
            return self.error("this is no JSON value");
        }
        self.offset += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<NodeValue, ParseError> {
        let rest = &self.text[self.offset..];
        let length = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E'))
            .count();
        // serde_json decides what a number is; only one that fits is a whole number.
        let Ok(number) = serde_json::from_str::<serde_json::Number>(&rest[..length]) else {
            return self.error("this is no JSON number");
        };
        self.offset += length;
        // Its floats are rounded twice; the standard library's are exact.
        match (number.as_i64(), rest[..length].parse::<f64>()) {
            (Some(whole), _) => Ok(NodeValue::Int(whole)),
            (None, Ok(float)) if float.is_finite() => Ok(NodeValue::Float(float)),
            (None, _) => self.error("this number is too large"),
        }
    }

    fn string(&mut self) -> Result<String, ParseError> {
        let start = self.offset + 1;
        let mut from = start;
        let mut text = String::new();
        loop {
            let Some(length) = memchr::memchr2(b'"', b'\\', &self.bytes[from..]) else {
                return self.error("a JSON string has no closing quote");
            };
            let end = from + length;
            if let Some(control) = self.bytes[from..end].iter().position(|byte| *byte < 0x20) {
                self.offset = from + control;
                return self.error("a JSON string cannot hold a control character");
            }
            text.push_str(&self.text[from..end]);
            if self.bytes[end] == b'"' {
                self.offset = end + 1;
                return Ok(text);
            }
            self.offset = end;
            text.push(self.escape()?);
            from = self.offset;
        }
    }

    /// One escape, from its backslash on.
    fn escape(&mut self) -> Result<char, ParseError> {
        let Some(letter) = self.bytes.get(self.offset + 1).copied() else {
            return self.error("a JSON string has no closing quote");
        };
        let character = match letter {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return self.error("unknown escape in a JSON string"),
        };
        self.offset += 2;
        Ok(character)
    }

    fn unicode_escape(&mut self) -> Result<char, ParseError> {
        let Some(unit) = self.hex_unit(self.offset) else {
            return self.error("`\\u` needs four hexadecimal digits");
        };
        self.offset += 6;
        if let 0xD800..=0xDBFF = unit
            && let Some(low @ 0xDC00..=0xDFFF) = self.hex_unit(self.offset)
        {
            self.offset += 6;
            let scalar = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            return Ok(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        // Half of a pair is what upstream replaces too.
        Ok(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex_unit(&self, offset: usize) -> Option<u32> {
        let digits = self.text.get(offset..offset + 6)?.strip_prefix("\\u")?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u32::from_str_radix(digits, 16).ok()
    }
}
