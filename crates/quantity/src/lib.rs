//! Kubernetes' `resource.Quantity`: exact parse, compare, divide by a divisor, format.
//!
//! A quantity is a whole number of nano units in 128 bits; no floating point is used anywhere.
//! Reading and the canonical form follow upstream's `apimachinery/pkg/api/resource` to the letter, with one
//! exception: a number that does not fit (about 1.7e29 units) is refused instead of being kept in big decimals.

mod canonical;
mod parse;

use std::cmp::Ordering;

/// How many nano units make one.
pub(crate) const NANOS: i128 = 1_000_000_000;

/// The family of suffixes that a quantity was written with, which its canonical form keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `n`, `u`, `m`, none, `k`, `M`, `G`, `T`, `P`, `E`.
    DecimalSi,
    /// `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `Ei`.
    BinarySi,
    /// `e3`, `E-6`.
    DecimalExponent,
}

/// An amount of a resource.
///
/// Two quantities are equal when their amounts are, whatever their format; `Display` is the canonical form.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    pub(crate) nanos: i128,
    pub(crate) format: Format,
}

/// Why a text is no quantity; the first three are upstream's sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text is empty or has a character that no quantity has.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// The number in front of the suffix cannot be read.
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    /// The suffix is none of the known ones.
    #[error("unable to parse quantity's suffix")]
    Suffix,
    /// The amount does not fit into 128 bits of nano units.
    #[error("quantity is too large: its amount must be below 1.7e29")]
    TooLarge,
}

/// The unit in which a resource is counted before it is divided by a divisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceUnit {
    /// Thousandths: cpu.
    Milli,
    /// Whole ones: bytes of memory, storage and huge pages, and counts of anything else.
    One,
}

impl ResourceUnit {
    /// The unit of a resource by its name: `cpu`, `memory`, `hugepages-2Mi`.
    pub fn of(resource: &str) -> Self {
        if resource == "cpu" { Self::Milli } else { Self::One }
    }
}

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self { nanos: 0, format: Format::DecimalSi };

    /// Reads a quantity as it stands in a manifest, such as `500m` or `1.5Gi`.
    ///
    /// # Errors
    ///
    /// The text is no quantity, or one that does not fit.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        parse::parse(text)
    }

    /// A whole number of units.
    pub fn from_units(units: i64, format: Format) -> Self {
        Self { nanos: i128::from(units) * NANOS, format }
    }

    /// A whole number of thousandths.
    pub fn from_millis(millis: i64) -> Self {
        Self { nanos: i128::from(millis) * (NANOS / 1_000), format: Format::DecimalSi }
    }

    /// The suffix family that the canonical form uses.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Whether the amount is below zero.
    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether the amount is a whole number of units.
    pub fn is_whole(&self) -> bool {
        self.nanos % NANOS == 0
    }

    /// The amount in units, rounded away from zero (upstream: `Value`).
    pub fn units(&self) -> i128 {
        divide_away_from_zero(self.nanos, NANOS)
    }

    /// The amount in thousandths, rounded away from zero (upstream: `MilliValue`).
    pub fn millis(&self) -> i128 {
        divide_away_from_zero(self.nanos, NANOS / 1_000)
    }

    /// The sum, in the format of `self` unless that is zero; `None` if it does not fit.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let format = if self.is_zero() { other.format } else { self.format };
        Some(Self { nanos: self.nanos.checked_add(other.nanos)?, format })
    }

    /// The difference, in the format of `self` unless that is zero; `None` if it does not fit.
    pub fn checked_sub(&self, other: &Self) -> Option<Self> {
        self.checked_add(&Self { nanos: other.nanos.checked_neg()?, format: other.format })
    }

    /// How often `divisor` goes into the amount, rounded up: what `resourceFieldRef` gives.
    ///
    /// Both are counted in `unit` first. A divisor of zero means that none is set, which is one.
    pub fn ceil_divide(&self, divisor: &Self, unit: ResourceUnit) -> i128 {
        let divisor = if divisor.is_zero() { Self { nanos: NANOS, ..*divisor } } else { *divisor };
        let (amount, divisor) = match unit {
            ResourceUnit::Milli => (self.millis(), divisor.millis()),
            ResourceUnit::One => (self.units(), divisor.units()),
        };
        let quotient = amount / divisor;
        let is_rounded_down = amount % divisor != 0 && (amount < 0) == (divisor < 0);
        quotient + i128::from(is_rounded_down)
    }
}

fn divide_away_from_zero(amount: i128, divisor: i128) -> i128 {
    amount / divisor + (amount % divisor).signum()
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl std::hash::Hash for Quantity {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        canonical::write(self, formatter)
    }
}

#[cfg(test)]
mod tests;
