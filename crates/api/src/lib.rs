//! Our own API vocabulary: annotations, feature gates, event and waiting reasons, limits.
//!
//! Everything else that travels over the Kubernetes API is a type of `k8s-openapi`. This crate holds names and
//! numbers that several parts must agree on and that users search for; it decides nothing.

pub mod annotations;
pub mod features;
pub mod limits;
pub mod reasons;

pub use features::{FEATURES, Feature, FeatureGates, FeatureGatesError, Stage};
