//! In whose name a request writes: the query parameter `fieldManager`, or else what the client calls itself.

use admission::{BadValue, FieldError, FieldErrorKind, FieldErrors};
use http::HeaderMap;
use http::header::USER_AGENT;
use schema::is_printable;
use serde_json::Value;

use crate::gatekeeper::Call;
use crate::object::set_metadata;
use crate::request::Verb;
use crate::status::ApiError;

/// The manager of what the server writes on its own behalf.
pub(crate) const OWN: &str = "coracle";

/// Longest name in bytes, upstream's `FieldManagerMaxLength`.
const LONGEST: usize = 128;

/// The field manager of a request.
///
/// # Errors
///
/// A parameter that is too long or holds what cannot be printed.
pub(crate) fn named(call: &Call) -> Result<String, ApiError> {
    match call.query.text("fieldManager") {
        None => Ok(of_user_agent(call.request.headers())),
        Some(told) => {
            let problems = problems("fieldManager", told);
            if problems.is_empty() { Ok(told.to_owned()) } else { Err(refused(call.verb, problems)) }
        }
    }
}

/// The options of a request are invalid.
pub(crate) fn refused(verb: Verb, problems: Vec<FieldError>) -> ApiError {
    let kind = match verb {
        Verb::Create => "CreateOptions",
        Verb::Update => "UpdateOptions",
        Verb::Patch => "PatchOptions",
        Verb::Delete | Verb::DeleteCollection => "DeleteOptions",
        Verb::Get => "GetOptions",
        Verb::List | Verb::Watch => "ListOptions",
    };
    ApiError::Invalid {
        group: "meta.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name: String::new(),
        errors: FieldErrors(problems),
    }
}

/// What is wrong with the name of a manager.
pub(crate) fn problems(field: &str, name: &str) -> Vec<FieldError> {
    let problem = |kind, detail: String| FieldError {
        kind,
        field: field.to_owned(),
        bad_value: BadValue::Json(Value::from(name)),
        detail,
    };
    let mut problems = Vec::new();
    if name.len() > LONGEST {
        let detail = format!("may not be more than {LONGEST} bytes");
        problems.push(problem(FieldErrorKind::TooLong, detail));
    }
    if let Some((at, hidden)) = name.char_indices().find(|(_, character)| !is_printable(*character)) {
        let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(hidden));
        problems.push(problem(FieldErrorKind::Invalid, detail));
    }
    problems
}

/// Whether a body may hold the empty list that asks to forget all managers; never wrong when it says no.
pub(crate) fn may_reset(body: &[u8]) -> bool {
    const KEY: &[u8] = b"managedFields";
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\'' | b':');
    memchr::memmem::find_iter(body, KEY).any(|at| {
        let mut rest = body[at + KEY.len()..].iter().skip_while(|byte| blank(byte));
        rest.next() == Some(&b'[') && rest.find(|byte| !blank(byte)) == Some(&b']')
    })
}

/// Puts the empty list back that decoding leaves out as it leaves out every empty list: here it means something.
pub(crate) fn keep_reset(told: &Value, object: &mut Value) {
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    if told.pointer("/metadata/managedFields").is_some_and(is_empty) {
        set_metadata(object, "managedFields", Some(Value::Array(Vec::new())));
    }
}

/// What stands before the first slash, without what cannot be printed, as far as there is room; `unknown` when that
/// is nothing.
fn of_user_agent(headers: &HeaderMap) -> String {
    let told = headers.get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let mut name = String::new();
    for character in told.iter().flat_map(|told| told.split('/').next().unwrap_or_default().chars()) {
        if !is_printable(character) {
            continue;
        }
        if name.len() + character.len_utf8() > LONGEST {
            break;
        }
        name.push(character);
    }
    if name.is_empty() { "unknown".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::USER_AGENT;

    use super::{LONGEST, may_reset, of_user_agent, problems};

    fn agent(text: &[u8]) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, http::HeaderValue::from_bytes(text).expect("a header"));
        of_user_agent(&headers)
    }

    #[test]
    fn a_client_that_names_no_manager_is_known_by_its_user_agent() {
        assert_eq!(agent(b"kubectl/v1.36.0 (linux/amd64) kubernetes/abc"), "kubectl");
        assert_eq!(agent(b"Mozilla"), "Mozilla");
        assert_eq!(agent(b"/x"), "unknown");
        assert_eq!(agent(b"a\tb/1"), "ab");
        assert_eq!(agent("\u{e9}".repeat(200).as_bytes()).len(), LONGEST);
        assert_eq!(of_user_agent(&HeaderMap::new()), "unknown");
    }

    #[test]
    fn an_empty_list_of_managers_is_seen_however_it_is_written() {
        let found = [
            r#"{"metadata":{"managedFields":[]}}"#,
            "{\"metadata\":{\"managedFields\" :\n [ ] }}",
            "metadata:\n  managedFields: []\n",
            r#"{"a":"managedFields","metadata":{"managedFields":[]}}"#,
        ];
        let absent = [
            r#"{"metadata":{"managedFields":[{}]}}"#,
            r#"{"metadata":{}}"#,
            "managedFields",
            "managedFields: [",
        ];
        for text in found {
            assert!(may_reset(text.as_bytes()), "{text}");
        }
        for text in absent {
            assert!(!may_reset(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn names_of_managers_are_short_and_printable() {
        assert_eq!(problems("fieldManager", "kubectl-client-side-apply"), []);
        let long = problems("fieldManager", &"x".repeat(LONGEST + 1));
        assert_eq!(long[0].body(), "Too long: may not be more than 128 bytes");
        let hidden = problems("fieldManager", "a\tb");
        assert_eq!(hidden[0].body(), "Invalid value: \"a\\tb\": invalid character U+0009 (at position 1)");
    }
}
