//! One worker a pod, alone in changing that pod:
//!
//! ```text
//!   news --> look at the runtime --> remember --> plan --> act, and beside it write the status --+
//!    ^                                                                                           |
//!    +--------------------- something happened, or a timer of the plan ended --------------------+
//! ```
//!
//! The plan decides; the worker looks, remembers and acts. A panic in one turn is caught, told by an event, and the turn
//! repeated after a pause; other pods do not notice.

mod actions;
mod dependencies;
mod hooks;
mod losses;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cri::v1;
use futures::FutureExt as _;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use lifecycle::{Action, Health, HookKey, PodMemory, PodView, RuntimePod, UnderWay, is_own_condition};
use tokio_util::sync::DropGuard;

use api::reasons::event;

use crate::agent::SharedAgent;
use crate::clock;
use crate::inbox::Inbox;
use crate::labels;
use crate::observe::observe_pod;
use crate::pod_origin::is_static;
use crate::pod_store::is_kept_alike;
use crate::probes::PodProbes;
use crate::status_writer::{StatusChange, StatusWritten, write_status};
use crate::volumes::PodTokens;
use events::EventType;

/// The longest pause after failed turns.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Why a turn could not be finished.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnError {
    /// The runtime did not answer.
    #[error("the container runtime does not answer: {}", .0.message())]
    Runtime(#[from] tonic::Status),
    /// The API server did not answer.
    #[error("the API server does not answer: {}", crate::api_error::Brief(.0))]
    Api(#[from] kube::Error),
    /// The file system refused.
    #[error("{action}: {source}")]
    FileSystem {
        /// What was done.
        action: &'static str,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// What follows a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Another turn at once: something was done.
    Again,
    /// Another turn when something happens, or after this time.
    After(Duration),
    /// Nothing is left of the pod.
    Gone,
}

/// What a worker begins with.
#[derive(Debug)]
pub(crate) struct WorkerStart {
    pub(crate) pod: Arc<Pod>,
    pub(crate) memory: PodMemory,
}

/// The state of one pod's worker.
pub(crate) struct PodWorker {
    agent: SharedAgent,
    inbox: Inbox,
    uid: String,
    pod: Arc<Pod>,
    /// The object by which the API shows the pod, if that is another one: the mirror of a static pod.
    mirror: Option<Arc<Pod>>,
    memory: PodMemory,
    health: Health,
    probes: PodProbes,
    /// What was last seen in the runtime.
    runtime: RuntimePod,
    /// The sandbox's configuration, which each of its containers is created with.
    sandbox: Option<v1::PodSandboxConfig>,
    /// Volumes were set up by this process, or found whole.
    volumes_ready: bool,
    /// The tokens in them.
    tokens: PodTokens,
    /// What the state file says, as it was last written.
    saved: Option<(Arc<Pod>, PodMemory)>,
    /// The status as it was last written.
    written: Option<PodStatus>,
    /// What is being carried out for this pod.
    under_way: UnderWay,
    /// Hooks that run; dropping one gives it up.
    hooks: BTreeMap<HookKey, DropGuard>,
    /// A look at the machine's files for this pod has not come back.
    looking: Arc<AtomicBool>,
    /// Back-offs that were told already: container and the attempt that waits.
    announced: Vec<(String, u32)>,
}

impl PodWorker {
    pub(crate) fn new(agent: SharedAgent, inbox: Inbox, uid: String, start: WorkerStart) -> Self {
        Self {
            agent,
            inbox,
            uid,
            pod: start.pod,
            mirror: None,
            memory: start.memory,
            health: Health::new(),
            probes: PodProbes::default(),
            runtime: RuntimePod::default(),
            sandbox: None,
            volumes_ready: false,
            tokens: PodTokens::default(),
            saved: None,
            written: None,
            under_way: UnderWay::default(),
            looking: Arc::default(),
            hooks: BTreeMap::new(),
            announced: Vec::new(),
        }
    }

    /// Works until nothing is left of the pod.
    pub(crate) async fn run(mut self) {
        let mut failures = 0_u32;
        loop {
            let next = match AssertUnwindSafe(self.turn()).catch_unwind().await {
                Ok(Ok(next)) => {
                    failures = 0;
                    next
                }
                Ok(Err(error)) => {
                    failures = failures.saturating_add(1);
                    tracing::warn!(pod = self.name(), %error, "the pod could not be synced");
                    Next::After(pause(failures))
                }
                Err(_) => {
                    failures = failures.saturating_add(1);
                    let message =
                        "error determining status: the node agent met an internal error; it tries again";
                    self.agent.pod_event(&self.pod, EventType::Warning, event::FAILED_SYNC, message);
                    tracing::error!(pod = self.name(), "panic while the pod was synced");
                    Next::After(pause(failures))
                }
            };
            match next {
                Next::Again => tokio::task::yield_now().await,
                Next::After(time) => self.wait(time).await,
                Next::Gone => {
                    self.agent.ends.note(&self.uid, false);
                    return;
                }
            }
        }
    }

    /// Waits until something has happened, or the time is over. The object that comes back with the status that this worker
    /// has written is nothing that has happened.
    async fn wait(&mut self, time: Duration) {
        let over = tokio::time::sleep(time);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = self.inbox.changed() => {}
                () = &mut over => return,
            }
            let echo = self.inbox.take_if_only(|pod| {
                is_kept_alike(pod, &self.pod)
                    && self.written.is_some()
                    && pod.status == self.written
                    && !is_static(&self.pod)
            });
            match echo {
                Some(pod) => self.pod = pod,
                None => return,
            }
        }
    }

    fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    async fn turn(&mut self) -> Result<Next, TurnError> {
        self.read_news().await;
        let began = std::time::Instant::now();
        self.look().await?;
        self.check_dependencies().await;
        fault::point("turn.looked");
        tracing::debug!(pod = self.name(), took = ?began.elapsed(), "looked at the runtime");
        let now = clock::now();
        self.memory.note_accepted(now);
        if self.memory.note_deadline(&self.pod, &self.runtime, now) {
            self.agent.pod_event(
                &self.pod,
                EventType::Normal,
                event::DEADLINE_EXCEEDED,
                lifecycle::reasons::DEADLINE_EXCEEDED_MESSAGE,
            );
        }
        self.memory.note_restart_all(&self.pod, &self.runtime);
        self.save();
        fault::point("turn.saved");
        let plan = lifecycle::plan(self.view());
        self.agent.ends.note(&self.uid, lifecycle::is_ending(&self.view(), &plan));
        // Before a pod is forgotten its last status is written there, after its events. An API server that is away keeps
        // nothing from being done here, and one that is slow does not hold it up.
        let due = if plan.actions.contains(&Action::Forget) { None } else { self.status_due() };
        let client = self.agent.client.clone();
        let (written, acted) =
            tokio::join!(write_due(&client, due.as_ref()), self.act_in_order(&plan.actions));
        let shown = self.note_status_written(due, written);
        match acted? {
            actions::Acted::Gone => Ok(Next::Gone),
            actions::Acted::Done => {
                shown?;
                Ok(Next::Again)
            }
            actions::Acted::Nothing => {
                if self.memory.has_left(&self.runtime) {
                    return Ok(Next::Gone);
                }
                shown?;
                Ok(Next::After(self.pause_until(plan.wake_at)))
            }
        }
    }

    /// Carries out what is planned. Answers whether anything has changed, or that the pod is forgotten.
    async fn act_in_order(&mut self, actions: &[Action]) -> Result<actions::Acted, TurnError> {
        let mut all = actions::Acted::Nothing;
        for action in actions {
            let began = std::time::Instant::now();
            let outcome = self.act(action).await?;
            tracing::debug!(pod = self.name(), took = ?began.elapsed(), ?action, ?outcome, "acted");
            match outcome {
                actions::Acted::Done => all = actions::Acted::Done,
                actions::Acted::Nothing => {}
                actions::Acted::Gone => return Ok(actions::Acted::Gone),
            }
            self.save();
        }
        Ok(all)
    }

    fn pause_until(&self, wake_at: Option<lifecycle::BootTime>) -> Duration {
        let resync = self.resync();
        let Some(wake_at) = wake_at else {
            return resync;
        };
        let left = wake_at.millis_since(clock::now().boot);
        // One millisecond more, so that the timer has really ended when the clock is read again.
        Duration::from_millis(left + 1).min(resync)
    }

    /// Takes in what has happened.
    async fn read_news(&mut self) {
        let news = self.inbox.take();
        if let Some(pod) = news.pod {
            let metadata_changed = self.pod.metadata.labels != pod.metadata.labels
                || self.pod.metadata.annotations != pod.metadata.annotations;
            if metadata_changed || self.pod.spec != pod.spec {
                self.memory.retry_failed_starts();
                self.volumes_ready = false;
            }
            self.pod = pod;
        }
        if let Some(mirror) = news.mirror {
            let uid = |pod: &Option<Arc<Pod>>| pod.as_ref().and_then(|pod| pod.metadata.uid.clone());
            if uid(&mirror) != uid(&self.mirror) {
                self.written = None;
            }
            self.mirror = mirror;
        }
        if news.sources_changed {
            self.memory.retry_failed_starts();
            self.volumes_ready = false;
        }
        for id in news.ended_stops {
            self.under_way.stops.remove(&id);
        }
        for end in &news.hook_ends {
            self.hook_ended(end);
        }
        self.health.extend(news.health);
        self.memory.note_object(&self.pod, news.vanished, clock::now());
        if let Some(leave) = news.leave {
            self.memory.note_node_leaves(&self.pod, leave.longest_grace, clock::now());
        }
        if let Some(message) = news.eviction
            && self.memory.note_evicted(&message, clock::now())
        {
            self.agent.pod_event(&self.pod, EventType::Warning, event::EVICTED, message);
        }
    }

    /// Looks at the runtime and remembers what ended.
    async fn look(&mut self) -> Result<(), TurnError> {
        let mut runtime = observe_pod(&self.agent.runtime, &self.uid, &self.memory, &self.runtime).await?;
        self.read_termination_messages(&mut runtime);
        self.tell_losses(&runtime).await;
        self.memory.note_observed(&self.pod, &runtime, clock::now());
        self.runtime = runtime;
        self.health.retain(|id, _| self.runtime.container(id).is_some());
        self.probes.follow(&self.agent, &self.inbox, &self.pod, &self.runtime, &self.memory);
        if self.tokens.until_renewal(clock::now()) == Some(0) {
            self.volumes_ready = false;
        }
        if !self.volumes_ready && self.memory.stop.is_none() && self.runtime.ready_sandbox().is_some() {
            // The agent was restarted, a source has changed, or a token has to be renewed.
            self.set_up_volumes().await;
        }
        Ok(())
    }

    fn view(&self) -> PodView<'_> {
        PodView {
            pod: &self.pod,
            runtime: &self.runtime,
            memory: &self.memory,
            health: &self.health,
            under_way: &self.under_way,
            spec_hash: labels::container_hash,
            now: clock::now(),
        }
    }

    /// Writes the state file if it has to change. A full disk does not stop the pod: what is lost is what a restart of the
    /// agent would have known.
    fn save(&mut self) {
        let is_saved =
            |(pod, memory): &(Arc<Pod>, PodMemory)| *memory == self.memory && is_kept_alike(pod, &self.pod);
        if self.saved.as_ref().is_some_and(is_saved) {
            return;
        }
        let text = self.agent.store.render(&self.pod, &self.memory);
        self.note_saved(self.agent.store.write(&self.uid, &text));
    }

    fn note_saved(&mut self, written: std::io::Result<()>) {
        match written {
            Ok(()) => self.saved = Some((self.pod.clone(), self.memory.clone())),
            Err(error) => tracing::warn!(pod = self.name(), %error, "the state of the pod was not saved"),
        }
    }

    /// Writes the state file so that it survives the machine, too: what is done next must not be done without it.
    fn save_durably(&mut self) {
        let text = self.agent.store.render(&self.pod, &self.memory);
        self.note_saved(self.agent.store.write_durably(&self.uid, &text));
    }

    /// Writes the status if it has changed.
    async fn show_status(&mut self) -> Result<(), TurnError> {
        let due = self.status_due();
        let written = write_due(&self.agent.client, due.as_ref()).await;
        self.note_status_written(due, written)
    }

    /// The status that has to be written: nothing if the API has it already.
    fn status_due(&self) -> Option<StatusDue> {
        if self.memory.vanished || !self.agent.has_api {
            return None;
        }
        // A static pod without a mirror is shown nowhere (yet).
        let shown = self.shown_by()?;
        let pod = self.pod_with_written_conditions(&shown);
        let view = PodView { pod: &pod, ..self.view() };
        let mut status = lifecycle::status(&view, &self.agent.node_identity());
        crate::status_details::add_details(&mut status, &pod);
        let current = self.written.as_ref().or(shown.status.as_ref());
        if current == Some(&status) {
            return None;
        }
        let from = current.cloned();
        Some(StatusDue { shown, from, to: status })
    }

    fn note_status_written(
        &mut self,
        due: Option<StatusDue>,
        written: kube::Result<StatusWritten>,
    ) -> Result<(), TurnError> {
        match written? {
            // That the object is gone the watch will say too; until then there is nobody to tell.
            StatusWritten::Written | StatusWritten::Gone => {
                if let Some(due) = due {
                    self.written = Some(due.to);
                }
                Ok(())
            }
        }
    }

    /// The object by which the API shows the pod.
    fn shown_by(&self) -> Option<Arc<Pod>> {
        if is_static(&self.pod) { self.mirror.clone() } else { Some(self.pod.clone()) }
    }

    /// The pod with the status of the object that shows it, and the conditions that this worker wrote last: the copy from the
    /// watch may be older.
    fn pod_with_written_conditions(&self, shown: &Pod) -> Pod {
        let mut pod = Pod::clone(&self.pod);
        pod.status.clone_from(&shown.status);
        pod.metadata.generation = shown.metadata.generation;
        let Some(written) = &self.written else {
            return pod;
        };
        let status = pod.status.get_or_insert_default();
        let own = written.conditions.clone().unwrap_or_default();
        let foreign = status.conditions.take().unwrap_or_default();
        let mut conditions: Vec<_> = own.into_iter().filter(|one| is_own_condition(&one.type_)).collect();
        conditions.extend(foreign.into_iter().filter(|other| !is_own_condition(&other.type_)));
        status.conditions = Some(conditions);
        status.pod_ips.clone_from(&written.pod_ips);
        pod
    }
}

/// A status on its way to the API.
struct StatusDue {
    /// The object that shows it.
    shown: Arc<Pod>,
    from: Option<PodStatus>,
    to: PodStatus,
}

async fn write_due(client: &kube::Client, due: Option<&StatusDue>) -> kube::Result<StatusWritten> {
    let Some(due) = due else {
        return Ok(StatusWritten::Written);
    };
    let change = StatusChange { pod: &due.shown, from: due.from.as_ref(), to: &due.to };
    fault::point("status.due");
    let written = write_status(client, change).await?;
    fault::point("status.written");
    Ok(written)
}

fn pause(failures: u32) -> Duration {
    Duration::from_millis(250).saturating_mul(1 << failures.min(6)).min(LONGEST_PAUSE)
}
