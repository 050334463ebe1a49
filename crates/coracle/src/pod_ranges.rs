//! What `--pod-cidr` says: where the pods of a node have their addresses.

use std::path::Path;
use std::str::FromStr;

use network::{AddressRange, Family, Ipv6Wish, NetworkConfig};

/// The shortest and longest prefix of the range of IPv4: an address for each pod in it, and a name for the link of each.
const PREFIXES: std::ops::RangeInclusive<u8> = 12..=28;
/// The longest prefix of the range of IPv6, which has a place for each place of the other.
const LONGEST_V6: u8 = 108;

/// A range of IPv4, and one of IPv6 where pods are to have both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PodRanges {
    v4: AddressRange,
    v6: Option<AddressRange>,
}

impl PodRanges {
    /// Whether pods have IPv4 alone.
    pub(crate) fn is_v4_only(self) -> bool {
        self.v6.is_none()
    }

    /// The network of a node on `directory` with these ranges, or with the usual ones.
    pub(crate) fn network(wanted: Option<Self>, directory: &Path) -> NetworkConfig {
        let usual = NetworkConfig::new(directory);
        match wanted {
            None => usual,
            Some(ranges) => NetworkConfig {
                range: Some(ranges.v4),
                ipv6: ranges.v6.map_or(Ipv6Wish::Never, Ipv6Wish::In),
                ..usual
            },
        }
    }
}

impl FromStr for PodRanges {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ranges: Vec<AddressRange> = text
            .split(',')
            .map(|range| range.parse::<AddressRange>().map_err(|error| error.to_string()))
            .collect::<Result<_, _>>()?;
        let (v4, v6) = match ranges[..] {
            [one] if one.family() == Family::V4 => (one, None),
            [one, other] if one.family() == Family::V4 && other.family() == Family::V6 => (one, Some(other)),
            _ => {
                return Err("write a range of IPv4, or one of IPv4 and one of IPv6 with a comma between them, such as \
                            10.131.32.0/20,fd12:3456:789a:1::/64"
                    .to_owned());
            }
        };
        if !PREFIXES.contains(&v4.prefix_length()) {
            return Err("the range of IPv4 has a prefix of 12 to 28".to_owned());
        }
        if v6.is_some_and(|range| range.prefix_length() > LONGEST_V6) {
            return Err(format!("the range of IPv6 has a prefix of at most {LONGEST_V6}"));
        }
        Ok(Self { v4, v6 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_have_a_range_of_ipv4_and_perhaps_one_of_ipv6_behind_it() {
        for (text, v6) in [("10.131.32.0/20", None), ("10.0.0.0/12,fd12::/64", Some("fd12::/64"))] {
            let ranges: PodRanges = text.parse().expect("ranges");
            assert_eq!(ranges.v6.map(|range| range.to_string()).as_deref(), v6, "{text}");
            assert_eq!(ranges.is_v4_only(), v6.is_none());
            let config = PodRanges::network(Some(ranges), Path::new("/x"));
            assert_eq!(config.range, Some(ranges.v4));
            assert_eq!(config.ipv6 == Ipv6Wish::Never, v6.is_none(), "{text}");
        }
        assert_eq!(PodRanges::network(None, Path::new("/x")).ipv6, Ipv6Wish::WhereThereIs);
        for wrong in [
            "",
            "fd12::/64",
            "fd12::/64,10.0.0.0/16",
            "10.0.0.0/16,10.1.0.0/16",
            "10.0.0.0/16,fd12::/64,fd13::/64",
            "10.0.0.0/8",
            "10.0.0.0/29",
            "10.0.0.1/16",
            "10.0.0.0/16,fd12::/112",
        ] {
            assert!(wrong.parse::<PodRanges>().is_err(), "{wrong}");
        }
    }
}
