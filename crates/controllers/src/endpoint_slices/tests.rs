use serde_json::{Value, json};

use super::decision::{Decision, NodeFact, View, decide};
use super::*;
use k8s_openapi::api::core::v1::Pod;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("readable")
}

fn service(spec: Value) -> Service {
    let mut whole = json!({"clusterIP": "10.43.0.7", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}]});
    for (key, value) in spec.as_object().expect("a map") {
        whole[key] = value.clone();
    }
    read(
        json!({"metadata": {"name": "web", "namespace": "n", "uid": "s1", "labels": {"tier": "front", MANAGED_BY: "me"}},
        "spec": whole}),
    )
}

fn pod(name: &str, address: &str, ready: bool) -> Arc<Pod> {
    pod_with(name, address, ready, json!({}))
}

fn pod_with(name: &str, address: &str, ready: bool, extra: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
        "spec": {"nodeName": "one", "containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIP": address,
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    });
    json_patch::merge(&mut pod, &extra);
    Arc::new(read(pod))
}

/// The world of one service; carries plans out as the API would.
struct World {
    service: Service,
    pods: Vec<Arc<Pod>>,
    slices: Vec<Arc<EndpointSlice>>,
    capacity: usize,
    made: usize,
    writes: usize,
}

impl World {
    fn new(service: Service, pods: Vec<Arc<Pod>>) -> World {
        World { service, pods, slices: Vec::new(), capacity: 100, made: 0, writes: 0 }
    }

    fn decide(&self) -> Decision {
        let node = |name: &str| match name {
            "one" => NodeFact::Present { zone: None },
            "zoned" => NodeFact::Present { zone: Some("z".to_owned()) },
            _ => NodeFact::Missing,
        };
        decide(&View {
            service: &self.service,
            pods: &self.pods,
            slices: &self.slices,
            node: &node,
            trigger: None,
            capacity: self.capacity,
        })
    }

    /// Decides and does it; answers how many writes that took.
    fn settle(&mut self) -> usize {
        let plan = self.decide().plan;
        let writes = plan.create.len() + plan.update.len() + plan.delete.len();
        let gone: Vec<_> = plan.delete.iter().map(|slice| slice.metadata.name.clone()).collect();
        self.slices.retain(|slice| !gone.contains(&slice.metadata.name));
        for new in plan.update {
            let place = self.slices.iter().position(|old| old.metadata.name == new.metadata.name);
            self.slices[place.expect("an update is of one that is there")] = Arc::new(new);
        }
        for mut new in plan.create {
            self.made += 1;
            new.metadata.name = Some(format!("web-{}", self.made));
            self.slices.push(Arc::new(new));
        }
        self.writes += writes;
        assert_eq!(self.decide().plan, Plan::default(), "one round is enough");
        writes
    }

    /// The addresses of each slice in order.
    fn shown(&self) -> Vec<Vec<String>> {
        let mut shown: Vec<Vec<String>> = self
            .slices
            .iter()
            .map(|slice| {
                let mut addresses: Vec<String> =
                    slice.endpoints.iter().flatten().flat_map(|one| one.addresses.clone()).collect();
                addresses.sort();
                addresses
            })
            .collect();
        shown.sort();
        shown
    }

    fn slice(&self) -> Value {
        assert_eq!(self.slices.len(), 1, "{:?}", self.slices);
        serde_json::to_value(&*self.slices[0]).expect("JSON")
    }
}

#[test]
fn a_ready_pod_stands_in_a_slice_with_everything_that_kubernetes_says_of_it() {
    let mut world = World::new(service(json!({})), vec![pod("a", "10.0.0.1", true)]);
    assert_eq!(world.settle(), 1);
    assert_eq!(
        world.slice(),
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": "web-1", "generateName": "web-", "namespace": "n",
                "labels": {"tier": "front", "kubernetes.io/service-name": "web",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "s1", "controller": true,
                    "blockOwnerDeletion": true}],
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
                "nodeName": "one", "targetRef": {"kind": "Pod", "name": "a", "namespace": "n", "uid": "uid-a"}}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        })
    );
}

