//! Questions on the terminal: one line for each missing value, hidden for secrets.

use std::io::{self, IsTerminal, Read, Write};

use ::template::Parameter;
use environment::SecretText;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Most bytes of an answer.
const MOST_BYTES: usize = 64 * 1024;

/// What the user answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A value.
    Value(SecretText),
    /// An empty line.
    Nothing,
    /// The end of the input.
    GivenUp,
    /// Ctrl-C.
    Interrupted,
}

/// A terminal to ask on: standard input and standard error both are one.
pub(super) struct Terminal;

impl Terminal {
    /// The terminal, if there is one.
    pub(super) fn open() -> Option<Self> {
        (io::stdin().is_terminal() && io::stderr().is_terminal()).then_some(Self)
    }

    /// Asks for the value of a parameter.
    ///
    /// # Errors
    ///
    /// The terminal cannot be used.
    pub(super) fn ask(&self, parameter: &Parameter<'_>) -> io::Result<Asked> {
        let mut err = io::stderr().lock();
        // Hidden first, so that nothing is seen of who types quickly.
        let hidden = if parameter.secret { Some(Hidden::begin()?) } else { None };
        write!(err, "{}", question(parameter))?;
        err.flush()?;
        if !parameter.secret {
            let mut line = String::new();
            if io::stdin().lines().next().transpose()?.map(|read| line.push_str(&read)).is_none() {
                return Ok(Asked::GivenUp);
            }
            return Ok(if line.is_empty() { Asked::Nothing } else { Asked::Value(SecretText::new(line)) });
        }
        let answer = hidden_line();
        drop(hidden);
        writeln!(err)?;
        answer
    }
}

/// `PASSWORD, for the database (secret): `, escaped.
fn question(parameter: &Parameter<'_>) -> String {
    let about = parameter.description.or(parameter.display_name).unwrap_or_default();
    let about: String = about.chars().take(200).collect();
    let about = if about.is_empty() { about } else { format!(", {}", about.escape_debug()) };
    let kind = parameter.kind.map(|kind| format!(" [{}]", kind.as_str())).unwrap_or_default();
    let secret = if parameter.secret { " (not shown)" } else { "" };
    format!("{}{about}{kind}{secret}: ", parameter.name)
}

/// The terminal without echo, until this is dropped; signals come as characters, so that it is never left so.
struct Hidden(Termios);

impl Hidden {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        tcsetattr(io::stdin(), OptionalActions::Now, &hidden)?;
        Ok(Self(before))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // There is nobody to tell when the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

fn hidden_line() -> io::Result<Asked> {
    let mut typed = Typed::default();
    for byte in io::stdin().lock().bytes() {
        if let Some(asked) = typed.take(byte?) {
            return Ok(asked);
        }
    }
    Ok(Asked::GivenUp)
}

/// What has been typed so far.
#[derive(Default)]
struct Typed(Vec<u8>);

impl Typed {
    /// Takes a byte in; answers when the line is complete.
    fn take(&mut self, byte: u8) -> Option<Asked> {
        match byte {
            b'\r' | b'\n' => {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned();
                Some(if line.is_empty() { Asked::Nothing } else { Asked::Value(SecretText::new(line)) })
            }
            // Ctrl-C; then Ctrl-D and Ctrl-\.
            0x03 => Some(Asked::Interrupted),
            0x1C => Some(Asked::GivenUp),
            0x04 if self.0.is_empty() => Some(Asked::GivenUp),
            // Ctrl-U.
            0x15 => {
                self.0.clear();
                None
            }
            0x08 | 0x7F => {
                // A whole character, whatever its length.
                while self.0.pop().is_some_and(|last| last & 0xC0 == 0x80) {}
                None
            }
            byte if self.0.len() < MOST_BYTES => {
                self.0.push(byte);
                None
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(bytes: &[u8]) -> Option<Asked> {
        let mut typed = Typed::default();
        bytes.iter().find_map(|byte| typed.take(*byte))
    }

    #[test]
    fn a_hidden_line_can_be_corrected_and_given_up() {
        let value = |text: &str| Some(Asked::Value(SecretText::new(text)));
        for (bytes, expected) in [
            (&b"abc\r"[..], value("abc")),
            (b"ab\x7Fc\n", value("ac")),
            ("a\u{e9}\u{7f}b\n".as_bytes(), value("ab")),
            (b"wrong\x15right\n", value("right")),
            (b"\n", Some(Asked::Nothing)),
            (b"abc\x03", Some(Asked::Interrupted)),
            (b"abc\x1C", Some(Asked::GivenUp)),
            (b"\x04", Some(Asked::GivenUp)),
            (b"a\x04b\n", value("a\x04b")),
            (b"abc", None),
        ] {
            assert_eq!(typed(bytes), expected, "{bytes:?}");
        }
    }
}
