//! Who waits for a node, in which order, and for what; who was given one and is not known to be there yet. Nothing here
//! talks to anybody.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use informer::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use tokio::time::Instant;

use super::cluster::Cluster;
use super::decision::{self, Verdict};
use super::matching::Labels;
use super::occasions::Occasions;
use super::reason::Refusal;
use super::volumes::Fulfilment;
use super::wish::Wish;

/// The scheduler whose pods are bound.
const SCHEDULER: &str = "default-scheduler";
/// Waited after a binding has failed for the first time, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// A pod that waits is spoken of at most this often.
const BETWEEN_MESSAGES: Duration = Duration::from_secs(1);
/// A cluster that has just begun gets its first node within this time.
const BEGINNING: Duration = Duration::from_secs(10);
/// Verdicts that are remembered.
const REMEMBERED: usize = 4096;

/// The place of a pod in the order: more important ones first, then older ones.
type Rank = (Reverse<i32>, Timestamp, u64, String);

#[derive(Debug)]
enum State {
    /// It is to be decided about.
    Ready,
    /// No node fitted; something of this may help.
    Waiting(Occasions),
    /// It was given a node; its claims are being fulfilled, or the API is being told.
    Given { node: Arc<str>, open: Vec<Fulfilment> },
    /// It could not be bound; the next try is due.
    Resting(Instant),
}

#[derive(Debug)]
struct Entry {
    wish: Arc<Wish>,
    rank: Rank,
    state: State,
    failures: u32,
    /// What was said of it last, and when.
    told: Option<(String, Instant)>,
    /// What is to be said of it, but not yet.
    unsaid: Option<String>,
}

impl Entry {
    /// Says why the pod waits, unless that was said; not more often than its readers can follow.
    fn say(
        &mut self,
        message: String,
        may_pass: bool,
        now: Instant,
        unsaid: &mut BTreeSet<(Instant, String)>,
    ) -> Option<Act> {
        let is_expected = self.unsaid.take().is_some();
        match &self.told {
            None if may_pass => {
                if !is_expected {
                    unsaid.insert((now + BETWEEN_MESSAGES, self.wish.uid().to_owned()));
                }
                self.unsaid = Some(message);
                None
            }
            Some((told, _)) if *told == message => None,
            Some((_, at)) if now < *at + BETWEEN_MESSAGES => {
                unsaid.insert((*at + BETWEEN_MESSAGES, self.wish.uid().to_owned()));
                self.unsaid = Some(message);
                None
            }
            Some(_) | None => {
                self.told = Some((message.clone(), now));
                Some(Act::Tell { wish: Arc::clone(&self.wish), message })
            }
        }
    }
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Act {
    /// The pod goes to a node.
    Bind { wish: Arc<Wish>, node: Arc<str> },
    /// The pod goes to a node when these claims are fulfilled: they are told the node.
    Prepare { wish: Arc<Wish>, node: Arc<str>, claims: Vec<Fulfilment> },
    /// Nobody can take the pod: this is why.
    Tell { wish: Arc<Wish>, message: String },
}

/// Whether a pod waits for this scheduler.
fn wants_a_node(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else {
        return false;
    };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name.is_empty() || name == SCHEDULER);
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    ours && !gated && node_of(pod).is_none() && pod.metadata.deletion_timestamp.is_none()
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|name| !name.is_empty())
}

fn has_ended(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().and_then(|status| status.phase.as_deref()), Some("Succeeded" | "Failed"))
}

/// The state of scheduling.
#[derive(Debug, Default)]
pub(crate) struct Board {
    pub(super) cluster: Cluster,
    entries: HashMap<String, Entry>,
    ready: BTreeSet<Rank>,
    /// UIDs of pods that wait for something to help.
    waiting: BTreeSet<String>,
    /// What may help any of them; it may be more than what would.
    hopes: Occasions,
    resting: BTreeSet<(Instant, String)>,
    /// Pods of which something is to be said later.
    unsaid: BTreeSet<(Instant, String)>,
    /// Until when it is no wonder that there are no nodes.
    patient_until: Option<Instant>,
    /// UIDs of pods whose claims are being fulfilled.
    preparing: BTreeSet<String>,
    /// Those whose claims are.
    prepared: Vec<String>,
    /// Verdicts on shapes of pods that fitted nowhere, and when.
    refused: HashMap<u64, (u64, Refusal)>,
    arrivals: u64,
    /// How often all nodes were looked at for a pod.
    looks: u64,
}

