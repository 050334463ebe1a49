//! Where a request to `proxy` goes: to a node's own interface, to a port of a pod, or to a pod behind a service.

use rand::seq::IndexedRandom as _;
use serde_json::Value;
use store::{Collection, Key};

use super::node_request::node;
use crate::gatekeeper::Call;
use crate::object::{list, text, tree};
use crate::query::percent_encode;
use crate::status::ApiError;

/// A node, and the path on its interface below which the target lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProxyTarget {
    pub(super) node: String,
    pub(super) prefix: String,
}

/// `[SCHEME:]NAME[:PORT]`, as upstream reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Named<'a> {
    scheme: &'a str,
    name: &'a str,
    port: &'a str,
}

impl<'a> Named<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts.as_slice() {
            [name] => ("", *name, ""),
            [name, port] => ("", *name, *port),
            [scheme, name, port] => (*scheme, *name, *port),
            _ => return None,
        };
        let known = matches!(scheme, "" | "http" | "https");
        (known && !name.is_empty()).then_some(Self { scheme, name, port })
    }

    fn scheme(&self) -> &'a str {
        if self.scheme.is_empty() { "http" } else { self.scheme }
    }
}

/// Finds the target of a request.
pub(super) fn find(call: &Call) -> Result<ProxyTarget, ApiError> {
    let plural = call.kind.plural();
    let singular = plural.trim_end_matches('s');
    let named = Named::read(&call.name)
        .ok_or_else(|| ApiError::bad_request(format!("invalid {singular} request {:?}", call.name)))?;
    let key = Key::new(call.kind.collection(), &call.namespace, named.name);
    let stored = call.server.store.get(&key).ok_or_else(|| ApiError::not_found(&call.kind, named.name))?;
    let object = tree(&stored);
    match plural {
        "nodes" => to_node(&object, named),
        "pods" => to_pod(call, &object, named.scheme(), pod_port(&object, named)?),
        _ => {
            let pods = Collection::new("", "pods");
            let listing = call.server.store.list(&pods, Some(&call.namespace), None, None);
            let pods: Vec<Value> =
                listing.map_err(ApiError::from_read)?.objects.iter().map(|pod| tree(pod)).collect();
            let (pod, port) = behind_service(&object, named, &pods)?;
            to_pod(call, pod, named.scheme(), port)
        }
    }
}

fn to_node(object: &Value, named: Named<'_>) -> Result<ProxyTarget, ApiError> {
    let own = object["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().unwrap_or(10250);
    if !named.port.is_empty() && named.port != own.to_string() && named.port != "10250" {
        return Err(ApiError::bad_request(format!(
            "port {:?} of node \"{}\" is not proxied: only that of its kubelet is ({own})",
            named.port, named.name
        )));
    }
    Ok(ProxyTarget { node: named.name.to_owned(), prefix: String::new() })
}

fn to_pod(call: &Call, pod: &Value, scheme: &str, port: u16) -> Result<ProxyTarget, ApiError> {
    let name = text(pod, &["metadata", "name"]);
    let Some(node) = node(pod) else {
        return Err(ApiError::bad_request(format!("pod {name} does not have a host assigned")));
    };
    let (namespace, name) = (percent_encode(&call.namespace), percent_encode(name));
    Ok(ProxyTarget { node: node.to_owned(), prefix: format!("/podProxy/{namespace}/{name}/{scheme}/{port}") })
}

/// The named port; else the first that a container declares; else that of the scheme.
fn pod_port(pod: &Value, named: Named<'_>) -> Result<u16, ApiError> {
    if !named.port.is_empty() {
        return number(named.port).ok_or_else(|| {
            ApiError::bad_request(format!("invalid pod request: {:?} is not a port", named.port))
        });
    }
    let declared = list(pod, &["spec", "containers"])
        .iter()
        .find_map(|container| list(container, &["ports"]).first())
        .and_then(|port| port["containerPort"].as_u64())
        .and_then(|port| u16::try_from(port).ok());
    Ok(declared.unwrap_or(if named.scheme() == "https" { 443 } else { 80 }))
}

fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

/// One of the pods that a service leads to, and its port.
fn behind_service<'p>(
    service: &Value,
    named: Named<'_>,
    pods: &'p [Value],
) -> Result<(&'p Value, u16), ApiError> {
    let ports = list(service, &["spec", "ports"]);
    let port = match (named.port, ports) {
        ("", [only]) => Some(only),
        (wanted, ports) => ports.iter().find(|port| {
            text(port, &["name"]) == wanted
                || (port["port"].as_u64().is_some() && port["port"].as_u64() == wanted.parse().ok())
        }),
    };
    let Some(port) = port else {
        return Err(ApiError::ServiceUnavailable {
            message: format!("no service port {:?} found for service {:?}", named.port, named.name),
        });
    };
    let selector = service["spec"]["selector"].as_object().filter(|selector| !selector.is_empty());
    let unready_too = service["spec"]["publishNotReadyAddresses"] == true;
    let ends: Vec<(&Value, u16)> = pods
        .iter()
        .filter(|pod| {
            let labels = &pod["metadata"]["labels"];
            selector.is_some_and(|wanted| wanted.iter().all(|(name, value)| labels.get(name) == Some(value)))
        })
        .filter(|pod| serves(pod, unready_too))
        .filter_map(|pod| Some((pod, target_port(port, pod)?)))
        .collect();
    ends.choose(&mut rand::rng()).copied().ok_or_else(|| ApiError::ServiceUnavailable {
        message: format!("no endpoints available for service {:?}", named.name),
    })
}

