//! Families of addresses, and which of them a cluster has.

use std::net::IpAddr;

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpFamily {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpFamily {
    /// The name in services (`ipFamilies`) and slices (`addressType`).
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// The family of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> IpFamily {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The family of an address as text; none for text that is no address.
    #[must_use]
    pub fn of_text(address: &str) -> Option<IpFamily> {
        address.parse().ok().map(Self::of)
    }

    /// The family of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<IpFamily> {
        [Self::V4, Self::V6].into_iter().find(|family| family.name() == name)
    }

    /// The other family.
    #[must_use]
    pub fn other(self) -> IpFamily {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }
}

/// The families of a cluster's own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterFamilies {
    /// The family of a service that asks for none.
    pub first: IpFamily,
    /// Whether services may have addresses of the other family, too.
    pub has_both: bool,
}

impl Default for ClusterFamilies {
    fn default() -> Self {
        Self { first: IpFamily::V4, has_both: false }
    }
}

impl ClusterFamilies {
    /// Whether the cluster has addresses of a family.
    #[must_use]
    pub fn has(self, family: IpFamily) -> bool {
        self.has_both || family == self.first
    }
}
