//! The flags that `coracle run` and `coracle up` share, and what they mean.

use std::path::PathBuf;

use admission::IpFamily;
use apiserver::ServiceRanges;

use crate::cluster_dns;
use crate::control_plane::ServerOptions;
use crate::data_directory;
use crate::failure::{Failure, INPUT};
use crate::flag_values::{self, PodPids};
use crate::pod_ranges::PodRanges;

/// How pods are run on this node.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct NodeOptions {
    /// Directory for images, containers and state [default: /var/lib/coracle].
    #[arg(long, value_name = "DIR", value_parser = flag_values::directory())]
    pub(crate) data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// Syntax of env files.
    #[arg(long, value_enum, default_value_t = EnvFileSyntax::Default, value_name = "SYNTAX")]
    pub(crate) env_file_syntax: EnvFileSyntax,
    /// Most processes in a pod, or `unlimited`.
    #[arg(long, value_name = "COUNT", default_value = "4096")]
    pub(crate) pod_max_pids: PodPids,
    /// Whether a container that names no seccomp profile gets the default one.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) seccomp_default: bool,
    /// Where hooks and probes of a pod may connect to.
    #[arg(long, value_enum, default_value_t = HookHosts::Any, value_name = "RULE")]
    pub(crate) hook_hosts: HookHosts,
    /// Domain of the cluster: services are found as SERVICE.NAMESPACE.svc.DOMAIN.
    #[arg(long, value_name = "DOMAIN", default_value = cluster_dns::USUAL_DOMAIN, value_parser = cluster_dns::domain)]
    pub(crate) cluster_domain: String,
    /// Addresses of pods: a range of IPv4, or one of IPv4 and one of IPv6 with a comma between them [default: ranges that follow from the
    /// data directory, that of IPv6 where the machine has it].
    #[arg(long, value_name = "CIDR[,CIDR]")]
    pub(crate) pod_cidr: Option<PodRanges>,
    /// Address at which pods ask for names, or `none` [default: the tenth of the IPv4 range of services, 10.43.0.10; of `kubelet`: none].
    #[arg(long, value_name = "ADDR|none")]
    pub(crate) cluster_dns: Option<cluster_dns::Wanted>,
}

/// Where hooks and probes of a pod may connect to (`docs/hooks.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HookHosts {
    /// Wherever the pod could, except to link-local addresses.
    Any,
    /// To the pod itself only.
    Pod,
}

impl From<HookHosts> for kubelet::HookHosts {
    fn from(hosts: HookHosts) -> Self {
        match hosts {
            HookHosts::Any => Self::Any,
            HookHosts::Pod => Self::Pod,
        }
    }
}

/// The syntaxes of env files (`docs/environment.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EnvFileSyntax {
    /// KEY=VALUE, and values in single quotes as Kubernetes reads them.
    Default,
    /// KEY=VALUE only (RFC 2).
    Rfc2,
    /// Values in single quotes only, as Kubernetes 1.36 reads them.
    Kubernetes,
}

impl NodeOptions {
    /// The same, with services of the families that pods have, unless something else is wanted.
    pub(crate) fn with_services_of_its_pods(mut self) -> Self {
        if self.pod_cidr.is_some_and(PodRanges::is_v4_only) {
            self.server.service_cidr.get_or_insert_with(|| ServiceRanges::usual(false));
        }
        self
    }

    /// Checks that services have addresses at which pods can be served: of the API and of names, that is IPv4.
    ///
    /// # Errors
    ///
    /// When they have none.
    pub(crate) fn check_services(&self) -> Result<(), Failure> {
        let ranges = self.server.service_ranges();
        if ranges.of(IpFamily::V4).is_some() {
            return Ok(());
        }
        Err(Failure::text(
            INPUT,
            format!("--service-cidr {ranges} has no IPv4 range: pods reach the API and the DNS over IPv4"),
        )
        .hint(format!("write --service-cidr {ranges},10.43.0.0/16")))
    }

    /// The data directory.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.data_dir.clone().unwrap_or_else(|| data_directory::DEFAULT.into())
    }
}