#[test]
fn conditions_say_ready_serving_and_terminating() {
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    for (publishes, ready, extra, expected) in [
        (false, true, json!({}), Some((true, true, false))),
        (false, false, json!({}), Some((false, false, false))),
        (false, true, going.clone(), Some((false, true, true))),
        (false, false, going.clone(), Some((false, false, true))),
        (true, false, json!({}), Some((true, false, false))),
        (true, true, going, Some((true, true, true))),
        (true, true, json!({"status": {"phase": "Failed"}}), None),
        (false, true, json!({"status": {"podIP": null}}), None),
    ] {
        let service = service(json!({"publishNotReadyAddresses": publishes}));
        let mut world = World::new(service, vec![pod_with("a", "10.0.0.1", ready, extra.clone())]);
        world.settle();
        let conditions = world.slice()["endpoints"][0]["conditions"].clone();
        let said = conditions.as_object().map(|conditions| {
            let is = |name: &str| conditions[name].as_bool().expect("set");
            (is("ready"), is("serving"), is("terminating"))
        });
        assert_eq!(said, expected, "{publishes} {ready} {extra}");
    }
}

#[test]
fn a_service_without_pods_has_one_empty_slice_which_its_first_pod_takes_over() {
    let mut world = World::new(service(json!({})), Vec::new());
    assert_eq!(world.settle(), 1);
    assert_eq!((&world.slice()["endpoints"], &world.slice()["ports"]), (&json!([]), &json!([])));
    world.pods.push(pod("a", "10.0.0.1", true));
    assert_eq!(world.settle(), 1, "the empty slice is used, not a second one made");
    assert_eq!(world.shown(), [["10.0.0.1"]]);
    world.pods.clear();
    assert_eq!(world.settle(), 1);
    assert_eq!(world.shown(), [Vec::<String>::new()]);
    assert_eq!(world.made, 1);
}

#[test]
fn named_ports_may_be_another_number_on_each_pod() {
    let named = service(json!({"ports": [{"name": "http", "port": 80, "targetPort": "web"}]}));
    let other =
        json!({"spec": {"containers": [{"name": "c", "ports": [{"name": "web", "containerPort": 9090}]}]}});
    let without = json!({"spec": {"containers": [{"name": "c"}]}});
    let mut world = World::new(
        named,
        vec![
            pod("a", "10.0.0.1", true),
            pod_with("b", "10.0.0.2", true, other),
            pod("c", "10.0.0.3", true),
            pod_with("d", "10.0.0.4", true, without),
        ],
    );
    assert_eq!(world.settle(), 3);
    let mut shown: Vec<(Value, usize)> = world
        .slices
        .iter()
        .map(|slice| {
            let ports = serde_json::to_value(&slice.ports).expect("JSON");
            (ports[0]["port"].clone(), slice.endpoints.iter().flatten().count())
        })
        .collect();
    shown.sort_by_key(|(port, _)| port.as_i64());
    assert_eq!(shown, [(Value::Null, 1), (json!(8080), 2), (json!(9090), 1)]);
}

#[test]
fn slices_hold_at_most_a_hundred_and_few_are_written_for_a_change() {
    let pods =
        (0..250).map(|n| pod(&format!("p{n}"), &format!("10.0.{}.{}", n / 250, n % 250 + 1), true)).collect();
    let mut world = World::new(service(json!({})), pods);
    assert_eq!(world.settle(), 3);
    let lengths = |world: &World| {
        let mut lengths: Vec<usize> = world.shown().iter().map(Vec::len).collect();
        lengths.sort_unstable();
        lengths
    };
    assert_eq!(lengths(&world), [50, 100, 100]);
    let one = world.pods.remove(0);
    assert_eq!(world.settle(), 1, "one that goes is one write");
    world.pods.push(one);
    assert_eq!(world.settle(), 1, "and so is one that comes");
    assert_eq!(lengths(&world).iter().sum::<usize>(), 250);
    for n in 0..40 {
        world.pods.push(pod(&format!("q{n}"), &format!("10.1.0.{}", n + 1), true));
    }
    assert!(world.settle() <= 2, "{:?}", lengths(&world));
    world.pods.clear();
    assert_eq!(world.settle(), 3, "two go, one stays empty");
    assert_eq!(lengths(&world), [0]);
}

#[test]
fn a_slice_that_stood_twice_after_a_crash_is_set_right() {
    let mut world = World::new(service(json!({})), vec![pod("a", "10.0.0.1", true)]);
    world.settle();
    let mut twin = (*world.slices[0]).clone();
    twin.metadata.name = Some("web-twin".to_owned());
    world.slices.push(Arc::new(twin));
    assert_eq!(world.settle(), 1);
    assert_eq!(world.shown(), [["10.0.0.1"]]);
}

