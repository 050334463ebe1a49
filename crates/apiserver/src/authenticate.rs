//! Who a request comes from: whoever opened the connection proved to be, or else whom a bearer token names.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::identity::Identity;
use crate::server::Server;
use crate::status::ApiError;
use crate::tokens;

/// The identity of a request on a connection of `connection`. A token that proves nothing is refused, not ignored.
pub(crate) fn authenticated(
    server: &Server,
    connection: Arc<Identity>,
    headers: &HeaderMap,
) -> Result<Arc<Identity>, ApiError> {
    if !connection.is_anonymous() {
        return Ok(connection);
    }
    let mut told = headers.get_all(AUTHORIZATION).iter();
    let header = match (told.next(), told.next()) {
        (None, _) => return Ok(connection),
        (Some(only), None) => only,
        (Some(_), Some(_)) => return Err(ApiError::Unauthorized),
    };
    let token = header
        .to_str()
        .ok()
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .ok_or(ApiError::Unauthorized)?;
    match tokens::prove(server, token, &[tokens::ISSUER.to_owned()]) {
        Ok(proven) => Ok(Arc::new(proven.identity)),
        Err(error) => {
            tracing::debug!(%error, "a bearer token was refused");
            Err(ApiError::Unauthorized)
        }
    }
}
