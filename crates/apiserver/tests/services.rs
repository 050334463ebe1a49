//! Services as the API server allocates for them, where the server itself is reached, and autoscalers, which are refused.
#![allow(missing_docs)]

mod support;

use std::sync::Arc;

use apiserver::{ApiServerConfig, NoNodes};
use http::StatusCode;
use serde_json::{Value, json};
use support::{DEFAULT, Running, create, until};

const MERGE: &str = "application/merge-patch+json";

fn service(name: &str, spec: Value) -> Value {
    let mut whole = json!({"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]});
    for (key, value) in spec.as_object().expect("a map") {
        whole[key] = value.clone();
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": whole})
}

async fn patch(running: &Running, name: &str, spec: Value) -> (StatusCode, Value) {
    let path = format!("{DEFAULT}/services/{name}");
    running
        .call("PATCH", &path, &[("content-type", MERGE)], json!({"spec": spec}).to_string().as_bytes())
        .await
}

async fn small() -> Running {
    let config = ApiServerConfig {
        service_ranges: "10.9.0.0/28".parse().expect("a range"),
        ..ApiServerConfig::default()
    };
    Running::start_with(config, Arc::new(NoNodes)).await
}

#[tokio::test]
async fn a_service_range_that_is_used_up_is_said_to_be_and_a_deletion_makes_room() {
    let running = small().await;
    let services = format!("{DEFAULT}/services");
    for number in 0..13 {
        create(&running, &services, &service(&format!("s{number}"), json!({}))).await;
    }
    let (code, answer) = running.post(&services, &service("more", json!({}))).await;
    assert_eq!(code, 422, "{answer}");
    let message = answer["message"].as_str().expect("a message");
    assert!(
        message.contains("range 10.9.0.0/28 is full") && message.contains("delete a service"),
        "{message}"
    );
    create(&running, &services, &service("headless", json!({"clusterIP": "None"}))).await;
    let old = running.get(&format!("{services}/s7")).await.1;
    assert_eq!(running.call("DELETE", &format!("{services}/s7"), &[], b"").await.0, 200);
    let new = create(&running, &services, &service("more", json!({}))).await;
    assert_eq!(new["spec"]["clusterIP"], old["spec"]["clusterIP"], "the only one that is free");
    // A rehearsal takes nothing.
    running.call("DELETE", &format!("{services}/s8"), &[], b"").await;
    for _ in 0..3 {
        let (code, answer) =
            running.post(&format!("{services}?dryRun=All"), &service("dry", json!({}))).await;
        assert_eq!(code, 201, "{answer}");
    }
}

#[tokio::test]
async fn addresses_and_ports_that_clash_are_told_by_name() {
    let running = Running::start().await;
    let services = format!("{DEFAULT}/services");
    let one =
        json!({"clusterIP": "10.43.7.7", "type": "NodePort", "ports": [{"port": 80, "nodePort": 30007}]});
    create(&running, &services, &service("one", one)).await;
    for (spec, expected) in [
        (
            json!({"clusterIP": "10.43.7.7"}),
            "failed to allocate IP 10.43.7.7: provided IP is already allocated",
        ),
        (
            json!({"clusterIP": "10.44.0.1"}),
            "is not in the valid range. The range of valid IPs is 10.43.0.0/16",
        ),
        (json!({"clusterIP": "10.43.0.1"}), "provided IP is already allocated"),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30007}]}),
            "spec.ports[0].nodePort: Invalid value: 30007: provided port is already allocated",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            "The range of valid ports is 30000-32767",
        ),
        (json!({"ports": [{"port": 80, "nodePort": 30008}]}), "may not be used when `type` is 'ClusterIP'"),
    ] {
        let (code, answer) = running.post(&services, &service("two", spec.clone())).await;
        assert_eq!(code, 422, "{spec}: {answer}");
        assert!(answer["message"].as_str().is_some_and(|said| said.contains(expected)), "{spec}: {answer}");
    }
    let (code, answer) = running.post(&services, &service("one", json!({}))).await;
    assert_eq!((code.as_u16(), answer["message"].as_str()), (409, Some("services \"one\" already exists")));
    let both = json!([{"name": "t", "port": 53, "nodePort": 30053},
        {"name": "u", "port": 53, "protocol": "UDP", "nodePort": 30053}]);
    create(&running, &services, &service("dns", json!({"type": "NodePort", "ports": both}))).await;
}

