//! What objects count for in quotas: amounts and numbers by the names that quotas use.

use std::collections::{BTreeMap, BTreeSet};

use quantity::Quantity;
use schema::Resource;
use serde_json::Value;

use super::COMPUTE;
use crate::amounts::{Amounts, add, amounts, of_pod};
use crate::tree::{entries, is_set, items, text};

/// Resources that each container of a pod has to name when a quota limits them.
const DEMANDED: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

fn one() -> Quantity {
    Quantity::from_millis(1000)
}

fn number(count: usize) -> Quantity {
    i64::try_from(count)
        .map_or(Quantity::ZERO, |count| Quantity::from_units(count, quantity::Format::DecimalSi))
}

/// The name by which a quota counts the objects of a kind.
#[must_use]
pub fn count_name(resource: &Resource) -> String {
    if resource.group.is_empty() {
        format!("count/{}", resource.plural)
    } else {
        format!("count/{}.{}", resource.plural, resource.group)
    }
}

/// What an object counts for.
#[must_use]
pub fn quota_usage(resource: &Resource, object: &Value) -> Amounts {
    let mut usage = Amounts::from([(count_name(resource), one())]);
    if !resource.group.is_empty() {
        return usage;
    }
    match resource.plural {
        // Pods that have ended are counted as objects only.
        "pods" if matches!(text(&object["status"]["phase"]), "Succeeded" | "Failed") => {}
        "pods" => {
            let (requests, limits) = (of_pod(&object["spec"], "requests"), of_pod(&object["spec"], "limits"));
            usage.extend(compute(&requests, &limits));
        }
        "services" => usage.extend(service(&object["spec"])),
        "persistentvolumeclaims" => usage.extend(claim(object)),
        "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas" => {
            usage.insert(resource.plural.to_owned(), one());
        }
        _ => {}
    }
    usage
}

fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut usage = Amounts::from([("pods".to_owned(), one())]);
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = requests.get(name) {
            usage.insert(name.to_owned(), *amount);
            usage.insert(format!("requests.{name}"), *amount);
        }
        if let Some(amount) = limits.get(name) {
            usage.insert(format!("limits.{name}"), *amount);
        }
    }
    for (name, amount) in requests {
        if name.starts_with("hugepages-") {
            usage.insert(name.clone(), *amount);
            usage.insert(format!("requests.{name}"), *amount);
        } else if name.contains('/') {
            usage.insert(format!("requests.{name}"), *amount);
        }
    }
    usage
}