impl Board {
    /// Nothing is known yet. For a while it is not said of pods that there are no nodes.
    pub(crate) fn beginning(now: Instant) -> Self {
        Self { patient_until: Some(now + BEGINNING), ..Self::default() }
    }

    /// A node is there or has changed.
    pub(crate) fn see_node(&mut self, node: Arc<Node>) {
        let occasions = self.cluster.see_node(node);
        self.wake(occasions);
    }

    /// A node is gone.
    pub(crate) fn forget_node(&mut self, name: &str) {
        let occasions = self.cluster.forget_node(name);
        self.wake(occasions);
    }

    /// A namespace has these labels, or is gone.
    pub(crate) fn see_namespace(&mut self, name: &str, labels: Option<Labels>) {
        let occasions = self.cluster.see_namespace(name, labels);
        self.wake(occasions);
    }

    /// A claim is as given, or gone.
    pub(crate) fn see_claim(&mut self, key: ObjectKey, claim: Option<Arc<PersistentVolumeClaim>>) {
        set(&mut self.cluster.volumes.claims, key, claim);
        self.volumes_changed();
    }

    /// A volume is as given, or gone.
    pub(crate) fn see_volume(&mut self, name: String, volume: Option<Arc<PersistentVolume>>) {
        set(&mut self.cluster.volumes.volumes, name, volume);
        self.volumes_changed();
    }

    /// A class of volumes is as given, or gone.
    pub(crate) fn see_class(&mut self, name: String, class: Option<Arc<StorageClass>>) {
        set(&mut self.cluster.volumes.classes, name, class);
        self.volumes_changed();
    }

    fn volumes_changed(&mut self) {
        self.cluster.version += 1;
        self.wake(Occasions::VOLUMES);
    }

    /// A pod is there or has changed.
    pub(crate) fn see_pod(&mut self, pod: Arc<Pod>) {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        if has_ended(&pod) {
            self.forget_pod(&uid);
            return;
        }
        if let Some(node) = node_of(&pod).map(str::to_owned) {
            self.drop_entry(&uid);
            self.place(Arc::new(Wish::of(pod)), &node);
            return;
        }
        if !wants_a_node(&pod) {
            self.forget_pod(&uid);
        } else if self.cluster.node_of(&uid).is_none() {
            // What was given a node here may still come by as it was before.
            self.wait_for_a_node(uid, Arc::new(Wish::of(pod)));
        }
    }

    fn place(&mut self, wish: Arc<Wish>, node: &str) {
        let uid = wish.uid().to_owned();
        let occasions = match self.cluster.node_of(&uid) {
            Some((before, at)) if &**at == node => {
                let mut occasions = Occasions::NONE;
                if before.pod.metadata.labels != wish.pod.metadata.labels
                    || before.is_going() != wish.is_going()
                {
                    occasions |= Occasions::LABELS;
                }
                if before.claim != wish.claim {
                    occasions |= Occasions::POD_GONE;
                }
                if occasions == Occasions::NONE {
                    return;
                }
                occasions
            }
            Some(_) | None => Occasions::POD_PLACED | Occasions::POD_GONE,
        };
        self.cluster.take_away(&uid);
        self.cluster.place(wish, node);
        self.wake(occasions);
    }

    fn wait_for_a_node(&mut self, uid: String, wish: Arc<Wish>) {
        let before = self.drop_entry(&uid);
        let (told, unsaid, arrival) = match before {
            Some(before) => (before.told, before.unsaid, before.rank.2),
            None => {
                self.arrivals += 1;
                (None, None, self.arrivals)
            }
        };
        let rank = (Reverse(wish.priority()), wish.created(), arrival, uid.clone());
        self.ready.insert(rank.clone());
        self.entries.insert(uid, Entry { wish, rank, state: State::Ready, failures: 0, told, unsaid });
    }

