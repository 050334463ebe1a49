//! Defaulting and validation of objects, one file a kind: every error at once, each with its field path, in
//! upstream's words and order; warnings besides.
//!
//! Everything works on trees that went through [`schema::decode`]. The caller assigns names, uid, creation time,
//! cluster addresses and node ports; what it looked up for warnings travels in the [`AdmissionRequest`].

mod errors;
mod request;

pub use errors::{BadValue, Cause, FieldError, FieldErrorKind, FieldErrors};
pub use request::{
    AdmissionRequest, EnvFileMounts, NeededSources, SourceLookup, SourceObjects, Warning, default_pod_spec,
    needed_sources, prepare_create, prepare_status_update, prepare_update,
};
