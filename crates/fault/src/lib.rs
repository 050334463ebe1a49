//! Named points in a pod's life at which a test can end this process, as `kill -9` would, or make it panic.
//!
//! A point stands between two effects: what must hold whichever of them the process lived to see is what the tests of
//! crashes ask. It is armed by a line in the file that the variable `CORACLE_FAULT` names:
//!
//! ```text
//! kill hook.intended        the process ends when it next comes to that point
//! kill file.renamed 3       when it comes there for the third time
//! panic volumes.cleared     the task that comes there panics
//! ```
//!
//! A line acts once: it is taken out of the file before it acts. A build without debug assertions has no points: there
//! [`point`] does nothing, whatever the environment says.
//!
//! A process that is started with an empty environment has points too, armed by a file of its own: the one that the
//! variable `CORACLE_SHIM_FAULT` of its parent names, handed on by [`handed_on`].
//!
//! Beside them, what keeps a fault where it is: [`contained`] and [`carried_on`].

mod contained;

pub use contained::{AtEnd, carried_on, contained};

/// The process has come to the point of this name.
#[inline]
pub fn point(name: &'static str) {
    #[cfg(debug_assertions)]
    armed::come_to(name);
    #[cfg(not(debug_assertions))]
    let _ = name;
}

/// The variable with which a process that gets no other is to be started, so that its points are armed.
#[must_use]
pub fn handed_on() -> Option<(&'static str, std::ffi::OsString)> {
    #[cfg(debug_assertions)]
    return std::env::var_os("CORACLE_SHIM_FAULT").map(|file| ("CORACLE_FAULT", file));
    #[cfg(not(debug_assertions))]
    None
}

#[cfg(debug_assertions)]
mod armed {
    use std::path::{Path, PathBuf};
    use std::sync::{Mutex, OnceLock, PoisonError};

    /// What an armed point does.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Act {
        Kill,
        Panic,
    }

    pub(super) fn come_to(name: &'static str) {
        static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
        /// Two threads at two points must not write the file over each other.
        static TAKING: Mutex<()> = Mutex::new(());
        let Some(file) = FILE.get_or_init(|| std::env::var_os("CORACLE_FAULT").map(PathBuf::from)) else {
            return;
        };
        let taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let act = take(file, name);
        match act {
            None => {}
            Some(Act::Kill) => {
                let _ =
                    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
                // The signal is on its way; nothing more is to happen here.
                loop {
                    std::thread::park();
                }
            }
            Some(Act::Panic) => {
                drop(taking);
                panic!("a test wants a panic at {name}");
            }
        }
    }

    /// Counts a visit; answers what is to be done if this is the one that counts.
    pub(super) fn take(file: &Path, name: &str) -> Option<Act> {
        let text = std::fs::read_to_string(file).ok()?;
        let (left, act) = visit(&text, name)?;
        // A file that cannot be written would end each life of the process at this point.
        let beside = file.with_extension("new");
        std::fs::write(&beside, left).and_then(|()| std::fs::rename(&beside, file)).ok()?;
        act
    }

    /// The file after a visit to the point, and what is to be done; `None` if no line is about it.
    pub(super) fn visit(text: &str, name: &str) -> Option<(String, Option<Act>)> {
        let mut act = None;
        let mut found = false;
        let mut left = String::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let verb = words.next();
            if found || words.next() != Some(name) {
                left.push_str(line);
                left.push('\n');
                continue;
            }
            found = true;
            let visits = words.next().and_then(|word| word.parse::<u32>().ok()).unwrap_or(1);
            if visits > 1 {
                left.push_str(&format!("{} {name} {}\n", verb.unwrap_or_default(), visits - 1));
                continue;
            }
            act = match verb {
                Some("kill") => Some(Act::Kill),
                Some("panic") => Some(Act::Panic),
                Some(_) | None => None,
            };
        }
        found.then_some((left, act))
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::armed::{Act, take, visit};

    #[test]
    fn a_line_acts_at_its_visit_and_once() {
        assert_eq!(visit("kill a\npanic b 2\n", "c"), None);
        assert_eq!(visit("kill a\npanic b 2\n", "a"), Some(("panic b 2\n".to_owned(), Some(Act::Kill))));
        assert_eq!(visit("panic b 2\n", "b"), Some(("panic b 1\n".to_owned(), None)));
        assert_eq!(visit("panic b 1\n", "b"), Some((String::new(), Some(Act::Panic))));
        assert_eq!(visit("nonsense a\n", "a"), Some((String::new(), None)));
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("fault");
        assert_eq!(take(&file, "a"), None, "no file arms nothing");
        std::fs::write(&file, "kill a\n").expect("written");
        assert_eq!(take(&file, "a"), Some(Act::Kill));
        assert_eq!(take(&file, "a"), None);
    }

    #[test]
    fn without_the_variable_a_point_does_nothing() {
        super::point("a");
    }
}
