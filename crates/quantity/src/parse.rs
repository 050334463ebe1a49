//! Text to quantity: sign, digits, suffix, each with upstream's oddities.

use crate::{Format, NANOS, Quantity, QuantityError};

/// The longest run of digits that can matter; anything longer is out of range or below a nano.
const MOST_DIGITS: usize = 40;

/// What stands in a quantity's text.
struct Parts<'t> {
    is_negative: bool,
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

/// Reads a quantity.
pub(crate) fn parse(text: &str) -> Result<Quantity, QuantityError> {
    let parts = split(text)?;
    let (scale, format) = interpret_suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
    let mut nanos = match scale {
        Scale::Ten(exponent) => nanos_of_decimal(&parts, exponent)?,
        Scale::Two(exponent) => nanos_of_binary(&parts, exponent)?,
    };
    let mut format = format;
    if format == Format::BinarySi {
        // Upstream caps binary amounts at the largest 64-bit integer.
        nanos = nanos.min(i128::from(i64::MAX) * NANOS);
        if nanos > 0 && nanos < NANOS {
            format = Format::DecimalSi;
        }
    }
    Ok(Quantity { nanos: if parts.is_negative { -nanos } else { nanos }, format })
}

/// Cuts the text as upstream's scanner does: a missing number is zero, `1.` and `.5` are numbers.
fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let (is_negative, rest) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (whole, rest) = rest.split_at(digits(rest));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(behind_point) => behind_point.split_at(digits(behind_point)),
        None => ("", rest),
    };
    let letters = suffix.bytes().take_while(|byte| b"eEinumkKMGTP".contains(byte)).count();
    let exponent = suffix[letters..].strip_prefix(['+', '-']).unwrap_or(&suffix[letters..]);
    if digits(exponent) != exponent.len() {
        return Err(QuantityError::Format);
    }
    Ok(Parts { is_negative, whole: whole.trim_start_matches('0'), fraction, suffix })
}

/// What a suffix multiplies by.
enum Scale {
    Ten(i64),
    Two(u32),
}

fn interpret_suffix(suffix: &str) -> Option<(Scale, Format)> {
    let decimal = |exponent| Some((Scale::Ten(exponent), Format::DecimalSi));
    let binary = |exponent| Some((Scale::Two(exponent), Format::BinarySi));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i64>().ok()?;
            Some((Scale::Ten(exponent), Format::DecimalExponent))
        }
    }
}

/// `whole.fraction * 10^exponent` in nano units, rounded up.
fn nanos_of_decimal(parts: &Parts<'_>, exponent: i64) -> Result<i128, QuantityError> {
    // The number is `digits * 10^power` nano units.
    let fraction = parts.fraction.trim_end_matches('0');
    let is_zero = parts.whole.is_empty() && fraction.is_empty();
    if is_zero {
        return Ok(0);
    }
    let power = exponent.saturating_add(9).saturating_sub(fraction.len() as i64);
    let digits = parts.whole.len() + fraction.len();
    if power >= 0 {
        let factor = u32::try_from(power).ok().and_then(|power| 10_i128.checked_pow(power));
        let number = number_of(parts.whole, fraction)?;
        return factor.and_then(|factor| number.checked_mul(factor)).ok_or(QuantityError::TooLarge);
    }
    // The last `-power` digits lie below a nano: any of them that is not zero rounds up.
    let kept = digits.saturating_sub(usize::try_from(power.unsigned_abs()).unwrap_or(usize::MAX));
    let kept_whole = &parts.whole[..kept.min(parts.whole.len())];
    let kept_fraction = &fraction[..kept - kept_whole.len()];
    let dropped = parts.whole[kept_whole.len()..].bytes().chain(fraction[kept_fraction.len()..].bytes());
    let rounds_up = dropped.into_iter().any(|digit| digit != b'0');
    Ok(number_of(kept_whole, kept_fraction)? + i128::from(rounds_up))
}

/// `whole.fraction * 2^exponent` in nano units, rounded up.
fn nanos_of_binary(parts: &Parts<'_>, exponent: u32) -> Result<i128, QuantityError> {
    let factor = 1_i128 << exponent;
    let max = i128::from(i64::MAX) * NANOS;
    // Far more than the cap: whatever the fraction is, it does not matter.
    let Ok(whole) = number_of(parts.whole, "") else {
        return Ok(max);
    };
    let Some(whole) = whole.checked_mul(factor).and_then(|units| units.checked_mul(NANOS)) else {
        return Ok(max);
    };
    Ok(whole.saturating_add(nanos_of_binary_fraction(parts.fraction, factor)))
}

/// `0.fraction * factor` in nano units, rounded up, by long multiplication digit by digit.
fn nanos_of_binary_fraction(fraction: &str, factor: i128) -> i128 {
    // 0.d1d2d3 * f = (d1*f + (d2*f + (d3*f)/10)/10)/10. From the right, only whether something was lost below
    // the fixed point has to be remembered. 2^60 * 10^9 * 10 fits well into 128 bits.
    let mut sum = 0_i128;
    let mut is_inexact = false;
    for digit in fraction.bytes().rev() {
        sum += i128::from(digit - b'0') * factor * NANOS;
        is_inexact |= sum % 10 != 0;
        sum /= 10;
    }
    sum + i128::from(is_inexact)
}

fn number_of(whole: &str, fraction: &str) -> Result<i128, QuantityError> {
    if whole.len() + fraction.len() > MOST_DIGITS {
        return Err(QuantityError::TooLarge);
    }
    let mut number = 0_i128;
    for digit in whole.bytes().chain(fraction.bytes()) {
        number = number
            .checked_mul(10)
            .and_then(|number| number.checked_add(i128::from(digit - b'0')))
            .ok_or(QuantityError::TooLarge)?;
    }
    Ok(number)
}
