//! Who may do what: administrators everything, nodes what a kubelet needs, everybody else what roles allow; who proved nothing
//! sees health and version only, whatever roles say.

use crate::identity::{Identity, MASTERS};
use crate::node_rules;
use crate::request::{ResourceTarget, Verb};
use crate::server::Server;
use crate::status::ApiError;

/// Paths that need no credentials.
const PUBLIC: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes<'a> {
    pub(crate) verb: &'a str,
    pub(crate) target: Target<'a>,
}

/// What it is to be done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Resource {
        namespace: &'a str,
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        name: &'a str,
    },
    /// A path that is no resource.
    Path(&'a str),
}

impl<'a> Attributes<'a> {
    /// A verb on a resource of the whole cluster.
    pub(crate) fn resource(verb: &'a str, group: &'a str, resource: &'a str) -> Attributes<'a> {
        let target = Target::Resource { namespace: "", group, resource, subresource: "", name: "" };
        Attributes { verb, target }
    }

    /// A verb on a path.
    pub(crate) fn path(verb: &'a str, path: &'a str) -> Attributes<'a> {
        Attributes { verb, target: Target::Path(path) }
    }

    /// The same inside a namespace.
    pub(crate) fn within(mut self, wanted: &'a str) -> Attributes<'a> {
        if let Target::Resource { namespace, .. } = &mut self.target {
            *namespace = wanted;
        }
        self
    }

    /// The same for one object.
    pub(crate) fn named(mut self, wanted: &'a str) -> Attributes<'a> {
        if let Target::Resource { name, .. } = &mut self.target {
            *name = wanted;
        }
        self
    }

    /// The same for a subresource.
    pub(crate) fn sub(mut self, wanted: &'a str) -> Attributes<'a> {
        if let Target::Resource { subresource, .. } = &mut self.target {
            *subresource = wanted;
        }
        self
    }

    /// What a request asks for. `selected` is the one name that a list is restricted to.
    pub(crate) fn of(verb: Verb, target: &'a ResourceTarget, selected: Option<&'a str>) -> Attributes<'a> {
        let name = target.name.as_deref().or(selected).unwrap_or_default();
        // A namespace is in itself.
        let own =
            (target.group.is_empty() && target.resource == "namespaces").then_some(target.name.as_deref());
        let namespace = own.flatten().or(target.namespace.as_deref()).unwrap_or_default();
        Attributes::resource(verb.as_str(), &target.group, &target.resource)
            .within(namespace)
            .named(name)
            .sub(target.subresource.as_deref().unwrap_or_default())
    }

    /// The refusal, in upstream's words. `reason` says what stands in the way besides; it may be empty.
    pub(crate) fn refused(&self, identity: &Identity, reason: &str) -> ApiError {
        match self.target {
            Target::Path(path) => ApiError::PathForbidden {
                user: identity.name().to_owned(),
                verb: self.verb.to_owned(),
                path: path.to_owned(),
            },
            Target::Resource { namespace, group, resource, subresource, name } => {
                let shown = if subresource.is_empty() {
                    resource.to_owned()
                } else {
                    format!("{resource}/{subresource}")
                };
                let place = if namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace \"{namespace}\"")
                };
                let mut detail = format!(
                    "User {} cannot {} resource \"{shown}\" in API group \"{group}\" {place}",
                    schema::go_quote(identity.name()),
                    self.verb
                );
                if !reason.is_empty() {
                    detail.push_str(": ");
                    detail.push_str(reason);
                }
                ApiError::Forbidden {
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    name: name.to_owned(),
                    detail,
                }
            }
        }
    }
}

/// A decision with its reason, which may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
}

/// Whether `identity` may do what is asked. The quick form: no reason is put together.
pub(crate) fn may(server: &Server, identity: &Identity, asked: &Attributes<'_>) -> bool {
    known(identity, asked).unwrap_or_else(|| {
        server.roles.read(|index| index.find(identity.name(), identity.groups(), asked).is_some())
    })
}

/// Refuses what `identity` may not do.
pub(crate) fn demand(server: &Server, identity: &Identity, asked: &Attributes<'_>) -> Result<(), ApiError> {
    if may(server, identity, asked) {
        return Ok(());
    }
    Err(asked.refused(identity, &decide(server, identity, asked).reason))
}

/// Whether `identity` may do what is asked, and why.
pub(crate) fn decide(server: &Server, identity: &Identity, asked: &Attributes<'_>) -> Decision {
    if let Some(allowed) = known(identity, asked)
        && (allowed || identity.is_anonymous())
    {
        return Decision { allowed, reason: String::new() };
    }
    let namespace = match asked.target {
        Target::Resource { namespace, .. } => namespace,
        Target::Path(_) => "",
    };
    server.roles.read(|index| match index.find(identity.name(), identity.groups(), asked) {
        Some(grant) => Decision { allowed: true, reason: grant.reason() },
        None => {
            Decision { allowed: false, reason: index.trouble(identity.name(), identity.groups(), namespace) }
        }
    })
}

/// What is decided without roles.
fn known(identity: &Identity, asked: &Attributes<'_>) -> Option<bool> {
    if identity.is_in(MASTERS) {
        return Some(true);
    }
    if identity.is_anonymous() {
        let is_public = |path: &str| PUBLIC.contains(&path) && matches!(asked.verb, "get" | "head");
        return Some(matches!(asked.target, Target::Path(path) if is_public(path)));
    }
    match identity.node_name() {
        Some(node) if node_rules::may(node, asked) => Some(true),
        _ => None,
    }
}

/// Whether `identity` may read the Secrets of `namespace`.
pub(crate) fn may_read_secrets(server: &Server, identity: &Identity, namespace: &str) -> bool {
    may(server, identity, &Attributes::resource("get", "", "secrets").within(namespace))
}
