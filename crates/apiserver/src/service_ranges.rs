//! The addresses that services may have: one range, or one of each family. The first range's family is the cluster's first.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use admission::{ClusterFamilies, IpFamily};

/// Longest and shortest prefix of a range, by family: what is taken is a bit for each address.
const V4_PREFIXES: (u8, u8) = (12, 28);
const V6_PREFIXES: (u8, u8) = (108, 124);

/// Addresses of one family for services, such as `10.43.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    first: IpAddr,
    prefix: u8,
}

/// All addresses for services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRanges {
    primary: ServiceRange,
    /// Of the other family.
    secondary: Option<ServiceRange>,
}

/// Text that is no range for services, or no pair of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceRangeError {
    /// A part of it is no range.
    #[error(
        "{text:?} is no range of service addresses: write an IPv4 network with a prefix of 12 to 28, such as 10.43.0.0/16, \
         an IPv6 network with a prefix of 108 to 124, such as fd00:10:43::/112, or one of each with a comma between them"
    )]
    Malformed {
        /// The part.
        text: String,
    },
    /// Addresses that no packet finds, or that mean the machine itself.
    #[error(
        "services cannot have addresses of {text}: choose private ones, such as 10.43.0.0/16 or fd00:10:43::/112"
    )]
    Unusable {
        /// The range.
        text: String,
    },
    /// Both ranges have the same family, or there are more than two.
    #[error("{text:?} is more than one range of a family: there may be one of IPv4 and one of IPv6")]
    SameFamily {
        /// The whole text.
        text: String,
    },
}

impl FromStr for ServiceRange {
    type Err = ServiceRangeError;

    fn from_str(text: &str) -> Result<ServiceRange, ServiceRangeError> {
        let error = || ServiceRangeError::Malformed { text: text.to_owned() };
        let (address, prefix) = text.split_once('/').ok_or_else(error)?;
        let address: IpAddr = address.parse().map_err(|_| error())?;
        let (shortest, longest) = match address {
            IpAddr::V4(_) => V4_PREFIXES,
            IpAddr::V6(_) => V6_PREFIXES,
        };
        let prefix: u8 = prefix.parse().map_err(|_| error())?;
        if !(shortest..=longest).contains(&prefix) {
            return Err(error());
        }
        let first = match address {
            IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) & (u32::MAX << (32 - prefix))).into(),
            IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & (u128::MAX << (128 - prefix))).into(),
        };
        if !is_usable(first) {
            return Err(ServiceRangeError::Unusable { text: text.to_owned() });
        }
        Ok(ServiceRange { first, prefix })
    }
}

/// Whether the network that begins with an address is one whose addresses can be given to services.
fn is_usable(first: IpAddr) -> bool {
    match first {
        IpAddr::V4(first) => {
            let [top, ..] = first.octets();
            top != 0 && top != 127 && top < 224 && !first.is_link_local()
        }
        // Without `::/96` (unspecified, loopback) and IPv4 in IPv6.
        IpAddr::V6(first) => {
            !first.is_unicast_link_local() && !first.is_multicast() && first.to_ipv4().is_none()
        }
    }
}

impl fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix)
    }
}

impl ServiceRange {
    /// The family of its addresses.
    pub fn family(self) -> IpFamily {
        IpFamily::of(self.first)
    }

    /// The lowest address, which no service has.
    pub fn network(self) -> IpAddr {
        self.first
    }

    /// The number of leading bits that all addresses share.
    pub fn prefix_length(self) -> u8 {
        self.prefix
    }

    /// How many addresses there are, whoever may have them.
    pub(crate) fn size(self) -> u32 {
        let bits = if self.first.is_ipv4() { 32 } else { 128 };
        1 << (bits - self.prefix)
    }

    /// One more than the last place that a service can have: the last address of an IPv4 network is for all of it.
    pub(crate) fn end(self) -> u32 {
        match self.family() {
            IpFamily::V4 => self.size() - 1,
            IpFamily::V6 => self.size(),
        }
    }

    /// The address at a place; the range has more than `place` addresses.
    pub(crate) fn at(self, place: u32) -> IpAddr {
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first) + place).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first) + u128::from(place)).into(),
        }
    }

    /// The place of an address that a service may have.
    pub(crate) fn place(self, address: IpAddr) -> Option<u32> {
        let place = match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => u32::from(address).checked_sub(u32::from(first)),
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                u128::from(address).checked_sub(u128::from(first)).and_then(|place| u32::try_from(place).ok())
            }
            _ => None,
        };
        place.filter(|place| (1..self.end()).contains(place))
    }

    /// How many of the lowest addresses are left to those who ask for one by name, as long as there are others
    /// (<https://kubernetes.io/docs/concepts/services-networking/cluster-ip-allocation/>).
    pub(crate) fn asked_by_name(self) -> u32 {
        (self.size() / 16).clamp(16, 256).min(self.size() - 3)
    }
}

impl FromStr for ServiceRanges {
    type Err = ServiceRangeError;

    fn from_str(text: &str) -> Result<ServiceRanges, ServiceRangeError> {
        let ranges =
            text.split(',').map(|part| part.trim().parse()).collect::<Result<Vec<ServiceRange>, _>>()?;
        match *ranges.as_slice() {
            [primary] => Ok(ServiceRanges { primary, secondary: None }),
            [primary, other] if primary.family() != other.family() => {
                Ok(ServiceRanges { primary, secondary: Some(other) })
            }
            _ => Err(ServiceRangeError::SameFamily { text: text.to_owned() }),
        }
    }
}