#[test]
fn what_somebody_changed_in_a_slice_is_set_right() {
    let mut world = World::new(service(json!({})), vec![pod("a", "10.0.0.1", true)]);
    world.settle();
    for change in [
        json!({"endpoints": [{"addresses": ["10.9.9.9"], "conditions": {}}]}),
        json!({"endpoints": []}),
        json!({"metadata": {"labels": {"tier": "back"}}}),
        json!({"ports": [{"name": "http", "port": 1, "protocol": "TCP"}]}),
        json!({"metadata": {"ownerReferences": []}}),
    ] {
        let before = world.slice();
        let mut changed = before.clone();
        json_patch::merge(&mut changed, &change);
        world.slices = vec![Arc::new(read(changed))];
        world.settle();
        let (mut is, mut was) = (world.slice(), before);
        // One that is nobody's is made anew.
        (is["metadata"]["name"], was["metadata"]["name"]) = (Value::Null, Value::Null);
        assert_eq!(is, was, "{change}");
    }
}

#[test]
fn slices_have_the_labels_of_their_service_and_say_when_it_is_headless() {
    let mut world = World::new(service(json!({"clusterIP": "None"})), vec![pod("a", "10.0.0.1", true)]);
    world.settle();
    assert_eq!(world.slice()["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    world.service.metadata.labels = Some([("x".to_owned(), "y".to_owned())].into());
    assert_eq!(world.settle(), 1);
    let labels = world.slice()["metadata"]["labels"].clone();
    assert_eq!((&labels["x"], &labels["tier"]), (&json!("y"), &Value::Null));
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], MANAGER);
}

#[test]
fn a_headless_service_may_have_no_ports_and_names_its_pods() {
    let named = json!({"spec": {"hostname": "web-0", "subdomain": "web"}});
    let headless = service(json!({"clusterIP": "None", "ports": []}));
    let mut world = World::new(headless, vec![pod_with("a", "10.0.0.1", true, named)]);
    world.settle();
    assert_eq!(world.slice()["endpoints"][0]["hostname"], "web-0");
    assert_eq!(world.slice()["ports"], json!([]));
}

#[test]
fn a_pod_whose_node_is_not_there_is_left_out_unless_everything_is_published() {
    let lost = || pod_with("a", "10.0.0.1", true, json!({"spec": {"nodeName": "gone"}}));
    let world = World::new(service(json!({})), vec![lost()]);
    assert_eq!(world.decide().without_node, ["a"]);
    let mut world = World::new(service(json!({"publishNotReadyAddresses": true})), vec![lost()]);
    world.settle();
    assert_eq!(world.shown(), [["10.0.0.1"]]);
}

#[test]
fn endpoints_say_where_they_are_and_for_whom_they_are_meant_first() {
    let zoned = pod_with("a", "10.0.0.1", true, json!({"spec": {"nodeName": "zoned"}}));
    for (wish, hints) in [
        (Value::Null, Value::Null),
        (json!("PreferClose"), json!({"forZones": [{"name": "z"}]})),
        (json!("PreferSameNode"), json!({"forZones": [{"name": "z"}], "forNodes": [{"name": "zoned"}]})),
    ] {
        let mut world = World::new(service(json!({"trafficDistribution": wish})), vec![Arc::clone(&zoned)]);
        world.settle();
        assert_eq!(world.slice()["endpoints"][0]["zone"], "z");
        assert_eq!(world.slice()["endpoints"][0]["hints"], hints, "{wish}");
    }
}

#[test]
fn each_family_of_a_service_has_slices_of_its_own() {
    let both = json!({"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}});
    let mut world = World::new(
        service(json!({"ipFamilies": ["IPv4", "IPv6"]})),
        vec![pod_with("a", "10.0.0.1", true, both)],
    );
    assert_eq!(world.settle(), 2);
    assert_eq!(world.shown(), [["10.0.0.1"], ["fd00::1"]]);
    world.service = service(json!({"ipFamilies": ["IPv4"]}));
    assert_eq!(world.settle(), 1);
    assert_eq!(world.shown(), [["10.0.0.1"]]);
}

#[test]
fn a_service_that_goes_gets_no_new_slice() {
    let mut world = World::new(service(json!({})), vec![pod("a", "10.0.0.1", true)]);
    world.service.metadata.deletion_timestamp = Some(read(json!("2026-01-01T00:00:00Z")));
    assert_eq!(world.decide().plan, Plan::default());
}

#[test]
fn a_write_says_since_when_it_should_have_been_so() {
    let world = World::new(service(json!({})), vec![pod("a", "10.0.0.1", true)]);
    let node = |_: &str| NodeFact::Present { zone: None };
    let view = View {
        service: &world.service,
        pods: &world.pods,
        slices: &[],
        node: &node,
        trigger: "2026-01-01T00:00:03Z".parse().ok(),
        capacity: 100,
    };
    let annotations = decide(&view).plan.create[0].metadata.annotations.clone().expect("some");
    assert_eq!(annotations["endpoints.kubernetes.io/last-change-trigger-time"], "2026-01-01T00:00:03Z");
}
