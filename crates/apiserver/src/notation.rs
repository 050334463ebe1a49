//! The notation of answers. Inside the server an answer is JSON, as what is stored is; what its client gets instead is decided here,
//! once, for every answer that is there as a whole and is an object: protobuf, YAML, lines for people, and gzip around it.
//!
//! Lists in protobuf and watches are written where they are made (`render.rs`, `watch_stream.rs`), item by item.

mod indented;

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, USER_AGENT, VARY};
use http::{HeaderMap, Method, StatusCode, Uri};
use manifest::{Limits, Node};
use schema::protobuf::{self, ProtobufError};
use serde_json::Value;

use crate::media::{MediaRange, Notation, accepted};
use crate::query::Query;
use crate::responses::{Answer, Body, JSON, whole};
use crate::workshop::Workshop;

/// Answers above this size are packed for clients that ask for it, and not written by the threads that answer requests;
/// upstream's threshold.
pub(crate) const LARGE: usize = 128 * 1024;

/// What a client would like of an answer besides JSON.
#[derive(Debug)]
pub(crate) struct Wish {
    /// What it accepts, best first; empty when JSON will do.
    ranges: Vec<MediaRange>,
    /// JSON in lines.
    pretty: bool,
    gzip: bool,
}

impl Wish {
    pub(crate) fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Wish {
        let names = |value: &HeaderValue| {
            let has =
                |word: &[u8]| value.as_bytes().windows(word.len()).any(|own| own.eq_ignore_ascii_case(word));
            has(b"protobuf") || has(b"yaml")
        };
        let is_special = headers.get_all(ACCEPT).iter().any(names);
        Wish {
            ranges: if is_special { accepted(headers) } else { Vec::new() },
            pretty: wants_lines(uri, headers),
            gzip: *method == Method::GET && takes_gzip(headers),
        }
    }
}

/// `pretty` says it; without it browsers and curl are taken to be people, as upstream does.
fn wants_lines(uri: &Uri, headers: &HeaderMap) -> bool {
    let query = uri.query().filter(|query| query.contains("pretty")).map(Query::parse);
    match query.as_ref().and_then(|query| query.text("pretty")) {
        Some(told) => matches!(told, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => headers.get(USER_AGENT).is_some_and(|agent| {
            let agent = agent.as_bytes();
            [&b"curl"[..], b"Wget", b"Mozilla/5.0"].into_iter().any(|name| agent.starts_with(name))
        }),
    }
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
            let refused = parts.any(|part| {
                part.strip_prefix("q=").is_some_and(|quality| quality.parse::<f32>().unwrap_or(0.0) <= 0.0)
            });
            named && !refused
        })
}

/// Writes an answer as its client wants it.
pub(crate) async fn write(room: &Workshop, wish: Wish, mut answer: Answer) -> Answer {
    if !wish.ranges.is_empty()
        && is_type(&answer, JSON)
        && let Body::Whole(bytes) = answer.body()
    {
        let (bytes, ranges) = (bytes.clone(), wish.ranges);
        let written = aside(room, bytes.len(), move || in_notation(&bytes, &ranges)).await;
        if let Some((notation, bytes)) = written {
            *answer.body_mut() = whole(bytes);
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(notation.media_type()));
        }
    }
    if wish.pretty
        && is_type(&answer, JSON)
        && let Body::Whole(bytes) = answer.body()
    {
        let bytes = bytes.clone();
        if let Some(lines) = aside(room, bytes.len(), move || Some(indented::indented(&bytes))).await {
            *answer.body_mut() = whole(lines);
        }
    }
    if wish.gzip
        && answer.status() == StatusCode::OK
        && !answer.headers().contains_key(CONTENT_ENCODING)
        && let Body::Whole(bytes) = answer.body()
        && bytes.len() > LARGE
    {
        let bytes = bytes.clone();
        if let Some(packed) = aside(room, bytes.len(), move || pack(&bytes)).await {
            *answer.body_mut() = whole(packed);
            answer.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            answer.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
        }
    }
    answer
}

