//! Pods connected and disconnected: the link of each, what the packet filter knows of it, and the list of them.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use super::errors::{NetworkWarning, RouteApiError, RouteDnsError, SetupPodError, TeardownPodError, chain};
use super::{ALIAS_PREFIX, FORWARDING, GATEWAY, GATEWAY_V6, NODE_HARDWARE, POD_INTERFACE, PodNetwork};
use crate::allocations::{Allocation, Allocations, HostPort};
use crate::claims::Claims;
use crate::dns_route::DnsRoute;
use crate::dual_stack;
use crate::identity::NodeIdentity;
use crate::links::{self, LOOPBACK, PodLink, Routing};
use crate::node_address;
use crate::packet_filter::{ApiRoute, PacketFilter};
use crate::range::Family;
use crate::services::{LoopbackReach, ServiceRouter};

/// Whether pods can be connected.
pub(super) enum Kernel {
    Usable { routing: Routing, filter: Option<PacketFilter> },
    Unusable,
}

/// The pods of a node as they are connected.
pub(super) struct PodConnections {
    pub(super) identity: NodeIdentity,
    pub(super) file: PathBuf,
    pub(super) allocations: Allocations,
    pub(super) claims: Option<Claims>,
    pub(super) kernel: Kernel,
    pub(super) mtu: u32,
    pub(super) warnings: Vec<NetworkWarning>,
    /// How pods reach the API, once that is known.
    pub(super) api: Option<ApiRoute>,
    /// How the cluster's DNS is reached, once there is one.
    pub(super) dns: Option<DnsRoute>,
    /// Routes services, on a thread of its own.
    pub(super) services: Arc<ServiceRouter>,
    /// Pods behind ports of the machine, which its loopback addresses reach.
    pub(super) loopback: LoopbackReach,
    /// Held as long as the thread lives: two writers of one list would give an address twice.
    pub(super) _lock: fs::File,
}

impl PodConnections {
    pub(super) fn find(&self, id: &str) -> Option<PodNetwork> {
        self.allocations.get(id).map(|allocation| self.describe(Some(allocation)))
    }

    fn describe(&self, allocation: Option<&Allocation>) -> PodNetwork {
        let limits = self
            .warnings
            .iter()
            .filter(|warning| match warning {
                NetworkWarning::NoLinks { .. }
                | NetworkWarning::NoPacketFilter { .. }
                | NetworkWarning::NoForwarding { .. } => true,
                NetworkWarning::NoIpv6 { .. }
                | NetworkWarning::AllocationsDamaged { .. }
                | NetworkWarning::NoClaims { .. } => false,
            })
            .cloned()
            .collect();
        PodNetwork {
            addresses: allocation.into_iter().flat_map(Allocation::addresses).collect(),
            interface: POD_INTERFACE,
            mtu: self.mtu,
            limits,
        }
    }

    pub(super) fn connect(
        &mut self,
        namespace: BorrowedFd<'_>,
        id: &str,
        ports: &[HostPort],
    ) -> Result<PodNetwork, SetupPodError> {
        let Kernel::Usable { filter, .. } = &self.kernel else {
            // Without rights over links even loopback may be refused; the pod runs all the same.
            let _ = Routing::inside(namespace)?.apply(&[links::set_up(LOOPBACK)]);
            return Ok(self.describe(None));
        };
        if filter.is_none() && !ports.is_empty() {
            return Err(SetupPodError::HostPortsUnsupported);
        }
        let allocation = self.allocations.allocate(id, ports)?;
        // Written before anything is made: what exists is always known to the next life of the node.
        let connected = self
            .allocations
            .save(&self.file)
            .map_err(SetupPodError::from)
            .inspect(|()| fault::point("network.allocated"))
            .and_then(|()| self.connect_as_far_as_possible(namespace, id, allocation))
            .inspect(|_| fault::point("network.linked"))
            .and_then(|allocation| self.open_filter(&allocation).map(|()| allocation));
        match connected {
            Ok(allocation) => Ok(self.describe(Some(&allocation))),
            Err(error) => {
                // The first error is the one that matters; what cannot be undone now is undone by `retain_pods`.
                let _ = self.disconnect(id);
                Err(error)
            }
        }
    }

    /// A pod whose namespace refuses IPv6 has IPv4.
    fn connect_as_far_as_possible(
        &mut self,
        namespace: BorrowedFd<'_>,
        id: &str,
        allocation: Allocation,
    ) -> Result<Allocation, SetupPodError> {
        match self.connect_links(namespace, id, &allocation) {
            Ok(()) => Ok(allocation),
            Err(error) if allocation.address_v6.is_some() => {
                let without = Allocation { address_v6: None, ..allocation };
                self.connect_links(namespace, id, &without)?;
                tracing::warn!(sandbox = id, error = chain(&error), "the pod has IPv4 only");
                self.allocations.without_v6(id);
                self.allocations.save(&self.file)?;
                Ok(without)
            }
            Err(error) => Err(error),
        }
    }

