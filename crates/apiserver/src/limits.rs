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
    /// Large answers that are written in protobuf or YAML, indented or packed at the same time; the others wait.
    pub large_answers_at_once: usize,
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

/// One line of the table of limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What is limited, in a few words.
    pub what: &'static str,
    /// How much, with its unit.
    pub value: String,
    /// What happens beyond it.
    pub beyond: &'static str,
}

fn bytes(count: usize) -> String {
    match count {
        count if count >= 1 << 20 && count % (1 << 20) == 0 => format!("{} MiB", count >> 20),
        count if count >= 1 << 10 && count % (1 << 10) == 0 => format!("{} KiB", count >> 10),
        count => format!("{count} bytes"),
    }
}

fn time(duration: Duration) -> String {
    format!("{} s", duration.as_secs())
}

impl Limits {
    /// Every limit that a client can meet, as `coracle up --limits` prints them.
    #[must_use]
    pub fn table(&self) -> Vec<Limit> {
        // A field that is added has to be told.
        let Limits {
            body_bytes,
            object_bytes,
            body_time,
            header_time,
            header_bytes,
            handshake_time,
            connections,
            streams,
            requests_in_flight,
            long_requests,
            templates_at_once,
            large_answers_at_once,
            patch_operations,
            patch_copies,
            event_age,
            events,
            events_of_namespace,
        } = self;
        let yaml = manifest::Limits::default();
        let row = |what, value: String, beyond| Limit { what, value, beyond };
        vec![
            row("request body", bytes(*body_bytes), "413"),
            row("time for a request body", time(*body_time), "408"),
            row("stored object", bytes(*object_bytes), "413"),
            row("values of a ConfigMap or Secret", bytes(api::limits::KEYED_OBJECT), "422"),
            row("annotations of an object", bytes(api::limits::ANNOTATIONS), "422"),
            row("depth of JSON", JSON_DEPTH.to_string(), "400"),
            row("depth of YAML", yaml.depth.to_string(), "400"),
            row("depth of protobuf", schema::protobuf::DEPTH.to_string(), "400"),
            row("values of an object in protobuf", schema::protobuf::VALUES.to_string(), "400"),
            row("nodes and bytes that aliases of YAML copy", yaml.copies.to_string(), "400"),
            row("operations of a JSON patch", patch_operations.to_string(), "413"),
            row("bytes that a JSON patch copies", bytes(*patch_copies), "422"),
            row("headers of a request", bytes(*header_bytes), "431, or the connection ends"),
            row("time for the headers of a request", time(*header_time), "the connection ends"),
            row("time for the TLS handshake", time(*handshake_time), "the connection ends"),
            row("connections", connections.to_string(), "refused at once"),
            row("HTTP/2 streams of a connection", streams.to_string(), "the stream is refused"),
            row(
                "HTTP/2 streams that are reset before they are answered",
                RESETS.to_string(),
                "the connection ends",
            ),
            row("requests of one user at the same time", requests_in_flight.to_string(), "429"),
            row("watches and streams of one user at the same time", long_requests.to_string(), "429"),
            row("memory of a watcher that does not read", bytes(STALLED_WATCHER), "410 when it reads again"),
            row("templates processed at the same time", templates_at_once.to_string(), "the others wait"),
            row(
                "large answers written in another notation, or packed, at the same time",
                large_answers_at_once.to_string(),
                "the others wait",
            ),
            row("age of events", time(*event_age), "removed"),
            row("events", events.to_string(), "the oldest are removed"),
            row("events of a namespace", events_of_namespace.to_string(), "the oldest are removed"),
        ]
    }
}

/// Deepest nesting of a body.
const JSON_DEPTH: usize = 120;
/// Streams of an HTTP/2 connection that were reset by the client and not yet given up by the server.
pub(crate) const RESETS: usize = 50;
/// Bytes that a watcher which does not read can make the server hold.
const STALLED_WATCHER: usize = 256 * 1024;

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
            large_answers_at_once: 4,
            patch_operations: 10_000,
            patch_copies: 3 * 1024 * 1024,
            event_age: Duration::from_secs(3600),
            events: 10_000,
            events_of_namespace: 5_000,
        }
    }
}
