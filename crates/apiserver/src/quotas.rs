//! ResourceQuotas: what the objects of a namespace count for, and the room that is held for objects on their way into the
//! store. Both are looked at under one lock, so that requests at the same time never take more than there is.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use admission::Amounts;
use quantity::Quantity;
use serde_json::{Map, Value, json};
use store::{Collection, Key, Object};

use crate::kinds::Kind;
use crate::lookup::objects;
use crate::object::{self, list, name, tree};
use crate::server::Server;
use crate::status::ApiError;
use crate::writing::Write;

/// The ledgers of the namespaces that have quotas. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas(Arc<Mutex<BTreeMap<String, Ledger>>>);

/// What is known about one namespace.
#[derive(Debug, Default)]
struct Ledger {
    /// What stored objects count for, with the revision that was counted.
    counted: BTreeMap<Collection, BTreeMap<String, (u64, Arc<Amounts>)>>,
    /// Objects that are being written.
    held: BTreeMap<u64, Held>,
    next: u64,
}

#[derive(Debug)]
struct Held {
    key: Key,
    object: Value,
    usage: Amounts,
}

/// Room that is held for an object until it is stored, or is not; given back when dropped.
#[derive(Debug)]
pub(crate) struct Room {
    quotas: Quotas,
    namespace: String,
    number: u64,
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut ledgers = self.quotas.lock();
        if let Some(ledger) = ledgers.get_mut(&self.namespace) {
            ledger.held.remove(&self.number);
        }
    }
}

/// Whether objects of a kind are counted at all: events are not, for they tell about trouble.
fn is_counted(kind: &Kind) -> bool {
    kind.namespaced() && kind.plural() != "events"
}

fn quotas_of(server: &Arc<Server>, namespace: &str) -> Vec<Value> {
    objects(server, "", "resourcequotas", Some(namespace))
}

fn has_scopes(quota: &Value) -> bool {
    !list(quota, &["spec", "scopes"]).is_empty()
        || !list(quota, &["spec", "scopeSelector", "matchExpressions"]).is_empty()
}

impl Quotas {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Ledger>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds room for `new`, which replaces `old`; or says which quota has none.
    ///
    /// # Errors
    /// The refusal in upstream's words.
    pub(crate) fn hold(
        &self,
        write: &Write<'_>,
        old: Option<&Value>,
        new: &Value,
    ) -> Result<Option<Room>, ApiError> {
        if !is_counted(write.kind) {
            return Ok(None);
        }
        let quotas = quotas_of(write.server, write.namespace);
        if quotas.is_empty() {
            self.lock().remove(write.namespace);
            return Ok(None);
        }
        let resource = write.kind.stored_resource();
        let usage = admission::quota_usage(resource, new);
        let before = old.map(|old| admission::quota_usage(resource, old)).unwrap_or_default();
        let mut ledgers = self.lock();
        let ledger = ledgers.entry(write.namespace.to_owned()).or_default();
        let key = write.key(name(new));
        for quota in &quotas {
            ledger.check(write, quota, &key, new, old, (&before, &usage))?;
        }
        if write.dry_run {
            return Ok(None);
        }
        let number = ledger.next;
        ledger.next += 1;
        ledger.held.insert(number, Held { key, object: new.clone(), usage });
        Ok(Some(Room { quotas: self.clone(), namespace: write.namespace.to_owned(), number }))
    }

    /// The status of a quota: what is stored counts, what is on its way does not yet.
    pub(crate) fn status(&self, server: &Arc<Server>, quota: &Value) -> Value {
        let namespace = object::text(quota, &["metadata", "namespace"]);
        let hard = object::at(quota, &["spec", "hard"]).cloned().unwrap_or_else(|| json!({}));
        let mut used: Amounts =
            admission::quota_limits(quota).into_keys().map(|name| (name, Quantity::ZERO)).collect();
        {
            let mut ledgers = self.lock();
            let ledger = ledgers.entry(namespace.to_owned()).or_default();
            for kind in server.kinds.stored().filter(|kind| is_counted(kind)) {
                let names = admission::quota_names(kind.stored_resource(), quota);
                if !names.is_empty() {
                    let sum = ledger.used(server, kind, namespace, quota, &names, Counting::Stored);
                    admission::add_usage(&mut used, &sum);
                }
            }
        }
        let used: Map<String, Value> =
            used.into_iter().map(|(name, amount)| (name, json!(amount.to_string()))).collect();
        json!({"hard": hard, "used": used})
    }
}

/// What a sum is about.
#[derive(Clone, Copy)]
enum Counting<'k> {
    /// What is stored.
    Stored,
    /// What is stored or on its way, but for this object.
    AllBut(&'k Key),
}

