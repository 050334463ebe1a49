//! YAML events to positioned trees: anchors, aliases, merge keys, duplicate keys, and the limits.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, Tag};

use crate::{Document, Entry, Limits, Mark, Node, NodeValue, Notice, ParseError, Span, mistake, resolve};

/// Below this many entries a map is searched from front to back.
const SMALL_MAP: usize = 12;

/// Reads every document of a YAML stream.
pub(crate) fn parse(text: &str, limits: &Limits) -> Result<Vec<Document>, ParseError> {
    // A byte-order mark belongs to the encoding, not to the first key.
    let (text, shift) = match text.strip_prefix('\u{feff}') {
        Some(rest) => (rest, text.len() - rest.len()),
        None => (text, 0),
    };
    let mut options = granit_parser::options! {
        flow_nesting_limit: limits.depth,
        block_nesting_limit: limits.depth,
    };
    options.set_emit_comments(false);
    let mut builder = TreeBuilder::new(limits);
    let marks = Marks { shift: shift as u32 };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| marks.error(&error, text, limits))?;
        builder.take(event, marks.span(&span))?;
    }
    Ok(builder.documents)
}

/// Turns the parser's places into ours.
#[derive(Clone, Copy)]
struct Marks {
    shift: u32,
}

impl Marks {
    fn mark(self, marker: &granit_parser::Marker) -> Mark {
        Mark {
            offset: marker.byte_offset().unwrap_or_else(|| marker.index()) as u32 + self.shift,
            line: marker.line() as u32,
            column: marker.col() as u32 + 1,
        }
    }

    fn span(self, span: &granit_parser::Span) -> Span {
        Span { start: self.mark(&span.start), end: self.mark(&span.end).offset }
    }

    fn error(self, error: &granit_parser::ScanError, text: &str, limits: &Limits) -> ParseError {
        let mark = self.mark(error.marker());
        if is_nesting(error.kind()) {
            return ParseError::TooDeep { mark, limit: limits.depth };
        }
        let offset = (mark.offset - self.shift) as usize;
        let found = mistake::judge(error.kind(), &error.info().to_string(), text, offset);
        let mark = match found.offset == offset {
            true => mark,
            false => {
                let moved = Mark::at(text.as_bytes(), found.offset);
                Mark { offset: moved.offset + self.shift, ..moved }
            }
        };
        ParseError::Syntax { mark, mistake: found.mistake, message: found.message }
    }
}

fn is_nesting(kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::RecursionLimitExceeded)
}

/// What a copy of a node costs: its nodes and the bytes of its text.
fn weight(node: &Node) -> usize {
    1 + match &node.value {
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Int(_) | NodeValue::Float(_) => 0,
        NodeValue::String(text) => text.len(),
        NodeValue::List(items) => items.iter().map(weight).sum(),
        NodeValue::Map(entries) => entries.iter().map(|entry| entry.key.len() + weight(&entry.value)).sum(),
    }
}

/// An anchored value, complete or still being read.
enum Anchored {
    Open,
    Complete { node: Node, weight: usize },
}

/// A collection that is being read.
enum Frame {
    List { start: Mark, anchor: usize, items: Vec<Node> },
    Map { start: Mark, anchor: usize, map: MapBuilder },
}

/// The key whose value comes next.
enum PendingKey {
    Named { key: String, span: Span },
    Merge,
}

/// The entries of a map that is being read.
#[derive(Default)]
pub(crate) struct MapBuilder {
    entries: Vec<Entry>,
    /// Key to place in `entries`; filled once the map is no longer small.
    places: HashMap<String, usize>,
    /// For each entry up to the last one that a merge key brought, whether one did; to replace such a one is no
    /// duplicate.
    is_merged: Vec<bool>,
    pending: Option<PendingKey>,
}

impl MapBuilder {
    fn place_of(&self, key: &str) -> Option<usize> {
        if self.entries.len() <= SMALL_MAP {
            return self.entries.iter().position(|entry| entry.key == key);
        }
        self.places.get(key).copied()
    }

