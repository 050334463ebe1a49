//! The documents by which others verify tokens of service accounts: OpenID's discovery, as far as Kubernetes serves it.

use http::StatusCode;
use serde_json::json;

use crate::responses::{Answer, answer as typed_answer, json as json_answer, whole};
use crate::server::Server;
use crate::tokens::ISSUER;

/// Answers if the path is one of these.
pub(crate) fn answer(server: &Server, path: &str) -> Option<Answer> {
    match path {
        "/.well-known/openid-configuration" => {
            let address = server.config.advertise.map(|address| address.to_string());
            let host = address.unwrap_or_else(|| ISSUER.trim_start_matches("https://").to_owned());
            Some(json_answer(
                StatusCode::OK,
                &json!({
                    "issuer": ISSUER,
                    "jwks_uri": format!("https://{host}/openid/v1/jwks"),
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"],
                }),
            ))
        }
        "/openid/v1/jwks" => {
            let keys = json!({"keys": [server.tokens.key().web_key()]});
            Some(typed_answer(StatusCode::OK, "application/jwk-set+json", whole(keys.to_string())))
        }
        _ => None,
    }
}
