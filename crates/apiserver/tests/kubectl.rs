//! The machine's real kubectl doing its ordinary work; skipped with a word where there is none.
#![allow(missing_docs)]

mod support;

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use support::Running;

struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.home)
            .env("EDITOR", "sed -i s/two/three/")
            .stdin(Stdio::null());
        command
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        tokio::task::spawn_blocking(move || command.output().expect("runs")).await.expect("no panic")
    }

    /// Standard output of a command that works.
    async fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {arguments:?}: {error}");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Standard error of a command that does not work.
    async fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(
            !output.status.success(),
            "kubectl {arguments:?} should fail: {}",
            String::from_utf8_lossy(&output.stdout)
        );
        String::from_utf8(output.stderr).expect("text")
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.join(name);
        std::fs::write(&path, text).expect("writable");
        path.display().to_string()
    }
}

fn kubectl(running: &Running) -> Option<Kubectl> {
    if Command::new("kubectl").arg("version").arg("--client").output().is_err() {
        eprintln!("skipped: there is no kubectl on this machine");
        return None;
    }
    let home = running.directory.path().join("home");
    std::fs::create_dir(&home).expect("a directory");
    Some(Kubectl { kubeconfig: running.kubeconfig(), home })
}

/// The same, where it has what only newer ones have (Debian's has not): flags such as `--subresource` and columns.
fn newer_kubectl(running: &Running) -> Option<Kubectl> {
    const NEEDED: u32 = 30;
    let kubectl = kubectl(running)?;
    let said = Command::new("kubectl").args(["version", "--client", "-o", "json"]).output().expect("runs");
    let version: serde_json::Value = serde_json::from_slice(&said.stdout).expect("JSON");
    let minor = version["clientVersion"]["minor"].as_str().expect("text").trim_end_matches('+');
    if minor.parse::<u32>().is_ok_and(|minor| minor < NEEDED) {
        eprintln!("skipped: this kubectl is 1.{minor}, and the test needs 1.{NEEDED}");
        return None;
    }
    Some(kubectl)
}

