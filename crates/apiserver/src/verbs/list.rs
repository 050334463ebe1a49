//! `list`: objects at one revision, in pages if wanted.

use crate::gatekeeper::Call;
use crate::list_options::ListOptions;
use crate::media::object_format;
use crate::pagination::read_page;
use crate::render;
use crate::responses::Answer;
use crate::status::ApiError;

pub(super) fn run(call: &Call) -> Result<Answer, ApiError> {
    let format = object_format(call.request.headers())?;
    let options = ListOptions::parse(&call.kind, &call.query, false)?;
    let page = read_page(&call.server, &call.kind, &call.namespace, &options)?;
    render::list(&call.kind, format, &call.query, &page)
}
