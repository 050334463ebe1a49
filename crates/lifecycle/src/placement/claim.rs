//! What a pod takes of a node: resources as requested, and ports of the node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource;
use quantity::Quantity;

use crate::containers::{ContainerRole, pod_containers};

/// Amounts by resource: thousandths for `cpu`, units (bytes) for everything else.
pub type Amounts = BTreeMap<String, i128>;

/// A port of the node that a pod wants to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// Address of the node; empty or unspecified for all of them.
    pub ip: String,
    /// Number.
    pub port: i32,
}

impl HostPort {
    /// Whether both cannot be had at the same time.
    fn conflicts(&self, other: &Self) -> bool {
        let everywhere = |ip: &str| matches!(ip, "" | "0.0.0.0" | "::");
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || everywhere(&self.ip) || everywhere(&other.ip))
    }
}

/// What one pod takes of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its requests.
    pub requests: Amounts,
    /// Its ports of the node.
    pub ports: Vec<HostPort>,
}

impl Claim {
    /// What the pod takes.
    pub fn of(pod: &Pod) -> Self {
        let ports = pod_containers(pod)
            .flat_map(|container| container.spec.ports.iter().flatten())
            .filter_map(|port| {
                let number = port.host_port.filter(|number| *number > 0)?;
                Some(HostPort {
                    protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                    ip: port.host_ip.clone().unwrap_or_default(),
                    port: number,
                })
            })
            .collect();
        Self { requests: requests(pod), ports }
    }
}

/// What the pods of a node take together. Adding and removing one costs the same however many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    requests: Amounts,
    ports: Vec<HostPort>,
    pods: usize,
}

impl Load {
    /// A pod is there as well.
    pub fn add(&mut self, claim: &Claim) {
        add(&mut self.requests, &claim.requests);
        self.ports.extend(claim.ports.iter().cloned());
        self.pods += 1;
    }

    /// A pod that was added is there no longer.
    pub fn remove(&mut self, claim: &Claim) {
        for (name, amount) in &claim.requests {
            if let Some(sum) = self.requests.get_mut(name) {
                *sum = sum.saturating_sub(*amount);
            }
        }
        for port in &claim.ports {
            if let Some(index) = self.ports.iter().position(|taken| taken == port) {
                self.ports.swap_remove(index);
            }
        }
        self.pods = self.pods.saturating_sub(1);
    }

    /// How many pods there are.
    pub fn pods(&self) -> usize {
        self.pods
    }

    /// How much of a resource is taken.
    pub fn of(&self, resource: &str) -> i128 {
        self.requests.get(resource).copied().unwrap_or(0)
    }

    /// Whether a port of the claim is taken.
    pub(super) fn has_port_of(&self, claim: &Claim) -> bool {
        claim.ports.iter().any(|own| self.ports.iter().any(|taken| own.conflicts(taken)))
    }
}

/// A quantity in the unit of its resource; what cannot be read counts as nothing.
pub(super) fn amount(name: &str, quantity: &resource::Quantity) -> i128 {
    let Ok(parsed) = Quantity::parse(&quantity.0) else {
        return 0;
    };
    if name == "cpu" { parsed.millis() } else { parsed.units() }
}

fn requests_of(resources: Option<&ResourceRequirements>) -> Amounts {
    let mut amounts = Amounts::new();
    let Some(resources) = resources else {
        return amounts;
    };
    // A limit without a request is a request.
    for set in [&resources.limits, &resources.requests].into_iter().flatten() {
        for (name, quantity) in set {
            amounts.insert(name.clone(), amount(name, quantity));
        }
    }
    amounts
}

fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.entry(name.clone()).or_default();
        *sum = sum.saturating_add(*amount);
    }
}

fn raise(to: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let most = to.entry(name.clone()).or_default();
        *most = (*most).max(*amount);
    }
}

/// What a pod requests: the most that it needs at any time of its life. Sidecars run beside the init containers after them
/// and beside the containers; what the pod says for itself comes before what its containers say.
fn requests(pod: &Pod) -> Amounts {
    let of = |container: &Container| requests_of(container.resources.as_ref());
    let (mut sidecars, mut at_start, mut running) = (Amounts::new(), Amounts::new(), Amounts::new());
    for container in pod_containers(pod) {
        match container.role {
            ContainerRole::Init => {
                let mut beside = sidecars.clone();
                add(&mut beside, &of(container.spec));
                raise(&mut at_start, &beside);
            }
            ContainerRole::Sidecar => {
                add(&mut sidecars, &of(container.spec));
                raise(&mut at_start, &sidecars);
            }
            ContainerRole::App => add(&mut running, &of(container.spec)),
            ContainerRole::Ephemeral => {}
        }
    }
    add(&mut running, &sidecars);
    raise(&mut running, &at_start);
    let spec = pod.spec.as_ref();
    running.extend(requests_of(spec.and_then(|spec| spec.resources.as_ref())));
    for (name, quantity) in spec.iter().flat_map(|spec| spec.overhead.iter().flatten()) {
        let sum = running.entry(name.clone()).or_default();
        *sum = sum.saturating_add(amount(name, quantity));
    }
    running
}
