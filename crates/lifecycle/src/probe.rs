//! When the results of a probe change what is thought of a container: thresholds count equal results in a row.

use k8s_openapi::api::core::v1::Probe;

/// The three probes of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// Whether it has started: the others wait for it.
    Startup,
    /// Whether it works: if not, it is restarted.
    Liveness,
    /// Whether it may be asked.
    Readiness,
}

impl ProbeKind {
    /// The word that events begin with.
    pub fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }

    /// The sentence of the event `Killing`, when a container is stopped for this probe.
    pub fn kill_message(self, container: &str, will_restart: bool) -> String {
        let kind = match self {
            Self::Startup => "startup",
            Self::Liveness => "liveness",
            Self::Readiness => "readiness",
        };
        let rest = if will_restart { ", will be restarted" } else { "" };
        format!("Container {container} failed {kind} probe{rest}")
    }
}

/// How often and how many times a probe is run. Seconds and counts with Kubernetes' defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTiming {
    /// Seconds before the first run.
    pub initial_delay: u32,
    /// Seconds between runs.
    pub period: u32,
    /// Seconds that a run may take.
    pub timeout: u32,
    /// Successes in a row that count as success.
    pub successes: u32,
    /// Failures in a row that count as failure.
    pub failures: u32,
}

impl ProbeTiming {
    /// The timing of a probe.
    pub fn of(probe: &Probe) -> Self {
        let number = |value: Option<i32>, default: u32| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0).unwrap_or(default)
        };
        Self {
            initial_delay: number(probe.initial_delay_seconds, 0),
            period: number(probe.period_seconds, 10),
            timeout: number(probe.timeout_seconds, 1),
            successes: number(probe.success_threshold, 1),
            failures: number(probe.failure_threshold, 3),
        }
    }
}

/// Counts the results of one probe of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeCounter {
    timing: ProbeTiming,
    last: Option<bool>,
    run: u32,
}

impl ProbeCounter {
    /// Nothing has been counted.
    pub fn new(timing: ProbeTiming) -> Self {
        Self { timing, last: None, run: 0 }
    }

    /// Notes a result. Answers it again once it counts: when its threshold is reached, and from then on.
    pub fn note(&mut self, success: bool) -> Option<bool> {
        if self.last == Some(success) {
            self.run = self.run.saturating_add(1);
        } else {
            self.last = Some(success);
            self.run = 1;
        }
        let threshold = if success { self.timing.successes } else { self.timing.failures };
        (self.run >= threshold).then_some(success)
    }
}

#[cfg(test)]
mod tests {
    use super::{ProbeCounter, ProbeKind, ProbeTiming};
    use k8s_openapi::api::core::v1::Probe;

    #[test]
    fn results_count_when_enough_of_them_follow_one_another() {
        let probe = Probe { success_threshold: Some(2), failure_threshold: Some(3), ..Probe::default() };
        let mut counter = ProbeCounter::new(ProbeTiming::of(&probe));
        let results = [true, true, false, false, true, false, false, false, false, true];
        let expected = [None, Some(true), None, None, None, None, None, Some(false), Some(false), None];
        assert_eq!(results.map(|result| counter.note(result)), expected);
    }

    #[test]
    fn timings_have_kubernetes_defaults() {
        let timing = ProbeTiming::of(&Probe::default());
        assert_eq!(
            timing,
            ProbeTiming { initial_delay: 0, period: 10, timeout: 1, successes: 1, failures: 3 }
        );
    }

    #[test]
    fn a_kill_says_why_and_whether_a_restart_follows() {
        assert_eq!(
            ProbeKind::Liveness.kill_message("c", true),
            "Container c failed liveness probe, will be restarted"
        );
        assert_eq!(ProbeKind::Startup.kill_message("c", false), "Container c failed startup probe");
    }
}
