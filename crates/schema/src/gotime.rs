//! Times as Go reads and writes them: RFC 3339 in, UTC out, Go's sentences for what is not a time.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// The layouts of Go's `time.RFC3339` and of `metav1.RFC3339Micro`, as they appear in messages.
const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROSECONDS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// What a time keeps of its fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Precision {
    Seconds,
    Microseconds,
}

/// The canonical text of a time.
///
/// # Errors
///
/// Go's sentence.
pub(crate) fn canonical(text: &str, precision: Precision) -> Result<String, String> {
    let timestamp = parse(text).map_err(|reason| {
        let layout = match precision {
            Precision::Seconds => SECONDS,
            Precision::Microseconds => MICROSECONDS,
        };
        match reason {
            Reason::Element { rest, element } => format!(
                "parsing time {} as {}: cannot parse {} as {}",
                crate::go_quote(text),
                crate::go_quote(layout),
                crate::go_quote(rest),
                crate::go_quote(element)
            ),
            Reason::Extra { rest } => {
                format!("parsing time {}: extra text: {}", crate::go_quote(text), crate::go_quote(rest))
            }
            Reason::Range { what } => format!("parsing time {}: {what} out of range", crate::go_quote(text)),
        }
    })?;
    let utc = Offset::UTC.to_datetime(timestamp);
    Ok(match precision {
        Precision::Seconds => utc.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        Precision::Microseconds => utc.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
    })
}

/// The point in time that a text names; `None` when it is none.
pub(crate) fn timestamp(text: &str) -> Option<Timestamp> {
    parse(text).ok()
}

enum Reason<'a> {
    Element { rest: &'a str, element: &'static str },
    Extra { rest: &'a str },
    Range { what: &'static str },
}

fn parse(text: &str) -> Result<Timestamp, Reason<'_>> {
    let mut rest = text;
    let year = digits(&mut rest, 4, "2006")?;
    literal(&mut rest, "-")?;
    let month = digits(&mut rest, 2, "01")?;
    if !(1..=12).contains(&month) {
        return Err(Reason::Range { what: "month" });
    }
    literal(&mut rest, "-")?;
    let day = digits(&mut rest, 2, "02")?;
    literal(&mut rest, "T")?;
    let hour = digits(&mut rest, 2, "15")?;
    if hour > 23 {
        return Err(Reason::Range { what: "hour" });
    }
    literal(&mut rest, ":")?;
    let minute = digits(&mut rest, 2, "04")?;
    if minute > 59 {
        return Err(Reason::Range { what: "minute" });
    }
    literal(&mut rest, ":")?;
    let second = digits(&mut rest, 2, "05")?;
    if second > 59 {
        return Err(Reason::Range { what: "second" });
    }
    let nanosecond = fraction(&mut rest);
    let offset = offset(&mut rest)?;
    if !rest.is_empty() {
        return Err(Reason::Extra { rest });
    }
    let small = |value: i32| i8::try_from(value).unwrap_or(i8::MAX);
    let civil = DateTime::new(
        i16::try_from(year).unwrap_or(i16::MAX),
        small(month),
        small(day),
        small(hour),
        small(minute),
        small(second),
        nanosecond,
    )
    .map_err(|_| Reason::Range { what: "day" })?;
    offset.to_timestamp(civil).map_err(|_| Reason::Range { what: "day" })
}

fn digits<'a>(rest: &mut &'a str, count: usize, element: &'static str) -> Result<i32, Reason<'a>> {
    let failed = Reason::Element { rest, element };
    let Some((head, tail)) = rest.split_at_checked(count) else { return Err(failed) };
    if !head.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(failed);
    }
    *rest = tail;
    head.parse().map_err(|_| failed)
}

fn literal<'a>(rest: &mut &'a str, element: &'static str) -> Result<(), Reason<'a>> {
    match rest.strip_prefix(element) {
        Some(tail) => {
            *rest = tail;
            Ok(())
        }
        None => Err(Reason::Element { rest, element }),
    }
}

/// A fraction of a second in nanoseconds; Go takes one wherever seconds stand.
fn fraction(rest: &mut &str) -> i32 {
    let Some(tail) = rest.strip_prefix(['.', ',']) else { return 0 };
    let length = tail.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 {
        return 0;
    }
    let (mut nanoseconds, mut scale) = (0, 100_000_000);
    for byte in tail[..length].bytes() {
        nanoseconds += i32::from(byte - b'0') * scale;
        scale /= 10;
    }
    *rest = &tail[length..];
    nanoseconds
}

fn offset<'a>(rest: &mut &'a str) -> Result<Offset, Reason<'a>> {
    let element = "Z07:00";
    if let Some(tail) = rest.strip_prefix('Z') {
        *rest = tail;
        return Ok(Offset::UTC);
    }
    let whole = *rest;
    let failed = || Reason::Element { rest: whole, element };
    let sign = match rest.chars().next() {
        Some('+') => 1,
        Some('-') => -1,
        _ => return Err(failed()),
    };
    *rest = &rest[1..];
    let hours = digits(rest, 2, element).map_err(|_| failed())?;
    literal(rest, ":").map_err(|_| failed())?;
    let minutes = digits(rest, 2, element).map_err(|_| failed())?;
    if hours > 24 || minutes > 59 {
        return Err(Reason::Range { what: "time zone offset" });
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60))
        .map_err(|_| Reason::Range { what: "time zone offset" })
}

#[cfg(test)]
mod tests {
    use super::{Precision, canonical};

    #[test]
    fn times_are_written_in_utc() {
        let cases = [
            ("2024-02-29T12:00:00Z", Precision::Seconds, "2024-02-29T12:00:00Z"),
            ("2024-02-29T12:00:00.999+02:00", Precision::Seconds, "2024-02-29T10:00:00Z"),
            ("2024-02-29T12:00:00.5Z", Precision::Microseconds, "2024-02-29T12:00:00.500000Z"),
        ];
        for (text, precision, want) in cases {
            assert_eq!(canonical(text, precision).as_deref(), Ok(want));
        }
    }

    #[test]
    fn mistakes_are_told_in_the_words_of_go() {
        let cases = [
            ("x", r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#),
            (
                "2024-01-02",
                r#"parsing time "2024-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
            ("2024-13-02T00:00:00Z", r#"parsing time "2024-13-02T00:00:00Z": month out of range"#),
            ("2023-02-29T00:00:00Z", r#"parsing time "2023-02-29T00:00:00Z": day out of range"#),
            ("2023-02-28T00:00:00Zx", r#"parsing time "2023-02-28T00:00:00Zx": extra text: "x""#),
            (
                "\u{e9}\u{e9}\u{e9}",
                "parsing time \"\u{e9}\u{e9}\u{e9}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\u{e9}\u{e9}\u{e9}\" as \"2006\"",
            ),
        ];
        for (text, want) in cases {
            assert_eq!(canonical(text, Precision::Seconds), Err(want.to_owned()));
        }
    }
}
