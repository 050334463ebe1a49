//! What can go wrong for pods in their network, and what this machine lacks.

use std::io;
use std::path::PathBuf;

use crate::allocations::{AllocateError, AllocationsError};
use crate::claims::ClaimRangeError;
use crate::links::NamespaceError;
use crate::netlink::NetlinkError;
use crate::range::AddressRange;

/// Why the network could not be opened. What the machine merely lacks is a [`NetworkWarning`] instead.
#[derive(Debug, thiserror::Error)]
pub enum OpenNetworkError {
    /// The data directory cannot be used.
    #[error("cannot use {path} for the pod network")]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another process, or another handle of this one, has the network of this data directory open.
    #[error(
        "the pod network in {path} is in use by another process; stop it or choose another data directory"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A range is of the other family.
    #[error("{0} is not a range of {1}")]
    WrongFamily(AddressRange, &'static str),
    /// There is no range for the pods.
    #[error(transparent)]
    Range(#[from] ClaimRangeError),
    /// The allocations cannot be written.
    #[error(transparent)]
    Allocations(#[from] AllocationsError),
    /// The thread could not be started.
    #[error("cannot start the network thread")]
    Thread(#[source] io::Error),
}

/// Something that this machine lacks, and what it means for pods. Found when the network is opened and said once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkWarning {
    /// Links cannot be made at all.
    #[error("pods get no network but loopback: {reason}; run as root with CAP_NET_ADMIN to give them one")]
    NoLinks {
        /// What the kernel said.
        reason: String,
    },
    /// The packet filter cannot be used.
    #[error(
        "pods reach this machine and each other but nothing beyond, services have no route, host ports do not work and \
         link-local addresses are not closed: {reason}; the kernel needs nf_tables with NAT"
    )]
    NoPacketFilter {
        /// What the kernel said.
        reason: String,
    },
    /// Packets are not forwarded.
    #[error(
        "pods reach this machine but neither each other nor anything beyond: {path} is 0 and cannot be set ({reason}); set it \
         to 1"
    )]
    NoForwarding {
        /// The switch.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The machine has IPv6, or the node is told so, and pods cannot have it.
    #[error("pods have IPv4 only, although IPv6 is wanted: {reason}")]
    NoIpv6 {
        /// What was tried and what the system said.
        reason: String,
    },
    /// The file of allocations was damaged.
    #[error(
        "the list of pod addresses {path} is damaged ({reason}); it was {} and made anew from the links that exist",
        moved_to.as_ref().map_or("left".to_owned(), |to| format!("moved to {}", to.display()))
    )]
    AllocationsDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// Where it is now.
        moved_to: Option<PathBuf>,
    },
    /// The common directory of claims cannot be used.
    #[error(
        "cannot note the pod address range in {path} ({reason}): another node that starts at the same moment may choose the \
         same one"
    )]
    NoClaims {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

/// Why a pod got no network.
#[derive(Debug, thiserror::Error)]
pub enum SetupPodError {
    /// No address, or a host port that is taken.
    #[error(transparent)]
    Allocate(#[from] AllocateError),
    /// The allocation could not be written; without it a restart would forget the pod.
    #[error(transparent)]
    Save(#[from] AllocationsError),
    /// The pod's namespace could not be entered.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// The kernel refused a link, address or route.
    #[error("cannot connect the pod")]
    Kernel(#[source] NetlinkError),
    /// The kernel refused a rule.
    #[error("cannot open the host ports of the pod")]
    HostPorts(#[source] NetlinkError),
    /// Host ports need the packet filter, and there is none.
    #[error("the pod asks for host ports, which need nf_tables in the kernel")]
    HostPortsUnsupported,
    /// The descriptor of the namespace could not be copied.
    #[error("cannot keep the pod's network namespace open")]
    Descriptor(#[source] io::Error),
    /// The network was closed.
    #[error("the pod network is closed")]
    Closed,
}

impl From<NetlinkError> for SetupPodError {
    fn from(error: NetlinkError) -> Self {
        Self::Kernel(error)
    }
}

/// Why a pod's network could not be taken down in full.
#[derive(Debug, thiserror::Error)]
pub enum TeardownPodError {
    /// The kernel refused to remove something.
    #[error("cannot disconnect the pod")]
    Kernel(#[source] NetlinkError),
    /// The allocation could not be written.
    #[error(transparent)]
    Save(#[from] AllocationsError),
    /// The network was closed.
    #[error("the pod network is closed")]
    Closed,
}

/// Why pods cannot reach the API.
#[derive(Debug, thiserror::Error)]
pub enum RouteApiError {
    /// Redirections need nf_tables.
    #[error("this machine has no packet filter to redirect with")]
    Unsupported,
    /// The kernel refused.
    #[error("cannot open the way from pods to the API")]
    Kernel(#[source] NetlinkError),
    /// The network is closed.
    #[error("the network of the node is closed")]
    Closed,
}

/// Why pods cannot reach the cluster's DNS.
#[derive(Debug, thiserror::Error)]
pub enum RouteDnsError {
    /// Redirections need nf_tables.
    #[error("this machine has no packet filter to redirect with")]
    Unsupported,
    /// The kernel refused.
    #[error("cannot open the way from pods to the DNS")]
    Kernel(#[source] NetlinkError),
    /// The network is closed.
    #[error("the network of the node is closed")]
    Closed,
}

/// An error with all that caused it, in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
