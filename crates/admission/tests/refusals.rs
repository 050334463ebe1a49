//! What create refuses, kind by kind, in upstream's sentences.

use admission::{AdmissionRequest, prepare_create};
use schema::{FieldValidation, builtin, decode_value, resource};
use serde_json::{Value, json};

fn told(plural: &str, mut object: Value) -> Vec<String> {
    let resource = resource("", "v1", plural).expect("a core resource");
    let ty = builtin().type_for("v1", resource.kind).expect("a built-in type");
    if object["metadata"]["name"].is_null() {
        object["metadata"]["name"] = "x".into();
    }
    if resource.namespaced && object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = "default".into();
    }
    let mut object = decode_value(ty, &object, FieldValidation::Strict).expect("well-formed").value;
    match prepare_create(resource, &mut object, &AdmissionRequest::default()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.0.iter().map(ToString::to_string).collect(),
    }
}

/// Errors of a pod with these fields; container `c` is there unless the fields bring their own.
fn pod(spec: Value) -> Vec<String> {
    let mut whole =
        json!({"automountServiceAccountToken": false, "containers": [{"name": "c", "image": "i"}]});
    for (name, value) in spec.as_object().expect("fields") {
        whole[name] = value.clone();
    }
    told("pods", json!({"spec": whole}))
}

/// Errors of a pod whose only container has these fields, without the path of the container.
fn container(fields: Value) -> Vec<String> {
    let mut whole = json!({"name": "c", "image": "i"});
    for (name, value) in fields.as_object().expect("fields") {
        whole[name] = value.clone();
    }
    let errors = pod(json!({"containers": [whole], "volumes": [{"name": "v", "emptyDir": {}}]}));
    errors.into_iter().map(|error| error.replacen("spec.containers[0].", "", 1)).collect()
}

fn check(cases: Vec<(Vec<String>, &[&str])>) {
    for (index, (got, want)) in cases.into_iter().enumerate() {
        assert_eq!(got, want, "row {index}");
    }
}

const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

#[test]
fn ports_of_containers() {
    let port = |number: i64| format!("ports[0].containerPort: Invalid value: {number}: {PORT_RANGE}");
    let negative = port(-1);
    let large = port(70_000);
    check(vec![
        (container(json!({"ports": [{"containerPort": -1}]})), &[&negative]),
        (container(json!({"ports": [{"containerPort": 70000}]})), &[&large]),
        (container(json!({"ports": [{}]})), &["ports[0].containerPort: Required value"]),
        (
            container(json!({"ports": [{"containerPort": 1, "protocol": "X"}]})),
            &["ports[0].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\""],
        ),
        (
            container(
                json!({"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]}),
            ),
            &["ports[1].name: Duplicate value: \"a\""],
        ),
        (
            container(
                json!({"ports": [{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]}),
            ),
            &["ports[1].hostPort: Duplicate value: \"TCP//5\""],
        ),
        (
            container(json!({"ports": [{"containerPort": 1, "name": "-"}]})),
            &[
                "ports[0].name: Invalid value: \"-\": must contain at least one letter (a-z)",
                "ports[0].name: Invalid value: \"-\": must not begin or end with a hyphen",
            ],
        ),
        (
            pod(json!({"hostNetwork": true,
                "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 2}]}]})),
            &[
                "spec.containers[0].ports[0].containerPort: Invalid value: 1: must match `hostPort` when `hostNetwork` is true",
            ],
        ),
    ]);
}

#[test]
fn probes_and_hooks() {
    let probe = |fields: Value| container(json!({"livenessProbe": fields}));
    check(vec![
        (probe(json!({})), &["livenessProbe: Required value: must specify a handler type"]),
        (
            probe(json!({"exec": {"command": []}, "timeoutSeconds": -1, "successThreshold": 2})),
            &[
                "livenessProbe.exec.command: Required value",
                "livenessProbe.timeoutSeconds: Invalid value: -1: must be greater than or equal to 0",
                "livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
        (
            probe(
                json!({"httpGet": {"port": 0, "scheme": "FTP", "httpHeaders": [{"name": "a b", "value": ""}]}}),
            ),
            &[
                "livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "livenessProbe.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
                "livenessProbe.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
            ],
        ),
        (
            container(
                json!({"readinessProbe": {"tcpSocket": {"port": "a_b"}, "terminationGracePeriodSeconds": 5}}),
            ),
            &[
                "readinessProbe.tcpSocket.port: Invalid value: \"a_b\": must contain only alphanumeric characters (a-z, 0-9), and hyphens (-)",
                "readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes",
            ],
        ),
        (
            container(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}})),
            &[
                "lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
            ],
        ),
        (container(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 0}}}})), &[]),
    ]);
}

