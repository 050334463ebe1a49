//! The value of each parameter, and where it comes from.

use std::collections::{BTreeMap, HashMap, HashSet};

use environment::SecretText;

use crate::expression::Expression;
use crate::finding::Findings;
use crate::limits::MAX_VALUE_BYTES;
use crate::nearest::Neighbours;
use crate::problem::Problems;
use crate::{FindingKind, Parameter, Place, ProblemKind, Randomness, Template};

/// What a template is processed with.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r> {
    /// Values by name, in any order. An empty one counts as given: it replaces a default and keeps a generator idle.
    pub given: &'r [(String, SecretText)],
    /// Whether values for parameters that the template does not have are ignored, with a finding.
    pub ignore_unknown: bool,
    /// Labels besides the template's own; of equal keys these win. No references.
    pub labels: &'r [(String, String)],
    /// The name of the instance; every object gets the label [`crate::INSTANCE_LABEL`] with it.
    pub instance: Option<&'r str>,
    /// Values of generated parameters that are to stay as they are (see [`crate::instance`]).
    pub kept: &'r BTreeMap<String, SecretText>,
    /// Generated parameters that are generated again although a value is kept.
    pub regenerate: &'r [String],
    /// Whether the template is to be stored. Its secret parameters must not have defaults then, and [`crate::check`]
    /// refuses only what no values could mend.
    pub is_stored: bool,
}

/// Nothing kept.
static NOTHING_KEPT: BTreeMap<String, SecretText> = BTreeMap::new();

impl Default for Request<'_> {
    fn default() -> Self {
        Self {
            given: &[],
            ignore_unknown: false,
            labels: &[],
            instance: None,
            kept: &NOTHING_KEPT,
            regenerate: &[],
            is_stored: false,
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueOrigin {
    /// It was given.
    Given,
    /// It is the template's default.
    Default,
    /// It was generated just now.
    Generated,
    /// It was generated before and kept.
    Kept,
    /// There is none: the parameter is empty.
    Empty,
}

impl ValueOrigin {
    /// One word, as the command line shows it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Default => "default",
            Self::Generated => "generated",
            Self::Kept => "kept",
            Self::Empty => "empty",
        }
    }
}

/// The values of all parameters, in the template's order.
pub(crate) struct Values {
    pub(crate) texts: Vec<SecretText>,
    pub(crate) origins: Vec<ValueOrigin>,
    /// Whether there should be another value, so that what follows from this one says nothing.
    pub(crate) is_open: Vec<bool>,
}

/// Decides on every value. Without `random` nothing is generated and nothing is required: the template alone is looked
/// at.
pub(crate) fn resolve(
    template: &Template<'_>,
    request: &Request<'_>,
    mut random: Option<&mut dyn Randomness>,
    problems: &mut Problems,
    findings: &mut Findings,
) -> Values {
    let given = given(template, request, problems, findings);
    let regenerate = regenerate(template, request, problems);
    let last: HashMap<&str, usize> =
        template.parameters.iter().enumerate().map(|(place, each)| (each.name, place)).collect();
    let mut values = Values { texts: Vec::new(), origins: Vec::new(), is_open: Vec::new() };
    for (place, parameter) in template.parameters.iter().enumerate() {
        let mut is_open = false;
        let (text, origin) = if last.get(parameter.name) != Some(&place) {
            // A later one of the same name counts.
            (String::new(), ValueOrigin::Empty)
        } else if random.is_none() && request.is_stored {
            // Whatever its default is, another value can be given.
            is_open = true;
            (String::new(), ValueOrigin::Empty)
        } else if let Some(text) = given.get(parameter.name) {
            ((*text).to_owned(), ValueOrigin::Given)
        } else if let Some(text) = parameter.value {
            (text.to_owned(), ValueOrigin::Default)
        } else if let Some(kept) = kept(parameter, request, &regenerate) {
            (kept.to_owned(), ValueOrigin::Kept)
        } else if parameter.generate.is_some() {
            let text = random.as_deref_mut().and_then(|random| generated(parameter, random, problems));
            is_open = text.is_none();
            (text.unwrap_or_default(), ValueOrigin::Generated)
        } else {
            is_open = random.is_none();
            (String::new(), ValueOrigin::Empty)
        };
        let is_last = last.get(parameter.name) == Some(&place);
        if text.is_empty() && parameter.required && !is_open && is_last {
            is_open = true;
            let kind = ProblemKind::Required { parameter: parameter.name.to_owned() };
            if random.is_some() || origin == ValueOrigin::Given {
                problems.add(kind, || parameter.place.clone());
            }
        }
        let default_size = parameter.value.map_or(0, str::len);
        if text.len().max(default_size) > MAX_VALUE_BYTES {
            let kind =
                ProblemKind::ValueTooLarge { parameter: parameter.name.to_owned(), limit: MAX_VALUE_BYTES };
            problems.add(kind, || parameter.field("value"));
            is_open = true;
        }
        if request.is_stored && parameter.secret && parameter.value.is_some() {
            let kind = ProblemKind::SecretDefault { parameter: parameter.name.to_owned() };
            problems.add(kind, || parameter.field("value"));
        }
        values.texts.push(SecretText::new(if is_open { String::new() } else { text }));
        values.origins.push(origin);
        values.is_open.push(is_open);
    }
    values
}

