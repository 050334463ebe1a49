//! The grammars of label and field selectors.

use super::{FieldDemand, LabelDemand};

/// A selector that cannot be read. The text is for a `BadRequest`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectorError {
    #[error("unable to parse requirement: found '{found}', expected: {expected}")]
    Unexpected { found: String, expected: &'static str },
    #[error("unable to parse requirement: invalid label key {key:?}")]
    Key { key: String },
    #[error("unable to parse requirement: invalid label value {value:?}")]
    Value { value: String },
    #[error("unable to parse requirement: for 'Gt', 'Lt' operators, the value must be an integer")]
    Number,
    #[error("invalid selector: '{text}'; can't understand '{part}'")]
    Field { text: String, part: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
    End,
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Token::Word(word) => word.clone(),
            Token::Sign(sign) => (*sign).to_owned(),
            Token::End => String::new(),
        }
    }
}

struct Tokens<'t> {
    rest: &'t str,
}

const SIGNS: [&str; 9] = ["==", "!=", "=", "!", ",", "(", ")", ">", "<"];

impl Tokens<'_> {
    fn next(&mut self) -> Token {
        self.rest = self.rest.trim_start();
        if self.rest.is_empty() {
            return Token::End;
        }
        for sign in SIGNS {
            if let Some(rest) = self.rest.strip_prefix(sign) {
                self.rest = rest;
                return Token::Sign(sign);
            }
        }
        let end = self
            .rest
            .find(|character: char| character.is_whitespace() || "=!,()<>".contains(character))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Token::Word(word.to_owned())
    }

    fn peek(&self) -> Token {
        Tokens { rest: self.rest }.next()
    }
}

/// Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`.
pub(crate) fn parse_labels(text: &str) -> Result<Vec<LabelDemand>, SelectorError> {
    let mut tokens = Tokens { rest: text };
    let mut demands = Vec::new();
    if tokens.peek() == Token::End {
        return Ok(demands);
    }
    loop {
        demands.push(parse_demand(&mut tokens)?);
        match tokens.next() {
            Token::End => return Ok(demands),
            Token::Sign(",") => {}
            other => {
                return Err(SelectorError::Unexpected {
                    found: other.shown(),
                    expected: "',' or 'end of string'",
                });
            }
        }
    }
}

fn parse_demand(tokens: &mut Tokens<'_>) -> Result<LabelDemand, SelectorError> {
    let key = match tokens.next() {
        Token::Sign("!") => {
            let Token::Word(key) = tokens.next() else {
                return Err(SelectorError::Unexpected { found: "!".to_owned(), expected: "identifier" });
            };
            check_key(&key)?;
            return Ok(LabelDemand::Absent(key));
        }
        Token::Word(key) => key,
        other => {
            return Err(SelectorError::Unexpected {
                found: other.shown(),
                expected: "!, identifier, or 'end of string'",
            });
        }
    };
    check_key(&key)?;
    let operator = match tokens.peek() {
        Token::End | Token::Sign(",") => return Ok(LabelDemand::Exists(key)),
        operator => operator,
    };
    tokens.next();
    match operator {
        Token::Sign("=" | "==") => Ok(LabelDemand::In(key, vec![parse_value(tokens)?])),
        Token::Sign("!=") => Ok(LabelDemand::NotIn(key, vec![parse_value(tokens)?])),
        Token::Sign(">") => Ok(LabelDemand::Greater(key, parse_number(tokens)?)),
        Token::Sign("<") => Ok(LabelDemand::Less(key, parse_number(tokens)?)),
        Token::Word(word) if word == "in" => Ok(LabelDemand::In(key, parse_values(tokens)?)),
        Token::Word(word) if word == "notin" => Ok(LabelDemand::NotIn(key, parse_values(tokens)?)),
        other => {
            Err(SelectorError::Unexpected { found: other.shown(), expected: "in, notin, =, ==, !=, gt, lt" })
        }
    }
}

fn parse_value(tokens: &mut Tokens<'_>) -> Result<String, SelectorError> {
    match tokens.peek() {
        // An empty value is a value.
        Token::End | Token::Sign("," | ")") => Ok(String::new()),
        Token::Word(word) => {
            tokens.next();
            check_value(&word)?;
            Ok(word)
        }
        other @ Token::Sign(_) => {
            Err(SelectorError::Unexpected { found: other.shown(), expected: "identifier" })
        }
    }
}

fn parse_number(tokens: &mut Tokens<'_>) -> Result<i64, SelectorError> {
    parse_value(tokens)?.parse().map_err(|_| SelectorError::Number)
}

fn parse_values(tokens: &mut Tokens<'_>) -> Result<Vec<String>, SelectorError> {
    match tokens.next() {
        Token::Sign("(") => {}
        other => return Err(SelectorError::Unexpected { found: other.shown(), expected: "'('" }),
    }
    let mut values = Vec::new();
    loop {
        values.push(parse_value(tokens)?);
        match tokens.next() {
            Token::Sign(",") => {}
            Token::Sign(")") => return Ok(values),
            other => return Err(SelectorError::Unexpected { found: other.shown(), expected: "',' or ')'" }),
        }
    }
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    let (prefix, name) = key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_fits = prefix.is_none_or(|prefix| {
        !prefix.is_empty()
            && prefix.len() <= 253
            && prefix
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
    });
    if prefix_fits && !name.is_empty() && is_label_text(name) {
        return Ok(());
    }
    Err(SelectorError::Key { key: key.to_owned() })
}

fn check_value(value: &str) -> Result<(), SelectorError> {
    if value.is_empty() || is_label_text(value) {
        return Ok(());
    }
    Err(SelectorError::Value { value: value.to_owned() })
}

fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// Reads `a=b,c==d,e!=f`; a backslash takes the next comma, equals sign or backslash literally.
pub(crate) fn parse_fields(text: &str) -> Result<Vec<FieldDemand>, SelectorError> {
    let mut demands = Vec::new();
    for part in split_unescaped(text) {
        if part.is_empty() {
            continue;
        }
        let bad = || SelectorError::Field { text: text.to_owned(), part: part.to_owned() };
        let (field, value, equal) = split_operator(part).ok_or_else(bad)?;
        demands.push(FieldDemand { field: field.to_owned(), value: unescape(value).ok_or_else(bad)?, equal });
    }
    Ok(demands)
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn split_operator(part: &str) -> Option<(&str, &str, bool)> {
    let at = part.find(['=', '!'])?;
    let (field, rest) = part.split_at(at);
    if let Some(value) = rest.strip_prefix("!=") {
        Some((field, value, false))
    } else if let Some(value) = rest.strip_prefix("==") {
        Some((field, value, true))
    } else {
        rest.strip_prefix('=').map(|value| (field, value, true))
    }
}

fn unescape(value: &str) -> Option<String> {
    let mut text = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.push(characters.next().filter(|next| matches!(next, '\\' | ',' | '='))?),
            ',' | '=' => return None,
            other => text.push(other),
        }
    }
    Some(text)
}
