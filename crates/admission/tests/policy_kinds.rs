//! What create and update refuse for the kinds of limits, storage, networks and budgets, in upstream's sentences.

use admission::{AdmissionRequest, prepare_create, prepare_update};
use schema::{FieldValidation, Resource, builtin, decode_value, resource};
use serde_json::{Value, json};

fn kind(group: &str, plural: &str) -> &'static Resource {
    resource(group, "v1", plural).expect("a built-in resource")
}

fn decoded(resource: &Resource, mut object: Value) -> Value {
    let ty = builtin().type_for(resource.group_version, resource.kind).expect("a built-in type");
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = "x".into();
    }
    if resource.namespaced {
        object["metadata"]["namespace"] = "default".into();
    }
    decode_value(ty, &object, FieldValidation::Strict).expect("well-formed").value
}

fn created(resource: &Resource, object: Value) -> Result<Value, Vec<String>> {
    let mut object = decoded(resource, object);
    match prepare_create(resource, &mut object, &AdmissionRequest::default()) {
        Ok(_) => Ok(object),
        Err(errors) => Err(errors.0.iter().map(ToString::to_string).collect()),
    }
}

fn refused(group: &str, plural: &str, object: Value) -> Vec<String> {
    created(kind(group, plural), object).err().unwrap_or_default()
}

/// What an update of a valid object to another one is told.
fn update_refused(group: &str, plural: &str, old: Value, new: Value) -> Vec<String> {
    let resource = kind(group, plural);
    let old = created(resource, old).expect("valid");
    let mut new = decoded(resource, new);
    match prepare_update(resource, &old, &mut new, &AdmissionRequest::default()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    }
}

fn check(rows: Vec<(Vec<String>, &[&str])>) {
    for (index, (got, want)) in rows.into_iter().enumerate() {
        assert_eq!(got, want, "row {index}");
    }
}

const NETWORKING: &str = "networking.k8s.io";

#[test]
fn endpoints_and_slices() {
    let slice = |fields: Value| {
        let mut whole = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]});
        for (name, value) in fields.as_object().expect("fields") {
            whole[name] = value.clone();
        }
        refused("discovery.k8s.io", "endpointslices", whole)
    };
    check(vec![
        (
            refused("", "endpoints", json!({"subsets": [{"ports": [{"port": 80}]}]})),
            &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
        ),
        (
            refused(
                "",
                "endpoints",
                json!({"subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 1}, {"name": "b", "port": 0}]}]}),
            ),
            &[
                "subsets[0].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
                "subsets[0].ports[0].name: Required value",
                "subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (slice(json!({})), &[]),
        (
            slice(json!({"addressType": "IPv6"})),
            &["endpoints[0].addresses[0]: Invalid value: \"10.0.0.1\": must be a valid IPv6 address"],
        ),
        (
            slice(json!({"endpoints": [{"addresses": []}]})),
            &["endpoints[0].addresses: Required value: must contain at least 1 address"],
        ),
        (slice(json!({"ports": [{"port": 1}, {"port": 2}]})), &["ports[1].name: Duplicate value: \"\""]),
        (
            update_refused(
                "discovery.k8s.io",
                "endpointslices",
                json!({"addressType": "IPv4", "endpoints": []}),
                json!({"addressType": "IPv6", "endpoints": []}),
            ),
            &["addressType: Invalid value: \"IPv6\": field is immutable"],
        ),
    ]);
}

#[test]
fn a_slice_counts_its_changes() {
    let resource = kind("discovery.k8s.io", "endpointslices");
    let with = |addresses: Value| json!({"addressType": "IPv4", "endpoints": [{"addresses": addresses}]});
    let old = created(resource, with(json!(["10.0.0.1"]))).expect("valid");
    assert_eq!(old["metadata"]["generation"], 1);
    let mut same = decoded(resource, with(json!(["10.0.0.1"])));
    prepare_update(resource, &old, &mut same, &AdmissionRequest::default()).expect("valid");
    assert_eq!(same["metadata"]["generation"], 1);
    let mut other = decoded(resource, with(json!(["10.0.0.2"])));
    prepare_update(resource, &old, &mut other, &AdmissionRequest::default()).expect("valid");
    assert_eq!(other["metadata"]["generation"], 2);
}

#[test]
fn limit_ranges() {
    let range = |item: Value| refused("", "limitranges", json!({"spec": {"limits": [item]}}));
    check(vec![
        (
            range(
                json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}),
            ),
            &[
                "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1",
                "spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default request value 1",
                "spec.limits[0].default[cpu]: Invalid value: \"1\": min value 2 is greater than default value 1",
            ],
        ),
        (
            range(json!({"type": "Pod", "default": {"cpu": "1"}})),
            &["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"],
        ),
        (
            range(json!({"type": "Thing"})),
            &[
                "spec.limits[0].type: Invalid value: \"Thing\": must be a standard limit type or fully qualified",
            ],
        ),
        (
            range(json!({"type": "PersistentVolumeClaim"})),
            &[
                "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
            ],
        ),
        (
            range(json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}})),
            &["spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1"],
        ),
    ]);
}

