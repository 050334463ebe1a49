//! Figures of a run, as they are printed: medians and percentiles, never means.

use std::time::Duration;

/// Milliseconds with one digit.
#[must_use]
pub fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

/// Microseconds with one digit: the median and the 99th percentile of the times.
#[must_use]
pub fn micros(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share| percentile(times, share).as_secs_f64() * 1e6;
    format!("p50 {:.1} us p99 {:.1} us", at(0.5), at(0.99))
}

/// How many times the median of the others that of the first ones is.
#[must_use]
pub fn ratio(times: &[Duration], others: &[Duration]) -> f64 {
    let middle = |times: &[Duration]| median(times.iter().map(Duration::as_secs_f64).collect());
    middle(times) / middle(others)
}

/// One line: minimum, median, percentiles and maximum of the times.
pub fn print_times(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share| percentile(&times, share).as_secs_f64() * 1000.0;
    println!(
        "{what}: min {:.1} p50 {:.1} p95 {:.1} p99 {:.1} max {:.1} ms (n={})",
        at(0.0),
        at(0.5),
        at(0.95),
        at(0.99),
        at(1.0),
        times.len()
    );
}

/// The time below which this share (0 to 1) of the sorted times lies; zero when there are none.
#[must_use]
pub fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
}

/// The middle one of some figures; zero when there are none.
#[must_use]
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
