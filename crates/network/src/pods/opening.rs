//! A node's network when it starts: what the machine has, which range is the node's, and whom an earlier life left connected.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::connections::{Kernel, PodConnections};
use super::errors::{NetworkWarning, OpenNetworkError, chain};
use super::{ALIAS_PREFIX, FORWARDING, NetworkConfig};
use crate::allocations::{Allocations, Loaded};
use crate::claims::{Claim, ClaimRangeError, Claims};
use crate::identity::NodeIdentity;
use crate::links::{self, Link, Routing};
use crate::netlink::NetlinkError;
use crate::node_address;
use crate::packet_filter::PacketFilter;
use crate::range::AddressRange;
use crate::services::{LoopbackReach, RouterConfig, ServiceRouter, remove_services_of};

/// What the kernel had when the node started.
#[derive(Default)]
struct Found {
    links: Vec<Link>,
    routes: Vec<links::Route>,
}

impl PodConnections {
    /// The connections, and the router of services beside them.
    pub(super) fn open(config: NetworkConfig) -> Result<(Self, Arc<ServiceRouter>), OpenNetworkError> {
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
        let range = choose_range(&identity, &data_dir, claims.as_ref(), &found.routes, &wish)?;
        if let (Some(usable), Some(former)) =
            (&mut routing, wish.remembered.filter(|former| *former != range))
        {
            // What cannot be removed is a route to nowhere.
            let _ = usable.remove_held_range(former);
            let _ = node_address::give_up(usable, Allocations::new(former).node_address());
        }
        let mut allocations =
            remembered.filter(|known| known.range() == range).unwrap_or_else(|| Allocations::new(range));
        for (link, id) in
            own_links.iter().filter_map(|link| Some((link, link.alias.as_ref()?.strip_prefix(ALIAS_PREFIX)?)))
        {
            let offset =
                link.name.strip_prefix(&prefix).and_then(|digits| u64::from_str_radix(digits, 16).ok());
            if let Some(address) = offset.and_then(|offset| range.nth(offset)) {
                allocations.adopt(id, address);
            }
        }
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
                if let Err(error) = node_address::keep(usable, allocations.node_address()) {
                    tracing::warn!(%error, "the node's address exists only while it has pods with a network of their own");
                }
                // An older version made links without a group.
                let _ = usable
                    .apply(&own_links.iter().map(|link| links::join_group(link.index)).collect::<Vec<_>>());
                if config.packet_filter {
                    match PacketFilter::install(identity.table(), prefix, range, &allocations, None, None) {
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
        let kernel = routing.map_or(Kernel::Unusable, |routing| Kernel::Usable { routing, filter });
        let loopback = LoopbackReach::default();
        let services = ServiceRouter::start(RouterConfig {
            identity: identity.clone(),
            pods: range,
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
    let found = Found { links: routing.links()?, routes: routing.routes()? };
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
            PacketFilter::remove_table_of(&identity),
            remove_services_of(routing, &identity),
            routing.remove_held_range(range),
            node_address::give_up(routing, Allocations::new(range).node_address()),
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
    identity: &NodeIdentity,
    data_dir: &Path,
    claims: Option<&Claims>,
    routes: &[links::Route],
    wish: &Wish,
) -> Result<AddressRange, ClaimRangeError> {
    let claimed_before = claims.and_then(|claims| claims.held_by(data_dir));
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
        .chain(identity.candidate_ranges())
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
