//! Which of several processes runs the controllers: who holds a Lease in `kube-system`.
//!
//! Two at once would both create what is missing. Source: <https://kubernetes.io/docs/concepts/architecture/leases/#leader-election>.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::PostParams;
use tokio::time::Instant;

/// The lease of the controllers.
const NAME: &str = "kube-controller-manager";
const NAMESPACE: &str = "kube-system";

/// A holder that has not renewed its lease for this long has lost it.
const DURATION: Duration = Duration::from_secs(15);
/// A holder that could not renew for this long gives up, before another takes the lease.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often it is renewed, or looked at by who waits for it.
const RETRY: Duration = Duration::from_secs(2);

/// What is to be done about a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Move {
    /// It is ours: renew it.
    Renew,
    /// It is nobody's, or its holder is gone: take it.
    Take,
    /// Somebody holds it.
    Wait,
}

/// Decides about a lease. `unchanged_for` is how long it has been as it is, by our own clock: the clocks of two machines do not agree.
fn decide(spec: Option<&LeaseSpec>, holder: &str, unchanged_for: Duration) -> Move {
    let Some(spec) = spec else { return Move::Take };
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    match spec.holder_identity.as_deref() {
        Some(current) if current == holder => Move::Renew,
        None | Some("") => Move::Take,
        Some(_) if unchanged_for >= seconds.map_or(DURATION, Duration::from_secs) => Move::Take,
        Some(_) => Move::Wait,
    }
}

/// A lease that we hold.
#[derive(Debug)]
pub struct Leadership {
    leases: Api<Lease>,
    holder: String,
    lease: Lease,
    renewed: Instant,
}

/// Waits until `holder` (a name that no other process has) holds the lease.
pub async fn win(client: kube::Client, holder: String) -> Leadership {
    let leases: Api<Lease> = Api::namespaced(client, NAMESPACE);
    let mut seen: Option<(Option<String>, Instant)> = None;
    let mut told = false;
    loop {
        match try_to_win(&leases, &holder, &mut seen).await {
            Ok(Some(lease)) => {
                return Leadership { leases, holder, lease, renewed: Instant::now() };
            }
            Ok(None) if !told => {
                told = true;
                tracing::info!(
                    "another process runs the controllers; waiting for its lease {NAMESPACE}/{NAME}"
                );
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "the lease {NAMESPACE}/{NAME} could not be asked for; trying again")
            }
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn try_to_win(
    leases: &Api<Lease>,
    holder: &str,
    seen: &mut Option<(Option<String>, Instant)>,
) -> kube::Result<Option<Lease>> {
    let now = Timestamp::now();
    let Some(mut lease) = leases.get_opt(NAME).await? else {
        let meta = ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() };
        let lease = Lease { metadata: meta, spec: Some(held(None, holder, now)) };
        return lost_race(leases.create(&PostParams::default(), &lease).await);
    };
    let version = lease.metadata.resource_version.clone();
    let since = match seen {
        Some((known, since)) if *known == version => *since,
        _ => seen.insert((version, Instant::now())).1,
    };
    match decide(lease.spec.as_ref(), holder, since.elapsed()) {
        Move::Wait => Ok(None),
        Move::Renew | Move::Take => {
            lease.spec = Some(held(lease.spec.as_ref(), holder, now));
            lost_race(leases.replace(NAME, &PostParams::default(), &lease).await)
        }
    }
}

/// Somebody else was quicker.
fn lost_race(answer: kube::Result<Lease>) -> kube::Result<Option<Lease>> {
    match answer {
        Ok(lease) => Ok(Some(lease)),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(error) => Err(error),
    }
}

/// The lease as `holder` writes it.
fn held(before: Option<&LeaseSpec>, holder: &str, now: Timestamp) -> LeaseSpec {
    let same = before.filter(|spec| spec.holder_identity.as_deref() == Some(holder));
    let changes = before.and_then(|spec| spec.lease_transitions).unwrap_or(0);
    LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
        acquire_time: same.and_then(|spec| spec.acquire_time.clone()).or(Some(MicroTime(now))),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(if before.is_some() && same.is_none() {
            changes.saturating_add(1)
        } else {
            changes
        }),
        ..LeaseSpec::default()
    }
}

impl Leadership {
    /// Holds the lease; ends when it is lost.
    pub async fn lost(&mut self) {
        loop {
            tokio::time::sleep(RETRY).await;
            let mut lease = self.lease.clone();
            lease.spec = Some(held(lease.spec.as_ref(), &self.holder, Timestamp::now()));
            match self.leases.replace(NAME, &PostParams::default(), &lease).await {
                Ok(lease) => (self.lease, self.renewed) = (lease, Instant::now()),
                // Somebody took it, or changed it; who holds it now?
                Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => {
                    match self.leases.get_opt(NAME).await {
                        Ok(Some(lease))
                            if lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref())
                                == Some(&self.holder) =>
                        {
                            self.lease = lease;
                        }
                        Ok(_) => return,
                        Err(_) => {}
                    }
                }
                Err(error) => tracing::debug!(%error, "the lease {NAMESPACE}/{NAME} could not be renewed"),
            }
            if self.renewed.elapsed() >= RENEW_DEADLINE {
                return;
            }
        }
    }

    /// Gives the lease back, so that the next holder need not wait.
    pub async fn give_back(mut self) {
        if let Some(spec) = self.lease.spec.as_mut() {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
        }
        // It ends by itself, too.
        let _ = self.leases.replace(NAME, &PostParams::default(), &self.lease).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str) -> LeaseSpec {
        held(None, holder, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_lease_is_taken_when_nobody_holds_it_or_its_holder_is_gone() {
        let seconds = Duration::from_secs;
        let rows = [
            (None, 0, Move::Take),
            (Some(""), 0, Move::Take),
            (Some("us"), 100, Move::Renew),
            (Some("them"), 14, Move::Wait),
            (Some("them"), 15, Move::Take),
        ];
        for (holder, unchanged, expected) in rows {
            let spec = holder.map(lease);
            assert_eq!(decide(spec.as_ref(), "us", seconds(unchanged)), expected, "{holder:?} {unchanged}");
        }
    }

    #[test]
    fn changes_of_the_holder_are_counted() {
        let now = Timestamp::UNIX_EPOCH;
        let ours = held(None, "us", now);
        assert_eq!(ours.lease_transitions, Some(0));
        let renewed = held(Some(&ours), "us", now);
        assert_eq!(renewed.lease_transitions, Some(0));
        assert_eq!(held(Some(&renewed), "them", now).lease_transitions, Some(1));
    }
}
