//! HTTP to store: authenticate, authorise, admit, act, render.
//!
//! One request parser as kube-apiserver has it; one file a verb, one a subresource; everything generic over a table of kinds
//! ([`schema::resources`] says what a kind is called, a strategy file says what is special about it). JSON trees on the
//! generic path; what is stored is what clients read, so that a get copies nothing.
//!
//! Who speaks is a property of the connection: the client certificate of a TLS connection, or the [`Identity`] that an in-memory
//! connection was opened with. On a connection of nobody, a request may prove it with a bearer token; whoever may impersonate may
//! count as somebody else.
//!
//! Tasks:
//!
//! | task | owns | reads | emits | stops when |
//! |---|---|---|---|---|
//! | accept loop ([`ApiServer::serve`]) | the listener | connections | connection tasks | its shutdown future |
//! | one a connection | the socket | requests | answers | the peer leaves or the server closes |
//! | garbage collector | the index of owners and dependents | the changes of every collection | deletions, and updates of references and finalizers | the last [`ApiServer`] is dropped |
//! | derived statuses, one each for quotas and disruption budgets | their statuses | everything that counts | statuses | the last [`ApiServer`] is dropped |
//! | own endpoints | Endpoints and slice of `default/kubernetes` | both, and where the server is reached | both | the last [`ApiServer`] is dropped |
//! | event expiry | nothing | the events | deletions of old ones | the last [`ApiServer`] is dropped |
//!
//! Errors: every failure of a request is one variant of one enum and becomes a `Status` in one place, `status.rs`.

mod applying;
mod audit;
mod authenticate;
pub mod authority;
mod authorize;
mod body;
mod budgets;
mod deletion;
mod derived_status;
mod discovery;
mod expiry;
mod field_manager;
mod garbage;
mod gatekeeper;
mod health;
mod identity;
mod impersonation;
mod in_memory;
mod kinds;
mod limits;
mod list_options;
mod listener;
mod lookup;
mod media;
mod metrics;
mod namespaces;
mod node;
mod node_ports;
mod node_rules;
mod notation;
mod object;
mod openapi;
mod openid;
mod own_endpoints;
mod pagination;
mod patching;
mod query;
mod quotas;
mod rbac;
mod render;
mod request;
mod responses;
mod reviews;
mod rights;
mod selector;
mod server;
mod service_addresses;
mod service_ranges;
mod status;
mod strategy;
mod subresources;
mod table;
mod templates;
mod timestamps;
mod tls;
mod tokens;
mod verbs;
mod watch_stream;
mod workshop;
mod write_options;
mod writing;

pub use audit::AuditLog;
pub use gatekeeper::SERVICE_NAMES;
pub use identity::Identity;
pub use in_memory::{InMemoryConnector, InMemoryIo};
pub use limits::{Limit, Limits};
pub use node::{NoNodes, NodeConnection, NodeConnector, NodeIo};
pub use node_ports::NodePorts;
pub use server::{ApiServer, ApiServerConfig, StartError};
pub use service_ranges::{ServiceRange, ServiceRangeError, ServiceRanges};
pub use tls::{TlsError, server_tls};
pub use tokens::{FixedTokens, FixedTokensError};
