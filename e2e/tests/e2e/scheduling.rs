//! A node takes what fits, and says of the rest why not.

use e2e::{Node, Place, privileged};

const PICKY: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: picky}\nspec:\n  restartPolicy: Never\n  nodeSelector: {disk: ssd}\n  containers: [{name: c, image: coracle.dev/host, command: [/bin/sh, -c, \"echo placed\"]}]\n";

#[test]
fn a_pod_waits_until_a_node_has_what_it_asks_for() {
    if !privileged("a_pod_waits_until_a_node_has_what_it_asks_for") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["apply", "-f", "-"], PICKY);
    let condition = [
        "get",
        "pod",
        "picky",
        "-o",
        "jsonpath={.status.phase} {.status.conditions[?(@.type=='PodScheduled')].reason}",
    ];
    node.wait_for(&condition, |shown| shown == "Pending Unschedulable");
    let described = node.wait_for(&["describe", "pod", "picky"], |text| text.contains("FailedScheduling"));
    let message = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.";
    assert!(described.contains(message), "{described}");
    let name = node.kubectl_ok(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"], "");
    node.kubectl_ok(&["cordon", &name], "");
    node.kubectl_ok(&["label", "node", &name, "disk=ssd"], "");
    node.wait_for(&["describe", "pod", "picky"], |text| text.contains("1 node(s) were unschedulable"));
    node.kubectl_ok(&["uncordon", &name], "");
    node.wait_for(&["logs", "picky"], |log| log == "placed\n");
    let direct = PICKY
        .replace("picky", "direct")
        .replace("disk: ssd", "disk: tape")
        .replace("  restartPolicy: Never\n", &format!("  restartPolicy: Never\n  nodeName: {name}\n"));
    node.kubectl_ok(&["apply", "-f", "-"], &direct);
    let reason = ["get", "pod", "direct", "-o", "jsonpath={.status.phase} {.status.reason}"];
    node.wait_for(&reason, |shown| shown == "Failed NodeAffinity");
}

#[test]
fn a_throwaway_node_does_not_wait_for_what_it_can_never_have() {
    if !privileged("a_throwaway_node_does_not_wait_for_what_it_can_never_have") {
        return;
    }
    let said = Place::new().run(PICKY, &[]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(said.stderr.contains("node(s) didn't match Pod's node affinity/selector"), "{}", said.all());
    let huge = PICKY
        .replace("  nodeSelector: {disk: ssd}\n", "")
        .replace("{name: c,", "{name: c, resources: {requests: {cpu: \"100000\"}},");
    let said = Place::new().run(&huge, &[]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(said.stderr.contains("Insufficient cpu"), "{}", said.all());
    let gated =
        PICKY.replace("  nodeSelector: {disk: ssd}\n", "  schedulingGates: [{name: example.com/gate}]\n");
    let said = Place::new().run(&gated, &[]);
    assert_eq!(said.status, 125, "{}", said.all());
    assert!(said.stderr.contains("SchedulingGated"), "{}", said.all());
}
