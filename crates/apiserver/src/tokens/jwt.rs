//! JSON web tokens in their compact form, signed with ES256: nothing else is ever accepted, whatever the token says about itself.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::authority::TokenKey;

/// Signs claims.
pub(super) fn sign(key: &TokenKey, claims: &Value) -> Option<String> {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!("{}.{}", part(&json!({"alg": "ES256", "kid": key.id()})), part(claims));
    let signature = key.sign(message.as_bytes())?;
    Some(format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
}

/// The claims of a token that `key` signed.
pub(super) fn verify(key: &TokenKey, token: &str) -> Option<Value> {
    let (message, signature) = token.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
    let header: Value = serde_json::from_slice(&decode(header)?).ok()?;
    if header["alg"] != "ES256" || header.get("kid").is_some_and(|kid| kid != key.id()) {
        return None;
    }
    if !key.verifies(message.as_bytes(), &decode(signature)?) {
        return None;
    }
    serde_json::from_slice(&decode(claims)?).ok()
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use serde_json::json;

    use super::{sign, verify};
    use crate::authority::TokenKey;

    #[test]
    fn only_what_this_key_signed_with_its_algorithm_is_accepted() {
        let key = TokenKey::passing().expect("made");
        let claims = json!({"sub": "me"});
        let token = sign(&key, &claims).expect("signed");
        assert_eq!(verify(&key, &token), Some(claims.clone()));
        let other = TokenKey::passing().expect("made");
        assert_eq!(verify(&other, &token), None, "another key");
        let parts: Vec<&str> = token.split('.').collect();
        let encode = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let admin = encode(json!({"sub": "admin"}));
        let none = encode(json!({"alg": "none"}));
        let symmetric = encode(json!({"alg": "HS256"}));
        for forged in [
            format!("{}.{admin}.{}", parts[0], parts[2]),
            format!("{none}.{}.", parts[1]),
            format!("{none}.{}.{}", parts[1], parts[2]),
            format!("{symmetric}.{}.{}", parts[1], parts[2]),
            format!("{}.{}", parts[0], parts[1]),
            format!("{token}.x"),
            format!("{token}="),
            String::new(),
            "..".to_owned(),
        ] {
            assert_eq!(verify(&key, &forged), None, "{forged}");
        }
    }
}