/// Does large pieces of work where they keep no other request waiting, and only some at once.
pub(crate) async fn aside<T: Send + 'static>(
    room: &Workshop,
    size: usize,
    work: impl FnOnce() -> Option<T> + Send + 'static,
) -> Option<T> {
    if size > LARGE {
        // A panic there is a wish that was not fulfilled: the answer stays as it is.
        room.run(work).await.ok().flatten()
    } else {
        work()
    }
}

fn is_type(answer: &Answer, name: &str) -> bool {
    answer.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes() == name.as_bytes())
}

/// The object in the first notation that its client accepts; `None` where that is JSON, or nothing fits: then it is better to answer in
/// JSON what has been done than to say that it cannot be said.
fn in_notation(bytes: &Bytes, ranges: &[MediaRange]) -> Option<(Notation, Bytes)> {
    let forms = ranges.iter().any(|range| range.parameter("as").is_some());
    let kind = if forms { schema::peek_type_meta(bytes).ok()?.kind } else { String::new() };
    for range in ranges.iter().filter(|range| suits(range, &kind)) {
        match range.notation() {
            None => {}
            Some(Notation::Json) => return None,
            Some(Notation::Yaml) => return Some((Notation::Yaml, yaml(bytes)?)),
            Some(Notation::Protobuf) => match protobuf::write_object(bytes) {
                Ok(written) => return Some((Notation::Protobuf, Bytes::from(written))),
                // No object, or one of our own kinds: then what the client would like next.
                Err(ProtobufError::Kind { .. } | ProtobufError::NoForm { .. }) => {}
                Err(error) => tracing::warn!(%error, "an object cannot be written in protobuf"),
            },
        }
    }
    None
}

/// Whether an entry of `Accept` is about an answer of this kind.
fn suits(range: &MediaRange, kind: &str) -> bool {
    match range.parameter("as") {
        None => !matches!(kind, "Table" | "PartialObjectMetadata" | "PartialObjectMetadataList"),
        Some(form) => form.trim_end_matches("List") == kind.trim_end_matches("List"),
    }
}

/// YAML of an object, keys in their order; `None` for JSON that is no object of Kubernetes.
fn yaml(bytes: &[u8]) -> Option<Bytes> {
    let parsed = manifest::parse_stream(bytes, &Limits::default());
    let node = match parsed.ok().and_then(|documents| documents.into_iter().next()) {
        Some(document) => document.root,
        // Lists can be longer than any manifest.
        None => Node::from_json(&serde_json::from_slice::<Value>(bytes).ok()?),
    };
    node.get("kind")?;
    Some(Bytes::from(manifest::to_yaml(&node)))
}

