//! Services with addresses of other ranges, and of both families.

use e2e::{Node, Place, finish, privileged};

const OBJECTS: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  ipFamilyPolicy: PreferDualStack
  ports: [{name: http, port: 80}]
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: client, image: coracle.dev/host, command: [/bin/sleep, "10000"]}]
"#;

#[test]
fn services_of_other_ranges_are_named_both_ways_and_stay_when_the_ranges_change() {
    if !privileged("services_of_other_ranges_are_named_both_ways_and_stay_when_the_ranges_change") {
        return;
    }
    let place = Place::new();
    let mut node = Node::up(&place, &["--service-cidr", "fd00:77::/112,10.77.0.0/24"]);
    node.kubectl_ok(&["create", "-f", "-"], OBJECTS);
    let addresses = ["get", "service", "web", "-o", "jsonpath={.spec.clusterIPs[*]}"];
    let given = node.kubectl_ok(&addresses, "");
    let (v6, v4) = given.split_once(' ').expect("two addresses");
    assert!(v6.starts_with("fd00:77::") && v4.starts_with("10.77.0."), "{given}");
    let phase = ["get", "pod", "client", "-o", "jsonpath={.status.phase}"];
    node.wait_for(&phase, |phase| phase == "Running");
    let script = format!(
        "getent ahostsv4 web | awk '/STREAM/ {{print $1}}'; getent hosts {v4} | awk '{{print $2}}'; \
         getent hosts {v6} | awk '{{print $2}}'; echo $WEB_SERVICE_HOST $WEB_PORT; \
         echo $KUBERNETES_SERVICE_HOST; grep nameserver /etc/resolv.conf"
    );
    let name = "web.default.svc.cluster.local";
    let expected = format!("{v4}\n{name}\n{name}\n{v6} tcp://[{v6}]:80\n10.77.0.1\nnameserver 10.77.0.10\n");
    let look_up = ["exec", "client", "--", "sh", "-c", script.as_str()];
    node.wait_for(&look_up, |said| said == expected);

    // The other family goes: nothing of the service does.
    node.end();
    let node = Node::up(&place, &["--service-cidr", "10.77.0.0/24"]);
    assert_eq!(node.kubectl_ok(&addresses, ""), given);
    let log = node.log();
    assert_eq!(log.matches("addresses that are of no range of this server").count(), 1, "{log}");
    node.kubectl_ok(&["label", "service", "web", "still=here"], "");
    assert_eq!(node.kubectl_ok(&addresses, ""), given);
    let refused = node.kubectl(
        &["create", "-f", "-"],
        &OBJECTS.replace("name: web", "name: other").replace("Prefer", "Require"),
    );
    assert!(
        refused.stderr.contains("this cluster is not configured for dual-stack services"),
        "{}",
        refused.all()
    );
}

#[test]
fn a_node_without_ipv4_addresses_for_services_is_told_what_to_write_and_so_is_who_writes_nonsense() {
    let test =
        "a_node_without_ipv4_addresses_for_services_is_told_what_to_write_and_so_is_who_writes_nonsense";
    if !privileged(test) {
        return;
    }
    let place = Place::new();
    for (ranges, expected) in [
        ("fd00:77::/112", "write --service-cidr fd00:77::/112,10.43.0.0/16"),
        ("fd00:77::/64", "an IPv6 network with a prefix of 108 to 124"),
        ("10.43.0.0/16,10.44.0.0/16", "more than one range of a family"),
    ] {
        let data = place.data();
        let mut command =
            place.coracle(&["up", "--listen", "127.0.0.1:0", "--service-cidr", ranges, "--data-dir"]);
        let said = finish(command.arg(data), "");
        assert_eq!(said.status, 2, "{}", said.all());
        assert!(said.stderr.contains(expected), "{ranges}: {}", said.all());
    }
}
