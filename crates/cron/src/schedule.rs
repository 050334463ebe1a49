//! What a schedule says.

use std::time::Duration;

use jiff::tz::TimeZone;
use schema::go_quote;

use crate::zone;

/// A field: its bounds and the names that its numbers have.
struct Field {
    low: u32,
    high: u32,
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Minute, hour, day of month, month, day of week.
const FIELDS: [Field; 5] = [
    Field { low: 0, high: 59, names: &[] },
    Field { low: 0, high: 23, names: &[] },
    Field { low: 1, high: 31, names: &[] },
    Field { low: 1, high: 12, names: &MONTHS },
    Field { low: 0, high: 6, names: &DAYS },
];

/// What the words stand for.
const WORDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A schedule that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    pub(crate) times: Times,
    /// The time zone that stands in the schedule itself (`TZ=NAME ...`).
    pub(crate) zone: Option<TimeZone>,
}

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// At the minutes that the fields choose.
    Fields(Box<Fields>),
    /// At even intervals, counted from the last time; whole seconds.
    Every(Duration),
}

/// The five fields.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Fields {
    pub(crate) minutes: Choice,
    pub(crate) hours: Choice,
    pub(crate) days: Choice,
    pub(crate) months: Choice,
    pub(crate) weekdays: Choice,
}

/// The numbers that a field chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Choice {
    /// A bit for each number.
    bits: u64,
    /// Whether the field leaves it open (`*` or `?`, without a step).
    pub(crate) is_open: bool,
}

impl Choice {
    /// Whether a number is chosen.
    pub(crate) fn has(self, number: i8) -> bool {
        u32::try_from(number).is_ok_and(|number| self.bits.checked_shr(number).unwrap_or(0) & 1 == 1)
    }
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in the words of Kubernetes.
    pub fn parse(schedule: &str) -> Result<Schedule, String> {
        if schedule.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let (mut rest, mut own) = (schedule, None);
        if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
            let (name, after) = schedule.split_once(' ').unwrap_or((schedule, ""));
            let name = name.split_once('=').map_or("", |(_, name)| name);
            let Some(known) = zone::zone(name) else {
                return Err(format!("provided bad location {name}: unknown time zone {name}"));
            };
            (rest, own) = (after.trim(), Some(known));
        }
        let times = if rest.starts_with('@') { word(rest)? } else { Times::Fields(Box::new(fields(rest)?)) };
        Ok(Schedule { times, zone: own })
    }
}

fn fields(text: &str) -> Result<Fields, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly {} fields, found {}: [{}]",
            FIELDS.len(),
            words.len(),
            words.join(" ")
        ));
    }
    let mut choices = [Choice::default(); 5];
    for ((text, field), choice) in words.iter().zip(&FIELDS).zip(&mut choices) {
        for range in text.split(',').filter(|range| !range.is_empty()) {
            let one = read_range(range, field)?;
            choice.bits |= one.bits;
            choice.is_open |= one.is_open;
        }
    }
    let [minutes, hours, days, months, weekdays] = choices;
    Ok(Fields { minutes, hours, days, months, weekdays })
}

fn word(text: &str) -> Result<Times, String> {
    if let Some((_, stands_for)) = WORDS.iter().find(|(word, _)| *word == text) {
        return fields(stands_for).map(|fields| Times::Fields(Box::new(fields)));
    }
    let Some(duration) = text.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    let nanoseconds =
        duration_of(duration).map_err(|problem| format!("failed to parse duration {text}: {problem}"))?;
    // Less than a second, or less than nothing, is a second.
    let seconds = u64::try_from(nanoseconds / 1_000_000_000).unwrap_or(0).max(1);
    Ok(Times::Every(Duration::from_secs(seconds)))
}

