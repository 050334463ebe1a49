//! A node's network when it starts: what the machine has, which range is the node's, and whom an earlier life left connected.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use super::connections::{Kernel, PodConnections};
use super::errors::{NetworkWarning, OpenNetworkError, chain};
use super::{ALIAS_PREFIX, FORWARDING, Ipv6Wish, NetworkConfig};
use crate::allocations::{Allocations, Loaded};
use crate::claims::{Claim, ClaimRangeError, Claims};
use crate::dual_stack::{self, NoIpv6};
use crate::identity::NodeIdentity;
use crate::links::{self, Link, Routing};
use crate::netlink::NetlinkError;
use crate::node_address;
use crate::packet_filter::PacketFilter;
use crate::range::{AddressRange, Family};
use crate::services::{LoopbackReach, RouterConfig, ServiceRouter, remove_services_of};

/// What the kernel had when the node started.
#[derive(Default)]
struct Found {
    links: Vec<Link>,
    routes: Vec<links::Route>,
    routes_v6: Vec<links::Route>,
}

impl PodConnections {
    /// The connections, and the router of services beside them.
    pub(super) fn open(config: NetworkConfig) -> Result<(Self, Arc<ServiceRouter>), OpenNetworkError> {
        check_families(&config)?;
        let unusable = |source| OpenNetworkError::DataDir { path: config.data_dir.clone(), source };
        let data_dir = fs::canonicalize(&config.data_dir).map_err(unusable)?;
        let directory = data_dir.join("network");
        fs::create_dir_all(&directory).map_err(unusable)?;
        let lock = lock(&directory)?;
        let file = directory.join("pods.json");
        let identity = NodeIdentity::of_data_dir(&data_dir);
        let mut warnings = Vec::new();

        let (mut routing, found) = match look_around() {
            Ok((routing, found)) => (Some(routing), found),
            Err(error) => {
                warnings.push(NetworkWarning::NoLinks { reason: chain(&error) });
                (None, Found::default())
            }
        };
        let claims = match Claims::here(&config.claims_dir) {
            Ok(claims) => Some(claims),
            Err(error) => {
                let reason = error.to_string();
                warnings.push(NetworkWarning::NoClaims { path: config.claims_dir.clone(), reason });
                None
            }
        };
        if let (Some(claims), Some(usable)) = (&claims, &mut routing) {
            for (range, data_dir) in claims.take_abandoned() {
                clear_abandoned(usable, range, &data_dir);
            }
        }
        let remembered = match Allocations::load(&file) {
            Loaded::Absent => None,
            Loaded::Present(allocations) => Some(allocations),
            Loaded::Quarantined { reason, moved_to } => {
                warnings.push(NetworkWarning::AllocationsDamaged { path: file.clone(), reason, moved_to });
                None
            }
        };
        let prefix = identity.interface_prefix();
        let own_links: Vec<&Link> =
            found.links.iter().filter(|link| link.name.starts_with(&prefix)).collect();
        let wish = Wish {
            configured: config.range,
            remembered: remembered.as_ref().map(Allocations::range),
            own_links: own_links.iter().map(|link| link.index).collect(),
        };
        let candidates = identity.candidate_ranges();
        let range = choose_range(candidates, Family::V4, &data_dir, claims.as_ref(), &found.routes, &wish)?;
        if let (Some(usable), Some(former)) =
            (&mut routing, wish.remembered.filter(|former| *former != range))
        {
            // What cannot be removed is a route to nowhere.
            let _ = usable.remove_held_range(former);
            let _ = node_address::give_up(usable, former);
        }
        let remembered_v6 = remembered.as_ref().and_then(Allocations::range_v6);
        let range_v6 = match has_v6(&config, &mut warnings) {
            false => None,
            true => {
                let configured = match config.ipv6 {
                    Ipv6Wish::In(range) => Some(range),
                    Ipv6Wish::WhereThereIs | Ipv6Wish::Never => None,
                };
                let wish = Wish { configured, remembered: remembered_v6, own_links: wish.own_links.clone() };
                let candidates = identity.candidate_ranges_v6();
                choose_range(candidates, Family::V6, &data_dir, claims.as_ref(), &found.routes_v6, &wish)
                    .inspect_err(|error| warnings.push(NetworkWarning::NoIpv6 { reason: chain(error) }))
                    .ok()
            }
        };
        for former in
            [claims.as_ref().and_then(|claims| claims.held_by(&data_dir, Family::V6)), remembered_v6]
        {
            if let Some(former) = former.filter(|former| range_v6 != Some(*former)) {
                give_up_v6(routing.as_mut(), former, claims.as_ref());
            }
        }
        let mut allocations =
            remembered.filter(|known| known.range() == range).unwrap_or_else(|| Allocations::new(range));
        for (link, id) in
            own_links.iter().filter_map(|link| Some((link, link.alias.as_ref()?.strip_prefix(ALIAS_PREFIX)?)))
        {
            let offset =
                link.name.strip_prefix(&prefix).and_then(|digits| u64::from_str_radix(digits, 16).ok());
            if let Some(IpAddr::V4(address)) = offset.and_then(|offset| range.nth(offset)) {
                let v6 = range_v6.and_then(|range| address_behind(link, range, &found.routes_v6));
                allocations.adopt(id, address, v6);
            }
        }
        allocations.set_range_v6(range_v6);
        allocations.save(&file)?;

        let mtu = config.mtu.unwrap_or_else(|| {
            let uplink = links::uplink(&found.routes);
            found.links.iter().find(|link| Some(link.index) == uplink).map_or(1500, |link| link.mtu)
        });
        let mut filter = None;
        if let Some(usable) = &mut routing {
            if let Err(error) = usable.apply(&[links::hold_range(range)]) {
                warnings.push(NetworkWarning::NoLinks { reason: chain(&error) });
                routing = None;
            } else {
                if let Err(error) = node_address::keep(usable, range) {
                    tracing::warn!(%error, "the node's address exists only while it has pods with a network of their own");
                }
                // An older version made links without a group.
                let _ = usable
                    .apply(&own_links.iter().map(|link| links::join_group(link.index)).collect::<Vec<_>>());
                if config.packet_filter {
                    match PacketFilter::install(&identity, &allocations, None, None) {
                        Ok(installed) => filter = Some(installed),
                        Err(error) => {
                            warnings.push(NetworkWarning::NoPacketFilter { reason: chain(&error) });
                        }
                    }
                } else {
                    let reason = "it is switched off".to_owned();
                    warnings.push(NetworkWarning::NoPacketFilter { reason });
                }
                warnings.extend(switch_forwarding_on(claims.as_ref()));
            }
        }
        if allocations.range_v6().is_some() {
            let opened = match (&mut routing, &mut filter) {
                (Some(routing), Some(filter)) => open_v6(routing, filter, &allocations, claims.as_ref(), mtu),
                // That has had its warning.
                (None, _) | (_, None) => Err(None),
            };
            if let Err(reason) = opened {
                warnings.extend(reason.map(|reason| NetworkWarning::NoIpv6 { reason }));
                allocations.range_v6().into_iter().for_each(|range| {
                    give_up_v6(routing.as_mut(), range, claims.as_ref());
                });
                allocations.set_range_v6(None);
                allocations.save(&file)?;
            }
        }
        let kernel = routing.map_or(Kernel::Unusable, |routing| Kernel::Usable { routing, filter });
        let loopback = LoopbackReach::default();
        let services = ServiceRouter::start(RouterConfig {
            identity: identity.clone(),
            pods: allocations.ranges(),
            has_filter: matches!(kernel, Kernel::Usable { filter: Some(_), .. }),
            has_links: matches!(kernel, Kernel::Usable { .. }),
            loopback: loopback.clone(),
        });
        let services = Arc::new(services.map_err(OpenNetworkError::Thread)?);
        let connections = Self {
            identity,
            file,
            allocations,
            claims,
            kernel,
            mtu,
            warnings,
            api: None,
            dns: None,
            services: Arc::clone(&services),
            loopback,
            _lock: lock,
        };
        Ok((connections, services))
    }
}

