//! Connections to a runtime: what a CRI client stands on, in one process or over a Unix socket.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Request, Response};
use hyper_util::rt::TokioIo;
use tonic::body::Body;
use tonic::transport::{Endpoint, Uri};
use tower::util::BoxCloneSyncService;
use tower::{ServiceExt as _, service_fn};

use crate::v1::image_service_client::ImageServiceClient;
use crate::v1::image_service_server::{ImageService, ImageServiceServer};
use crate::v1::runtime_service_client::RuntimeServiceClient;
use crate::v1::runtime_service_server::{RuntimeService, RuntimeServiceServer};

/// The largest message that clients and servers accept, in bytes.
///
/// `ExecSync` answers up to 16 MiB for each of its two streams.
pub const MAX_MESSAGE_BYTES: usize = 40 * 1024 * 1024;

/// The transport under a CRI client: cheap to clone, the same type for every kind of connection.
pub type Connection = BoxCloneSyncService<Request<Body>, Response<Body>, tonic::codegen::StdError>;

/// Client of the sandbox and container calls.
pub type RuntimeClient = RuntimeServiceClient<Connection>;

/// Client of the image calls.
pub type ImageClient = ImageServiceClient<Connection>;

/// Why a runtime's socket could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody answered on the socket.
    #[error("cannot reach a container runtime at {path}; is it running, and is this its socket?", path = path.display())]
    Unreachable {
        /// The socket that was tried.
        path: PathBuf,
        /// What the transport said.
        #[source]
        source: tonic::transport::Error,
    },
}

/// Clients straight over the generated servers, without a socket in between.
///
/// A deadline that a request carries (`grpc-timeout`) is kept as a real server keeps it.
pub fn in_process<R: RuntimeService, I: ImageService>(runtime: R, images: I) -> (RuntimeClient, ImageClient) {
    let runtime = RuntimeServiceServer::new(runtime)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let images = ImageServiceServer::new(images);
    (runtime_client(deadlined(runtime)), image_client(deadlined(images)))
}

/// Clients of the runtime that listens on a Unix socket.
///
/// # Errors
///
/// [`ConnectError::Unreachable`] when nobody accepts on the socket.
pub async fn connect(path: impl AsRef<Path>) -> Result<(RuntimeClient, ImageClient), ConnectError> {
    let path = path.as_ref().to_owned();
    let dialled = path.clone();
    let dial = service_fn(move |_: Uri| {
        let path = dialled.clone();
        async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
    });
    // The URI is only the authority of the requests; the dialler decides where they go.
    let channel = Endpoint::from_static("http://runtime.invalid")
        .connect_with_connector(dial)
        .await
        .map_err(|source| ConnectError::Unreachable { path, source })?;
    let connection = Connection::new(channel.map_err(tonic::codegen::StdError::from));
    Ok((runtime_client(connection.clone()), image_client(connection)))
}

fn runtime_client(connection: Connection) -> RuntimeClient {
    RuntimeServiceClient::new(connection)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

fn image_client(connection: Connection) -> ImageClient {
    ImageServiceClient::new(connection).max_decoding_message_size(MAX_MESSAGE_BYTES)
}

fn deadlined<S>(server: S) -> Connection
where
    S: tower::Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send,
{
    Connection::new(service_fn(move |request: Request<Body>| {
        let server = server.clone();
        async move {
            let deadline =
                request.headers().get("grpc-timeout").and_then(|value| parse_timeout(value.to_str().ok()?));
            let answer = server.oneshot(request);
            let answer = match deadline {
                None => answer.await,
                Some(deadline) => match tokio::time::timeout(deadline, answer).await {
                    Ok(answer) => answer,
                    Err(_) => {
                        Ok(tonic::Status::deadline_exceeded("the deadline of the request passed").into_http())
                    }
                },
            };
            match answer {
                Ok(response) => Ok(response),
                Err(never) => match never {},
            }
        }
    }))
}

/// Reads a `grpc-timeout` header: up to eight digits and a unit.
fn parse_timeout(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_the_protocol_writes_them() {
        let rows = [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("10S", Some(Duration::from_secs(10))),
            ("5m", Some(Duration::from_millis(5))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("", None),
            ("S", None),
            ("123456789S", None),
            ("-1S", None),
            ("1x", None),
            ("1é", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_timeout(text), expected, "{text}");
        }
    }
}
