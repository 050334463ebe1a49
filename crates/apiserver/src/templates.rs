//! Processing of templates: `processedtemplates` takes a whole template, `templates/NAME/processed` the values for a
//! stored one. Nothing is created; the values of secret parameters are in the returned objects only.

use admission::{template_dialect, template_errors};
use environment::{SecretText, Severity};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use manifest::{Document, Entry, Limits as ManifestLimits, Node};
use rand::TryRng as _;
use schema::{Decoded, FieldValidation};
use serde_json::Value;
use store::Object;
use template::{Dialect, ProblemKind, RandomnessFailed, Refusal, Request, Template};

use crate::body;
use crate::gatekeeper::Call;
use crate::kinds::Kind;
use crate::media::{self, MediaRange, accepted};
use crate::request::Verb;
use crate::responses::{Answer, JSON, add_warnings, answer, whole};
use crate::status::ApiError;

const YAML: &str = "application/yaml";

/// What the answer shall be: `?output=list` and how it is written.
#[derive(Clone, Copy)]
struct Form {
    is_list: bool,
    notation: Notation,
}

#[derive(Clone, Copy)]
enum Notation {
    Json,
    /// `?pretty=true`: the same text as from `coracle template process -o json`.
    PrettyJson,
    Yaml,
}

impl Form {
    fn of(call: &Call) -> Result<Form, ApiError> {
        let is_list = match call.query.text("output") {
            None | Some("template") => false,
            Some("list") => true,
            Some(other) => {
                return Err(ApiError::bad_request(format!(
                    "output: Unsupported value: \"{}\": supported values: \"list\", \"template\"",
                    other.escape_debug()
                )));
            }
        };
        let ranges = accepted(call.request.headers());
        let best =
            ranges.iter().filter(|range| range.parameter("as").is_none()).find_map(MediaRange::notation);
        let notation = match best {
            Some(media::Notation::Yaml) => Notation::Yaml,
            _ if call.query.is_true("pretty") => Notation::PrettyJson,
            _ => Notation::Json,
        };
        Ok(Form { is_list, notation })
    }
}

impl Notation {
    fn write(self, node: &Node) -> String {
        match self {
            Notation::Json => serde_json::to_string(node).unwrap_or_default(),
            Notation::PrettyJson => manifest::to_json_text(node),
            Notation::Yaml => manifest::to_yaml(node),
        }
    }

    fn media_type(self) -> &'static str {
        match self {
            Notation::Json | Notation::PrettyJson => JSON,
            Notation::Yaml => YAML,
        }
    }
}

/// A template and what it is processed with.
struct Task {
    root: Node,
    dialect: Option<Dialect>,
    given: Vec<(String, SecretText)>,
    warnings: Vec<String>,
}

/// `POST .../processedtemplates`: a whole template.
pub(crate) async fn process_whole(mut call: Call) -> Result<Answer, ApiError> {
    if call.verb != Verb::Create || !call.name.is_empty() {
        return Err(ApiError::MethodNotAllowed);
    }
    let form = Form::of(&call)?;
    let content = body::read(&call.server, &mut call.request).await?;
    let validation = body::field_validation(&call.query)?;
    let kind = call.kind.clone();
    process(&call, form, move || whole_task(&kind, &content, validation)).await
}

fn whole_task(kind: &Kind, content: &body::Content, validation: FieldValidation) -> Result<Task, ApiError> {
    let Document { root, notices } = document(content)?;
    template::check_keys(&root, &notices).map_err(|refusal| refuse(kind, &root, &refusal))?;
    let mut warnings = Vec::new();
    // What is wrong otherwise is told by the engine, all at once; unknown fields are none of its business.
    match schema::decode_value(kind.ty(), &without_objects(&root), validation) {
        Ok(decoded) => warnings.extend(decoded.warnings),
        Err(error @ schema::DecodeError::Strict { .. }) => {
            return Err(ApiError::bad_request(format!(
                "Template in version \"{}\" cannot be handled as a Template: {error}",
                kind.resource().version
            )));
        }
        Err(schema::DecodeError::Syntax { .. } | schema::DecodeError::Mismatch { .. }) => {}
    }
    let dialect = template_dialect(
        &root
            .get("metadata")
            .map_or(Value::Null, |metadata| serde_json::json!({"metadata": metadata.to_json()})),
    );
    Ok(Task { root, dialect, given: Vec::new(), warnings })
}

/// The template with an empty object for each of its objects: the type `Template` knows no field of theirs, and they are most of
/// a template, so to walk them would be most of the work for no word.
fn without_objects(root: &Node) -> Value {
    let fields = root.entries().iter().map(|entry| {
        let items = entry.value.items();
        let is_list = entry.key == "objects" && !items.is_empty();
        let value = if is_list {
            Value::Array(items.iter().map(|_| Value::Object(serde_json::Map::new())).collect())
        } else {
            entry.value.to_json()
        };
        (entry.key.clone(), value)
    });
    Value::Object(fields.collect())
}

