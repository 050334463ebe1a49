//! Events are kept for an hour, and only so many of them: a task removes what is too old or too much.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use store::{Object, Store};
use tokio::time::Instant;

use crate::limits::Limits;
use crate::object::{text, tree};
use crate::server::Server;

/// How often events that have become too old are looked for.
const AGES_EVERY: Duration = Duration::from_secs(60);
/// Pause between two counts while events come in.
const COUNT_PAUSE: Duration = Duration::from_secs(1);
/// How many removals are under way at once: they share commits.
const AT_ONCE: usize = 64;

/// Starts the task.
pub(crate) fn spawn_event_expiry(server: &Arc<Server>) {
    let closing = server.closing().clone();
    let server = Arc::downgrade(server);
    tokio::spawn(async move {
        let mut next_ages = Instant::now() + AGES_EVERY;
        loop {
            // Before the count, so that what comes during it wakes the task again.
            let Some(changed) = next_event(&server) else { return };
            if !keep_the_limits(&server, next_ages <= Instant::now()).await {
                return;
            }
            if next_ages <= Instant::now() {
                next_ages = Instant::now() + AGES_EVERY;
            }
            let woken = async {
                changed.await;
                tokio::time::sleep(COUNT_PAUSE).await;
            };
            tokio::select! {
                () = woken => {}
                () = tokio::time::sleep_until(next_ages) => {}
                () = closing.cancelled() => return,
            }
        }
    });
}

/// Resolves when an event is written after now; nothing when the server is gone.
fn next_event(server: &Weak<Server>) -> Option<impl Future<Output = ()> + use<>> {
    let server = server.upgrade()?;
    let kind = server.kinds.core("events")?;
    let watch = server.store.watch(kind.collection(), None, server.store.revision()).ok();
    Some(async move {
        match watch {
            // An end of the store and a missed change are for the next look.
            Some(mut watch) => drop(watch.next().await),
            None => std::future::pending().await,
        }
    })
}

/// False when the server is gone.
async fn keep_the_limits(server: &Weak<Server>, by_age: bool) -> bool {
    let Some(server) = server.upgrade() else { return false };
    let Some(kind) = server.kinds.core("events") else { return false };
    let limits = server.limits();
    if !by_age && server.store.count(kind.collection()) <= limits.events.min(limits.events_of_namespace) {
        return true;
    }
    let Ok(listing) = server.store.list(kind.collection(), None, None, None) else { return true };
    remove(&server.store, surplus(&listing.objects, limits)).await;
    if by_age {
        let oldest = Timestamp::now().as_second().saturating_sub_unsigned(limits.event_age.as_secs());
        remove(
            &server.store,
            listing.objects.into_iter().filter(|stored| is_older(stored, oldest)).collect(),
        )
        .await;
    }
    true
}

async fn remove(store: &Store, events: Vec<Arc<Object>>) {
    let removals = events.into_iter().map(|stored| async move {
        // Changed meanwhile, or gone, or the store stopped: each is somebody else's matter.
        let _ = store.delete(stored.key().clone(), Some(stored.revision())).await;
    });
    futures::stream::iter(removals).buffer_unordered(AT_ONCE).collect::<()>().await;
}

/// Whether the event was last seen before `oldest` (seconds since 1970).
fn is_older(stored: &Object, oldest: i64) -> bool {
    let event = tree(stored);
    let newest = [
        text(&event, &["series", "lastObservedTime"]),
        text(&event, &["lastTimestamp"]),
        text(&event, &["eventTime"]),
        text(&event, &["metadata", "creationTimestamp"]),
    ]
    .into_iter()
    .filter_map(|time| time.parse::<Timestamp>().ok())
    .max();
    newest.is_some_and(|time| time.as_second() < oldest)
}

/// What is too much: in each namespace, then in all, the events that were written longest ago. Where a limit is exceeded a
/// sixteenth more goes, so that a steady stream of events is not followed by a steady stream of removals. Pure.
fn surplus(events: &[Arc<Object>], limits: &Limits) -> Vec<Arc<Object>> {
    let too_many = |count: usize, limit: usize| {
        if count > limit { count - (limit - limit / 16) } else { 0 }
    };
    let mut namespaces: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        *namespaces.entry(event.key().namespace()).or_default() += 1;
    }
    for count in namespaces.values_mut() {
        *count = too_many(*count, limits.events_of_namespace);
    }
    let of_namespaces: usize = namespaces.values().sum();
    let mut of_all = too_many(events.len() - of_namespaces, limits.events);
    let mut oldest_first: Vec<&Arc<Object>> = events.iter().collect();
    oldest_first.sort_unstable_by_key(|event| event.revision());
    oldest_first.retain(|event| match namespaces.get_mut(event.key().namespace()) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ if of_all > 0 => {
            of_all -= 1;
            true
        }
        _ => false,
    });
    oldest_first.into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::{Collection, Draft, Key, Object, Store};

    use super::surplus;
    use crate::limits::Limits;

    async fn events(namespaces: &[(&str, usize)]) -> Vec<Arc<Object>> {
        let store = Store::in_memory().expect("a store");
        let collection = Collection::new("", "events");
        let most = namespaces.iter().map(|(_, count)| *count).max().unwrap_or(0);
        for number in 0..most {
            for (namespace, _) in namespaces.iter().filter(|(_, count)| number < *count) {
                let draft = Draft::new(b"{}".to_vec(), 1).expect("inside");
                let key = Key::new(&collection, namespace, &format!("e{number}"));
                store.create(key, draft).await.expect("stored");
            }
        }
        store.list(&collection, None, None, None).expect("there").objects
    }

    fn left(events: &[Arc<Object>], limits: &Limits) -> Vec<String> {
        let gone = surplus(events, limits);
        let kept = events.iter().filter(|event| !gone.contains(event));
        kept.map(|event| format!("{}/{}", event.key().namespace(), event.key().name())).collect()
    }

    #[tokio::test]
    async fn the_events_of_a_churn_do_not_fill_the_memory() {
        let limits = Limits { events: 48, events_of_namespace: 32, ..Limits::default() };
        let found = events(&[("a", 32), ("b", 16)]).await;
        assert!(surplus(&found, &limits).is_empty(), "exactly as many as may be");
        // One namespace has too many: its oldest go, and a few more; another one loses nothing.
        let found = events(&[("a", 40), ("b", 5)]).await;
        let kept = left(&found, &limits);
        assert_eq!(kept.iter().filter(|name| name.starts_with("a/")).count(), 30);
        assert!(!kept.contains(&"a/e9".to_owned()) && kept.contains(&"a/e10".to_owned()), "{kept:?}");
        assert_eq!(kept.iter().filter(|name| name.starts_with("b/")).count(), 5);
        // Many namespaces have too many together: the oldest of all go.
        let found = events(&[("a", 20), ("b", 20), ("c", 20)]).await;
        let kept = left(&found, &limits);
        assert_eq!(kept.len(), 45);
        for namespace in ["a", "b", "c"] {
            assert!(
                !kept.contains(&format!("{namespace}/e4")) && kept.contains(&format!("{namespace}/e5")),
                "{kept:?}"
            );
        }
    }
}
