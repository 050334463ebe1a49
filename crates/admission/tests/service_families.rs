//! Families and addresses of services: what each policy means in each cluster, and what an update may make of them, in upstream's
//! sentences (pkg/registry/core/service, pkg/apis/core/validation of Kubernetes 1.36).

use admission::{AdmissionRequest, ClusterFamilies, IpFamily, prepare_create, prepare_update};
use schema::{FieldValidation, builtin, decode_value, resource};
use serde_json::{Value, json};

const V4: ClusterFamilies = ClusterFamilies { first: IpFamily::V4, has_both: false };
const V6: ClusterFamilies = ClusterFamilies { first: IpFamily::V6, has_both: false };
const V4_V6: ClusterFamilies = ClusterFamilies { first: IpFamily::V4, has_both: true };
const V6_V4: ClusterFamilies = ClusterFamilies { first: IpFamily::V6, has_both: true };

fn decoded(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if spec["type"] != "ExternalName" {
        spec["ports"] = json!([{"port": 80}]);
    }
    let object = json!({"metadata": {"name": "x", "namespace": "default"}, "spec": spec});
    let ty = builtin().type_for("v1", "Service").expect("a built-in type");
    decode_value(ty, &object, FieldValidation::Strict).expect("well-formed").value
}

fn with(mut spec: Value, more: &Value) -> Value {
    for (name, value) in more.as_object().expect("fields") {
        match value {
            Value::Null => drop(spec.as_object_mut().expect("fields").remove(name)),
            value => spec[name] = value.clone(),
        }
    }
    spec
}

/// Families, policy and addresses.
fn shown(service: &Value) -> String {
    let spec = &service["spec"];
    let list = |name: &str| {
        let all = spec[name].as_array().map(Vec::as_slice).unwrap_or_default();
        all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
    };
    let policy = spec["ipFamilyPolicy"].as_str().unwrap_or("-");
    format!("{} | {policy} | {}", list("ipFamilies"), list("clusterIPs"))
}

fn created(cluster: ClusterFamilies, spec: &Value) -> Result<Value, String> {
    let services = resource("", "v1", "services").expect("a core resource");
    let request = AdmissionRequest { families: cluster, ..AdmissionRequest::default() };
    let mut service = decoded(spec);
    prepare_create(services, &mut service, &request).map_err(|errors| errors.to_string())?;
    Ok(service)
}

fn updated(cluster: ClusterFamilies, old: &Value, spec: &Value) -> Result<Value, String> {
    let services = resource("", "v1", "services").expect("a core resource");
    let request = AdmissionRequest { families: cluster, ..AdmissionRequest::default() };
    let mut service = decoded(spec);
    prepare_update(services, old, &mut service, &request).map_err(|errors| errors.to_string())?;
    Ok(service)
}

/// What one row shows: the sentence of the refusal, or the families.
fn told(outcome: Result<Value, String>) -> String {
    outcome.map_or_else(|refusal| refusal, |service| shown(&service))
}

