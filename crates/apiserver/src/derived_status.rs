//! Statuses that follow from other objects: those of quotas and of disruption budgets. A task a kind keeps them true; where
//! there is no object of the kind it watches nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use futures::future::select_all;
use serde_json::Value;
use store::{Collection, Event, Purpose, Store, Watch, WriteError};

use crate::budgets;
use crate::kinds::Kind;
use crate::object::{encode, tree};
use crate::server::Server;

/// How often a status is computed again after somebody else was quicker.
const ATTEMPTS: usize = 8;

/// A kind whose status the server computes.
struct Derived {
    group: &'static str,
    plural: &'static str,
    /// Whether objects of a kind count.
    follows: fn(&Kind) -> bool,
    status: fn(&Arc<Server>, &Value) -> Value,
}

static DERIVED: [Derived; 2] = [
    Derived {
        group: "",
        plural: "resourcequotas",
        follows: |kind| kind.namespaced() && kind.plural() != "events",
        status: |server, quota| server.quotas.status(server, quota),
    },
    Derived {
        group: "policy",
        plural: "poddisruptionbudgets",
        // Budgets in percent follow the size of what controls the pods.
        follows: |kind| kind.plural() == "pods" || kind.has_subresource("scale"),
        status: budgets::status,
    },
];

/// Starts the tasks.
pub(crate) fn spawn(server: &Arc<Server>) {
    for derived in &DERIVED {
        let Some(own) = server.kinds.find(derived.group, "v1", derived.plural) else { continue };
        let mut followed: Vec<Collection> = server
            .kinds
            .stored()
            .filter(|kind| (derived.follows)(kind))
            .map(|kind| kind.collection().clone())
            .collect();
        followed.retain(|collection| collection != own.collection());
        let keeper = Keeper {
            derived,
            own: own.collection().clone(),
            followed,
            store: server.store.clone(),
            server: Arc::downgrade(server),
        };
        let closing = server.closing().clone();
        tokio::spawn(async move {
            tokio::select! {
                () = keeper.run() => {}
                () = closing.cancelled() => {}
            }
        });
    }
}

struct Keeper {
    derived: &'static Derived,
    own: Collection,
    followed: Vec<Collection>,
    store: Store,
    server: Weak<Server>,
}

/// Why a round of watching ended.
enum Ended {
    /// Something was missed, or there is nothing left to keep: look again from the beginning.
    Again,
    Store,
}

impl Keeper {
    async fn run(&self) {
        loop {
            match self.round().await {
                Ended::Again => {}
                Ended::Store => return,
            }
        }
    }

    async fn round(&self) -> Ended {
        // Watches first: what happens while statuses are computed is told afterwards.
        let revision = self.store.revision();
        let Ok(mut own) = self.store.watch(&self.own, None, revision) else { return Ended::Again };
        if self.store.count(&self.own) == 0 {
            return match own.next().await {
                Ok(None) => Ended::Store,
                Ok(Some(_)) | Err(_) => Ended::Again,
            };
        }
        let mut watches = vec![own];
        for collection in &self.followed {
            match self.store.watch(collection, None, revision) {
                Ok(watch) => watches.push(watch),
                Err(_) => return Ended::Again,
            }
        }
        if !self.refresh(None).await {
            return Ended::Store;
        }
        loop {
            let changed = match changed_namespaces(&mut watches).await {
                Ok(Some(changed)) => changed,
                Ok(None) => return Ended::Store,
                Err(_) => return Ended::Again,
            };
            if self.store.count(&self.own) == 0 {
                return Ended::Again;
            }
            for namespace in changed {
                if !self.refresh(Some(&namespace)).await {
                    return Ended::Store;
                }
            }
        }
    }

    /// Computes the statuses of a namespace, or of all; false when the server is gone.
    async fn refresh(&self, namespace: Option<&str>) -> bool {
        let Ok(listing) = self.store.list(&self.own, namespace, None, None) else { return true };
        for stored in listing.objects {
            for _ in 0..ATTEMPTS {
                let Some(server) = self.server.upgrade() else { return false };
                let Some(current) = self.store.get(stored.key()) else { break };
                let mut object = tree(&current);
                let status = (self.derived.status)(&server, &object);
                drop(server);
                if object.get("status") == Some(&status) {
                    break;
                }
                object["status"] = status;
                let key = current.key().clone();
                let draft = encode(&object);
                match self.store.update(key, current.revision(), draft, Purpose::Ordinary).await {
                    Err(WriteError::Conflict { .. }) => {}
                    Err(WriteError::Stopped { .. } | WriteError::Closed) => return false,
                    // Gone meanwhile; or no room, and then the next change tries again.
                    Ok(_)
                    | Err(WriteError::Missing { .. } | WriteError::Exists { .. } | WriteError::Full { .. }) =>
                    {
                        break;
                    }
                }
            }
        }
        true
    }
}

/// Waits for changes and says in which namespaces they were; everything that is there already counts as one change.
async fn changed_namespaces(watches: &mut [Watch]) -> Result<Option<BTreeSet<String>>, store::ReadError> {
    let mut changed = BTreeSet::new();
    let mut note = |events: &[Event]| {
        changed.extend(events.iter().map(|event| event.object.key().namespace().to_owned()));
    };
    let first = select_all(watches.iter_mut().map(|watch| Box::pin(watch.next()))).await.0?;
    match first {
        Some(events) => note(&events),
        None => return Ok(None),
    }
    for watch in watches {
        loop {
            let events = watch.advance()?;
            if events.is_empty() {
                break;
            }
            note(&events);
        }
    }
    Ok(Some(changed))
}
