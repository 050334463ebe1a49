//! Where the node's own log goes: standard error, escaped by the formatter, filtered by `CORACLE_LOG`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging of a node that stays; `level` holds for what `CORACLE_LOG` does not name.
pub(crate) fn start(level: &str) {
    // A second start (in tests) keeps the first one.
    let _ = subscriber(level).try_init();
}

/// Starts logging of a command that a person waits for: warnings, without times.
pub(crate) fn start_brief() {
    // As above.
    let _ = subscriber("warn").without_time().with_target(false).try_init();
}

type Subscriber = tracing_subscriber::fmt::SubscriberBuilder<
    tracing_subscriber::fmt::format::DefaultFields,
    tracing_subscriber::fmt::format::Format,
    EnvFilter,
    fn() -> std::io::Stderr,
>;

fn subscriber(level: &str) -> Subscriber {
    let filter = EnvFilter::builder()
        .with_default_directive(level.parse().unwrap_or_else(|_| tracing::Level::INFO.into()))
        .with_env_var("CORACLE_LOG")
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr as fn() -> std::io::Stderr)
        .with_ansi(std::io::stderr().is_terminal())
}
