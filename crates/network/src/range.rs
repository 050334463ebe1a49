//! Address ranges of both families: parse, print, compare, and pick an address inside one.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// How many bits an address has.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The address that stands for all of the family: `0.0.0.0` or `::`.
    #[must_use]
    pub const fn unspecified(self) -> IpAddr {
        match self {
            Self::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Self::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    /// The lowest `bits` bits as an address.
    fn address(self, bits: u128) -> IpAddr {
        match self {
            // What is above 32 bits is cut off; there is nothing.
            Self::V4 => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
            Self::V6 => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        }
    }

    /// The bits that addresses of a range share, set.
    fn mask(self, prefix_length: u8) -> u128 {
        let free = u32::from(self.bits() - prefix_length.min(self.bits()));
        let all = u128::MAX >> (128 - u32::from(self.bits()));
        all & u128::MAX.checked_shl(free).unwrap_or(0)
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The bytes of an address as they stand in packets.
pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// A network in prefix notation, such as `10.131.32.0/20` or `fd3a:91c0:7e11:5::/64`. Host bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    network: IpAddr,
    prefix_length: u8,
}

/// Why a text is not an address range.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseRangeError {
    /// There is no `/LENGTH`, or the parts are not an address and a number up to the bits of one.
    #[error("`{0}` is not an address range; write it as ADDRESS/LENGTH, for example 10.131.32.0/20")]
    Malformed(String),
    /// Bits below the prefix are set.
    #[error("`{given}` has bits below its prefix; did you mean {meant}?")]
    HostBits {
        /// The text as it was given.
        given: String,
        /// The range with those bits cleared.
        meant: AddressRange,
    },
}

impl AddressRange {
    /// The range that holds `address` with a prefix of `prefix_length` bits (at most those of an address).
    #[must_use]
    pub fn around(address: impl Into<IpAddr>, prefix_length: u8) -> Self {
        let address = address.into();
        let family = Family::of(address);
        let prefix_length = prefix_length.min(family.bits());
        Self { network: family.address(bits(address) & family.mask(prefix_length)), prefix_length }
    }

    /// The family of its addresses.
    #[must_use]
    pub fn family(&self) -> Family {
        Family::of(self.network)
    }

    /// The lowest address.
    #[must_use]
    pub fn network(&self) -> IpAddr {
        self.network
    }

    /// The number of leading bits that all addresses share.
    #[must_use]
    pub fn prefix_length(&self) -> u8 {
        self.prefix_length
    }

    /// The bits that all addresses share, set, as they stand in packets.
    pub(crate) fn mask_octets(&self) -> Vec<u8> {
        octets(self.family().address(self.family().mask(self.prefix_length)))
    }

    /// How many addresses the range holds, as far as one can count.
    #[must_use]
    pub fn size(&self) -> u64 {
        1_u64.checked_shl(u32::from(self.family().bits() - self.prefix_length)).unwrap_or(u64::MAX)
    }

    /// The address `offset` places above the lowest, if that is inside.
    #[must_use]
    pub fn nth(&self, offset: u64) -> Option<IpAddr> {
        (offset < self.size()).then(|| self.family().address(bits(self.network) + u128::from(offset)))
    }

    /// The place of `address` in the range, if it is inside and one can count so far.
    #[must_use]
    pub fn offset_of(&self, address: impl Into<IpAddr>) -> Option<u64> {
        let address = address.into();
        self.contains(address).then(|| bits(address) - bits(self.network))?.try_into().ok()
    }

    /// Whether `address` is inside.
    #[must_use]
    pub fn contains(&self, address: impl Into<IpAddr>) -> bool {
        let address = address.into();
        Family::of(address) == self.family()
            && bits(address) & self.family().mask(self.prefix_length) == bits(self.network)
    }

    /// Whether the two ranges share an address.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.network) || other.contains(self.network)
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.network, self.prefix_length)
    }
}

impl FromStr for AddressRange {
    type Err = ParseRangeError;