    /// A pod is gone, or takes nothing any more.
    pub(crate) fn forget_pod(&mut self, uid: &str) {
        self.drop_entry(uid);
        if self.cluster.take_away(uid).is_some() {
            self.wake(Occasions::POD_GONE);
        }
    }

    /// Takes a pod from wherever it waits.
    fn drop_entry(&mut self, uid: &str) -> Option<Entry> {
        let entry = self.entries.remove(uid)?;
        match &entry.state {
            State::Ready => {
                self.ready.remove(&entry.rank);
            }
            State::Waiting(_) => {
                self.waiting.remove(uid);
            }
            State::Given { .. } => {
                self.preparing.remove(uid);
            }
            State::Resting(until) => {
                self.resting.remove(&(*until, uid.to_owned()));
            }
        }
        Some(entry)
    }

    /// Something has changed: whom it may help is to be decided about again.
    pub(super) fn wake(&mut self, occasions: Occasions) {
        if occasions == Occasions::NONE {
            return;
        }
        if self.hopes.meets(occasions) {
            let (entries, ready) = (&mut self.entries, &mut self.ready);
            let mut hopes = Occasions::NONE;
            self.waiting.retain(|uid| {
                let Some(entry) = entries.get_mut(uid) else { return false };
                match entry.state {
                    State::Waiting(helped_by) if helped_by.meets(occasions) => {
                        entry.state = State::Ready;
                        ready.insert(entry.rank.clone());
                        false
                    }
                    State::Waiting(helped_by) => {
                        hopes |= helped_by;
                        true
                    }
                    State::Ready | State::Given { .. } | State::Resting(_) => false,
                }
            });
            self.hopes = hopes;
        }
        if occasions.meets(Occasions::VOLUMES) {
            self.look_at_claims();
        }
    }

    /// Claims have changed: some pods may go on, some may not go where they were to go.
    fn look_at_claims(&mut self) {
        let mut given_back = Vec::new();
        for uid in &self.preparing {
            let Some(Entry { state: State::Given { node, open }, .. }) = self.entries.get(uid) else {
                continue;
            };
            let volumes = &self.cluster.volumes;
            if open.iter().all(|one| volumes.is_bound(one.claim())) {
                self.prepared.push(uid.clone());
            } else if open.iter().any(|one| match one {
                Fulfilment::Provision(claim) => {
                    !volumes.is_bound(claim) && volumes.is_given_back(claim, node)
                }
                Fulfilment::Give(..) => false,
            }) {
                given_back.push(uid.clone());
            }
        }
        for uid in &self.prepared {
            self.preparing.remove(uid);
        }
        for uid in given_back {
            self.preparing.remove(&uid);
            self.put_back(&uid);
        }
    }

    /// The claims of a pod were told their node.
    pub(crate) fn preparing(&mut self, uid: &str) {
        if let Some(Entry { state: State::Given { .. }, .. }) = self.entries.get(uid) {
            self.preparing.insert(uid.to_owned());
            self.look_at_claims();
        }
    }

