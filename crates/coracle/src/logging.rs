//! Where the node's own log goes: standard error, escaped by the formatter, filtered by `CORACLE_LOG`.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;

/// Starts logging of a node that stays; `level` holds for what `CORACLE_LOG` does not name.
pub(crate) fn start(level: &str) {
    // A second start (in tests) keeps the first one.
    let _ = subscriber(level).try_init();
}

/// Starts logging of a command that a person waits for: warnings, without times.
pub(crate) fn start_brief() {
    // As above.
    let _ = subscriber("warn").without_time().with_target(false).try_init();
}

type Subscriber = tracing_subscriber::fmt::SubscriberBuilder<
    tracing_subscriber::fmt::format::DefaultFields,
    tracing_subscriber::fmt::format::Format,
    EnvFilter,
    fn() -> OneLine<io::Stderr>,
>;

fn subscriber(level: &str) -> Subscriber {
    let filter = EnvFilter::builder()
        .with_default_directive(level.parse().unwrap_or_else(|_| tracing::Level::INFO.into()))
        .with_env_var("CORACLE_LOG")
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(
            (|| OneLine { writer: io::stderr(), colours: io::stderr().is_terminal() })
                as fn() -> OneLine<io::Stderr>,
        )
        .with_ansi(std::io::stderr().is_terminal())
}

/// Writes each event as one line, whatever stands in it: names and answers of others come into it, and a line break
/// in one of them must not begin a line of its own, nor an escape sequence change what the terminal shows. Only
/// colours pass, and only on a terminal: they are the formatter's.
struct OneLine<W> {
    writer: W,
    colours: bool,
}

/// The length of the colour that `text` begins with: `ESC [ 1 ; 31 m`.
fn colour(text: &[u8]) -> Option<usize> {
    let inner = text.strip_prefix(b"\x1b[")?;
    let length = inner.iter().position(|byte| !byte.is_ascii_digit() && *byte != b';')?;
    (inner[length] == b'm').then_some(length + 3)
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let (mut text, end) = match event {
            [text @ .., b'\n'] => (text, &b"\n"[..]),
            text => (text, &b""[..]),
        };
        let mut line = Vec::with_capacity(event.len() + 16);
        while let Some((byte, rest)) = text.split_first() {
            match colour(text).filter(|_| self.colours) {
                Some(length) => {
                    line.extend_from_slice(&text[..length]);
                    text = &text[length..];
                    continue;
                }
                None if byte.is_ascii_control() && *byte != b'\t' => line.extend(byte.escape_ascii()),
                None => line.push(*byte),
            }
            text = rest;
        }
        line.extend_from_slice(end);
        self.writer.write_all(&line)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::OneLine;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn on_a_terminal_colours_pass_and_nothing_else_does() {
        let kept = Kept::default();
        let mut line = OneLine { writer: kept.clone(), colours: true };
        line.write_all(b"\x1b[1;33mWARN\x1b[0m a\x1b[2Jb\x1b]0;title\x07 c\td\n").expect("written");
        let text = String::from_utf8(kept.0.lock().expect("no panic").clone()).expect("text");
        assert_eq!(text, "\u{1b}[1;33mWARN\u{1b}[0m a\\x1b[2Jb\\x1b]0;title\\x07 c\td\n");
    }

    #[test]
    fn nobody_writes_a_line_of_his_own_into_the_log() {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || OneLine { writer: writer.clone(), colours: false })
            .with_ansi(false)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let hostile = "x\n2026-01-01T00:00:00Z  INFO forged: all is well\r\u{1b}[2J{\"level\":\"info\"}";
            tracing::warn!(name = %hostile, "a name of somebody");
            tracing::warn!("a message with {hostile}");
            tracing::warn!(name = hostile, "as text");
        });
        let text = String::from_utf8(kept.0.lock().expect("no panic").clone()).expect("text");
        assert_eq!(text.lines().count(), 3, "{text:?}");
        assert!(!text.contains(['\u{1b}', '\r']), "{text:?}");
        assert!(text.contains("forged: all is well"), "{text:?}");
    }
}