/// `POST .../templates/NAME/processed`: values for a stored template.
pub(crate) async fn process_stored(mut call: Call) -> Result<Answer, ApiError> {
    if call.verb != Verb::Create {
        return Err(ApiError::MethodNotAllowed);
    }
    let form = Form::of(&call)?;
    let content = body::read(&call.server, &mut call.request).await?;
    let (kind, query, name) = (call.kind.clone(), call.query.clone(), call.name.clone());
    let (server, key) = (call.server.clone(), call.key());
    process(&call, form, move || {
        let decoded = body::decode_parameters(&kind, &content, &query)?;
        let stored = server.store.get(&key).ok_or_else(|| ApiError::not_found(&kind, &name))?;
        stored_task(&kind, &stored, decoded)
    })
    .await
}

fn stored_task(kind: &Kind, stored: &Object, decoded: Decoded) -> Result<Task, ApiError> {
    let bytes = kind.shown_bytes(stored.value());
    let dialect = template_dialect(&crate::object::tree(stored));
    let mut root = parse(&bytes)?.root;
    forget_storage(&mut root);
    let values = decoded.value.get("parameters").and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let given =
        values.iter().map(|each| (text(each, "name"), SecretText::new(text(each, "value")))).collect();
    Ok(Task { root, dialect, given, warnings: decoded.warnings })
}

/// The one document of a body, keys in their order.
fn document(content: &body::Content) -> Result<Document, ApiError> {
    match content.media_type.as_deref() {
        None | Some(JSON | YAML) => parse(&content.bytes),
        Some(_) => Err(ApiError::UnsupportedMediaType { accepted: vec![JSON.to_owned(), YAML.to_owned()] }),
    }
}

fn parse(bytes: &[u8]) -> Result<Document, ApiError> {
    let documents = manifest::parse_stream(bytes, &ManifestLimits::default())
        .map_err(|error| ApiError::bad_request(format!("the template cannot be read: {error}")))?;
    let mut documents = documents.into_iter().filter(|document| !document.root.is_null());
    match (documents.next(), documents.next()) {
        (Some(document), None) => Ok(document),
        (None, _) => Err(ApiError::bad_request("the body is empty: send a Template")),
        (Some(_), Some(_)) => {
            Err(ApiError::bad_request("the body holds several documents: send one Template"))
        }
    }
}

/// Takes out what only says how and when a template was stored.
fn forget_storage(root: &mut Node) {
    const STORAGE: [&str; 6] =
        ["resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"];
    let Some(metadata) = root.get_mut("metadata") else { return };
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Node::entries_mut) {
        annotations.retain(|entry| entry.key != "kubectl.kubernetes.io/last-applied-configuration");
    }
    if let Some(entries) = metadata.entries_mut() {
        let is_empty = |entry: &Entry| entry.key == "annotations" && entry.value.entries().is_empty();
        entries.retain(|entry| !is_empty(entry) && !STORAGE.contains(&entry.key.as_str()));
    }
}

/// Reads and processes in the workshop: a large template is work for milliseconds, from its first byte on.
async fn process(
    call: &Call,
    form: Form,
    task: impl FnOnce() -> Result<Task, ApiError> + Send + 'static,
) -> Result<Answer, ApiError> {
    let kind = call.kind.clone();
    let (text, warnings) = call.server.workshop.run(move || processed(&kind, form, task()?)).await??;
    let mut response = answer(StatusCode::CREATED, JSON, whole(text));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(form.notation.media_type()));
    add_warnings(&mut response, &warnings);
    Ok(response)
}

fn processed(kind: &Kind, form: Form, task: Task) -> Result<(String, Vec<String>), ApiError> {
    let Task { root, dialect, given, mut warnings } = task;
    let refused = |refusal: &Refusal| refuse(kind, &root, refusal);
    let template = Template::read(&root, dialect).map_err(|refusal| refused(&refusal))?;
    let request = Request { given: &given, ..Request::default() };
    let mut random =
        |bytes: &mut [u8]| rand::rngs::SysRng.try_fill_bytes(bytes).map_err(|_| RandomnessFailed);
    let processed =
        template::process(&template, &request, &mut random).map_err(|refusal| refused(&refusal))?;
    let told = processed.findings.iter().filter(|finding| finding.severity() >= Severity::Warning);
    warnings.extend(told.map(ToString::to_string));
    let node = if form.is_list { processed.to_list() } else { processed.to_template(&template) };
    Ok((form.notation.write(&node), warnings))
}

/// A result that is only too large is an entity that is too large; anything else is an invalid template.
pub(crate) fn refuse(kind: &Kind, root: &Node, refusal: &Refusal) -> ApiError {
    if let [problem] = refusal.problems.as_slice()
        && let ProblemKind::OutputTooLarge { size, limit } = problem.kind
    {
        return ApiError::ResultTooLarge { size, limit };
    }
    let name = root.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Node::as_str);
    ApiError::invalid(kind, name.unwrap_or_default(), template_errors(refusal))
}
