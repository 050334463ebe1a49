//! The node's object: registered at the start, its status confirmed from time to time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cri::v1;
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus,
    NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use serde_json::json;

use api::reasons::event;

use crate::agent::SharedAgent;
use crate::api_error::Brief;
use crate::clock;
use crate::pod_source::without_managers;
use events::EventType;

/// An unchanged status is written this often all the same.
const REPORT: Duration = Duration::from_secs(300);

/// Most pods of a node.
const PODS: u32 = 110;

/// What this machine has, as quantities.
pub(crate) fn machine_capacity(root_dir: &Path) -> BTreeMap<String, String> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = rustix::system::sysinfo();
    #[allow(clippy::useless_conversion)] // the kernel's types differ by architecture
    let bytes = u64::from(memory.totalram).saturating_mul(u64::from(memory.mem_unit));
    let mut capacity = BTreeMap::from([
        ("cpu".to_owned(), cpus.to_string()),
        ("memory".to_owned(), format!("{}Ki", bytes / 1024)),
        ("pods".to_owned(), PODS.to_string()),
    ]);
    if let Ok(disk) = rustix::fs::statvfs(root_dir) {
        let bytes = disk.f_blocks.saturating_mul(disk.f_frsize);
        capacity.insert("ephemeral-storage".to_owned(), format!("{}Ki", bytes / 1024));
    }
    capacity
}

/// Registers the node and keeps its status true, for ever.
pub(crate) async fn keep_node(agent: SharedAgent) {
    let nodes: Api<Node> = Api::all(agent.client.clone());
    let mut pause = Duration::from_millis(100);
    let mut said = String::new();
    while let Err(error) = register(&agent, &nodes).await {
        let error = Brief(&error).to_string();
        // It is tried until it works; the log needs each reason once.
        if said != error {
            tracing::warn!(%error, "the node could not be registered; trying again");
            said = error;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(7));
    }
    agent.node_event(EventType::Normal, event::STARTING, "Starting kubelet.");
    let mut written: Option<(NodeStatus, std::time::Instant)> = None;
    loop {
        let ready = runtime_ready(&agent).await;
        let status = node_status(&agent, ready.as_deref(), written.as_ref().map(|(status, _)| status));
        let due = written.as_ref().is_none_or(|(old, at)| at.elapsed() >= REPORT || differs(old, &status))
            || is_misjudged(&agent, &status);
        if due {
            let name = &agent.config.node_name;
            let patch = json!({"status": status});
            match nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await {
                Ok(_) => {
                    if written.is_none() && ready.is_none() {
                        let message = format!("Node {name} status is now: NodeReady");
                        agent.node_event(EventType::Normal, event::NODE_READY, message);
                    }
                    written = Some((status, std::time::Instant::now()));
                    if !agent.config.renews_lease {
                        crate::lease::renew(&agent).await;
                    }
                }
                Err(kube::Error::Api(answer)) if answer.code == 404 => {
                    // Somebody deleted the node's object: it comes back.
                    if let Err(error) = register(&agent, &nodes).await {
                        tracing::warn!(error = %Brief(&error), "the node could not be registered");
                    }
                    written = None;
                }
                Err(error) => {
                    tracing::warn!(error = %Brief(&error), "the status of the node was not written");
                }
            }
        }
        tokio::time::sleep(agent.config.heartbeat).await;
    }
}

/// Follows the node's object: its labels, taints and what it offers are what pods are held against.
pub(crate) async fn watch_node(agent: SharedAgent) {
    let nodes: Api<Node> = Api::all(agent.client.clone());
    let selector = watcher::Config::default().fields(&format!("metadata.name={}", agent.config.node_name));
    let mut events = std::pin::pin!(watcher::watcher(nodes, selector).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(node) | Event::InitApply(node)) => {
                agent.node.send_if_modified(|known| {
                    let changed = known.as_ref().is_none_or(|known| offers_differ(known, &node));
                    *known = Some(Arc::new(without_managers(node)));
                    changed
                });
            }
            // A deleted node is registered again at the next heartbeat; until then the last word counts.
            Ok(Event::Delete(_) | Event::Init | Event::InitDone) => {}
            Err(error) => tracing::warn!(%error, "the watch of the node was interrupted"),
        }
    }
}

/// Whether somebody else has said otherwise of the node's readiness: that it was silent for too long, for instance.
fn is_misjudged(agent: &SharedAgent, own: &NodeStatus) -> bool {
    let ready = |status: Option<&NodeStatus>| {
        let conditions = status.and_then(|status| status.conditions.as_ref());
        conditions.into_iter().flatten().find(|one| one.type_ == "Ready").map(|one| one.status.clone())
    };
    let known = agent.node.borrow().clone();
    known.is_some_and(|known| known.status.is_some() && ready(known.status.as_ref()) != ready(Some(own)))
}

/// Whether a node has changed in what pods are held against.
fn offers_differ(old: &Node, new: &Node) -> bool {
    let allocatable = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
    old.metadata.labels != new.metadata.labels || old.spec != new.spec || allocatable(old) != allocatable(new)
}

