//! How far a rolling update may go from the number of replicas that is asked for. Pure.
//!
//! Source: <https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment>

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How a deployment goes from one template to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Bit by bit.
    Rolling,
    /// Everything old ends before anything new begins.
    Recreate,
}

/// The numbers that a deployment's look is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) strategy: Strategy,
    /// Pods asked for.
    pub(crate) replicas: i32,
    /// Pods that there may be beyond these.
    pub(crate) surge: i32,
    /// Pods of these that may be missing.
    pub(crate) unavailable: i32,
}

impl Limits {
    /// What a deployment asks for.
    pub(crate) fn of(deployment: &Deployment) -> Limits {
        let spec = deployment.spec.as_ref();
        let replicas = spec.and_then(|spec| spec.replicas).unwrap_or(1).max(0);
        let strategy = spec.and_then(|spec| spec.strategy.as_ref());
        if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
            return Limits { strategy: Strategy::Recreate, replicas, surge: 0, unavailable: 0 };
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let surge = share(surge, replicas, Rounding::Up);
        let unavailable = match share(unavailable, replicas, Rounding::Down) {
            // Percentages may both round to nothing; then the update would never begin.
            0 if surge == 0 => 1,
            unavailable => unavailable,
        };
        Limits { strategy: Strategy::Rolling, replicas, surge, unavailable: unavailable.min(replicas) }
    }

    /// Most pods that there may be at once.
    pub(crate) fn most(&self) -> i32 {
        self.replicas.saturating_add(self.surge)
    }

    /// Least pods that must be available.
    pub(crate) fn least_available(&self) -> i32 {
        self.replicas - self.unavailable
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    Up,
    Down,
}

/// A count, or a percentage of the replicas. What is neither, which the API lets no one write, is nothing.
fn share(value: Option<&IntOrString>, replicas: i32, rounding: Rounding) -> i32 {
    let share = match value {
        None => 0,
        Some(IntOrString::Int(count)) => i64::from(*count),
        Some(IntOrString::String(text)) => {
            let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i64>().ok()).unwrap_or(0);
            let hundredths = percent.clamp(0, i64::from(i32::MAX)) * i64::from(replicas);
            match rounding {
                Rounding::Up => hundredths / 100 + i64::from(hundredths % 100 != 0),
                Rounding::Down => hundredths / 100,
            }
        }
    };
    i32::try_from(share.max(0)).unwrap_or(i32::MAX)
}
