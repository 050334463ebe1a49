//! The grammars of label and field selectors.

use names::{LabelValue, QualifiedName};

use super::{FieldDemand, LabelDemand};

/// A selector that cannot be read. The text is for a `BadRequest`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectorError {
    #[error("found '{found}', expected: {expected}")]
    Unexpected { found: String, expected: &'static str },
    #[error("unable to parse requirement: found '{found}', expected: {expected}")]
    UnexpectedInside { found: String, expected: &'static str },
    #[error("unable to parse requirement: <nil>: Invalid value: {}: {problems}", schema::go_quote(key))]
    Key { key: String, problems: String },
    #[error(
        "unable to parse requirement: values[{index}][{key}]: Invalid value: {}: {problems}",
        schema::go_quote(value)
    )]
    Value { key: String, index: usize, value: String, problems: String },
    #[error(
        "unable to parse requirement: values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
        schema::go_quote(value)
    )]
    Number { value: String },
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
    loop {
        match tokens.peek() {
            Token::End if demands.is_empty() => return Ok(demands),
            Token::Word(_) | Token::Sign("!") => demands.push(parse_demand(&mut tokens)?),
            other @ (Token::Sign(_) | Token::End) => {
                let expected = if demands.is_empty() {
                    "!, identifier, or 'end of string'"
                } else {
                    "identifier after ','"
                };
                return Err(SelectorError::Unexpected { found: other.shown(), expected });
            }
        }
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

fn inside(found: &Token, expected: &'static str) -> SelectorError {
    SelectorError::UnexpectedInside { found: found.shown(), expected }
}

fn parse_demand(tokens: &mut Tokens<'_>) -> Result<LabelDemand, SelectorError> {
    let mut first = tokens.next();
    let is_absent = first == Token::Sign("!");
    if is_absent {
        first = tokens.next();
    }
    let Token::Word(key) = first else { return Err(inside(&first, "identifier")) };
    check_key(&key)?;
    if is_absent {
        return Ok(LabelDemand::Absent(key));
    }
    let operator = match tokens.peek() {
        Token::End | Token::Sign(",") => return Ok(LabelDemand::Exists(key)),
        operator => operator,
    };
    tokens.next();
    match operator {
        Token::Sign("=" | "==") => {
            let value = parse_value(tokens, &key)?;
            Ok(LabelDemand::In(key, vec![value]))
        }
        Token::Sign("!=") => {
            let value = parse_value(tokens, &key)?;
            Ok(LabelDemand::NotIn(key, vec![value]))
        }
        Token::Sign(">") => parse_number(tokens, &key).map(|bound| LabelDemand::Greater(key, bound)),
        Token::Sign("<") => parse_number(tokens, &key).map(|bound| LabelDemand::Less(key, bound)),
        Token::Word(word) if word == "in" => {
            let values = parse_values(tokens, &key)?;
            Ok(LabelDemand::In(key, values))
        }
        Token::Word(word) if word == "notin" => {
            let values = parse_values(tokens, &key)?;
            Ok(LabelDemand::NotIn(key, values))
        }
        other => Err(inside(&other, "in, notin, =, ==, !=, gt, lt")),
    }
}

/// A value that may be empty, unchecked.
fn read_value(tokens: &mut Tokens<'_>) -> Result<String, SelectorError> {
    match tokens.peek() {
        // An empty value is a value.
        Token::End | Token::Sign("," | ")") => Ok(String::new()),
        Token::Word(word) => {
            tokens.next();
            Ok(word)
        }
        other @ Token::Sign(_) => Err(inside(&other, "identifier")),
    }
}

fn parse_value(tokens: &mut Tokens<'_>, key: &str) -> Result<String, SelectorError> {
    let value = read_value(tokens)?;
    check_value(key, 0, &value)?;
    Ok(value)
}

fn parse_number(tokens: &mut Tokens<'_>, key: &str) -> Result<i64, SelectorError> {
    let value = read_value(tokens)?;
    let number = value.parse().map_err(|_| SelectorError::Number { value: value.clone() })?;
    check_value(key, 0, &value)?;
    Ok(number)
}

fn parse_values(tokens: &mut Tokens<'_>, key: &str) -> Result<Vec<String>, SelectorError> {
    match tokens.next() {
        Token::Sign("(") => {}
        other => return Err(inside(&other, "'('")),
    }
    let mut values = Vec::new();
    loop {
        values.push(read_value(tokens)?);
        match tokens.next() {
            Token::Sign(",") => {}
            Token::Sign(")") => break,
            other => return Err(inside(&other, "',' or ')'")),
        }
    }
    for (index, value) in values.iter().enumerate() {
        check_value(key, index, value)?;
    }
    Ok(values)
}

fn check_key(key: &str) -> Result<(), SelectorError> {
    QualifiedName::parse(key)
        .map(drop)
        .map_err(|error| SelectorError::Key { key: key.to_owned(), problems: error.messages().join("; ") })
}

fn check_value(key: &str, index: usize, value: &str) -> Result<(), SelectorError> {
    LabelValue::parse(value).map(drop).map_err(|error| SelectorError::Value {
        key: key.to_owned(),
        index,
        value: value.to_owned(),
        problems: error.messages().join("; "),
    })
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
