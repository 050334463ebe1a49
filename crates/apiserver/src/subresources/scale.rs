//! `scale`: how many replicas an object wants and has. A write changes that one number, by all the rules of the object itself.

use http::StatusCode;
use serde_json::{Value, json};

use crate::applying::{apply_scale, is_apply};
use crate::gatekeeper::Call;
use crate::kinds::Kind;
use crate::media::{Format, object_format};
use crate::object::{at, map_mut, set_metadata, text, tree};
use crate::patching::{self, Patch};
use crate::render::{self, Shown};
use crate::request::Verb;
use crate::responses::{Answer, add_warnings};
use crate::status::ApiError;
use crate::strategy::Scalable;
use crate::writing::{Candidate, Part, Written, update_object};
use crate::{body, field_manager};

/// What a client wants to be written.
enum Wanted {
    Whole(Value),
    Patched(Patch),
}

pub(super) async fn run(call: Call) -> Result<Answer, ApiError> {
    let scalable = call.kind.strategy().scalable().ok_or(ApiError::NoSuchPath)?;
    match call.verb {
        Verb::Get => show(&call, &scalable),
        Verb::Update | Verb::Patch => write(call, scalable).await,
        Verb::Create | Verb::List | Verb::Watch | Verb::Delete | Verb::DeleteCollection => {
            Err(ApiError::MethodNotAllowed)
        }
    }
}

fn show(call: &Call, scalable: &Scalable) -> Result<Answer, ApiError> {
    let scales = call.server.kinds.scales();
    let format = object_format(call.request.headers())?;
    let stored =
        call.server.store.get(&call.key()).ok_or_else(|| ApiError::not_found(&call.kind, &call.name))?;
    let scale = scale_of(&tree(&stored), scalable);
    render::object(scales, format, &call.query, &Shown::Tree(scale), StatusCode::OK)
}

async fn write(mut call: Call, scalable: Scalable) -> Result<Answer, ApiError> {
    let scales = call.server.kinds.scales().clone();
    let format = object_format(call.request.headers())?;
    let dry_run = call.dry_run()?;
    let manager = field_manager::named(&call)?;
    if call.verb == Verb::Patch && is_apply(&call) {
        let written = apply_scale(&mut call, &scales, dry_run, &manager).await?;
        return answer(&call, &scales, format, &scalable, written, Vec::new());
    }
    let validation = body::field_validation(&call.query)?;
    let content = body::read(&call.server, &mut call.request).await?;
    let (wanted, warnings) = if call.verb == Verb::Patch {
        (Wanted::Patched(Patch::parse(&content, call.server.limits())?), Vec::new())
    } else {
        let decoded = body::decode(&scales, &content, &call.query)?;
        (Wanted::Whole(decoded.value), decoded.warnings)
    };
    let make = |live: &Value| {
        let before = scale_of(live, &scalable);
        let (scale, warnings, keeps_version) = match &wanted {
            Wanted::Whole(scale) => (scale.clone(), Vec::new(), true),
            Wanted::Patched(patch) => {
                let limits = call.server.limits();
                let made = patching::apply(&scales, &before, patch, validation, limits)?;
                (made.object, made.warnings, made.keeps_version)
            }
        };
        let object = scaled(&scales, live, &scale, &call.name)?;
        Ok(Candidate { object, warnings, keeps_version })
    };
    let target = call.write(&manager, dry_run);
    let written = update_object(&target, &call.name, Part::Scale, make).await?;
    answer(&call, &scales, format, &scalable, written, warnings)
}

fn answer(
    call: &Call,
    scales: &Kind,
    format: Format,
    scalable: &Scalable,
    written: Written,
    mut warnings: Vec<String>,
) -> Result<Answer, ApiError> {
    warnings.extend(written.warnings);
    warnings.extend(call.kind.strategy().notice(call.verb).map(str::to_owned));
    let scale = scale_of(&written.shown.to_tree(), scalable);
    let mut answer = render::object(scales, format, &call.query, &Shown::Tree(scale), StatusCode::OK)?;
    add_warnings(&mut answer, &warnings);
    Ok(answer)
}

/// What an object's scale is.
fn scale_of(object: &Value, scalable: &Scalable) -> Value {
    let metadata: serde_json::Map<String, Value> =
        ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"]
            .into_iter()
            .filter_map(|name| {
                Some((
                    name.to_owned(),
                    at(object, &["metadata", name]).filter(|value| !value.is_null())?.clone(),
                ))
            })
            .collect();
    let count = |part: &str| at(object, &[part, "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    let mut scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {},
        "status": {"replicas": count("status")},
    });
    if count("spec") != 0 {
        scale["spec"]["replicas"] = count("spec").into();
    }
    let selector = at(object, &["spec", "selector"]).map(scalable.selector_text).unwrap_or_default();
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// The object with the number of replicas that a scale wants.
fn scaled(scales: &Kind, live: &Value, scale: &Value, name: &str) -> Result<Value, ApiError> {
    let told = crate::object::name(scale);
    if !told.is_empty() && told != name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({told}) does not match the name on the URL ({name})"
        )));
    }
    let replicas = at(scale, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    if replicas < 0 {
        let errors = admission::FieldErrors(vec![admission::FieldError {
            kind: admission::FieldErrorKind::Invalid,
            field: "spec.replicas".to_owned(),
            bad_value: admission::BadValue::Json(json!(replicas)),
            detail: "must be greater than or equal to 0".to_owned(),
        }]);
        return Err(ApiError::invalid(scales, name, errors));
    }
    let mut object = live.clone();
    map_mut(&mut object, "spec").insert("replicas".to_owned(), json!(replicas));
    let version = text(scale, &["metadata", "resourceVersion"]);
    if !version.is_empty() {
        set_metadata(&mut object, "resourceVersion", Some(json!(version)));
    }
    let uid = text(scale, &["metadata", "uid"]);
    if !uid.is_empty() {
        set_metadata(&mut object, "uid", Some(json!(uid)));
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::scale_of;
    use crate::selector::selector_text;
    use crate::strategy::Scalable;

    #[test]
    fn a_scale_shows_what_is_wanted_what_is_there_and_who_is_counted() {
        let object = json!({
            "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"x": "y"}},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}},
            "status": {"replicas": 2}
        });
        assert_eq!(
            scale_of(&object, &Scalable { selector_text }),
            json!({
                "kind": "Scale", "apiVersion": "autoscaling/v1",
                "metadata": {"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7"},
                "spec": {}, "status": {"replicas": 2, "selector": "a=b"}
            })
        );
    }
}