impl Ledger {
    fn check(
        &mut self,
        write: &Write<'_>,
        quota: &Value,
        key: &Key,
        new: &Value,
        old: Option<&Value>,
        (before, usage): (&Amounts, &Amounts),
    ) -> Result<(), ApiError> {
        let resource = write.kind.stored_resource();
        let mut names = admission::quota_names(resource, quota);
        if names.is_empty() || (has_scopes(quota) && !admission::quota_selects(resource, quota, new)) {
            return Ok(());
        }
        let refused = |detail: String| ApiError::forbidden(write.kind, name(new), detail);
        if old.is_none()
            && (resource.group, resource.plural) == ("", "pods")
            && let Some(missing) = admission::unspecified(&names, new)
        {
            return Err(refused(format!("failed quota: {}: {missing}", name(quota))));
        }
        // Only what grows can be too much.
        let amount_of = |amounts: &Amounts, name: &str| amounts.get(name).copied().unwrap_or(Quantity::ZERO);
        names.retain(|name| amount_of(usage, name) > amount_of(before, name));
        if names.is_empty() {
            return Ok(());
        }
        let limits = admission::quota_limits(quota);
        let others =
            self.used(write.server, write.kind, write.namespace, quota, &names, Counting::AllBut(key));
        let (mut requested, mut used, mut limited) = (Amounts::new(), Amounts::new(), Amounts::new());
        for name in names {
            let (was, is, others) =
                (amount_of(before, &name), amount_of(usage, &name), amount_of(&others, &name));
            let limit = amount_of(&limits, &name);
            if others.checked_add(&is).is_none_or(|sum| sum > limit) {
                requested.insert(name.clone(), is.checked_sub(&was).unwrap_or(is));
                used.insert(name.clone(), others.checked_add(&was).unwrap_or(others));
                limited.insert(name, limit);
            }
        }
        if requested.is_empty() {
            return Ok(());
        }
        Err(refused(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            name(quota),
            shown(&requested),
            shown(&used),
            shown(&limited)
        )))
    }

    /// What the objects of a kind count for under some names of a quota.
    fn used(
        &mut self,
        server: &Arc<Server>,
        kind: &Arc<Kind>,
        namespace: &str,
        quota: &Value,
        names: &[String],
        counting: Counting<'_>,
    ) -> Amounts {
        let listed = server.store.list(kind.collection(), Some(namespace), None, None);
        let stored = listed.map(|listing| listing.objects).unwrap_or_default();
        let scoped = has_scopes(quota);
        let selects =
            |object: &Value| !scoped || admission::quota_selects(kind.stored_resource(), quota, object);
        let mut known = self.counted.remove(kind.collection()).unwrap_or_default();
        let mut counted = BTreeMap::new();
        let mut sum = Amounts::new();
        for object in &stored {
            let usage = match known.remove(object.key().name()) {
                Some((revision, usage)) if revision == object.revision() => usage,
                _ => Arc::new(admission::quota_usage(kind.stored_resource(), &tree(object))),
            };
            counted.insert(object.key().name().to_owned(), (object.revision(), usage.clone()));
            let counts = match counting {
                Counting::Stored => true,
                Counting::AllBut(key) => key != object.key(),
            };
            if counts && (!scoped || selects(&tree(object))) {
                let raised = self.raised(object, &usage, counting);
                add_named(&mut sum, raised.as_ref().unwrap_or(&usage), names);
            }
        }
        self.counted.insert(kind.collection().clone(), counted);
        if let Counting::AllBut(key) = counting {
            let is_stored = |held: &Held| stored.iter().any(|object| *object.key() == held.key);
            let on_the_way = self.held.values().filter(|held| {
                held.key.collection() == kind.collection() && held.key != *key && selects(&held.object)
            });
            for held in on_the_way.filter(|held| !is_stored(held)) {
                add_named(&mut sum, &held.usage, names);
            }
        }
        sum
    }

    /// What a stored object will count for when the change that is on its way is a larger one.
    fn raised(&self, object: &Object, usage: &Amounts, counting: Counting<'_>) -> Option<Amounts> {
        match counting {
            Counting::Stored => None,
            Counting::AllBut(_) => {
                let held = self.held.values().find(|held| held.key == *object.key())?;
                let mut raised = usage.clone();
                for (name, amount) in &held.usage {
                    let known = raised.entry(name.clone()).or_insert(*amount);
                    *known = (*known).max(*amount);
                }
                Some(raised)
            }
        }
    }
}

fn add_named(sum: &mut Amounts, usage: &Amounts, names: &[String]) {
    let named: Amounts = usage
        .iter()
        .filter(|(name, _)| names.contains(name))
        .map(|(name, amount)| (name.clone(), *amount))
        .collect();
    admission::add_usage(sum, &named);
}

/// `cpu=1,pods=2`.
fn shown(amounts: &Amounts) -> String {
    amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
}
