//! The positioned tree: what every value is and where it stands.

use std::ops::Range;

/// A place in the input: a byte offset, and line and column counted from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// The byte offset, from 0.
    pub offset: u32,
    /// The line.
    pub line: u32,
    /// The character in the line.
    pub column: u32,
}

impl Mark {
    /// The first character of an input.
    pub const START: Self = Self { offset: 0, line: 1, column: 1 };

    /// The mark of a byte offset; everything before it is UTF-8.
    pub fn at(source: &[u8], offset: usize) -> Self {
        let before = &source[..offset.min(source.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        let is_first_byte = |byte: &&u8| (**byte & 0xC0) != 0x80;
        Self {
            offset: before.len() as u32,
            line: memchr::memchr_iter(b'\n', before).count() as u32 + 1,
            column: before[line_start..].iter().filter(is_first_byte).count() as u32 + 1,
        }
    }
}

impl Mark {
    /// The mark of a later byte offset, counted on from this one.
    pub(crate) fn advanced(self, source: &[u8], offset: usize) -> Self {
        let between = source.get(self.offset as usize..offset).unwrap_or_default();
        let is_first_byte = |byte: &&u8| (**byte & 0xC0) != 0x80;
        let characters = |bytes: &[u8]| bytes.iter().filter(is_first_byte).count() as u32;
        match memchr::memrchr(b'\n', between) {
            None => {
                Self { offset: offset as u32, line: self.line, column: self.column + characters(between) }
            }
            Some(newline) => Self {
                offset: offset as u32,
                line: self.line + memchr::memchr_iter(b'\n', between).count() as u32,
                column: characters(&between[newline + 1..]) + 1,
            },
        }
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}", self.line, self.column)
    }
}

/// A stretch of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// Where it begins.
    pub start: Mark,
    /// The byte offset behind it.
    pub end: u32,
}

impl Span {
    /// The span of a value that was never written in any input, such as one that came over the API. Its line is 0.
    pub const NOWHERE: Self = Self { start: Mark { offset: 0, line: 0, column: 0 }, end: 0 };

    /// Whether there is an input in which this is a place.
    pub fn is_somewhere(&self) -> bool {
        self.start.line > 0
    }

    /// The byte range.
    pub fn range(&self) -> Range<usize> {
        self.start.offset as usize..self.end.max(self.start.offset) as usize
    }

    /// The text of the span in the input that it came from.
    pub fn slice<'s>(&self, source: &'s str) -> &'s str {
        source.get(self.range()).unwrap_or("")
    }
}

/// A value and its place. A value that came by an alias has the place of the anchored one.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value.
    pub value: NodeValue,
    /// Where it is written, quotes included.
    pub span: Span,
}

/// A value as JSON knows values, with whole numbers apart.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeValue {
    /// Nothing.
    Null,
    /// True or false, also when written `yes` or `off`.
    Bool(bool),
    /// A whole number of 64 bits.
    Int(i64),
    /// Any other number; never infinite, never NaN.
    Float(f64),
    /// Text.
    String(String),
    /// Values in order.
    List(Vec<Node>),
    /// Keys and values in order, each key once.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key, as JSON has it.
    pub key: String,
    /// Where the key is written.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

impl Entry {
    /// An entry without a place of its own.
    pub fn unplaced(key: impl Into<String>, value: Node) -> Self {
        Self { key: key.into(), key_span: Span::NOWHERE, value }
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        Self::unplaced(NodeValue::String(text.to_owned()))
    }
}

impl From<String> for Node {
    fn from(text: String) -> Self {
        Self::unplaced(NodeValue::String(text))
    }
}

impl<K: Into<String>> FromIterator<(K, Node)> for Node {
    /// A map; the keys are different ones.
    fn from_iter<I: IntoIterator<Item = (K, Node)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(key, value)| Entry::unplaced(key, value));
        Self::unplaced(NodeValue::Map(entries.collect()))
    }
}

impl FromIterator<Node> for Node {
    /// A list.
    fn from_iter<I: IntoIterator<Item = Node>>(items: I) -> Self {
        Self::unplaced(NodeValue::List(items.into_iter().collect()))
    }
}

/// As JSON, keys in their order.
impl serde::Serialize for Node {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            NodeValue::Null => serializer.serialize_unit(),
            NodeValue::Bool(value) => serializer.serialize_bool(*value),
            NodeValue::Int(number) => serializer.serialize_i64(*number),
            NodeValue::Float(number) => float_to_json(*number).serialize(serializer),
            NodeValue::String(text) => serializer.serialize_str(text),
            NodeValue::List(items) => serializer.collect_seq(items),
            NodeValue::Map(entries) => {
                serializer.collect_map(entries.iter().map(|entry| (&entry.key, &entry.value)))
            }
        }
    }
}