#[test]
fn mounts_and_paths() {
    let mount = |fields: Value| {
        let mut mount = json!({"name": "v", "mountPath": "/m"});
        for (name, value) in fields.as_object().expect("fields") {
            mount[name] = value.clone();
        }
        container(json!({"volumeMounts": [mount]}))
    };
    check(vec![
        (mount(json!({"mountPath": ""})), &["volumeMounts[0].mountPath: Required value"]),
        (
            mount(json!({"subPath": "/a"})),
            &["volumeMounts.subPath: Invalid value: \"/a\": must be a relative path"],
        ),
        (
            mount(json!({"subPath": "a/../b"})),
            &["volumeMounts.subPath: Invalid value: \"a/../b\": must not contain '..'"],
        ),
        (
            mount(json!({"subPath": "a", "subPathExpr": "$(B)"})),
            &[
                "volumeMounts[0].subPathExpr: Invalid value: \"$(B)\": subPathExpr and subPath are mutually exclusive",
            ],
        ),
        (
            mount(json!({"mountPropagation": "Bidirectional"})),
            &[
                "volumeMounts[0].mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
            ],
        ),
        (
            container(
                json!({"volumeMounts": [{"name": "v", "mountPath": "/m"}, {"name": "v", "mountPath": "/m"}]}),
            ),
            &["volumeMounts[1].mountPath: Invalid value: \"/m\": must be unique"],
        ),
    ]);
}

#[test]
fn resources() {
    let with = |limits: Value, requests: Value| {
        container(json!({"resources": {"limits": limits, "requests": requests}}))
    };
    check(vec![
        (
            with(json!({"cpu": "1"}), json!({"cpu": "2"})),
            &["resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"],
        ),
        (
            with(json!({"cpu": "-1"}), json!({})),
            &[
                "resources.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                "resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
            ],
        ),
        (
            with(json!({}), json!({"gpu": "1"})),
            &["resources.requests[gpu]: Invalid value: \"gpu\": must be a standard resource for containers"],
        ),
        (
            with(json!({}), json!({"example.com/gpu": "1"})),
            &["resources.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
        (with(json!({"example.com/gpu": "1"}), json!({})), &[]),
    ]);
}

#[test]
fn volumes() {
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = "v".into();
        pod(json!({"volumes": [volume]}))
    };
    check(vec![
        (
            volume(json!({"emptyDir": {}, "hostPath": {"path": "/x"}})),
            &["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            volume(json!({"emptyDir": {"sizeLimit": "-1"}})),
            &[
                "spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity",
            ],
        ),
        (
            volume(json!({"hostPath": {"path": "/a/../b"}})),
            &["spec.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"],
        ),
        (
            volume(
                json!({"configMap": {"name": "", "defaultMode": 512, "items": [{"key": "", "path": "..x"}]}}),
            ),
            &[
                "spec.volumes[0].configMap.name: Required value",
                "spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
                "spec.volumes[0].configMap.items[0].key: Required value",
                "spec.volumes[0].configMap.items[0].path: Invalid value: \"..x\": must not start with '..'",
            ],
        ),
        (
            volume(json!({"downwardAPI": {"items": [{"path": "a"}]}})),
            &[
                "spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
            ],
        ),
        (
            volume(
                json!({"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}}),
            ),
            &["spec.volumes[0].downwardAPI.resourceFieldRef.containerName: Required value"],
        ),
        (
            volume(
                json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 1}}]}}),
            ),
            &[
                "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
            ],
        ),
        (
            pod(json!({"volumes": [{"name": "v"}, {"name": "v"}]})),
            &["spec.volumes[1].name: Duplicate value: \"v\""],
        ),
    ]);
}

