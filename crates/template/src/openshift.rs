//! What OpenShift's dialect does to an object besides references: namespaces that are written out are dropped, and
//! kinds that once were in the core group are put into theirs.

use manifest::Node;
use memchr::memchr_iter;

use crate::Dialect;
use crate::finding::Findings;
use crate::kinds::at;
use crate::reference::{Style, form};
use crate::{FindingKind, Place};

/// Kinds that OpenShift moved out of `v1`, by the group that has them now.
const MOVED: [(&str, &[&str]); 10] = [
    (
        "apps.openshift.io/v1",
        &["DeploymentConfig", "DeploymentConfigRollback", "DeploymentLog", "DeploymentRequest"],
    ),
    (
        "authorization.openshift.io/v1",
        &[
            "ClusterRole",
            "ClusterRoleBinding",
            "LocalResourceAccessReview",
            "LocalSubjectAccessReview",
            "ResourceAccessReview",
            "Role",
            "RoleBinding",
            "RoleBindingRestriction",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
            "SubjectRulesReview",
        ],
    ),
    (
        "build.openshift.io/v1",
        &["BinaryBuildRequestOptions", "Build", "BuildConfig", "BuildLog", "BuildRequest"],
    ),
    (
        "image.openshift.io/v1",
        &[
            "Image",
            "ImageSignature",
            "ImageStream",
            "ImageStreamImage",
            "ImageStreamImport",
            "ImageStreamLayers",
            "ImageStreamMapping",
            "ImageStreamTag",
        ],
    ),
    ("network.openshift.io/v1", &["ClusterNetwork", "EgressNetworkPolicy", "HostSubnet", "NetNamespace"]),
    (
        "oauth.openshift.io/v1",
        &["OAuthAccessToken", "OAuthAuthorizeToken", "OAuthClient", "OAuthClientAuthorization"],
    ),
    ("project.openshift.io/v1", &["Project", "ProjectRequest"]),
    ("quota.openshift.io/v1", &["AppliedClusterResourceQuota", "ClusterResourceQuota"]),
    ("route.openshift.io/v1", &["Route"]),
    ("template.openshift.io/v1", &["BrokerTemplateInstance", "Template", "TemplateInstance"]),
];

/// More kinds, in groups with few that templates hold.
const MOVED_TOO: [(&str, &[&str]); 2] = [
    ("security.openshift.io/v1", &["SecurityContextConstraints"]),
    ("user.openshift.io/v1", &["Group", "Identity", "User", "UserIdentityMapping"]),
];

/// Puts an object of a legacy kind into its group.
pub(crate) fn correct_group(object: &mut Node) {
    if crate::kinds::text(object, "apiVersion") != "v1" {
        return;
    }
    let kind = crate::kinds::text(object, "kind");
    let moved = MOVED.iter().chain(&MOVED_TOO).find(|(_, kinds)| kinds.contains(&kind));
    if let (Some((group, _)), Some(api_version)) = (moved, object.get_mut("apiVersion")) {
        api_version.value = manifest::NodeValue::String((*group).to_owned());
    }
}

/// Removes a namespace that is written out. `written` is the object as the template has it.
pub(crate) fn remove_namespace(index: usize, written: &Node, object: &mut Node, findings: &mut Findings) {
    let (path, field): (&[&str], _) = match written.get("metadata") {
        Some(_) => (&["metadata", "namespace"], "metadata.namespace"),
        None => (&["namespace"], "namespace"),
    };
    let Some(namespace) = at(written, path) else { return };
    let is_parameter = |text: &str| {
        memchr_iter(b'$', text.as_bytes())
            .any(|sign| form(text, sign, Dialect::OpenShift).is_some_and(|form| form.style == Style::Quoted))
    };
    if namespace.as_str().is_some_and(is_parameter) {
        return;
    }
    let owner = match path {
        [owner, _] => object.get_mut(owner),
        _ => Some(object),
    };
    if let Some(entries) = owner.and_then(Node::entries_mut) {
        entries.retain(|entry| entry.key != "namespace");
    }
    findings.add(FindingKind::NamespaceRemoved, || {
        Place::new(format!("objects[{index}].{field}"), namespace.span)
    });
}
