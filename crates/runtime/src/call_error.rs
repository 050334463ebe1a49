//! Why a CRI call failed, and how the protocol says so.

use std::io;
use std::path::PathBuf;

use tonic::{Code, Status};

use crate::capabilities::UnknownCapability;
use crate::seccomp::ProfileFileError;
use crate::shim_link::CallShimError;
use crate::state_files::StateFileError;

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("there is no {kind} {id}")]
    NotFound { kind: &'static str, id: String },
    #[error("there is no {kind} {id} any more: its state was damaged ({problem}); what there was of it is kept in {kept}", kept = kept.display())]
    SetAside { kind: &'static str, id: String, problem: String, kept: PathBuf },
    #[error("{field} is missing")]
    Missing { field: &'static str },
    #[error("{field}: {problem}")]
    Invalid { field: &'static str, problem: String },
    #[error("{kind} {id} is {state}")]
    WrongState { kind: &'static str, id: String, state: String },
    #[error("image {image:?} is not in the local store; pull or import it first")]
    NoImage { image: String },
    #[error("cannot read the image store")]
    ImageStore(#[from] images::StoreError),
    #[error("cannot pull the image")]
    Pull(#[from] images::PullImageError),
    #[error(transparent)]
    Capability(#[from] UnknownCapability),
    #[error("the seccomp profile {path} cannot be used", path = path.display())]
    Seccomp {
        path: PathBuf,
        #[source]
        source: ProfileFileError,
    },
    #[error(transparent)]
    StateFile(#[from] StateFileError),
    #[error("cannot {step} {path}", path = path.display())]
    Path {
        step: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot start the pod's shim: {0}")]
    Shim(String),
    #[error("cannot connect the pod to the network")]
    Network(#[from] network::SetupPodError),
    #[error("cannot disconnect the pod from the network")]
    Disconnect(#[from] network::TeardownPodError),
    #[error(transparent)]
    Link(#[from] CallShimError),
    #[error("cannot create the container: {0}")]
    Create(String),
    #[error("cannot start the process: {0}")]
    Start(String),
    #[error("cannot execute the command: {0}")]
    Execute(String),
    #[error("{what} took longer than {seconds} s")]
    Deadline { what: &'static str, seconds: u64 },
    #[error("{0}")]
    Log(String),
    #[error("cannot make a pipe")]
    Pipe(#[source] io::Error),
    #[error("too many streams are open")]
    TooManyStreams(#[from] crate::streaming::TooManyTokens),
    #[error("{0} is not supported")]
    Unsupported(&'static str),
}

impl CallError {
    /// The error with all its causes, in one line.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let next = error.to_string();
            // A transparent layer says the same as the one below it.
            if !text.ends_with(&next) {
                text.push_str(": ");
                text.push_str(&next);
            }
            cause = error.source();
        }
        text
    }

    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } | Self::SetAside { .. } | Self::NoImage { .. } => Code::NotFound,
            Self::Pull(error) if error.is_not_found() => Code::NotFound,
            Self::Pull(error) if error.is_invalid_name() => Code::InvalidArgument,
            Self::Pull(error) if error.is_registry_unavailable() => Code::Unavailable,
            Self::Missing { .. } | Self::Invalid { .. } | Self::Capability(_) | Self::Seccomp { .. } => {
                Code::InvalidArgument
            }
            Self::WrongState { .. } => Code::FailedPrecondition,
            Self::Deadline { .. } => Code::DeadlineExceeded,
            Self::Unsupported(_) => Code::Unimplemented,
            Self::TooManyStreams(_) => Code::ResourceExhausted,
            Self::ImageStore(_)
            | Self::Pull(_)
            | Self::StateFile(_)
            | Self::Path { .. }
            | Self::Shim(_)
            | Self::Network(_)
            | Self::Disconnect(_)
            | Self::Link(_)
            | Self::Create(_)
            | Self::Start(_)
            | Self::Execute(_)
            | Self::Log(_)
            | Self::Pipe(_) => Code::Unknown,
        }
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        let hint = match &error {
            CallError::Pull(pull) => pull.hint(),
            CallError::ImageStore(store) => store.hint(),
            _ => None,
        };
        let mut text = error.chain();
        if let Some(hint) = hint {
            text.push_str("; ");
            text.push_str(&hint);
        }
        Status::new(error.code(), text)
    }
}

/// Names the step that failed on a path.
pub(crate) trait OnPath<T> {
    fn on_path(self, step: &'static str, path: impl Into<PathBuf>) -> Result<T, CallError>;
}

impl<T> OnPath<T> for io::Result<T> {
    fn on_path(self, step: &'static str, path: impl Into<PathBuf>) -> Result<T, CallError> {
        self.map_err(|source| CallError::Path { step, path: path.into(), source })
    }
}
