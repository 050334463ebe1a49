//! Whether pods and services of this machine have addresses of both families, and how it is made to forward IPv6.
//!
//! The decision ([`missing`]) is pure; [`has_both_families`] looks at the network namespace of the caller.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use crate::links::{LOOPBACK, Routing};
use crate::range::{AddressRange, Family};

/// Where the switches of IPv6 are. A kernel without IPv6 has no such directory.
const SWITCHES: &str = "/proc/sys/net/ipv6/conf";
/// Whether packets of IPv6 are forwarded.
pub(crate) const FORWARDING: &str = "/proc/sys/net/ipv6/conf/all/forwarding";

/// The smallest packet that every link of IPv6 has to carry, in bytes (RFC 8200, section 5).
pub(crate) const SMALLEST_MTU: u32 = 1280;

/// Why pods and services of a machine have IPv4 only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoIpv6 {
    /// The kernel was built or started without it.
    #[error("the kernel has no IPv6")]
    Unsupported,
    /// An administrator wants none.
    #[error("IPv6 is switched off ({path} is 1)")]
    Disabled {
        /// The switch.
        path: PathBuf,
    },
    /// No link has an address with which the machine could speak to others.
    #[error("no link of this machine has an IPv6 address that is more than link-local")]
    NoAddress,
    /// Packets are not forwarded, and that cannot be changed.
    #[error("{path} is 0 and cannot be set ({reason}); set it to 1")]
    NoForwarding {
        /// The switch.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
}

/// What decides whether a machine has IPv6 for pods.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ipv6Facts {
    supported: bool,
    disabled: bool,
    /// Those in use, of all links but loopback.
    addresses: Vec<Ipv6Addr>,
    /// Why packets are not forwarded and will not be.
    no_forwarding: Option<String>,
}

/// What a machine lacks for IPv6 beside IPv4. Pure.
fn missing(facts: &Ipv6Facts) -> Option<NoIpv6> {
    if !facts.supported {
        return Some(NoIpv6::Unsupported);
    }
    if facts.disabled {
        return Some(NoIpv6::Disabled { path: Path::new(SWITCHES).join("all/disable_ipv6") });
    }
    if !facts.addresses.iter().any(|address| is_more_than_local(*address)) {
        return Some(NoIpv6::NoAddress);
    }
    let reason = facts.no_forwarding.clone()?;
    Some(NoIpv6::NoForwarding { path: FORWARDING.into(), reason })
}

/// A global or unique-local address: others can answer to it.
fn is_more_than_local(address: Ipv6Addr) -> bool {
    let special = address.is_unspecified()
        || address.is_loopback()
        || address.is_unicast_link_local()
        || address.is_multicast()
        || address.to_ipv4_mapped().is_some();
    !special
}

/// Whether pods and services of this machine can have IPv6 beside IPv4, in the network namespace of the caller: what a node
/// and the ranges of an API server decide by. Changes nothing.
///
/// # Errors
///
/// What is missing.
pub fn has_both_families() -> Result<(), NoIpv6> {
    let supported = Path::new(SWITCHES).is_dir();
    let addresses = if supported { addresses() } else { Vec::new() };
    let facts = Ipv6Facts {
        supported,
        disabled: is_on(&Path::new(SWITCHES).join("all/disable_ipv6")),
        addresses,
        no_forwarding: no_forwarding(),
    };
    missing(&facts).map_or(Ok(()), Err)
}

fn addresses() -> Vec<Ipv6Addr> {
    let all = Routing::here().and_then(|mut routing| routing.addresses_v6()).unwrap_or_default();
    all.into_iter().filter(|(link, _)| *link != LOOPBACK).map(|(_, address)| address).collect()
}

fn is_on(switch: &Path) -> bool {
    fs::read_to_string(switch).is_ok_and(|text| text.trim() == "1")
}

fn no_forwarding() -> Option<String> {
    if is_on(Path::new(FORWARDING)) {
        return None;
    }
    // Opened for writing, and nothing is written.
    fs::OpenOptions::new().write(true).open(FORWARDING).err().map(|error| error.to_string())
}