#[test]
fn a_new_service_has_the_families_that_its_policy_and_the_cluster_give_it() {
    let chosen = json!({"selector": {"app": "web"}});
    let headless = json!({"selector": {"app": "web"}, "clusterIP": "None"});
    let own = json!({"clusterIP": "None"});
    let not_both = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services";
    for (cluster, spec, more, expected) in [
        (V4, &chosen, json!({}), "IPv4 | SingleStack | "),
        (V6, &chosen, json!({}), "IPv6 | SingleStack | "),
        (V4_V6, &chosen, json!({}), "IPv4 | SingleStack | "),
        (V6_V4, &chosen, json!({}), "IPv6 | SingleStack | "),
        (V4, &chosen, json!({"ipFamilyPolicy": "PreferDualStack"}), "IPv4 | PreferDualStack | "),
        (V4_V6, &chosen, json!({"ipFamilyPolicy": "PreferDualStack"}), "IPv4 IPv6 | PreferDualStack | "),
        (V6_V4, &chosen, json!({"ipFamilyPolicy": "PreferDualStack"}), "IPv6 IPv4 | PreferDualStack | "),
        (V4, &chosen, json!({"ipFamilyPolicy": "RequireDualStack"}), not_both),
        (V4_V6, &chosen, json!({"ipFamilyPolicy": "RequireDualStack"}), "IPv4 IPv6 | RequireDualStack | "),
        (V4_V6, &chosen, json!({"ipFamilies": ["IPv6"]}), "IPv6 | SingleStack | "),
        (
            V4_V6,
            &chosen,
            json!({"ipFamilies": ["IPv6"], "ipFamilyPolicy": "PreferDualStack"}),
            "IPv6 IPv4 | PreferDualStack | ",
        ),
        (
            V4,
            &chosen,
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            V4,
            &chosen,
            json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}),
            "spec.ipFamilies[1]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            V4_V6,
            &chosen,
            json!({"ipFamilies": ["IPv4", "IPv6"]}),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
        (
            V4_V6,
            &chosen,
            json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]}),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified",
        ),
        (V4_V6, &chosen, json!({"clusterIP": "fd00::1"}), "IPv6 | SingleStack | fd00::1"),
        (
            V4_V6,
            &chosen,
            json!({"clusterIP": "fd00::1", "ipFamilyPolicy": "RequireDualStack"}),
            "IPv6 IPv4 | RequireDualStack | fd00::1",
        ),
        (
            V4_V6,
            &chosen,
            json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.0.0.1"], "ipFamilyPolicy": "PreferDualStack"}),
            "IPv6 IPv4 | PreferDualStack | fd00::1 10.0.0.1",
        ),
        (
            V4,
            &chosen,
            json!({"clusterIP": "fd00::1"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
        (V4, &headless, json!({}), "IPv4 | SingleStack | None"),
        (V4_V6, &headless, json!({}), "IPv4 | SingleStack | None"),
        (
            V4_V6,
            &headless,
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            "IPv4 IPv6 | PreferDualStack | None",
        ),
        (V4, &headless, json!({"ipFamilyPolicy": "RequireDualStack"}), not_both),
        (V4, &own, json!({}), "IPv4 IPv6 | RequireDualStack | None"),
        (V6, &own, json!({}), "IPv6 IPv4 | RequireDualStack | None"),
        (V4, &own, json!({"ipFamilyPolicy": "SingleStack"}), "IPv4 | SingleStack | None"),
        (
            V4,
            &own,
            json!({"ipFamilies": ["IPv6"], "ipFamilyPolicy": "SingleStack"}),
            "IPv6 | SingleStack | None",
        ),
        (V4, &own, json!({"ipFamilyPolicy": "PreferDualStack"}), "IPv4 IPv6 | PreferDualStack | None"),
        (V4_V6, &json!({"type": "ExternalName", "externalName": "a.b"}), json!({}), " | - | "),
        (
            V4_V6,
            &json!({"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.0.0.1"}),
            json!({"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
            "[spec.clusterIPs: Forbidden: may not be set for ExternalName services, spec.ipFamilies: Forbidden: may not be set for ExternalName services, spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services]",
        ),
    ] {
        assert_eq!(
            told(created(cluster, &with(spec.clone(), &more))),
            expected,
            "{spec} {more} in {cluster:?}"
        );
    }
}

#[test]
fn addresses_and_families_that_do_not_fit_each_other_are_refused_before_anything_else() {
    for (spec, expected) in [
        (
            json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"]}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: first value must match `clusterIP`",
        ),
        (
            json!({"clusterIPs": ["10.0.0.2"]}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: must be empty when `clusterIP` is not specified",
        ),
        (
            json!({"clusterIP": "None", "clusterIPs": ["None", "10.0.0.1"]}),
            "spec.clusterIPs: Invalid value: [\"None\",\"10.0.0.1\"]: 'None' must be the first and only value",
        ),
        (
            json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "None"]}),
            "spec.clusterIPs[1]: Invalid value: \"None\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
        (
            json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "10.0.0.2"]}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"10.0.0.2\"]: may specify no more than one IP for each IP family",
        ),
        (
            json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1", "fd00::2"]}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.1\",\"fd00::1\",\"fd00::2\"]: may only hold up to 2 values",
        ),
        (
            json!({"clusterIP": "fd00::1", "ipFamilies": ["IPv4"]}),
            "spec.clusterIPs[0]: Invalid value: \"fd00::1\": expected an IPv4 value as indicated by `ipFamilies[0]`",
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv4"], "ports": []}),
            "spec.ipFamilies[1]: Duplicate value: \"IPv4\"",
        ),
        (
            json!({"ipFamilies": ["IPv5"]}),
            "spec.ipFamilies[0]: Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\"",
        ),
        (
            json!({"ipFamilyPolicy": "Some"}),
            "spec.ipFamilyPolicy: Unsupported value: \"Some\": supported values: \"PreferDualStack\", \"RequireDualStack\", \"SingleStack\"",
        ),
    ] {
        assert_eq!(told(created(V4_V6, &spec)), expected, "{spec}");
    }
}