fn serves(pod: &Value, unready_too: bool) -> bool {
    let ready = list(pod, &["status", "conditions"])
        .iter()
        .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    let has_address = !text(pod, &["status", "podIP"]).is_empty();
    let is_leaving = pod["metadata"].get("deletionTimestamp").is_some_and(|time| !time.is_null());
    let has_ended = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
    has_address && !has_ended && (unready_too || (ready && !is_leaving))
}

fn target_port(port: &Value, pod: &Value) -> Option<u16> {
    let given = match &port["targetPort"] {
        Value::Null => &port["port"],
        other => other,
    };
    let number = match given {
        Value::String(name) => list(pod, &["spec", "containers"])
            .iter()
            .flat_map(|container| list(container, &["ports"]))
            .find(|port| text(port, &["name"]) == name)?["containerPort"]
            .as_u64(),
        other => other.as_u64(),
    };
    u16::try_from(number?).ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_carry_a_scheme_and_a_port() {
        for (text, expected) in [
            ("web", Some(("http", "web", ""))),
            ("web:8080", Some(("http", "web", "8080"))),
            ("https:web:", Some(("https", "web", ""))),
            ("http:web:name", Some(("http", "web", "name"))),
            ("ftp:web:1", None),
            (":80", None),
            ("a:b:c:d", None),
            ("", None),
        ] {
            let read = Named::read(text);
            assert_eq!(read.map(|named| (named.scheme(), named.name, named.port)), expected, "{text}");
        }
    }

    #[test]
    fn a_pods_port_is_the_named_one_or_its_first() {
        let pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "ports": [{"containerPort": 8080}, {"containerPort": 9}]}]}});
        let port = |name: &str, pod: &Value| pod_port(pod, Named::read(name).expect("a name")).ok();
        assert_eq!(port("p", &pod), Some(8080));
        assert_eq!(port("p:9", &pod), Some(9));
        assert_eq!(port("p", &json!({})), Some(80));
        assert_eq!(port("https:p:", &json!({})), Some(443));
        for nonsense in ["p:0", "p:65536", "p:web"] {
            assert_eq!(port(nonsense, &pod), None, "{nonsense}");
        }
    }

    fn pod(name: &str, ready: &str) -> Value {
        json!({
            "metadata": {"name": name, "labels": {"app": "web", "x": "y"}},
            "spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {"podIP": "10.1.1.1", "phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
        })
    }

    #[test]
    fn a_service_leads_to_a_ready_pod_of_its_selector() {
        let service = json!({"spec": {"selector": {"app": "web"}, "ports": [
            {"name": "web", "port": 80, "targetPort": "http"},
            {"name": "other", "port": 81, "targetPort": 9000},
            {"name": "same", "port": 82},
        ]}});
        let mut stranger = pod("stranger", "True");
        stranger["metadata"]["labels"]["app"] = "db".into();
        let mut leaving = pod("leaving", "True");
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let pods = [stranger, pod("unready", "False"), leaving, pod("good", "True")];
        let find = |name: &str| {
            behind_service(&service, Named::read(name).expect("a name"), &pods)
                .map(|(pod, port)| (text(pod, &["metadata", "name"]).to_owned(), port))
                .map_err(|error| error.to_string())
        };
        assert_eq!(find("s:web"), Ok(("good".to_owned(), 8080)));
        assert_eq!(find("s:80"), Ok(("good".to_owned(), 8080)));
        assert_eq!(find("s:81"), Ok(("good".to_owned(), 9000)));
        assert_eq!(find("s:same"), Ok(("good".to_owned(), 82)));
        assert_eq!(find("s"), Err("no service port \"\" found for service \"s\"".to_owned()));
        assert_eq!(find("s:83"), Err("no service port \"83\" found for service \"s\"".to_owned()));
    }

    #[test]
    fn a_service_without_a_pod_is_unavailable() {
        let message = "no endpoints available for service \"s\"";
        let named = Named::read("s").expect("a name");
        let ports = json!([{"port": 80}]);
        for (service, pods) in [
            (json!({"spec": {"selector": {"app": "web"}, "ports": ports}}), vec![pod("p", "False")]),
            (json!({"spec": {"selector": {"app": "web"}, "ports": ports}}), vec![]),
            (json!({"spec": {"ports": ports}}), vec![pod("p", "True")]),
        ] {
            let error = behind_service(&service, named, &pods).expect_err("nobody is there");
            assert_eq!(error.to_string(), message);
            assert_eq!(error.code(), http::StatusCode::SERVICE_UNAVAILABLE);
        }
        let unready =
            json!({"spec": {"selector": {"app": "web"}, "ports": ports, "publishNotReadyAddresses": true}});
        assert!(behind_service(&unready, named, &[pod("p", "False")]).is_ok());
    }
}
