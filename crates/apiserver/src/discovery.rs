//! Discovery: which groups, versions and resources there are, in the old form and in the aggregated one.

use http::{HeaderMap, StatusCode};
use schema::Resource;
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::media::accepted;
use crate::responses::{Answer, answer as typed_answer, json as json_answer, whole};
use crate::server::Server;

/// The versions of the aggregated form that are served.
const AGGREGATED: [&str; 2] = ["v2", "v2beta1"];

/// Answers if the path is one of discovery.
pub(crate) fn answer(server: &Server, path: &str, headers: &HeaderMap) -> Option<Answer> {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').filter(|part| !part.is_empty()).collect();
    let aggregated = aggregated_version(headers);
    let value = match (parts.as_slice(), aggregated) {
        ([], _) => paths(server),
        (["api"], Some(version)) => return Some(aggregated_answer(server, true, version)),
        (["apis"], Some(version)) => return Some(aggregated_answer(server, false, version)),
        (["api"], None) => core_versions(server),
        (["apis"], None) => groups(server),
        (["api", version], _) => resource_list(server, "", version)?,
        (["apis", group], _) if !group.is_empty() => {
            let mut value = group_entry(server, group)?;
            value["kind"] = json!("APIGroup");
            value["apiVersion"] = json!("v1");
            value
        }
        (["apis", group, version], _) if !group.is_empty() => resource_list(server, group, version)?,
        _ => return None,
    };
    Some(json_answer(StatusCode::OK, &value))
}

/// The aggregated form, when the client prefers it to the plain one.
fn aggregated_version(headers: &HeaderMap) -> Option<&'static str> {
    for range in accepted(headers).iter().filter(|range| range.takes_json()) {
        match range.parameter("as") {
            None => return None,
            Some("APIGroupDiscoveryList") if range.parameter("g") == Some("apidiscovery.k8s.io") => {
                let version = range.parameter("v");
                if let Some(version) = AGGREGATED.into_iter().find(|own| version == Some(own)) {
                    return Some(version);
                }
            }
            Some(_) => {}
        }
    }
    None
}

/// The groups that are served, each with its versions; the core group is the empty one.
fn served_groups(server: &Server) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut groups: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
    for kind in server.kinds.iter() {
        let (group, version) = (kind.group(), kind.resource().version);
        match groups.iter_mut().find(|(own, _)| *own == group) {
            Some((_, versions)) if versions.contains(&version) => {}
            Some((_, versions)) => versions.push(version),
            None => groups.push((group, vec![version])),
        }
    }
    groups
}

fn kinds_of<'s>(server: &'s Server, group: &'s str, version: &'s str) -> impl Iterator<Item = &'s Kind> {
    server
        .kinds
        .iter()
        .map(AsRef::as_ref)
        .filter(move |kind| kind.group() == group && kind.resource().version == version)
}

fn core_versions(server: &Server) -> Value {
    let address = server.config.advertise.map(|address| address.to_string()).unwrap_or_default();
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

fn groups(server: &Server) -> Value {
    let groups: Vec<Value> = served_groups(server)
        .into_iter()
        .filter(|(group, _)| !group.is_empty())
        .filter_map(|(group, _)| group_entry(server, group))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group_entry(server: &Server, name: &str) -> Option<Value> {
    let (group, versions) = served_groups(server).into_iter().find(|(group, _)| *group == name)?;
    let versions: Vec<Value> = versions
        .into_iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    Some(json!({"name": group, "preferredVersion": versions.first()?, "versions": versions}))
}

fn resource_list(server: &Server, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    let mut group_version = None;
    for kind in kinds_of(server, group, version) {
        let resource = kind.resource();
        group_version = Some(resource.group_version);
        let mut entry = json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": resource.verbs,
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        resources.push(entry);
        for subresource in subresources(kind) {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, subresource.name),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": subresource.kind,
                "verbs": subresource.verbs,
            });
            let own = (resource.group, resource.version);
            if !subresource.version.is_empty() && (subresource.group, subresource.version) != own {
                entry["group"] = json!(subresource.group);
                entry["version"] = json!(subresource.version);
            }
            resources.push(entry);
        }
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version?,
        "resources": resources,
    }))
}

/// One subresource as discovery shows it.
struct SubresourceEntry {
    name: &'static str,
    kind: &'static str,
    group: &'static str,
    version: &'static str,
    verbs: Vec<&'static str>,
}

/// The subresources that are served: the schema's, and our own `environment`.
fn subresources(kind: &Kind) -> Vec<SubresourceEntry> {
    let resource = kind.resource();
    let mut entries: Vec<SubresourceEntry> = resource
        .subresources
        .iter()
        .filter(|subresource| kind.has_subresource(subresource.name))
        .map(|subresource| SubresourceEntry {
            name: subresource.name,
            kind: subresource.kind,
            group: subresource.group,
            version: subresource.version,
            verbs: subresource.verbs.clone(),
        })
        .collect();
    if kind.has_subresource("environment") {
        entries.push(SubresourceEntry {
            name: "environment",
            kind: "PodEnvironment",
            group: "",
            version: "",
            verbs: vec!["get"],
        });
        entries.sort_by_key(|entry| entry.name);
    }
    entries
}

fn aggregated_answer(server: &Server, core: bool, version: &str) -> Answer {
    let items: Vec<Value> = served_groups(server)
        .into_iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .into_iter()
                .map(|version| {
                    let resources: Vec<Value> =
                        kinds_of(server, group, version).map(aggregated_resource).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            json!({"metadata": {"name": group, "creationTimestamp": null}, "versions": versions})
        })
        .collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    });
    let content_type = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    typed_answer(StatusCode::OK, &content_type, whole(list.to_string()))
}

fn aggregated_resource(kind: &Kind) -> Value {
    let resource: &Resource = kind.resource();
    let response_kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": response_kind(resource.group, resource.version, resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    let subresources: Vec<Value> = subresources(kind)
        .into_iter()
        .map(|subresource| {
            let (group, version) = if subresource.version.is_empty() {
                (resource.group, resource.version)
            } else {
                (subresource.group, subresource.version)
            };
            json!({
                "subresource": subresource.name,
                "responseKind": response_kind(group, version, subresource.kind),
                "verbs": subresource.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = Value::Array(subresources);
    }
    entry
}

fn paths(server: &Server) -> Value {
    let mut paths: Vec<String> = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in served_groups(server).into_iter().filter(|(group, _)| !group.is_empty()) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.into_iter().map(|version| format!("/apis/{group}/{version}")));
    }
    for own in [
        "/.well-known/openid-configuration",
        "/healthz",
        "/livez",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ] {
        paths.push(own.to_owned());
    }
    json!({"paths": paths})
}
