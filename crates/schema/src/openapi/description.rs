//! What is said about types and fields.

use crate::table::{Field, Shape, Type};

/// Types that people ask for, by name.
const TYPES: &[(&str, &str)] = &[
    ("ClusterRole", "Rights in all namespaces, and on what belongs to none."),
    (
        "ClusterRoleBinding",
        "Gives the rights of a ClusterRole to users, groups and service accounts everywhere.",
    ),
    ("ConfigMap", "Settings as keys and values, for containers to read as variables or files."),
    ("Container", "One program of a pod: image, command, environment, mounts and limits."),
    ("CronJob", "Creates Jobs by a schedule."),
    ("DaemonSet", "Keeps one pod on every node that fits."),
    ("DeleteOptions", "How something is to be deleted."),
    (
        "Deployment",
        "Keeps a number of equal pods and replaces them step by step when their template changes.",
    ),
    ("Endpoints", "The addresses behind a service, in the old form."),
    ("EndpointSlice", "A part of the addresses behind a service."),
    ("EnvVar", "One variable of a container's environment: a value, or where the value is read from."),
    ("EnvVarSource", "Where the value of a variable is read from: exactly one of the fields."),
    ("Event", "Something that happened to an object, told for people; kept for an hour."),
    ("IntOrString", "A number or a text."),
    ("Job", "Runs pods until a number of them has succeeded."),
    ("Lease", "Who holds something, and until when."),
    ("LimitRange", "Defaults and bounds of what containers and pods of a namespace ask for."),
    ("ListMeta", "What a list says about itself: its version, and how to go on."),
    ("Namespace", "A part of the cluster in which names are unique and rights are given."),
    ("Node", "A machine that runs pods."),
    ("ObjectMeta", "What every object has: name, namespace, labels, annotations, owners, versions."),
    ("OwnerReference", "An object that this one is deleted with."),
    ("PersistentVolume", "A piece of storage of the cluster."),
    ("PersistentVolumeClaim", "A request for storage."),
    ("Pod", "Containers that run together on one node and share network and volumes."),
    ("PodDisruptionBudget", "How many pods of a set may be missing while somebody evicts them."),
    ("PodSpec", "What shall run: containers, volumes, and how they are run."),
    ("PodStatus", "What is known about a running pod."),
    ("PodTemplate", "A pod to make copies of."),
    ("PriorityClass", "A name for how important pods are."),
    ("Probe", "A check of a container that is repeated."),
    ("Quantity", "An amount such as 250m, 64Mi or 2."),
    ("ReplicaSet", "Keeps a number of equal pods."),
    ("ReplicationController", "Keeps a number of equal pods; ReplicaSet came after it."),
    ("ResourceQuota", "Bounds of what a namespace may use in sum."),
    ("ResourceRequirements", "What a container needs at least and may take at most."),
    ("Role", "Rights in one namespace."),
    ("RoleBinding", "Gives the rights of a role to users, groups and service accounts in one namespace."),
    ("RuntimeClass", "A name for a way to run containers."),
    ("Secret", "Confidential data as keys and values; values are base64."),
    ("SecurityContext", "With which user, groups and privileges a container runs."),
    ("Service", "A name and an address for a set of pods."),
    ("ServiceAccount", "An identity for pods."),
    ("StatefulSet", "Keeps pods with names and storage of their own, in order."),
    ("Status", "The outcome of a request that returns no object."),
    ("Template", "Objects with parameters, from which an application is made."),
    ("Volume", "Files that containers of a pod can mount; exactly one of the sources."),
];

