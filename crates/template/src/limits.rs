//! How much a template may hold and give.

/// Parameters of one template.
pub const MAX_PARAMETERS: usize = 1_000;
/// Objects of one template.
pub const MAX_OBJECTS: usize = 1_000;
/// How deep lists and maps of an object may be nested.
pub const MAX_DEPTH: usize = 64;
/// Bytes of everything that processing gives, as compact JSON. Computed before any of it is built.
pub const MAX_OUTPUT_BYTES: usize = 3 * 1024 * 1024;
/// Bytes of the value of one parameter.
pub const MAX_VALUE_BYTES: usize = 1024 * 1024;
/// Bytes of a generated value.
pub const MAX_GENERATED_BYTES: usize = 64 * 1024;
/// Bytes of the name of a parameter: it is a key of a Secret too.
pub const MAX_NAME_BYTES: usize = 253;
/// How many problems, and how many findings, are reported; the rest is counted.
pub const MAX_REPORTED: usize = 1_000;
/// How much chance a generated value of a `secret: true` parameter must hold, in bits.
pub const MIN_SECRET_BITS: u32 = 64;
