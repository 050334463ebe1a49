//! Where the node's own log goes: standard error, escaped by the formatter, filtered by `CORACLE_LOG`.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging; `level` holds for what `CORACLE_LOG` does not name.
pub(crate) fn start(level: &str) {
    let filter = EnvFilter::builder()
        .with_default_directive(level.parse().unwrap_or_else(|_| tracing::Level::INFO.into()))
        .with_env_var("CORACLE_LOG")
        .from_env_lossy();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // A second start (in tests) keeps the first one.
    let _ = subscriber.try_init();
}
