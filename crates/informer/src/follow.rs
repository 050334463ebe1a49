//! List, then watch, for ever.

use std::time::Duration;

use futures::StreamExt as _;
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};

use crate::{Informer, Kind};

/// Objects of one page of a list.
const PAGE: u32 = 1000;
/// The server ends a watch after this many seconds; it goes on where it was.
const WATCH_SECONDS: u32 = 290;
/// Waited after the first failure, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// Why a watch cannot go on where it was.
enum Interrupted {
    /// It ended or broke; everything up to the version was told.
    Resumable,
    /// The server no longer knows the version.
    Expired,
}

pub(crate) async fn follow<K: Kind>(informer: &Informer<K>, api: &Api<K>, fields: &str) {
    let mut pause = PAUSES.0;
    loop {
        match list(informer, api, fields).await {
            Ok(mut version) => {
                informer.filled();
                loop {
                    let began = version.clone();
                    match watch(informer, api, fields, &mut version).await {
                        Ok(Interrupted::Resumable) => pause = PAUSES.0,
                        Ok(Interrupted::Expired) => break,
                        Err(error) => {
                            tracing::debug!(kind = %K::kind(&()), %error, "a watch was interrupted");
                            // One that brought something was a good one.
                            if began != version {
                                pause = PAUSES.0;
                            }
                            rest(&mut pause).await;
                        }
                    }
                }
            }
            Err(error) => {
                tracing::debug!(kind = %K::kind(&()), %error, "a list failed");
                rest(&mut pause).await;
            }
        }
    }
}

/// Waits a little, somewhat at random, and longer the next time.
async fn rest(pause: &mut Duration) {
    tokio::time::sleep(pause.mul_f64(rand::random_range(0.7..1.3))).await;
    *pause = (*pause * 2).min(PAUSES.1);
}

/// Lists everything; answers the version of the list.
async fn list<K: Kind>(informer: &Informer<K>, api: &Api<K>, fields: &str) -> kube::Result<String> {
    let mut params = ListParams::default().limit(PAGE);
    if !fields.is_empty() {
        params = params.fields(fields);
    }
    let mut objects = Vec::new();
    loop {
        let page = api.list(&params).await?;
        objects.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => {
                let version = page.metadata.resource_version.unwrap_or_default();
                informer.change(|cache| cache.replace(objects, &version));
                return Ok(version);
            }
        }
    }
}

async fn watch<K: Kind>(
    informer: &Informer<K>,
    api: &Api<K>,
    fields: &str,
    version: &mut String,
) -> kube::Result<Interrupted> {
    let mut params = WatchParams::default().timeout(WATCH_SECONDS);
    if !fields.is_empty() {
        params = params.fields(fields);
    }
    let mut events = match api.watch(&params, version).await {
        Err(kube::Error::Api(status)) if status.code == 410 => return Ok(Interrupted::Expired),
        other => std::pin::pin!(other?),
    };
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                note(version, object.meta().resource_version.as_deref());
                informer.change(|cache| cache.apply(object).into_iter().collect());
            }
            WatchEvent::Deleted(object) => {
                note(version, object.meta().resource_version.as_deref());
                informer.change(|cache| cache.remove(&object).into_iter().collect());
            }
            WatchEvent::Bookmark(bookmark) => {
                note(version, Some(&bookmark.metadata.resource_version));
                informer.change(|cache| {
                    cache.bookmark(&bookmark.metadata.resource_version);
                    Vec::new()
                });
            }
            WatchEvent::Error(status) if status.code == 410 => return Ok(Interrupted::Expired),
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        }
    }
    Ok(Interrupted::Resumable)
}

fn note(version: &mut String, told: Option<&str>) {
    if let Some(told) = told {
        told.clone_into(version);
    }
}
