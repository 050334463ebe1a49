//! Tables of what claims and volumes need done.

use std::sync::Arc;

use events::EventType;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};

use super::{decision, volume};

fn merged(mut object: Value, change: Value) -> Value {
    if let (Some(fields), Some(changes)) = (object.as_object_mut(), change.as_object()) {
        for (name, value) in changes {
            let before = fields.remove(name).unwrap_or(Value::Null);
            fields.insert(
                name.clone(),
                if value.is_object() { merged(before, value.clone()) } else { value.clone() },
            );
        }
        return object;
    }
    change
}

fn claim(change: Value) -> PersistentVolumeClaim {
    let object = json!({
        "metadata": {"name": "data", "namespace": "n", "uid": "c-1", "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "standard", "volumeMode": "Filesystem",
        },
        "status": {"phase": "Pending"},
    });
    serde_json::from_value(merged(object, change)).expect("a claim")
}

fn pv(name: &str, change: Value) -> Arc<PersistentVolume> {
    let object = json!({
        "metadata": {"name": name, "uid": name, "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": "2Gi"}, "storageClassName": "standard",
            "hostPath": {"path": "/srv"}, "volumeMode": "Filesystem", "persistentVolumeReclaimPolicy": "Retain",
        },
        "status": {"phase": "Available"},
    });
    Arc::new(serde_json::from_value(merged(object, change)).expect("a volume"))
}

fn class(change: Value) -> StorageClass {
    let object = json!({
        "metadata": {"name": "standard"}, "provisioner": "coracle.dev/directory", "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    });
    serde_json::from_value(merged(object, change)).expect("a class")
}

fn node(name: &str, ready: &str) -> Arc<Node> {
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": format!("{name}.example")}},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .expect("a node"),
    )
}

fn pod(node: &str) -> Arc<Pod> {
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n"},
            "spec": {"nodeName": node, "containers": [],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
        }))
        .expect("a pod"),
    )
}

struct World {
    volumes: Vec<Arc<PersistentVolume>>,
    class: Option<StorageClass>,
    nodes: Vec<Arc<Node>>,
    users: Vec<Arc<Pod>>,
}

impl Default for World {
    fn default() -> Self {
        World {
            volumes: Vec::new(),
            class: Some(class(json!({}))),
            nodes: vec![node("a", "True")],
            users: Vec::new(),
        }
    }
}

impl World {
    fn step(&self, claim: &PersistentVolumeClaim) -> decision::Step {
        decision::step(&decision::Known {
            claim,
            volumes: &self.volumes,
            class: self.class.as_ref(),
            nodes: &self.nodes,
            users: &self.users,
        })
    }

    /// The step in short.
    fn shown(&self, claim: &PersistentVolumeClaim) -> String {
        use decision::Step;
        match self.step(claim) {
            Step::CreateVolume(volume) => {
                let annotations = volume.metadata.annotations.expect("annotations");
                format!(
                    "create {} on {}",
                    volume.metadata.name.expect("a name"),
                    annotations["coracle.dev/node"]
                )
            }
            Step::WriteVolume(volume) => {
                let spec = volume.spec.expect("a spec");
                let size = spec.capacity.expect("a size")["storage"].0.clone();
                format!(
                    "give {} of {size} to {:?}",
                    volume.metadata.name.unwrap(),
                    spec.claim_ref.unwrap().uid.unwrap()
                )
            }
            Step::WriteClaim(claim) => {
                let spec = claim.spec.expect("a spec");
                let annotations = claim.metadata.annotations.unwrap_or_default();
                let keys: Vec<&str> =
                    annotations.keys().map(|key| key.rsplit('/').next().expect("a name")).collect();
                format!(
                    "claim {:?} {} [{}]",
                    spec.volume_name.unwrap_or_default(),
                    keys.join(","),
                    claim.metadata.finalizers.unwrap_or_default().join(",")
                )
            }
            Step::WriteStatus(status, saying) => {
                let size = status.capacity.as_ref().map(|capacity| capacity["storage"].0.clone());
                format!(
                    "status {} {} {}",
                    status.phase.unwrap_or_default(),
                    size.unwrap_or_default(),
                    saying.map(|saying| saying.reason).unwrap_or_default()
                )
            }
            Step::Unprotect => "unprotect".to_owned(),
            Step::Wait(saying) => {
                let type_ = match saying.type_ {
                    EventType::Normal => "",
                    EventType::Warning => "!",
                };
                format!("{type_}{}: {}", saying.reason, saying.message)
            }
            Step::Nothing => String::new(),
        }
    }
}

