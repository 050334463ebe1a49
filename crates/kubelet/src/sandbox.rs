//! The configuration of a pod's sandbox: names, DNS, ports, namespaces. Decided from the pod and the node's settings.

use std::net::IpAddr;

use cri::v1;
use k8s_openapi::api::core::v1::Pod;
use network::{ClusterDns, DnsConfig, DnsPolicy, HostnameError, PodDns, PodHostname};

use crate::agent::Agent;
use crate::labels;
use crate::pod_users;
use crate::resources;
use crate::security;

/// What a sandbox is made from, and what to tell about it.
#[derive(Clone, Debug)]
pub(crate) struct SandboxPlan {
    pub(crate) config: v1::PodSandboxConfig,
    /// The pod wanted the cluster's DNS and there is none.
    pub(crate) missing_cluster_dns: bool,
    /// What its resolver configuration had to leave out, as sentences.
    pub(crate) dns_limits: Vec<String>,
}

/// Why a sandbox cannot be planned.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxPlanError {
    /// A full name that does not fit into the kernel's host name.
    #[error(transparent)]
    Hostname(#[from] HostnameError),
    /// The pod is to have users of its own, and none can be given.
    #[error("cannot give the pod users of its own: {0}")]
    Users(#[from] std::io::Error),
}

/// How the pod is named inside.
pub(crate) fn hostname(agent: &Agent, pod: &Pod) -> Result<PodHostname, HostnameError> {
    let spec = pod.spec.as_ref();
    network::pod_hostname(&network::HostnameFields {
        pod_name: pod.metadata.name.as_deref().unwrap_or_default(),
        namespace: pod.metadata.namespace.as_deref().unwrap_or_default(),
        hostname: spec.and_then(|spec| spec.hostname.as_deref()),
        subdomain: spec.and_then(|spec| spec.subdomain.as_deref()),
        hostname_override: spec.and_then(|spec| spec.hostname_override.as_deref()),
        fqdn_in_kernel: spec.and_then(|spec| spec.set_hostname_as_fqdn).unwrap_or(false),
        cluster_domain: &agent.config.cluster_domain,
    })
}

/// Whether the pod uses the node's own network.
pub(crate) fn in_host_network(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or(false)
}

fn dns(agent: &Agent, pod: &Pod) -> PodDns {
    let spec = pod.spec.as_ref();
    let machine = network::machine_resolv_conf().unwrap_or_else(|error| {
        tracing::warn!(%error, "pods get no resolver of the machine");
        network::ResolvConf::default()
    });
    let config = spec.and_then(|spec| spec.dns_config.as_ref()).map(|config| DnsConfig {
        nameservers: config.nameservers.clone().unwrap_or_default(),
        searches: config.searches.clone().unwrap_or_default(),
        options: config
            .options
            .iter()
            .flatten()
            .filter_map(|option| Some((option.name.clone()?, option.value.clone())))
            .collect(),
    });
    let addresses: Vec<IpAddr> =
        agent.config.cluster_dns.iter().filter_map(|address| address.parse().ok()).collect();
    let cluster = (!addresses.is_empty())
        .then(|| ClusterDns { addresses, domain: agent.config.cluster_domain.clone() });
    network::pod_dns(
        DnsPolicy::from_field(spec.and_then(|spec| spec.dns_policy.as_deref())),
        in_host_network(pod),
        pod.metadata.namespace.as_deref().unwrap_or("default"),
        config.as_ref(),
        cluster.as_ref(),
        &machine,
    )
}

/// The configuration of the sandbox of that attempt.
///
/// # Errors
///
/// See [`SandboxPlanError`].
pub(crate) fn sandbox_plan(agent: &Agent, pod: &Pod, attempt: u32) -> Result<SandboxPlan, SandboxPlanError> {
    let first_user = pod_users::first_user(&agent.config, pod)?;
    let metadata = &pod.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let uid = metadata.uid.clone().unwrap_or_default();
    let dns = dns(agent, pod);
    let host_network = in_host_network(pod);
    // A pod in the node's network keeps the node's name.
    let hostname = if host_network { String::new() } else { hostname(agent, pod)?.kernel };
    let log_directory = agent.config.log_dir(&namespace, &name, &uid);
    let spec = pod.spec.as_ref();
    let sysctls = spec
        .and_then(|spec| spec.security_context.as_ref())
        .and_then(|context| context.sysctls.as_ref())
        .into_iter()
        .flatten()
        .map(|sysctl| (sysctl.name.clone(), sysctl.value.clone()))
        .collect();
    let annotations = metadata.annotations.clone().unwrap_or_default();
    Ok(SandboxPlan {
        missing_cluster_dns: dns.missing_cluster_dns,
        dns_limits: dns.limits.iter().map(ToString::to_string).collect(),
        config: v1::PodSandboxConfig {
            metadata: Some(v1::PodSandboxMetadata { name, namespace, uid, attempt }),
            hostname,
            log_directory: log_directory.display().to_string(),
            dns_config: Some(v1::DnsConfig {
                servers: dns.resolv_conf.nameservers,
                searches: dns.resolv_conf.searches,
                options: dns.resolv_conf.options,
            }),
            port_mappings: if host_network { Vec::new() } else { port_mappings(pod) },
            labels: labels::sandbox_labels(pod),
            annotations,
            linux: Some(v1::LinuxPodSandboxConfig {
                security_context: Some(security::sandbox_security(
                    pod,
                    security::SeccompSettings {
                        by_default: agent.config.seccomp_default,
                        directory: &agent.config.seccomp_dir,
                    },
                    first_user,
                )),
                sysctls,
                resources: Some(resources::pod_resources(pod)),
                ..v1::LinuxPodSandboxConfig::default()
            }),
        },
    })
}

fn port_mappings(pod: &Pod) -> Vec<v1::PortMapping> {
    lifecycle::pod_containers(pod)
        .flat_map(|container| container.spec.ports.iter().flatten())
        .map(|port| v1::PortMapping {
            protocol: match port.protocol.as_deref() {
                Some("UDP") => v1::Protocol::Udp,
                Some("SCTP") => v1::Protocol::Sctp,
                Some(_) | None => v1::Protocol::Tcp,
            } as i32,
            container_port: port.container_port,
            host_port: port.host_port.unwrap_or(0),
            host_ip: port.host_ip.clone().unwrap_or_default(),
        })
        .collect()
}

/// Text of the hosts file of a pod.
pub(crate) fn hosts_text(agent: &Agent, pod: &Pod, ips: &[String]) -> Result<String, HostnameError> {
    let name = hostname(agent, pod)?;
    let addresses: Vec<IpAddr> = ips.iter().filter_map(|ip| ip.parse().ok()).collect();
    let aliases: Vec<network::HostAlias> = pod
        .spec
        .iter()
        .flat_map(|spec| spec.host_aliases.iter().flatten())
        .map(|alias| network::HostAlias {
            ip: alias.ip.clone(),
            hostnames: alias.hostnames.clone().unwrap_or_default(),
        })
        .collect();
    let machine = in_host_network(pod).then(|| std::fs::read_to_string("/etc/hosts").unwrap_or_default());
    Ok(network::hosts_file(&network::HostsFile {
        pod_ips: &addresses,
        host: &name.host,
        domain: &name.domain,
        aliases: &aliases,
        machine: machine.as_deref(),
    }))
}
