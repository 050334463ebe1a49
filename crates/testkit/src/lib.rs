//! Test support, used by tests only: histories of concurrent clients checked, images made on the spot, a registry on loopback, what a test needs of the machine.
//!
//! Nothing here depends on the crates under test, so that no test compares a thing with itself.

pub mod history;
pub mod image;
pub mod machine;
pub mod registry;
pub mod tar;
