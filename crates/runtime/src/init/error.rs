//! Why a process inside a container did not come to be: the step, what it was about, what the kernel said.

use std::io;

/// A failed step of setting up a container or of becoming its program. The text is what a person reads in the
/// container's status, so it names the path or the setting, never a value of a variable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InitError {
    /// A step that concerns nothing but this process.
    #[error("cannot {step}: {}", plain(source))]
    Step {
        step: &'static str,
        #[source]
        source: io::Error,
    },
    /// A step that concerns a path.
    #[error("cannot {step} {path}: {}", plain(source))]
    Path {
        step: &'static str,
        path: String,
        #[source]
        source: io::Error,
    },
    /// The launch file cannot be used.
    #[error("{0}")]
    StateFile(#[from] crate::state_files::StateFileError),
    /// The user does not exist, or cannot be looked up.
    #[error("{0}")]
    User(#[from] super::user::ResolveUserError),
    /// The program was not found in any directory of `PATH`. Worded as people know it.
    #[error("exec: {program:?}: executable file not found in $PATH")]
    NotInPath { program: String },
    /// The program cannot be executed. Worded as people know it.
    #[error("exec: {program:?}: {}{hint}", plain(source))]
    Execute {
        program: String,
        #[source]
        source: io::Error,
        hint: &'static str,
    },
    /// There is nothing to execute.
    #[error("no command: neither the container nor its image names one")]
    NoCommand,
    /// A NUL cannot be passed to a program. The value is not shown.
    #[error("variable {name:?} contains a NUL character, which no program can receive; remove it")]
    NulInVariable { name: String },
    /// The same in an argument.
    #[error(
        "argument {index} of the command contains a NUL character, which no program can receive; remove it"
    )]
    NulInArgument { index: usize },
    /// The directory is not below the container's root.
    #[error("the working directory {path:?} is not inside the container")]
    DirectoryOutside { path: String },
    /// The system call filter was refused.
    #[error("{0}: {cause}", cause = std::error::Error::source(.0).map(ToString::to_string).unwrap_or_default())]
    Filter(#[from] sys::InstallFilterError),
}

/// An error of the system as people know it: `permission denied`, without a number behind it.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split_once(" (os error").map_or(text.as_str(), |(text, _)| text);
    let mut letters = text.chars();
    match letters.next() {
        // Words of one letter or in capitals stay as they are.
        Some(first) if letters.clone().next().is_some_and(char::is_lowercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        Some(_) | None => text.to_owned(),
    }
}

/// Names the step that failed.
pub(crate) trait Step<T> {
    fn step(self, step: &'static str) -> Result<T, InitError>;
    fn step_path(self, step: &'static str, path: impl ToString) -> Result<T, InitError>;
}

impl<T, E: Into<io::Error>> Step<T> for Result<T, E> {
    fn step(self, step: &'static str) -> Result<T, InitError> {
        self.map_err(|source| InitError::Step { step, source: source.into() })
    }

    fn step_path(self, step: &'static str, path: impl ToString) -> Result<T, InitError> {
        self.map_err(|source| InitError::Path { step, path: path.to_string(), source: source.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_read_like_the_rest_of_the_sentence() {
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        assert_eq!(plain(&denied), "permission denied");
        assert_eq!(plain(&io::Error::other("Own words")), "own words");
        let error = InitError::Path { step: "enter", path: "/x".to_owned(), source: denied };
        assert_eq!(error.to_string(), "cannot enter /x: permission denied");
    }
}
