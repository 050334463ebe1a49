//! No image of this process is written when it crashes, and nobody without rights reads its memory: it holds Secrets.

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// Forbids core dumps of this process and its tracing by others; what it starts is not concerned.
pub(crate) fn forbid() {
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "core dumps of this process cannot be forbidden");
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{DumpableBehavior, dumpable_behavior};

    #[test]
    fn a_process_that_holds_secrets_leaves_no_core_dump() {
        super::forbid();
        assert_eq!(dumpable_behavior().ok(), Some(DumpableBehavior::NotDumpable));
    }
}
