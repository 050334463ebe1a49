//! Learns what happens in the runtime: from its stream of events, or, where it has none, by comparing lists.

use std::collections::BTreeMap;
use std::time::Duration;

use cri::v1;

use crate::agent::SharedAgent;
use crate::labels;
use crate::pods::{PodsHandle, PodsMessage};

/// How often a runtime without events is asked.
const RELIST: Duration = Duration::from_secs(1);

/// Tells `pods` what happens in the runtime, for ever.
pub(crate) async fn watch_runtime(agent: SharedAgent, pods: PodsHandle) {
    loop {
        match agent.runtime.get_container_events(v1::GetEventsRequest {}).await {
            Ok(answer) => {
                // What happened before the stream began is seen by looking once.
                pods.tell(PodsMessage::RuntimeChanged { uid: None });
                follow(answer.into_inner(), &pods).await;
            }
            Err(status) if status.code() == tonic::Code::Unimplemented => {
                relist(&agent, &pods).await;
            }
            Err(status) => tracing::warn!(error = status.message(), "the runtime's events cannot be read"),
        }
        tokio::time::sleep(RELIST).await;
    }
}

async fn follow(mut events: tonic::Streaming<v1::ContainerEventResponse>, pods: &PodsHandle) {
    loop {
        match events.message().await {
            Ok(Some(event)) => {
                let sandbox = event.pod_sandbox_status;
                let uid = sandbox.and_then(|sandbox| sandbox.metadata).map(|metadata| metadata.uid);
                let uid = uid.filter(|uid| !uid.is_empty());
                pods.tell(PodsMessage::RuntimeChanged { uid });
            }
            Ok(None) => return,
            Err(status) => {
                tracing::warn!(error = status.message(), "the runtime's events were interrupted");
                return;
            }
        }
    }
}

type Snapshot = BTreeMap<String, (String, i32)>;

/// Compares lists until one cannot be had.
async fn relist(agent: &SharedAgent, pods: &PodsHandle) {
    let mut before = Snapshot::new();
    loop {
        let now = match snapshot(agent).await {
            Ok(now) => now,
            Err(status) => {
                tracing::warn!(error = status.message(), "the runtime's containers cannot be listed");
                return;
            }
        };
        for uid in changed_pods(&before, &now) {
            pods.tell(PodsMessage::RuntimeChanged { uid: Some(uid) });
        }
        before = now;
        tokio::time::sleep(RELIST).await;
    }
}

/// Pod and state of every sandbox and container, by identifier.
async fn snapshot(agent: &SharedAgent) -> Result<Snapshot, tonic::Status> {
    let runtime = &agent.runtime;
    let sandboxes = runtime.list_pod_sandbox(v1::ListPodSandboxRequest::default()).await?.into_inner().items;
    let containers =
        runtime.list_containers(v1::ListContainersRequest::default()).await?.into_inner().containers;
    let uid = |labels: &BTreeMap<String, String>| labels.get(labels::POD_UID).cloned().unwrap_or_default();
    let mut snapshot: Snapshot =
        sandboxes.into_iter().map(|sandbox| (sandbox.id, (uid(&sandbox.labels), sandbox.state))).collect();
    snapshot.extend(
        containers.into_iter().map(|container| (container.id, (uid(&container.labels), container.state))),
    );
    Ok(snapshot)
}

fn changed_pods(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let mut changed: Vec<String> = now
        .iter()
        .filter(|(id, state)| before.get(*id) != Some(state))
        .chain(before.iter().filter(|(id, _)| !now.contains_key(*id)))
        .map(|(_, (uid, _))| uid.clone())
        .collect();
    changed.sort();
    changed.dedup();
    changed
}

#[cfg(test)]
mod tests {
    use super::{Snapshot, changed_pods};

    #[test]
    fn what_appeared_changed_or_went_away_concerns_its_pod() {
        let snapshot = |rows: &[(&str, &str, i32)]| -> Snapshot {
            rows.iter().map(|(id, uid, state)| ((*id).to_owned(), ((*uid).to_owned(), *state))).collect()
        };
        let before = snapshot(&[("1", "a", 0), ("2", "b", 0), ("3", "c", 0)]);
        let now = snapshot(&[("1", "a", 0), ("2", "b", 1), ("4", "d", 0)]);
        assert_eq!(changed_pods(&before, &now), ["b", "c", "d"]);
        assert!(changed_pods(&now, &now).is_empty());
    }
}