const APPLICATION: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: cfg}
data: {A: '1', B: two}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: main
    image: busybox
    command: [sh, -c, 'echo $(X)']
    env:
    - {name: X, value: '1'}
    - name: CFG
      valueFrom: {configMapKeyRef: {name: cfg, key: A}}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_applied_changed_and_deleted() {
    let running = Running::start().await;
    let Some(kubectl) = kubectl(&running) else { return };
    let file = kubectl.file("app.yaml", APPLICATION);
    let first = kubectl.ok(&["apply", "-f", &file]).await;
    assert_eq!(first, "configmap/cfg created\nservice/web created\npod/web created\n");
    let second = kubectl.ok(&["apply", "-f", &file]).await;
    assert_eq!(second, "configmap/cfg unchanged\nservice/web unchanged\npod/web unchanged\n");
    let changed = kubectl
        .file("app.yaml", &APPLICATION.replace("A: '1'", "C: '3'").replace("image: busybox", "image: other"));
    assert_eq!(
        kubectl.ok(&["apply", "-f", &changed, "--dry-run=server"]).await,
        "configmap/cfg configured (server dry run)\nservice/web unchanged (server dry run)\npod/web configured (server dry run)\n"
    );
    assert_eq!(
        kubectl.ok(&["apply", "-f", &changed]).await,
        "configmap/cfg configured\nservice/web unchanged\npod/web configured\n"
    );
    assert_eq!(kubectl.ok(&["get", "cm", "cfg", "-o", "jsonpath={.data}"]).await, r#"{"B":"two","C":"3"}"#);
    assert_eq!(
        kubectl
            .ok(&["get", "pod", "web", "-o", "jsonpath={.spec.containers[*].image} {.metadata.generation}"])
            .await,
        "other 2"
    );
    kubectl.ok(&["edit", "cm", "cfg"]).await;
    assert_eq!(kubectl.ok(&["get", "cm", "cfg", "-o", "jsonpath={.data.B}"]).await, "three");
    kubectl.ok(&["label", "pod", "web", "tier=front"]).await;
    kubectl.ok(&["annotate", "pod", "web", "note=hi"]).await;
    kubectl.ok(&["patch", "pod", "web", "-p", r#"{"metadata":{"labels":{"z":"1"}}}"#]).await;
    kubectl.ok(&["patch", "cm", "cfg", "--type=json", "-p", r#"[{"op":"remove","path":"/data/B"}]"#]).await;
    kubectl.ok(&["patch", "cm", "cfg", "--type=merge", "-p", r#"{"data":{"D":"4"}}"#]).await;
    assert_eq!(kubectl.ok(&["get", "cm", "cfg", "-o", "jsonpath={.data}"]).await, r#"{"C":"3","D":"4"}"#);
    assert_eq!(
        kubectl.ok(&["get", "pods", "-l", "app=web,tier in (front),!no", "-o", "name"]).await,
        "pod/web\n"
    );
    let replacement =
        kubectl.file("cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cfg}\ndata: {E: '5'}\n");
    kubectl.ok(&["replace", "-f", &replacement]).await;
    assert_eq!(kubectl.ok(&["get", "cm", "cfg", "-o", "jsonpath={.data}"]).await, r#"{"E":"5"}"#);
    assert_eq!(
        kubectl.ok(&["delete", "-f", &file]).await,
        "configmap \"cfg\" deleted\nservice \"web\" deleted\npod \"web\" deleted\n"
    );
    assert_eq!(
        kubectl.fails(&["get", "pod", "web"]).await,
        "Error from server (NotFound): pods \"web\" not found\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_shown_in_every_form() {
    let running = Running::start().await;
    let Some(kubectl) = newer_kubectl(&running) else { return };
    let file = kubectl.file("app.yaml", APPLICATION);
    kubectl.ok(&["create", "-f", &file]).await;
    let wide = kubectl.ok(&["get", "pods", "-o", "wide"]).await;
    let header: Vec<&str> = wide.lines().next().expect("a header").split_whitespace().collect();
    assert_eq!(
        header,
        [
            "NAME",
            "READY",
            "STATUS",
            "RESTARTS",
            "AGE",
            "IP",
            "NODE",
            "NOMINATED",
            "NODE",
            "READINESS",
            "GATES"
        ]
    );
    assert!(wide.lines().nth(1).expect("a row").starts_with("web    0/1     Pending   0 "), "{wide}");
    let all = kubectl.ok(&["get", "all", "-A"]).await;
    assert!(all.contains("service/kubernetes") && all.contains("pod/web"), "{all}");
    let yaml = kubectl.ok(&["get", "pod", "web", "-o", "yaml"]).await;
    assert!(
        yaml.contains("terminationGracePeriodSeconds: 30") && yaml.contains("qosClass: BestEffort"),
        "{yaml}"
    );
    let description = kubectl.ok(&["describe", "pod", "web"]).await;
    assert!(
        description.contains("CFG:  <set to the key 'A' of config map 'cfg'>  Optional: false"),
        "{description}"
    );
    let description = kubectl.ok(&["describe", "svc", "web"]).await;
    assert!(description.contains("Selector:                 app=web"), "{description}");
    let event = kubectl.file(
        "event.yaml",
        "apiVersion: v1\nkind: Event\nmetadata: {name: e, namespace: default}\ninvolvedObject: {kind: Pod, name: web, namespace: default}\nreason: Tested\nmessage: it was\ntype: Normal\nsource: {component: test}\nfirstTimestamp: '2026-01-01T00:00:00Z'\nlastTimestamp: '2026-01-01T00:00:00Z'\ncount: 1\n",
    );
    kubectl.ok(&["create", "-f", &event]).await;
    assert!(kubectl.ok(&["get", "events"]).await.contains("pod/web   it was"), "the table of events");
    assert!(
        kubectl
            .ok(&["get", "events", "--field-selector", "involvedObject.name=web,reason=Tested", "-o", "name"])
            .await
            .contains("event/e")
    );
    let resources = kubectl.ok(&["api-resources", "--no-headers"]).await;
    assert!(resources.lines().any(|line| line.starts_with("pods") && line.contains("po")), "{resources}");
    assert!(kubectl.ok(&["version"]).await.contains("Server Version: v1.36.0"));
    assert_eq!(kubectl.ok(&["get", "--raw", "/readyz"]).await, "ok");
    assert!(
        kubectl
            .ok(&["get", "cm,sa", "-n", "kube-system", "-o", "name"])
            .await
            .contains("configmap/kube-root-ca.crt\nserviceaccount/default")
    );
    assert!(
        kubectl
            .fails(&["get", "pods", "--field-selector=a=b"])
            .await
            .contains("field label not supported: a")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generators_send_protobuf_and_are_understood() {
    let running = Running::start().await;
    let Some(kubectl) = kubectl(&running) else { return };
    kubectl.ok(&["create", "namespace", "team"]).await;
    // What it prints is what it read from the answer: new versions ask for protobuf first.
    let made =
        kubectl.ok(&["create", "configmap", "c", "-n", "team", "--from-literal=a=b", "-o", "json"]).await;
    let made: serde_json::Value = serde_json::from_str(&made).expect("JSON");
    assert_eq!(
        (&made["data"], &made["kind"]),
        (&serde_json::json!({"a": "b"}), &serde_json::json!("ConfigMap"))
    );
    assert!(made["metadata"]["uid"].is_string() && made["metadata"]["creationTimestamp"].is_string());
    kubectl.ok(&["create", "secret", "generic", "s", "-n", "team", "--from-literal=p=q"]).await;
    kubectl.ok(&["create", "serviceaccount", "bot", "-n", "team"]).await;
    kubectl.ok(&["create", "service", "clusterip", "v", "-n", "team", "--tcp=80:8080"]).await;
    kubectl.ok(&["run", "p", "-n", "team", "--image=busybox", "--env=A=1"]).await;
    assert_eq!(kubectl.ok(&["get", "cm", "c", "-n", "team", "-o", "jsonpath={.data}"]).await, r#"{"a":"b"}"#);
    assert_eq!(
        kubectl.ok(&["get", "secret", "s", "-n", "team", "-o", "jsonpath={.data.p} {.type}"]).await,
        "cQ== Opaque"
    );
    assert_eq!(
        kubectl.ok(&["get", "svc", "v", "-n", "team", "-o", "jsonpath={.spec.ports[0].targetPort}"]).await,
        "8080"
    );
    assert!(
        kubectl
            .fails(&["create", "namespace", "team"])
            .await
            .contains("(AlreadyExists): namespaces \"team\" already exists")
    );
    // What empties it is a controller, and here is none.
    kubectl.ok(&["delete", "namespace", "team", "--wait=false"]).await;
    let shown = kubectl.ok(&["get", "namespace", "team", "-o", "jsonpath={.status.phase}"]).await;
    assert_eq!(shown, "Terminating");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_explained_as_kubernetes_explains_them() {
    let running = Running::start().await;
    let Some(kubectl) = newer_kubectl(&running) else { return };
    let file = kubectl.file("bad.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: [{name: a_, image: b, foo: 1}]}\n");
    let strict = kubectl.fails(&["create", "-f", &file]).await;
    assert!(strict.contains(r#"strict decoding error: unknown field "spec.containers[0].foo""#), "{strict}");
    let invalid = kubectl.fails(&["create", "--validate=false", "-f", &file]).await;
    assert!(
        invalid.contains(r#"The Pod "bad" is invalid: spec.containers[0].name: Invalid value: "a_""#),
        "{invalid}"
    );
    let warned = kubectl.file("warn.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {containers: [{name: a, image: b, command: [\"echo $(NOPE)\"]}]}\n");
    let output = kubectl.run(&["create", "-f", &warned]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() && said.starts_with("Warning: spec.containers[0].command[0]: $(NOPE)"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_side_apply_creates_changes_tells_conflicts_and_is_forced() {
    let running = Running::start().await;
    let Some(kubectl) = newer_kubectl(&running) else { return };
    let file = |name: &str, value: &str| {
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: cfg, labels: {{l: '{value}'}}}}\ndata: {{A: '{value}', B: two}}\n"
        );
        kubectl.file(name, &text)
    };
    let (one, three) = (file("one.yaml", "1"), file("three.yaml", "3"));
    let said = kubectl.ok(&["apply", "--server-side", "-f", &one]).await;
    assert_eq!(said, "configmap/cfg serverside-applied\n");
    kubectl.ok(&["apply", "--server-side", "-f", &three]).await;
    assert_eq!(kubectl.ok(&["get", "cm", "cfg", "-o", "jsonpath={.data.A}"]).await, "3");
    // Somebody else takes a field; the manager is told.
    kubectl.ok(&["patch", "cm", "cfg", "-p", "{\"data\": {\"A\": \"5\"}}"]).await;
    let said = kubectl.fails(&["apply", "--server-side", "-f", &one]).await;
    assert!(
        said.contains("Apply failed with 1 conflict: conflict with \"kubectl-patch\" using v1: .data.A"),
        "{said}"
    );
    kubectl.ok(&["apply", "--server-side", "--force-conflicts", "-f", &one]).await;
    assert_eq!(kubectl.ok(&["get", "cm", "cfg", "-o", "jsonpath={.data.A}"]).await, "1");
    // A second manager shares a field, and what the first one does not say any more goes.
    kubectl.ok(&["apply", "--server-side", "--field-manager=second", "-f", &one]).await;
    let less = kubectl.file(
        "less.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cfg}\ndata: {A: '1', C: three}\n",
    );
    kubectl.ok(&["apply", "--server-side", "-f", &less]).await;
    kubectl.ok(&["apply", "--server-side", "--field-manager=second", "-f", &less]).await;
    let data = kubectl.ok(&["get", "cm", "cfg", "-o", "jsonpath={.data}{.metadata.labels}"]).await;
    assert_eq!(data, "{\"A\":\"1\",\"C\":\"three\"}");
    let shown = kubectl.ok(&["get", "cm", "cfg", "-o", "yaml", "--show-managed-fields"]).await;
    for text in ["manager: kubectl\n", "manager: second\n", "operation: Apply", "f:C: {}"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(!kubectl.ok(&["get", "cm", "cfg", "-o", "yaml"]).await.contains("managedFields"));
    // From client-side apply over to server-side apply.
    kubectl.ok(&["delete", "cm", "cfg"]).await;
    kubectl.ok(&["apply", "-f", &one]).await;
    kubectl.ok(&["apply", "--server-side", "-f", &three]).await;
    let last = "jsonpath={.metadata.annotations.kubectl\\.kubernetes\\.io/last-applied-configuration}";
    let said = kubectl.ok(&["get", "cm", "cfg", "-o", last]).await;
    assert!(said.contains("\"A\":\"3\""), "{said}");
    kubectl.ok(&["apply", "-f", &one]).await;
    assert_eq!(kubectl.ok(&["get", "cm", "cfg", "-o", "jsonpath={.data.A}"]).await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_followed_by_watch_and_wait() {
    let running = Running::start().await;
    let Some(kubectl) = newer_kubectl(&running) else { return };
    kubectl.ok(&["run", "p", "--image=busybox"]).await;
    let mut watch =
        kubectl.command(&["get", "pods", "-w", "--no-headers"]).stdout(Stdio::piped()).spawn().expect("runs");
    let mut output = watch.stdout.take().expect("piped");
    let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let reader = tokio::task::spawn_blocking(move || {
        let mut line = Vec::new();
        let mut byte = [0];
        while output.read(&mut byte).is_ok_and(|count| count > 0) {
            if byte[0] == b'\n' {
                let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
                line.clear();
            } else {
                line.push(byte[0]);
            }
        }
    });
    let mut next = async || {
        tokio::time::timeout(std::time::Duration::from_secs(20), lines.recv())
            .await
            .expect("in time")
            .expect("a line")
    };
    assert!(next().await.contains("Pending"));
    kubectl
        .ok(&[
            "patch",
            "pod",
            "p",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#,
        ])
        .await;
    assert!(next().await.contains("Running"));
    assert_eq!(
        kubectl.ok(&["wait", "--for=condition=Ready", "pod/p", "--timeout=10s"]).await,
        "pod/p condition met\n"
    );
    kubectl.ok(&["delete", "pod", "p", "--grace-period=0", "--force"]).await;
    assert!(next().await.starts_with('p'));
    watch.kill().expect("runs");
    watch.wait().expect("ends");
    reader.await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_are_explained_and_parameters_are_found_in_the_documents() {
    let running = Running::start().await;
    let Some(kubectl) = kubectl(&running) else { return };
    let pod = kubectl.ok(&["explain", "pods"]).await;
    assert!(pod.contains("Containers that run together on one node"), "{pod}");
    assert!(pod.contains("spec\t<") && pod.contains("The wanted state."), "{pod}");
    let source = kubectl.ok(&["explain", "po.spec.containers.env.valueFrom"]).await;
    assert!(source.contains("fieldRef\t<") && source.contains("A field of the pod."), "{source}");
    assert!(kubectl.ok(&["explain", "pod", "--recursive"]).await.contains("readOnlyRootFilesystem"));
    let quota = kubectl.ok(&["explain", "roles.rules"]).await;
    assert!(quota.contains("-required-") && quota.contains("verbs\t<[]string>"), "{quota}");
    assert!(kubectl.ok(&["explain", "templates"]).await.contains("Objects with parameters"));
    assert!(kubectl.fails(&["explain", "pods.spec.nonsense"]).await.contains("nonsense"));
    let file = kubectl.file("app.yaml", APPLICATION);
    let told = kubectl.ok(&["apply", "--dry-run=server", "-f", &file]).await;
    assert!(told.contains("pod/web created (server dry run)"), "{told}");
    assert!(kubectl.fails(&["get", "pod", "web"]).await.contains("NotFound"));
    kubectl.ok(&["apply", "-f", &file]).await;
    // Old versions look into the document themselves, new ones leave it to the server.
    let wrong = kubectl.file("wrong.yaml", &APPLICATION.replace("command:", "comand:"));
    let error = kubectl.fails(&["create", "-f", &wrong]).await;
    assert!(error.contains("unknown field") && error.contains("comand"), "{error}");
}

/// A pod with values of every form that protobuf has.
const RICH: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: rich
  labels: {a: b, z: \"1\"}
  annotations: {note: \"üñí\", k: \"\"}
  finalizers: [coracle.dev/x]
spec:
  restartPolicy: OnFailure
  terminationGracePeriodSeconds: 30
  activeDeadlineSeconds: 600
  hostNetwork: true
  securityContext: {runAsUser: 0, fsGroup: 7, supplementalGroups: [1, 300, 70000], seccompProfile: {type: RuntimeDefault}}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b, c]}]}]}
  tolerations: [{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 0}, {operator: Exists}]
  hostAliases: [{ip: 1.2.3.4, hostnames: [a, b]}]
  dnsConfig: {nameservers: [1.1.1.1], options: [{name: ndots, value: \"2\"}, {name: x}]}
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a: b}}}]
  volumes:
  - {name: e, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
  - {name: c, configMap: {name: a, optional: true, defaultMode: 420, items: [{key: k, path: p, mode: 0}]}}
  - {name: pr, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 3600}}, {downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}, {path: m, resourceFieldRef: {containerName: main, resource: limits.cpu, divisor: 1m}}]}}]}}
  - {name: h, hostPath: {path: /, type: \"\"}}
  initContainers: [{name: i, image: busybox, restartPolicy: Always}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, \"\"]
    ports: [{containerPort: 80, hostPort: 80, name: http, protocol: TCP}]
    env:
    - {name: A, value: \"\"}
    - {name: B, valueFrom: {secretKeyRef: {name: s, key: k, optional: false}}}
    - {name: C, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    envFrom: [{prefix: P_, configMapRef: {name: a}}]
    resources: {limits: {cpu: 250m, memory: 64Mi}, requests: {cpu: \"0.1\"}}
    livenessProbe: {httpGet: {path: /, port: http, httpHeaders: [{name: X, value: \"\"}]}, initialDelaySeconds: 5}
    readinessProbe: {tcpSocket: {port: 80}}
    startupProbe: {exec: {command: [ls]}}
    lifecycle: {preStop: {sleep: {seconds: 3}}, postStart: {exec: {command: [a]}}}
    securityContext: {privileged: false, capabilities: {add: [A, B], drop: [ALL]}, readOnlyRootFilesystem: false, runAsNonRoot: false}
    volumeMounts: [{name: e, mountPath: /e, subPath: x, readOnly: true}]
    stdin: true
    tty: false
";

/// Lists without what their items say about their own type, which is not in protobuf.
fn items(list: &str) -> serde_json::Value {
    let mut list: serde_json::Value = serde_json::from_str(list).expect("JSON");
    for item in list["items"].as_array_mut().expect("items") {
        let item = item.as_object_mut().expect("an object");
        item.remove("kind");
        item.remove("apiVersion");
    }
    list["items"].take()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_go_client_reads_the_same_lists_from_protobuf_as_from_json() {
    let running = Running::start().await;
    let Some(kubectl) = newer_kubectl(&running) else { return };
    kubectl.ok(&["create", "configmap", "a", "--from-literal=k=v"]).await;
    let file = kubectl.file("rich.yaml", &format!("{RICH}---\n{APPLICATION}"));
    kubectl.ok(&["create", "-f", &file]).await;
    let status = serde_json::json!({"status": {"startTime": "2026-01-01T00:00:00Z", "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "containerStatuses": [{"name": "main", "image": "x", "imageID": "", "ready": true, "restartCount": 2,
            "state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}},
            "lastState": {"terminated": {"exitCode": -1, "startedAt": null, "finishedAt": "2026-01-01T00:00:01Z"}}}]}});
    let headers = [("content-type", "application/merge-patch+json")];
    let path = "/api/v1/namespaces/default/pods/rich/status";
    let (code, told) = running.call("PATCH", path, &headers, status.to_string().as_bytes()).await;
    assert_eq!(code, 200, "{told}");
    // New versions ask for these lists in protobuf and write what they read as JSON.
    let directory = kubectl.home.join("dump");
    kubectl
        .ok(&[
            "cluster-info",
            "dump",
            "--show-managed-fields",
            "--output-directory",
            &directory.display().to_string(),
        ])
        .await;
    for plural in ["pods", "services", "events"] {
        let dumped =
            std::fs::read_to_string(directory.join(format!("default/{plural}.json"))).expect("dumped");
        let (_, list) = running.get(&format!("/api/v1/namespaces/default/{plural}")).await;
        if list["items"].as_array().is_some_and(|items| !items.is_empty()) {
            assert_eq!(items(&dumped), items(&list.to_string()), "{plural}");
        }
    }
    let described = kubectl.ok(&["describe", "pod", "rich"]).await;
    assert!(described.contains("Startup:") && described.contains("250m"), "{described}");
}

const STORED: &str = "\
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /x}, storageClassName: fast}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: example.com/p
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: i}
spec: {defaultBackend: {service: {name: s, port: {number: 80}}}}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: ic}
spec: {controller: example.com/i}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: np}
spec: {podSelector: {matchLabels: {a: b}}, ingress: [{from: [{podSelector: {}}], ports: [{port: 80}]}]}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: r}
handler: h
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: p}
value: 5
---
apiVersion: v1
kind: LimitRange
metadata: {name: l}
spec: {limits: [{type: Container, max: {cpu: '1'}}]}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: q}
spec: {hard: {pods: '3'}, scopes: [BestEffort]}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: b}
spec: {maxUnavailable: 50%, selector: {matchLabels: {a: b}}}
---
apiVersion: v1
kind: Endpoints
metadata: {name: e}
subsets: [{addresses: [{ip: 10.0.0.1}], ports: [{port: 80}]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: e, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1]}]
ports: [{port: 80}]
---
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: ev}
regarding: {apiVersion: v1, kind: Pod, name: x, namespace: default}
reason: Moved
action: Move
note: it moved
type: Normal
eventTime: '2026-01-01T00:00:00.000000Z'
reportingController: example.com/m
reportingInstance: m-1
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_networks_and_storage_are_applied_described_and_deleted() {
    let running = Running::start().await;
    let Some(kubectl) = newer_kubectl(&running) else { return };
    let file = kubectl.file("stored.yaml", STORED);
    let first = kubectl.ok(&["apply", "-f", &file]).await;
    assert_eq!(first.lines().count(), 14, "{first}");
    // Lists without keys are sent again, for the defaults in them differ from the file; nothing changes by that.
    let versions = ["get", "-f", &file, "-o", "jsonpath={.items[*].metadata.generation}"];
    let before = kubectl.ok(&versions).await;
    kubectl.ok(&["apply", "-f", &file]).await;
    assert_eq!(kubectl.ok(&versions).await, before);
    for (what, part) in [
        ("pv/v", "Reclaim Policy:  Retain"),
        ("pvc/c", "VolumeMode:    Filesystem"),
        ("sc/fast", "example.com/p"),
        ("ing/i", "Default backend:"),
        ("ingressclass/ic", "example.com/i"),
        ("netpol/np", "Allowing ingress traffic"),
        ("runtimeclass/r", "Handler:"),
        ("pc/p", "Value:"),
        ("limits/l", "Container"),
        ("quota/q", "BestEffort"),
        ("pdb/b", "Max unavailable:  50%"),
        ("ep/e", "10.0.0.1"),
        ("endpointslice/e", "AddressType:  IPv4"),
        ("events.events.k8s.io/ev", "it moved"),
    ] {
        let described = kubectl.ok(&["describe", what]).await;
        assert!(described.contains(part), "{what}: {described}");
    }
    let wide = kubectl.ok(&["get", "events", "-o", "wide"]).await;
    assert!(
        wide.contains("Moved") && wide.contains("pod/x") && wide.contains("example.com/m, m-1"),
        "{wide}"
    );
    kubectl.ok(&["delete", "-f", &file]).await;
    assert_eq!(kubectl.ok(&["get", "pv,pvc,sc,ing,netpol,limits,quota,pdb", "-o", "name"]).await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_are_asked_granted_and_refused() {
    let running = Running::start().await;
    let Some(kubectl) = newer_kubectl(&running) else { return };
    let refused = kubectl.fails(&["get", "pods", "--as=jane"]).await;
    assert_eq!(
        refused,
        "Error from server (Forbidden): pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\"\n"
    );
    assert_eq!(
        kubectl.ok(&["create", "rolebinding", "jane", "--clusterrole=view", "--user=jane"]).await,
        "rolebinding.rbac.authorization.k8s.io/jane created\n"
    );
    kubectl.ok(&["get", "pods", "--as=jane"]).await;
    assert_eq!(kubectl.ok(&["auth", "can-i", "list", "pods", "--as=jane"]).await, "yes\n");
    let no = kubectl.run(&["auth", "can-i", "delete", "pods", "--as=jane"]).await;
    assert_eq!(String::from_utf8_lossy(&no.stdout), "no\n");
    assert_eq!(kubectl.ok(&["auth", "can-i", "*", "*"]).await, "yes\n");
    let list = kubectl.ok(&["auth", "can-i", "--list", "--as=jane"]).await;
    assert!(
        list.lines().any(|line| line.starts_with("configmaps ") && line.contains("[get list watch]")),
        "{list}"
    );
    let table = kubectl.ok(&["get", "rolebindings", "-o", "wide"]).await;
    assert!(table.contains("ClusterRole/view"), "{table}");
    let who =
        kubectl.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", "--as=jane"]).await;
    assert_eq!(who, "jane");
    kubectl.ok(&["create", "role", "pod-reader", "--verb=get,list", "--resource=pods,pods/log"]).await;
    kubectl.ok(&["create", "clusterrole", "healths", "--verb=get", "--non-resource-url=/logs/*"]).await;
    let described = kubectl.ok(&["describe", "role", "pod-reader"]).await;
    assert!(described.contains("pods/log"), "{described}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_account_works_with_its_token() {
    let running = Running::start().await;
    let Some(kubectl) = newer_kubectl(&running) else { return };
    kubectl.ok(&["create", "serviceaccount", "bot"]).await;
    kubectl.ok(&["create", "rolebinding", "bot", "--clusterrole=edit", "--serviceaccount=default:bot"]).await;
    let token = kubectl.ok(&["create", "token", "bot", "--duration=20m"]).await;
    let token = token.trim();
    // A kubeconfig that holds nothing but the token.
    let authority = kubectl.file("ca.crt", running.authority.certificate_pem());
    let server = format!("https://{}", running.address);
    let kubeconfig = kubectl.home.join("bot");
    let bot = Kubectl { kubeconfig, home: kubectl.home.clone() };
    bot.ok(&["config", "set-cluster", "c", "--server", &server, "--certificate-authority", &authority]).await;
    bot.ok(&["config", "set-credentials", "bot", "--token", token]).await;
    bot.ok(&["config", "set-context", "c", "--cluster=c", "--user=bot"]).await;
    bot.ok(&["config", "use-context", "c"]).await;
    assert_eq!(
        bot.ok(&["create", "configmap", "mine", "--from-literal=a=b"]).await,
        "configmap/mine created\n"
    );
    let refused = bot.fails(&["get", "nodes"]).await;
    assert!(
        refused.contains(
            "nodes is forbidden: User \"system:serviceaccount:default:bot\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
        ),
        "{refused}"
    );
    kubectl.ok(&["delete", "serviceaccount", "bot"]).await;
    let refused = bot.fails(&["get", "configmaps"]).await;
    assert!(refused.contains("Unauthorized") || refused.contains("must be logged in"), "{refused}");
}