#[test]
fn divisors_and_field_paths() {
    let variable = |source: Value| container(json!({"env": [{"name": "A", "valueFrom": source}]}));
    check(vec![
        (
            variable(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}})),
            &[
                "env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
            ],
        ),
        (
            variable(json!({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1m"}})),
            &[
                "env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.memory\": only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource",
            ],
        ),
        (
            variable(json!({"resourceFieldRef": {"resource": "limits.gpu"}})),
            &[
                "env[0].valueFrom.resourceFieldRef.resource: Unsupported value: \"limits.gpu\": supported values: \"limits.cpu\", \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", \"requests.ephemeral-storage\", \"requests.memory\"",
            ],
        ),
        (variable(json!({"resourceFieldRef": {"resource": "limits.hugepages-2Mi", "divisor": "1Mi"}})), &[]),
        (variable(json!({"fieldRef": {"fieldPath": "metadata.labels['a/b']"}})), &[]),
        (
            variable(json!({"fieldRef": {"fieldPath": "metadata.name['a']"}})),
            &[
                "env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"metadata.name['a']\": error converting fieldPath: field label does not support subscript: metadata.name['a']",
            ],
        ),
        (
            variable(json!({"configMapKeyRef": {"name": "m", "key": ""}})),
            &["env[0].valueFrom.configMapKeyRef.key: Required value"],
        ),
    ]);
}

