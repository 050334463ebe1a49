//! Quantity to its canonical text: no fraction, the largest suffix that loses nothing.

use std::fmt::{Formatter, Result};

use crate::{Format, NANOS, Quantity};

const DECIMAL: [(i32, &str); 10] =
    [(18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k"), (0, ""), (-3, "m"), (-6, "u"), (-9, "n")];

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// Writes the canonical form.
pub(crate) fn write(quantity: &Quantity, formatter: &mut Formatter<'_>) -> Result {
    if quantity.is_zero() {
        return formatter.pad("0");
    }
    match quantity.format {
        // Below 1024 and where a binary suffix would lose something, the decimal form is the clear one.
        Format::BinarySi if quantity.is_whole() && quantity.nanos.abs() >= 1024 * NANOS => {
            formatter.pad(&binary(quantity.nanos / NANOS))
        }
        Format::BinarySi | Format::DecimalSi => formatter.pad(&decimal(quantity.nanos, Format::DecimalSi)),
        Format::DecimalExponent => formatter.pad(&decimal(quantity.nanos, Format::DecimalExponent)),
    }
}

fn binary(mut units: i128) -> String {
    let mut suffix = 0;
    while units % 1024 == 0 && suffix + 1 < BINARY.len() {
        units /= 1024;
        suffix += 1;
    }
    format!("{units}{}", BINARY[suffix])
}

fn decimal(nanos: i128, format: Format) -> String {
    let mut number = nanos;
    let mut exponent = -9;
    // The decimal suffixes end at E (10^18); the exponent form goes as far as 128 bits do.
    let largest = match format {
        Format::DecimalExponent => i32::MAX,
        Format::DecimalSi | Format::BinarySi => DECIMAL[0].0,
    };
    while number % 1000 == 0 && exponent < largest {
        number /= 1000;
        exponent += 3;
    }
    match format {
        Format::DecimalExponent if exponent == 0 => number.to_string(),
        Format::DecimalExponent => format!("{number}e{exponent}"),
        Format::DecimalSi | Format::BinarySi => {
            let suffix =
                DECIMAL.iter().find(|(power, _)| *power == exponent).map_or("", |(_, suffix)| suffix);
            format!("{number}{suffix}")
        }
    }
}
