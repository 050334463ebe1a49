//! Text as Go prints it: quoted strings and maps, for messages in upstream's words.

use std::fmt::Write;

use serde_json::Value;

/// The text quoted as Go's `%q` does.
#[must_use]
pub fn go_quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\u{b}' => quoted.push_str("\\v"),
            control if (control as u32) < 0x20 || control as u32 == 0x7f => {
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\x{:02x}", control as u32);
            }
            invisible if !is_printable(invisible) => {
                let code = invisible as u32;
                let _ = if code < 0x1_0000 {
                    write!(quoted, "\\u{code:04x}")
                } else {
                    write!(quoted, "\\U{code:08x}")
                };
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

/// Go's `unicode.IsPrint`, near enough: no controls, no separators but the blank, no private use.
#[must_use]
pub fn is_printable(character: char) -> bool {
    !(character.is_control()
        || (character.is_whitespace() && character != ' ')
        || matches!(character as u32, 0xad | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0xfeff
            | 0xe000..=0xf8ff | 0xfff0..=0xfffb | 0xf_0000..=0x10_ffff))
}

/// A tree as Go's `%v` prints a `map[string]interface{}`: `map[a:1 b:[x y]]`, keys sorted.
#[must_use]
pub fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_print).collect::<Vec<_>>().join(" "))
        }
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort();
            let entries: Vec<_> =
                keys.into_iter().map(|key| format!("{key}:{}", go_print(&fields[key]))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}
