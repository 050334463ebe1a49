//! Defaulting and validation of objects, one file a kind: every error at once, each with its field path, in
//! upstream's words and order; warnings besides.
//!
//! Everything works on trees that went through [`schema::decode`]. The caller assigns names, uid, creation time,
//! cluster addresses and node ports; what it looked up for warnings travels in the [`AdmissionRequest`].

mod config_map;
mod containers;
mod defaults;
mod env;
mod errors;
mod event;
mod field_support;
mod findings;
mod hooks;
mod kind_rules;
mod metadata;
mod namespace;
mod node;
mod path;
mod pod;
mod pod_spec;
mod request;
mod scalars;
mod secret;
mod selector;
mod service;
mod template;
mod tree;
mod workload;

pub use errors::{BadValue, Cause, FieldError, FieldErrorKind, FieldErrors};
pub use field_support::{
    FIELD_RULES, FieldRule, FieldSupport, FieldValues, canonical_path, field_warnings, rules_of,
};
pub use request::{
    AdmissionRequest, EnvFileMounts, NeededSources, SourceLookup, SourceObjects, Warning, default_pod_spec,
    needed_sources, prepare_create, prepare_ephemeral_containers_update, prepare_status_update,
    prepare_update,
};
pub use template::{template_dialect, template_errors};
