//! Role-based access control: what roles allow, who is bound to them, who may hand them on, and what every cluster has.
//!
//! The rules are facts of Kubernetes' API group `rbac.authorization.k8s.io`. The decision is a pure function over an index
//! ([`RoleIndex`]) that is brought up to date with the store before each decision: a binding that was acknowledged counts.

mod aggregation;
mod bootstrap;
mod escalation;
mod index;
mod keeper;
mod rule;

pub(crate) use aggregation::refresh_aggregated;
pub(crate) use bootstrap::create_missing;
pub(crate) use escalation::{check_binding, check_role};
pub(crate) use index::RoleIndex;
pub(crate) use keeper::RoleKeeper;
pub(crate) use rule::Rule;

/// The API group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
