//! `list`: objects at one revision, in pages if wanted.

use crate::gatekeeper::Call;
use crate::list_options::ListOptions;
use crate::media::{Format, Notation, negotiate};
use crate::pagination::read_page;
use crate::render;
use crate::responses::Answer;
use crate::status::ApiError;

pub(super) async fn run(call: &Call) -> Result<Answer, ApiError> {
    let (format, notation) = negotiate(call.request.headers(), call.kind.travels())?;
    let options = ListOptions::parse(&call.kind, &call.query, false)?;
    let page = read_page(&call.server, &call.kind, &call.namespace, &options)?;
    match (format, notation) {
        (Format::Object, Notation::Protobuf) => {
            render::protobuf_list(&call.server.writing_room, &call.kind, None, page).await
        }
        (Format::Metadata(version), Notation::Protobuf) => {
            render::protobuf_list(&call.server.writing_room, &call.kind, Some(version), page).await
        }
        (_, Notation::Json | Notation::Yaml | Notation::Protobuf) => {
            render::list(&call.kind, format, &call.query, &page)
        }
    }
}
