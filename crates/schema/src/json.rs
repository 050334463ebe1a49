//! JSON text to a tree that keeps what Go's decoder looks at and `serde_json` throws away: duplicate fields, the order
//! of fields, numbers as written. Errors are Go's sentences.

use std::borrow::Cow;

use serde_json::Value;

/// Deepest nesting of objects and lists. Go allows 10,000; no real object comes near this limit, and trees of this
/// depth can be walked, stored and read back by recursion.
pub(crate) const MAX_DEPTH: usize = 120;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    /// The number as written.
    Number(Cow<'a, str>),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    /// Fields in order, duplicates included.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// Parses one value and nothing after it.
    ///
    /// # Errors
    ///
    /// Go's sentence.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes)
            .map_err(|error| format!("invalid UTF-8 in JSON at byte {}", error.valid_up_to()))?;
        let mut parser = Parser { text, at: 0 };
        let value = parser.value(0)?;
        match parser.peek_past_blanks() {
            None => Ok(value),
            Some(_) => Err(parser.unexpected("after top-level value")),
        }
    }

    /// The same tree as a [`Value`] tree gives it.
    ///
    /// # Errors
    ///
    /// A tree deeper than [`MAX_DEPTH`].
    pub(crate) fn from_value(value: &'a Value) -> Result<Self, String> {
        Self::from_nested(value, 0)
    }

    fn from_nested(value: &'a Value, depth: usize) -> Result<Self, String> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => Self::Number(Cow::Owned(number.to_string())),
            Value::String(text) => Self::String(Cow::Borrowed(text)),
            Value::Array(items) => Self::Array(
                items.iter().map(|item| Self::from_nested(item, depth + 1)).collect::<Result<_, _>>()?,
            ),
            Value::Object(fields) => Self::Object(
                fields
                    .iter()
                    .map(|(key, item)| Ok((Cow::Borrowed(key.as_str()), Self::from_nested(item, depth + 1)?)))
                    .collect::<Result<_, String>>()?,
            ),
        })
    }

    /// The tree without what only the decoder needs; the last of duplicate fields wins.
    ///
    /// # Errors
    ///
    /// A number that no float holds, as written.
    pub(crate) fn to_value(&self) -> Result<Value, String> {
        Ok(match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Number(text) => Value::Number(number(text).ok_or_else(|| text.clone().into_owned())?),
            Self::String(text) => Value::String(text.clone().into_owned()),
            Self::Array(items) => Value::Array(items.iter().map(Self::to_value).collect::<Result<_, _>>()?),
            Self::Object(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(key, item)| Ok((key.clone().into_owned(), item.to_value()?)))
                    .collect::<Result<_, String>>()?,
            ),
        })
    }
}

impl Json<'_> {
    /// The tree as compact JSON, fields in order, numbers as written.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        self.append_to(&mut text);
        text
    }

    fn append_to(&self, text: &mut String) {
        match self {
            Self::Null => text.push_str("null"),
            Self::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
            Self::Number(number) => text.push_str(number),
            Self::String(own) => text.push_str(&quoted(own)),
            Self::Array(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    item.append_to(text);
                }
                text.push(']');
            }
            Self::Object(fields) => {
                text.push('{');
                for (index, (key, item)) in fields.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    text.push_str(&quoted(key));
                    text.push(':');
                    item.append_to(text);
                }
                text.push('}');
            }
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text is always JSON")
}

