//! When a schedule is due next.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use crate::schedule::{Fields, Schedule, Times};

/// A schedule that is not due within so many years is never due: the 30th of February.
const YEARS: i16 = 5;

impl Schedule {
    /// The first time after `after` at which it is due. `zone` is the time zone where the schedule names none itself. None
    /// if it is never due.
    ///
    /// Where clocks are put forward, what lies in the hour that is left out is not due on that day; where they are put back, what lies in
    /// the hour that comes twice is due twice.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match &self.times {
            Times::Every(interval) => every(after, *interval),
            Times::Fields(fields) => fields.next(after, self.zone.as_ref().unwrap_or(zone)),
        }
    }
}

impl Schedule {
    /// The last time after `after` and not after `until` at which it is due.
    pub fn last(&self, after: Timestamp, until: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let first = self.next(after, zone).filter(|first| *first <= until)?;
        if let Times::Every(interval) = &self.times {
            let interval = i64::try_from(interval.as_secs()).ok()?;
            let passed = (until.as_second() - first.as_second()) / interval * interval;
            return Timestamp::from_second(first.as_second().checked_add(passed)?).ok();
        }
        // The later it is asked, the later is the next time: the last one is next after as late a time as may be.
        let mut last = first;
        let (mut early, mut late) = (first.as_second(), until.as_second());
        while early < late {
            let middle = early + (late - early) / 2;
            match self.next(Timestamp::from_second(middle).ok()?, zone).filter(|next| *next <= until) {
                Some(next) => {
                    last = next;
                    early = next.as_second();
                }
                None => late = middle,
            }
        }
        Some(last)
    }
}

fn every(after: Timestamp, interval: Duration) -> Option<Timestamp> {
    let whole = Timestamp::from_second(after.as_second()).ok()?;
    whole.checked_add(interval).ok()
}

impl Fields {
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let second = after.as_second().div_euclid(60) * 60 + 60;
        let mut time = Timestamp::from_second(second).ok()?.to_zoned(zone.clone());
        // Zones whose offset has seconds begin their minutes elsewhere.
        if time.second() != 0 {
            let more = 60 - i64::from(time.second());
            time = time.checked_add(SignedDuration::from_secs(more)).ok()?;
        }
        let last = time.year().checked_add(YEARS)?;
        while time.year() <= last {
            time = match self.miss(&time) {
                None => return Some(time.timestamp()),
                Some(Miss::Month) => {
                    let next = time.date().first_of_month().checked_add(jiff::Span::new().months(1)).ok()?;
                    start(next.at(0, 0, 0, 0), zone, &time)?
                }
                Some(Miss::Day) => start(time.date().tomorrow().ok()?.at(0, 0, 0, 0), zone, &time)?,
                Some(Miss::Hour) => {
                    let more = 60 - i64::from(time.minute());
                    time.checked_add(SignedDuration::from_mins(more)).ok()?
                }
                Some(Miss::Minute) => time.checked_add(SignedDuration::from_mins(1)).ok()?,
            };
        }
        None
    }

    /// The greatest of the fields that does not choose this time.
    fn miss(&self, time: &Zoned) -> Option<Miss> {
        if !self.months.has(time.month()) {
            Some(Miss::Month)
        } else if !self.has_day(time) {
            Some(Miss::Day)
        } else if !self.hours.has(time.hour()) {
            Some(Miss::Hour)
        } else if !self.minutes.has(time.minute()) {
            Some(Miss::Minute)
        } else {
            None
        }
    }

    /// Where both the day of the month and that of the week are given, either will do.
    fn has_day(&self, time: &Zoned) -> bool {
        let day = self.days.has(time.day());
        let weekday = self.weekdays.has(time.weekday().to_sunday_zero_offset());
        if self.days.is_open || self.weekdays.is_open { day && weekday } else { day || weekday }
    }
}

/// Which field does not choose a time.
enum Miss {
    Month,
    Day,
    Hour,
    Minute,
}

