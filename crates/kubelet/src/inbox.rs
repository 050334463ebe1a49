//! What a pod's worker is told. Messages do not queue up: each one changes what is wanted, and the worker sees the latest.

use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt as _;
use k8s_openapi::api::core::v1::Pod;
use lifecycle::ContainerHealth;
use tokio::sync::{Notify, watch};

use crate::hooks::HookEnd;

/// What has happened since the worker last looked.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    /// A newer object.
    pub(crate) pod: Option<Arc<Pod>>,
    /// The object by which the API shows a static pod; inner `None`: there is none.
    pub(crate) mirror: Option<Option<Arc<Pod>>>,
    /// The object is gone from the API.
    pub(crate) vanished: bool,
    /// It takes more of the disk than it may: what of.
    pub(crate) eviction: Option<String>,
    /// A ConfigMap, Secret or Service has changed: volumes are refreshed, failed starts tried again.
    pub(crate) sources_changed: bool,
    /// Stops of containers that the runtime has answered, by its identifier.
    pub(crate) ended_stops: Vec<String>,
    /// Hooks that have ended.
    pub(crate) hook_ends: Vec<HookEnd>,
    /// What probes found out, by the runtime's identifier of the container.
    pub(crate) health: Vec<(String, ContainerHealth)>,
    /// Something has happened in the runtime.
    pub(crate) runtime_changed: bool,
    /// The node is taken down.
    pub(crate) leave: Option<Leave>,
}

/// The node is taken down, and its pods stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leave {
    /// Most seconds that a pod gets, if not its own grace.
    pub(crate) longest_grace: Option<i64>,
}

impl News {
    /// The newer object, if there is nothing but that.
    fn only_pod(&self) -> Option<&Arc<Pod>> {
        let Self {
            pod,
            mirror,
            vanished,
            eviction,
            sources_changed,
            ended_stops,
            hook_ends,
            health,
            runtime_changed,
            leave,
        } = self;
        let more = mirror.is_some()
            || *vanished
            || eviction.is_some()
            || *sources_changed
            || !ended_stops.is_empty()
            || !hook_ends.is_empty()
            || !health.is_empty()
            || *runtime_changed
            || leave.is_some();
        pod.as_ref().filter(|_| !more)
    }
}

#[derive(Debug, Default)]
struct InboxState {
    news: News,
    /// The pod is to stop: pulls are given up.
    stopping: bool,
}

/// The worker's letter box. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox {
    state: Arc<Mutex<InboxState>>,
    changed: Arc<Notify>,
    stop: Arc<Notify>,
    /// Health checks wait, because a hook runs.
    checks_held: Arc<watch::Sender<bool>>,
}

impl Inbox {
    fn with<T>(&self, change: impl FnOnce(&mut InboxState) -> T) -> T {
        // A panic while the lock is held can only come from here, and nothing here panics.
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A newer object.
    pub(crate) fn put_pod(&self, pod: Arc<Pod>) {
        let stopping = pod.metadata.deletion_timestamp.is_some();
        self.with(|state| {
            state.news.pod = Some(pod);
            state.stopping |= stopping;
        });
        if stopping {
            self.stop.notify_waiters();
        }
        self.changed.notify_one();
    }

    /// The mirror of a static pod has come, changed or gone.
    pub(crate) fn put_mirror(&self, mirror: Option<Arc<Pod>>) {
        self.with(|state| state.news.mirror = Some(mirror));
        self.changed.notify_one();
    }

    /// The object is gone.
    pub(crate) fn put_vanished(&self) {
        self.with(|state| {
            state.news.vanished = true;
            state.stopping = true;
        });
        self.stop.notify_waiters();
        self.changed.notify_one();
    }

    /// The node is taken down.
    pub(crate) fn put_leave(&self, leave: Leave) {
        self.with(|state| {
            state.news.leave = Some(leave);
            state.stopping = true;
        });
        self.stop.notify_waiters();
        self.changed.notify_one();
    }

    /// The pod takes more of the disk than it may.
    pub(crate) fn put_eviction(&self, message: String) {
        self.with(|state| {
            state.news.eviction = Some(message);
            state.stopping = true;
        });
        self.stop.notify_waiters();
        self.changed.notify_one();
    }

    /// Something that the pod's containers or volumes are made from has changed.
    pub(crate) fn put_sources_changed(&self) {
        self.with(|state| state.news.sources_changed = true);
        self.changed.notify_one();
    }

    /// The runtime has answered a stop of a container, whatever it said.
    pub(crate) fn put_ended_stop(&self, id: String) {
        self.with(|state| state.news.ended_stops.push(id));
        self.changed.notify_one();
    }

    /// A hook has ended.
    pub(crate) fn put_hook_end(&self, end: HookEnd) {
        self.with(|state| state.news.hook_ends.push(end));
        self.changed.notify_one();
    }

    /// Whether health checks of the pod wait.
    pub(crate) fn hold_health_checks(&self, hold: bool) {
        self.checks_held.send_if_modified(|held| std::mem::replace(held, hold) != hold);
    }

    /// Waits until health checks of the pod may run.
    pub(crate) async fn health_checks_allowed(&self) {
        // The sender is part of this box, so that it cannot be gone.
        let _ = self.checks_held.subscribe().wait_for(|held| !held).await;
    }

    /// A probe found something out.
    pub(crate) fn put_health(&self, id: String, health: ContainerHealth) {
        self.with(|state| state.news.health.push((id, health)));
        self.changed.notify_one();
    }

    /// Whether the pod is to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.with(|state| state.stopping)
    }

    /// Something has happened in the runtime.
    pub(crate) fn wake(&self) {
        self.with(|state| state.news.runtime_changed = true);
        self.changed.notify_one();
    }

    /// Takes out what has happened. Whoever looks at everything after this need not be woken for it again.
    pub(crate) fn take(&self) -> News {
        // A call that came before is forgotten; what it was about is in what is taken, or comes with a call of its own.
        let _ = self.changed.notified().now_or_never();
        self.with(|state| std::mem::take(&mut state.news))
    }

    /// Takes out a newer object that says nothing new, if it is all that has happened.
    pub(crate) fn take_if_only(&self, says_nothing_new: impl FnOnce(&Pod) -> bool) -> Option<Arc<Pod>> {
        self.with(|state| {
            state.news.only_pod().is_some_and(|pod| says_nothing_new(pod)).then(|| state.news.pod.take())?
        })
    }

    /// Waits until something happens.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Waits until the pod is to stop.
    pub(crate) async fn stop_wanted(&self) {
        loop {
            let wanted = self.stop.notified();
            tokio::pin!(wanted);
            wanted.as_mut().enable();
            if self.with(|state| state.stopping) {
                return;
            }
            wanted.await;
        }
    }
}
