//! A file of the directory of static pods to pods, as they run on this node. Pure: bytes in, pods or what is wrong out.

use k8s_openapi::api::core::v1::Pod;
use manifest::{Document, Limits, Mark};
use schema::FieldValidation;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use admission::AdmissionRequest;
use api::FeatureGates;
use api::annotations::{CONFIG_HASH, CONFIG_MIRROR, CONFIG_SOURCE};

use crate::pod_origin::FROM_FILE;

/// A file that large is no manifest.
pub(super) const MAXIMUM_BYTES: usize = 4 * 1024 * 1024;

/// For whom a manifest is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ManifestOwner<'a> {
    /// Name of the node.
    pub(crate) node: &'a str,
    /// Name of the file: two files with one content are two pods.
    pub(crate) file: &'a str,
    /// Which optional fields there are.
    pub(crate) gates: FeatureGates,
}

/// What is wrong with a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ManifestProblem {
    /// Where, if that is known.
    pub(crate) mark: Option<Mark>,
    /// What.
    pub(crate) message: String,
}

impl ManifestProblem {
    fn new(mark: Option<Mark>, message: impl Into<String>) -> Self {
        Self { mark, message: message.into() }
    }
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ManifestContent {
    /// The pods.
    pub(crate) pods: Vec<Pod>,
    /// What was accepted and has no effect, as in Kubernetes: fields that do not exist.
    pub(crate) warnings: Vec<String>,
}

/// The pods of a file. A file without any has a problem: it may be half-written.
pub(crate) fn pods_of(bytes: &[u8], owner: ManifestOwner<'_>) -> Result<ManifestContent, ManifestProblem> {
    let limits = Limits { bytes: MAXIMUM_BYTES, ..Limits::default() };
    let documents = manifest::parse_stream(bytes, &limits)
        .map_err(|error| ManifestProblem::new(error.mark(), error.to_string()))?;
    let mut content = ManifestContent::default();
    for document in documents.iter().filter(|document| !document.root.is_null()) {
        let pod = pod_of(document, owner, &mut content.warnings)?;
        content.pods.push(pod);
    }
    if content.pods.is_empty() {
        return Err(ManifestProblem::new(None, "there is no pod in it"));
    }
    Ok(content)
}

fn pod_of(
    document: &Document,
    owner: ManifestOwner<'_>,
    warnings: &mut Vec<String>,
) -> Result<Pod, ManifestProblem> {
    let at = |path: &str| {
        let span = document.locate(path).span();
        span.is_somewhere().then_some(span.start)
    };
    let tree = document.root.to_json();
    let text = |name: &str| tree[name].as_str().unwrap_or_default();
    if (text("apiVersion"), text("kind")) != ("v1", "Pod") {
        let message = format!(
            "this is {} {}, not v1 Pod",
            quoted_or_none(text("apiVersion")),
            quoted_or_none(text("kind"))
        );
        return Err(ManifestProblem::new(at("kind"), message));
    }
    let resource = schema::resource("", "v1", "pods").expect("pods are built in");
    let ty = schema::builtin().type_for("v1", "Pod").expect("pods are built in");
    let decoded = schema::decode_value(ty, &tree, FieldValidation::Warn)
        .map_err(|error| ManifestProblem::new(at(""), error.to_string()))?;
    warnings.extend(decoded.warnings);
    let mut object = decoded.value;
    let uid = uid_of(&object, owner);
    place_on_node(&mut object, owner, &uid)
        .map_err(|message| ManifestProblem::new(at("metadata"), message))?;
    // With the mark of a mirror admission leaves out what only pods of the API have, such as tokens.
    object["metadata"]["annotations"][CONFIG_MIRROR] = uid.clone().into();
    let request = AdmissionRequest { gates: owner.gates, ..AdmissionRequest::default() };
    let told = admission::prepare_create(resource, &mut object, &request).map_err(|errors| {
        let first = errors.0.first().map(|error| error.field.clone()).unwrap_or_default();
        ManifestProblem::new(at(&first), errors.to_string())
    })?;
    warnings.extend(told.into_iter().map(|warning| warning.0));
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(CONFIG_MIRROR);
    }
    object["metadata"]["uid"] = uid.into();
    serde_json::from_value(object).map_err(|error| ManifestProblem::new(at(""), error.to_string()))
}

