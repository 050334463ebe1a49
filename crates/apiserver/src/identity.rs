//! Who speaks on a connection.

use x509_parser::prelude::{FromDer, X509Certificate};

/// The group that may do everything.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of nodes.
pub(crate) const NODES: &str = "system:nodes";
/// What the user names of nodes begin with.
pub(crate) const NODE_PREFIX: &str = "system:node:";
const ANONYMOUS: &str = "system:anonymous";

/// A user with its groups; fixed for the life of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: String,
    groups: Vec<String>,
}

impl Identity {
    /// A user.
    pub fn new(name: impl Into<String>, groups: Vec<String>) -> Identity {
        Identity { name: name.into(), groups }
    }

    /// The administrator of this server.
    pub fn admin() -> Identity {
        Identity::new("kubernetes-admin", vec![MASTERS.to_owned()])
    }

    /// The kubelet of the node `name`.
    pub fn node(name: &str) -> Identity {
        Identity::new(format!("{NODE_PREFIX}{name}"), vec![NODES.to_owned()])
    }

    /// Somebody without credentials.
    pub fn anonymous() -> Identity {
        Identity::new(ANONYMOUS, vec!["system:unauthenticated".to_owned()])
    }

    /// Whom a client certificate names: the common name is the user, each organisation a group. `None` when it names nobody.
    pub(crate) fn from_certificate(der: &[u8]) -> Option<Identity> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next()?.as_str().ok()?;
        if name.is_empty() {
            return None;
        }
        let groups =
            subject.iter_organization().filter_map(|part| part.as_str().ok()).map(str::to_owned).collect();
        Some(Identity::new(name, groups))
    }

    /// The user name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The groups.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// Whether nobody proved anything.
    pub fn is_anonymous(&self) -> bool {
        self.name == ANONYMOUS
    }

    pub(crate) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}