/// A number as Kubernetes keeps it: an integer where it is written as one, otherwise a float; `None`: too large.
pub(crate) fn number(text: &str) -> Option<serde_json::Number> {
    if let Ok(integer) = text.parse::<i64>() {
        return Some(integer.into());
    }
    serde_json::Number::from_f64(text.parse().ok()?)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek_past_blanks(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Go's error for the character at the current place.
    fn unexpected(&self, place: &str) -> String {
        match self.text[self.at..].chars().next() {
            None => "unexpected end of JSON input".to_owned(),
            // Go looks at bytes, and prints the byte of a longer character as the Latin-1 character.
            Some(_) => {
                let byte = self.text.as_bytes()[self.at];
                format!("invalid character {} {place}", quote_byte(byte))
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, String> {
        let place = "looking for beginning of value";
        match self.peek_past_blanks() {
            None => Err("unexpected end of JSON input".to_owned()),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => {
                self.at += 1;
                Ok(Json::String(self.string()?))
            }
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => Err(self.unexpected(place)),
        }
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Result<Json<'a>, String> {
        for (index, expected) in word.bytes().enumerate() {
            if self.text.as_bytes().get(self.at) != Some(&expected) {
                debug_assert!(index > 0, "the first letter chose the word");
                let place = format!("in literal {word} (expecting {})", quote_byte(expected));
                return Err(self.unexpected(&place));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Json<'a>, String> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        if bytes[self.at] == b'-' {
            self.at += 1;
        }
        match bytes.get(self.at) {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            if !matches!(bytes.get(self.at), Some(b'0'..=b'9')) {
                return Err(self.unexpected("after decimal point in numeric literal"));
            }
            self.digits();
        }
        if matches!(bytes.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(bytes.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !matches!(bytes.get(self.at), Some(b'0'..=b'9')) {
                return Err(self.unexpected("in exponent of numeric literal"));
            }
            self.digits();
        }
        Ok(Json::Number(Cow::Borrowed(&self.text[start..self.at])))
    }

    fn digits(&mut self) {
        while matches!(self.text.as_bytes().get(self.at), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json<'a>, String> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.at += 1;
        let mut items = Vec::new();
        if self.peek_past_blanks() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            match self.peek_past_blanks() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, String> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".to_owned());
        }
        self.at += 1;
        let mut fields = Vec::new();
        if self.peek_past_blanks() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(fields));
        }
        loop {
            if self.peek_past_blanks() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            self.at += 1;
            let key = self.string()?;
            if self.peek_past_blanks() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            let value = self.value(depth)?;
            fields.push((key, value));
            match self.peek_past_blanks() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::Object(fields));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    /// The rest of a string, after its first quote.
    fn string(&mut self) -> Result<Cow<'a, str>, String> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut owned: Option<String> = None;
        let mut copied = start;
        loop {
            match bytes.get(self.at) {
                None => return Err("unexpected end of JSON input".to_owned()),
                Some(b'"') => {
                    let tail = &self.text[copied..self.at];
                    self.at += 1;
                    return Ok(match owned {
                        None => Cow::Borrowed(tail),
                        Some(text) => Cow::Owned(text + tail),
                    });
                }
                Some(b'\\') => {
                    let text = owned.get_or_insert_with(String::new);
                    text.push_str(&self.text[copied..self.at]);
                    self.at += 1;
                    let character = self.escape()?;
                    owned.get_or_insert_with(String::new).push(character);
                    copied = self.at;
                }
                Some(0..=0x1f) => return Err(self.unexpected("in string literal")),
                Some(_) => self.at += 1,
            }
        }
    }

    /// The character of an escape, after its backslash. Lone surrogates become U+FFFD, as in Go.
    fn escape(&mut self) -> Result<char, String> {
        let character = match self.text.as_bytes().get(self.at) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let high = self.hex()?;
                if !(0xd800..0xdc00).contains(&high) {
                    return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                let after = self.at;
                if self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let low = self.hex()?;
                    if (0xdc00..0xe000).contains(&low) {
                        let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                        return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    self.at = after;
                }
                return Ok(char::REPLACEMENT_CHARACTER);
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(character)
    }

    fn hex(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self
                .text
                .as_bytes()
                .get(self.at)
                .and_then(|byte| char::from(*byte).to_digit(16))
                .ok_or_else(|| self.unexpected("in \\u hexadecimal character escape"))?;
            code = code * 16 + digit;
            self.at += 1;
        }
        Ok(code)
    }
}

fn quote_byte(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = crate::gotext::go_quote(&char::from(byte).to_string());
            format!("'{}'", &quoted[1..quoted.len() - 1])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Json, MAX_DEPTH};
    use serde_json::json;

    #[test]
    fn values_are_those_of_serde() {
        let text = r#" {"a": [1, -2.5e3, true, false, null, "x\u00e9\n\ud83d\ude00\/"], "b": {}, "c": []} "#;
        let tree = Json::parse(text.as_bytes()).and_then(|tree| tree.to_value());
        assert_eq!(
            tree,
            Ok(json!({"a": [1, -2500.0, true, false, null, "x\u{e9}\n\u{1f600}/"], "b": {}, "c": []}))
        );
    }

    #[test]
    fn mistakes_are_told_in_the_words_of_go() {
        let sentences = [
            ("", "unexpected end of JSON input"),
            ("{", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
            ("{\"a\" 1", "invalid character '1' after object key"),
            ("{\"a\":1 \"b\"", "invalid character '\"' after object key:value pair"),
            ("[1 2", "invalid character '2' after array element"),
            ("trux", "invalid character 'x' in literal true (expecting 'e')"),
            ("1.x", "invalid character 'x' after decimal point in numeric literal"),
            ("\"\n\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("{} {}", "invalid character '{' after top-level value"),
            ("01", "invalid character '1' after top-level value"),
        ];
        for (text, want) in sentences {
            assert_eq!(Json::parse(text.as_bytes()), Err(want.to_owned()), "{text:?}");
        }
    }

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        let tree = Json::parse(br#""\ud800x\udc00\ud800\u0041""#).and_then(|tree| tree.to_value());
        assert_eq!(tree, Ok(json!("\u{fffd}x\u{fffd}\u{fffd}A")));
    }

    proptest::proptest! {
        /// A second opinion on which texts are JSON and what they mean. The alphabet makes valid texts likely; long
        /// numbers, where the two keep different precision, cannot occur.
        #[test]
        fn texts_are_read_as_serde_reads_them(
            tokens in proptest::collection::vec(
                proptest::sample::select(vec![
                    "{", "}", "[", "]", ",", ":", " ", "\"a\"", "\"\\u00e9\"", "\"b\":", "true", "null", "7", "-1.5",
                    "0", "1e2", "fals", "\"", "\\", "{}", "[]", "\"c\":[", "\u{e9}",
                ]),
                0..12,
            )
        ) {
            let text = tokens.concat();
            let ours = Json::parse(text.as_bytes()).ok().and_then(|tree| tree.to_value().ok());
            let theirs: Option<serde_json::Value> = serde_json::from_str(&text).ok();
            proptest::prop_assert_eq!(ours, theirs, "{}", text);
        }
    }

    #[test]
    fn depth_and_bytes_have_limits() {
        let deep = "[".repeat(1_000_000);
        assert_eq!(Json::parse(deep.as_bytes()), Err("exceeded max depth".to_owned()));
        let allowed = format!("{}{}", "[".repeat(MAX_DEPTH), "]".repeat(MAX_DEPTH));
        let tree =
            Json::parse(allowed.as_bytes()).and_then(|tree| tree.to_value()).expect("within the limit");
        let again = serde_json::from_str::<serde_json::Value>(&tree.to_string());
        assert_eq!(again.expect("what is admitted can be read back"), tree);
        assert_eq!(Json::parse(b"\"\xff\""), Err("invalid UTF-8 in JSON at byte 1".to_owned()));
    }
}