fn lock(directory: &Path) -> Result<fs::File, OpenNetworkError> {
    let path = directory.join("lock");
    let failed = |source| OpenNetworkError::DataDir { path: path.clone(), source };
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenNetworkError::InUse { path: directory.to_owned() }),
        Err(error) => Err(failed(error.into())),
    }
}

fn look_around() -> Result<(Routing, Found), NetlinkError> {
    let mut routing = Routing::here()?;
    let found = Found {
        links: routing.links()?,
        routes: routing.routes(Family::V4)?,
        // A kernel without IPv6 has none.
        routes_v6: routing.routes(Family::V6).unwrap_or_default(),
    };
    Ok((routing, found))
}

/// Removes what is left of a node whose data directory is gone: nobody else ever will. Its names follow from the path.
fn clear_abandoned(routing: &mut Routing, range: AddressRange, data_dir: &Path) {
    let identity = NodeIdentity::of_data_dir(data_dir);
    let prefix = identity.interface_prefix();
    let links = routing.links().unwrap_or_default();
    let outcomes = links
        .iter()
        .filter(|link| link.name.starts_with(&prefix))
        .map(|link| routing.remove_link(&link.name).map(drop))
        .collect::<Vec<_>>()
        .into_iter()
        .chain([
            PacketFilter::remove_tables_of(&identity),
            remove_services_of(routing, &identity),
            routing.remove_held_range(range),
            node_address::give_up(routing, range),
        ]);
    for error in outcomes.filter_map(Result::err) {
        tracing::debug!(data_dir = %data_dir.display(), %error, "something of an abandoned node could not be removed");
    }
    tracing::info!(data_dir = %data_dir.display(), "removed the network of a node whose data directory is gone");
}

