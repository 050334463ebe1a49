//! The subresources, one file each.

mod binding;
mod environment;
mod ephemeral_containers;
mod eviction;
mod finalize;
mod log;
mod node_request;
mod proxy;
mod proxy_target;
mod relay;
mod scale;
mod status;
mod token;
mod upgraded;

use crate::gatekeeper::Call;
use crate::query::Query;
use crate::responses::Answer;
use crate::status::ApiError;
use crate::templates;

/// Whether a request to a subresource may last.
pub(crate) fn is_long(subresource: &str, query: &Query) -> bool {
    match subresource {
        "exec" | "attach" | "portforward" | "proxy" => true,
        "log" => query.is_true("follow"),
        _ => false,
    }
}

/// Does what a request to a subresource asks for.
pub(crate) async fn dispatch(call: Call, subresource: &str, rest: &str) -> Result<Answer, ApiError> {
    if subresource == "resize" && call.kind.has_subresource("ephemeralcontainers") {
        return Err(ApiError::NotServed {
            message: format!(
                "pod \"{}\" cannot be resized in place: this server does not change the resources of running containers; delete the pod and create it with others",
                call.name
            ),
        });
    }
    if !call.kind.has_subresource(subresource) || !(rest.is_empty() || subresource == "proxy") {
        return Err(ApiError::NoSuchPath);
    }
    match subresource {
        "status" => status::run(call).await,
        "ephemeralcontainers" => ephemeral_containers::run(call).await,
        "binding" => binding::run(call).await,
        "eviction" => eviction::run(call).await,
        "finalize" => finalize::run(call).await,
        "log" => log::run(call).await,
        "scale" => scale::run(call).await,
        "environment" => environment::run(call).await,
        "token" => token::run(call).await,
        "processed" => templates::process_stored(call).await,
        "exec" | "attach" | "portforward" => relay::run(call, subresource).await,
        "proxy" => proxy::run(call, rest).await,
        _ => Err(ApiError::NoSuchPath),
    }
}
