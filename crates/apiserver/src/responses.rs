//! HTTP answers: bodies, headers, warnings.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use serde_json::Value;

use crate::status::ApiError;

/// Why a streamed body ended early.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;
/// The body of every answer.
#[derive(Debug)]
pub(crate) enum Body {
    /// There as a whole, so that it can be looked at again before it is sent.
    Whole(Bytes),
    /// Comes piece by piece.
    Streamed(UnsyncBoxBody<Bytes, BodyError>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Body::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::Streamed(pieces) => Pin::new(pieces).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_empty(),
            Body::Streamed(pieces) => pieces.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Streamed(pieces) => pieces.size_hint(),
        }
    }
}

/// Every answer.
pub(crate) type Answer = Response<Body>;

pub(crate) const JSON: &str = "application/json";

/// A body that is there as a whole.
pub(crate) fn whole(bytes: impl Into<Bytes>) -> Body {
    Body::Whole(bytes.into())
}

/// A body that comes piece by piece.
pub(crate) fn streamed(pieces: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static) -> Body {
    use futures::StreamExt;
    Body::Streamed(BodyExt::boxed_unsync(StreamBody::new(pieces.map(|piece| piece.map(Frame::data)))))
}

/// An answer with a body of a type.
pub(crate) fn answer(code: StatusCode, content_type: &str, body: Body) -> Answer {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(content_type) {
        headers.insert(CONTENT_TYPE, value);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A JSON answer.
pub(crate) fn json(code: StatusCode, value: &Value) -> Answer {
    answer(code, JSON, whole(value.to_string()))
}

/// Plain text.
pub(crate) fn text(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    answer(code, "text/plain; charset=utf-8", whole(text))
}

/// A failure.
pub(crate) fn failure(error: &ApiError) -> Answer {
    let mut response = json(error.code(), &error.status());
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Most bytes of warnings in one answer, as upstream has it.
const WARNING_BYTES: usize = 4096;

/// Adds `Warning` headers: `299 - "TEXT"`, each text once, up to a limit.
pub(crate) fn add_warnings(response: &mut Answer, warnings: &[String]) {
    let mut total = 0;
    let mut seen: Vec<&String> = Vec::new();
    for warning in warnings {
        if warning.is_empty() || seen.contains(&warning) {
            continue;
        }
        seen.push(warning);
        total += warning.len();
        if total > WARNING_BYTES {
            return;
        }
        if let Ok(value) = HeaderValue::from_bytes(warning_text(warning).as_bytes()) {
            response.headers_mut().append(WARNING, value);
        }
    }
}

fn warning_text(warning: &str) -> String {
    let mut text = String::from("299 - \"");
    for character in warning.chars() {
        match character {
            '"' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            control if control.is_control() => text.push(' '),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests {
    use super::warning_text;

    #[test]
    fn a_warning_cannot_break_out_of_its_header() {
        assert_eq!(warning_text("unknown field \"spec.foo\""), r#"299 - "unknown field \"spec.foo\"""#);
        assert_eq!(warning_text("a\r\nSet-Cookie: x"), r#"299 - "a  Set-Cookie: x""#);
    }
}