    /// Sets a key; the last one wins. Gives the span of the key that was written twice.
    pub(crate) fn set(&mut self, entry: Entry, is_merged: bool) -> Option<Span> {
        if let Some(place) = self.place_of(&entry.key) {
            let is_override = is_merged || self.is_merged.get(place).copied().unwrap_or(false);
            self.set_merged(place, is_merged);
            let replaced = std::mem::replace(&mut self.entries[place], entry);
            return (!is_override).then_some(replaced.key_span);
        }
        self.set_merged(self.entries.len(), is_merged);
        if self.entries.len() == SMALL_MAP {
            self.places =
                self.entries.iter().enumerate().map(|(place, entry)| (entry.key.clone(), place)).collect();
        }
        if self.entries.len() >= SMALL_MAP {
            self.places.insert(entry.key.clone(), self.entries.len());
        }
        self.entries.push(entry);
        None
    }

    fn set_merged(&mut self, place: usize, is_merged: bool) {
        if is_merged && self.is_merged.len() <= place {
            self.is_merged.resize(place + 1, false);
        }
        if let Some(slot) = self.is_merged.get_mut(place) {
            *slot = is_merged;
        }
    }

    /// The key that is written at a span.
    pub(crate) fn key_at(&self, span: Span) -> Option<&str> {
        self.entries.iter().rev().find(|entry| entry.key_span == span).map(|entry| entry.key.as_str())
    }

    /// The entries in order.
    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }
}

struct TreeBuilder<'l> {
    limits: &'l Limits,
    documents: Vec<Document>,
    notices: Vec<Notice>,
    frames: Vec<Frame>,
    root: Option<Node>,
    anchors: HashMap<usize, Anchored>,
    nodes: usize,
    copied: usize,
}