/// Fields that mean the same wherever they stand, or that people ask for; by `Type.field` or by name alone.
const FIELDS: &[(&str, &str)] = &[
    ("accessModes", "How the volume may be mounted."),
    ("activeDeadlineSeconds", "Seconds after which it is stopped."),
    ("annotations", "Notes of tools and people; nothing is selected by them."),
    ("apiVersion", "Group and version of the kind."),
    ("args", "Arguments of the command; `$(NAME)` is replaced by the variable NAME."),
    ("automountServiceAccountToken", "Whether containers get the token of the service account."),
    (
        "command",
        "The program and its first arguments, instead of the image's entry point; `$(NAME)` is replaced.",
    ),
    ("conditions", "What is true about the object now, each by its type."),
    ("configMapKeyRef", "A key of a ConfigMap."),
    ("containers", "The containers of the pod; at least one."),
    ("continue", "Where the next part of the list begins."),
    ("creationTimestamp", "When the object was created."),
    ("data", "Keys and values."),
    ("deletionTimestamp", "When the object goes at the latest; set while it is being deleted."),
    ("dnsPolicy", "Whose name servers containers ask."),
    ("env", "Variables of the environment, in order; later ones can refer to earlier ones."),
    ("envFrom", "Sources whose keys all become variables."),
    ("EnvVar.name", "The name of the variable."),
    ("EnvVar.value", "The value; `$(NAME)` is replaced by a variable that stands above."),
    ("ephemeralContainers", "Containers that were added to the running pod, to look into it."),
    ("fieldRef", "A field of the pod."),
    ("fileKeyRef", "A key of an env file in a volume."),
    ("finalizers", "What has to be done before the object may go."),
    ("generateName", "The beginning of a name that the server completes."),
    ("generation", "How often the wanted state was changed."),
    ("image", "The image to run."),
    ("imagePullPolicy", "When the image is fetched."),
    ("imagePullSecrets", "Secrets with credentials for registries."),
    ("immutable", "Whether the data can never be changed again."),
    ("initContainers", "Containers that run to their end one after the other, before the others start."),
    ("items", "The objects of the list."),
    ("kind", "The kind of the object."),
    ("labels", "Keys and values by which objects are selected."),
    ("lifecycle", "What is run after the start and before the end of the container."),
    ("livenessProbe", "The container is restarted when this check fails."),
    ("managedFields", "Which fields were set by whom."),
    ("metadata", "Name, namespace, labels and what else every object has."),
    ("name", "The name; unique where it stands."),
    ("namespace", "The namespace that the object is in."),
    ("nodeName", "The node that the pod is on."),
    ("nodeSelector", "Labels that the node must have."),
    ("ownerReferences", "Objects that this one is deleted with."),
    ("ports", "The ports."),
    ("readinessProbe", "The pod gets no traffic while this check fails."),
    ("replicas", "How many pods there shall be."),
    ("resourceFieldRef", "A request or limit of a container."),
    ("resources", "What is needed at least and allowed at most."),
    ("resourceVersion", "The version of the object; changes with every write."),
    ("restartPolicy", "When containers are started again after their end."),
    ("secretKeyRef", "A key of a Secret."),
    ("securityContext", "User, groups and privileges."),
    ("selector", "Which objects are meant."),
    ("serviceAccountName", "The identity of the pod."),
    ("spec", "The wanted state."),
    ("startupProbe", "The other checks wait until this one succeeds."),
    ("status", "The state as it was last seen."),
    ("stringData", "Keys and values as plain text; written into data, never shown."),
    ("template", "What is made copies of."),
    ("terminationGracePeriodSeconds", "Seconds between the request to end and the end by force."),
    ("tolerations", "Taints of nodes that the pod puts up with."),
    ("uid", "Which object it is, even among those of the same name."),
    ("valueFrom", "Where the value is read from, instead of a value."),
    ("volumeMounts", "Where volumes appear in the container."),
    ("volumes", "Volumes that the containers can mount."),
    ("workingDir", "The directory that the command starts in."),
];

/// The description of a type.
pub(super) fn of_type(ty: Type) -> String {
    match TYPES.iter().find(|(name, _)| *name == ty.name()) {
        Some((_, text)) => (*text).to_owned(),
        None => match ty.name().strip_suffix("List") {
            Some(item) if ty.field("items").is_some() => format!("A list of {item}."),
            Some(_) | None => format!("{}.", words(ty.name())),
        },
    }
}

/// The description of a field.
pub(super) fn of_field(ty: Type, field: Field) -> String {
    let own = format!("{}.{}", ty.name(), field.json());
    let known = |key: &str| FIELDS.iter().find(|(name, _)| *name == key).map(|(_, text)| (*text).to_owned());
    let mut text =
        known(&own).or_else(|| known(field.json())).unwrap_or_else(|| format!("{}.", words(field.json())));
    let values: Vec<&str> = constants(field.shape());
    if !values.is_empty() {
        text.push_str(&format!(" Known values: {}.", values.join(", ")));
    }
    if let Some(gate) = field.feature_gate() {
        text.push_str(&format!(" Needs the feature gate {gate}."));
    }
    text
}

/// The constants of a named text, behind pointers and lists.
fn constants(shape: Shape) -> Vec<&'static str> {
    match shape {
        Shape::Named(ty) => ty.constants().filter(|text| !text.is_empty()).collect(),
        Shape::Pointer(inner) | Shape::List(inner) => constants(inner.shape()),
        Shape::String
        | Shape::Bool
        | Shape::Int32
        | Shape::Int64
        | Shape::Float64
        | Shape::Bytes
        | Shape::Any
        | Shape::Map { .. } => Vec::new(),
    }
}

/// A name in words: `hostPID` is `Host PID`.
fn words(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut text = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|before| letters.get(before));
        let after = letters.get(at + 1);
        let begins = letter.is_uppercase()
            && before.is_some_and(|before| {
                // The last capital of a row begins a word, unless only the `s` of a plural follows.
                !before.is_uppercase()
                    || (after.is_some_and(|after| after.is_lowercase())
                        && !(after == Some(&'s') && at + 2 == letters.len()))
            });
        if begins {
            text.push(' ');
        }
        let is_alone = begins && !after.is_some_and(|after| after.is_uppercase());
        if at == 0 {
            text.extend(letter.to_uppercase());
        } else if is_alone {
            text.extend(letter.to_lowercase());
        } else {
            text.push(*letter);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn names_become_words() {
        for (name, text) in [
            ("hostPID", "Host PID"),
            ("terminationGracePeriodSeconds", "Termination grace period seconds"),
            ("podIPs", "Pod IPs"),
            ("clusterIP", "Cluster IP"),
            ("HTTPGetAction", "HTTP get action"),
            ("x", "X"),
            ("", ""),
        ] {
            assert_eq!(words(name), text);
        }
    }
}
