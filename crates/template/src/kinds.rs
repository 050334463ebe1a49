//! What the engine knows of kinds: where pod specs, pod templates and selectors are.

use manifest::Node;

/// Where a selector of labels is, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectorForm {
    /// A plain map of labels.
    Map,
    /// A label selector: `matchLabels` and `matchExpressions`.
    MatchLabels,
}

/// What is known of one kind.
#[derive(Debug)]
pub(crate) struct Kind {
    pub(crate) groups: &'static [&'static str],
    pub(crate) name: &'static str,
    /// The path of the pod template; of a pod, the empty path.
    pub(crate) template: Option<&'static [&'static str]>,
    /// Paths of further metadata of objects that are made from this one.
    pub(crate) made: &'static [&'static [&'static str]],
    /// The selector that gets the template's labels.
    pub(crate) selector: Option<(&'static [&'static str], SelectorForm)>,
    /// Whether the selector is that of the object's own pod template.
    pub(crate) selects_own: bool,
}

const SELECTOR: &[&str] = &["spec", "selector"];
const TEMPLATE: &[&str] = &["spec", "template"];

const fn own(groups: &'static [&'static str], name: &'static str, form: SelectorForm) -> Kind {
    Kind {
        groups,
        name,
        template: Some(TEMPLATE),
        made: &[],
        selector: Some((SELECTOR, form)),
        selects_own: true,
    }
}

/// Every kind that has pods or selects them. A kind of the same name in another group is another kind.
const KINDS: [Kind; 13] = [
    Kind { groups: &[""], name: "Pod", template: Some(&[]), made: &[], selector: None, selects_own: false },
    Kind {
        groups: &[""],
        name: "PodTemplate",
        template: Some(&["template"]),
        made: &[],
        selector: None,
        selects_own: false,
    },
    own(&[""], "ReplicationController", SelectorForm::Map),
    own(&["apps.openshift.io", ""], "DeploymentConfig", SelectorForm::Map),
    own(&["apps", "extensions"], "Deployment", SelectorForm::MatchLabels),
    own(&["apps", "extensions"], "ReplicaSet", SelectorForm::MatchLabels),
    own(&["apps"], "StatefulSet", SelectorForm::MatchLabels),
    own(&["apps", "extensions"], "DaemonSet", SelectorForm::MatchLabels),
    // The selector of a Job is obeyed with `manualSelector` only.
    own(&["batch"], "Job", SelectorForm::MatchLabels),
    Kind {
        groups: &["batch"],
        name: "CronJob",
        template: Some(&["spec", "jobTemplate", "spec", "template"]),
        made: &[&["spec", "jobTemplate"]],
        selector: None,
        selects_own: false,
    },
    Kind {
        groups: &[""],
        name: "Service",
        template: None,
        made: &[],
        selector: Some((SELECTOR, SelectorForm::Map)),
        selects_own: false,
    },
    Kind {
        groups: &["policy"],
        name: "PodDisruptionBudget",
        template: None,
        made: &[],
        selector: Some((SELECTOR, SelectorForm::MatchLabels)),
        selects_own: false,
    },
    Kind {
        groups: &["networking.k8s.io", "extensions"],
        name: "NetworkPolicy",
        template: None,
        made: &[],
        selector: Some((&["spec", "podSelector"], SelectorForm::MatchLabels)),
        selects_own: false,
    },
];

impl Kind {
    /// The kind of a group and version and a name, if it is one of those.
    pub(crate) fn of(api_version: &str, name: &str) -> Option<&'static Self> {
        let group = group_of(api_version);
        KINDS.iter().find(|kind| kind.name == name && kind.groups.contains(&group))
    }

    /// The kind of an object that is processed.
    pub(crate) fn of_object(object: &Node) -> Option<&'static Self> {
        Self::of(text(object, "apiVersion"), text(object, "kind"))
    }
}

/// The group of a group and version; empty for the core group.
pub(crate) fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The text of a field, or nothing.
pub(crate) fn text<'n>(object: &'n Node, key: &str) -> &'n str {
    object.get(key).and_then(Node::as_str).unwrap_or_default()
}

/// The node at the end of a path of keys.
pub(crate) fn at<'n>(node: &'n Node, path: &[&str]) -> Option<&'n Node> {
    path.iter().try_fold(node, |node, key| node.get(key))
}

/// The same, to change it.
pub(crate) fn at_mut<'n>(node: &'n mut Node, path: &[&str]) -> Option<&'n mut Node> {
    path.iter().try_fold(node, |node, key| node.get_mut(key))
}