    fn connect_links(
        &mut self,
        namespace: BorrowedFd<'_>,
        id: &str,
        allocation: &Allocation,
    ) -> Result<(), SetupPodError> {
        let node_address = self.allocations.node_address();
        let v6 = allocation.address_v6.zip(self.allocations.node_address_v6());
        let name = self.interface(allocation.address);
        let Kernel::Usable { routing, .. } = &mut self.kernel else { return Ok(()) };
        let pod = allocation.address;
        let pod_hardware = pod_hardware(pod);
        let mut inside = Routing::inside_after(namespace, || {
            if v6.is_some() {
                dual_stack::allow_in_this_namespace();
            }
        })?;
        routing.remove_link(&name)?;
        routing.apply(&[links::make_pod_link(&PodLink {
            name: &name,
            hardware: NODE_HARDWARE,
            peer_name: POD_INTERFACE,
            peer_hardware: pod_hardware,
            peer_namespace: namespace,
            mtu: self.mtu,
            group: links::LINK_GROUP,
        })])?;
        fault::point("network.link_made");
        restrict_link(&name, v6.is_some());
        let outer = routing.link(&name)?.index;
        let mut near = vec![
            links::set_alias(outer, &alias(id)),
            links::add_address(outer, node_address),
            links::add_neighbour(outer, pod, pod_hardware),
            links::add_pod_route(outer, pod, node_address),
        ];
        let inner = inside.link(POD_INTERFACE)?.index;
        let mut far = vec![
            links::set_up(LOOPBACK),
            links::set_up(inner),
            links::add_address(inner, pod),
            links::add_neighbour(inner, GATEWAY, NODE_HARDWARE),
            links::add_default_route(inner, GATEWAY, pod),
        ];
        if let Some((pod, node)) = v6 {
            // No address of its own on either end: before it could be used, the kernel would ask around for a second.
            near.extend([
                links::generate_no_address(outer),
                links::add_neighbour(outer, pod, pod_hardware),
                links::add_pod_route(outer, pod, node),
            ]);
            far.insert(0, links::generate_no_address(inner));
            far.extend([
                links::add_address(inner, pod),
                links::add_local_route(inner, pod),
                links::add_neighbour(inner, GATEWAY_V6, NODE_HARDWARE),
                links::add_default_route(inner, GATEWAY_V6, pod),
            ]);
        }
        routing.apply(&near)?;
        inside.apply(&far)?;
        routing.await_operation(&name)?;
        for address in allocation.addresses() {
            if !allocation.ports.is_empty() || self.loopback.holds(address) {
                // Without it the port is open at all other addresses.
                let _ = routing.reach_from_loopback(&name, Family::of(address));
            }
        }
        Ok(())
    }

    fn open_filter(&mut self, allocation: &Allocation) -> Result<(), SetupPodError> {
        let Kernel::Usable { filter: Some(filter), .. } = &mut self.kernel else { return Ok(()) };
        match filter.add_pod(allocation) {
            Ok(()) => {}
            // Somebody emptied the packet filter (a firewall that was started again): ours comes back with every pod.
            Err(error) if error.is_absent() => {
                tracing::warn!(
                    "the packet filter table of this node was removed by another program; making it anew"
                );
                *filter = PacketFilter::install(
                    &self.identity,
                    &self.allocations,
                    self.api.as_ref(),
                    self.dns.as_ref(),
                )?;
                filter.install_v6(&self.allocations, self.api.as_ref())?;
                self.services.write_anew();
            }
            Err(error) => return Err(error.into()),
        }
        if !allocation.ports.is_empty() {
            filter.set_host_ports(&self.allocations).map_err(SetupPodError::HostPorts)?;
        }
        Ok(())
    }

    /// Takes the links of several pods away, which are then disconnected one by one: what was not done here is done there.
    pub(super) fn unlink_together(&mut self, ids: &[&str]) {
        let allocations = ids.iter().filter_map(|id| self.allocations.get(id));
        let names: Vec<String> = allocations.map(|allocation| self.interface(allocation.address)).collect();
        if let Kernel::Usable { routing, .. } = &mut self.kernel
            && names.len() > 1
            && let Err(error) = routing.remove_links(&names)
        {
            tracing::debug!(%error, "links are removed one after the other");
        }
        fault::point("network.unlinked_together");
    }

    pub(super) fn disconnect(&mut self, id: &str) -> Result<(), TeardownPodError> {
        let Some(allocation) = self.allocations.get(id).cloned() else { return Ok(()) };
        let name = self.interface(allocation.address);
        if let Kernel::Usable { routing, filter } = &mut self.kernel {
            // The link takes its addresses, its routes and its other end with it.
            routing.remove_link(&name).map_err(TeardownPodError::Kernel)?;
            allocation.addresses().for_each(|address| self.loopback.forget(address));
            fault::point("network.unlinked");
            if let Some(filter) = filter {
                filter.remove_pod(&allocation).map_err(TeardownPodError::Kernel)?;
            }
        }
        self.allocations.release(id);
        if let Kernel::Usable { filter: Some(filter), .. } = &mut self.kernel
            && !allocation.ports.is_empty()
        {
            match filter.set_host_ports(&self.allocations) {
                // A table that is gone has no open ports.
                Err(error) if !error.is_absent() => return Err(TeardownPodError::Kernel(error)),
                _ => {}
            }
        }
        self.allocations.save(&self.file)?;
        fault::point("network.freed");
        Ok(())
    }

