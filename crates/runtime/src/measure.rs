//! Figures of containers and sandboxes, read on threads that may wait for the disk.

use std::fs;
use std::sync::Arc;

use cri::v1;

use crate::container::Container;
use crate::runtime::{Runtime, RuntimeState, now};
use crate::sandbox::Sandbox;
use crate::stats;

impl Runtime {
    /// Figures of containers, in the order given.
    pub(crate) async fn measure_containers(
        &self,
        containers: Vec<Arc<Container>>,
    ) -> Vec<v1::ContainerStats> {
        let state = Arc::clone(&self.state);
        tokio::task::spawn_blocking(move || {
            containers.iter().map(|container| container_stats(&state, container)).collect()
        })
        .await
        .unwrap_or_default()
    }

    /// Figures of a sandbox and its containers.
    pub(crate) async fn measure_sandbox(&self, sandbox: Arc<Sandbox>) -> v1::PodSandboxStats {
        let containers = self.measure_containers(self.state.containers_of(&sandbox.id())).await;
        let record = sandbox.record();
        let timestamp = now();
        let group = self.state.cgroup(&record.cgroup_parent);
        let usage = stats::read_group(|controller| group.directory(controller));
        let links = if sandbox.host_network() {
            Vec::new()
        } else {
            let text = fs::read_to_string(format!("/proc/{}/net/dev", record.shim_pid)).unwrap_or_default();
            stats::parse_links(&text)
        };
        v1::PodSandboxStats {
            attributes: Some(v1::PodSandboxAttributes {
                id: record.id,
                metadata: sandbox.config.metadata.clone(),
                labels: sandbox.config.labels.clone(),
                annotations: sandbox.config.annotations.clone(),
            }),
            linux: Some(v1::LinuxPodSandboxStats {
                cpu: usage.cpu_message(timestamp),
                memory: usage.memory_message(timestamp),
                network: stats::network_message(&links, timestamp),
                process: usage.process_message(timestamp),
                containers,
            }),
        }
    }
}

fn container_stats(state: &RuntimeState, container: &Container) -> v1::ContainerStats {
    let timestamp = now();
    let group = state.cgroup(&container.record.cgroup);
    let usage = stats::read_group(|controller| group.directory(controller));
    let layer = container.directory.join("rootfs").join("upper");
    let writable_layer = stats::measure_tree(&layer)
        .ok()
        .map(|usage| usage.message(timestamp, &stats::mount_point_of(&layer)));
    v1::ContainerStats {
        attributes: Some(v1::ContainerAttributes {
            id: container.record.id.clone(),
            metadata: container.config.metadata.clone(),
            labels: container.config.labels.clone(),
            annotations: container.config.annotations.clone(),
        }),
        cpu: usage.cpu_message(timestamp),
        memory: usage.memory_message(timestamp),
        writable_layer,
        swap: usage.swap_message(timestamp),
    }
}
