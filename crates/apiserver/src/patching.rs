//! The three patch formats, with their limits.

use json_patch::PatchOperation;
use schema::FieldValidation;
use serde_json::Value;

use crate::applying::APPLY_PATCH;
use crate::body::{Content, set_type};
use crate::field_manager;
use crate::kinds::Kind;
use crate::limits::Limits;
use crate::status::ApiError;
use crate::writing::Candidate;
use admission::{BadValue, FieldError, FieldErrorKind, FieldErrors};

/// A parsed patch.
#[derive(Clone, Debug)]
pub(crate) enum Patch {
    Json(Vec<PatchOperation>),
    Merge(Value),
    Strategic(Value),
}

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

impl Patch {
    /// Reads a patch by its media type.
    pub(crate) fn parse(content: &Content, limits: &Limits) -> Result<Patch, ApiError> {
        let tree = || {
            serde_json::from_slice::<Value>(&content.bytes)
                .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))
        };
        let object = || {
            tree().and_then(|value| {
                if value.is_object() {
                    Ok(value)
                } else {
                    Err(ApiError::bad_request("error decoding patch: the patch is no JSON object"))
                }
            })
        };
        match content.media_type.as_deref() {
            Some(JSON_PATCH) => {
                let value = tree()?;
                let count = value.as_array().map_or(0, Vec::len);
                if count > limits.patch_operations {
                    return Err(ApiError::PatchTooLarge {
                        message: format!(
                            "The allowed maximum operations in a JSON patch is {}, got {count}",
                            limits.patch_operations
                        ),
                    });
                }
                serde_json::from_value(value)
                    .map(Patch::Json)
                    .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))
            }
            Some(MERGE_PATCH) => object().map(Patch::Merge),
            Some(STRATEGIC_PATCH) => object().map(Patch::Strategic),
            _ => Err(ApiError::UnsupportedMediaType {
                accepted: [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH].map(str::to_owned).to_vec(),
            }),
        }
    }

    /// As Go prints it in messages.
    fn printed(&self) -> String {
        match self {
            Patch::Json(operations) => {
                serde_json::to_value(operations).map(|value| value.to_string()).unwrap_or_default()
            }
            Patch::Merge(value) | Patch::Strategic(value) => schema::go_print(value),
        }
    }
}

/// What `live` becomes.
pub(crate) fn apply(
    kind: &Kind,
    live: &Value,
    patch: &Patch,
    validation: FieldValidation,
    limits: &Limits,
) -> Result<Candidate, ApiError> {
    let patched = match patch {
        Patch::Json(operations) => apply_operations(kind, live, operations, limits)?,
        Patch::Merge(merge) => {
            let mut patched = live.clone();
            json_patch::merge(&mut patched, merge);
            patched
        }
        Patch::Strategic(merge) => schema::strategic_merge(kind.ty(), live, merge)
            .map_err(|error| ApiError::Internal { message: error.to_string() })?,
    };
    if patched.get("kind") != live.get("kind") || patched.get("apiVersion") != live.get("apiVersion") {
        return Err(ApiError::bad_request("the patch changes apiVersion or kind of the object"));
    }
    let decoded =
        schema::convert_unstructured(kind.ty(), &patched, validation).map_err(|error| ApiError::Invalid {
            group: String::new(),
            kind: String::new(),
            name: String::new(),
            errors: FieldErrors(vec![FieldError {
                kind: FieldErrorKind::Invalid,
                field: "patch".to_owned(),
                bad_value: BadValue::Json(Value::String(patch.printed())),
                detail: error.to_string(),
            }]),
        })?;
    let mut object = decoded.value;
    set_type(kind, &mut object);
    field_manager::keep_reset(&patched, &mut object);
    // Only a version that the patch itself names is a demand.
    let keeps_version = match patch {
        Patch::Json(_) => {
            object.pointer("/metadata/resourceVersion") != live.pointer("/metadata/resourceVersion")
        }
        Patch::Merge(merge) | Patch::Strategic(merge) => merge.pointer("/metadata/resourceVersion").is_some(),
    };
    Ok(Candidate { object, warnings: decoded.warnings, keeps_version })
}

/// Applies operation by operation, so that what copies make is known before they are made.
fn apply_operations(
    kind: &Kind,
    live: &Value,
    operations: &[PatchOperation],
    limits: &Limits,
) -> Result<Value, ApiError> {
    let refused = |detail: String| ApiError::Invalid {
        group: kind.group().to_owned(),
        kind: kind.kind().to_owned(),
        name: crate::object::name(live).to_owned(),
        errors: FieldErrors(vec![FieldError {
            kind: FieldErrorKind::Invalid,
            field: "patch".to_owned(),
            bad_value: BadValue::Omitted,
            detail,
        }]),
    };
    let mut patched = live.clone();
    let mut copied = 0;
    for operation in operations {
        if let PatchOperation::Copy(copy) = operation
            && let Some(source) = patched.pointer(copy.from.as_str())
        {
            copied += source.to_string().len();
            if copied > limits.patch_copies {
                return Err(refused(format!(
                    "unable to apply the patch: the copies of it make more than {} bytes",
                    limits.patch_copies
                )));
            }
        }
        // "Only if it is not there": what is absent counts as null.
        if let PatchOperation::Test(test) = operation
            && test.value.is_null()
            && patched.pointer(test.path.as_str()).is_none()
        {
            continue;
        }
        json_patch::patch(&mut patched, std::slice::from_ref(operation))
            .map_err(|error| refused(format!("unable to apply the patch: {error}")))?;
    }
    Ok(patched)
}