/// What is known about the range before it is chosen.
struct Wish {
    configured: Option<AddressRange>,
    remembered: Option<AddressRange>,
    own_links: Vec<u32>,
}

/// The configured range, else the one that this node had, else the first free one that follows from the data directory.
fn choose_range(
    candidates: impl Iterator<Item = AddressRange>,
    family: Family,
    data_dir: &Path,
    claims: Option<&Claims>,
    routes: &[links::Route],
    wish: &Wish,
) -> Result<AddressRange, ClaimRangeError> {
    let claimed_before = claims.and_then(|claims| claims.held_by(data_dir, family));
    let try_range = |range: AddressRange| -> Result<(), ClaimRangeError> {
        // A hold of the same range is ours if we are known to have had it.
        // Whether another node has it by now is the claim's question below.
        let own = (claimed_before == Some(range) || wish.remembered == Some(range)).then_some(range);
        if let Some(route) = links::overlapping_route(routes, range, own, &wish.own_links) {
            return Err(ClaimRangeError::Taken {
                range,
                holder: format!("the route to {}", route.destination),
            });
        }
        match claims.map(|claims| claims.claim(range, data_dir)) {
            Some(Ok(Claim::Taken(holder))) => {
                Err(ClaimRangeError::Taken { range, holder: format!("the node in {}", holder.display()) })
            }
            // A claim that cannot be written has had its warning with the directory.
            Some(Ok(Claim::Ours) | Err(_)) | None => Ok(()),
        }
    };
    if let Some(range) = wish.configured {
        return try_range(range).map(|()| range);
    }
    claimed_before
        .into_iter()
        .chain(wish.remembered)
        .chain(candidates)
        .find(|range| try_range(*range).is_ok())
        .inspect(|range| {
            if let (Some(claims), Some(before)) = (claims, claimed_before)
                && before != *range
            {
                claims.release(before);
            }
        })
        .ok_or(ClaimRangeError::Exhausted)
}

fn switch_forwarding_on(claims: Option<&Claims>) -> Option<NetworkWarning> {
    let warning = |error: io::Error| NetworkWarning::NoForwarding {
        path: FORWARDING.into(),
        reason: error.to_string(),
    };
    match fs::read_to_string(FORWARDING) {
        Ok(text) if text.trim() == "1" => None,
        Ok(_) => match fs::write(FORWARDING, "1") {
            Ok(()) => {
                tracing::info!(
                    "switched {FORWARDING} on, which pods need to reach each other and what is beyond this machine"
                );
                if let Some(claims) = claims {
                    claims.remember_forwarding_was_off();
                }
                None
            }
            Err(error) => Some(warning(error)),
        },
        Err(error) => Some(warning(error)),
    }
}