#[test]
fn settings_of_pods() {
    check(vec![
        (
            pod(json!({"restartPolicy": "Sometimes"})),
            &[
                "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", \"OnFailure\", \"Never\"",
            ],
        ),
        (
            pod(json!({"dnsPolicy": "None"})),
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            pod(json!({"dnsConfig": {"nameservers": ["x"]}})),
            &[
                "spec.dnsConfig.nameservers[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        ),
        (
            pod(json!({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a.b", "_"]}]})),
            &[
                "spec.hostAliases.hostnames: Invalid value: \"_\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
        ),
        (
            pod(
                json!({"tolerations": [{"operator": "Exists", "tolerationSeconds": 1}, {"key": "k", "operator": "Is"}]}),
            ),
            &[
                "spec.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
                "spec.tolerations[1].operator: Unsupported value: \"Is\": supported values: \"Equal\", \"Exists\"",
            ],
        ),
        (
            pod(json!({"securityContext": {"runAsUser": -1}})),
            &[
                "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
        ),
        (
            pod(json!({"activeDeadlineSeconds": 0})),
            &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            pod(
                json!({"initContainers": [{"name": "i", "image": "i", "lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}]}),
            ),
            &[
                "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
        (
            pod(json!({"initContainers": [{"name": "c", "image": "i"}]})),
            &["spec.initContainers[0].name: Duplicate value: \"c\""],
        ),
    ]);
}

#[test]
fn metadata_of_all_objects() {
    let map = |metadata: Value| told("configmaps", json!({"metadata": metadata}));
    check(vec![
        (
            map(json!({"name": "", "namespace": "default"})),
            &["metadata.name: Required value: name or generateName is required"],
        ),
        (
            map(json!({"annotations": {"a": "x".repeat(262_144)}})),
            &["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        (map(json!({"annotations": {"A.B/c": "x"}})), &[]),
        (
            told("namespaces", json!({"metadata": {"name": "a.b"}})),
            &["metadata.name: Invalid value: \"a.b\": must not contain dots"],
        ),
        (
            told("nodes", json!({"metadata": {"namespace": "default"}})),
            &["metadata.namespace: Forbidden: not allowed on this type"],
        ),
    ]);
}

#[test]
fn services() {
    let service = |spec: Value| told("services", json!({"spec": spec}));
    check(vec![
        (
            service(json!({"type": "What", "ports": [{"port": 1}]})),
            &[
                "spec.type: Unsupported value: \"What\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
            ],
        ),
        (
            service(json!({"ports": [{"port": 1}, {"port": 1}]})),
            &[
                "spec.ports[0].name: Required value",
                "spec.ports[1].name: Required value",
                "spec.ports[1]: Duplicate value: {\"AppProtocol\":null,\"Name\":\"\",\"NodePort\":0,\"Port\":1,\"Protocol\":\"TCP\",\"TargetPort\":0}",
            ],
        ),
        (
            service(json!({"ports": [{"port": 1, "nodePort": 30000}]})),
            &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (service(json!({"type": "ExternalName"})), &["spec.externalName: Required value"]),
        (
            service(json!({"type": "NodePort", "clusterIP": "None", "ports": [{"port": 1}]})),
            &["spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services"],
        ),
        (
            service(json!({"clusterIP": "x", "ports": [{"port": 1}]})),
            &[
                "spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        ),
    ]);
}

#[test]
fn config_maps_secrets_and_events() {
    let large = "x".repeat(1_048_577);
    check(vec![
        (
            told("configmaps", json!({"data": {"a": "1"}, "binaryData": {"a": "MQ=="}})),
            &["data[a]: Invalid value: \"a\": duplicate of key present in binaryData"],
        ),
        (
            told("configmaps", json!({"data": {"a": large}})),
            &[": Too long: may not be more than 1048576 bytes"],
        ),
        (told("configmaps", json!({"data": {"a": &large[..1_048_576]}})), &[]),
        (
            told("secrets", json!({"stringData": {"a": large}})),
            &["data: Too long: may not be more than 1048576 bytes"],
        ),
        (told("secrets", json!({"stringData": {"a": &large[..1_048_576]}})), &[]),
        (
            told("secrets", json!({"type": "kubernetes.io/tls", "stringData": {"tls.crt": "x"}})),
            &["data[tls.key]: Required value"],
        ),
        (
            told(
                "secrets",
                json!({"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": "hush"}}),
            ),
            &[
                "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": must be a JSON object",
            ],
        ),
        (
            told("events", json!({"involvedObject": {"namespace": "other"}})),
            &["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"],
        ),
    ]);
}

#[test]
fn a_thousand_problems_are_enough() {
    let env: Vec<Value> = (0..20_000).map(|_| json!({"name": "="})).collect();
    let errors = container(json!({"env": env}));
    assert_eq!(errors.len(), 1001);
    assert_eq!(errors[1000], ": Too many: more than 1000 problems: the others are not shown");
}

#[test]
fn affinity_and_spread() {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let node = |terms: Value| {
        let errors = pod(json!({"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}}));
        errors.into_iter().map(|error| error.replace("spec.affinity.nodeAffinity.", "")).collect::<Vec<_>>()
    };
    let no_term =
        format!("{required}.nodeSelectorTerms: Required value: must have at least one node selector term");
    let place = format!("{required}.nodeSelectorTerms[0].matchExpressions[0]");
    let no_values =
        format!("{place}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'");
    check(vec![
        (node(json!([])), &[&no_term]),
        (node(json!([{"matchExpressions": [{"key": "k", "operator": "In"}]}])), &[&no_values]),
        (node(json!([{"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]}])), &[]),
        (
            pod(json!({"affinity": {"podAffinity": {required: [{"labelSelector": {}}]}}})),
            &[
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty",
            ],
        ),
        (
            pod(
                json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "k", "whenUnsatisfiable": "X"}]}),
            ),
            &[
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"X\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
            ],
        ),
    ]);
}

#[test]
fn restart_rules_of_containers() {
    let rule =
        |operator: &str| json!({"action": "Restart", "exitCodes": {"operator": operator, "values": [1]}});
    let rules = |fields: Value| container(json!({"restartPolicy": "Never", "restartPolicyRules": fields}));
    let many: Vec<Value> = (0..21).map(|_| rule("In")).collect();
    let codes: Vec<i32> = (0..256).collect();
    check(vec![
        (
            rules(
                json!([rule("In"), {"action": "RestartAllContainers", "exitCodes": {"operator": "NotIn", "values": [0]}}]),
            ),
            &[],
        ),
        (
            container(json!({"restartPolicyRules": [rule("In")]})),
            &["restartPolicy: Required value: must specify restartPolicy when restart rules are used"],
        ),
        (
            rules(json!([{"action": "Reboot", "exitCodes": {"operator": "In", "values": [1]}}])),
            &[
                "restartPolicyRules[0].action: Unsupported value: \"Reboot\": supported values: \"Restart\", \"RestartAllContainers\"",
            ],
        ),
        (
            rules(json!([{"action": "Restart"}])),
            &["restartPolicyRules[0].exitCodes: Required value: must be specified"],
        ),
        (
            rules(json!([rule("Like")])),
            &[
                "restartPolicyRules[0].exitCodes.operator: Unsupported value: \"Like\": supported values: \"In\", \"NotIn\"",
            ],
        ),
        (rules(json!(many)), &["restartPolicyRules: Too many: 21: must have at most 20 items"]),
        (
            rules(json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": codes}}])),
            &["restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items"],
        ),
    ]);
}