fn quoted_or_none(text: &str) -> String {
    if text.is_empty() { "nothing".to_owned() } else { text.to_owned() }
}

/// The identity of a static pod: the same file with the same content on the same node is the same pod, also after a restart.
fn uid_of(object: &Value, owner: ManifestOwner<'_>) -> String {
    if let Some(uid) = object["metadata"]["uid"].as_str().filter(|uid| is_plain(uid)) {
        return uid.to_owned();
    }
    let mut hash = Sha256::new();
    for part in [object.to_string().as_str(), owner.node, owner.file] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hex::encode(&hash.finalize()[..16])
}

/// It becomes the name of a directory.
fn is_plain(uid: &str) -> bool {
    !uid.is_empty() && uid.len() <= 63 && uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Everything that makes the pod one of this node: its name, its annotations, its place.
fn place_on_node(object: &mut Value, owner: ManifestOwner<'_>, uid: &str) -> Result<(), String> {
    let metadata = &mut object["metadata"];
    let Some(name) = metadata["name"].as_str().filter(|name| !name.is_empty()) else {
        return Err("metadata.name: Required value: a pod of a file needs a name".to_owned());
    };
    metadata["name"] = format!("{name}-{}", owner.node.to_lowercase()).into();
    if metadata["namespace"].as_str().is_none_or(str::is_empty) {
        metadata["namespace"] = "default".into();
    }
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][CONFIG_SOURCE] = FROM_FILE.into();
    metadata["annotations"][CONFIG_HASH] = uid.into();
    let spec = &mut object["spec"];
    if !spec.is_object() {
        return Err("spec: Required value".to_owned());
    }
    spec["nodeName"] = owner.node.into();
    let everything = json!({"operator": "Exists", "effect": "NoExecute"});
    match spec["tolerations"].as_array_mut() {
        Some(tolerations) if tolerations.contains(&everything) => {}
        Some(tolerations) => tolerations.push(everything),
        None => spec["tolerations"] = json!([everything]),
    }
    Ok(())
}

/// The object by which the API shows a static pod.
pub(crate) fn mirror_of(pod: &Pod) -> Pod {
    let mut mirror = pod.clone();
    let uid = mirror.metadata.uid.take().unwrap_or_default();
    mirror.metadata.generation = None;
    mirror.metadata.annotations.get_or_insert_default().insert(CONFIG_MIRROR.to_owned(), uid);
    mirror.status = None;
    mirror
}

#[cfg(test)]
mod tests {
    use super::{ManifestOwner, mirror_of, pods_of};
    use crate::pod_origin::{annotation, is_mirror, is_static};
    use api::FeatureGates;
    use api::annotations::{CONFIG_HASH, CONFIG_MIRROR, CONFIG_SOURCE};

