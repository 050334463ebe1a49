//! Defaulting and validation of objects, one file a kind: every error at once, each with its field path, in
//! upstream's words and order; warnings besides.
//!
//! Everything works on trees that went through [`schema::decode`]. The caller assigns names, uid, creation time,
//! cluster addresses and node ports; what it looked up for warnings travels in the [`AdmissionRequest`].

mod amounts;
mod config_map;
mod containers;
mod data_values;
mod defaults;
mod endpoint_slice;
mod endpoints;
mod env;
mod errors;
mod event;
mod field_support;
mod findings;
mod hooks;
mod ingress;
mod ingress_class;
mod ip_family;
mod kind_rules;
mod kinds;
mod limit_range;
mod metadata;
mod namespace;
mod network_policy;
mod node;
mod path;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_disruption_budget;
mod pod_spec;
mod prepare;
mod priority_class;
mod rbac;
mod request;
mod resource_quota;
mod runtime_class;
mod scalars;
mod secret;
mod selector;
mod service;
mod storage_class;
mod template;
mod tree;
mod workload;

pub use amounts::Amounts;
pub use errors::{BadValue, Cause, FieldError, FieldErrorKind, FieldErrors};
pub use field_support::{
    FIELD_RULES, FieldRule, FieldSupport, FieldValues, canonical_path, field_warnings, rules_of,
};
pub use ip_family::{ClusterFamilies, IpFamily};
pub use limit_range::{claim_refusal, pod_refusal};
pub use prepare::{
    default_pod_spec, needed_sources, prepare_create, prepare_ephemeral_containers_update,
    prepare_status_update, prepare_update, with_defaults,
};
pub use priority_class::SYSTEM_CLASSES;
pub use request::{AdmissionRequest, EnvFileMounts, NeededSources, SourceLookup, SourceObjects, Warning};
pub use resource_quota::{
    add_usage, count_name, quota_limits, quota_names, quota_selects, quota_usage, unspecified,
};
pub use template::{template_dialect, template_errors};
