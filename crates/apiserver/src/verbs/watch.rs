//! `watch`: where it begins, and whether with a state.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;

use crate::gatekeeper::Call;
use crate::list_options::{ListOptions, Wanted};
use crate::media::{Notation, negotiate_stream};
use crate::render::include;
use crate::responses::{Answer, JSON, answer, streamed, whole};
use crate::selector::Selector;
use crate::status::ApiError;
use crate::watch_stream::{FrameStyle, Initial, WatchStream};

/// Shortest life of a watch whose client does not say how long; upstream takes half an hour to an hour too.
const DEFAULT_SECONDS: u64 = 1800;

pub(super) fn run(call: Call) -> Result<Answer, ApiError> {
    let (format, notation) = negotiate_stream(call.request.headers(), call.kind.travels())?;
    let style = FrameStyle { format, notation, include: include(&call.query)? };
    let mut options = ListOptions::parse(&call.kind, &call.query, true)?;
    if !call.name.is_empty() {
        // A watch of a single object is a watch of the collection that selects one name.
        options.selector = Selector::of_name(&call.name);
    }
    let namespace = Some(call.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let collection = call.kind.collection();
    let (from, initial) = match (options.initial_events, options.wanted) {
        (Some(true), wanted) => {
            if let Wanted::NotOlderThan(requested) = wanted
                && requested > call.server.store.revision()
            {
                let current = call.server.store.revision();
                return Err(ApiError::FutureResourceVersion { requested, current });
            }
            state(&call, &options, true)?
        }
        (Some(false), Wanted::Newest | Wanted::Any) => (call.server.store.revision(), None),
        (None, Wanted::Newest | Wanted::Any) => state(&call, &options, false)?,
        (_, Wanted::Exact(revision) | Wanted::NotOlderThan(revision)) => (revision, None),
    };
    let content_type = match notation {
        Notation::Json | Notation::Yaml => JSON,
        Notation::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
    };
    let watch = match call.server.store.watch(collection, namespace, from) {
        Ok(watch) => watch,
        // Once a watch is well formed, what is wrong with it is an event of it, upstream too.
        Err(error) => {
            let failure = style.failure(&ApiError::from_read(error));
            return Ok(answer(StatusCode::OK, content_type, whole(failure)));
        }
    };
    let seconds =
        options.timeout_seconds.unwrap_or_else(|| DEFAULT_SECONDS + rand::random_range(0..DEFAULT_SECONDS));
    let stream = WatchStream {
        watch,
        selector: options.selector,
        style,
        bookmarks: options.bookmarks,
        deadline: Instant::now() + Duration::from_secs(seconds.min(365 * 86_400)),
        initial,
        server: call.server,
        kind: call.kind,
        place: call.place,
    };
    Ok(answer(StatusCode::OK, content_type, streamed(stream.into_frames())))
}

/// The newest state, and its revision.
fn state(call: &Call, options: &ListOptions, announce_end: bool) -> Result<(u64, Option<Initial>), ApiError> {
    let namespace = Some(call.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let listing =
        call.server.store.list(call.kind.collection(), namespace, None, None).map_err(ApiError::from_read)?;
    let mut objects = listing.objects;
    objects.retain(|object| options.selector.selects(object));
    Ok((listing.revision, Some(Initial { objects, announce_end })))
}