#[tokio::test]
async fn what_a_type_brings_with_it_is_given_back_with_the_type() {
    let running = Running::start().await;
    let services = format!("{DEFAULT}/services");
    let made = create(
        &running,
        &services,
        &service("web", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})),
    )
    .await;
    let port = made["spec"]["ports"][0]["nodePort"].as_u64().expect("a port");
    let health = made["spec"]["healthCheckNodePort"].as_u64().expect("a port for health checks");
    assert_eq!(made["spec"]["allocateLoadBalancerNodePorts"], true);
    assert_eq!(made["status"], json!({"loadBalancer": {}}), "nobody provides a balancer");
    let (code, changed) = patch(&running, "web", json!({"type": "ClusterIP"})).await;
    assert_eq!(code, 200, "{changed}");
    let spec = &changed["spec"];
    for gone in ["externalTrafficPolicy", "healthCheckNodePort", "allocateLoadBalancerNodePorts"] {
        assert_eq!(spec.get(gone), None, "{gone}");
    }
    assert_eq!(spec["ports"][0].get("nodePort"), None);
    assert_eq!(spec["clusterIP"], made["spec"]["clusterIP"], "the address stays");
    for number in [port, health] {
        let taken = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": number}]});
        create(&running, &services, &service(&format!("takes-{number}"), taken)).await;
    }
    let name = json!({"type": "ExternalName", "externalName": "example.com"});
    let (code, changed) = patch(&running, "web", name).await;
    assert_eq!(code, 200, "{changed}");
    for gone in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
        assert_eq!(changed["spec"].get(gone), None, "{gone}");
    }
    let again = json!({"clusterIP": made["spec"]["clusterIP"]});
    create(&running, &services, &service("takes-address", again)).await;
    let (code, back) = patch(&running, "web", json!({"type": "ClusterIP", "externalName": null})).await;
    assert_eq!(code, 200, "{back}");
    assert_ne!(back["spec"]["clusterIP"], made["spec"]["clusterIP"]);
    let without = json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false});
    let plain = create(&running, &services, &service("plain", without)).await;
    assert_eq!(plain["spec"]["ports"][0].get("nodePort"), None);
}