    pub(super) fn route_api(&mut self, api: ApiRoute) -> Result<(), RouteApiError> {
        let Kernel::Usable { filter: Some(filter), .. } = &mut self.kernel else {
            return Err(RouteApiError::Unsupported);
        };
        filter.set_api(&api).map_err(RouteApiError::Kernel)?;
        self.api = Some(api);
        Ok(())
    }

    pub(super) fn route_dns(&mut self, dns: DnsRoute) -> Result<(), RouteDnsError> {
        let Kernel::Usable { filter: Some(filter), .. } = &mut self.kernel else {
            return Err(RouteDnsError::Unsupported);
        };
        filter.set_dns(&dns).map_err(RouteDnsError::Kernel)?;
        self.dns = Some(dns);
        Ok(())
    }

    pub(super) fn retain(&mut self, ids: &BTreeSet<String>) -> Result<Vec<String>, TeardownPodError> {
        let gone: Vec<String> =
            self.allocations.ids().filter(|id| !ids.contains(*id)).map(str::to_owned).collect();
        for id in &gone {
            self.disconnect(id)?;
        }
        // Links with our name that no allocation explains: a node that died between two steps.
        let prefix = self.identity.interface_prefix();
        let known: BTreeSet<String> =
            self.allocations.addresses().map(|address| self.interface(address)).collect();
        if let Kernel::Usable { routing, .. } = &mut self.kernel {
            let links = routing.links().map_err(TeardownPodError::Kernel)?;
            for link in
                links.iter().filter(|link| link.name.starts_with(&prefix) && !known.contains(&link.name))
            {
                routing.remove_link(&link.name).map_err(TeardownPodError::Kernel)?;
            }
        }
        Ok(gone)
    }

    /// Does as much as can be done, and answers the first thing that could not.
    pub(super) fn cleanup(&mut self) -> Result<(), TeardownPodError> {
        let mut outcome = self.retain(&BTreeSet::new()).map(drop);
        let ranges = self.allocations.ranges();
        outcome = outcome.and(self.services.remove().map_err(TeardownPodError::Kernel));
        if let Kernel::Usable { routing, filter } = &mut self.kernel {
            if let Some(filter) = filter {
                outcome = outcome.and(filter.remove().map_err(TeardownPodError::Kernel));
            }
            for range in &ranges {
                outcome = outcome.and(routing.remove_held_range(*range).map_err(TeardownPodError::Kernel));
                let given_up = node_address::give_up(routing, *range);
                outcome = outcome.and(given_up.map_err(TeardownPodError::Kernel));
            }
        }
        if let Some(claims) = &self.claims {
            // The last answer is the one that counts.
            let is_last = ranges.iter().fold(false, |_, range| claims.release(*range));
            if is_last {
                if claims.take_forwarding_was_off() {
                    let _ = fs::write(FORWARDING, "0");
                }
                if let Some(forwarded) = claims.take_forwarded_v6() {
                    dual_stack::switch_forwarding_off(&forwarded);
                }
            }
            claims.remove_if_empty();
        }
        let _ = fs::remove_file(&self.file);
        outcome
    }

    fn interface(&self, address: Ipv4Addr) -> String {
        let offset = self.allocations.range().offset_of(address).expect("allocations are inside their range");
        self.identity.interface(offset)
    }
}

/// A pod can send only from its own address (over IPv6 the packet filter sees to that), has no way to the machine over IPv6
/// where it has no such address, and is no router of this machine. Where the switches cannot be written (a read-only
/// /proc/sys) the pod still works.
fn restrict_link(name: &str, has_v6: bool) {
    let v6 = if has_v6 {
        [("disable_ipv6", "0"), ("accept_ra", "0")].as_slice()
    } else {
        &[("disable_ipv6", "1")]
    };
    let v6 = v6.iter().map(|(switch, value)| ("ipv6", *switch, *value));
    for (family, switch, value) in [("ipv4", "rp_filter", "1")].into_iter().chain(v6) {
        if let Err(error) = links::set_link_switch(family, name, switch, value) {
            tracing::debug!(link = name, switch, %error, "cannot set a switch of the link");
        }
    }
}

/// Locally administered, and different for each address of the range.
fn pod_hardware(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0xc0, a, b, c, d]
}

/// The kernel keeps up to 255 bytes; sandbox identifiers are shorter.
fn alias(id: &str) -> String {
    let mut alias = format!("{ALIAS_PREFIX}{id}");
    alias.truncate(255);
    alias
}
