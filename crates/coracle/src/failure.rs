//! How a command says that it failed: what, where, what to do; on standard error, with the exit status.
//!
//! The one place where errors become text for the terminal.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};

/// Exit status: the input cannot be used.
pub(crate) const INPUT: u8 = 2;
/// Exit status: something could not be started.
pub(crate) const CANNOT_START: u8 = 125;

/// A failure on its way to the terminal.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    what: String,
    place: Option<String>,
    details: Vec<String>,
    hint: Option<String>,
}

impl Failure {
    /// A failure in these words.
    pub(crate) fn text(status: u8, what: impl Into<String>) -> Self {
        Self { status, what: what.into(), place: None, details: Vec::new(), hint: None }
    }

    /// A failure about which nothing is to be said; only its status tells of it.
    pub(crate) fn quiet(status: u8) -> Self {
        Self::text(status, "")
    }

    /// A failure with the whole chain of causes.
    pub(crate) fn new(status: u8, error: &dyn Error) -> Self {
        let mut what = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors repeat their cause in their own text.
            if !what.contains(&text) {
                what.push_str(": ");
                what.push_str(&text);
            }
            cause = error.source();
        }
        Self::text(status, what)
    }

    /// Where: `file:line:column`, a path, an address.
    pub(crate) fn place(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// One more line of what.
    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    /// What to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints it and answers the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        if !self.what.is_empty() {
            self.print("error:", AnsiColor::Red.on_default().bold());
        }
        ExitCode::from(self.status)
    }

    /// Prints it as something that the command got over, and that the user should know all the same.
    pub(crate) fn warn(&self) {
        self.print("warning:", AnsiColor::Yellow.on_default().bold());
    }

    fn print(&self, word: &str, style: Style) {
        let cyan = AnsiColor::Cyan.on_default();
        let mut err = anstream::stderr().lock();
        // Nobody is left to tell when standard error is closed.
        let _ = writeln!(err, "{style}{word}{style:#} {}", self.what);
        for detail in &self.details {
            let _ = writeln!(err, "  {detail}");
        }
        if let Some(place) = &self.place {
            let _ = writeln!(err, "  {cyan}-->{cyan:#} {place}");
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(err, "  {cyan}hint:{cyan:#} {hint}");
        }
    }
}

/// The end of a command: silence, or what went wrong.
pub(crate) fn exit_code(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
