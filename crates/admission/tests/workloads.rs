//! The kinds with pod templates: what is refused in which words, at creation, at changes and in a status.

use admission::{AdmissionRequest, prepare_create, prepare_status_update, prepare_update};
use schema::{FieldValidation, Resource, builtin, decode_value, resources};
use serde_json::{Value, json};

/// Values by the pointers to their places.
type Changes = Vec<(&'static str, Value)>;

fn resource_of(kind: &str) -> &'static Resource {
    let group = match kind {
        "PodTemplate" | "ReplicationController" => "",
        "Job" | "CronJob" => "batch",
        _ => "apps",
    };
    resources()
        .iter()
        .find(|entry| (entry.group, entry.version, entry.kind) == (group, "v1", kind))
        .expect("a built-in kind")
}

/// A valid object of a kind.
fn base(kind: &str) -> Value {
    let template = |policy: &str| {
        json!({"metadata": {"labels": {"a": "b"}},
            "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]}})
    };
    let metadata =
        json!({"name": "x", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"});
    match kind {
        "PodTemplate" => json!({"metadata": metadata, "template": template("Never")}),
        "ReplicationController" => json!({"metadata": metadata, "spec": {"template": template("Always")}}),
        "ControllerRevision" => json!({"metadata": metadata, "data": {"a": 1}, "revision": 1}),
        "Job" => json!({"metadata": metadata, "spec": {"template": template("Never")}}),
        "CronJob" => json!({"metadata": metadata,
            "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template("OnFailure")}}}}),
        _ => json!({"metadata": metadata,
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template("Always")}}),
    }
}

/// Sets the value at a pointer, with all that leads there; null removes it.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut place = object;
    let mut parts = pointer.trim_start_matches('/').split('/').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() && value.is_null() {
            place.as_object_mut().expect("an object").remove(part);
            return;
        }
        place = match part.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[part],
        };
    }
    *place = value;
}

fn decoded(kind: &str, object: &Value) -> Value {
    let resource = resource_of(kind);
    let ty = builtin().type_for(resource.group_version, kind).expect("a built-in type");
    decode_value(ty, object, FieldValidation::Strict).unwrap_or_else(|error| panic!("{kind}: {error}")).value
}

fn created(kind: &str, changes: &[(&str, Value)]) -> Result<(Value, Vec<String>), String> {
    let mut object = base(kind);
    for (pointer, value) in changes {
        set(&mut object, pointer, value.clone());
    }
    let mut object = decoded(kind, &object);
    let told = prepare_create(resource_of(kind), &mut object, &AdmissionRequest::default());
    let warnings = told.map_err(|errors| errors.to_string())?;
    Ok((object, warnings.into_iter().map(|warning| warning.0).collect()))
}

fn stored(kind: &str, changes: &[(&str, Value)]) -> Value {
    created(kind, changes).unwrap_or_else(|told| panic!("{kind}: {told}")).0
}

fn updated(kind: &str, before: &[(&str, Value)], changes: &[(&str, Value)]) -> Result<Value, String> {
    let old = stored(kind, before);
    let mut new = old.clone();
    for (pointer, value) in changes {
        set(&mut new, pointer, value.clone());
    }
    let mut new = decoded(kind, &new);
    prepare_update(resource_of(kind), &old, &mut new, &AdmissionRequest::default())
        .map(|_| new)
        .map_err(|errors| errors.to_string())
}

#[test]
fn every_base_object_is_valid_and_stays_so() {
    for kind in [
        "PodTemplate",
        "ReplicationController",
        "ControllerRevision",
        "DaemonSet",
        "Deployment",
        "ReplicaSet",
        "StatefulSet",
        "Job",
        "CronJob",
    ] {
        let object = stored(kind, &[]);
        assert_eq!(updated(kind, &[], &[]), Ok(object), "{kind}");
    }
}

#[test]
fn what_is_wrong_is_told_in_the_words_of_kubernetes() {
    let indexed = || ("/spec/completionMode", json!("Indexed"));
    let three = || ("/spec/completions", json!(3));
    let rule = |rule: Value| ("/spec/podFailurePolicy", json!({"rules": [rule]}));
    let success = |rule: Value| ("/spec/successPolicy", json!({"rules": [rule]}));
    let rolling =
        |fields: Value| ("/spec/strategy", json!({"type": "RollingUpdate", "rollingUpdate": fields}));
    let daemon =
        |fields: Value| ("/spec/updateStrategy", json!({"type": "RollingUpdate", "rollingUpdate": fields}));
    let percent = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
    let table: Vec<(&str, Changes, String)> = vec![
        // Deployment.
        ("Deployment", vec![("/spec/replicas", json!(-1))], "spec.replicas: Invalid value: -1: must be greater than or equal to 0".into()),
        (
            "Deployment",
            vec![("/spec/selector", Value::Null)],
            "[spec.selector: Required value, spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`]".into(),
        ),
        ("Deployment", vec![("/spec/selector", json!({}))], "spec.selector: Invalid value: {}: empty selector is invalid for deployment".into()),
        (
            "Deployment",
            vec![("/spec/selector", json!({"matchExpressions": [{"key": "a", "operator": "In"}]}))],
            "[spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn', \
             spec.selector: Invalid value: {\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\"}]}: invalid label selector]".into(),
        ),
        (
            "Deployment",
            vec![("/spec/template/metadata/labels", Value::Null)],
            "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`".into(),
        ),
        (
            "Deployment",
            vec![("/spec/template/spec/restartPolicy", json!("Never"))],
            "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"".into(),
        ),
        (
            "Deployment",
            vec![("/spec/template/spec/activeDeadlineSeconds", json!(5))],
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported".into(),
        ),
        (
            "Deployment",
            vec![("/spec/template/spec/ephemeralContainers", json!([{"name": "e", "image": "i"}]))],
            "spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template".into(),
        ),
        ("Deployment", vec![rolling(json!({"maxSurge": "x%"}))], format!("spec.strategy.rollingUpdate.maxSurge: Invalid value: \"x%\": {percent}")),
        ("Deployment", vec![rolling(json!({"maxSurge": 0, "maxUnavailable": "0%"}))], "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0".into()),
        ("Deployment", vec![rolling(json!({"maxUnavailable": "101%"}))], "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%".into()),
        ("Deployment", vec![rolling(json!({"maxUnavailable": -1}))], "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: -1: must be greater than or equal to 0".into()),
        (
            "Deployment",
            vec![("/spec/strategy", json!({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}))],
            "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'".into(),
        ),
        (
            "Deployment",
            vec![("/spec/strategy", json!({"type": "Other"}))],
            "spec.strategy: Unsupported value: {\"Type\":\"Other\",\"RollingUpdate\":null}: supported values: \"Recreate\", \"RollingUpdate\"".into(),
        ),
        (
            "Deployment",
            vec![("/spec/progressDeadlineSeconds", json!(5)), ("/spec/minReadySeconds", json!(5))],
            "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds".into(),
        ),
        // The environment of a template.
        (
            "Deployment",
            vec![("/spec/template/spec/containers", json!([{"name": "c", "image": "i", "env": [{"name": "A=B"}]}]))],
            "spec.template.spec.containers[0].env[0].name: Invalid value: \"A=B\": a valid environment variable name must consist only of printable ASCII characters other than '='".into(),
        ),
        (
            "CronJob",
            vec![(
                "/spec/jobTemplate/spec/template/spec/containers",
                json!([{"name": "c", "image": "i", "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "e", "key": "K"}}}]}]),
            )],
            "spec.jobTemplate.spec.template.spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Not found: \"v\"".into(),
        ),
        // ReplicaSet and ReplicationController.
        ("ReplicaSet", vec![("/spec/selector", json!({}))], "spec.selector: Invalid value: {}: empty selector is invalid for deployment".into()),
        ("ReplicationController", vec![("/spec/template", Value::Null)], "[spec.selector: Required value, spec.template: Required value]".into()),
        (
            "ReplicationController",
            vec![("/spec/selector", json!({"a": "c"}))],
            "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`".into(),
        ),
        // DaemonSet.
        (
            "DaemonSet",
            vec![("/spec/selector", Value::Null)],
            "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`".into(),
        ),
        ("DaemonSet", vec![daemon(json!({"maxUnavailable": 0, "maxSurge": 0}))], "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0".into()),
        ("DaemonSet", vec![daemon(json!({"maxUnavailable": 1, "maxSurge": "5%"}))], "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: \"5%\": may not be set when maxUnavailable is non-zero".into()),
        // StatefulSet.
        (
            "StatefulSet",
            vec![("/metadata/name", json!("a.b"))],
            "metadata.name: Invalid value: \"a.b\": must not contain dots".into(),
        ),
        ("StatefulSet", vec![("/spec/podManagementPolicy", json!("Any"))], "spec.podManagementPolicy: Invalid value: \"Any\": must be 'OrderedReady' or 'Parallel'".into()),
        ("StatefulSet", vec![("/spec/persistentVolumeClaimRetentionPolicy", json!({"whenScaled": "No"}))], "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"No\": supported values: \"Retain\", \"Delete\"".into()),
        ("StatefulSet", vec![daemon(json!({"maxUnavailable": 0}))], "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: 0: cannot be 0".into()),
        (
            "StatefulSet",
            vec![("/spec/updateStrategy", json!({"type": "OnDelete", "rollingUpdate": {"partition": 1}}))],
            "spec.updateStrategy.rollingUpdate: Invalid value: {\"Partition\":1,\"MaxUnavailable\":null}: only allowed for updateStrategy 'RollingUpdate'".into(),
        ),
        ("StatefulSet", vec![("/spec/ordinals", json!({"start": -1}))], "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0".into()),
        (
            "StatefulSet",
            vec![("/spec/template/spec/containers", json!([{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]))],
            "spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\"".into(),
        ),
        // ControllerRevision.
        ("ControllerRevision", vec![("/data", Value::Null), ("/revision", json!(-1))], "[data: Required value: data is mandatory, revision: Invalid value: -1: must be greater than or equal to 0]".into()),
        // Job.
        ("Job", vec![("/spec/template/spec/restartPolicy", Value::Null)], "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"".into()),
        ("Job", vec![("/spec/backoffLimit", json!(-1))], "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0".into()),
        ("Job", vec![indexed()], "spec.completions: Required value: when completion mode is Indexed".into()),
        ("Job", vec![("/spec/completionMode", json!("Other"))], "spec.completionMode: Unsupported value: \"Other\": supported values: \"NonIndexed\", \"Indexed\"".into()),
        ("Job", vec![("/spec/maxFailedIndexes", json!(1)), indexed(), three()], "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified".into()),
        ("Job", vec![("/spec/backoffLimitPerIndex", json!(1))], "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode".into()),
        ("Job", vec![("/spec/managedBy", json!("me"))], "spec.managedBy: Invalid value: \"me\": must be a domain-prefixed path (such as \"acme.io/foo\")".into()),
        ("Job", vec![("/spec/manualSelector", json!(true))], "[spec.selector: Required value, spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`]".into()),
        (
            "Job",
            vec![("/spec/template/metadata/labels", json!({"job-name": "y"}))],
            "spec.template.metadata.labels[job-name]: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"u\",\"batch.kubernetes.io/job-name\":\"x\",\"controller-uid\":\"u\",\"job-name\":\"y\"}: must be 'x'".into(),
        ),
        (
            "Job",
            vec![indexed(), three(), ("/metadata/name", json!("j".repeat(62)))],
            format!("metadata.name: Invalid value: \"{0}\": will not able to create pod with invalid DNS label: {0}-2", "j".repeat(62)),
        ),
        ("Job", vec![rule(json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}))], "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set".into()),
        ("Job", vec![rule(json!({"action": "", "onExitCodes": {"operator": "In", "values": [1]}}))], "spec.podFailurePolicy.rules[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]".into()),
        ("Job", vec![rule(json!({"action": "Count"}))], "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required".into()),
        (
            "Job",
            vec![rule(json!({"action": "Count", "onExitCodes": {"containerName": "d", "operator": "In", "values": [2, 0, 2]}}))],
            "[spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: \"d\": must be one of the container or initContainer names in the pod template, \
             spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator, \
             spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 2, \
             spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [2,0,2]: must be ordered]".into(),
        ),
        (
            "Job",
            vec![rule(json!({"action": "Count", "onPodConditions": [{"type": "T"}]})), ("/spec/template/spec/restartPolicy", json!("OnFailure"))],
            "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when podFailurePolicy is specified".into(),
        ),
        (
            "Job",
            vec![rule(json!({"action": "Count", "onPodConditions": [{"type": "T"}]})), ("/spec/podReplacementPolicy", json!("TerminatingOrFailed"))],
            "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"".into(),
        ),
        ("Job", vec![success(json!({"succeededCount": 1}))], "spec.successPolicy: Invalid value: {\"rules\":[{\"succeededCount\":1}]}: requires indexed completion mode".into()),
        (
            "Job",
            vec![indexed(), three(), success(json!({"succeededIndexes": "0-2", "succeededCount": 4}))],
            "[spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of specified completions), \
             spec.successPolicy.rules[0].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of indexes in the specified succeededIndexes field)]".into(),
        ),
        // CronJob.
        ("CronJob", vec![("/spec/schedule", json!(""))], "spec.schedule: Required value".into()),
        ("CronJob", vec![("/spec/schedule", json!("often"))], "spec.schedule: Invalid value: \"often\": expected exactly 5 fields, found 1: [often]".into()),
        ("CronJob", vec![("/spec/schedule", json!("TZ=UTC 0 * * * *"))], "spec.schedule: Invalid value: \"TZ=UTC 0 * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead".into()),
        ("CronJob", vec![("/spec/timeZone", json!("Mars/Base"))], "spec.timeZone: Invalid value: \"Mars/Base\": unknown time zone Mars/Base".into()),
        ("CronJob", vec![("/spec/concurrencyPolicy", json!("Sometimes"))], "spec.concurrencyPolicy: Unsupported value: \"Sometimes\": supported values: \"Allow\", \"Forbid\", \"Replace\"".into()),
        ("CronJob", vec![("/spec/jobTemplate/spec/selector", json!({"matchLabels": {"a": "b"}}))], "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be auto-generated".into()),
        ("CronJob", vec![("/spec/jobTemplate/spec/manualSelector", json!(true))], "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"".into()),
        ("CronJob", vec![("/metadata/name", json!("c".repeat(53)))], format!("metadata.name: Invalid value: \"{}\": must be no more than 52 characters", "c".repeat(53))),
        // PodTemplate.
        ("PodTemplate", vec![("/template/spec/containers", json!([]))], "template.spec.containers: Required value".into()),
    ];
    for (kind, changes, expected) in table {
        assert_eq!(created(kind, &changes).expect_err("refused"), expected, "{kind} {changes:?}");
    }
}

#[test]
fn what_may_be_surprising_is_warned_about() {
    let label = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]";
    for (kind, changes, expected) in [
        ("Deployment", vec![("/metadata/name", json!("a.b"))], Some(label)),
        ("Job", vec![("/metadata/name", json!("a.b"))], Some(label)),
        ("DaemonSet", vec![("/metadata/name", json!("a.b"))], None),
        (
            "StatefulSet",
            vec![("/spec/revisionHistoryLimit", json!(-1))],
            Some(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
            ),
        ),
        ("Deployment", vec![], None),
    ] {
        let (_, warnings) = created(kind, &changes).expect("valid");
        assert_eq!(warnings.first().map(String::as_str), expected, "{kind} {changes:?}: {warnings:?}");
    }
}

#[test]
fn volumes_of_claims_can_be_mounted() {
    let wanted = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claims = |name: &str, spec: &Value| {
        ("/spec/volumeClaimTemplates", json!([{"metadata": {"name": name}, "spec": spec}]))
    };
    let mount = json!([{"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]);
    let mount = ("/spec/template/spec/containers", mount);
    let object = stored("StatefulSet", &[claims("data", &wanted), mount]);
    assert_eq!(object["spec"]["volumeClaimTemplates"][0]["spec"]["volumeMode"], "Filesystem");
    for (name, spec, expected) in [
        ("", wanted, "spec.volumeClaimTemplates[0].metadata.name: Required value"),
        (
            "data",
            json!({"resources": {"requests": {"storage": "1Gi"}}}),
            "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
        ),
    ] {
        assert_eq!(created("StatefulSet", &[claims(name, &spec)]).expect_err("refused"), expected);
    }
}

#[test]
fn updates_change_only_what_may_be_changed() {
    let other = || ("/spec/selector/matchLabels", json!({"a": "b", "c": "d"}));
    let labelled = || ("/spec/template/metadata/labels", json!({"a": "b", "c": "d"}));
    let fixed =
        "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\",\"c\":\"d\"}}: field is immutable";
    for kind in ["Deployment", "ReplicaSet", "DaemonSet"] {
        assert_eq!(updated(kind, &[], &[other(), labelled()]).expect_err("fixed"), fixed, "{kind}");
    }
    for (kind, before, changes, expected) in [
        (
            "StatefulSet",
            vec![],
            vec![other(), labelled()],
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ),
        (
            "Job",
            vec![],
            vec![("/spec/template/spec/containers/0/image", json!("j"))],
            "spec.template: Invalid value: field is immutable",
        ),
        (
            "Job",
            vec![],
            vec![("/spec/completions", json!(2))],
            "spec.completions: Invalid value: 2: field is immutable",
        ),
        (
            "Job",
            vec![],
            vec![("/spec/template/spec/nodeSelector", json!({"a": "b"}))],
            "spec.template: Invalid value: field is immutable",
        ),
        (
            "Job",
            vec![
                ("/spec/completionMode", json!("Indexed")),
                ("/spec/completions", json!(2)),
                ("/spec/parallelism", json!(2)),
            ],
            vec![("/spec/completions", json!(3))],
            "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism",
        ),
        (
            "ControllerRevision",
            vec![],
            vec![("/data", json!({"a": 2}))],
            "data: Invalid value: field is immutable",
        ),
        (
            "CronJob",
            vec![],
            vec![("/spec/timeZone", json!("Nowhere"))],
            "spec.timeZone: Invalid value: \"Nowhere\": unknown time zone Nowhere",
        ),
    ] {
        assert_eq!(updated(kind, &before, &changes).expect_err("refused"), expected, "{kind} {changes:?}");
    }
    let free: Vec<(&str, Changes, Changes)> = vec![
        (
            "StatefulSet",
            vec![],
            vec![
                ("/spec/replicas", json!(4)),
                ("/spec/revisionHistoryLimit", json!(1)),
                ("/spec/template/spec/containers/0/image", json!("j")),
            ],
        ),
        ("Job", vec![], vec![("/spec/parallelism", json!(4)), ("/spec/suspend", json!(true))]),
        ("CronJob", vec![], vec![("/spec/schedule", json!("@daily")), ("/spec/suspend", json!(true))]),
        (
            "ReplicationController",
            vec![],
            vec![
                ("/spec/selector", json!({"c": "d"})),
                ("/spec/template/metadata/labels", json!({"c": "d"})),
            ],
        ),
        (
            "Job",
            vec![
                ("/spec/completionMode", json!("Indexed")),
                ("/spec/completions", json!(2)),
                ("/spec/parallelism", json!(2)),
            ],
            vec![("/spec/completions", json!(3)), ("/spec/parallelism", json!(3))],
        ),
        (
            "Job",
            vec![("/spec/suspend", json!(true))],
            vec![
                ("/spec/template/spec/nodeSelector", json!({"a": "b"})),
                (
                    "/spec/template/spec/affinity",
                    json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}),
                ),
                ("/spec/template/spec/containers/0/resources", json!({"requests": {"cpu": "1"}})),
                ("/spec/template/metadata/annotations", json!({"a": "b"})),
            ],
        ),
    ];
    for (kind, before, changes) in free {
        let told = updated(kind, &before, &changes);
        assert_eq!(
            told.as_ref().map(|new| &new["metadata"]["generation"]),
            Ok(&json!(2)),
            "{kind} {changes:?}"
        );
    }
}

#[test]
fn the_server_alone_counts_the_templates_of_a_daemon_set() {
    let count = |object: &Value| {
        object["metadata"]["annotations"]["deprecated.daemonset.template.generation"]
            .as_str()
            .map(str::to_owned)
    };
    let changes = [("/metadata/annotations", json!({"deprecated.daemonset.template.generation": "9"}))];
    assert_eq!(count(&updated("DaemonSet", &[], &changes).expect("allowed")).as_deref(), Some("1"));
    let changes = [("/spec/template/spec/containers/0/image", json!("j"))];
    assert_eq!(count(&updated("DaemonSet", &[], &changes).expect("allowed")).as_deref(), Some("2"));
}

fn with_status(kind: &str, before: &[(&str, Value)], old: Value, new: Value) -> Result<(), String> {
    let resource = resource_of(kind);
    let mut stored = stored(kind, before);
    stored["status"] = old;
    let mut object = stored.clone();
    object["status"] = new;
    prepare_status_update(resource, &stored, &mut object).map(|_| ()).map_err(|errors| errors.to_string())
}

#[test]
fn a_status_counts_what_there_can_be() {
    let too_many =
        |name: &str| format!("status.{name}: Invalid value: 2: cannot be greater than status.replicas");
    for (kind, name) in [
        ("Deployment", "updatedReplicas"),
        ("ReplicaSet", "fullyLabeledReplicas"),
        ("ReplicationController", "readyReplicas"),
        ("StatefulSet", "currentReplicas"),
    ] {
        let told = with_status(kind, &[], json!({"replicas": 0}), json!({"replicas": 1, name: 2}));
        assert_eq!(told, Err(too_many(name)), "{kind}");
        let told = with_status(kind, &[], json!({"replicas": 0}), json!({"replicas": 2, name: 2}));
        assert_eq!(told, Ok(()), "{kind}");
    }
    let told = with_status(
        "DaemonSet",
        &[],
        json!({"collisionCount": 2}),
        json!({"numberReady": -1, "collisionCount": 1}),
    );
    assert_eq!(
        told.expect_err("refused"),
        "[status.numberReady: Invalid value: -1: must be greater than or equal to 0, status.collisionCount: Invalid value: 1: cannot be decremented]"
    );
}

#[test]
fn a_job_that_has_ended_stays_so() {
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let times = ("2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z");
    let complete = json!({"succeeded": 1, "startTime": times.0, "completionTime": times.1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]});
    let running = json!({"active": 1, "startTime": times.0});
    let table: Vec<(Value, Value, Result<(), &str>)> = vec![
        (running.clone(), complete.clone(), Ok(())),
        (complete.clone(), complete.clone(), Ok(())),
        (
            running.clone(),
            json!({"startTime": times.0, "completionTime": times.1}),
            Err(
                "status.completionTime: Invalid value: \"2026-01-01T00:01:00Z\": cannot set completionTime when there is no Complete=True condition",
            ),
        ),
        (
            running.clone(),
            json!({"startTime": times.0, "conditions": [condition("Complete"), condition("Failed")]}),
            Err(
                "[status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions, status.completionTime: Required value: completionTime is required for Complete jobs]",
            ),
        ),
        (
            running.clone(),
            json!({"active": 1, "startTime": times.0, "conditions": [condition("Failed")]}),
            Err("status.active: Invalid value: 1: active>0 is invalid for finished job"),
        ),
        (
            json!({"failed": 2, "startTime": times.0}),
            json!({"failed": 1, "startTime": times.0}),
            Err("status.failed: Invalid value: 1: cannot decrease the failed counter"),
        ),
        (
            json!({"startTime": times.0, "conditions": [condition("Failed")]}),
            json!({"startTime": times.0}),
            Err("status.conditions: Invalid value: cannot disable the terminal Failed=True condition"),
        ),
        (
            running,
            json!({"startTime": times.0, "completedIndexes": "0"}),
            Err(
                "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when non-indexed completion mode",
            ),
        ),
    ];
    for (old, new, expected) in table {
        let told = with_status("Job", &[], old, new.clone());
        assert_eq!(told, expected.map_err(str::to_owned), "{new}");
    }
}

#[test]
fn what_is_missing_is_named_and_nothing_else() {
    let bare = "[spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, spec.template.spec.containers: Required value]";
    let nothing = "[spec.selector: Required value, spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`, spec.template.spec.containers: Required value]";
    for (kind, pointer, value, expected) in [
        ("Deployment", "/spec/template", json!({}), bare),
        ("Deployment", "/spec/template", Value::Null, bare),
        ("StatefulSet", "/spec/template", Value::Null, bare),
        ("Deployment", "/spec", json!({}), nothing),
        ("ReplicaSet", "/spec", Value::Null, nothing),
        (
            "ReplicationController",
            "/spec",
            Value::Null,
            "[spec.selector: Required value, spec.template: Required value]",
        ),
        (
            "Job",
            "/spec",
            Value::Null,
            "[spec.template.spec.containers: Required value, spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"]",
        ),
        (
            "CronJob",
            "/spec",
            Value::Null,
            "[spec.schedule: Required value, spec.jobTemplate.spec.template.spec.containers: Required value, \
             spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"]",
        ),
        ("PodTemplate", "/template", Value::Null, "template.spec.containers: Required value"),
    ] {
        assert_eq!(created(kind, &[(pointer, value)]).expect_err("refused"), expected, "{kind} {pointer}");
    }
}

/// Every kind with a pod template: its name, and where the template stands.
const TEMPLATES: [(&str, &str); 8] = [
    ("PodTemplate", "/template"),
    ("ReplicationController", "/spec/template"),
    ("DaemonSet", "/spec/template"),
    ("Deployment", "/spec/template"),
    ("ReplicaSet", "/spec/template"),
    ("StatefulSet", "/spec/template"),
    ("Job", "/spec/template"),
    ("CronJob", "/spec/jobTemplate/spec/template"),
];

fn with_variable(kind: &str, pointer: &str, variable: Value) -> Value {
    let mut object = base(kind);
    let volumes = json!([{"name": "v", "emptyDir": {}}]);
    set(&mut object, &format!("{pointer}/spec/containers/0/env"), json!([variable]));
    set(&mut object, &format!("{pointer}/spec/volumes"), volumes);
    decoded(kind, &object)
}

#[test]
fn the_rules_of_the_environment_hold_in_every_template() {
    let gates = |relaxed: bool, files: bool| {
        let mut request = AdmissionRequest::default();
        request.gates.relaxed_environment_variable_validation = relaxed;
        request.gates.env_files = files;
        request
    };
    for (kind, pointer) in TEMPLATES {
        let resource = resource_of(kind);
        let path = format!("{}.spec.containers[0].env[0]", pointer.trim_start_matches('/').replace('/', "."));
        // Names, by the gate; what is stored stays.
        let relaxed = || with_variable(kind, pointer, json!({"name": "a:b", "value": "1"}));
        let told =
            prepare_create(resource, &mut relaxed(), &gates(false, true)).expect_err("strict").to_string();
        assert!(told.starts_with(&format!("{path}.name: Invalid value: \"a:b\"")), "{kind}: {told}");
        let mut old = relaxed();
        prepare_create(resource, &mut old, &gates(true, true)).expect("relaxed");
        let mut new = old.clone();
        set(&mut new, "/metadata/labels", json!({"new": "yes"}));
        let kept = prepare_update(resource, &old, &mut new, &gates(false, true));
        assert_eq!(kept.map_err(|errors| errors.to_string()), Ok(Vec::new()), "{kind}");
        // Env files, by their gate; what is stored stays.
        let reference = json!({"volumeName": "v", "path": "e", "key": "K"});
        let from_file =
            || with_variable(kind, pointer, json!({"name": "A", "valueFrom": {"fileKeyRef": reference}}));
        let told =
            prepare_create(resource, &mut from_file(), &gates(true, false)).expect_err("off").to_string();
        assert!(
            told.starts_with(&format!("{path}.valueFrom: Invalid value: \"\": must specify one of"))
                && told.ends_with("(fileKeyRef was dropped: the feature gate EnvFiles is off)"),
            "{kind}: {told}"
        );
        let mut old = from_file();
        prepare_create(resource, &mut old, &gates(true, true)).expect("on");
        let read = format!("{pointer}/spec/containers/0/env/0/valueFrom/fileKeyRef/optional");
        assert_eq!(old.pointer(&read), Some(&json!(false)), "{kind}: defaulted");
        let mut new = old.clone();
        set(&mut new, "/metadata/labels", json!({"new": "yes"}));
        prepare_update(resource, &old, &mut new, &gates(true, false)).expect("the old object has it");
        assert_eq!(new.pointer(&read), Some(&json!(false)), "{kind}");
        // Findings, once: when the template is new.
        let lost = || with_variable(kind, pointer, json!({"name": "A", "value": "$(NOBODY)"}));
        let mut old = lost();
        let warnings = prepare_create(resource, &mut old, &gates(true, true)).expect("valid");
        assert!(
            warnings.iter().any(|told| told.0.starts_with(&format!("{path}.value: $(NOBODY)"))),
            "{kind}: {warnings:?}"
        );
        let mut new = old.clone();
        set(&mut new, "/metadata/labels", json!({"new": "yes"}));
        let warnings = prepare_update(resource, &old, &mut new, &gates(true, true)).expect("valid");
        assert_eq!(warnings, [], "{kind}");
    }
}