#[tokio::test]
async fn families_are_those_of_the_cluster_unless_endpoints_are_the_users_own() {
    let running = Running::start().await;
    let services = format!("{DEFAULT}/services");
    let v4 = json!(["IPv4"]);
    let both = json!(["IPv4", "IPv6"]);
    for (name, spec, families, policy) in [
        ("plain", json!({}), &v4, "SingleStack"),
        ("prefer", json!({"ipFamilyPolicy": "PreferDualStack"}), &v4, "PreferDualStack"),
        ("headless", json!({"clusterIP": "None"}), &v4, "SingleStack"),
        ("own", json!({"clusterIP": "None", "selector": null}), &both, "RequireDualStack"),
        (
            "own-single",
            json!({"clusterIP": "None", "selector": null, "ipFamilyPolicy": "SingleStack"}),
            &v4,
            "SingleStack",
        ),
    ] {
        let made = create(&running, &services, &service(name, spec)).await;
        assert_eq!(
            (&made["spec"]["ipFamilies"], &made["spec"]["ipFamilyPolicy"]),
            (families, &json!(policy)),
            "{name}"
        );
    }
    for (spec, expected) in [
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (json!({"ipFamilies": ["IPv4", "IPv4"]}), "spec.ipFamilies[1]: Duplicate value: \"IPv4\""),
        (
            json!({"ipFamilies": ["IPv5"]}),
            "spec.ipFamilies[0]: Unsupported value: \"IPv5\": supported values: \"IPv4\", \"IPv6\"",
        ),
        (json!({"ipFamilyPolicy": "Some"}), "spec.ipFamilyPolicy: Unsupported value: \"Some\""),
        (
            json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack"}),
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
        (
            json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"], "ipFamilies": ["IPv4"]}),
            "expected an IPv4 value as indicated by `ipFamilies[0]`",
        ),
        (
            json!({"type": "ExternalName", "externalName": "example.com", "ipFamilies": ["IPv4"]}),
            "spec.ipFamilies: Forbidden: may not be set for ExternalName services",
        ),
        (
            json!({"healthCheckNodePort": 30100}),
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ),
        (
            json!({"allocateLoadBalancerNodePorts": true}),
            "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ),
    ] {
        let (code, answer) = running.post(&services, &service("bad", spec.clone())).await;
        assert_eq!(code, 422, "{spec}: {answer}");
        assert!(answer["message"].as_str().is_some_and(|said| said.contains(expected)), "{spec}: {answer}");
    }
}

async fn with_ranges(ranges: &str) -> Running {
    let config =
        ApiServerConfig { service_ranges: ranges.parse().expect("ranges"), ..ApiServerConfig::default() };
    Running::start_with(config, Arc::new(NoNodes)).await
}

#[tokio::test]
async fn a_service_gets_its_second_address_and_gives_it_back_as_its_policy_says() {
    let running = with_ranges("10.9.0.0/24,fd00:9::/124").await;
    let services = format!("{DEFAULT}/services");
    let made = create(&running, &services, &service("web", json!({}))).await;
    assert_eq!(
        (&made["spec"]["ipFamilies"], &made["spec"]["ipFamilyPolicy"]),
        (&json!(["IPv4"]), &json!("SingleStack"))
    );
    let (code, both) = patch(&running, "web", json!({"ipFamilyPolicy": "PreferDualStack"})).await;
    assert_eq!(code, 200, "{both}");
    assert_eq!(both["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(both["spec"]["clusterIPs"][0], made["spec"]["clusterIP"], "the first one stays");
    let second = both["spec"]["clusterIPs"][1].as_str().expect("an address").to_owned();
    assert!(second.starts_with("fd00:9::"), "{second}");
    let wants = |name: &str| service(name, json!({"clusterIP": second, "ipFamilies": ["IPv6"]}));
    assert_eq!(running.post(&services, &wants("thief")).await.0, 422, "it is taken");
    let rehearsal = format!("{DEFAULT}/services/web?dryRun=All");
    let body = json!({"spec": {"ipFamilyPolicy": "SingleStack"}}).to_string();
    let (code, rehearsed) =
        running.call("PATCH", &rehearsal, &[("content-type", MERGE)], body.as_bytes()).await;
    assert_eq!((code.as_u16(), &rehearsed["spec"]["ipFamilies"]), (200, &json!(["IPv4"])));
    assert_eq!(running.post(&services, &wants("thief")).await.0, 422, "a rehearsal gives nothing back");
    let (code, one) = patch(&running, "web", json!({"ipFamilyPolicy": "SingleStack"})).await;
    assert_eq!(
        (code.as_u16(), &one["spec"]["clusterIPs"]),
        (200, &json!([made["spec"]["clusterIP"]])),
        "{one}"
    );
    create(&running, &services, &wants("heir")).await;
    // Sixteen addresses, one for nobody, one reserved, one taken by name.
    for number in 0..13 {
        create(
            &running,
            &services,
            &service(&format!("s{number}"), json!({"ipFamilyPolicy": "RequireDualStack"})),
        )
        .await;
    }
    let (code, answer) =
        running.post(&services, &service("more", json!({"ipFamilyPolicy": "RequireDualStack"}))).await;
    assert_eq!(code, 422, "{answer}");
    assert!(
        answer["message"].as_str().is_some_and(|said| said.contains("range fd00:9::/124 is full")),
        "{answer}"
    );
    assert_eq!(patch(&running, "web", json!({"ipFamilyPolicy": "RequireDualStack"})).await.0, 422);
    create(&running, &services, &service("more", json!({}))).await;
    assert_eq!(running.call("DELETE", &format!("{services}/s7"), &[], b"").await.0, 200);
    let (code, back) = patch(&running, "web", json!({"ipFamilyPolicy": "RequireDualStack"})).await;
    assert_eq!(code, 200, "a deletion makes room in both: {back}");
}

#[tokio::test]
async fn the_first_range_is_that_of_services_which_ask_for_no_family() {
    let running = with_ranges("fd00:9::/112,10.9.0.0/24").await;
    let services = format!("{DEFAULT}/services");
    let kubernetes = running.get(&format!("{services}/kubernetes")).await.1;
    assert_eq!(kubernetes["spec"]["clusterIPs"], json!(["10.9.0.1"]), "pods reach the API over IPv4");
    assert_eq!(
        (&kubernetes["spec"]["ipFamilies"], &kubernetes["spec"]["ipFamilyPolicy"]),
        (&json!(["IPv4"]), &json!("SingleStack"))
    );
    let made =
        create(&running, &services, &service("web", json!({"ipFamilyPolicy": "RequireDualStack"}))).await;
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv6", "IPv4"]));
    assert_eq!(made["spec"]["clusterIP"], made["spec"]["clusterIPs"][0]);
    let made = create(&running, &services, &service("old", json!({"ipFamilies": ["IPv4"]}))).await;
    assert!(
        made["spec"]["clusterIP"].as_str().is_some_and(|address| address.starts_with("10.9.0.")),
        "{made}"
    );
    // Whoever creates it manages what he wrote, and not what was found for him.
    let managed = made["metadata"]["managedFields"].to_string();
    assert!(managed.contains("f:ipFamilies") && !managed.contains("f:ipFamilyPolicy"), "{managed}");
}

#[tokio::test]
async fn a_server_with_other_ranges_keeps_every_service_and_makes_its_own_anew() {
    let store = store::Store::in_memory().expect("a store");
    let start = |ranges: &str| {
        let config =
            ApiServerConfig { service_ranges: ranges.parse().expect("ranges"), ..ApiServerConfig::default() };
        Running::start_on(config, store.clone(), Arc::new(NoNodes))
    };
    let services = format!("{DEFAULT}/services");
    let mut running = start("10.9.0.0/24,fd00:9::/112").await;
    let spec = json!({"ipFamilyPolicy": "PreferDualStack", "clusterIP": "10.9.0.9"});
    let made = create(&running, &services, &service("web", spec)).await;
    running.stop().await;
    // The second family is gone.
    let mut running = start("10.9.0.0/24").await;
    let found = running.get(&format!("{services}/web")).await.1;
    assert_eq!(found["spec"], made["spec"], "nothing is lost");
    let ports = json!({"ports": [{"name": "http", "port": 81}]});
    let (code, changed) = patch(&running, "web", ports).await;
    assert_eq!(
        (code.as_u16(), &changed["spec"]["clusterIPs"]),
        (200, &made["spec"]["clusterIPs"]),
        "{changed}"
    );
    let (code, answer) = running.post(&services, &service("clash", json!({"clusterIP": "10.9.0.9"}))).await;
    assert_eq!(code, 422, "its address is still its own: {answer}");
    running.stop().await;
    // And it is back, as the first one.
    let mut running = start("fd00:9::/112,10.10.0.0/24").await;
    let clash = service("clash", json!({"clusterIP": made["spec"]["clusterIPs"][1]}));
    assert_eq!(running.post(&services, &clash).await.0, 422, "its address is still its own");
    let kubernetes = running.get(&format!("{services}/kubernetes")).await.1;
    assert_eq!(kubernetes["spec"]["clusterIP"], "10.10.0.1");
    let found = running.get(&format!("{services}/web")).await.1;
    assert_eq!(found["spec"]["clusterIPs"], made["spec"]["clusterIPs"], "nothing is lost");
    running.stop().await;
    let running = start("10.9.0.0/28").await;
    assert_eq!(running.get(&format!("{services}/kubernetes")).await.1["spec"]["clusterIP"], "10.9.0.1");
}

#[tokio::test]
async fn ten_thousand_services_have_ten_thousand_addresses() {
    let running = Running::start().await;
    let services = format!("{DEFAULT}/services");
    let mut seen = std::collections::BTreeSet::new();
    for batch in 0..100 {
        let made = futures::future::join_all((0..100).map(|number| {
            let body = service(&format!("s{batch}-{number}"), json!({}));
            let services = &services;
            let running = &running;
            async move { create(running, services, &body).await }
        }))
        .await;
        for one in made {
            assert!(seen.insert(one["spec"]["clusterIP"].as_str().expect("an address").to_owned()));
        }
    }
    assert_eq!(seen.len(), 10_000);
    let (code, page) = running.get(&format!("{services}?limit=500")).await;
    assert_eq!((code.as_u16(), page["items"].as_array().map(Vec::len)), (200, Some(500)));
}

#[tokio::test]
async fn default_kubernetes_says_where_the_api_is_reached_and_keeps_saying_it() {
    let running = Running::start().await;
    let (endpoints, slice) = (
        format!("{DEFAULT}/endpoints/kubernetes"),
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    );
    running.server.advertise("127.0.0.1:6443".parse().expect("an address")).await;
    assert_eq!(running.get(&endpoints).await.0, 404, "no pod reaches loopback");
    running.server.advertise("192.0.2.7:6443".parse().expect("an address")).await;
    let shown = running.get(&endpoints).await.1;
    assert_eq!(
        shown["subsets"],
        json!([{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}])
    );
    assert_eq!(shown["metadata"]["labels"], json!({"endpointslice.kubernetes.io/skip-mirror": "true"}));
    let shown = running.get(slice).await.1;
    assert_eq!(shown["endpoints"], json!([{"addresses": ["192.0.2.7"], "conditions": {"ready": true}}]));
    assert_eq!(shown["metadata"]["labels"], json!({"kubernetes.io/service-name": "kubernetes"}));
    let is_right = |object: &Value| object.to_string().contains("192.0.2.7");
    // Whatever somebody makes of them is set right.
    assert_eq!(running.call("DELETE", &endpoints, &[], b"").await.0, 200);
    until(&running, &endpoints, is_right).await;
    let wrong = json!({"endpoints": [{"addresses": ["192.0.2.66"]}]}).to_string();
    running.call("PATCH", slice, &[("content-type", MERGE)], wrong.as_bytes()).await;
    until(&running, slice, is_right).await;
    running.server.advertise("192.0.2.8:7443".parse().expect("an address")).await;
    assert_eq!(running.get(slice).await.1["ports"][0]["port"], 7443);
    running.server.advertise("[2001:db8::1]:6443".parse().expect("an address")).await;
    assert_eq!(running.get(slice).await.1["addressType"], "IPv6");
}

#[tokio::test]
async fn an_autoscaler_is_refused_with_a_sentence_and_nothing_else_minds() {
    let running = Running::start().await;
    for version in ["v1", "v2"] {
        let path = format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
        let scaler = json!({"apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}});
        let (code, answer) = running.post(&path, &scaler).await;
        assert_eq!((code.as_u16(), &answer["reason"]), (403, &json!("Forbidden")), "{answer}");
        let message = answer["message"].as_str().expect("a message");
        assert!(
            message.contains("does not scale by load") && message.contains("kubectl scale deployment/web"),
            "{message}"
        );
        let (code, answer) = running.post(&format!("{path}?dryRun=All"), &scaler).await;
        assert_eq!(code, 403, "{answer}");
        let headers = [("content-type", "application/apply-patch+yaml")];
        let apply = format!("{path}/web?fieldManager=me");
        let (code, answer) = running.call("PATCH", &apply, &headers, scaler.to_string().as_bytes()).await;
        assert_eq!(code, 403, "{answer}");
        let (code, list) = running.get(&path).await;
        assert_eq!(
            (code.as_u16(), &list["kind"], &list["items"]),
            (200, &json!("HorizontalPodAutoscalerList"), &json!([]))
        );
        let (code, answer) = running.get(&format!("{path}/web")).await;
        assert_eq!((code.as_u16(), &answer["reason"]), (404, &json!("NotFound")));
        assert_eq!(running.call("DELETE", &format!("{path}/web"), &[], b"").await.0, 404);
        assert_eq!(running.get(&format!("/openapi/v3/apis/autoscaling/{version}")).await.0, 200);
    }
    let (_, group) = running.get("/apis/autoscaling").await;
    assert_eq!(group["preferredVersion"]["version"], "v2");
    let (_, resources) = running.get("/apis/autoscaling/v2").await;
    assert_eq!(resources["resources"][0]["shortNames"], json!(["hpa"]));
}