impl<'l> TreeBuilder<'l> {
    fn new(limits: &'l Limits) -> Self {
        Self {
            limits,
            documents: Vec::new(),
            notices: Vec::new(),
            frames: Vec::new(),
            root: None,
            anchors: HashMap::new(),
            nodes: 0,
            copied: 0,
        }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), ParseError> {
        match event {
            Event::DocumentStart(..) => {
                self.root = None;
                self.anchors.clear();
            }
            Event::DocumentEnd => {
                let root = self.root.take().unwrap_or(Node { value: NodeValue::Null, span });
                let notices = std::mem::take(&mut self.notices);
                self.documents.push(Document { root, notices });
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.count(span.start)?;
                let is_plain = style == ScalarStyle::Plain;
                if self.takes_key() && is_plain && tag.is_none() && text == "<<" {
                    self.set_pending(PendingKey::Merge);
                    return Ok(());
                }
                let tag = tag.as_deref().map(yaml_tag);
                let value = resolve::scalar(&text, is_plain, tag.as_deref(), span.start)?;
                self.add(Node { value, span }, anchor)?;
            }
            Event::Alias(anchor) => {
                let node = self.copy_of(anchor, span)?;
                self.add(node, 0)?;
            }
            Event::SequenceStart(_, anchor, _) => {
                self.open(Frame::List { start: span.start, anchor, items: Vec::new() }, anchor, span.start)?;
            }
            Event::MappingStart(_, anchor, _) => {
                let map = MapBuilder::default();
                self.open(Frame::Map { start: span.start, anchor, map }, anchor, span.start)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(span)?,
            // Comments and anchor events are switched off, unresolved aliases are errors of the parser.
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, mark: Mark) -> Result<(), ParseError> {
        self.nodes += 1;
        if self.nodes > self.limits.nodes {
            return Err(ParseError::TooManyNodes { mark, limit: self.limits.nodes });
        }
        Ok(())
    }

    fn charge_copy(&mut self, weight: usize, mark: Mark) -> Result<(), ParseError> {
        self.copied = self.copied.saturating_add(weight);
        if self.copied > self.limits.copies {
            return Err(ParseError::ExcessiveAliasing { mark });
        }
        Ok(())
    }

    /// Whether the next node is the key of a map.
    fn takes_key(&self) -> bool {
        matches!(self.frames.last(), Some(Frame::Map { map, .. }) if map.pending.is_none())
    }

    fn set_pending(&mut self, key: PendingKey) {
        if let Some(Frame::Map { map, .. }) = self.frames.last_mut() {
            map.pending = Some(key);
        }
    }

    fn open(&mut self, frame: Frame, anchor: usize, mark: Mark) -> Result<(), ParseError> {
        self.count(mark)?;
        if self.takes_key() {
            let found = if matches!(frame, Frame::List { .. }) { "a list" } else { "a map" };
            return Err(ParseError::UnsupportedKey { mark, found });
        }
        if self.frames.len() >= self.limits.depth {
            return Err(ParseError::TooDeep { mark, limit: self.limits.depth });
        }
        if anchor != 0 {
            self.anchors.insert(anchor, Anchored::Open);
        }
        self.frames.push(frame);
        Ok(())
    }

    fn close(&mut self, span: Span) -> Result<(), ParseError> {
        let (node, anchor) = match self.frames.pop() {
            Some(Frame::List { start, anchor, items }) => {
                let end = items.last().map_or(span.end, |last| last.span.end);
                (Node { value: NodeValue::List(items), span: Span { start, end } }, anchor)
            }
            Some(Frame::Map { start, anchor, map }) => {
                let end = map.entries.last().map_or(span.end, |last| last.value.span.end);
                (Node { value: NodeValue::Map(map.entries), span: Span { start, end } }, anchor)
            }
            None => return Ok(()),
        };
        self.add(node, anchor)
    }

    fn copy_of(&mut self, anchor: usize, span: Span) -> Result<Node, ParseError> {
        let weight = match self.anchors.get(&anchor) {
            Some(Anchored::Complete { weight, .. }) => *weight,
            Some(Anchored::Open) | None => return Err(ParseError::RecursiveAnchor { mark: span.start }),
        };
        self.charge_copy(weight, span.start)?;
        match self.anchors.get(&anchor) {
            Some(Anchored::Complete { node, .. }) => Ok(node.clone()),
            Some(Anchored::Open) | None => Err(ParseError::RecursiveAnchor { mark: span.start }),
        }
    }

    /// Puts a complete node where it belongs: a key, a value, an item, or the root.
    fn add(&mut self, node: Node, anchor: usize) -> Result<(), ParseError> {
        if anchor != 0 {
            let weight = weight(&node);
            self.charge_copy(weight, node.span.start)?;
            self.anchors.insert(anchor, Anchored::Complete { node: node.clone(), weight });
        }
        match self.frames.last_mut() {
            None => self.root = Some(node),
            Some(Frame::List { items, .. }) => items.push(node),
            Some(Frame::Map { map, .. }) => match map.pending.take() {
                None => {
                    let mark = node.span.start;
                    let key = resolve::key(node.value)
                        .map_err(|found| ParseError::UnsupportedKey { mark, found })?;
                    map.pending = Some(PendingKey::Named { key, span: node.span });
                }
                Some(PendingKey::Named { key, span }) => {
                    if let Some(first) = map.set(Entry { key, key_span: span, value: node }, false)
                        && let Some(key) = map.key_at(span)
                    {
                        self.notices.push(Notice::DuplicateKey { key: key.to_owned(), first, again: span });
                    }
                }
                Some(PendingKey::Merge) => merge(map, node)?,
            },
        }
        Ok(())
    }
}

/// Sets every entry of the merged maps where the merge key stands: keys before it are replaced, keys behind
/// it replace. Of several maps the first one wins.
fn merge(map: &mut MapBuilder, node: Node) -> Result<(), ParseError> {
    let mark = node.span.start;
    match node.value {
        NodeValue::Map(entries) => {
            for entry in entries {
                map.set(entry, true);
            }
            Ok(())
        }
        NodeValue::List(items) => {
            for item in items.into_iter().rev() {
                match item.value {
                    NodeValue::Map(entries) => {
                        for entry in entries {
                            map.set(entry, true);
                        }
                    }
                    NodeValue::Null
                    | NodeValue::Bool(_)
                    | NodeValue::Int(_)
                    | NodeValue::Float(_)
                    | NodeValue::String(_)
                    | NodeValue::List(_) => {
                        return Err(ParseError::UnmergeableValue { mark: item.span.start });
                    }
                }
            }
            Ok(())
        }
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Int(_)
        | NodeValue::Float(_)
        | NodeValue::String(_) => Err(ParseError::UnmergeableValue { mark }),
    }
}

/// The name of one of YAML's own tags; a tag of any other kind has none.
fn yaml_tag(tag: &Tag) -> Cow<'_, str> {
    tag.suffix_in_namespace("tag:yaml.org,2002:").unwrap_or_default()
}