fn pack(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use bytes::Bytes;
    use flate2::read::GzDecoder;
    use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue, USER_AGENT};
    use http::{HeaderMap, Method, StatusCode, Uri};
    use serde_json::{Value, json};

    use super::{LARGE, Wish, write};
    use crate::responses::{Answer, Body, json as json_answer, text};
    use crate::workshop::Workshop;

    async fn written(accept: &str, value: &Value) -> (String, Bytes) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().expect("a header"));
        let answer = write(
            &Workshop::new(1),
            Wish::of(&Method::GET, &Uri::default(), &headers),
            json_answer(StatusCode::OK, value),
        )
        .await;
        let content_type = answer.headers()[CONTENT_TYPE].to_str().expect("text").to_owned();
        (content_type, bytes(answer))
    }

    fn bytes(answer: Answer) -> Bytes {
        match answer.into_body() {
            Body::Whole(bytes) => bytes,
            Body::Streamed(_) => panic!("there as a whole"),
        }
    }

    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

    #[tokio::test]
    async fn objects_are_written_as_their_client_wants_them() {
        let map =
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"a": "yes"}});
        let (content_type, bytes) =
            written("application/vnd.kubernetes.protobuf,application/json", &map).await;
        assert_eq!(content_type, PROTOBUF);
        let read = schema::protobuf::read_object(&bytes).expect("well formed");
        assert_eq!(read["data"], json!({"a": "yes"}));
        let (content_type, bytes) = written("application/yaml", &map).await;
        assert_eq!(content_type, "application/yaml");
        assert_eq!(bytes, "apiVersion: v1\ndata:\n  a: \"yes\"\nkind: ConfigMap\nmetadata:\n  name: m\n");
        for accept in
            ["*/*", "application/json, application/yaml", "application/vnd.kubernetes.protobuf;q=0.1, */*"]
        {
            assert_eq!(written(accept, &map).await.0, "application/json", "{accept}");
        }
    }

    #[tokio::test]
    async fn what_has_no_form_in_protobuf_stays_json() {
        let table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "rows": []});
        let both =
            format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,application/json;as=Table;g=meta.k8s.io;v=v1");
        for (accept, value) in [
            (both.as_str(), table),
            (PROTOBUF, json!({"major": "1"})),
            ("application/yaml", json!({"major": "1"})),
            (PROTOBUF, json!({"kind": "Template", "apiVersion": "template.coracle.dev/v1"})),
        ] {
            let (content_type, bytes) = written(accept, &value).await;
            assert_eq!(
                (content_type.as_str(), &bytes[..]),
                ("application/json", value.to_string().as_bytes())
            );
        }
    }

    #[tokio::test]
    async fn the_entry_that_is_about_the_answer_counts() {
        let metadata = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
        let partial =
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {}});
        assert_eq!(written(&metadata, &partial).await.0, PROTOBUF);
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "code": 404});
        assert_eq!(written(&metadata, &status).await.0, "application/json");
        assert_eq!(written(PROTOBUF, &status).await.0, PROTOBUF);
    }

    #[tokio::test]
    async fn people_get_lines() {
        let ask = async |uri: &str, agent: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, HeaderValue::from_static(agent));
            let uri: Uri = uri.parse().expect("a path");
            bytes(
                write(
                    &Workshop::new(1),
                    Wish::of(&Method::GET, &uri, &headers),
                    json_answer(StatusCode::OK, &json!({"a": 1})),
                )
                .await,
            )
        };
        let (lines, compact) = ("{\n  \"a\": 1\n}", "{\"a\":1}");
        for (uri, agent, want) in [
            ("/api", "curl/8.1", lines),
            ("/api", "Mozilla/5.0 (X11)", lines),
            ("/api", "kubectl/v1.33", compact),
            ("/api?pretty=true", "kubectl/v1.33", lines),
            ("/api?a=b&pretty=false", "curl/8.1", compact),
            ("/api?pretty=", "curl/8.1", lines),
        ] {
            assert_eq!(ask(uri, agent).await, want, "{uri} {agent}");
        }
    }

    #[tokio::test]
    async fn large_answers_are_packed_for_those_who_ask() {
        let long = "a".repeat(LARGE + 1);
        let ask = async |method: Method, encoding: &str, body: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, encoding.parse().expect("a header"));
            let answer = write(
                &Workshop::new(1),
                Wish::of(&method, &Uri::default(), &headers),
                text(StatusCode::OK, body.to_owned()),
            )
            .await;
            (answer.headers().contains_key(CONTENT_ENCODING), bytes(answer))
        };
        let (is_packed, packed) = ask(Method::GET, "deflate, gzip;q=1.0", &long).await;
        assert!(is_packed && packed.len() < LARGE / 10);
        let mut unpacked = String::new();
        GzDecoder::new(&packed[..]).read_to_string(&mut unpacked).expect("gzip");
        assert_eq!(unpacked, long);
        for (method, encoding, body) in [
            (Method::GET, "identity", long.as_str()),
            (Method::GET, "gzip;q=0", &long),
            (Method::POST, "gzip", &long),
            (Method::GET, "gzip", &long[..LARGE]),
        ] {
            assert!(!ask(method.clone(), encoding, body).await.0, "{method} {encoding}");
        }
    }
}
