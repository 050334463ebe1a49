//! Who speaks: on a connection (client certificate, in-memory), or in one request (bearer token, impersonation).

use std::collections::BTreeMap;

use x509_parser::prelude::{FromDer, X509Certificate};

/// The group that may do everything.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of nodes.
pub(crate) const NODES: &str = "system:nodes";
/// What the user names of nodes begin with.
pub(crate) const NODE_PREFIX: &str = "system:node:";
/// Everybody who proved to be somebody.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// Everybody who did not.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// All service accounts; followed by `:NAMESPACE`, those of a namespace.
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const ANONYMOUS: &str = "system:anonymous";

/// A user with its groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// The user name of a service account.
pub(crate) fn service_account_user(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// Namespace and name of the service account that a user name stands for.
pub(crate) fn service_account_of(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?
        .split_once(':')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains(':'))
}

/// The groups of every service account of a namespace.
pub(crate) fn service_account_groups(namespace: &str) -> Vec<String> {
    vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

impl Identity {
    /// A user.
    pub fn new(name: impl Into<String>, groups: Vec<String>) -> Identity {
        Identity { name: name.into(), groups, ..Identity::default() }
    }

    /// The administrator of this server.
    pub fn admin() -> Identity {
        Identity::new("kubernetes-admin", vec![MASTERS.to_owned()])
    }

    /// The kubelet of the node `name`.
    pub fn node(name: &str) -> Identity {
        Identity::new(format!("{NODE_PREFIX}{name}"), vec![NODES.to_owned()])
    }

    /// The API server as its nodes see it.
    pub fn api_server() -> Identity {
        Identity::new("kube-apiserver-kubelet-client", vec![MASTERS.to_owned()])
    }

    /// Who lists and watches for the controllers.
    pub fn controller_manager() -> Identity {
        Identity::new("system:kube-controller-manager", Vec::new())
    }

    /// The scheduler.
    pub fn scheduler() -> Identity {
        Identity::new("system:kube-scheduler", Vec::new())
    }

    /// A controller: its service account in `kube-system`.
    pub fn controller(name: &str) -> Identity {
        let namespace = "kube-system";
        Identity::new(service_account_user(namespace, name), service_account_groups(namespace))
    }

    /// Somebody without credentials.
    pub fn anonymous() -> Identity {
        Identity::new(ANONYMOUS, vec![UNAUTHENTICATED.to_owned()])
    }

    /// A service account.
    pub(crate) fn service_account(namespace: &str, name: &str, uid: &str) -> Identity {
        Identity::new(service_account_user(namespace, name), service_account_groups(namespace)).with_uid(uid)
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

    /// The same with the fingerprint of its certificate, as Kubernetes shows it.
    pub(crate) fn proved_by_certificate(self, der: &[u8]) -> Identity {
        let digest = ring::digest::digest(&ring::digest::SHA256, der);
        let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        self.with_extra("authentication.kubernetes.io/credential-id", vec![format!("X509SHA256={hex}")])
    }

    pub(crate) fn with_uid(mut self, uid: &str) -> Identity {
        uid.clone_into(&mut self.uid);
        self
    }

    pub(crate) fn with_extra(mut self, key: &str, values: Vec<String>) -> Identity {
        self.extra.insert(key.to_owned(), values);
        self
    }

    /// The same as a member of the group of everybody who proved to be somebody, unless nobody did.
    pub(crate) fn authenticated(mut self) -> Identity {
        let group = if self.is_anonymous() { UNAUTHENTICATED } else { AUTHENTICATED };
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
        self
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

    /// The node that this is the kubelet of.
    pub(crate) fn node_name(&self) -> Option<&str> {
        let name = self.name.strip_prefix(NODE_PREFIX)?;
        (!name.is_empty() && self.is_in(NODES)).then_some(name)
    }

    /// The identity as a `UserInfo`.
    pub(crate) fn user_info(&self) -> serde_json::Value {
        let mut info = serde_json::json!({"username": self.name});
        if !self.uid.is_empty() {
            info["uid"] = self.uid.as_str().into();
        }
        if !self.groups.is_empty() {
            info["groups"] = serde_json::json!(self.groups);
        }
        if !self.extra.is_empty() {
            info["extra"] = serde_json::json!(self.extra);
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use super::{Identity, service_account_of, service_account_user};

    #[test]
    fn the_user_name_of_a_service_account_can_be_read_back_and_no_other() {
        let user = service_account_user("a", "b.c");
        assert_eq!(service_account_of(&user), Some(("a", "b.c")));
        for user in
            ["jane", "system:serviceaccount:a", "system:serviceaccount::b", "system:serviceaccount:a:b:c"]
        {
            assert_eq!(service_account_of(user), None, "{user}");
        }
    }

    #[test]
    fn only_the_group_of_nodes_makes_a_node() {
        assert_eq!(Identity::node("n").node_name(), Some("n"));
        assert_eq!(Identity::new("system:node:n", Vec::new()).node_name(), None);
        assert_eq!(Identity::node("").node_name(), None);
    }
}
