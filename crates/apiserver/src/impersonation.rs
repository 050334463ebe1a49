//! Requests in somebody else's name: `Impersonate-User` and its kin, for those whom roles allow it.

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::authorize::{self, Attributes};
use crate::identity::{Identity, service_account_groups, service_account_of};
use crate::query::percent_decode;
use crate::server::Server;
use crate::status::ApiError;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
/// The API group under which roles allow what is no core resource.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Whom a request wants to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wish {
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

/// Reads the headers; `None` when they say nothing about it.
fn wish(headers: &HeaderMap) -> Result<Option<Wish>, ApiError> {
    let mut wish = Wish::default();
    let mut is_any = false;
    for (name, value) in headers {
        let name = name.as_str();
        if name != USER && name != GROUP && name != UID && !name.starts_with(EXTRA) {
            continue;
        }
        is_any = true;
        let value = std::str::from_utf8(value.as_bytes())
            .map_err(|_| ApiError::bad_request(format!("the header {name} is not UTF-8")))?
            .to_owned();
        match name {
            USER if wish.user.is_empty() => wish.user = value,
            USER => return Err(ApiError::bad_request("more than one user to impersonate")),
            GROUP => wish.groups.push(value),
            UID => wish.uid = value,
            extra => {
                let key = extra.strip_prefix(EXTRA).unwrap_or_default();
                let key = percent_decode(key).unwrap_or_else(|| key.to_owned());
                wish.extra.entry(key).or_default().push(value);
            }
        }
    }
    if is_any && wish.user.is_empty() {
        return Err(ApiError::bad_request(
            "groups, uid or extra were requested without a user to impersonate: set Impersonate-User",
        ));
    }
    Ok(is_any.then_some(wish))
}

/// Who a request of `identity` counts as: whom it impersonates, if it may; `None` when it impersonates nobody.
pub(crate) fn impersonated(
    server: &Server,
    identity: &Identity,
    headers: &HeaderMap,
) -> Result<Option<Identity>, ApiError> {
    let Some(wish) = wish(headers)? else { return Ok(None) };
    let demand = |asked: Attributes<'_>| authorize::demand(server, identity, &asked);
    let verb = "impersonate";
    let mut groups = wish.groups.clone();
    match service_account_of(&wish.user) {
        Some((namespace, name)) => {
            demand(Attributes::resource(verb, "", "serviceaccounts").within(namespace).named(name))?;
            if groups.is_empty() {
                groups = service_account_groups(namespace);
            }
        }
        None => demand(Attributes::resource(verb, "", "users").named(&wish.user))?,
    }
    for group in &wish.groups {
        demand(Attributes::resource(verb, "", "groups").named(group))?;
    }
    if !wish.uid.is_empty() {
        demand(Attributes::resource(verb, AUTHENTICATION, "uids").named(&wish.uid))?;
    }
    for (key, values) in &wish.extra {
        for value in values {
            demand(Attributes::resource(verb, AUTHENTICATION, "userextras").sub(key).named(value))?;
        }
    }
    let mut identity = Identity::new(wish.user, groups).with_uid(&wish.uid);
    for (key, values) in wish.extra {
        identity = identity.with_extra(&key, values);
    }
    Ok(Some(identity.authenticated()))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::wish;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn the_headers_say_user_groups_uid_and_extra() {
        assert_eq!(wish(&headers(&[("x", "y")])).expect("nothing"), None);
        let told = wish(&headers(&[
            ("impersonate-user", "jane"),
            ("impersonate-group", "a"),
            ("impersonate-extra-acme.com%2fproject", "p"),
            ("impersonate-uid", "7"),
        ]))
        .expect("fine")
        .expect("somebody");
        assert_eq!((told.user.as_str(), told.uid.as_str(), told.groups.len()), ("jane", "7", 1));
        assert_eq!(told.extra["acme.com/project"], ["p"]);
        wish(&headers(&[("impersonate-group", "system:masters")])).expect_err("a group without a user");
    }
}