/// `number | number-number [/number]`, `*` or `?` for all.
fn read_range(range: &str, field: &Field) -> Result<Choice, String> {
    let parts: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let is_single = ends.len() == 1;
    let mut is_open = false;
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => {
            is_open = true;
            (field.low, field.high)
        }
        [one] => {
            let start = number_or_name(one, field)?;
            (start, start)
        }
        [one, two] => (number_or_name(one, field)?, number_or_name(two, field)?),
        _ => return Err(format!("too many hyphens: {range}")),
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            if is_single {
                // `N/step` runs to the end.
                end = field.high;
            }
            let step = number(step)?;
            is_open &= step <= 1;
            step
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    let (low, high) = (field.low, field.high);
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {range}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {range}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    let numbers = (start..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    let bits = numbers.fold(0, |bits, number| bits | 1_u64.checked_shl(number).unwrap_or(0));
    Ok(Choice { bits, is_open })
}

fn number_or_name(text: &str, field: &Field) -> Result<u32, String> {
    let named = field.names.iter().position(|name| text.eq_ignore_ascii_case(name));
    match named.and_then(|place| u32::try_from(place).ok()) {
        Some(place) => Ok(place + field.low),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    let is_number = {
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let fault = |why: &str| {
        let quoted = go_quote(text);
        Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {quoted}: {why}"))
    };
    if !is_number {
        return fault("invalid syntax");
    }
    match text.parse::<i64>() {
        Ok(number) if number < 0 => Err(format!("negative number ({number}) not allowed: {text}")),
        // What is above is far beyond any bound.
        Ok(number) => Ok(u32::try_from(number).unwrap_or(u32::MAX)),
        Err(_) => fault("value out of range"),
    }
}

/// A duration as Go reads it, in nanoseconds: `1h30m`, `1.5s`.
fn duration_of(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", go_quote(text));
    let is_negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0_i64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, after) = rest.split_at(digits);
        if !number.bytes().any(|byte| byte.is_ascii_digit()) || number.matches('.').count() > 1 {
            return Err(invalid());
        }
        let length = after.find(|next: char| next == '.' || next.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(length);
        let unit: i64 = match unit {
            "" => return Err(format!("time: missing unit in duration {}", go_quote(text))),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            other => {
                let (unit, whole) = (go_quote(other), go_quote(text));
                return Err(format!("time: unknown unit {unit} in duration {whole}"));
            }
        };
        total = amount(number, unit).and_then(|part| total.checked_add(part)).ok_or_else(invalid)?;
        rest = after;
    }
    Ok(if is_negative { -total } else { total })
}

/// So many units, with as much of a fraction as there are nanoseconds; none if that is too long.
fn amount(number: &str, unit: i64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mut total = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()?.checked_mul(unit)? };
    let mut rest = unit;
    for digit in fraction.bytes() {
        rest /= 10;
        total = total.checked_add(i64::from(digit - b'0') * rest)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Schedule, Times, duration_of};

    #[test]
    fn schedules_are_read_as_kubernetes_reads_them() {
        for schedule in [
            "* * * * *",
            "*/15 0-6,22 1 jan-mar MON,sun",
            "5/10 * ? * ?",
            "0 0 31 12 6",
            "@hourly",
            "@midnight",
            "@every 1h30m",
            "@every 1.5s",
            "TZ=UTC 0 0 * * *",
            "CRON_TZ=Europe/Berlin @daily",
            "  1  2\t3 4 5 ",
            ",1, * * * *",
        ] {
            assert!(Schedule::parse(schedule).is_ok(), "{schedule}");
        }
    }

    #[test]
    fn wrong_schedules_are_refused_in_the_words_of_kubernetes() {
        let table = [
            ("error", "expected exactly 5 fields, found 1: [error]"),
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("0 * * * * *", "expected exactly 5 fields, found 6: [0 * * * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("* * * foo *", "failed to parse int from foo: strconv.Atoi: parsing \"foo\": invalid syntax"),
            ("-1 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
            (
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of range",
            ),
            ("4294967297 * * * *", "end of range (4294967295) above maximum (59): 4294967297"),
            ("@never", "unrecognized descriptor: @never"),
            ("@every", "unrecognized descriptor: @every"),
            ("@every x", "failed to parse duration @every x: time: invalid duration \"x\""),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
            ("@every 5d", "failed to parse duration @every 5d: time: unknown unit \"d\" in duration \"5d\""),
            ("TZ=Mars/Base * * * * *", "provided bad location Mars/Base: unknown time zone Mars/Base"),
            ("TZ=UTC", "expected exactly 5 fields, found 0: []"),
        ];
        for (schedule, expected) in table {
            assert_eq!(Schedule::parse(schedule), Err(expected.to_owned()), "{schedule}");
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
            (".25m", 15_000_000_000),
            ("-2ms", -2_000_000),
            ("0", 0),
        ] {
            assert_eq!(duration_of(text), Ok(expected), "{text}");
        }
        assert!(duration_of("99999999999999999999h").is_err());
        let every = |text| Schedule::parse(text).map(|schedule| schedule.times);
        assert_eq!(every("@every 1.5s"), Ok(Times::Every(Duration::from_secs(1))));
        assert_eq!(every("@every -5m"), Ok(Times::Every(Duration::from_secs(1))));
    }
}
