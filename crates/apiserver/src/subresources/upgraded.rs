//! Two upgraded connections joined: what comes on one goes out on the other.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use crate::gatekeeper::Place;
use crate::server::Server;

/// Joins them once both are there, in a task of its own, until either side ends or the server closes.
pub(super) fn join(near: OnUpgrade, far: OnUpgrade, server: &Server, in_flight: Place) {
    let closing = server.closing().clone();
    tokio::spawn(async move {
        // The request counts as running until the stream ends.
        let _in_flight = in_flight;
        let both = async {
            let (Ok(near), Ok(far)) = tokio::join!(near, far) else { return };
            let (mut near, mut far) = (TokioIo::new(near), TokioIo::new(far));
            // Whatever ends it, both sides are closed.
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        };
        tokio::select! {
            () = both => {}
            () = closing.cancelled() => {}
        }
    });
}
