//! Lengths of time as Go writes and reads them: `1h15m30.918s`, in whole nanoseconds.

/// The units that Go reads, in nanoseconds.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A length in nanoseconds as Go prints it.
pub(crate) fn format(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let length = nanoseconds.unsigned_abs();
    let text = match length {
        0 => "0s".to_owned(),
        1..1_000 => format!("{length}ns"),
        1_000..1_000_000 => format!("{}\u{b5}s", decimal(length, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", decimal(length, 1_000_000)),
        _ => {
            let (minutes, rest) = (length / 60_000_000_000, length % 60_000_000_000);
            let (hours, minutes) = (minutes / 60, minutes % 60);
            let seconds = decimal(rest, 1_000_000_000);
            match (hours, minutes) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    format!("{sign}{text}")
}

/// A quotient without zeros at its end.
fn decimal(length: u64, unit: u64) -> String {
    let digits = unit.ilog10() as usize;
    let (whole, rest) = (length / unit, length % unit);
    if rest == 0 {
        return whole.to_string();
    }
    format!("{whole}.{}", format!("{rest:0digits$}").trim_end_matches('0'))
}

/// The nanoseconds that a text names; `None` when it names none, or too many.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (digits, tail) = rest.split_at(number);
        let unit_length = tail.find(|character: char| character.is_ascii_digit() || character == '.');
        let (unit, tail) = tail.split_at(unit_length.unwrap_or(tail.len()));
        let (_, size) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(part(digits, size)?)?;
        rest = tail;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn part(digits: &str, size: i128) -> Option<i128> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || whole.len() > 19 {
        return None;
    }
    let mut nanoseconds = if whole.is_empty() { 0 } else { whole.parse::<i128>().ok()?.checked_mul(size)? };
    let mut scale = size;
    for digit in fraction.bytes() {
        // What is below a nanosecond is cut; longer fractions cost nothing.
        scale /= 10;
        nanoseconds += i128::from(digit - b'0') * scale;
    }
    Some(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::{format, parse};

    #[test]
    fn lengths_are_written_as_go_writes_them_and_read_back() {
        for (length, text) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1\u{b5}s"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (60_000_000_000, "1m0s"),
            (245_001_000_000, "4m5.001s"),
            (3_600_000_000_000, "1h0m0s"),
            (-90_000_000_000, "-1m30s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(format(length), text);
            assert_eq!(parse(text), Some(length), "{text}");
        }
    }

    #[test]
    fn what_is_no_length_is_refused() {
        assert_eq!(parse("+1.5h.5m"), Some(5_430_000_000_000));
        assert_eq!(parse("0"), Some(0));
        for text in
            ["", "-", "1", "s", "1x", "1.2.3s", "1s ", "9999999999999999999h", "2562048h", "\u{e9}s", ".s"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
