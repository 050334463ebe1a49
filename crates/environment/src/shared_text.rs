//! Text of names and values: owned, or shared by several that are the same or stand in one text.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The text of a name or value. The thousands of variables that services give repeat their addresses and ports;
/// those share one allocation, and what is as short as a port or an address needs none.
#[derive(Clone)]
pub struct Text(Form);

#[derive(Clone)]
enum Form {
    Owned(String),
    Shared(Arc<str>),
    Constant(&'static str),
    /// Bytes of a text that many names and values share.
    Part {
        whole: Arc<String>,
        start: u32,
        end: u32,
    },
    /// The first bytes are the text.
    Short {
        length: u8,
        bytes: [u8; SHORT],
    },
}

/// Bytes of a text that needs no allocation. With more, every value would be larger.
const SHORT: usize = 15;

impl Text {
    /// A text that costs nothing.
    pub const fn constant(text: &'static str) -> Self {
        Self(Form::Constant(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Owned(text) => text,
            Form::Shared(text) => text,
            Form::Constant(text) => text,
            Form::Part { whole, start, end } => whole.get(*start as usize..*end as usize).unwrap_or_default(),
            // Made from text only.
            Form::Short { length, bytes } => {
                std::str::from_utf8(&bytes[..usize::from(*length)]).unwrap_or_default()
            }
        }
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Owned(text) => text.len(),
            Form::Shared(text) => text.len(),
            Form::Constant(text) => text.len(),
            Form::Part { start, end, .. } => end.saturating_sub(*start) as usize,
            Form::Short { length, .. } => usize::from(*length),
        }
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes from `start` to `end` of a text that stays as it is; they begin and end between characters.
    pub(crate) fn part(whole: &Arc<String>, start: u32, end: u32) -> Self {
        Self(Form::Part { whole: Arc::clone(whole), start, end })
    }

    /// A number in decimal.
    pub fn number(number: i32) -> Self {
        let mut bytes = [0; SHORT];
        let mut at = SHORT;
        let mut rest = number.unsigned_abs();
        loop {
            at -= 1;
            bytes[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            at -= 1;
            bytes[at] = b'-';
        }
        bytes.copy_within(at.., 0);
        Self(Form::Short { length: (SHORT - at) as u8, bytes })
    }

    fn short(text: &str) -> Option<Self> {
        let mut bytes = [0; SHORT];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self(Form::Short { length: text.len() as u8, bytes }))
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Form::Owned(text))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::short(text).unwrap_or_else(|| Self(Form::Owned(text.to_owned())))
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Self(Form::Shared(text))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(formatter)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_gives_the_text_that_it_was_made_of() {
        for text in
            ["", "a", "10.43.255.255", "fifteen bytes !", "sixteen bytes !!", "é", "ééééééé", "éééééééé"]
        {
            let forms = [Text::from(text), Text::from(text.to_owned()), Text::from(Arc::<str>::from(text))];
            for form in &forms {
                assert_eq!((form.as_str(), form), (text, &forms[0]));
                assert_eq!((form.len(), form.is_empty()), (text.len(), text.is_empty()));
            }
        }
        let whole = Arc::new("aéb".to_owned());
        let part = Text::part(&whole, 1, 3);
        assert_eq!((part.as_str(), part.len()), ("é", 2));
        for number in [0, 7, 80, 65535, -1, i32::MAX, i32::MIN] {
            assert_eq!(Text::number(number).as_str(), number.to_string());
        }
    }

    #[test]
    fn a_text_is_not_larger_than_a_string() {
        assert_eq!(size_of::<Text>(), size_of::<String>());
    }
}
