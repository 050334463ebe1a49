//! The verbs, one file each.

mod create;
mod delete;
mod delete_collection;
mod get;
mod list;
mod patch;
mod update;
mod watch;

use http::Method;

use crate::gatekeeper::Call;
use crate::request::Verb;
use crate::responses::{Answer, add_warnings};
use crate::status::ApiError;
use crate::{reviews, templates};

pub(crate) use patch::patch_part;
pub(crate) use update::update_part;

/// Does what a request asks for.
pub(crate) async fn dispatch(call: Call) -> Result<Answer, ApiError> {
    // Upstream has no routes for HEAD below its groups, except to proxies.
    if call.request.method() == Method::HEAD || !call.kind.resource().verbs.contains(&call.verb.as_str()) {
        return Err(ApiError::MethodNotAllowed);
    }
    if let Some(review) = call.kind.strategy().review() {
        return reviews::run(call, review).await;
    }
    if !call.kind.strategy().is_stored() {
        return templates::process_whole(call).await;
    }
    let notice = call.kind.strategy().notice(call.verb);
    let mut answer = act(call).await?;
    if let Some(notice) = notice {
        add_warnings(&mut answer, &[notice.to_owned()]);
    }
    Ok(answer)
}

async fn act(call: Call) -> Result<Answer, ApiError> {
    match call.verb {
        Verb::Get => get::run(&call),
        Verb::List => list::run(&call).await,
        Verb::Watch => watch::run(call),
        Verb::Create => create::run(call).await,
        Verb::Update => update::run(call).await,
        Verb::Patch => patch::run(call).await,
        Verb::Delete => delete::run(call).await,
        Verb::DeleteCollection => delete_collection::run(call).await,
    }
}
