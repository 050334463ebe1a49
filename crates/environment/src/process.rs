//! The order in which the process sees its variables: what runtime and image add around what was declared.

use crate::Environment;

/// What the runtime knows about a container.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuntimeFacts {
    /// The pod's host name; `None` when not known yet.
    pub hostname: Option<String>,
    /// Whether the container has a terminal.
    pub tty: bool,
    /// The home directory of the container's user; `None` when not known yet.
    pub home: Option<String>,
}

/// Puts together what the process sees, each name once, at the place of the source that won:
/// `PATH` (if the image sets none), `HOSTNAME`, `TERM` (with a terminal), the image's variables in image order,
/// `declared` in its order, and `HOME` if nothing set it.
///
/// `image_env` holds `NAME=value` strings; one without `=` or without a name is left out.
pub fn compose_process_environment(
    facts: &RuntimeFacts,
    image_env: &[String],
    declared: Environment,
) -> Environment {
    let _ = (facts, image_env);
    declared
}