impl NodeValue {
    /// What Kubernetes calls such a value in its messages about JSON types.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Float(_) => "number",
            Self::String(_) => "string",
            Self::List(_) => "array",
            Self::Map(_) => "object",
        }
    }
}

impl Node {
    /// A value without a place.
    pub fn unplaced(value: NodeValue) -> Self {
        Self { value, span: Span::NOWHERE }
    }

    /// The tree of a JSON value; nothing of it has a place.
    pub fn from_json(value: &serde_json::Value) -> Self {
        Self::unplaced(match value {
            serde_json::Value::Null => NodeValue::Null,
            serde_json::Value::Bool(value) => NodeValue::Bool(*value),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(whole) => NodeValue::Int(whole),
                None => NodeValue::Float(number.as_f64().unwrap_or_default()),
            },
            serde_json::Value::String(text) => NodeValue::String(text.clone()),
            serde_json::Value::Array(items) => NodeValue::List(items.iter().map(Self::from_json).collect()),
            serde_json::Value::Object(map) => NodeValue::Map(
                map.iter().map(|(key, value)| Entry::unplaced(key, Self::from_json(value))).collect(),
            ),
        })
    }

    /// The value of a key, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The entry of a key, if this is a map that has it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The items of a list, to change them; none for any other value.
    pub fn items_mut(&mut self) -> &mut [Node] {
        match &mut self.value {
            NodeValue::List(items) => items,
            NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Int(_)
            | NodeValue::Float(_)
            | NodeValue::String(_)
            | NodeValue::Map(_) => &mut [],
        }
    }

    /// The entries of a map, to change them.
    pub fn entries_mut(&mut self) -> Option<&mut Vec<Entry>> {
        match &mut self.value {
            NodeValue::Map(entries) => Some(entries),
            NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Int(_)
            | NodeValue::Float(_)
            | NodeValue::String(_)
            | NodeValue::List(_) => None,
        }
    }

    /// The value of a key, to change it, if this is a map that has it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        let entry = self.entries_mut()?.iter_mut().find(|entry| entry.key == key)?;
        Some(&mut entry.value)
    }

    /// The entries of a map; none for any other value.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            NodeValue::Map(entries) => entries,
            NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Int(_)
            | NodeValue::Float(_)
            | NodeValue::String(_)
            | NodeValue::List(_) => &[],
        }
    }

    /// The items of a list; none for any other value.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            NodeValue::List(items) => items,
            NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Int(_)
            | NodeValue::Float(_)
            | NodeValue::String(_)
            | NodeValue::Map(_) => &[],
        }
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            NodeValue::String(text) => Some(text),
            NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Int(_)
            | NodeValue::Float(_)
            | NodeValue::List(_)
            | NodeValue::Map(_) => None,
        }
    }

    /// Whether this is null.
    pub fn is_null(&self) -> bool {
        self.value == NodeValue::Null
    }

    /// The value as JSON. A whole number stays one, however it was written.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            NodeValue::Null => serde_json::Value::Null,
            NodeValue::Bool(value) => (*value).into(),
            NodeValue::Int(number) => (*number).into(),
            NodeValue::Float(number) => float_to_json(*number),
            NodeValue::String(text) => text.as_str().into(),
            NodeValue::List(items) => items.iter().map(Node::to_json).collect(),
            NodeValue::Map(entries) => {
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect()
            }
        }
    }

    /// Where a part of a string's text stands in the input.
    ///
    /// `part` is a byte range of the text. Escapes and folding make text and input differ, so the part is
    /// searched: as many occurrences into the written form as into the text. If it is not there literally,
    /// the place is that of the whole value.
    pub fn span_of(&self, source: &str, part: Range<usize>) -> Span {
        let Some((text, needle)) = self.as_str().and_then(|text| Some((text, text.get(part.clone())?)))
        else {
            return self.span;
        };
        if needle.is_empty() {
            return self.span;
        }
        let before = text[..part.start].matches(needle).count();
        let written = self.span.slice(source);
        let Some((offset, _)) = written.match_indices(needle).nth(before) else {
            return self.span;
        };
        let start = self.span.start.offset as usize + offset;
        Span { start: self.span.start.advanced(source.as_bytes(), start), end: (start + needle.len()) as u32 }
    }
}

pub(crate) fn float_to_json(number: f64) -> serde_json::Value {
    // 2^63 is the first whole number that is no i64.
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if number.fract() == 0.0 && (-BOUND..BOUND).contains(&number) {
        return (number as i64).into();
    }
    serde_json::Number::from_f64(number).map_or(serde_json::Value::Null, serde_json::Value::Number)
}