#[test]
fn quotas() {
    let spec = |spec: Value| refused("", "resourcequotas", json!({"spec": spec}));
    check(vec![
        (
            spec(json!({"hard": {"pods": "1500m", "things": "1", "cpu": "-1", "count/jobs.batch": "2"}})),
            &[
                "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "spec.hard[pods]: Invalid value: \"1500m\": must be an integer",
                "spec.hard[things]: Invalid value: \"things\": must be a standard resource for quota",
            ],
        ),
        (
            spec(json!({"hard": {"pods": "1", "secrets": "1"}, "scopes": ["Terminating", "NotTerminating"]})),
            &[
                "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"Terminating\",\"NotTerminating\"]: conflicting scopes",
            ],
        ),
        (
            spec(
                json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}),
            ),
            &[
                "spec.scopeSelector.matchExpressions[0].values: Required value: must be atleast one value when `operator` is 'In' or 'NotIn' for scope selector",
            ],
        ),
        (
            update_refused(
                "",
                "resourcequotas",
                json!({"spec": {"scopes": ["BestEffort"]}}),
                json!({"spec": {}}),
            ),
            &["spec.scopes: Invalid value: null: field is immutable"],
        ),
    ]);
}

#[test]
fn volumes_claims_and_classes() {
    let claim = |spec: Value| refused("", "persistentvolumeclaims", json!({"spec": spec}));
    let good = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let mut grown = good.clone();
    grown["resources"]["requests"]["storage"] = "2Gi".into();
    check(vec![
        (claim(good.clone()), &[]),
        (
            claim(json!({"accessModes": ["Mine"], "volumeMode": "Odd"})),
            &[
                "spec.accessModes: Unsupported value: \"Mine\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.resources[storage]: Required value",
                "spec.volumeMode: Unsupported value: \"Odd\": supported values: \"Block\", \"Filesystem\"",
            ],
        ),
        (
            claim(json!({"resources": {"requests": {"storage": "0"}}})),
            &[
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Invalid value: \"0\": must be greater than zero",
            ],
        ),
        (
            update_refused("", "persistentvolumeclaims", json!({"spec": good}), json!({"spec": grown})),
            &[
                "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
            ],
        ),
        (
            refused(
                "",
                "persistentvolumes",
                json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"}}}),
            ),
            &["spec: Required value: must specify a volume type"],
        ),
        (
            refused(
                "",
                "persistentvolumes",
                json!({"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1"},
                "hostPath": {"path": "/a"}, "nfs": {"server": "s", "path": "/"}}}),
            ),
            &["spec.nfs: Forbidden: may not specify more than 1 volume type"],
        ),
        (refused("storage.k8s.io", "storageclasses", json!({})), &["provisioner: Required value"]),
        (
            update_refused(
                "storage.k8s.io",
                "storageclasses",
                json!({"provisioner": "a"}),
                json!({"provisioner": "b", "volumeBindingMode": "WaitForFirstConsumer"}),
            ),
            &[
                "provisioner: Forbidden: updates to provisioner are forbidden.",
                "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable",
            ],
        ),
    ]);
}

