//! The tokens in a pod's volumes: asked for once, bound to the pod, and renewed before they end.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use environment::SecretBytes;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection};
use lifecycle::{BootTime, Now};

/// A token is renewed after a day at the latest.
const LONGEST_USE: u64 = 24 * 3600 * 1000;
/// So far the API server's clock may be behind when it gives a token that is already good.
const LEEWAY: SignedDuration = SignedDuration::from_mins(1);
/// How long to wait after a renewal that failed.
const RETRY: u64 = 30 * 1000;

/// Which token: what a projection asks for.
type Wanted = (Option<String>, Option<i64>);

fn wanted(source: &ServiceAccountTokenProjection) -> Wanted {
    (source.audience.clone(), source.expiration_seconds)
}

/// The tokens of one pod.
#[derive(Debug, Default)]
pub(crate) struct PodTokens(Mutex<BTreeMap<Wanted, Held>>);

#[derive(Clone, Debug)]
struct Held {
    token: SecretBytes,
    renew: BootTime,
    ends: BootTime,
    /// Whoever checks it does so by the time of day: it is renewed, too, when that is set to before the first or beyond the
    /// second. None after a renewal that failed: until the next one only the passing time counts.
    of_use: Option<(Timestamp, Timestamp)>,
}

impl Held {
    /// How many milliseconds it is until it has to be renewed.
    fn until_renewal(&self, now: Now) -> u64 {
        let left = self.renew.millis_since(now.boot);
        match self.of_use {
            None => left,
            Some((from, to)) if from <= now.wall && now.wall < to => left,
            Some(_) => 0,
        }
    }
}

/// When a token that was got now and ends at `end` is renewed, and when it ends, by the boot clock: after four fifths of its
/// life.
fn times(end: Timestamp, now: Now) -> (BootTime, BootTime) {
    let life = u64::try_from(end.as_millisecond() - now.wall.as_millisecond()).unwrap_or(0);
    let after = |millis: u64| BootTime(now.boot.0.saturating_add(millis));
    (after((life / 5 * 4).min(LONGEST_USE)), after(life))
}

impl PodTokens {
    fn held(&self) -> MutexGuard<'_, BTreeMap<Wanted, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token for a projection, if it need not be renewed.
    pub(super) fn fresh(&self, source: &ServiceAccountTokenProjection, now: Now) -> Option<SecretBytes> {
        let tokens = self.held();
        tokens.get(&wanted(source)).filter(|held| held.until_renewal(now) > 0).map(|held| held.token.clone())
    }

    /// Notes a token that was got.
    pub(super) fn note(
        &self,
        source: &ServiceAccountTokenProjection,
        token: SecretBytes,
        end: Timestamp,
        now: Now,
    ) {
        let (renew, ends) = times(end, now);
        let of_use = Some((now.wall.saturating_sub(LEEWAY).unwrap_or(Timestamp::MIN), end));
        self.held().insert(wanted(source), Held { token, renew, ends, of_use });
    }

    /// After a renewal that failed: the old token, as long as it is good.
    pub(super) fn old(&self, source: &ServiceAccountTokenProjection, now: Now) -> Option<SecretBytes> {
        let mut tokens = self.held();
        let held = tokens.get_mut(&wanted(source)).filter(|held| held.ends > now.boot)?;
        held.renew = BootTime(now.boot.0.saturating_add(RETRY));
        held.of_use = None;
        Some(held.token.clone())
    }

    /// How many milliseconds it is until a token has to be renewed; `None` when there is none.
    pub(crate) fn until_renewal(&self, now: Now) -> Option<u64> {
        self.held().values().map(|held| held.until_renewal(now)).min()
    }
}

/// The one user that all containers of a pod run as, if they say so and agree: who owns the tokens.
pub(super) fn only_user(pod: &Pod) -> Option<u32> {
    let spec = pod.spec.as_ref()?;
    let pod_user = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut users = containers.map(|container| {
        container.security_context.as_ref().and_then(|context| context.run_as_user).or(pod_user)
    });
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| u32::try_from(first).ok())?
}