    const OWNER: ManifestOwner<'_> = ManifestOwner {
        node: "node-1",
        file: "web.yaml",
        gates: FeatureGates { relaxed_environment_variable_validation: true, env_files: true },
    };

    const WEB: &str =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: c, image: i}\n";

    #[test]
    fn a_pod_of_a_file_gets_its_name_place_and_marks() {
        let pod = pods_of(WEB.as_bytes(), OWNER).expect("a pod").pods.remove(0);
        assert_eq!(pod.metadata.name.as_deref(), Some("web-node-1"));
        assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
        let uid = pod.metadata.uid.clone().expect("an identity");
        assert_eq!(uid.len(), 32);
        assert_eq!(annotation(&pod, CONFIG_SOURCE), Some("file"));
        assert_eq!(annotation(&pod, CONFIG_HASH), Some(uid.as_str()));
        assert!(is_static(&pod) && !is_mirror(&pod));
        let spec = pod.spec.as_ref().expect("a spec");
        assert_eq!(spec.node_name.as_deref(), Some("node-1"));
        assert_eq!(spec.enable_service_links, Some(true), "defaults are there");
        assert!(spec.volumes.is_none() && spec.service_account_name.is_none(), "no token: {spec:?}");
        assert_eq!(spec.tolerations.as_ref().expect("some")[0].operator.as_deref(), Some("Exists"));
        let mirror = mirror_of(&pod);
        assert!(is_mirror(&mirror) && !is_static(&mirror) && mirror.metadata.uid.is_none());
        assert_eq!(annotation(&mirror, CONFIG_MIRROR), Some(uid.as_str()));
    }

    #[test]
    fn the_identity_follows_from_content_file_and_node() {
        let uid = |text: &str, owner: ManifestOwner<'_>| {
            pods_of(text.as_bytes(), owner).expect("a pod").pods.remove(0).metadata.uid.expect("an identity")
        };
        let first = uid(WEB, OWNER);
        assert_eq!(first, uid(&format!("# a comment\n{WEB}"), OWNER));
        let others = [
            uid(&WEB.replace("image: i", "image: j"), OWNER),
            uid(WEB, ManifestOwner { file: "other.yaml", ..OWNER }),
            uid(WEB, ManifestOwner { node: "n2", ..OWNER }),
        ];
        assert!(others.iter().all(|other| *other != first));
        assert_eq!(uid(&WEB.replace("{name: web}", "{name: web, uid: my-own}"), OWNER), "my-own");
        assert_ne!(uid(&WEB.replace("{name: web}", "{name: web, uid: ../../etc}"), OWNER), "../../etc");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let rows = [
            ("", "there is no pod in it", None),
            ("# nothing\n---\n", "there is no pod in it", None),
            ("apiVersion: v1\nkind: ConfigMap\n", "this is v1 ConfigMap, not v1 Pod", Some((2, 7))),
            ("spec: {}\n", "this is nothing nothing, not v1 Pod", Some((1, 1))),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {}\n",
                "metadata.name: Required value",
                Some((3, 1)),
            ),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n",
                "spec.containers: Required value",
                Some((1, 1)),
            ),
        ];
        for (text, message, place) in rows {
            let problem = pods_of(text.as_bytes(), OWNER).expect_err("wrong");
            assert!(problem.message.contains(message), "{text:?}: {problem:?}");
            assert_eq!(problem.mark.map(|mark| (mark.line, mark.column)), place, "{text:?}");
        }
        let half = &WEB[..WEB.len() - 10];
        assert!(pods_of(half.as_bytes(), OWNER).expect_err("half-written").mark.is_some());
        let problem = pods_of(WEB.replace("name: c", "name: C_C").as_bytes(), OWNER).expect_err("invalid");
        assert!(problem.message.starts_with("spec.containers[0].name: Invalid value"), "{problem:?}");
        assert_eq!(problem.mark.map(|mark| (mark.line, mark.column)), Some((6, 12)));
        assert!(pods_of(&[0xff, 0xfe, 0x00], OWNER).is_err());
    }

    #[test]
    fn a_field_that_does_not_exist_is_told_and_has_no_effect() {
        let content = pods_of(WEB.replace("image: i", "image: i, imag: j").as_bytes(), OWNER).expect("a pod");
        assert_eq!(content.warnings, ["unknown field \"spec.containers[0].imag\""]);
    }

    #[test]
    fn a_file_may_hold_several_pods() {
        let two = format!("{WEB}---\n{}", WEB.replace("name: web", "name: db"));
        let pods = pods_of(two.as_bytes(), OWNER).expect("pods").pods;
        let names: Vec<&str> = pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
        assert_eq!(names, ["web-node-1", "db-node-1"]);
    }
}
