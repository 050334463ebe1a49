//! The values of parameters: from flags, env files, the environment, and the terminal, in this order.

use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::path::Path;

use ::template::{Request, Template};
use environment::SecretText;

use super::arguments::ValueArgs;
use super::prompt::{Asked, Terminal};
use crate::failure::{Failure, INPUT};

/// Most bytes of a value that is read from a file.
const MOST_BYTES: u64 = ::template::limits::MAX_VALUE_BYTES as u64;

/// Exit status after Ctrl-C, as of a process that the signal ends.
const INTERRUPTED: u8 = 130;

/// Why a value cannot be used. No text holds a value.
#[derive(Debug, thiserror::Error)]
pub(super) enum ValueError {
    /// A word without `=`.
    #[error("{0:?} is no value of a parameter")]
    NotAPair(String),
    /// The name of a label is missing, or its value.
    #[error("{0:?} is no label")]
    NotALabel(String),
    /// Values for the same parameters.
    #[error("The following parameters were provided more than once: {}", .0.join(", "))]
    Twice(Vec<String>),
    /// A file that cannot be read.
    #[error("{file}: cannot be read")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// A value that is no text.
    #[error("the value of parameter {name} is no UTF-8 text")]
    NotText {
        /// The parameter.
        name: String,
    },
    /// A value that is too large.
    #[error("the value of parameter {name} is larger than {MOST_BYTES} bytes")]
    TooLarge {
        /// The parameter.
        name: String,
    },
    /// An env file with a mistake.
    #[error("{file}{}: {cause}", .cause.position().map(|at| format!(":{}:{}", at.line, at.column)).unwrap_or_default())]
    EnvFile {
        /// The file.
        file: String,
        /// What is wrong.
        cause: envfile::EnvFileError,
    },
    /// The terminal.
    #[error("the terminal cannot be asked")]
    Terminal(#[source] std::io::Error),
    /// The user gave up.
    #[error("no values were given")]
    GivenUp,
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl ValueError {
    /// What to do about it.
    fn hint(&self) -> String {
        match self {
            Self::NotAPair(_) => "write NAME=VALUE, or NAME=@FILE",
            Self::NotALabel(_) => "write KEY=VALUE, several separated by commas",
            Self::Twice(_) => "give each parameter one value",
            Self::Unreadable { cause, .. } if cause.kind() == ErrorKind::NotFound => {
                "there is no such file: check the path; a value that begins with @ is written @@"
            }
            Self::Unreadable { .. } => "check the path and its permissions",
            Self::NotText { .. } => "encode it: base64 FILE, for a parameter of type base64",
            Self::TooLarge { .. } => "keep large data in a ConfigMap of its own",
            Self::EnvFile { .. } => "an env file has lines NAME=VALUE (docs/environment.md)",
            Self::Terminal(_) => "give the values with -p NAME=VALUE",
            Self::GivenUp | Self::Interrupted => {
                "give the values with -p NAME=VALUE, or with --param-file FILE"
            }
        }
        .to_owned()
    }
}

impl From<ValueError> for Failure {
    fn from(error: ValueError) -> Self {
        if matches!(error, ValueError::Interrupted) {
            return Failure::quiet(INTERRUPTED);
        }
        let hint = error.hint();
        Failure::new(INPUT, &error).hint(hint)
    }
}

/// What a template is processed with, as far as the command line says it.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Values by name.
    pub(super) values: Vec<(String, SecretText)>,
    /// Labels.
    pub(super) labels: Vec<(String, String)>,
}

impl Given {
    /// The request, without what an instance keeps.
    pub(super) fn request<'r>(&'r self, args: &'r ValueArgs) -> Request<'r> {
        Request {
            given: &self.values,
            ignore_unknown: args.ignore_unknown_parameters,
            labels: &self.labels,
            instance: args.instance.as_deref(),
            ..Request::default()
        }
    }

    /// Whether a parameter has a value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.values.iter().any(|(own, _)| own == name)
    }
}

/// What the flags give; `words` are values that stood without a flag.
///
/// # Errors
///
/// The first one that cannot be used.
pub(super) fn of_flags(args: &ValueArgs, words: &[String]) -> Result<Given, ValueError> {
    let mut given = Given::default();
    let mut twice: Vec<String> = Vec::new();
    for pair in args.params.iter().chain(words) {
        let (name, value) = pair
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| ValueError::NotAPair(name_only(pair)))?;
        if given.has(name) {
            if !twice.iter().any(|each| each == name) {
                twice.push(name.to_owned());
            }
            continue;
        }
        given.values.push((name.to_owned(), value_of(name, value)?));
    }
    if !twice.is_empty() {
        return Err(ValueError::Twice(twice));
    }
    for file in &args.param_files {
        add_file(&mut given, file)?;
    }
    for pair in args.labels.iter().filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| ValueError::NotALabel(pair.clone()))?;
        given.labels.push((key.to_owned(), value.to_owned()));
    }
    Ok(given)
}

