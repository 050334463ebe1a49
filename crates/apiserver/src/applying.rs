//! Server-side apply: a configuration merged onto the newest version, or made a new object where there is none.

use admission::{BadValue, FieldError, FieldErrorKind};
use http::StatusCode;
use manifest::{Limits as ManifestLimits, Notice};
use schema::FieldValidation;
use schema::apply::{ManagedFields, Write as FieldWrite, check};
use serde_json::{Value, json};

use crate::body::{self, Content, set_type};
use crate::gatekeeper::Call;
use crate::kinds::Kind;
use crate::media::{Format, content_type};
use crate::object::{at, name, text};
use crate::responses::{Answer, add_warnings};
use crate::status::ApiError;
use crate::writing::{Candidate, Noted, Part, Write, Written, create_noted, fields, update_noted};
use crate::{field_manager, render, timestamps};

/// The media type of a configuration.
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Whose client-side apply goes over to server-side apply without conflicts.
const KUBECTL: &str = "kubectl";

/// How often an object that comes and goes meanwhile is tried.
const ATTEMPTS: usize = 8;

/// From this size on a configuration is read off the threads that answer requests.
const LARGE: usize = 64 * 1024;

/// Whether a request to patch applies a configuration.
pub(crate) fn is_apply(call: &Call) -> bool {
    content_type(call.request.headers()).as_deref() == Some(APPLY_PATCH)
}

/// `force` with a patch that is no apply.
pub(crate) fn force_forbidden() -> FieldError {
    FieldError {
        kind: FieldErrorKind::Forbidden,
        field: "force".to_owned(),
        bad_value: BadValue::Omitted,
        detail: "may not be specified for non-apply patch".to_owned(),
    }
}

/// Applies the request's body to `part` of an object.
pub(crate) async fn apply_part(
    mut call: Call,
    part: Part,
    format: Format,
    dry_run: bool,
    manager: &str,
) -> Result<Answer, ApiError> {
    let kind = call.kind.clone();
    let (config, warnings) = configuration(&mut call, &kind).await?;
    let force = call.query.is_true("force");
    let write = call.write(manager, dry_run);
    let application = Application { write: &write, part, config: &config, force };
    let (mut written, code) = application.write(&call).await?;
    written.warnings.splice(0..0, warnings);
    let mut answer = render::object(&call.kind, format, &call.query, &written.shown, code)?;
    add_warnings(&mut answer, &written.warnings);
    Ok(answer)
}

/// Applies a scale, an object of the kind `scales`, to the object that it scales.
pub(crate) async fn apply_scale(
    call: &mut Call,
    scales: &Kind,
    dry_run: bool,
    manager: &str,
) -> Result<Written, ApiError> {
    let (scale, warnings) = configuration(call, scales).await?;
    let mut config =
        json!({"apiVersion": call.kind.group_version(), "kind": call.kind.kind(), "metadata": {}});
    for field in ["name", "namespace", "uid", "resourceVersion"] {
        if let Some(told) = at(&scale, &["metadata", field]) {
            config["metadata"][field] = told.clone();
        }
    }
    if let Some(replicas) = at(&scale, &["spec", "replicas"]) {
        config["spec"]["replicas"] = replicas.clone();
    }
    let force = call.query.is_true("force");
    let write = call.write(manager, dry_run);
    let application = Application { write: &write, part: Part::Scale, config: &config, force };
    let (mut written, _) = application.write(call).await?;
    written.warnings.splice(0..0, warnings);
    Ok(written)
}

/// The configuration of a request, an object of `kind`, with its warnings.
async fn configuration(call: &mut Call, kind: &Kind) -> Result<(Value, Vec<String>), ApiError> {
    if call.query.text("fieldManager").is_none() {
        let required = FieldError {
            kind: FieldErrorKind::Required,
            field: "fieldManager".to_owned(),
            bad_value: BadValue::Omitted,
            detail: "is required for apply patch".to_owned(),
        };
        return Err(field_manager::refused(call.verb, vec![required]));
    }
    let validation = body::field_validation(&call.query)?;
    let content = body::read(&call.server, &mut call.request).await?;
    let is_large = content.bytes.len() > LARGE;
    let read = move || read_configuration(&content, validation);
    let (config, warnings) = if is_large { call.server.workshop.run(read).await?? } else { read()? };
    check_configuration(kind, &config)?;
    Ok((config, warnings))
}

/// The tree of a configuration, and what it says twice.
fn read_configuration(
    content: &Content,
    validation: FieldValidation,
) -> Result<(Value, Vec<String>), ApiError> {
    let mut documents = manifest::parse_stream(&content.bytes, &ManifestLimits::default())
        .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
    if documents.is_empty() {
        return Ok((json!({}), Vec::new()));
    }
    let document = documents.swap_remove(0);
    let config = document.root.to_json();
    if !config.is_object() && !config.is_null() {
        return Err(ApiError::bad_request(
            "error decoding YAML: a configuration is an object with apiVersion and kind",
        ));
    }
    let twice: Vec<String> = document
        .notices
        .iter()
        .map(|Notice::DuplicateKey { key, again, .. }| {
            format!("\n  line {}: key {} already set in map", again.start.line, schema::go_quote(key))
        })
        .collect();
    let told = format!("error converting YAML to JSON: yaml: unmarshal errors:{}", twice.concat());
    match validation {
        _ if twice.is_empty() => Ok((config, Vec::new())),
        FieldValidation::Ignore => Ok((config, Vec::new())),
        FieldValidation::Warn => Ok((config, vec![told])),
        FieldValidation::Strict => Err(ApiError::bad_request(format!("error strict decoding YAML: {told}"))),
    }
}

