//! The worker's side of hooks: what is remembered before one begins and after it has ended, and the tasks that carry them
//! out. A hook never keeps the worker from anything; what it holds up is decided by the plan.

use lifecycle::{HookKey, HookKind, HookOutcome, HookSettings, KillReason, StopIntent, hook_handler};
use tokio_util::sync::CancellationToken;

use api::reasons::event;

use super::actions::Acted;
use super::{PodWorker, TurnError};
use crate::clock;
use crate::environment_record::RecordedVariable;
use crate::hooks::{HookEnd, HookJob};
use crate::pod_network::PodNetwork;
use events::EventType;
use fault::contained;

impl PodWorker {
    /// Says that a container is being stopped, and remembers it: its preStop hook comes first.
    pub(super) fn begin_stop(&mut self, id: &str, name: &str, reason: &KillReason, grace: i64) -> Acted {
        self.announce_stop(name, reason);
        let deadline = clock::now().boot.plus_seconds(grace);
        self.memory.note_stopping(
            id,
            StopIntent {
                deadline,
                probe_failed: reason.is_failure(),
                reason: reason.hook_reason(),
                with_hook: true,
            },
        );
        self.save_durably();
        fault::point("stop.begun");
        Acted::Done
    }

    pub(super) fn announce_stop(&self, name: &str, reason: &KillReason) {
        let message = reason.message(name);
        self.agent.container_event(&self.pod, name, EventType::Normal, event::KILLING, message);
    }

    /// Begins the delivery of a hook.
    pub(super) async fn run_hook(
        &mut self,
        key: &HookKey,
        id: Option<&str>,
        number: u32,
    ) -> Result<Acted, TurnError> {
        let Some(handler) = hook_handler(&self.pod, &key.container, key.kind) else {
            return Ok(Acted::Nothing);
        };
        let variables = match key.kind {
            HookKind::PreStart => match self.prepare(&key.container, key.attempt).await? {
                Some(variables) => Some(variables),
                None => return Ok(Acted::Done),
            },
            HookKind::PostRestart | HookKind::PostStart | HookKind::PreStop => None,
        };
        if self.runtime.ready_sandbox().is_some() {
            self.pod_ips().await?;
        }
        let network = crate::probes::pod_network(&self.agent, &self.pod, &self.runtime)
            .unwrap_or_else(|| self.leaving_network());
        let now = clock::now();
        let reason = match (key.kind, id) {
            (HookKind::PreStop, Some(id)) => {
                Some(self.memory.stopping.get(id).map(|intent| intent.reason).unwrap_or_default())
            }
            (HookKind::PreStart | HookKind::PostRestart | HookKind::PostStart | HookKind::PreStop, _) => None,
        };
        self.memory.note_hook_begun(key, now);
        fault::point("hook.noted");
        // Before the hook can have any effect: whoever comes after a crash knows that it may have begun.
        self.save_durably();
        fault::point("hook.intended");
        let job = HookJob {
            agent: self.agent.clone(),
            pod: self.pod.clone(),
            handler,
            key: key.clone(),
            id: id.map(str::to_owned),
            number,
            reason,
            network,
            variables,
        };
        let given_up = CancellationToken::new();
        self.hooks.insert(key.clone(), given_up.clone().drop_guard());
        self.under_way.hooks.insert(key.clone());
        self.hold_health_checks();
        let (inbox, key) = (self.inbox.clone(), key.clone());
        self.agent.spawn(async move {
            let end = contained("hook", job.run(given_up)).await.unwrap_or_else(|| {
                let message = "the node agent met an internal error while the hook ran".to_owned();
                Some(HookEnd { key, outcome: HookOutcome::Failed, message })
            });
            if let Some(end) = end {
                inbox.put_hook_end(end);
            }
        });
        Ok(Acted::Done)
    }

    /// The network of a pod whose sandbox is not ready any more: it may still stand, with the addresses that were shown.
    fn leaving_network(&self) -> PodNetwork {
        let sandbox = self.runtime.sandboxes.first().map(|sandbox| sandbox.id.as_str());
        let shown = self.written.as_ref().or(self.pod.status.as_ref());
        let addresses: Vec<String> = shown
            .and_then(|status| status.pod_ips.as_deref())
            .map(|ips| ips.iter().map(|ip| ip.ip.clone()).collect())
            .unwrap_or_default();
        PodNetwork::new(&self.agent, &self.pod, sandbox.unwrap_or_default(), &addresses)
    }

    /// Makes sure that a container could be created right now, so that its preStart hook is the last thing before that.
    /// `None`: it cannot, and that is noted.
    async fn prepare(
        &mut self,
        name: &str,
        attempt: u32,
    ) -> Result<Option<Vec<RecordedVariable>>, TurnError> {
        let pod = self.pod.clone();
        let Some(container) = lifecycle::pod_container(&pod, name) else {
            return Ok(None);
        };
        if !self.can_start(name).await {
            return Ok(None);
        }
        let pod_ips = self.pod_ips().await?;
        let inbox = self.inbox.clone();
        let prepared =
            crate::start::prepare(&self.agent, &pod, container.spec, attempt, &pod_ips, inbox.stop_wanted());
        match prepared.await {
            Ok((_, configured)) => Ok(Some(crate::environment_record::declared(&configured))),
            Err(error) => {
                self.note_start_failed(name, &error);
                Ok(None)
            }
        }
    }

    /// Waits no longer for a hook.
    pub(super) fn abandon_hook(&mut self, key: &HookKey) -> Acted {
        self.hooks.remove(key);
        self.under_way.hooks.remove(key);
        self.memory.note_hook_ended(key, HookOutcome::Abandoned);
        self.hold_health_checks();
        self.save_durably();
        Acted::Done
    }

    /// Remembers how a hook ended, and what its container waits for when it failed.
    pub(super) fn hook_ended(&mut self, end: &HookEnd) {
        if !self.under_way.hooks.remove(&end.key) {
            // It was given up in the meantime.
            return;
        }
        self.hooks.remove(&end.key);
        self.memory.note_hook_ended(&end.key, end.outcome);
        let failed = match end.outcome {
            HookOutcome::Failed => true,
            HookOutcome::Succeeded | HookOutcome::Abandoned => false,
        };
        if let Some(reason) = end.key.kind.waiting_reason().filter(|_| failed) {
            let (name, message) = (&end.key.container, end.message.clone());
            match end.key.kind {
                HookKind::PreStart => {
                    self.memory.note_start_failed(name, reason, message, clock::now());
                }
                HookKind::PostRestart | HookKind::PostStart | HookKind::PreStop => {
                    self.memory.note_hook_failed(name, reason, message);
                }
            }
        }
        fault::point("hook.ended");
        self.hold_health_checks();
        self.save_durably();
        fault::point("hook.completed");
    }

    /// By the documents' contract nothing of the pod is probed while a hook runs.
    fn hold_health_checks(&self) {
        let hold = !self.under_way.hooks.is_empty() && HookSettings::of(&self.pod).document;
        self.inbox.hold_health_checks(hold);
    }
}