#[test]
fn priorities_runtimes_and_budgets() {
    let budget = |spec: Value| refused("policy", "poddisruptionbudgets", json!({"spec": spec}));
    check(vec![
        (
            refused("scheduling.k8s.io", "priorityclasses", json!({"value": 1_000_000_001})),
            &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        (
            update_refused("scheduling.k8s.io", "priorityclasses", json!({"value": 1}), json!({"value": 2})),
            &["value: Forbidden: may not be changed in an update."],
        ),
        (
            update_refused("node.k8s.io", "runtimeclasses", json!({"handler": "a"}), json!({"handler": "b"})),
            &["handler: Invalid value: \"b\": field is immutable"],
        ),
        (
            budget(json!({"minAvailable": -1})),
            &["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
        ),
        (
            budget(json!({"maxUnavailable": "101%"})),
            &["spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"],
        ),
        (
            budget(json!({"maxUnavailable": "many"})),
            &[
                "spec.maxUnavailable: Invalid value: \"many\": a valid percent string must be a numeric string followed by an \
               ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            ],
        ),
        (
            budget(json!({"minAvailable": 1, "maxUnavailable": 1})),
            &[
                "spec: Invalid value: {\"maxUnavailable\":1,\"minAvailable\":1}: minAvailable and maxUnavailable cannot be both set",
            ],
        ),
    ]);
}

#[test]
fn ingresses_and_network_policies() {
    let path = |fields: Value| {
        let mut path = json!({"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 1}}}});
        for (name, value) in fields.as_object().expect("fields") {
            path[name] = value.clone();
        }
        let errors =
            refused(NETWORKING, "ingresses", json!({"spec": {"rules": [{"http": {"paths": [path]}}]}}));
        errors.into_iter().map(|error| error.replace("spec.rules[0].http.paths[0].", "")).collect()
    };
    let peer = |peer: Value| {
        let spec = json!({"spec": {"podSelector": {}, "ingress": [{"from": [peer]}]}});
        refused(NETWORKING, "networkpolicies", spec)
    };
    check(vec![
        (
            refused(NETWORKING, "ingresses", json!({"spec": {}})),
            &["spec: Invalid value: []: either `defaultBackend` or `rules` must be specified"],
        ),
        (path(json!({})), &[]),
        (
            path(json!({"path": "a//b"})),
            &[
                "path: Invalid value: \"a//b\": must be an absolute path",
                "path: Invalid value: \"a//b\": must not contain '//'",
            ],
        ),
        (path(json!({"pathType": null})), &["pathType: Required value: pathType must be specified"]),
        (
            path(json!({"backend": {"service": {"name": "s"}}})),
            &["backend: Required value: port name or number is required"],
        ),
        (
            peer(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/16", "x"]}})),
            &[
                "spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
                "spec.ingress[0].from[0].ipBlock.except[2]: Invalid value: \"x\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
            ],
        ),
        (peer(json!({})), &["spec.ingress[0].from[0]: Required value: must specify a peer"]),
        (
            refused(NETWORKING, "ingressclasses", json!({"spec": {"controller": "plain"}})),
            &[
                "spec.controller: Invalid value: \"plain\": must be a domain-prefixed path (such as \"acme.io/foo\")",
            ],
        ),
    ]);
    let policy =
        created(kind(NETWORKING, "networkpolicies"), json!({"spec": {"podSelector": {}, "egress": [{}]}}));
    assert_eq!(policy.expect("valid")["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
}

#[test]
fn services_with_balancers_and_nodes() {
    let service = |fields: Value| {
        let mut spec = json!({"ports": [{"port": 80}]});
        for (name, value) in fields.as_object().expect("fields") {
            spec[name] = value.clone();
        }
        json!({"spec": spec})
    };
    let node = |id: &str| json!({"spec": {"providerID": id, "podCIDRs": [format!("10.{id}.0.0/16")]}});
    check(vec![
        (
            refused(
                "",
                "services",
                service(json!({"loadBalancerClass": "example.com/c", "trafficDistribution": "Odd"})),
            ),
            &[
                "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
                "spec.trafficDistribution: Unsupported value: \"Odd\": supported values: \"PreferClose\", \"PreferSameNode\", \"PreferSameZone\"",
            ],
        ),
        (
            update_refused(
                "",
                "services",
                service(json!({"type": "LoadBalancer", "loadBalancerClass": "example.com/c"})),
                service(json!({"type": "LoadBalancer", "loadBalancerClass": "example.com/d"})),
            ),
            &["spec.loadBalancerClass: Invalid value: \"example.com/d\": may not change once set"],
        ),
        (
            update_refused(
                "",
                "services",
                service(json!({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]})),
                service(json!({"clusterIP": "10.96.0.8", "clusterIPs": ["10.96.0.8"]})),
            ),
            &["spec.clusterIPs[0]: Invalid value: [\"10.96.0.8\"]: may not change once set"],
        ),
        (
            update_refused("", "nodes", node("1"), node("2")),
            &[
                "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
                "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
            ],
        ),
    ]);
}
