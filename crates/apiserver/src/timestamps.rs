//! Times as the API writes them, and ages as kubectl prints them.

use jiff::Timestamp;

/// Now, to the second.
pub(crate) fn now_text() -> String {
    second_text(Timestamp::now())
}

/// `2026-01-02T03:04:05Z`.
pub(crate) fn second_text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A moment `seconds` after `time`, held inside what can be expressed.
pub(crate) fn seconds_after(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

/// How long ago a time of the API was, in kubectl's words.
pub(crate) fn age(text: Option<&str>, now: Timestamp) -> String {
    match text.and_then(|text| text.parse::<Timestamp>().ok()) {
        Some(time) => human_duration(now.as_second() - time.as_second()),
        None => "<unknown>".to_owned(),
    }
}

/// Seconds in kubectl's words: `5s`, `2m3s`, `4h`, `3d5h`.
pub(crate) fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 3600;
    const DAY: i64 = 86_400;
    const YEAR: i64 = 365 * DAY;
    let pair = |large: i64, large_unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{large}{large_unit}")
        } else {
            format!("{large}{large_unit}{small}{small_unit}")
        }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(seconds / MINUTE, "m", seconds % MINUTE, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(seconds / HOUR, "h", seconds % HOUR / MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(seconds / DAY, "d", seconds % DAY / HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => pair(seconds / YEAR, "y", seconds % YEAR / DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::human_duration;

    #[test]
    fn ages_are_written_as_kubectl_writes_them() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (10_860, "3h1m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (176_400, "2d1h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (63_158_400, "2y1d"),
            (-5, "<invalid>"),
        ];
        for (seconds, expected) in table {
            assert_eq!(human_duration(seconds), expected, "{seconds}");
        }
    }
}
