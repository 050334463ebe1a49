//! The tokens in a pod's volumes: asked for once, bound to the pod, and renewed before they end.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use environment::SecretBytes;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection};
use lifecycle::{BootTime, Now};

/// A token is renewed after a day at the latest.
const LONGEST_USE: u64 = 24 * 3600 * 1000;
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
        self.held().get(&wanted(source)).filter(|held| held.renew > now.boot).map(|held| held.token.clone())
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
        self.held().insert(wanted(source), Held { token, renew, ends });
    }

    /// After a renewal that failed: the old token, as long as it is good.
    pub(super) fn old(&self, source: &ServiceAccountTokenProjection, now: Now) -> Option<SecretBytes> {
        let mut tokens = self.held();
        let held = tokens.get_mut(&wanted(source)).filter(|held| held.ends > now.boot)?;
        held.renew = BootTime(now.boot.0.saturating_add(RETRY));
        Some(held.token.clone())
    }

    /// How many milliseconds it is until a token has to be renewed; `None` when there is none.
    pub(crate) fn until_renewal(&self, now: Now) -> Option<u64> {
        self.held().values().map(|held| held.renew.millis_since(now.boot)).min()
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
