//! Text from elsewhere (files, servers, pods, images) as a terminal may get it: control characters are shown, never obeyed.

use std::fmt::Write as _;

/// Text for one line: control characters become escapes, so that a value can neither break a table nor forge a line.
pub(crate) fn one_line(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len() + 8), |mut shown, character| {
        if character.is_control() {
            // Writing to a string does not fail.
            let _ = write!(shown, "{}", character.escape_default());
        } else {
            shown.push(character);
        }
        shown
    })
}

/// Text of several lines: line ends and tabs stay, every other control character is replaced.
pub(crate) fn paragraph(text: &str) -> String {
    let is_harmless = |each: char| !each.is_control() || each == '\n' || each == '\t';
    text.chars().map(|each| if is_harmless(each) { each } else { '\u{FFFD}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_move_the_cursor_or_forge_a_line() {
        for (text, as_line, as_paragraph) in [
            ("plain é", "plain é", "plain é"),
            ("a\x1b[2Jb\nc", "a\\u{1b}[2Jb\\nc", "a\u{FFFD}[2Jb\nc"),
            ("a\tb\rc\u{85}", "a\\tb\\rc\\u{85}", "a\tb\u{FFFD}c\u{FFFD}"),
        ] {
            assert_eq!((one_line(text), paragraph(text)), (as_line.to_owned(), as_paragraph.to_owned()));
        }
    }
}
