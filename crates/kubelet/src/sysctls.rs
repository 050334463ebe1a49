//! Which kernel settings a pod may have: those that the kernel keeps apart for each pod and that cannot hurt others. Pure.

use api::reasons::event;
use k8s_openapi::api::core::v1::Pod;
use lifecycle::Refusal;

/// A kernel setting that is kept apart by a namespace.
struct SafeSysctl {
    name: &'static str,
    namespace: Namespace,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Namespace {
    Ipc,
    Network,
}

const fn ipc(name: &'static str) -> SafeSysctl {
    SafeSysctl { name, namespace: Namespace::Ipc }
}

const fn network(name: &'static str) -> SafeSysctl {
    SafeSysctl { name, namespace: Namespace::Network }
}

/// Kubernetes' safe set.
const SAFE: [SafeSysctl; 12] = [
    ipc("kernel.shm_rmid_forced"),
    network("net.ipv4.ip_local_port_range"),
    network("net.ipv4.tcp_syncookies"),
    network("net.ipv4.ping_group_range"),
    network("net.ipv4.ip_unprivileged_port_start"),
    network("net.ipv4.ip_local_reserved_ports"),
    network("net.ipv4.tcp_keepalive_time"),
    network("net.ipv4.tcp_fin_timeout"),
    network("net.ipv4.tcp_keepalive_intvl"),
    network("net.ipv4.tcp_keepalive_probes"),
    network("net.ipv4.tcp_rmem"),
    network("net.ipv4.tcp_wmem"),
];

/// A name with dots between its parts, whichever of the two forms it was given in.
fn dotted(name: &str) -> String {
    match name.find(['.', '/']).map(|at| name.as_bytes()[at]) {
        // With slashes between the parts a dot belongs to a name, as in that of an interface.
        Some(b'/') => name
            .chars()
            .map(|letter| match letter {
                '/' => '.',
                '.' => '/',
                other => other,
            })
            .collect(),
        Some(_) | None => name.to_owned(),
    }
}

/// Refuses a pod that asks for a sysctl which it may not have.
pub(crate) fn refusal(pod: &Pod) -> Option<Refusal> {
    forbidden(pod).map(|message| Refusal { reason: event::SYSCTL_FORBIDDEN.to_owned(), message })
}

/// The first sysctl that the pod may not have, in Kubernetes' words.
fn forbidden(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let sysctls = spec.security_context.as_ref()?.sysctls.as_ref()?;
    sysctls.iter().find_map(|sysctl| {
        let name = dotted(&sysctl.name);
        let why = match SAFE.iter().find(|safe| safe.name == name).map(|safe| safe.namespace) {
            None => "not allowlisted",
            Some(Namespace::Network) if spec.host_network == Some(true) => {
                "not allowed with host net enabled"
            }
            Some(Namespace::Ipc) if spec.host_ipc == Some(true) => "not allowed with host ipc enabled",
            Some(Namespace::Network | Namespace::Ipc) => return None,
        };
        Some(format!("forbidden sysctl: {:?} {why}", sysctl.name))
    })
}

#[cfg(test)]
mod tests {
    use super::forbidden;
    use serde_json::json;

    #[test]
    fn only_the_safe_set_is_allowed_and_only_in_namespaces_of_the_pod() {
        let rows = [
            ("kernel.shm_rmid_forced", json!({}), None),
            ("net/ipv4/tcp_syncookies", json!({}), None),
            ("kernel.msgmax", json!({}), Some("forbidden sysctl: \"kernel.msgmax\" not allowlisted")),
            (
                "net.ipv4.ip_forward",
                json!({}),
                Some("forbidden sysctl: \"net.ipv4.ip_forward\" not allowlisted"),
            ),
            (
                "net.ipv4.tcp_syncookies",
                json!({"hostNetwork": true}),
                Some("forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host net enabled"),
            ),
            (
                "kernel.shm_rmid_forced",
                json!({"hostIPC": true}),
                Some("forbidden sysctl: \"kernel.shm_rmid_forced\" not allowed with host ipc enabled"),
            ),
        ];
        for (name, fields, expected) in rows {
            let mut spec =
                json!({"containers": [], "securityContext": {"sysctls": [{"name": name, "value": "1"}]}});
            for (field, value) in fields.as_object().expect("fields") {
                spec[field] = value.clone();
            }
            let pod = serde_json::from_value(json!({"spec": spec})).expect("a pod");
            assert_eq!(forbidden(&pod).as_deref(), expected, "{name}");
        }
    }
}