fn service(spec: &Value) -> Amounts {
    let ports = items(&spec["ports"]);
    let given = ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count();
    let (node_ports, balancers) = match text(&spec["type"]) {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if spec["allocateLoadBalancerNodePorts"] == false => (given, 1),
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    Amounts::from([
        ("services".to_owned(), one()),
        ("services.loadbalancers".to_owned(), number(balancers)),
        ("services.nodeports".to_owned(), number(node_ports)),
    ])
}

fn claim(object: &Value) -> Amounts {
    let mut usage = Amounts::from([("persistentvolumeclaims".to_owned(), one())]);
    let class = text(&object["spec"]["storageClassName"]);
    let of_class = |rest: &str| format!("{class}.storageclass.storage.k8s.io/{rest}");
    if !class.is_empty() {
        usage.insert(of_class("persistentvolumeclaims"), one());
    }
    if let Some(storage) = amounts(&object["spec"]["resources"]["requests"]).get("storage") {
        usage.insert("requests.storage".to_owned(), *storage);
        if !class.is_empty() {
            usage.insert(of_class("requests.storage"), *storage);
        }
    }
    usage
}

/// The names of a quota's `hard` that objects of a kind can count for.
#[must_use]
pub fn quota_names(resource: &Resource, quota: &Value) -> Vec<String> {
    let counted = count_name(resource);
    let matches = |name: &str| {
        if name == counted {
            return true;
        }
        if !resource.group.is_empty() {
            return false;
        }
        match resource.plural {
            "pods" => {
                name == "pods"
                    || COMPUTE.contains(&name)
                    || name.starts_with("hugepages-")
                    || name.starts_with("requests.hugepages-")
                    || (name.starts_with("requests.") && name.contains('/'))
            }
            "services" => matches!(name, "services" | "services.loadbalancers" | "services.nodeports"),
            "persistentvolumeclaims" => {
                matches!(name, "persistentvolumeclaims" | "requests.storage")
                    || name.contains(".storageclass.storage.k8s.io/")
            }
            "configmaps" | "secrets" | "replicationcontrollers" | "resourcequotas" => name == resource.plural,
            _ => false,
        }
    };
    entries(&quota["spec"]["hard"])
        .into_iter()
        .map(|(name, _)| name.clone())
        .filter(|name| matches(name))
        .collect()
}

/// Whether an object of a kind is one that a quota with scopes is about. A quota without scopes is about all.
#[must_use]
pub fn quota_selects(resource: &Resource, quota: &Value, object: &Value) -> bool {
    let spec = &quota["spec"];
    let is_pod = resource.group.is_empty() && resource.plural == "pods";
    let is_claim = resource.group.is_empty() && resource.plural == "persistentvolumeclaims";
    let in_scope = |scope: &str, operator: &str, values: &[Value]| match scope {
        "VolumeAttributesClass" => {
            is_claim && fits(text(&object["spec"]["volumeAttributesClassName"]), operator, values)
        }
        _ if !is_pod => false,
        "Terminating" => is_set(&object["spec"]["activeDeadlineSeconds"]),
        "NotTerminating" => !is_set(&object["spec"]["activeDeadlineSeconds"]),
        "BestEffort" => crate::defaults::pod::quality_of_service(&object["spec"]) == "BestEffort",
        "NotBestEffort" => crate::defaults::pod::quality_of_service(&object["spec"]) != "BestEffort",
        "PriorityClass" => fits(text(&object["spec"]["priorityClassName"]), operator, values),
        "CrossNamespacePodAffinity" => reaches_other_namespaces(&object["spec"]["affinity"]),
        _ => false,
    };
    items(&spec["scopes"]).iter().all(|scope| in_scope(text(scope), "Exists", &[]))
        && items(&spec["scopeSelector"]["matchExpressions"])
            .iter()
            .all(|one| in_scope(text(&one["scopeName"]), text(&one["operator"]), items(&one["values"])))
}

fn fits(value: &str, operator: &str, values: &[Value]) -> bool {
    let is_listed = values.iter().any(|one| text(one) == value);
    match operator {
        "In" => !value.is_empty() && is_listed,
        "NotIn" => !is_listed,
        "Exists" => !value.is_empty(),
        "DoesNotExist" => value.is_empty(),
        _ => false,
    }
}

fn reaches_other_namespaces(affinity: &Value) -> bool {
    let reaches = |term: &Value| !items(&term["namespaces"]).is_empty() || is_set(&term["namespaceSelector"]);
    ["podAffinity", "podAntiAffinity"].iter().any(|name| {
        let one = &affinity[*name];
        items(&one["requiredDuringSchedulingIgnoredDuringExecution"]).iter().any(reaches)
            || items(&one["preferredDuringSchedulingIgnoredDuringExecution"])
                .iter()
                .any(|weighted| reaches(&weighted["podAffinityTerm"]))
    })
}

/// What the containers of a pod must say because a quota limits it: `must specify requests.cpu for: a,b`.
#[must_use]
pub fn unspecified(names: &[String], pod: &Value) -> Option<String> {
    // A pod that speaks for all its containers need not name them one by one.
    if is_set(&pod["spec"]["resources"]) {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in items(&pod["spec"][list]) {
            let resources = &container["resources"];
            let own = compute(&amounts(&resources["requests"]), &amounts(&resources["limits"]));
            for name in DEMANDED.into_iter().filter(|name| names.iter().any(|other| other == name)) {
                if !own.contains_key(name) {
                    missing.entry(name).or_default().insert(text(&container["name"]));
                }
            }
        }
    }
    if missing.is_empty() {
        return None;
    }
    let sentences: Vec<String> = missing
        .into_iter()
        .map(|(name, containers)| {
            format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
        })
        .collect();
    Some(format!("must specify {}", sentences.join("; ")))
}

/// Adds what one object counts for.
pub fn add_usage(sum: &mut Amounts, more: &Amounts) {
    add(sum, more);
}

/// The limits of a quota.
#[must_use]
pub fn quota_limits(quota: &Value) -> Amounts {
    amounts(&quota["spec"]["hard"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(plural: &str) -> &'static Resource {
        schema::resource("", "v1", plural).expect("built in")
    }

    fn shown(usage: &Amounts) -> String {
        usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn each_kind_counts_for_what_it_takes() {
        let pod = json!({"spec": {"containers": [{"resources": {
            "requests": {"cpu": "1", "example.com/gpu": "2"}, "limits": {"memory": "1Gi"}}}]}});
        assert_eq!(
            shown(&quota_usage(resource("pods"), &pod)),
            "count/pods=1,cpu=1,limits.memory=1Gi,pods=1,requests.cpu=1,requests.example.com/gpu=2"
        );
        let mut ended = pod.clone();
        ended["status"] = json!({"phase": "Failed"});
        assert_eq!(shown(&quota_usage(resource("pods"), &ended)), "count/pods=1");
        let service = json!({"spec": {"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}});
        assert_eq!(
            shown(&quota_usage(resource("services"), &service)),
            "count/services=1,services=1,services.loadbalancers=0,services.nodeports=2"
        );
        let claim =
            json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}});
        assert_eq!(
            shown(&quota_usage(resource("persistentvolumeclaims"), &claim)),
            "count/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             fast.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi"
        );
        let deployments = schema::resource("apps", "v1", "deployments").expect("built in");
        assert_eq!(shown(&quota_usage(deployments, &json!({}))), "count/deployments.apps=1");
    }

    #[test]
    fn scopes_say_which_pods_a_quota_is_about() {
        let best_effort = json!({"spec": {"containers": [{"name": "c"}]}});
        let mut deadline = best_effort.clone();
        deadline["spec"]["activeDeadlineSeconds"] = json!(5);
        let mut important = best_effort.clone();
        important["spec"]["priorityClassName"] = json!("high");
        let scopes = |names: Value| json!({"spec": {"scopes": names}});
        let class = |operator: &str, values: Value| {
            json!({"spec": {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": operator, "values": values}]}}})
        };
        let table = [
            (scopes(json!([])), true, true, true),
            (scopes(json!(["BestEffort"])), true, true, true),
            (scopes(json!(["NotBestEffort"])), false, false, false),
            (scopes(json!(["Terminating"])), false, true, false),
            (scopes(json!(["BestEffort", "NotTerminating"])), true, false, true),
            (class("In", json!(["high"])), false, false, true),
            (class("NotIn", json!(["high"])), true, true, false),
            (class("Exists", json!([])), false, false, true),
            (class("DoesNotExist", json!([])), true, true, false),
        ];
        for (quota, plain, with_deadline, with_class) in table {
            let selects = |pod: &Value| quota_selects(resource("pods"), &quota, pod);
            assert_eq!(
                (selects(&best_effort), selects(&deadline), selects(&important)),
                (plain, with_deadline, with_class),
                "{quota}"
            );
        }
        assert!(!quota_selects(resource("secrets"), &scopes(json!(["BestEffort"])), &json!({})));
    }

    #[test]
    fn containers_must_say_what_a_quota_limits() {
        let names: Vec<String> =
            ["limits.memory", "pods", "requests.cpu"].into_iter().map(str::to_owned).collect();
        let pod = json!({"spec": {"containers": [{"name": "b"}, {"name": "a", "resources": {"requests": {"cpu": "1"}}}]}});
        assert_eq!(
            unspecified(&names, &pod).as_deref(),
            Some("must specify limits.memory for: a,b; requests.cpu for: b")
        );
        assert_eq!(unspecified(&["pods".to_owned()], &pod), None);
    }
}
