//! `kubectl apply --server-side` on a node: it runs, who manages what is told, and nobody is overruled by mistake.

use e2e::{Node, Place, newer_kubectl, privileged};

fn pod(image: &str, seconds: u8) -> String {
    format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: web, labels: {{app: web}}}}
spec:
  terminationGracePeriodSeconds: 1
  activeDeadlineSeconds: {seconds}
  containers:
  - {{name: main, image: {image}, command: [sleep, "600"]}}
"#
    )
}

#[test]
fn kubectl_applies_on_the_server_and_is_told_of_conflicts_and_the_kubelet_has_the_status() {
    if !privileged("server_side_apply") || !newer_kubectl("server_side_apply") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    let apply = ["apply", "--server-side", "-f", "-"];
    let said = node.kubectl_ok(&apply, &pod("coracle.dev/host", 200));
    assert_eq!(said, "pod/web serverside-applied\n");
    node.wait_for(&["get", "pod", "web", "-o", "jsonpath={.status.phase}"], |phase| phase == "Running");
    let entries = [
        "get",
        "pod",
        "web",
        "--show-managed-fields",
        "-o",
        "jsonpath={range .metadata.managedFields[*]}{.manager}/{.operation}/{.subresource} {end}",
    ];
    assert_eq!(node.kubectl_ok(&entries, ""), "kubectl/Apply/ kubelet/Update/status ");
    // What is hidden unless it is asked for.
    assert!(!node.kubectl_ok(&["get", "pod", "web", "-o", "yaml"], "").contains("managedFields"));
    // A change, a conflict, and force.
    node.kubectl_ok(&apply, &pod("coracle.dev/host", 150));
    node.kubectl_ok(&["label", "pod", "web", "app=other", "--overwrite"], "");
    let said = node.kubectl(&apply, &pod("coracle.dev/host", 150));
    assert!(
        said.status != 0
            && said.stderr.contains("conflict with \"kubectl-label\" using v1: .metadata.labels.app"),
        "{}",
        said.all()
    );
    node.kubectl_ok(
        &["apply", "--server-side", "--force-conflicts", "-f", "-"],
        &pod("coracle.dev/host", 100),
    );
    let now = ["get", "pod", "web", "-o", "jsonpath={.metadata.labels.app} {.spec.activeDeadlineSeconds}"];
    assert_eq!(node.kubectl_ok(&now, ""), "web 100");
}