/// What was changed to forward IPv6.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forwarded {
    /// Links that learn their router from what it says, and were told to go on with that.
    pub(crate) learning: Vec<String>,
}

/// Switches forwarding on; `None` when it was on before.
///
/// A machine that forwards takes itself for a router, and forgets the routers that it has heard of; unless a link says
/// that it wants to hear them all the same (`accept_ra` 2 instead of 1). So that comes first.
pub(crate) fn switch_forwarding_on() -> io::Result<Option<Forwarded>> {
    if is_on(Path::new(FORWARDING)) {
        return Ok(None);
    }
    let learning = links_that_learn(&switches_of_links("accept_ra")?);
    for link in &learning {
        fs::write(switch(link, "accept_ra"), "2")?;
    }
    fs::write(FORWARDING, "1")?;
    Ok(Some(Forwarded { learning }))
}

/// Takes back what [`switch_forwarding_on`] did.
pub(crate) fn switch_forwarding_off(forwarded: &Forwarded) {
    // What cannot be written is gone, or as somebody else wants it.
    let _ = fs::write(FORWARDING, "0");
    for link in &forwarded.learning {
        let path = switch(link, "accept_ra");
        if fs::read_to_string(&path).is_ok_and(|text| text.trim() == "2") {
            let _ = fs::write(path, "1");
        }
    }
}

fn switch(link: &str, name: &str) -> PathBuf {
    Path::new(SWITCHES).join(link).join(name)
}

/// A switch of every link, by the link's name.
fn switches_of_links(name: &str) -> io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(SWITCHES)? {
        let link = entry?.file_name().to_string_lossy().into_owned();
        // A link may go at any time.
        if let Ok(value) = fs::read_to_string(switch(&link, name)) {
            found.push((link, value.trim().to_owned()));
        }
    }
    found.sort();
    Ok(found)
}

/// The links that would forget their routers: those that listen to them as hosts do. Pure.
fn links_that_learn(switches: &[(String, String)]) -> Vec<String> {
    switches
        .iter()
        // These two are no links, but what all links have and what new ones get.
        .filter(|(link, value)| value == "1" && !["all", "default", "lo"].contains(&link.as_str()))
        .map(|(link, _)| link.clone())
        .collect()
}

/// Lets the namespace of the calling thread have IPv6, where it was made without.
pub(crate) fn allow_in_this_namespace() {
    if !is_on(&Path::new(SWITCHES).join("default/disable_ipv6")) {
        return;
    }
    if let Err(error) = fs::write(Path::new(SWITCHES).join("all/disable_ipv6"), "0") {
        tracing::debug!(%error, "IPv6 cannot be switched on in the pod");
    }
}

/// Addresses at which nobody but the machine itself may ask: link-local ones, where clouds keep their secrets, and those at
/// which they answer over IPv6 as they do at 169.254.169.254. `fd00:ec2::/32` is Amazon's, `fd20:ce::/32` Google's.
///
/// Source: <https://docs.aws.amazon.com/whitepapers/latest/ipv6-on-aws/supporting-amazon-vpc-services.html>.
pub(crate) fn closed_to_pods(family: Family) -> Vec<AddressRange> {
    let v6 = |a, b, length| AddressRange::around(IpAddr::from([a, b, 0, 0, 0, 0, 0, 0_u16]), length);
    match family {
        Family::V4 => vec![AddressRange::around(Ipv4Addr::new(169, 254, 0, 0), 16)],
        Family::V6 => vec![v6(0xfe80, 0, 10), v6(0xfd00, 0x0ec2, 32), v6(0xfd20, 0x00ce, 32)],
    }
}

/// Whether pods may not reach an address over whatever way, because it is where clouds tell machines their secrets.
#[must_use]
pub fn is_closed_to_pods(address: IpAddr) -> bool {
    closed_to_pods(Family::of(address)).iter().any(|range| range.contains(address))
}

#[cfg(test)]
mod tests;
