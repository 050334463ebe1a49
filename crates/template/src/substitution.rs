//! Putting values into one text. A value is never read again: what it holds is text, whatever it looks like.

use std::borrow::Cow;
use std::collections::HashMap;

use manifest::NodeValue;

use crate::reference::{Style, Token, may_refer, scan};
use crate::{Dialect, ParameterType, Template, scalar};

/// Texts that are longer than this are no names, and are not made to see whether they are.
const LONGEST_NAME: usize = 1024;

/// The values of a template's parameters, by their places.
pub(crate) struct Substitution<'v> {
    dialect: Dialect,
    places: HashMap<&'v str, usize>,
    values: Vec<&'v str>,
    kinds: Vec<Option<ParameterType>>,
    /// How long each value is inside of a JSON string.
    sizes: Vec<usize>,
}

impl<'v> Substitution<'v> {
    /// `values` are in the order of the template's parameters. Of equal names the last one counts.
    pub(crate) fn new(template: &Template<'v>, values: Vec<&'v str>) -> Self {
        let places = template.parameters.iter().enumerate().map(|(place, parameter)| (parameter.name, place));
        Self {
            dialect: template.dialect,
            places: places.filter(|(name, _)| !name.is_empty()).collect(),
            kinds: template.parameters.iter().map(|parameter| parameter.kind).collect(),
            sizes: values.iter().map(|value| escaped_size(value)).collect(),
            values,
        }
    }

    pub(crate) fn place_of(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// How many parameters there are.
    pub(crate) fn count(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn value(&self, parameter: usize) -> &'v str {
        self.values[parameter]
    }

    pub(crate) fn escaped_size(&self, parameter: usize) -> usize {
        self.sizes[parameter]
    }

    pub(crate) fn tokens<'t>(&self, text: &'t str) -> impl Iterator<Item = Token<'t>> {
        scan(text, self.dialect, |name| self.place_of(name))
    }

    /// The text with its references replaced.
    pub(crate) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !may_refer(text) {
            return Cow::Borrowed(text);
        }
        Cow::Owned(self.tokens(text).map(|token| self.piece(text, &token)).collect())
    }

    /// The same for a text that may be a name; `None` when it is far too long for one.
    pub(crate) fn name<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        if text.len() > LONGEST_NAME {
            return None;
        }
        if !may_refer(text) {
            return Some(Cow::Borrowed(text));
        }
        let size: usize = self.tokens(text).map(|token| self.piece(text, &token).len()).sum();
        (size <= LONGEST_NAME).then(|| self.text(text))
    }

    fn piece<'p>(&self, text: &'p str, token: &Token<'p>) -> &'p str
    where
        'v: 'p,
    {
        match token {
            Token::Text(piece) | Token::Escaped { text: piece, .. } => piece,
            Token::Parameter { parameter, .. } => self.values[*parameter],
            Token::Unknown { span, .. } => &text[span.clone()],
        }
    }

    /// The value that stands in place of a text: a string, or the scalar of an unquoted reference.
    pub(crate) fn node(&self, text: &str) -> NodeValue {
        if !may_refer(text) {
            return NodeValue::String(text.to_owned());
        }
        let (mut has_unquoted, mut stays_text) = (false, false);
        let mut whole = String::with_capacity(text.len());
        for token in self.tokens(text) {
            whole.push_str(self.piece(text, &token));
            match token {
                Token::Parameter { style: Style::Quoted, .. } => stays_text = true,
                Token::Parameter { parameter, style: Style::Unquoted, .. } => {
                    has_unquoted = true;
                    stays_text |=
                        matches!(self.kinds[parameter], Some(ParameterType::String | ParameterType::Base64));
                }
                Token::Text(_) | Token::Escaped { .. } | Token::Unknown { .. } => {}
            }
        }
        if has_unquoted && !stays_text { scalar::resolve(whole) } else { NodeValue::String(whole) }
    }
}

/// How many bytes a text takes inside of a JSON string.
pub(crate) fn escaped_size(text: &str) -> usize {
    let extra = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0C => 1,
        0..0x20 => 5,
        _ => 0,
    };
    text.len() + text.bytes().map(extra).sum::<usize>()
}