#[test]
fn an_open_claim_is_answered_by_a_directory_of_a_node_step_by_step() {
    let mut world = World::default();
    let mut ours = claim(json!({}));
    assert_eq!(
        world.shown(&ours),
        "claim \"\" storage-provisioner,storage-provisioner [kubernetes.io/pvc-protection]"
    );
    let decision::Step::WriteClaim(told) = world.step(&ours) else { panic!("it is told who provisions") };
    ours = *told;
    assert_eq!(world.shown(&ours), "create pvc-c-1 on a");
    let decision::Step::CreateVolume(made) = world.step(&ours) else { panic!("it is made") };
    assert_eq!(
        serde_json::to_value(&made).expect("JSON"),
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {
                "name": "pvc-c-1", "finalizers": ["kubernetes.io/pv-protection", "coracle.dev/directory"],
                "annotations": {"coracle.dev/node": "a", "pv.kubernetes.io/provisioned-by": "coracle.dev/directory"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data", "namespace": "n", "uid": "c-1"},
                "csi": {"driver": "coracle.dev/directory", "volumeHandle": "pvc-c-1"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a.example"]},
                ]}]}},
                "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "standard", "volumeMode": "Filesystem",
            },
        })
    );
    world.volumes.push(Arc::new(*made));
    assert_eq!(
        world.shown(&ours),
        "claim \"pvc-c-1\" bind-completed,bound-by-controller,storage-provisioner,storage-provisioner \
         [kubernetes.io/pvc-protection]"
    );
    let decision::Step::WriteClaim(bound) = world.step(&ours) else { panic!("it is bound") };
    ours = *bound;
    assert_eq!(world.shown(&ours), "status Bound 1Gi ");
    let decision::Step::WriteStatus(status, _) = world.step(&ours) else { panic!("it is told") };
    ours.status = Some(*status);
    assert_eq!(world.shown(&ours), "");
    // It asks for more.
    let requests = ours.spec.as_mut().unwrap().resources.as_mut().unwrap().requests.as_mut().unwrap();
    requests.get_mut("storage").unwrap().0 = "3Gi".to_owned();
    assert_eq!(world.shown(&ours), "give pvc-c-1 of 3Gi to \"c-1\"");
}