    fn from_str(text: &str) -> Result<Self, ParseRangeError> {
        let malformed = || ParseRangeError::Malformed(text.to_owned());
        let (address, length) = text.split_once('/').ok_or_else(malformed)?;
        let address: IpAddr = address.parse().map_err(|_| malformed())?;
        let length: u8 = length.parse().map_err(|_| malformed())?;
        if length > Family::of(address).bits() {
            return Err(malformed());
        }
        let range = Self::around(address, length);
        if range.network != address {
            return Err(ParseRangeError::HostBits { given: text.to_owned(), meant: range });
        }
        Ok(range)
    }
}

impl TryFrom<String> for AddressRange {
    type Error = ParseRangeError;

    fn try_from(text: String) -> Result<Self, ParseRangeError> {
        text.parse()
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> String {
        range.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> AddressRange {
        text.parse().expect("a range")
    }

    #[test]
    fn a_range_is_read_and_printed() {
        for text in
            ["10.131.32.0/20", "0.0.0.0/0", "192.0.2.7/32", "fd3a:91c0:7e11:5::/64", "::/0", "::1/128"]
        {
            assert_eq!(range(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in
            ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/-1", "10.0.0.0/ 8", "fd00::/129", "fd00::"]
        {
            assert_eq!(text.parse::<AddressRange>(), Err(ParseRangeError::Malformed(text.into())), "{text}");
        }
        let refused = "10.0.0.1/8".parse::<AddressRange>().expect_err("host bits");
        assert_eq!(refused.to_string(), "`10.0.0.1/8` has bits below its prefix; did you mean 10.0.0.0/8?");
    }

    #[test]
    fn overlap_is_seen_both_ways() {
        for (one, other, overlap) in [
            ("10.0.0.0/8", "10.9.0.0/16", true),
            ("10.0.0.0/16", "10.1.0.0/16", false),
            ("0.0.0.0/0", "10.1.0.0/16", true),
            ("10.1.0.3/32", "10.1.0.2/31", true),
            ("fd00::/8", "fd12:3456::/64", true),
            ("fd12::/64", "fd12:0:0:1::/64", false),
            ("0.0.0.0/0", "::/0", false),
        ] {
            assert_eq!(range(one).overlaps(&range(other)), overlap, "{one} {other}");
            assert_eq!(range(other).overlaps(&range(one)), overlap, "{other} {one}");
        }
    }

    #[test]
    fn addresses_are_counted_from_the_lowest() {
        let twenty = range("10.131.32.0/20");
        assert_eq!(twenty.size(), 4096);
        assert_eq!(twenty.nth(1), Some(Ipv4Addr::new(10, 131, 32, 1).into()));
        assert_eq!(twenty.nth(4095), Some(Ipv4Addr::new(10, 131, 47, 255).into()));
        assert_eq!(twenty.nth(4096), None);
        assert_eq!(twenty.offset_of(Ipv4Addr::new(10, 131, 47, 255)), Some(4095));
        assert_eq!(twenty.offset_of(Ipv4Addr::new(10, 131, 48, 0)), None);
        let wide = range("fd3a:91c0:7e11:5::/64");
        assert_eq!(wide.size(), u64::MAX, "more than one can count");
        assert_eq!(wide.nth(4095), Some("fd3a:91c0:7e11:5::fff".parse().expect("an address")));
        assert_eq!(
            wide.offset_of("fd3a:91c0:7e11:5::fff".parse::<Ipv6Addr>().expect("an address")),
            Some(4095)
        );
        assert_eq!(range("::/0").offset_of("fd3a::1".parse::<Ipv6Addr>().expect("an address")), None);
        assert_eq!(range("fd00::/112").size(), 65_536);
        assert_eq!(range("10.0.0.0/8").mask_octets(), [255, 0, 0, 0]);
        assert_eq!(range("fd00::/12").mask_octets()[..3], [255, 240, 0]);
    }
}
