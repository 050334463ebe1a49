//! `coracle env` against a cluster: any API server will do, and nothing runs.

use e2e::{Node, Place, finish};

const OBJECTS: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {LEVEL: info}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {PASSWORD: canary-77aa}
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: 10.43.9.9, ports: [{port: 5432}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers:
  - name: c
    image: web:1
    env:
    - {name: URL, value: "postgres://$(PASSWORD)@$(DB_SERVICE_HOST)/$(MISSING)"}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: login, key: PASSWORD}}}
    - {name: URL2, value: "postgres://$(PASSWORD)@$(DB_SERVICE_HOST)/"}
    - {name: GONE, valueFrom: {configMapKeyRef: {name: nothing, key: k}}}
    envFrom: [{configMapRef: {name: settings}}]
"#;

#[test]
fn what_files_refer_to_comes_from_the_cluster_when_asked() {
    let place = Place::new();
    let server = Node::api_alone(&place, "api", &[]);
    let (sources, pod) = OBJECTS.rsplit_once("---\n").expect("the pod is the last one");
    server.kubectl_ok(&["create", "-f", "-"], sources);
    let kubeconfig = server.kubeconfig.to_str().expect("text");
    let file = place.file("web.yaml", pod);
    let file = file.to_str().expect("text");
    let alone = finish(&mut place.coracle(&["env", "-f", file, "-o", "dotenv"]), "");
    assert!(!alone.stdout.contains("LEVEL"), "{}", alone.all());
    let with = finish(&mut place.coracle(&["env", "-f", file, "--kubeconfig", kubeconfig]), "");
    for part in [
        "info",
        "postgres://****@10.43.9.9/",
        "envFrom[0] configMap settings key LEVEL",
        // A ConfigMap that the cluster does not have is an error, no gap in the input.
        "configmap \"nothing\" not found",
        "web.yaml:",
    ] {
        assert!(with.all().contains(part), "{part}: {}", with.all());
    }
    assert!(!with.all().contains("canary-77aa"), "{}", with.all());
}

#[test]
fn an_object_of_the_cluster_is_explained_where_there_is_no_record() {
    let place = Place::new();
    let server = Node::api_alone(&place, "api", &[]);
    server.kubectl_ok(&["create", "-f", "-"], OBJECTS);
    let kubeconfig = server.kubeconfig.to_str().expect("text");
    let said = finish(&mut place.coracle(&["env", "pod/web", "--kubeconfig", kubeconfig]), "");
    assert_eq!(said.status, 0, "{}", said.all());
    assert!(said.stderr.contains("there is no record of this pod"), "{}", said.all());
    assert!(said.stdout.contains("postgres://****@10.43.9.9/"), "{}", said.all());
    // Findings point into the object as kubectl would print it.
    assert!(said.stdout.contains("--> pod/web:"), "{}", said.all());
    for (argument, message) in [
        ("pod/none", "pods \"none\" not found"),
        ("service/db", "names nothing that has containers"),
        ("web", "names nothing that has containers"),
    ] {
        let said = finish(&mut place.coracle(&["env", argument, "--kubeconfig", kubeconfig]), "");
        assert_eq!(said.status, 2, "{}", said.all());
        assert!(said.stderr.contains(message), "{argument}: {}", said.all());
    }
    let said = finish(&mut place.coracle(&["env", "pod/web", "--kubeconfig", "/nowhere"]), "");
    assert_eq!(said.status, 2, "{}", said.all());
}
