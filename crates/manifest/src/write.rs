//! Trees to text: JSON, and YAML in the block style that people read, keys in their order.
//!
//! A string is written plain only where every reader takes it for a string; in quotes otherwise, and as a block where
//! it has several lines.

use std::fmt::Write;

use crate::node::float_to_json;
use crate::{Mark, Node, NodeValue, resolve};

/// Keys that are longer than this need YAML's explicit form.
const LONGEST_KEY: usize = 512;

/// A tree as JSON: indented by four blanks, as `kubectl -o json` does, with a newline at the end.
pub fn to_json_text(node: &Node) -> String {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    let written = serde::Serialize::serialize(node, &mut serializer);
    debug_assert!(written.is_ok(), "a tree has a JSON form");
    text.push(b'\n');
    String::from_utf8(text).unwrap_or_default()
}

/// A tree as one YAML document, with a newline at the end and without a `---`.
pub fn to_yaml(node: &Node) -> String {
    let mut text = String::new();
    match &node.value {
        NodeValue::Map(entries) if !entries.is_empty() => write_map(node, 0, &mut text),
        NodeValue::List(items) if !items.is_empty() => write_list(items, 0, &mut text),
        NodeValue::Map(_)
        | NodeValue::List(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Int(_)
        | NodeValue::Float(_)
        | NodeValue::String(_) => {
            write_scalar(node, 0, &mut text);
            text.push('\n');
        }
    }
    text
}

/// The entries of a map, the first where the text stands, the others below it.
fn write_map(node: &Node, indent: usize, text: &mut String) {
    for (place, entry) in node.entries().iter().enumerate() {
        if place > 0 {
            push_indent(indent, text);
        }
        let start = text.len();
        write_quoted_or_plain(&entry.key, text);
        if text.len() - start > LONGEST_KEY {
            text.insert_str(start, "? ");
            text.push('\n');
            push_indent(indent, text);
        }
        text.push(':');
        match &entry.value.value {
            NodeValue::Map(entries) if !entries.is_empty() => {
                text.push('\n');
                push_indent(indent + 2, text);
                write_map(&entry.value, indent + 2, text);
            }
            NodeValue::List(items) if !items.is_empty() => {
                text.push('\n');
                push_indent(indent, text);
                write_list(items, indent, text);
            }
            NodeValue::Map(_)
            | NodeValue::List(_)
            | NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Int(_)
            | NodeValue::Float(_)
            | NodeValue::String(_) => {
                text.push(' ');
                write_scalar(&entry.value, indent + 2, text);
                text.push('\n');
            }
        }
    }
}

fn write_list(items: &[Node], indent: usize, text: &mut String) {
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            push_indent(indent, text);
        }
        text.push_str("- ");
        match &item.value {
            NodeValue::Map(entries) if !entries.is_empty() => write_map(item, indent + 2, text),
            NodeValue::List(items) if !items.is_empty() => write_list(items, indent + 2, text),
            NodeValue::Map(_)
            | NodeValue::List(_)
            | NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Int(_)
            | NodeValue::Float(_)
            | NodeValue::String(_) => {
                write_scalar(item, indent + 2, text);
                text.push('\n');
            }
        }
    }
}

/// A scalar, or an empty collection. `indent` is where the lines of a block begin.
fn write_scalar(node: &Node, indent: usize, text: &mut String) {
    let _ = match &node.value {
        NodeValue::Null => text.write_str("null"),
        NodeValue::Bool(value) => write!(text, "{value}"),
        NodeValue::Int(number) => write!(text, "{number}"),
        NodeValue::Float(number) => write!(text, "{}", float_to_json(*number)),
        NodeValue::List(_) => text.write_str("[]"),
        NodeValue::Map(_) => text.write_str("{}"),
        NodeValue::String(value) if is_block(value) => {
            write_block(value, indent.max(2), text);
            Ok(())
        }
        NodeValue::String(value) => {
            write_quoted_or_plain(value, text);
            Ok(())
        }
    };
}

/// Whether a string can stand as a literal block: several lines, the first of them not empty and not indented, and
/// nothing that a reader might fold or replace.
fn is_block(value: &str) -> bool {
    let has_lines = value.trim_end_matches('\n').contains('\n') || value.len() > 1 && value.ends_with('\n');
    has_lines
        && !value.starts_with(['\n', ' ', '\t'])
        && value.chars().all(|each| each == '\n' || is_printable(each))
        && value.split('\n').all(|line| !line.ends_with(' '))
}

fn write_block(value: &str, indent: usize, text: &mut String) {
    let body = value.trim_end_matches('\n');
    text.push_str(match value.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    });
    let lines = value.strip_suffix('\n').unwrap_or(value);
    for line in lines.split('\n') {
        text.push('\n');
        if !line.is_empty() {
            push_indent(indent, text);
            text.push_str(line);
        }
    }
}

fn write_quoted_or_plain(value: &str, text: &mut String) {
    if is_plain(value) {
        text.push_str(value);
        return;
    }
    text.push('"');
    for each in value.chars() {
        let _ = match each {
            '"' => text.write_str("\\\""),
            '\\' => text.write_str("\\\\"),
            '\n' => text.write_str("\\n"),
            '\t' => text.write_str("\\t"),
            '\r' => text.write_str("\\r"),
            each if is_printable(each) => text.write_char(each),
            each if u32::from(each) <= 0xFF => write!(text, "\\x{:02X}", u32::from(each)),
            each if u32::from(each) <= 0xFFFF => write!(text, "\\u{:04X}", u32::from(each)),
            each => write!(text, "\\U{:08X}", u32::from(each)),
        };
    }
    text.push('"');
}

/// What YAML calls printable, without its odd line breaks and marks.
fn is_printable(each: char) -> bool {
    match u32::from(each) {
        0x09 | 0x20..=0x7E | 0xA0..=0x2027 | 0x202A..=0xD7FF | 0xE000..=0xFEFE | 0xFF00..=0xFFFD => true,
        // The last two of each plane are no characters.
        above @ 0x1_0000.. => above & 0xFFFE != 0xFFFE,
        _ => false,
    }
}

/// Whether every reader takes the bare text for this string.
fn is_plain(value: &str) -> bool {
    let bytes = value.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./@+=%$()~^".contains(&byte);
    let is_inside = |place: usize| match bytes[place] {
        b':' | b' ' => bytes.get(place + 1).is_some_and(|next| is_word(*next)) && bytes[place - 1] != b' ',
        byte => is_word(byte),
    };
    (first.is_ascii_alphabetic() || matches!(first, b'/' | b'$' | b'_'))
        && is_word(*last)
        && (1..bytes.len()).all(is_inside)
        && matches!(resolve::scalar(value, true, None, Mark::START), Ok(NodeValue::String(_)))
}

fn push_indent(indent: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', indent));
}
