//! What a test needs of the machine. A test that lacks it is skipped with a printed reason, or fails when
//! `REQUIRE_PRIVILEGED=1` says that nothing may be skipped.

use std::path::PathBuf;

/// Whether the test may go on: true when `present`. Otherwise prints why it is skipped, or fails under
/// `REQUIRE_PRIVILEGED=1`.
pub fn require(present: bool, what: &str) -> bool {
    if !present {
        assert!(std::env::var_os("REQUIRE_PRIVILEGED").is_none_or(|it| it != "1"), "this test needs {what}");
        eprintln!("skipped: this test needs {what}");
    }
    present
}

/// Whether the test runs as root; see [`require`].
pub fn require_root() -> bool {
    require(rustix::process::geteuid().is_root(), "root")
}

/// The path of a program, as a shell finds it; see [`require`].
pub fn require_program(name: &str) -> Option<PathBuf> {
    let found = find_program(name);
    require(found.is_some(), &format!("the program {name}"));
    found
}

/// The path of a program, as a shell finds it.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file())
}