fn single() -> Value {
    json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"})
}

fn dual(policy: &str) -> Value {
    json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": policy})
}

#[test]
fn an_update_adds_or_gives_up_the_second_family_only_where_it_says_so() {
    let (one, two) = (single(), dual("RequireDualStack"));
    let preferred = with(single(), &json!({"ipFamilyPolicy": "PreferDualStack"}));
    let all = json!({"clusterIP": null, "clusterIPs": null, "ipFamilies": null, "ipFamilyPolicy": null});
    for (what, cluster, old, change, expected) in [
        (
            "upgrade",
            V4_V6,
            &one,
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            "IPv4 IPv6 | PreferDualStack | 10.0.0.1",
        ),
        (
            "upgrade",
            V4_V6,
            &one,
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "IPv4 IPv6 | RequireDualStack | 10.0.0.1",
        ),
        (
            "upgrade with a name",
            V4_V6,
            &one,
            json!({"ipFamilyPolicy": "RequireDualStack", "clusterIPs": ["10.0.0.1", "fd00::9"]}),
            "IPv4 IPv6 | RequireDualStack | 10.0.0.1 fd00::9",
        ),
        (
            "nothing to add",
            V4,
            &one,
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            "IPv4 | PreferDualStack | 10.0.0.1",
        ),
        (
            "nothing to add",
            V4,
            &one,
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        ("not by itself", V4_V6, &preferred, json!({}), "IPv4 | PreferDualStack | 10.0.0.1"),
        (
            "both stay",
            V4,
            &dual("PreferDualStack"),
            json!({}),
            "IPv4 IPv6 | PreferDualStack | 10.0.0.1 fd00::1",
        ),
        ("downgrade", V4_V6, &two, json!({"ipFamilyPolicy": "SingleStack"}), "IPv4 | SingleStack | 10.0.0.1"),
        (
            "downgrade of what is left",
            V4,
            &two,
            json!({"ipFamilyPolicy": "SingleStack"}),
            "IPv4 | SingleStack | 10.0.0.1",
        ),
        (
            "downgrade by name",
            V4_V6,
            &two,
            json!({"ipFamilyPolicy": "SingleStack", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"]}),
            "IPv4 | SingleStack | 10.0.0.1",
        ),
        (
            "which policy",
            V4_V6,
            &two,
            json!({"clusterIPs": ["10.0.0.1"]}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary cluster IP",
        ),
        (
            "which policy",
            V4_V6,
            &two,
            json!({"ipFamilies": ["IPv4"]}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary IP family",
        ),
        ("applied again", V4_V6, &two, all.clone(), "IPv4 IPv6 | RequireDualStack | 10.0.0.1 fd00::1"),
        ("applied again", V4_V6, &one, all, "IPv4 | SingleStack | 10.0.0.1"),
        (
            "another address",
            V4_V6,
            &one,
            json!({"clusterIP": "10.0.0.2"}),
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set",
        ),
        (
            "another address",
            V4_V6,
            &one,
            json!({"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]}),
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set",
        ),
        (
            "only the list",
            V4_V6,
            &one,
            json!({"clusterIPs": ["10.0.0.2"]}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.2\"]: first value must match `clusterIP`",
        ),
        (
            "the second one",
            V4_V6,
            &two,
            json!({"clusterIPs": ["10.0.0.1", "fd00::2"]}),
            "spec.clusterIPs[1]: Invalid value: [\"10.0.0.1\",\"fd00::2\"]: may not change once set",
        ),
        (
            "the first of two",
            V4_V6,
            &two,
            json!({"clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2", "fd00::1"]}),
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\",\"fd00::1\"]: may not change once set",
        ),
        ("cleared is kept", V4_V6, &one, json!({"clusterIP": ""}), "IPv4 | SingleStack | 10.0.0.1"),
        (
            "headless",
            V4_V6,
            &one,
            json!({"clusterIP": "None"}),
            "spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set",
        ),
        (
            "another family",
            V4_V6,
            &one,
            json!({"ipFamilies": ["IPv6"]}),
            "spec.clusterIPs[0]: Invalid value: \"10.0.0.1\": expected an IPv6 value as indicated by `ipFamilies[0]`",
        ),
        (
            "the other way round",
            V4_V6,
            &two,
            json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.0.0.1"], "ipFamilies": ["IPv6", "IPv4"]}),
            "[spec.clusterIPs[0]: Invalid value: [\"fd00::1\",\"10.0.0.1\"]: may not change once set, \
             spec.clusterIPs[1]: Invalid value: [\"fd00::1\",\"10.0.0.1\"]: may not change once set, \
             spec.ipFamilies[0]: Invalid value: [\"IPv6\",\"IPv4\"]: may not change once set]",
        ),
        ("to a name", V4_V6, &two, json!({"type": "ExternalName", "externalName": "a.b"}), " | - | "),
        (
            "to a name, as in old times",
            V4_V6,
            &two,
            json!({"type": "ExternalName", "externalName": "a.b", "clusterIP": ""}),
            " | - | ",
        ),
        (
            "to a name with another address",
            V4_V6,
            &one,
            json!({"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.0.0.2"}),
            "spec.clusterIPs: Forbidden: may not be set for ExternalName services",
        ),
    ] {
        // As it was in a cluster with as many families as it has.
        let then = if old["ipFamilies"].as_array().is_some_and(|all| all.len() > 1) { V4_V6 } else { V4 };
        let old = created(then, old).expect("valid");
        let mut spec = old["spec"].clone();
        spec.as_object_mut().expect("fields").remove("ports");
        assert_eq!(told(updated(cluster, &old, &with(spec, &change))), expected, "{what}: {change}");
    }
}

#[test]
fn a_headless_service_may_change_its_families_and_a_name_becomes_a_service() {
    let headless = created(V4_V6, &json!({"clusterIP": "None", "selector": {"app": "web"}})).expect("valid");
    for (change, expected) in [
        (json!({"ipFamilies": ["IPv6"]}), "IPv6 | SingleStack | None"),
        (json!({"ipFamilyPolicy": "PreferDualStack"}), "IPv4 IPv6 | PreferDualStack | None"),
        (json!({"clusterIP": ""}), "IPv4 | SingleStack | None"),
        (
            json!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}),
            "spec.clusterIPs[0]: Invalid value: [\"10.0.0.1\"]: may not change once set",
        ),
    ] {
        let mut spec = headless["spec"].clone();
        spec.as_object_mut().expect("fields").remove("ports");
        assert_eq!(told(updated(V4_V6, &headless, &with(spec, &change))), expected, "{change}");
    }
    let name = created(V4_V6, &json!({"type": "ExternalName", "externalName": "a.b"})).expect("valid");
    let spec = json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack"});
    assert_eq!(told(updated(V6_V4, &name, &spec)), "IPv6 IPv4 | PreferDualStack | ");
    assert_eq!(told(updated(V6_V4, &name, &json!({"type": "ClusterIP"}))), "IPv6 | SingleStack | ");
}