fn given<'r>(
    template: &Template<'_>,
    request: &Request<'r>,
    problems: &mut Problems,
    findings: &mut Findings,
) -> HashMap<&'r str, &'r str> {
    let known: HashSet<&str> = template.parameters.iter().map(|parameter| parameter.name).collect();
    let mut neighbours = Neighbours::new(known.iter().copied());
    let whole = || Place::new("parameters", manifest::Span::NOWHERE);
    let mut given = HashMap::new();
    let mut repeated = HashSet::new();
    for (name, value) in request.given {
        if !known.contains(name.as_str()) {
            if request.ignore_unknown {
                findings.add(FindingKind::ParameterIgnored { name: name.clone() }, whole);
            } else {
                let nearest = neighbours.nearest(name).map(str::to_owned);
                problems.add(ProblemKind::UnknownParameter { name: name.clone(), nearest }, whole);
            }
        } else if given.insert(name.as_str(), value.expose()).is_some() && repeated.insert(name) {
            problems.add(ProblemKind::GivenTwice { name: name.clone() }, whole);
        }
    }
    given
}

fn regenerate<'r>(
    template: &Template<'_>,
    request: &Request<'r>,
    problems: &mut Problems,
) -> HashSet<&'r str> {
    let generated = template.parameters.iter().filter(|parameter| parameter.generate.is_some());
    let generated: HashSet<&str> = generated.map(|parameter| parameter.name).collect();
    for name in request.regenerate.iter().filter(|name| !generated.contains(name.as_str())) {
        let nearest = Neighbours::new(generated.iter().copied()).nearest(name).map(str::to_owned);
        let place = || Place::new("parameters", manifest::Span::NOWHERE);
        problems.add(ProblemKind::NotGenerated { name: name.clone(), nearest }, place);
    }
    request.regenerate.iter().map(String::as_str).collect()
}

fn kept<'r>(parameter: &Parameter<'_>, request: &Request<'r>, regenerate: &HashSet<&str>) -> Option<&'r str> {
    parameter.generate?;
    let text = request.kept.get(parameter.name)?.expose();
    (!text.is_empty() && !regenerate.contains(parameter.name)).then_some(text)
}

/// A new value; `None` when there is none, which has been said then.
fn generated(
    parameter: &Parameter<'_>,
    random: &mut dyn Randomness,
    problems: &mut Problems,
) -> Option<String> {
    // What is wrong with generator and pattern was found when the template was read.
    let expression = Expression::parse(parameter.from.unwrap_or_default()).ok();
    let expression = expression.filter(|_| parameter.generate == Some("expression"))?;
    match expression.generate(random) {
        Ok(text) => Some(text),
        Err(crate::RandomnessFailed) => {
            let kind = ProblemKind::NoRandomness { parameter: parameter.name.to_owned() };
            problems.add(kind, || parameter.place.clone());
            None
        }
    }
}
