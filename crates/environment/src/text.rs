//! Names and paths of users inside sentences: quoted, escaped, and cut where they are absurdly long.

use std::fmt;

/// Characters of a name that a sentence shows.
const SHOWN: usize = 120;

/// Shows `text` in double quotes with control characters escaped, so that nothing a pod controls can
/// write to a terminal or fill a log.
pub(crate) fn quoted(text: &str) -> impl fmt::Display + '_ {
    Quoted(text)
}

/// As [`quoted`], without the quotes: for `$(NAME)` in a sentence.
pub(crate) fn escaped(text: &str) -> impl fmt::Display + '_ {
    Escaped(text)
}

struct Quoted<'t>(&'t str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\"{}\"", Escaped(self.0))
    }
}

struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for (count, character) in self.0.chars().enumerate() {
            if count == SHOWN {
                return formatter.write_str("…");
            }
            match character {
                '"' | '\\' => write!(formatter, "\\{character}")?,
                '\'' => formatter.write_char('\'')?,
                _ => write!(formatter, "{}", character.escape_debug())?,
            }
        }
        Ok(())
    }
}

/// Cuts a label of something unknown to a length that may be copied from value to value.
pub(crate) fn short_label(name: &str) -> String {
    const MOST: usize = 128;
    if name.len() <= MOST {
        return name.to_owned();
    }
    let end = (0..=MOST).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &name[..end])
}
