//! One question to the health service of a pod (`grpc.health.v1.Health/Check`) over a connection that is there already. Nothing
//! else of gRPC is spoken, and no more of an answer is read than a health status can be long.

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tonic::Code;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;

/// Bytes of an answer that are read.
const ANSWER: usize = 4 * 1024;

/// Bytes of an answer's header fields that are read.
const FIELDS: u32 = 16 * 1024;

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    pub(crate) status: i32,
}

/// What the pod said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServingStatus {
    /// It serves.
    Serving,
    /// It does not, in its own word for it.
    Other(String),
}

impl ServingStatus {
    fn of(number: i32) -> Self {
        match number {
            0 => Self::Other("UNKNOWN".to_owned()),
            1 => Self::Serving,
            2 => Self::Other("NOT_SERVING".to_owned()),
            3 => Self::Other("SERVICE_UNKNOWN".to_owned()),
            other => Self::Other(other.to_string()),
        }
    }
}

/// Why there is no answer. The words are Kubernetes'.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GrpcHealthError {
    /// Whoever listens does not speak gRPC.
    #[error("error: failed to connect service at {address:?}: {message}")]
    Connect { address: String, message: String },
    /// There is no such service.
    #[error("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {0}")]
    Unimplemented(String),
    /// Anything else.
    #[error("error: health rpc probe failed: rpc error: code = {code} desc = {message}")]
    Failed { code: String, message: String },
}

/// Asks for the health of a service; the empty name means the server as a whole. Has no time limit of its own.
pub(crate) async fn check(
    stream: TcpStream,
    address: &str,
    service: &str,
) -> Result<ServingStatus, GrpcHealthError> {
    let failed = |message: String| GrpcHealthError::Connect { address: address.to_owned(), message };
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .and_then(|endpoint| endpoint.user_agent("kube-probe/1.36"))
        .map_err(|error| failed(chain(&error)))?
        .http2_max_header_list_size(FIELDS);
    let mut stream = Some(stream);
    let connector = tower::service_fn(move |_: Uri| {
        // The channel connects once; a second time there is nothing to connect to.
        let taken = stream.take().map(TokioIo::new);
        async move { taken.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected)) }
    });
    let channel = endpoint.connect_with_connector(connector).await.map_err(|error| failed(chain(&error)))?;
    let mut client = Grpc::new(channel).max_decoding_message_size(ANSWER);
    client.ready().await.map_err(|error| failed(chain(&error)))?;
    let request = tonic::Request::new(HealthCheckRequest { service: service.to_owned() });
    let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    match client.unary(request, path, codec).await {
        Ok(answer) => Ok(ServingStatus::of(answer.into_inner().status)),
        Err(status) if status.code() == Code::Unimplemented => {
            Err(GrpcHealthError::Unimplemented(status.message().to_owned()))
        }
        Err(status) => Err(GrpcHealthError::Failed {
            code: format!("{:?}", status.code()),
            message: status.message().to_owned(),
        }),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::ServingStatus;

    #[test]
    fn statuses_have_the_names_of_the_protocol() {
        let names = [0, 1, 2, 3, 9].map(|number| match ServingStatus::of(number) {
            ServingStatus::Serving => "SERVING".to_owned(),
            ServingStatus::Other(name) => name,
        });
        assert_eq!(names, ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN", "9"]);
    }
}