/// The node's object as it is registered; a node without an API server has only this one.
pub(crate) fn own_node(agent: &SharedAgent) -> Node {
    let name = &agent.config.node_name;
    let labels = BTreeMap::from([
        ("kubernetes.io/hostname".to_owned(), name.clone()),
        ("kubernetes.io/os".to_owned(), "linux".to_owned()),
        ("kubernetes.io/arch".to_owned(), architecture().to_owned()),
    ]);
    Node {
        metadata: ObjectMeta { name: Some(name.clone()), labels: Some(labels), ..ObjectMeta::default() },
        spec: Some(NodeSpec {
            pod_cidr: agent.config.pod_cidrs.first().cloned(),
            pod_cidrs: Some(agent.config.pod_cidrs.clone()).filter(|ranges| !ranges.is_empty()),
            ..NodeSpec::default()
        }),
        status: Some(node_status(agent, None, None)),
    }
}

async fn register(agent: &SharedAgent, nodes: &Api<Node>) -> kube::Result<()> {
    let name = &agent.config.node_name;
    let node = own_node(agent);
    let labels = node.metadata.labels.clone();
    match nodes.create(&PostParams::default(), &node).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let patch = json!({"metadata": {"labels": labels}});
            let known = nodes.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            // They are given once and for all, perhaps by somebody else.
            if known.spec.is_none_or(|spec| spec.pod_cidrs.is_none() && spec.pod_cidr.is_none())
                && !agent.config.pod_cidrs.is_empty()
            {
                let ranges = &agent.config.pod_cidrs;
                let patch = json!({"spec": {"podCIDR": ranges.first(), "podCIDRs": ranges}});
                nodes.patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// `None` if the runtime is ready, else why it is not.
async fn runtime_ready(agent: &SharedAgent) -> Option<String> {
    match agent.runtime.status(v1::StatusRequest { verbose: false }).await {
        Ok(answer) => {
            let conditions = answer.into_inner().status.map(|status| status.conditions).unwrap_or_default();
            let bad: Vec<String> = conditions
                .into_iter()
                .filter(|condition| !condition.status && condition.r#type.ends_with("Ready"))
                .map(|condition| format!("{}: {} {}", condition.r#type, condition.reason, condition.message))
                .collect();
            (!bad.is_empty()).then(|| bad.join("; "))
        }
        Err(status) => Some(format!("container runtime is down: {}", status.message())),
    }
}

/// Whether two statuses differ in more than their heartbeats.
fn differs(old: &NodeStatus, new: &NodeStatus) -> bool {
    let still = |status: &NodeStatus| {
        let mut status = status.clone();
        for condition in status.conditions.iter_mut().flatten() {
            condition.last_heartbeat_time = None;
        }
        status
    };
    still(old) != still(new)
}

fn node_status(agent: &SharedAgent, not_ready: Option<&str>, old: Option<&NodeStatus>) -> NodeStatus {
    let quantities: BTreeMap<String, Quantity> =
        agent.capacity.iter().map(|(name, value)| (name.clone(), Quantity(value.clone()))).collect();
    let mut addresses: Vec<NodeAddress> = agent
        .config
        .addresses
        .iter()
        .map(|address| NodeAddress { type_: "InternalIP".to_owned(), address: address.clone() })
        .collect();
    addresses.push(NodeAddress { type_: "Hostname".to_owned(), address: agent.config.node_name.clone() });
    let now = Timestamp::now();
    let condition = |type_: &str, good: bool, reason: &str, message: &str| {
        let status = if good { "True" } else { "False" };
        let same = old
            .and_then(|old| old.conditions.as_ref())
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == type_ && condition.status == status);
        NodeCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(Time(now)),
            last_transition_time: same
                .and_then(|condition| condition.last_transition_time.clone())
                .or(Some(Time(now))),
        }
    };
    let ready = match not_ready {
        None => condition("Ready", true, "KubeletReady", "kubelet is posting ready status"),
        Some(why) => condition("Ready", false, "KubeletNotReady", why),
    };
    NodeStatus {
        capacity: Some(quantities.clone()),
        allocatable: Some(quantities),
        addresses: Some(addresses),
        conditions: Some(vec![
            condition(
                "MemoryPressure",
                false,
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            condition("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition(
                "PIDPressure",
                false,
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
            ),
            ready,
        ]),
        daemon_endpoints: Some(NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(agent.config.port) }),
        }),
        node_info: Some(system_information(agent)),
        ..NodeStatus::default()
    }
}

fn system_information(agent: &SharedAgent) -> NodeSystemInfo {
    let read =
        |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let release = read("/etc/os-release");
    let os_image = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"').to_owned());
    let kernel = rustix::system::uname();
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        operating_system: "linux".to_owned(),
        os_image: os_image.unwrap_or_else(|| "Linux".to_owned()),
        kernel_version: kernel.release().to_string_lossy().into_owned(),
        machine_id: read("/etc/machine-id"),
        system_uuid: read("/sys/class/dmi/id/product_uuid"),
        boot_id: clock::boot_id(),
        container_runtime_version: agent.runtime_version(),
        kubelet_version: format!("v1.36.0-coracle.{}", env!("CARGO_PKG_VERSION")),
        kube_proxy_version: String::new(),
        ..NodeSystemInfo::default()
    }
}
