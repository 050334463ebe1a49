//! `serviceaccounts/NAME/token`: a token for a time, bound to a pod, Secret or node if the request says so.

use admission::{BadValue, FieldError, FieldErrorKind, FieldErrors};
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use store::Key;

use crate::body;
use crate::gatekeeper::Call;
use crate::object::{self, list, text};
use crate::request::Verb;
use crate::responses::{Answer, add_warnings, json as json_answer};
use crate::status::ApiError;
use crate::timestamps::{now_text, second_text, seconds_after};
use crate::tokens::{self, BoundTo, Grant};

const API_VERSION: &str = "authentication.k8s.io/v1";
const KIND: &str = "TokenRequest";
/// Life of a token whose request names none, in seconds.
const LIFE: i64 = 3600;
/// Shortest life.
const SHORTEST: i64 = 600;
/// Longest life.
const LONGEST: i64 = 1 << 32;
/// The life that nodes ask for when a pod did not choose: such a token lives for a year, as long as its pod, for programs
/// that read it only once. What is told is the short life.
const CHOSEN_BY_ADMISSION: i64 = 3607;
const YEAR: i64 = 365 * 24 * 3600;

pub(super) async fn run(mut call: Call) -> Result<Answer, ApiError> {
    if call.verb != Verb::Create {
        return Err(ApiError::MethodNotAllowed);
    }
    let dry_run = call.dry_run()?;
    let content = body::read(&call.server, &mut call.request).await?;
    let (request, warnings) = decode(&call, &content)?;
    let stored =
        call.server.store.get(&call.key()).ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
    let account = object::tree(&stored);
    let life = life(&call, &request)?;
    let mut audiences: Vec<String> =
        list(&request, &["spec", "audiences"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.push(tokens::ISSUER.to_owned());
    }
    let bound = bound(&call, &request["spec"]["boundObjectRef"])?;
    check_node(&call, &bound, &audiences)?;
    let now = Timestamp::now();
    let is_extended = life == CHOSEN_BY_ADMISSION
        && audiences == [tokens::ISSUER]
        && bound.iter().any(|object| object.what == "pod");
    let token = if dry_run {
        String::new()
    } else {
        let grant = Grant::Passing {
            namespace: &call.namespace,
            account: &call.name,
            account_uid: text(&account, &["metadata", "uid"]),
            audiences: &audiences,
            bound: &bound,
            now: now.as_second(),
            expires: now.as_second() + if is_extended { YEAR } else { life },
            warn_after: is_extended.then(|| now.as_second() + life),
            id: &uuid::Uuid::new_v4().to_string(),
        };
        call.server.tokens.issue(&grant).ok_or_else(tokens::no_randomness)?
    };
    let answer = json!({
        "kind": KIND,
        "apiVersion": API_VERSION,
        "metadata": {"name": call.name, "namespace": call.namespace, "creationTimestamp": now_text()},
        "spec": {
            "audiences": audiences,
            "expirationSeconds": life,
            "boundObjectRef": request["spec"]["boundObjectRef"],
        },
        "status": {"token": token, "expirationTimestamp": second_text(seconds_after(now, life))},
    });
    let mut answer = json_answer(StatusCode::CREATED, &answer);
    add_warnings(&mut answer, &warnings);
    Ok(answer)
}

fn decode(call: &Call, content: &body::Content) -> Result<(Value, Vec<String>), ApiError> {
    let tree = body::tree(content)?;
    if tree.is_null() {
        return Ok((json!({"spec": {}}), Vec::new()));
    }
    let (version, kind) = (text(&tree, &["apiVersion"]), text(&tree, &["kind"]));
    if !matches!(version, "" | API_VERSION) || !matches!(kind, "" | KIND) {
        return Err(ApiError::bad_request(format!(
            "no kind \"{kind}\" of version \"{version}\" makes a token: send a {KIND} of {API_VERSION}"
        )));
    }
    let ty = schema::builtin().type_for(API_VERSION, KIND).ok_or(ApiError::NoSuchPath)?;
    let validation = body::field_validation(&call.query)?;
    let decoded = schema::decode_value(ty, &tree, validation).map_err(|error| {
        ApiError::bad_request(format!("{KIND} in version \"v1\" cannot be handled as a {KIND}: {error}"))
    })?;
    let told = object::name(&decoded.value);
    if !told.is_empty() && told != call.name {
        return Err(ApiError::bad_request(format!(
            "name in URL does not match name in TokenRequest object: {:?} != {told:?}",
            call.name
        )));
    }
    Ok((decoded.value, decoded.warnings))
}

fn life(call: &Call, request: &Value) -> Result<i64, ApiError> {
    let life = request["spec"]["expirationSeconds"].as_i64().unwrap_or(LIFE);
    let detail = match life {
        _ if life < SHORTEST => "may not specify a duration less than 10 minutes",
        _ if life > LONGEST => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(life),
    };
    Err(ApiError::Invalid {
        group: "authentication.k8s.io".to_owned(),
        kind: KIND.to_owned(),
        name: call.name.clone(),
        errors: FieldErrors(vec![FieldError {
            kind: FieldErrorKind::Invalid,
            field: "spec.expirationSeconds".to_owned(),
            bad_value: BadValue::Json(json!(life)),
            detail: detail.to_owned(),
        }]),
    })
}

/// The objects that the token shall be bound to: the one that the request names, and the node of a pod.
fn bound(call: &Call, reference: &Value) -> Result<Vec<BoundTo>, ApiError> {
    if !reference.is_object() {
        return Ok(Vec::new());
    }
    let (version, kind) = (text(reference, &["apiVersion"]), text(reference, &["kind"]));
    let (what, plural, namespace) = match (version, kind) {
        ("v1" | "", "Pod") => ("pod", "pods", call.namespace.as_str()),
        ("v1" | "", "Secret") => ("secret", "secrets", call.namespace.as_str()),
        ("v1" | "", "Node") => ("node", "nodes", ""),
        _ => {
            return Err(ApiError::bad_request(format!(
                "cannot bind token to object of type {version}, Kind={kind}"
            )));
        }
    };
    let name = text(reference, &["name"]);
    let object = find(call, plural, namespace, name)?;
    let uid = text(&object, &["metadata", "uid"]).to_owned();
    let told = text(reference, &["uid"]);
    if !told.is_empty() && told != uid {
        return Err(ApiError::Conflict {
            group: String::new(),
            resource: plural.to_owned(),
            name: name.to_owned(),
            detail: format!(
                "the UID in the bound object reference ({told}) does not match the UID in record. The object might have been deleted and then recreated"
            ),
        });
    }
    let mut bound = vec![BoundTo { what, name: name.to_owned(), uid }];
    if what == "pod" {
        let account = text(&object, &["spec", "serviceAccountName"]);
        if account != call.name {
            return Err(ApiError::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                call.name
            )));
        }
        let node = text(&object, &["spec", "nodeName"]);
        if !node.is_empty()
            && let Ok(found) = find(call, "nodes", "", node)
        {
            let uid = text(&found, &["metadata", "uid"]).to_owned();
            bound.push(BoundTo { what: "node", name: node.to_owned(), uid });
        }
    }
    Ok(bound)
}

