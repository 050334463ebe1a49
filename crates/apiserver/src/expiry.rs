//! Events are kept for an hour; a task removes older ones.

use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;

use crate::object::{text, tree};
use crate::server::Server;

/// How often old events are looked for.
const EVERY: Duration = Duration::from_secs(60);

/// Starts the task.
pub(crate) fn spawn_event_expiry(server: &Arc<Server>) {
    let closing = server.closing().clone();
    let server = Arc::downgrade(server);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = closing.cancelled() => return,
            }
            if !remove_old_events(&server).await {
                return;
            }
        }
    });
}

/// False when the server is gone.
async fn remove_old_events(server: &Weak<Server>) -> bool {
    let Some(server) = server.upgrade() else { return false };
    let Some(kind) = server.kinds.core("events") else { return false };
    let Ok(listing) = server.store.list(kind.collection(), None, None, None) else { return true };
    let oldest = Timestamp::now().as_second().saturating_sub_unsigned(server.limits().event_age.as_secs());
    for stored in listing.objects {
        let event = tree(&stored);
        let newest = [
            text(&event, &["series", "lastObservedTime"]),
            text(&event, &["lastTimestamp"]),
            text(&event, &["eventTime"]),
            text(&event, &["metadata", "creationTimestamp"]),
        ]
        .into_iter()
        .filter_map(|time| time.parse::<Timestamp>().ok())
        .max();
        if newest.is_some_and(|time| time.as_second() < oldest) {
            // Changed meanwhile, or gone, or the store stopped: each is somebody else's matter.
            let _ = server.store.delete(stored.key().clone(), Some(stored.revision())).await;
        }
    }
    true
}
