//! What a node says on the terminal about state that was damaged when it started: what was damaged, what was done, where the
//! old files are kept and what is left to do.

use std::path::{Path, PathBuf};

use apiserver::authority::{Replaced, ReplacedReason};

use crate::failure::{CANNOT_START, Failure};

/// The certificate authority is a new one: every kubeconfig of this node that was copied elsewhere is worth nothing now.
pub(crate) fn authority_replaced(directory: &Path, replaced: &Replaced) -> Failure {
    let what = match replaced.reason {
        ReplacedReason::Damaged => "the files of the certificate authority were damaged",
        ReplacedReason::Incomplete => "a file of the certificate authority was missing",
        ReplacedReason::Ends => "the certificate authority would end soon",
    };
    let mut failure = Failure::text(CANNOT_START, format!("{what}: a new one was made"))
        .place(directory.display().to_string())
        .hint("clients must get the new kubeconfig: use $(coracle kubeconfig), or run `coracle kubeconfig --merge` again");
    for path in &replaced.kept {
        failure = failure.detail(format!("the old file is kept as {}", path.display()));
    }
    failure
}

/// The database was damaged: what could be read of it was taken over.
pub(crate) fn database_replaced(quarantine: &store::Quarantine) -> Failure {
    let objects = match quarantine.kept {
        0 => "no object could be read from it".to_owned(),
        1 => "1 object could be read and was kept".to_owned(),
        count => format!("{count} objects could be read and were kept"),
    };
    Failure::text(CANNOT_START, format!("the database was damaged: a new one was made; {objects}"))
        .detail(format!("the old file is kept as {}", quarantine.moved_to.display()))
        .hint("create what is missing again")
}

/// The key of service account tokens was damaged: the tokens that it signed prove nothing any more.
pub(crate) fn token_key_replaced(directory: &Path, kept: &[PathBuf]) -> Failure {
    let mut failure = Failure::text(
        CANNOT_START,
        "the key of service account tokens was damaged: a new one was made".to_owned(),
    )
    .place(directory.display().to_string())
    .hint("pods get new tokens by themselves; Secrets with tokens have to be made again");
    for path in kept {
        failure = failure.detail(format!("the old file is kept as {}", path.display()));
    }
    failure
}
