//! The $(VAR) language: tokenise once, expand with a lookup, report every reference.
//!
//! The grammar is that of Kubernetes 1.36: `$` is special only before `$` (the pair gives one `$`) and before
//! `(` with a later `)` (a reference; its name is all bytes up to the first `)`).
//! Everything else is text, and text that a substitution produced is never looked at again.
//!
//! Invariants: time is linear in the input plus the output on every input; the size of the result is known
//! before a byte of it is copied, so a result over the limit costs no memory; the result is one allocation,
//! and none at all where the input has no `$`.

mod expand;
mod lookup;
mod scan;

pub use expand::{ExpandError, Expanded, Reference, expand};
pub use lookup::{Lookup, Prioritised};
pub use scan::{Token, Tokens, references, scan};

#[cfg(test)]
mod tests;