/// `apps/v1, Kind=Deployment`, as Go prints what kind something is.
fn printed_kind(api_version: &str, kind: &str) -> String {
    let separator = if api_version.contains('/') { "" } else { "/" };
    format!("{separator}{api_version}, Kind={kind}")
}

/// What the configuration is called in messages.
fn printed(config: &Value) -> String {
    format!(
        "{}/{}; {}",
        text(config, &["metadata", "namespace"]),
        name(config),
        printed_kind(text(config, &["apiVersion"]), text(config, &["kind"]))
    )
}

fn check_configuration(kind: &Kind, config: &Value) -> Result<(), ApiError> {
    let (api_version, told) = (text(config, &["apiVersion"]), text(config, &["kind"]));
    if api_version != kind.group_version() || told != kind.kind() {
        return Err(ApiError::bad_request(format!(
            "invalid object type: {}",
            printed_kind(api_version, told)
        )));
    }
    if at(config, &["metadata", "managedFields"]).is_some_and(|told| !told.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    check(kind.ty(), config).map_err(|problems| ApiError::Unexplained {
        message: format!("failed to create typed patch object ({}): {problems}", printed(config)),
    })
}

/// A configuration that is to be applied.
struct Application<'a> {
    write: &'a Write<'a>,
    part: Part,
    config: &'a Value,
    force: bool,
}

impl Application<'_> {
    async fn write(&self, call: &Call) -> Result<(Written, StatusCode), ApiError> {
        let mut last = ApiError::stale(self.write.kind, &call.name);
        for _ in 0..ATTEMPTS {
            // Subresources are parts of objects that are there.
            let is_new = self.part == Part::Main && call.server.store.get(&call.key()).is_none();
            let outcome = if is_new {
                self.create(call).await.map(|written| (written, StatusCode::CREATED))
            } else {
                update_noted(self.write, &call.name, self.part, |live| self.onto(live))
                    .await
                    .map(|written| (written, StatusCode::OK))
            };
            last = match outcome {
                // Somebody else was quicker.
                Err(error @ ApiError::AlreadyExists { .. }) if is_new => error,
                Err(error @ ApiError::NotFound { .. }) if !is_new && self.part == Part::Main => error,
                outcome => return outcome,
            };
        }
        Err(last)
    }

    /// What `live` becomes, and who manages it then.
    fn onto(&self, live: &Value) -> Result<(Candidate, Noted), ApiError> {
        let mut live = live.clone();
        let entries = fields::take(&mut live);
        let mut managed = ManagedFields::parse(entries.as_ref()).map_err(|error| ApiError::Unexplained {
            message: format!("failed to decode managed fields: {error}"),
        })?;
        let kind = self.write.kind;
        let applied = {
            let fields = FieldWrite {
                ty: kind.ty(),
                api_version: kind.group_version(),
                versions: &[kind.group_version(), kind.stored_group_version()],
                manager: self.write.manager,
                subresource: self.part.subresource(),
                ignored: fields::ignored(self.write, self.part),
                now: &timestamps::now_text(),
            };
            if self.write.manager == KUBECTL {
                managed.apply_as_kubectl(&fields, &live, self.config, self.force)
            } else {
                managed.apply(&fields, &live, self.config, self.force)
            }
        }
        .map_err(|conflicts| ApiError::ApplyConflict { conflicts })?;
        let decoded =
            schema::convert_unstructured(kind.ty(), &applied, FieldValidation::Ignore).map_err(|error| {
                ApiError::Unexplained {
                    message: format!(
                        "failed to convert new object ({}) to proper version ({}): {error}",
                        printed(&applied),
                        kind.group_version()
                    ),
                }
            })?;
        let mut object = decoded.value;
        set_type(kind, &mut object);
        let keeps_version = !text(self.config, &["metadata", "resourceVersion"]).is_empty();
        Ok((Candidate { object, warnings: Vec::new(), keeps_version }, Some(managed)))
    }

    async fn create(&self, call: &Call) -> Result<Written, ApiError> {
        let kind = self.write.kind;
        let (uid, told) = (text(self.config, &["metadata", "uid"]), name(self.config));
        if !uid.is_empty() {
            return Err(ApiError::conflict(
                kind,
                &call.name,
                format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                ),
            ));
        }
        if !text(self.config, &["metadata", "resourceVersion"]).is_empty() {
            return Err(ApiError::stale(kind, &call.name));
        }
        if told != call.name {
            return Err(ApiError::bad_request(if told.is_empty() {
                "the name of the object (based on URL) was undeterminable: name must be provided".to_owned()
            } else {
                format!("the name of the object ({told}) does not match the name on the URL ({})", call.name)
            }));
        }
        call.demand_create()?;
        let (candidate, noted) = self.onto(&json!({}))?;
        create_noted(self.write, candidate.object, noted).await
    }
}