fn check_families(config: &NetworkConfig) -> Result<(), OpenNetworkError> {
    let v6 = match config.ipv6 {
        Ipv6Wish::In(range) => Some((range, Family::V6, "IPv6")),
        Ipv6Wish::WhereThereIs | Ipv6Wish::Never => None,
    };
    let v4 = config.range.map(|range| (range, Family::V4, "IPv4"));
    match v4.into_iter().chain(v6).find(|(range, family, _)| range.family() != *family) {
        Some((range, _, wanted)) => Err(OpenNetworkError::WrongFamily(range, wanted)),
        None => Ok(()),
    }
}

/// Whether pods are to have IPv6. A machine without it lacks nothing; one that has it and does not forward it does.
fn has_v6(config: &NetworkConfig, warnings: &mut Vec<NetworkWarning>) -> bool {
    match config.ipv6 {
        Ipv6Wish::Never => return false,
        Ipv6Wish::WhereThereIs | Ipv6Wish::In(_) => {}
    }
    let Err(lack) = dual_stack::has_both_families() else { return true };
    let is_wished = matches!(config.ipv6, Ipv6Wish::In(_));
    match lack {
        NoIpv6::Unsupported | NoIpv6::Disabled { .. } | NoIpv6::NoAddress if !is_wished => {
            tracing::debug!("pods have IPv4 only: {lack}");
        }
        NoIpv6::Unsupported | NoIpv6::Disabled { .. } | NoIpv6::NoAddress | NoIpv6::NoForwarding { .. } => {
            warnings.push(NetworkWarning::NoIpv6 { reason: lack.to_string() });
        }
    }
    false
}

/// The address of IPv6 to which the kernel still has a route over that link.
fn address_behind(link: &Link, range: AddressRange, routes: &[links::Route]) -> Option<Ipv6Addr> {
    let route = routes.iter().find(|route| {
        route.ours && route.link == Some(link.index) && range.contains(route.destination.network())
    })?;
    match route.destination.network() {
        IpAddr::V6(address) => Some(address),
        IpAddr::V4(_) => None,
    }
}

/// Makes the machine ready for pods with IPv6; what it refuses is the answer.
fn open_v6(
    routing: &mut Routing,
    filter: &mut PacketFilter,
    allocations: &Allocations,
    claims: Option<&Claims>,
    mtu: u32,
) -> Result<(), Option<String>> {
    let Some(range) = allocations.range_v6() else { return Ok(()) };
    if mtu < dual_stack::SMALLEST_MTU {
        let smallest = dual_stack::SMALLEST_MTU;
        return Err(Some(format!("packets of {mtu} bytes are less than the {smallest} that IPv6 needs")));
    }
    let refused = |error: NetlinkError| Some(chain(&error));
    filter.install_v6(allocations, None).map_err(refused)?;
    routing.apply(&[links::hold_range(range)]).map_err(refused)?;
    node_address::keep(routing, range).map_err(refused)?;
    let forwarded = dual_stack::switch_forwarding_on()
        .map_err(|error| Some(format!("{} cannot be set: {error}", dual_stack::FORWARDING)))?;
    if let Some(forwarded) = forwarded {
        tracing::info!(
            links_that_still_hear_routers = ?forwarded.learning,
            "switched {} on, which pods need to reach each other over IPv6",
            dual_stack::FORWARDING
        );
        if let Some(claims) = claims {
            claims.remember_forwarded_v6(&forwarded);
        }
    }
    Ok(())
}

/// Takes away what there is for a range of IPv6 that is not used, or not any more.
fn give_up_v6(routing: Option<&mut Routing>, range: AddressRange, claims: Option<&Claims>) {
    if let Some(routing) = routing {
        // What cannot be removed leads nowhere.
        let _ = routing.remove_held_range(range);
        let _ = node_address::give_up(routing, range);
    }
    if let Some(claims) = claims {
        claims.release(range);
    }
}
