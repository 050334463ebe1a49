//! Templates: one file with parameters is a whole application. Parameters, substitution on parsed values, labels,
//! instances; OpenShift's dialect beside the proposal's.
//!
//! ```
//! # use template::{Template, Request, process};
//! let text = "{kind: Template, apiVersion: template.coracle.dev/v1, metadata: {name: t}, parameters: [{name: COUNT, value: '3'}],
//!   objects: [{apiVersion: v1, kind: ReplicationController, metadata: {name: web-$(COUNT)}, spec: {replicas: $((COUNT))}}]}";
//! let documents = manifest::parse_stream(text.as_bytes(), &manifest::Limits::default()).unwrap();
//! let template = Template::read(&documents[0].root, None).unwrap();
//! let mut random = |_: &mut [u8]| Ok(());
//! let processed = process(&template, &Request::default(), &mut random).unwrap();
//! assert_eq!(processed.objects[0].to_json()["spec"]["replicas"], 3);
//! ```
//!
//! **How it is used.**
//!
//! 1. A document becomes a tree: `manifest::parse_stream` for files (and for bodies of requests, so that keys keep their
//!    order), `manifest::Node::from_json` for what a store holds. A tree without a file has no places; everything is
//!    reported with its field path all the same.
//! 2. [`Template::is_one`] says whether it is a template, [`Template::read`] reads it. Its public fields are what
//!    `parameters` commands and forms show.
//! 3. [`process()`] with a [`Request`] and a source of random bytes gives a [`Processed`], or a [`Refusal`] with every
//!    [`Problem`] at once. [`check`] does the same for the template alone: for `lint`, and for what is to be stored
//!    ([`Request::is_stored`]).
//! 4. [`Processed::objects`] are trees with the places of the template, so that what is found in an object later can be
//!    shown in the file. [`Processed::to_list`] and [`Processed::to_template`] are the two forms of an answer;
//!    `manifest::to_yaml`, `manifest::to_json_text` and `serde` write them, keys in order.
//! 5. [`instance`] keeps generated values from one `apply` to the next.
//! 6. [`export`] makes a template of objects that live in a cluster.
//!
//! **Secrets.** The value of a `secret: true` parameter is in [`Processed::objects`] and, typed, in
//! [`ResolvedParameter::value`], and nowhere else: not in the message, in labels that are shown, in problems, in
//! findings, in [`Processed::to_template`]'s parameters. [`Processed::redact`] masks it in other texts;
//! [`without_secret_values`] removes defaults. No problem and no finding holds any value.
//!
//! **Invariants.** The same input, request and random bytes give the same answer. A value is put into the parsed tree and
//! never read again: it cannot change structure, and `$((P))` gives scalars only. Time and memory are linear in template
//! and output; the size of the output is computed before any of it is built. No input panics.
//!
//! | file | decides |
//! |---|---|
//! | `read.rs`, `dialect.rs`, `model.rs` | what a template says, and in which language |
//! | `reference.rs`, `scalar.rs` | what a reference is, and what a text without quotes becomes |
//! | `values.rs`, `expression.rs` | the value of each parameter |
//! | `survey.rs`, `site.rs`, `ambient.rs`, `nearest.rs` | what is meant by whom: unknown, mistyped and ambiguous references |
//! | `substitution.rs`, `process.rs` | the result |
//! | `labels.rs`, `selection.rs`, `kinds.rs`, `openshift.rs` | labels and selectors; what OpenShift does besides |
//! | `instance.rs`, `export.rs` | instances; the way back |
//!
//! Pure: no IO, no clock, no logging; randomness is an argument.

mod ambient;
mod dialect;
pub mod export;
mod expression;
mod finding;
pub mod instance;
mod keys;
mod kinds;
mod labels;
pub mod limits;
mod model;
mod nearest;
mod openshift;
mod place;
mod problem;
mod process;
mod read;
mod reference;
mod result;
mod scalar;
mod selection;
mod site;
mod substitution;
mod survey;
mod values;

pub use expression::{Expression, ExpressionError, Randomness, RandomnessFailed};
pub use finding::{Finding, FindingKind};
pub use instance::INSTANCE_LABEL;
pub use keys::check_keys;
pub use model::{API_VERSION, Dialect, OPENSHIFT_API_VERSION, Parameter, ParameterType, Template};
pub use place::Place;
pub use problem::{Problem, ProblemKind, Refusal, Resolver};
pub use process::{check, process};
pub use result::{Processed, ResolvedParameter, without_secret_values};
pub use values::{Request, ValueOrigin};

#[cfg(test)]
mod tests;
