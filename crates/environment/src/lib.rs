//! Which sources a container needs, and the ordered environment that they give, each variable with its origin.
//!
//! The crate decides; it never reads anything. It works in two steps, so that the kubelet, `coracle env`
//! and admission share one engine:
//!
//! 1. [`required`] says which ConfigMaps, Secrets, Services, env files, pod and node facts a container uses;
//! 2. [`resolve`], given those [`Sources`], answers the ordered [`Environment`], the expanded command and
//!    arguments, the [`Finding`]s, and every [`ResolveError`] in order.
//!
//! [`compose_process_environment`] puts what the runtime and the image add around the result, in the order in
//! which the process sees it. [`record`] holds the serialisable form of all this (`docs/environment-record.md`).
//!
//! Invariants: no input panics; memory is bounded by the limits of [`Options`] whatever a manifest asks for;
//! a value that comes from a Secret is held in a type whose `Debug` prints nothing.

mod container;
mod entry;
mod error;
mod finding;
mod options;
mod paths;
mod process;
pub mod record;
mod required;
mod resolve;
mod secret;
mod shared_text;
mod sources;
mod text;
mod value;

pub use container::{ContainerKind, ContainerView, containers};
pub use entry::{Entry, Environment, Origin, Reference, ReferenceTarget, RuntimeVariable, Shadowed};
pub use error::{
    EnvFileProblem, FieldRefError, ObjectKind, ResolveError, ResolveProblem, Subject, Unavailable,
};
pub use finding::{Finding, FindingCode, Severity, is_service_variable_name};
pub use options::{Gates, Limits, Options, ServiceLinksDefault};
pub use paths::{SubPathError, expand_exec_probe, expand_sub_path};
pub use process::{RuntimeFacts, compose_process_environment};
pub use required::{EnvFileKey, Need, Requirements, required};
pub use resolve::{Argument, Resolution, Resolved, resolve, service_variable_names};
pub use secret::{SecretBytes, SecretText};
pub use shared_text::Text;
pub use sources::{
    Availability, ClusterAddress, ConfigMapSource, EnvFileRefusal, EnvFileSource, ImageConfig, PortSource,
    SecretSource, ServiceSource, Services, Sources,
};
pub use value::{Part, Reveal, State, Value};

/// The annotation on a pod that says who wins in a reference when both a service variable and a declared
/// variable have its name; the value [`SERVICE_VARIABLES_PREFER`] lets service variables win.
pub const SERVICE_VARIABLES_ANNOTATION: &str = "environment.coracle.dev/service-variables";

/// The value of [`SERVICE_VARIABLES_ANNOTATION`] that lets references find service variables first.
pub const SERVICE_VARIABLES_PREFER: &str = "prefer";
