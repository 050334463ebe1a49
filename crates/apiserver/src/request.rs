//! What a request means, read from method and path as kube-apiserver reads it.

use http::Method;

use crate::query::{Query, percent_decode};

/// What is done to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    /// As it stands in discovery and in messages.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::List => "list",
            Verb::Watch => "watch",
            Verb::Create => "create",
            Verb::Update => "update",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::DeleteCollection => "deletecollection",
        }
    }

    /// Whether it changes something.
    pub(crate) fn is_write(self) -> bool {
        match self {
            Verb::Get | Verb::List | Verb::Watch => false,
            Verb::Create | Verb::Update | Verb::Patch | Verb::Delete | Verb::DeleteCollection => true,
        }
    }
}

/// A resource that a path names, whether or not it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResourceTarget {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
    /// What follows the subresource; for proxies as it came, with its slash.
    pub(crate) rest: String,
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Resource(ResourceTarget),
    /// Anything else: health, version, discovery.
    Path(String),
}

/// A path that names nothing at all: empty or undecodable parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAPath;

/// Reads a path. Each part is decoded by itself, so that an encoded slash never makes a new part.
pub(crate) fn parse_path(path: &str) -> Result<Target, NotAPath> {
    let trimmed = path.strip_prefix('/').ok_or(NotAPath)?;
    let mut parts: Vec<String> = Vec::new();
    let mut remaining = Some(trimmed);
    while let Some(path) = remaining {
        let (part, after) = path.split_once('/').map_or((path, None), |(part, after)| (part, Some(after)));
        let decoded = percent_decode(part).ok_or(NotAPath)?;
        if decoded.contains(['/', '\0']) || decoded == "." || decoded == ".." {
            return Err(NotAPath);
        }
        parts.push(decoded);
        if is_proxy(&parts) {
            // What follows is somebody else's path: it stays as it is.
            let mut target = parse_resource(String::new(), parts[1].clone(), &parts[2..]);
            target.rest = after.map(|after| format!("/{after}")).unwrap_or_default();
            return if parts.iter().any(String::is_empty) {
                Err(NotAPath)
            } else {
                Ok(Target::Resource(target))
            };
        }
        remaining = after;
    }
    // One slash at the end means nothing.
    if parts.last().is_some_and(String::is_empty) {
        parts.pop();
    }
    if parts.iter().any(String::is_empty) {
        return Err(NotAPath);
    }
    let (group, version, rest) = match parts.as_slice() {
        [api, version, rest @ ..] if api == "api" && !rest.is_empty() => {
            (String::new(), version.clone(), rest)
        }
        [apis, group, version, rest @ ..] if apis == "apis" && !rest.is_empty() => {
            (group.clone(), version.clone(), rest)
        }
        _ => return Ok(Target::Path(format!("/{}", parts.join("/")))),
    };
    Ok(Target::Resource(parse_resource(group, version, rest)))
}

/// Whether these first parts of a path are a subresource `proxy` of the core group.
fn is_proxy(parts: &[String]) -> bool {
    let inside = match parts {
        [api, _, first, ..] if api == "api" && first == "namespaces" => 7,
        [api, ..] if api == "api" => 5,
        _ => return false,
    };
    parts.len() == inside && parts[inside - 1] == "proxy"
}

fn parse_resource(group: String, version: String, parts: &[String]) -> ResourceTarget {
    let (namespace, parts) = match parts {
        // `/namespaces/N` and its own subresources are the namespace itself; anything longer is what is inside it.
        [first, name, third, ..] if first == "namespaces" && third != "status" && third != "finalize" => {
            (Some(name.clone()), &parts[2..])
        }
        _ => (None, parts),
    };
    ResourceTarget {
        group,
        version,
        resource: parts[0].clone(),
        namespace,
        name: parts.get(1).cloned(),
        subresource: parts.get(2).cloned(),
        rest: parts.get(3..).map(|rest| rest.join("/")).unwrap_or_default(),
    }
}

/// What a method does to a target; `None` when it does nothing that resources know.
pub(crate) fn verb_for(method: &Method, target: &ResourceTarget, query: &Query) -> Option<Verb> {
    let single = target.name.is_some();
    match *method {
        Method::GET | Method::HEAD if query.is_true("watch") && target.subresource.is_none() => {
            Some(Verb::Watch)
        }
        Method::GET | Method::HEAD if single => Some(Verb::Get),
        Method::OPTIONS if target.subresource.as_deref() == Some("proxy") => Some(Verb::Get),
        Method::GET | Method::HEAD => Some(Verb::List),
        Method::POST => Some(Verb::Create),
        Method::PUT => Some(Verb::Update),
        Method::PATCH => Some(Verb::Patch),
        Method::DELETE if single => Some(Verb::Delete),
        Method::DELETE => Some(Verb::DeleteCollection),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
