//! Templates among the objects of a command's input become the objects that they process to, each value with the place
//! where its template has it.

use ::template::{Processed, Template};
use environment::{SecretText, Severity};

use super::arguments::ValueArgs;
use super::report::Reporter;
use super::source::is_template;
use super::values::{self, Given};
use crate::failure::{Failure, INPUT};
use crate::input::Input;

/// Stands for what is not shown.
const MASK: &str = "****";

/// What is shorter would hide half of any text.
const SHORTEST: usize = 3;

/// Input without templates.
pub(crate) struct Expanded {
    /// The objects.
    pub(crate) input: Input,
    /// What the templates say to people, in order.
    pub(crate) messages: Vec<String>,
    /// What their secret parameters are.
    pub(crate) redactor: Redactor,
}

/// Takes the values of secret parameters out of texts that come from somewhere else.
#[derive(Clone, Default)]
pub(crate) struct Redactor(Vec<SecretText>);

impl Redactor {
    fn add(&mut self, processed: &Processed) {
        let secrets = processed.parameters.iter().filter(|parameter| parameter.secret);
        let values = secrets.map(|secret| secret.value.expose()).filter(|value| value.len() >= SHORTEST);
        self.0.extend(values.flat_map(forms).map(SecretText::new));
        // The longest first, so that no part of one is left.
        self.0.sort_by_key(|form| std::cmp::Reverse(form.expose().len()));
    }

    /// `text` without the values: as they are, and as JSON and tables write them.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, form| {
            if text.contains(form.expose()) { text.replace(form.expose(), MASK) } else { text }
        })
    }
}

/// A text, and its forms in JSON and in tables where they differ.
fn forms(text: &str) -> Vec<String> {
    let json = serde_json::Value::from(text).to_string();
    let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(&json);
    let mut forms = vec![
        text.to_owned(),
        inner.to_owned(),
        text.escape_debug().to_string(),
        text.escape_default().to_string(),
    ];
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// Processes every template of the input. With `names_instances` each is an instance of its own name, if none is given.
///
/// # Errors
///
/// What is wrong with values and templates, which has been shown then; values without any template.
pub(crate) fn expand(mut input: Input, args: &ValueArgs, names_instances: bool) -> Result<Expanded, Failure> {
    let mut given = values::of_flags(args, &[])?;
    if !input.objects.iter().any(is_template) {
        let wants_template = !given.values.is_empty() || !given.labels.is_empty() || args.instance.is_some();
        if wants_template {
            return Err(Failure::text(INPUT, "there is no template in the input that could take values or labels")
                .place(input.files.first().map(|file| file.name.clone()).unwrap_or_default())
                .hint("a template has kind Template and apiVersion template.coracle.dev/v1, template.openshift.io/v1 or v1"));
        }
        return Ok(Expanded { input, messages: Vec::new(), redactor: Redactor::default() });
    }
    let mut known: Vec<String> = Vec::new();
    for object in input.objects.iter().filter(|object| is_template(object)) {
        let template = ::template::check_keys(&object.document.root, &object.document.notices)
            .and_then(|()| Template::read(&object.document.root, args.dialect.map(Into::into)))
            .map_err(|refusal| Reporter::new(&input, object).refusal(&refusal))?;
        values::add_environment(&mut given, args, &template, |name| std::env::var_os(name))?;
        values::ask(&mut given, args, &template)?;
        known.extend(template.parameters.iter().map(|parameter| parameter.name.to_owned()));
    }
    let (mut messages, mut redactor, mut replaced) = (Vec::new(), Redactor::default(), Vec::new());
    for (index, object) in input.objects.iter().enumerate().filter(|(_, object)| is_template(object)) {
        let reporter = Reporter::new(&input, object);
        let template = Template::read(&object.document.root, args.dialect.map(Into::into))
            .map_err(|refusal| reporter.refusal(&refusal))?;
        // Of several templates each takes what is its own; what is nobody's is told with the first.
        let is_meant = |name: &String| {
            template.parameter(name).is_some() || (replaced.is_empty() && !known.contains(name))
        };
        let own = given.values.iter().filter(|(name, _)| is_meant(name)).cloned().collect();
        let own = Given { values: own, labels: given.labels.clone() };
        let mut request = own.request(args);
        if names_instances && request.instance.is_none() && !template.name.is_empty() {
            let is_name = ::template::instance::check_instance_name(template.name).is_ok();
            request.instance = Some(template.name).filter(|_| is_name);
        }
        let result = ::template::process(&template, &request, &mut super::random_bytes)
            .map_err(|refusal| reporter.refusal(&refusal))?;
        reporter.findings(&result.findings, Severity::Warning);
        messages.extend(result.message.clone());
        redactor.add(&result);
        replaced.push((index, result.objects));
    }
    for (index, objects) in replaced.into_iter().rev() {
        input.replace(index, objects);
    }
    Ok(Expanded { input, messages, redactor })
}