#[cfg(test)]
mod tests {
    use environment::SecretBytes;
    use jiff::{SignedDuration, Timestamp};
    use k8s_openapi::api::core::v1::ServiceAccountTokenProjection;
    use lifecycle::{BootTime, Now};
    use serde_json::json;

    use super::{PodTokens, only_user};

    fn at(seconds: u64) -> Now {
        let wall = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_000_000 + seconds.cast_signed());
        Now { wall, boot: BootTime(5000 + seconds * 1000) }
    }

    #[test]
    fn a_token_is_renewed_when_four_fifths_of_its_life_are_over() {
        let source = ServiceAccountTokenProjection {
            path: "token".to_owned(),
            ..ServiceAccountTokenProjection::default()
        };
        let tokens = PodTokens::default();
        assert_eq!(tokens.until_renewal(at(0)), None);
        assert!(tokens.fresh(&source, at(0)).is_none());
        tokens.note(&source, SecretBytes::new("one"), at(1000).wall, at(0));
        assert_eq!(tokens.until_renewal(at(300)), Some(500_000));
        for (second, is_fresh) in [(0, true), (799, true), (800, false), (1000, false)] {
            assert_eq!(tokens.fresh(&source, at(second)).is_some(), is_fresh, "{second}");
        }
        let other = ServiceAccountTokenProjection { audience: Some("vault".to_owned()), ..source.clone() };
        assert!(tokens.fresh(&other, at(0)).is_none(), "another audience, another token");
        // A renewal that fails keeps the old one until its end.
        assert!(tokens.old(&source, at(900)).is_some());
        assert_eq!(tokens.until_renewal(at(900)), Some(30_000));
        assert!(tokens.old(&source, at(1000)).is_none());
        tokens.note(&source, SecretBytes::new("two"), at(400 * 24 * 3600).wall, at(0));
        assert_eq!(tokens.until_renewal(at(0)), Some(24 * 3600 * 1000), "a day at the latest");
    }

    /// The clock of a machine is put right while a pod runs: its token has ended, or is not yet good, by that clock.
    #[test]
    fn a_token_that_a_clock_set_anew_has_made_useless_is_renewed_at_once() {
        let source = ServiceAccountTokenProjection {
            path: "token".to_owned(),
            ..ServiceAccountTokenProjection::default()
        };
        let tokens = PodTokens::default();
        tokens.note(&source, SecretBytes::new("one"), at(4600).wall, at(1000));
        // So long after it was got, what the time of day is then, and whether it is still good.
        for (passed, wall, is_fresh) in [
            (10, 1010, true),
            (10, 4599, true),
            (10, 4600, false),
            (10, 990, true),
            (10, 900, false),
            (2900, 1010, false),
        ] {
            let now = Now { wall: at(wall).wall, boot: at(1000 + passed).boot };
            assert_eq!(tokens.fresh(&source, now).is_some(), is_fresh, "{passed} {wall}");
            assert_eq!(tokens.until_renewal(now) == Some(0), !is_fresh, "{passed} {wall}");
        }
        // It cannot be renewed: then not again and again.
        let later = Now { wall: at(9000).wall, boot: at(1010).boot };
        assert!(tokens.old(&source, later).is_some());
        assert_eq!(tokens.until_renewal(later), Some(30_000));
    }

    #[test]
    fn the_owner_of_a_token_is_the_user_that_all_containers_agree_on() {
        let user = |number: i64| json!({"runAsUser": number});
        let table = [
            (json!({"containers": [{"name": "a"}]}), None),
            (json!({"securityContext": user(7), "containers": [{"name": "a"}]}), Some(7)),
            (json!({"containers": [{"name": "a", "securityContext": user(7)}, {"name": "b"}]}), None),
            (
                json!({"securityContext": user(7), "containers": [{"name": "a", "securityContext": user(8)}, {"name": "b"}]}),
                None,
            ),
            (
                json!({"initContainers": [{"name": "i", "securityContext": user(7)}],
                    "containers": [{"name": "a", "securityContext": user(7)}]}),
                Some(7),
            ),
        ];
        for (spec, expected) in table {
            let pod = serde_json::from_value(json!({"spec": spec})).expect("a pod");
            assert_eq!(only_user(&pod), expected, "{spec}");
        }
    }
}
