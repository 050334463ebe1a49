//! Tables of the rules, the vectors, hostile templates, and properties.

mod documents;
mod examples;
mod export;
mod hostile;
mod instances;
mod labels;
mod properties;
mod references;
mod rules;
mod vectors;

use std::collections::BTreeMap;

use environment::SecretText;
use manifest::Node;
use serde_json::{Value, json};

use crate::{Dialect, Finding, Processed, RandomnessFailed, Refusal, Request, Template};

/// A template and what it is given.
struct Run {
    text: String,
    root: Node,
    dialect: Option<Dialect>,
    given: Vec<(String, SecretText)>,
    labels: Vec<(String, String)>,
    kept: BTreeMap<String, SecretText>,
    regenerate: Vec<String>,
    instance: Option<&'static str>,
    ignore_unknown: bool,
    is_stored: bool,
}

impl Run {
    fn of_node(text: &str, root: Node) -> Self {
        Self {
            text: text.to_owned(),
            root,
            dialect: None,
            given: Vec::new(),
            labels: Vec::new(),
            kept: BTreeMap::new(),
            regenerate: Vec::new(),
            instance: None,
            ignore_unknown: false,
            is_stored: false,
        }
    }

    fn of_json(template: &Value) -> Self {
        Self::of_node("", Node::from_json(template))
    }

    fn of_yaml(text: &str) -> Self {
        let documents = manifest::parse_stream(text.as_bytes(), &manifest::Limits::default()).expect(text);
        Self::of_node(text, documents.into_iter().next().expect("a document").root)
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.given.push((name.to_owned(), SecretText::new(value)));
        self
    }

    fn request(&self) -> Request<'_> {
        Request {
            given: &self.given,
            labels: &self.labels,
            kept: &self.kept,
            regenerate: &self.regenerate,
            instance: self.instance,
            ignore_unknown: self.ignore_unknown,
            is_stored: self.is_stored,
        }
    }

    fn process(&self) -> Result<Processed, Refusal> {
        let template = Template::read(&self.root, self.dialect)?;
        crate::process(&template, &self.request(), &mut counting())
    }

    fn check(&self) -> Result<Vec<Finding>, Refusal> {
        let template = Template::read(&self.root, self.dialect)?;
        crate::check(&template, &self.request())
    }

    fn to_template(&self, processed: &Processed) -> Node {
        processed.to_template(&Template::read(&self.root, self.dialect).expect("it was processed"))
    }
}

fn processed(run: &Run) -> Processed {
    run.process().unwrap_or_else(|refusal| panic!("{refusal}\n{}", run.text))
}

fn refusal(run: &Run) -> Refusal {
    match run.process() {
        Ok(processed) => panic!("processed: {:?}\n{}", processed.objects, run.text),
        Err(refusal) => refusal,
    }
}

/// `line:column code parameter` of each problem.
fn problems(run: &Run) -> Vec<String> {
    let place =
        |place: &crate::Place| place.span.map_or_else(|| place.field.clone(), |span| span.start.to_string());
    refusal(run)
        .problems
        .iter()
        .map(|problem| {
            let line = format!(
                "{} {} {}",
                place(&problem.place),
                problem.code(),
                problem.parameter().unwrap_or("-")
            );
            line.trim_end_matches(" -").to_owned()
        })
        .collect()
}

/// `field code` of each finding.
fn findings(list: &[Finding]) -> Vec<String> {
    list.iter().map(|finding| format!("{} {}", finding.place.field, finding.code())).collect()
}

/// A source that gives every byte in turn, so that every character comes.
fn counting() -> impl FnMut(&mut [u8]) -> Result<(), RandomnessFailed> {
    let mut next = 0_u8;
    move |bytes| {
        for byte in bytes {
            *byte = next;
            next = next.wrapping_add(1);
        }
        Ok(())
    }
}

/// How many cases a property is tried with: at least so many, more with `PROPTEST_CASES`.
fn cases(least: u32) -> u32 {
    proptest::test_runner::Config::default().cases.max(least)
}

/// A template of one ConfigMap with these data.
fn config_map(parameters: Value, data: Value) -> Value {
    json!({
        "kind": "Template", "apiVersion": crate::API_VERSION, "parameters": parameters,
        "objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}],
    })
}

/// What the data of that ConfigMap become.
fn data(run: &Run) -> Value {
    processed(run).objects[0].to_json()["data"].clone()
}