#[test]
fn which_volume_answers_a_claim() {
    let told = || json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "coracle.dev/directory"}}});
    let give = |name: &str| format!("give {name} of 2Gi to \"c-1\"");
    let rows: Vec<(&str, Value, Vec<Arc<PersistentVolume>>, String)> = vec![
        ("one that fits", json!({}), vec![pv("v", json!({}))], give("v")),
        (
            "the smallest",
            json!({}),
            vec![pv("big", json!({"spec": {"capacity": {"storage": "9Gi"}}})), pv("v", json!({}))],
            give("v"),
        ),
        (
            "too small",
            told(),
            vec![pv("v", json!({"spec": {"capacity": {"storage": "1Mi"}}}))],
            "create pvc-c-1 on a".to_owned(),
        ),
        (
            "another class",
            told(),
            vec![pv("v", json!({"spec": {"storageClassName": "other"}}))],
            "create pvc-c-1 on a".to_owned(),
        ),
        (
            "another mode",
            told(),
            vec![pv("v", json!({"spec": {"volumeMode": "Block"}}))],
            "create pvc-c-1 on a".to_owned(),
        ),
        (
            "not all access modes",
            told(),
            vec![pv("v", json!({"spec": {"accessModes": ["ReadOnlyMany"]}}))],
            "create pvc-c-1 on a".to_owned(),
        ),
        (
            "on its way out",
            told(),
            vec![pv("v", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}))],
            "create pvc-c-1 on a".to_owned(),
        ),
        (
            "released",
            told(),
            vec![pv(
                "v",
                json!({"status": {"phase": "Released"}, "spec": {"claimRef": {"name": "x", "namespace": "n", "uid": "x"}}}),
            )],
            "create pvc-c-1 on a".to_owned(),
        ),
        (
            "one that its author gives to this name",
            json!({}),
            vec![
                pv("a", json!({})),
                pv("v", json!({"spec": {"claimRef": {"name": "data", "namespace": "n"}}})),
            ],
            give("v"),
        ),
        (
            "one of labels",
            json!({"spec": {"selector": {"matchLabels": {"disk": "fast"}}}}),
            vec![pv("a", json!({})), pv("v", json!({"metadata": {"labels": {"disk": "fast"}}}))],
            give("v"),
        ),
        (
            "one that was given to it before it heard of that",
            json!({}),
            vec![pv("v", json!({"spec": {"claimRef": {"name": "data", "namespace": "n", "uid": "c-1"}}}))],
            "claim \"v\" bind-completed,bound-by-controller [kubernetes.io/pvc-protection]".to_owned(),
        ),
        (
            "no class at all",
            json!({"spec": {"storageClassName": ""}}),
            vec![pv("v", json!({"spec": {"storageClassName": ""}}))],
            give("v"),
        ),
        (
            "by its name",
            json!({"spec": {"volumeName": "v"}}),
            vec![pv("a", json!({})), pv("v", json!({}))],
            give("v"),
        ),
        (
            "by its name, too small",
            json!({"spec": {"volumeName": "v"}}),
            vec![pv("v", json!({"spec": {"capacity": {"storage": "1Mi"}}}))],
            "!VolumeMismatch: Cannot bind to requested volume \"v\": requested PV is too small".to_owned(),
        ),
        (
            "by its name, another's",
            json!({"spec": {"volumeName": "v"}}),
            vec![pv("v", json!({"spec": {"claimRef": {"name": "x", "namespace": "n", "uid": "x"}}}))],
            "!FailedBinding: volume \"v\" already bound to a different claim.".to_owned(),
        ),
        (
            "by its name, not there",
            json!({"spec": {"volumeName": "v"}}),
            vec![],
            "!FailedBinding: volume \"v\" not found: the claim waits until there is one of this name"
                .to_owned(),
        ),
    ];
    for (what, change, volumes, expected) in rows {
        let world = World { volumes, ..World::default() };
        assert_eq!(world.shown(&claim(change)), expected, "{what}");
    }
}

#[test]
fn a_claim_that_has_to_wait_says_why() {
    let told = |provisioner: &str| json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": provisioner}}});
    let late = || Some(class(json!({"volumeBindingMode": "WaitForFirstConsumer"})));
    let directory = "coracle.dev/directory";
    let rows: Vec<(Value, World, &str)> = vec![
        (
            json!({"spec": {"storageClassName": ""}}),
            World { class: None, ..World::default() },
            "FailedBinding: no persistent volumes available for this claim and no storage class is set",
        ),
        (
            json!({"spec": {"storageClassName": "gold"}}),
            World { class: None, ..World::default() },
            "!ProvisioningFailed: storageclass.storage.k8s.io \"gold\" not found",
        ),
        (
            json!({}),
            World { class: late(), ..World::default() },
            "WaitForFirstConsumer: waiting for first consumer to be created before binding",
        ),
        (
            json!({}),
            World { class: late(), users: vec![pod("")], ..World::default() },
            "WaitForPodScheduled: waiting for pod p to be scheduled",
        ),
        (
            told(directory),
            World {
                class: late(),
                users: vec![pod("b")],
                nodes: vec![node("a", "True"), node("b", "False")],
                ..World::default()
            },
            "create pvc-c-1 on b",
        ),
        (
            merged(
                told(directory),
                json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "b"}}}),
            ),
            World { class: late(), nodes: vec![node("a", "True"), node("b", "True")], ..World::default() },
            "create pvc-c-1 on b",
        ),
        (
            merged(
                told(directory),
                json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "gone"}}}),
            ),
            World { class: late(), ..World::default() },
            "claim \"\" storage-provisioner [kubernetes.io/pvc-protection]",
        ),
        (
            told(directory),
            World { nodes: vec![node("a", "False")], ..World::default() },
            "!ProvisioningFailed: failed to provision volume with StorageClass \"standard\": no node is ready to hold it",
        ),
        (
            merged(told(directory), json!({"spec": {"volumeMode": "Block"}})),
            World::default(),
            "!ProvisioningFailed: failed to provision volume with StorageClass \"standard\": a directory is no block device; ask \
             for volumeMode Filesystem",
        ),
        (
            told("example.com/nfs"),
            World { class: Some(class(json!({"provisioner": "example.com/nfs"}))), ..World::default() },
            "ExternalProvisioning: Waiting for a volume to be created either by the external provisioner 'example.com/nfs' or \
             manually by the system administrator. If volume creation is delayed, please verify that the provisioner is \
             running and correctly registered.",
        ),
        (
            json!({}),
            World {
                class: Some(class(json!({"provisioner": "kubernetes.io/no-provisioner"}))),
                ..World::default()
            },
            "FailedBinding: no persistent volumes available for this claim, and those of the class \"standard\" are made by hand",
        ),
    ];
    for (change, world, expected) in rows {
        assert_eq!(world.shown(&claim(change)), expected);
    }
}