impl Default for ServiceRanges {
    fn default() -> Self {
        ServiceRanges::usual(false)
    }
}

impl fmt::Display for ServiceRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.all().map(|range| range.to_string()).collect();
        f.write_str(&texts.join(","))
    }
}

impl ServiceRanges {
    /// What services have when nobody says otherwise: `10.43.0.0/16`, and `fd00:10:43::/112` where the machine has both families.
    pub fn usual(has_both: bool) -> ServiceRanges {
        let primary = ServiceRange { first: Ipv4Addr::new(10, 43, 0, 0).into(), prefix: 16 };
        let other =
            ServiceRange { first: Ipv6Addr::new(0xfd00, 0x10, 0x43, 0, 0, 0, 0, 0).into(), prefix: 112 };
        ServiceRanges { primary, secondary: has_both.then_some(other) }
    }

    /// The ranges, the cluster's first one first.
    pub fn all(self) -> impl Iterator<Item = ServiceRange> {
        [Some(self.primary), self.secondary].into_iter().flatten()
    }

    /// The range of a family.
    pub fn of(self, family: IpFamily) -> Option<ServiceRange> {
        self.all().find(|range| range.family() == family)
    }

    /// The families that services may have.
    pub fn families(self) -> ClusterFamilies {
        ClusterFamilies { first: self.primary.family(), has_both: self.secondary.is_some() }
    }

    /// The address of the service `default/kubernetes`: the first of the IPv4 range, because pods reach the API over IPv4; of
    /// the IPv6 range where there is no other.
    pub fn kubernetes(self) -> IpAddr {
        self.of(IpFamily::V4).unwrap_or(self.primary).at(1)
    }

    /// The usual address of the cluster's DNS: the tenth of the IPv4 range; none without one.
    pub fn dns(self) -> Option<Ipv4Addr> {
        match self.of(IpFamily::V4)?.at(10) {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ServiceRange, ServiceRangeError, ServiceRanges};

    #[test]
    fn one_range_or_one_of_each_family_in_either_order() {
        for (text, shown, kubernetes, dns) in [
            ("10.43.0.0/16", "10.43.0.0/16", "10.43.0.1", Some("10.43.0.10")),
            ("10.43.7.9/24", "10.43.7.0/24", "10.43.7.1", Some("10.43.7.10")),
            ("fd00:1::ffff/112", "fd00:1::/112", "fd00:1::1", None),
            ("10.43.0.0/16,fd00:1::/112", "10.43.0.0/16,fd00:1::/112", "10.43.0.1", Some("10.43.0.10")),
            ("fd00:1::/112, 10.9.0.0/24", "fd00:1::/112,10.9.0.0/24", "10.9.0.1", Some("10.9.0.10")),
        ] {
            let ranges: ServiceRanges = text.parse().expect(text);
            assert_eq!(ranges.to_string(), shown);
            assert_eq!(ranges.kubernetes().to_string(), kubernetes, "{text}");
            assert_eq!(ranges.dns().map(|address| address.to_string()).as_deref(), dns, "{text}");
            assert_eq!(ranges.families().has_both, text.contains(','));
        }
        assert_eq!(ServiceRanges::usual(true).to_string(), "10.43.0.0/16,fd00:10:43::/112");
        assert_eq!(ServiceRanges::default().to_string(), "10.43.0.0/16");
    }

    #[test]
    fn what_is_no_range_is_told_with_what_would_be_one() {
        for wrong in [
            "",
            "10.43.0.0",
            "10.43.0.0/11",
            "10.43.0.0/29",
            "fd00::/107",
            "fd00::/125",
            "fd00::/64",
            "x/16",
            "10.43.0.0/16,",
        ] {
            let error = wrong.parse::<ServiceRanges>().expect_err(wrong);
            let told = error.to_string();
            assert!(told.contains("12 to 28") && told.contains("108 to 124"), "{wrong}: {told}");
        }
        for wrong in [
            "127.0.0.0/16",
            "0.0.0.0/12",
            "224.0.0.0/24",
            "169.254.0.0/16",
            "::/112",
            "ff02::/112",
            "fe80::/112",
            "::ffff:0:0/112",
        ] {
            let error = wrong.parse::<ServiceRanges>().expect_err(wrong);
            assert_eq!(error, ServiceRangeError::Unusable { text: wrong.to_owned() });
        }
        for wrong in
            ["10.43.0.0/16,10.44.0.0/16", "fd00::/112,fd01::/112", "10.43.0.0/16,fd00::/112,10.44.0.0/16"]
        {
            let error = wrong.parse::<ServiceRanges>().expect_err(wrong);
            assert!(error.to_string().contains("more than one range of a family"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_place_is_that_of_an_address_that_a_service_may_have() {
        let range = |text: &str| text.parse::<ServiceRange>().expect(text);
        for (text, address, expected) in [
            ("10.9.0.0/28", "10.9.0.0", None),
            ("10.9.0.0/28", "10.9.0.1", Some(1)),
            ("10.9.0.0/28", "10.9.0.14", Some(14)),
            ("10.9.0.0/28", "10.9.0.15", None),
            ("10.9.0.0/28", "10.8.255.255", None),
            ("10.9.0.0/28", "fd00::1", None),
            ("fd00::/124", "fd00::", None),
            ("fd00::/124", "fd00::f", Some(15)),
            ("fd00::/124", "fd00::10", None),
            ("fd00::/124", "fcff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", None),
            ("fd00::/124", "fd00::1:0:0:0", None),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(range(text).place(address), expected, "{address} in {text}");
            if let Some(place) = expected {
                assert_eq!(range(text).at(place), address);
            }
        }
    }
}
