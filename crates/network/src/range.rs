//! IPv4 address ranges: parse, print, compare, and pick an address inside one.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An IPv4 network in prefix notation, such as `10.131.32.0/20`. Host bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange {
    network: Ipv4Addr,
    prefix_length: u8,
}

/// Why a text is not an address range.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseRangeError {
    /// There is no `/LENGTH`, or the parts are not an address and a number up to 32.
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
    /// The range that holds `address` with a prefix of `prefix_length` bits (at most 32).
    #[must_use]
    pub fn around(address: Ipv4Addr, prefix_length: u8) -> Self {
        let prefix_length = prefix_length.min(32);
        Self { network: Ipv4Addr::from(address.to_bits() & mask(prefix_length)), prefix_length }
    }

    /// The lowest address.
    #[must_use]
    pub fn network(&self) -> Ipv4Addr {
        self.network
    }

    /// The number of leading bits that all addresses share.
    #[must_use]
    pub fn prefix_length(&self) -> u8 {
        self.prefix_length
    }

    /// How many addresses the range holds.
    #[must_use]
    pub fn size(&self) -> u64 {
        1 << (32 - u32::from(self.prefix_length))
    }

    /// The address `offset` places above the lowest, if that is inside.
    #[must_use]
    pub fn nth(&self, offset: u64) -> Option<Ipv4Addr> {
        let offset = u32::try_from(offset).ok().filter(|_| offset < self.size())?;
        Some(Ipv4Addr::from(self.network.to_bits() + offset))
    }

    /// The place of `address` in the range, if it is inside.
    #[must_use]
    pub fn offset_of(&self, address: Ipv4Addr) -> Option<u64> {
        self.contains(address).then(|| u64::from(address.to_bits() - self.network.to_bits()))
    }

    /// Whether `address` is inside.
    #[must_use]
    pub fn contains(&self, address: Ipv4Addr) -> bool {
        address.to_bits() & mask(self.prefix_length) == self.network.to_bits()
    }

    /// Whether the two ranges share an address.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.network) || other.contains(self.network)
    }
}

fn mask(prefix_length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix_length)).unwrap_or(0)
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
        let address: Ipv4Addr = address.parse().map_err(|_| malformed())?;
        let length: u8 = length.parse().map_err(|_| malformed())?;
        if length > 32 {
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
        for text in ["10.131.32.0/20", "0.0.0.0/0", "192.0.2.7/32"] {
            assert_eq!(range(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "10.0.0.0/-1", "10.0.0.0/ 8"] {
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
        ] {
            assert_eq!(range(one).overlaps(&range(other)), overlap, "{one} {other}");
            assert_eq!(range(other).overlaps(&range(one)), overlap, "{other} {one}");
        }
    }

    #[test]
    fn addresses_are_counted_from_the_lowest() {
        let twenty = range("10.131.32.0/20");
        assert_eq!(twenty.size(), 4096);
        assert_eq!(twenty.nth(1), Some(Ipv4Addr::new(10, 131, 32, 1)));
        assert_eq!(twenty.nth(4095), Some(Ipv4Addr::new(10, 131, 47, 255)));
        assert_eq!(twenty.nth(4096), None);
        assert_eq!(twenty.offset_of(Ipv4Addr::new(10, 131, 47, 255)), Some(4095));
        assert_eq!(twenty.offset_of(Ipv4Addr::new(10, 131, 48, 0)), None);
    }
}
