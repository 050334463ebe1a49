//! Ctrl-C and SIGTERM, as something to wait for.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{CANNOT_START, Failure};

/// The signals that ask a command to end. Each wait consumes one of them.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    /// Listens from now on; before that, the signals end the process as usual.
    ///
    /// # Errors
    ///
    /// When the signals cannot be listened to.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::new(CANNOT_START, &error));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
