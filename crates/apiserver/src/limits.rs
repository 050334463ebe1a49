//! Every limit of the API server in one table.

use std::time::Duration;

/// What the server takes from clients. The fields of [`Limits::default`] are what `docs` promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest request body in bytes.
    pub body_bytes: usize,
    /// Largest object in bytes, as stored.
    pub object_bytes: usize,
    /// Time for a whole request body.
    pub body_time: Duration,
    /// Time for the headers of a request, and for the first request of a connection.
    pub header_time: Duration,
    /// Largest header block in bytes.
    pub header_bytes: usize,
    /// Time for the TLS handshake.
    pub handshake_time: Duration,
    /// Connections over TLS at the same time.
    pub connections: usize,
    /// Requests at the same time on one HTTP/2 connection.
    pub streams: u32,
    /// Short requests at the same time of one identity.
    pub requests_in_flight: usize,
    /// Watches and other long requests at the same time of one identity.
    pub long_requests: usize,
    /// Templates that are checked or processed at the same time; the others wait.
    pub templates_at_once: usize,
    /// Operations of one JSON patch.
    pub patch_operations: usize,
    /// Bytes that the copy operations of one JSON patch may make.
    pub patch_copies: usize,
    /// Age at which events are removed.
    pub event_age: Duration,
    /// Events that are kept; beyond that the oldest go.
    pub events: usize,
    /// Events of one namespace that are kept.
    pub events_of_namespace: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes: api::limits::API_BODY,
            object_bytes: 1536 * 1024,
            body_time: Duration::from_secs(30),
            header_time: Duration::from_secs(10),
            header_bytes: 64 * 1024,
            handshake_time: Duration::from_secs(5),
            connections: 4096,
            streams: 100,
            requests_in_flight: 400,
            long_requests: 20_000,
            templates_at_once: 2,
            patch_operations: 10_000,
            patch_copies: 3 * 1024 * 1024,
            event_age: Duration::from_secs(3600),
            events: 10_000,
            events_of_namespace: 5_000,
        }
    }
}
