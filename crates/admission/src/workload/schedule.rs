//! Schedules of CronJobs: the five fields of cron, and the words that stand for them.
//!
//! Grammar and sentences are those of the parser that Kubernetes uses (`robfig/cron`, version 3, standard form).

use super::time_zone;

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

const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Checks a schedule; the error says what is wrong.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let (zone, after) = schedule.split_once(' ').unwrap_or((schedule, ""));
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        if !time_zone::is_known(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return word(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly {} fields, found {}: [{}]",
            FIELDS.len(),
            fields.len(),
            fields.join(" ")
        ));
    }
    for (text, field) in fields.iter().zip(&FIELDS) {
        for range in text.split(',').filter(|range| !range.is_empty()) {
            check_range(range, field)?;
        }
    }
    Ok(())
}

fn word(text: &str) -> Result<(), String> {
    if WORDS.contains(&text) {
        return Ok(());
    }
    let Some(duration) = text.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    check_duration(duration).map_err(|problem| format!("failed to parse duration {text}: {problem}"))
}

/// `number | number-number [/number]`, `*` or `?` for all.
fn check_range(range: &str, field: &Field) -> Result<(), String> {
    let parts: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let is_single = ends.len() == 1;
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (field.low, field.high),
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
            number(step)?
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
    Ok(())
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
        let quoted = schema::go_quote(text);
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

/// A duration as Go reads it: `1h30m`, `1.5s`.
fn check_duration(text: &str) -> Result<(), String> {
    let invalid = || format!("time: invalid duration {}", schema::go_quote(text));
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, after) = rest.split_at(digits);
        if !number.bytes().any(|byte| byte.is_ascii_digit()) || number.matches('.').count() > 1 {
            return Err(invalid());
        }
        let length = after.find(|next: char| next == '.' || next.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(length);
        match unit {
            "" => return Err(format!("time: missing unit in duration {}", schema::go_quote(text))),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => {}
            other => {
                let (unit, whole) = (schema::go_quote(other), schema::go_quote(text));
                return Err(format!("time: unknown unit {unit} in duration {whole}"));
            }
        }
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

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
            assert_eq!(check(schedule), Ok(()), "{schedule}");
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
            assert_eq!(check(schedule), Err(expected.to_owned()), "{schedule}");
        }
    }
}