    /// The pod at the head of the order, decided about; what is to be done with it.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Act> {
        while let Some((due, _)) = self.resting.first()
            && *due <= now
            && let Some((_, uid)) = self.resting.pop_first()
        {
            if let Some(entry) = self.entries.get_mut(&uid) {
                entry.state = State::Ready;
                self.ready.insert(entry.rank.clone());
            }
        }
        while let Some(uid) = self.prepared.pop() {
            if let Some(Entry { wish, state: State::Given { node, .. }, .. }) = self.entries.get(&uid) {
                return Some(Act::Bind { wish: Arc::clone(wish), node: Arc::clone(node) });
            }
        }
        if let Some(act) = self.say_later(now) {
            return Some(act);
        }
        if self.cluster.nodes.is_empty() && self.patient_until.is_some_and(|until| now < until) {
            return None;
        }
        loop {
            let (_, _, _, uid) = self.ready.pop_first()?;
            if let Some(act) = self.decide(&uid, now) {
                return Some(act);
            }
        }
    }

    /// What was to be said later and still is true.
    fn say_later(&mut self, now: Instant) -> Option<Act> {
        while let Some((due, _)) = self.unsaid.first()
            && *due <= now
            && let Some((_, uid)) = self.unsaid.pop_first()
        {
            // One that is about to be decided about will hear what comes of that.
            if let Some(entry) = self.entries.get_mut(&uid)
                && let Some(message) = entry.unsaid.take()
                && matches!(entry.state, State::Waiting(_))
            {
                entry.told = Some((message.clone(), now));
                return Some(Act::Tell { wish: Arc::clone(&entry.wish), message });
            }
        }
        None
    }

    fn decide(&mut self, uid: &str, now: Instant) -> Option<Act> {
        let wish = Arc::clone(&self.entries.get(uid)?.wish);
        let known = self.refused.get(&wish.shape).filter(|(version, _)| *version == self.cluster.version);
        // A claim that is made for one pod is of no other's shape; all else that decides is.
        let verdict = match known {
            Some((_, refusal)) => Verdict::Nowhere(refusal.clone()),
            None => {
                self.looks += 1;
                decision::decide(&wish, &mut self.cluster)
            }
        };
        let entry = self.entries.get_mut(uid)?;
        match verdict {
            Verdict::To(node, claims) => {
                (entry.told, entry.unsaid) = (None, None);
                entry.state = State::Given { node: Arc::clone(&node), open: claims.clone() };
                self.cluster.place(Arc::clone(&wish), &node);
                self.wake(Occasions::POD_PLACED);
                Some(if claims.is_empty() {
                    Act::Bind { wish, node }
                } else {
                    Act::Prepare { wish, node, claims }
                })
            }
            Verdict::Nowhere(refusal) => {
                entry.state = State::Waiting(refusal.helped_by);
                self.waiting.insert(uid.to_owned());
                self.hopes |= refusal.helped_by;
                let (message, may_pass) = (refusal.message.clone(), refusal.may_pass);
                if self.refused.len() >= REMEMBERED {
                    self.refused.clear();
                }
                self.refused.insert(wish.shape, (self.cluster.version, refusal));
                entry.say(message, may_pass, now, &mut self.unsaid)
            }
        }
    }

    /// A pod was bound, as the API says; the watch will tell of it.
    pub(crate) fn bound(&mut self, uid: &str) {
        self.drop_entry(uid);
    }

    /// A binding did not come about: tried again after a while, unless the watch tells that there is nothing to bind.
    pub(crate) fn not_bound(&mut self, uid: &str, now: Instant) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        if !matches!(entry.state, State::Given { .. }) {
            return;
        }
        entry.failures = entry.failures.saturating_add(1);
        let doubled = PAUSES.0.saturating_mul(1_u32.checked_shl(entry.failures - 1).unwrap_or(u32::MAX));
        let until = now + doubled.min(PAUSES.1);
        entry.state = State::Resting(until);
        self.preparing.remove(uid);
        self.resting.insert((until, uid.to_owned()));
        self.release(uid);
    }

    /// A pod that was given a node is decided about again.
    fn put_back(&mut self, uid: &str) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.state = State::Ready;
            self.ready.insert(entry.rank.clone());
            self.release(uid);
        }
    }

    fn release(&mut self, uid: &str) {
        if self.cluster.take_away(uid).is_some() {
            self.wake(Occasions::POD_GONE);
        }
    }

    /// How often all nodes were looked at for a pod.
    #[cfg(test)]
    pub(super) fn looks(&self) -> u64 {
        self.looks
    }

    /// When a pod is due that nothing else brings back.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let waits_for_first_node = self.cluster.nodes.is_empty() && !self.ready.is_empty();
        let first_node = self.patient_until.filter(|until| waits_for_first_node && now < *until);
        let resting = self.resting.first().map(|(until, _)| *until);
        let unsaid = self.unsaid.first().map(|(until, _)| *until);
        [first_node, resting, unsaid].into_iter().flatten().min()
    }
}

fn set<K: Ord, V>(all: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => {
            all.insert(key, value);
        }
        None => {
            all.remove(&key);
        }
    }
}