/// A word without `=` may be a value that was torn off: only the form of a name is repeated.
fn name_only(word: &str) -> String {
    word.chars().take_while(|each| each.is_ascii_alphanumeric() || *each == '_').take(40).collect()
}

fn value_of(name: &str, written: &str) -> Result<SecretText, ValueError> {
    let Some(file) = written.strip_prefix('@') else { return Ok(SecretText::new(written)) };
    if file.starts_with('@') {
        return Ok(SecretText::new(file));
    }
    let bytes = read(Path::new(file), MOST_BYTES)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(ValueError::TooLarge { name: name.to_owned() });
    }
    let text = String::from_utf8(bytes).map_err(|_| ValueError::NotText { name: name.to_owned() })?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    Ok(SecretText::new(text.strip_suffix('\r').unwrap_or(text)))
}

/// Reads at most the limit and one byte more.
fn read(file: &Path, limit: u64) -> Result<Vec<u8>, ValueError> {
    let unreadable = |cause| ValueError::Unreadable { file: file.display().to_string(), cause };
    let mut bytes = Vec::new();
    if file.as_os_str() == "-" {
        std::io::stdin().lock().take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    } else {
        let opened = std::fs::File::open(file).map_err(unreadable)?;
        opened.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    }
    Ok(bytes)
}

fn add_file(given: &mut Given, file: &Path) -> Result<(), ValueError> {
    let shown = file.display().to_string();
    let bytes = read(file, envfile::MAX_FILE_BYTES as u64)?;
    let failed = |cause| ValueError::EnvFile { file: shown.clone(), cause };
    let read =
        envfile::parse(&bytes, envfile::Syntax::Default, names::EnvNameGrammar::Relaxed).map_err(failed)?;
    // The last of equal names counts, as in every env file.
    let mut own: Vec<(String, SecretText)> = Vec::new();
    for assignment in read.assignments() {
        let value = SecretText::new(assignment.value);
        match own.iter_mut().find(|(name, _)| name == assignment.name) {
            Some((_, before)) => *before = value,
            None => own.push((assignment.name.to_owned(), value)),
        }
    }
    for (name, value) in own {
        if given.has(&name) {
            let what = format!(
                "Template parameter \"{name}\" already defined, ignoring value from file \"{shown}\""
            );
            Failure::text(INPUT, what).warn();
        } else {
            given.values.push((name, value));
        }
    }
    Ok(())
}

/// Adds what the environment has for parameters without a value.
///
/// # Errors
///
/// A value that is no text.
pub(super) fn add_environment(
    given: &mut Given,
    args: &ValueArgs,
    template: &Template<'_>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<(), ValueError> {
    let Some(prefix) = &args.param_env_prefix else { return Ok(()) };
    for parameter in &template.parameters {
        let found = variable(&format!("{prefix}{}", parameter.name));
        if let Some(value) = found.filter(|_| !given.has(parameter.name)) {
            let not_text = |_| ValueError::NotText { name: parameter.name.to_owned() };
            given
                .values
                .push((parameter.name.to_owned(), SecretText::new(value.into_string().map_err(not_text)?)));
        }
    }
    Ok(())
}

/// Asks on the terminal for required parameters that nothing gives and nothing generates.
///
/// # Errors
///
/// The terminal cannot be used, or the user gave up.
pub(super) fn ask(given: &mut Given, args: &ValueArgs, template: &Template<'_>) -> Result<(), ValueError> {
    if args.no_prompt {
        return Ok(());
    }
    let missing: Vec<_> = template
        .parameters
        .iter()
        .filter(|each| each.required && each.value.is_none() && each.generate.is_none())
        .filter(|each| !given.has(each.name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let Some(terminal) = Terminal::open() else { return Ok(()) };
    for parameter in missing {
        match terminal.ask(parameter).map_err(ValueError::Terminal)? {
            Asked::Value(value) => given.values.push((parameter.name.to_owned(), value)),
            Asked::Nothing => {}
            Asked::GivenUp => return Err(ValueError::GivenUp),
            Asked::Interrupted => return Err(ValueError::Interrupted),
        }
    }
    Ok(())
}