fn find(call: &Call, plural: &str, namespace: &str, name: &str) -> Result<Value, ApiError> {
    let kind = call.server.kinds.core(plural).ok_or(ApiError::NoSuchPath)?;
    let stored = call.server.store.get(&Key::new(kind.collection(), namespace, name));
    stored.map(|stored| object::tree(&stored)).ok_or_else(|| ApiError::not_found(kind, name))
}

/// A node gets tokens for its own pods only, and for those only that the pods name.
fn check_node(call: &Call, bound: &[BoundTo], audiences: &[String]) -> Result<(), ApiError> {
    let Some(node) = call.identity.node_name() else { return Ok(()) };
    let refused = |detail: &str| Err(ApiError::forbidden(&call.kind, &call.name, detail));
    let Some(pod) = bound.iter().find(|object| object.what == "pod") else {
        return refused("node requested token not bound to a pod");
    };
    let pod = find(call, "pods", &call.namespace, &pod.name)?;
    if text(&pod, &["spec", "nodeName"]) != node {
        return refused("node requested token bound to a pod scheduled on a different node");
    }
    let named = |audience: &str| {
        let sources = list(&pod, &["spec", "volumes"])
            .iter()
            .flat_map(|volume| list(volume, &["projected", "sources"]));
        sources.map(|source| text(source, &["serviceAccountToken", "audience"])).any(|own| own == audience)
    };
    if let Some(other) = audiences.iter().find(|audience| *audience != tokens::ISSUER && !named(audience)) {
        return refused(&format!(
            "audience {other:?} not found in pod spec volume, {} is not authorized to request tokens for this audience",
            call.identity.name()
        ));
    }
    Ok(())
}
