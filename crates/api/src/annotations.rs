//! The annotations that Coracle reads from or writes to objects. One constant each, so that a search finds every use.

/// On a pod: who wins when a `$(VAR)` reference names both a service variable and a variable of the container.
/// The only value is [`SERVICE_VARIABLES_PREFER`]; anything else, and absence, means Kubernetes' order.
pub const SERVICE_VARIABLES: &str = "environment.coracle.dev/service-variables";

/// Value of [`SERVICE_VARIABLES`]: references find service variables first, the container's own are their defaults.
pub const SERVICE_VARIABLES_PREFER: &str = "prefer";

/// On a stored template: the language of its references, `proposal` (also without it) or `openshift`.
pub const TEMPLATE_DIALECT: &str = "template.coracle.dev/dialect";

/// On a pod made from a file: hash of the file's content, as Kubernetes writes it on mirror pods.
pub const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// On a pod: the node made it from a local file; the object in the API is its mirror.
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// On a pod: where the node got it (`api`, `file`).
pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";

/// On a pod: the container that `kubectl logs` and `kubectl exec` choose when none is named.
pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// Who answers claims by directories of nodes: the provisioner of a storage class, and the driver of a volume.
pub const DIRECTORY_PROVISIONER: &str = "coracle.dev/directory";

/// On a volume that is a directory of a node: the name of that node.
pub const DIRECTORY_NODE: &str = "coracle.dev/node";

/// Finalizer of a volume that is a directory of a node: the node has not done yet what its reclaim policy says.
pub const DIRECTORY_FINALIZER: &str = "coracle.dev/directory";