#[test]
fn directories_are_spread_over_the_nodes() {
    let made = |name: &str, node: &str| {
        pv(
            name,
            json!({
                "metadata": {"annotations": {"coracle.dev/node": node}},
                "spec": {"csi": {"driver": "coracle.dev/directory", "volumeHandle": name}, "storageClassName": "standard",
                    "claimRef": {"name": name, "namespace": "n", "uid": name}},
            }),
        )
    };
    let world = World {
        volumes: vec![made("v", "a"), made("w", "b"), made("x", "b")],
        nodes: vec![node("b", "True"), node("a", "True"), node("c", "False")],
        ..World::default()
    };
    let told = json!({"metadata": {"annotations": {"volume.kubernetes.io/storage-provisioner": "coracle.dev/directory"}}});
    assert_eq!(world.shown(&claim(told)), "create pvc-c-1 on a");
}

#[test]
fn a_bound_claim_that_loses_its_volume_is_lost() {
    let bound = || {
        claim(json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": "v"}, "status": {"phase": "Bound"},
        }))
    };
    assert_eq!(World::default().shown(&bound()), "status Lost  ClaimLost");
    let theirs = pv("v", json!({"spec": {"claimRef": {"name": "x", "namespace": "n", "uid": "x"}}}));
    let world = World { volumes: vec![theirs], ..World::default() };
    assert_eq!(world.shown(&bound()), "status Lost  ClaimMisbound");
}

