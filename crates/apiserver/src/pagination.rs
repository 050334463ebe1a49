//! Lists in pages: each page is of the revision of the first, as long as it is remembered.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{Object, ReadError};

use crate::kinds::Kind;
use crate::list_options::{ListOptions, Wanted};
use crate::server::Server;
use crate::status::ApiError;

/// What a `continue` token says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Token {
    v: String,
    /// The revision of the first page; 0: whatever is newest.
    rv: u64,
    namespace: String,
    name: String,
}

const TOKEN_VERSION: &str = "coracle.dev/v1";

impl Token {
    fn encode(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(json!(self).to_string())
    }

    fn decode(text: &str) -> Result<Token, ApiError> {
        let bad = || {
            ApiError::bad_request(format!(
                "invalid continue token: continue key is not valid: {}",
                schema::go_quote(text)
            ))
        };
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| bad())?;
        let token: Token = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        if token.v == TOKEN_VERSION { Ok(token) } else { Err(bad()) }
    }
}

/// One page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) revision: u64,
    pub(crate) objects: Vec<Arc<Object>>,
    next: Option<Token>,
    remaining: Option<usize>,
}

impl Page {
    /// The `metadata` of the list.
    pub(crate) fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if let Some(token) = &self.next {
            metadata["continue"] = json!(token.encode());
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }
}

/// Reads the page that the options ask for; an empty `namespace` means all.
pub(crate) fn read_page(
    server: &Server,
    kind: &Kind,
    namespace: &str,
    options: &ListOptions,
) -> Result<Page, ApiError> {
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let token = options.continue_token.as_deref().map(Token::decode).transpose()?;
    let at = match (&token, options.wanted) {
        (Some(token), _) => Some(token.rv).filter(|revision| *revision > 0),
        (None, Wanted::Newest | Wanted::Any) => None,
        (None, Wanted::Exact(revision)) => Some(revision),
        (None, Wanted::NotOlderThan(revision)) => {
            let current = server.store.revision();
            if revision > current {
                return Err(ApiError::FutureResourceVersion { requested: revision, current });
            }
            None
        }
    };
    let after = token.as_ref().map(|token| (token.namespace.as_str(), token.name.as_str()));
    let listing = server.store.list(kind.collection(), namespace, after, at).map_err(|error| match (&token, error) {
        (Some(token), ReadError::Expired { .. }) => ApiError::Expired {
            message: "The provided continue parameter is too old to display a consistent list result. You can start a new list without \
                      the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
                      Continuing with the provided token results in an inconsistent list - objects that were created, modified, or \
                      deleted between the time the first chunk was returned and now may show up in the list."
                .to_owned(),
            continue_token: Some(
                Token { v: TOKEN_VERSION.to_owned(), rv: 0, namespace: token.namespace.clone(), name: token.name.clone() }.encode(),
            ),
        },
        (None, ReadError::Expired { .. }) => ApiError::Expired {
            message: "The resourceVersion for the provided list is too old.".to_owned(),
            continue_token: None,
        },
        (_, error @ ReadError::Future { .. }) => ApiError::from_read(error),
    })?;
    let mut objects = listing.objects;
    if !options.selector.is_empty() {
        objects.retain(|object| options.selector.selects(object));
    }
    let mut page = Page { revision: listing.revision, objects, next: None, remaining: None };
    if let Some(limit) = options.limit
        && page.objects.len() > limit
    {
        let left = page.objects.len() - limit;
        page.objects.truncate(limit);
        page.next = page.objects.last().map(|last| Token {
            v: TOKEN_VERSION.to_owned(),
            rv: listing.revision,
            namespace: last.key().namespace().to_owned(),
            name: last.key().name().to_owned(),
        });
        // With a selector upstream does not count either.
        page.remaining = options.selector.is_empty().then_some(left);
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn tokens_come_back_as_they_went_and_forged_ones_are_refused() {
        let token = Token {
            v: super::TOKEN_VERSION.to_owned(),
            rv: 7,
            namespace: "a".to_owned(),
            name: "b/../c".to_owned(),
        };
        assert_eq!(Token::decode(&token.encode()).expect("our own"), token);
        for text in ["", "x", "e30", "!!"] {
            assert!(Token::decode(text).is_err(), "{text}");
        }
    }
}
