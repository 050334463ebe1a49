//! Who may use the API: a pod with the token that it finds, users with tokens of a file; and what the audit log keeps of it.

use e2e::{Node, Place, privileged};

#[test]
fn a_pod_uses_the_api_with_the_token_that_it_finds_and_within_its_rights() {
    if !privileged("a_pod_uses_the_api_with_the_token_that_it_finds_and_within_its_rights") {
        return;
    }
    let place = Place::new();
    let node = Node::up(&place, &[]);
    node.kubectl_ok(&["create", "serviceaccount", "bot"], "");
    node.kubectl_ok(
        &["create", "rolebinding", "bot", "--clusterrole=view", "--serviceaccount=default:bot"],
        "",
    );
    let manifest = r#"
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  serviceAccountName: bot
  restartPolicy: Never
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c"]
    args:
    - |
      cd /var/run/secrets/kubernetes.io/serviceaccount
      ask() { curl -sS --max-time 20 --cacert ca.crt -H "Authorization: Bearer $(cat token)" "$@"; }
      api=https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT
      ask $api/api/v1/namespaces/$(cat namespace)/pods/client | grep -c '^    "name": "client"'
      ask -o /dev/null -w '%{http_code}\n' $api/api/v1/namespaces/default/secrets
      ask -o /dev/null -w '%{http_code}\n' -X DELETE $api/api/v1/namespaces/default/pods/client
      ask -H 'Content-Type: application/json' -d '{}' $api/apis/authentication.k8s.io/v1/selfsubjectreviews | grep -o 'system:serviceaccount:default:bot' | head -1
      stat -L -c %a token
"#;
    node.kubectl_ok(&["create", "-f", "-"], manifest);
    let phase = ["get", "pod", "client", "-o", "jsonpath={.status.phase}"];
    node.wait_for(&phase, |phase| phase == "Succeeded" || phase == "Failed");
    let said = node.kubectl_ok(&["logs", "client"], "");
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        ["1", "403", "403", "system:serviceaccount:default:bot", "644"],
        "{said}"
    );
}

#[test]
fn a_pod_of_a_throwaway_node_finds_a_token_unless_it_wants_none() {
    if !privileged("a_pod_of_a_throwaway_node_finds_a_token_unless_it_wants_none") {
        return;
    }
    let manifest = |automount: bool| {
        format!(
            r#"
apiVersion: v1
kind: Pod
metadata: {{name: client}}
spec:
  restartPolicy: Never
  automountServiceAccountToken: {automount}
  containers:
  - name: test
    image: coracle.dev/host
    command: ["/bin/sh", "-c", "ls /var/run/secrets/kubernetes.io/serviceaccount 2>/dev/null || echo none"]
"#
        )
    };
    let said = Place::new().run(&manifest(true), &["--quiet"]);
    assert_eq!(said.lines(), ["ca.crt", "namespace", "token"], "{}", said.all());
    let said = Place::new().run(&manifest(false), &["--quiet"]);
    assert_eq!(said.lines(), ["none"], "{}", said.all());
}

#[test]
fn tokens_of_a_file_are_good_and_the_audit_log_tells_who_used_them_but_not_the_tokens() {
    let place = Place::new();
    let tokens = place.file("tokens.csv", "s3cret,jane,1,\"ops\"\n");
    let log = place.file("audit.log", "");
    let arguments =
        ["--token-auth-file", tokens.to_str().expect("text"), "--audit-log", log.to_str().expect("text")];
    let node = Node::api_alone(&place, "alone", &arguments);
    node.kubectl_ok(&["create", "rolebinding", "ops", "--clusterrole=view", "--group=ops"], "");
    let server = node.kubectl_ok(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"], "");
    let status = |token: &str| {
        let output = std::process::Command::new("curl")
            .args([
                "-sk",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "-H",
                &format!("Authorization: Bearer {token}"),
            ])
            .arg(format!("{}/api/v1/namespaces/default/pods", server.trim()))
            .output()
            .expect("curl runs");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(status("s3cret"), "200");
    assert_eq!(status("s3cre"), "401");
    let kept = || std::fs::read_to_string(&log).expect("readable");
    let begin = std::time::Instant::now();
    while !(kept().contains("\"jane\"") && kept().contains("\"code\":401")) {
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "{}", kept());
        std::thread::yield_now();
    }
    assert!(!kept().contains("s3cre"), "{}", kept());
}