#[test]
fn a_claim_that_a_pod_on_a_node_uses_stays_until_the_pod_is_gone() {
    let leaving = claim(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let with = |users| World { users, ..World::default() };
    assert_eq!(with(vec![pod("a")]).shown(&leaving), "");
    assert_eq!(with(vec![pod("")]).shown(&leaving), "unprotect");
    assert_eq!(with(vec![]).shown(&leaving), "unprotect");
    let bare = claim(json!({"metadata": {"finalizers": []}}));
    assert_eq!(with(vec![]).shown(&bare), "claim \"\"  [kubernetes.io/pvc-protection]");
}

fn volume_shown(
    volume: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
    nodes: &[Arc<Node>],
) -> String {
    use volume::Step;
    match volume::step(&volume::Known { volume, claim, nodes }) {
        Step::Write(volume) => format!(
            "write {:?} [{}]",
            volume.spec.unwrap().claim_ref.and_then(|claim| claim.uid).unwrap_or_default(),
            volume.metadata.finalizers.unwrap_or_default().join(",")
        ),
        Step::WriteStatus(status, saying) => {
            format!("{} {}", status.phase.unwrap(), saying.map(|saying| saying.reason).unwrap_or_default())
        }
        Step::Release(_) => "release".to_owned(),
        Step::Delete => "delete".to_owned(),
        Step::AskClaim => "ask".to_owned(),
        Step::Nothing => String::new(),
    }
}

#[test]
fn what_becomes_of_a_volume() {
    let given = || json!({"spec": {"claimRef": {"name": "data", "namespace": "n", "uid": "c-1"}}});
    let phase = |phase: &str| merged(given(), json!({"status": {"phase": phase}}));
    let directory = || {
        json!({"metadata": {"annotations": {"coracle.dev/node": "a"},
                "finalizers": ["kubernetes.io/pv-protection", "coracle.dev/directory"]},
            "spec": {"csi": {"driver": "coracle.dev/directory", "volumeHandle": "v"}, "persistentVolumeReclaimPolicy": "Delete"}})
    };
    let leaving = || json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let policy = |policy: &str| json!({"spec": {"persistentVolumeReclaimPolicy": policy}});
    let open = claim(json!({}));
    let bound = claim(json!({"spec": {"volumeName": "v"}}));
    let elsewhere = claim(json!({"spec": {"volumeName": "w"}}));
    let other = claim(json!({"metadata": {"uid": "c-2"}, "spec": {"volumeName": "v"}}));
    let (here, nowhere) = (vec![node("a", "True")], vec![]);
    type Row<'r> = (&'r str, Value, Option<&'r PersistentVolumeClaim>, &'r [Arc<Node>], &'r str);
    let rows: Vec<Row<'_>> = vec![
        ("new", json!({"status": {"phase": "Pending"}}), None, &here, "Available "),
        ("free", json!({}), None, &here, ""),
        (
            "not protected",
            json!({"metadata": {"finalizers": []}}),
            None,
            &here,
            "write \"\" [kubernetes.io/pv-protection]",
        ),
        ("its claim does not know yet", given(), Some(&open), &here, "ask"),
        ("bound", given(), Some(&bound), &here, "Bound "),
        ("bound and told", phase("Bound"), Some(&bound), &here, ""),
        ("its claim is gone", phase("Bound"), None, &here, "release"),
        ("its claim is gone, and another has come", phase("Bound"), Some(&other), &here, "release"),
        ("kept", phase("Released"), None, &here, ""),
        (
            "made by hand, to be deleted",
            merged(phase("Released"), policy("Delete")),
            None,
            &here,
            "Failed VolumeFailedDelete",
        ),
        ("recycled", merged(phase("Released"), policy("Recycle")), None, &here, "Failed VolumeFailedRecycle"),
        ("a directory", merged(phase("Released"), directory()), None, &here, "delete"),
        (
            "a directory that is kept",
            merged(merged(phase("Released"), directory()), policy("Retain")),
            None,
            &here,
            "",
        ),
        (
            "a directory, and it goes",
            merged(merged(phase("Released"), directory()), leaving()),
            None,
            &here,
            "write \"c-1\" [coracle.dev/directory]",
        ),
        (
            "its node sees to it",
            merged(
                merged(merged(phase("Released"), directory()), leaving()),
                json!({"metadata": {"finalizers": ["coracle.dev/directory"]}}),
            ),
            None,
            &here,
            "",
        ),
        (
            "its node is gone",
            merged(
                merged(merged(phase("Released"), directory()), leaving()),
                json!({"metadata": {"finalizers": ["coracle.dev/directory"]}}),
            ),
            None,
            &nowhere,
            "write \"c-1\" []",
        ),
        ("deleted while bound", merged(phase("Bound"), leaving()), Some(&bound), &here, ""),
        ("deleted while free", leaving(), None, &here, "write \"\" []"),
        (
            "given in vain",
            merged(
                given(),
                json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}}),
            ),
            Some(&elsewhere),
            &here,
            "write \"\" [kubernetes.io/pv-protection]",
        ),
        ("given in vain by its author", given(), Some(&elsewhere), &here, ""),
        ("a directory made in vain", merged(given(), directory()), Some(&elsewhere), &here, "release"),
    ];
    for (what, change, claim, nodes, expected) in rows {
        assert_eq!(volume_shown(&pv("v", change), claim, nodes), expected, "{what}");
    }
}