/// The first moment of a day; always after `before`.
fn start(day: DateTime, zone: &TimeZone, before: &Zoned) -> Option<Zoned> {
    let start = day.date().to_zoned(zone.clone()).ok()?;
    if start > *before { Some(start) } else { before.checked_add(SignedDuration::from_mins(1)).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone;

    fn next(schedule: &str, after: &str) -> String {
        let schedule = Schedule::parse(schedule).unwrap();
        let after: Timestamp = after.parse().unwrap();
        let zone = zone::zone("America/New_York").unwrap();
        schedule.next(after, &zone).map_or_else(|| "never".to_owned(), |time| time.to_string())
    }

    #[test]
    fn the_next_time_of_a_schedule() {
        // New York is five hours behind UTC in winter, four in summer.
        for (schedule, after, expected) in [
            ("*/15 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:15:00Z"),
            ("*/15 * * * *", "2026-01-01T00:14:59.9Z", "2026-01-01T00:15:00Z"),
            ("5/20 * * * *", "2026-01-01T00:50:00Z", "2026-01-01T01:05:00Z"),
            ("0 9 * * *", "2026-01-01T14:00:00Z", "2026-01-02T14:00:00Z"),
            ("TZ=UTC 0 9 * * *", "2026-01-01T09:00:01Z", "2026-01-02T09:00:00Z"),
            ("TZ=Asia/Kolkata 0 9 * * *", "2026-01-01T00:00:00Z", "2026-01-01T03:30:00Z"),
            ("@hourly", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"),
            ("TZ=UTC @yearly", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("TZ=UTC @weekly", "2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"),
            ("TZ=UTC 0 0 29 feb *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            // Both days given: either. One of them open: both.
            ("TZ=UTC 0 0 13 * fri", "2026-11-01T00:00:00Z", "2026-11-06T00:00:00Z"),
            ("TZ=UTC 0 0 */5 * fri", "2026-11-01T00:00:00Z", "2026-11-06T00:00:00Z"),
            ("TZ=UTC 0 0 13 * *", "2026-11-01T00:00:00Z", "2026-11-13T00:00:00Z"),
            ("0 0 30 2 *", "2026-01-01T00:00:00Z", "never"),
            ("@every 90s", "2026-01-01T00:00:00.7Z", "2026-01-01T00:01:30Z"),
        ] {
            assert_eq!(next(schedule, after), expected, "{schedule} after {after}");
        }
    }

    #[test]
    fn the_last_time_of_a_schedule_before_another_time() {
        let last = |schedule: &str, after: &str, until: &str| {
            let schedule = Schedule::parse(schedule).unwrap();
            let last = schedule.last(after.parse().unwrap(), until.parse().unwrap(), &TimeZone::UTC);
            last.map_or_else(|| "none".to_owned(), |time| time.to_string())
        };
        for (schedule, after, until, expected) in [
            ("*/5 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:04:59Z", "none"),
            ("*/5 * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z", "2026-01-01T00:05:00Z"),
            ("*/5 * * * *", "2026-01-01T00:00:00Z", "2027-03-01T07:13:20Z", "2027-03-01T07:10:00Z"),
            // Dense in the morning, and asked about in the evening.
            ("*/5 9 * * *", "2026-01-01T00:00:00Z", "2026-01-01T22:00:00Z", "2026-01-01T09:55:00Z"),
            ("0 0 1 1 *", "2020-06-01T00:00:00Z", "2026-11-01T00:00:00Z", "2026-01-01T00:00:00Z"),
            ("0 0 30 2 *", "2020-06-01T00:00:00Z", "2026-11-01T00:00:00Z", "none"),
            ("@every 7m", "2026-01-01T00:00:01Z", "2026-01-01T00:30:00Z", "2026-01-01T00:28:01Z"),
        ] {
            assert_eq!(last(schedule, after, until), expected, "{schedule}");
        }
    }

    #[test]
    fn clocks_that_are_put_forward_and_back() {
        for (schedule, after, expected) in [
            // There is no half past two on that day.
            ("30 2 * * *", "2026-03-08T05:00:00Z", "2026-03-09T06:30:00Z"),
            ("0 * * * *", "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z"),
            ("0 3 * * *", "2026-03-08T05:00:00Z", "2026-03-08T07:00:00Z"),
            // There are two of one o'clock.
            ("0 1 * * *", "2026-11-01T04:00:00Z", "2026-11-01T05:00:00Z"),
            ("0 1 * * *", "2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z"),
            ("0 1 * * *", "2026-11-01T06:00:00Z", "2026-11-02T06:00:00Z"),
            ("0 2 * * *", "2026-11-01T04:00:00Z", "2026-11-01T07:00:00Z"),
            // In Berlin it is the last Sunday of March and of October.
            ("TZ=Europe/Berlin 30 2 * * *", "2026-03-28T02:00:00Z", "2026-03-30T00:30:00Z"),
            ("TZ=Europe/Berlin 0 3 * * *", "2026-03-28T03:00:00Z", "2026-03-29T01:00:00Z"),
            ("TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z"),
            ("TZ=Europe/Berlin 30 2 * * *", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
            ("TZ=Europe/Berlin 30 2 * * *", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"),
            // Midnight itself is left out on Cuba.
            ("TZ=America/Havana 30 0 8 3 *", "2026-03-07T00:00:00Z", "2027-03-08T05:30:00Z"),
            ("TZ=America/Havana 0 * 8 3 *", "2026-03-08T04:59:00Z", "2026-03-08T05:00:00Z"),
        ] {
            assert_eq!(next(schedule, after), expected, "{schedule} after {after}");
        }
    }
}
