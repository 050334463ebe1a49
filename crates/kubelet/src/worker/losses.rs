//! Says when the runtime no longer has what it had: why, and where the rest is kept, are the runtime's words.

use cri::v1;
use lifecycle::{Lost, RuntimePod};

use api::reasons::event;

use super::PodWorker;
use events::EventType;

impl PodWorker {
    /// Tells each loss once, by an event of the pod; call it before the losses are noted.
    pub(super) async fn tell_losses(&mut self, runtime: &RuntimePod) {
        for lost in self.memory.lost(runtime) {
            let calls = &self.agent.runtime;
            match lost {
                Lost::Sandbox { id } => {
                    self.memory.note_sandbox_lost();
                    if self.memory.stop.is_some() {
                        continue;
                    }
                    let request = v1::PodSandboxStatusRequest { pod_sandbox_id: id, verbose: false };
                    let why = calls.pod_sandbox_status(request).await.err();
                    let message = sentence("The pod's sandbox was lost and is made anew", why);
                    self.agent.pod_event(&self.pod, EventType::Warning, event::SANDBOX_LOST, message);
                }
                Lost::Container { name, id } => {
                    if self.memory.stop.is_some() {
                        continue;
                    }
                    let request = v1::ContainerStatusRequest { container_id: id, verbose: false };
                    let why = calls.container_status(request).await.err();
                    let message = sentence("The container was lost and counts as ended", why);
                    let warning = EventType::Warning;
                    self.agent.container_event(&self.pod, &name, warning, event::CONTAINER_LOST, message);
                }
            }
        }
    }
}

fn sentence(what: &str, why: Option<tonic::Status>) -> String {
    match why {
        Some(status) if !status.message().is_empty() => format!("{what}: {}", status.message()),
        Some(_) | None => what.to_owned(),
    }
}
