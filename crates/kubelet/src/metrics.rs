//! `/metrics` of the node in Prometheus' text form, with the kubelet's own names.
//!
//! Labels come from closed sets: kinds of containers and waiting reasons.

use api::{FEATURES, FeatureGates};
use k8s_openapi::api::core::v1::Pod;
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Gauge, GaugeVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
};

/// The content type of the text form.
pub(crate) const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What one node agent counts.
pub(crate) struct Metrics {
    registry: Registry,
    started_pods: IntCounter,
    started_pods_errors: IntCounter,
    started_containers: IntCounterVec,
    started_containers_errors: IntCounterVec,
    running_pods: IntGauge,
    running_containers: IntGaugeVec,
}

/// As what a container is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContainerType {
    Regular,
    Init,
    Ephemeral,
}

impl ContainerType {
    /// Of a container of a pod.
    pub(crate) fn of(pod: &Pod, name: &str) -> Self {
        let spec = pod.spec.as_ref();
        let is_init = spec
            .and_then(|spec| spec.init_containers.as_ref())
            .is_some_and(|containers| containers.iter().any(|container| container.name == name));
        let is_ephemeral = spec
            .and_then(|spec| spec.ephemeral_containers.as_ref())
            .is_some_and(|containers| containers.iter().any(|container| container.name == name));
        match (is_init, is_ephemeral) {
            (true, _) => Self::Init,
            (false, true) => Self::Ephemeral,
            (false, false) => Self::Regular,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Regular => "container",
            Self::Init => "init_container",
            Self::Ephemeral => "ephemeral_container",
        }
    }
}

impl Metrics {
    /// Counters at zero.
    ///
    /// # Errors
    /// A name or label that is none, or that is there twice: a mistake in this file.
    pub(crate) fn new(node_name: &str, gates: &FeatureGates) -> Result<Metrics, prometheus::Error> {
        let metrics = Metrics {
            registry: Registry::new(),
            started_pods: IntCounter::new("kubelet_started_pods_total", "Sandboxes that were begun.")?,
            started_pods_errors: IntCounter::new(
                "kubelet_started_pods_errors_total",
                "Sandboxes that could not be made.",
            )?,
            started_containers: IntCounterVec::new(
                Opts::new("kubelet_started_containers_total", "Containers that were begun."),
                &["container_type"],
            )?,
            started_containers_errors: IntCounterVec::new(
                Opts::new(
                    "kubelet_started_containers_errors_total",
                    "Containers that could not be started, by waiting reason.",
                ),
                &["container_type", "code"],
            )?,
            running_pods: IntGauge::new("kubelet_running_pods", "Pods with a running container.")?,
            running_containers: IntGaugeVec::new(
                Opts::new("kubelet_running_containers", "Containers of pods, by state."),
                &["container_state"],
            )?,
        };
        let node = GaugeVec::new(Opts::new("kubelet_node_name", "The node, as a label."), &["node"])?;
        let name: Gauge = node.with_label_values(&[node_name]);
        name.set(1.0);
        let features = GaugeVec::new(
            Opts::new("kubernetes_feature_enabled", "Feature gates: 1 is on."),
            &["name", "stage"],
        )?;
        for feature in FEATURES {
            let value = if feature.is_on(gates) { 1.0 } else { 0.0 };
            features.with_label_values(&[feature.name, feature.stage.metric_label()]).set(value);
        }
        let registry = &metrics.registry;
        registry.register(Box::new(metrics.started_pods.clone()))?;
        registry.register(Box::new(metrics.started_pods_errors.clone()))?;
        registry.register(Box::new(metrics.started_containers.clone()))?;
        registry.register(Box::new(metrics.started_containers_errors.clone()))?;
        registry.register(Box::new(metrics.running_pods.clone()))?;
        registry.register(Box::new(metrics.running_containers.clone()))?;
        registry.register(Box::new(node))?;
        registry.register(Box::new(features))?;
        registry.register(Box::new(ProcessCollector::for_self()))?;
        Ok(metrics)
    }

    /// A sandbox is begun.
    pub(crate) fn pod_begun(&self) {
        self.started_pods.inc();
    }

    /// It could not be made.
    pub(crate) fn pod_failed(&self) {
        self.started_pods_errors.inc();
    }

    /// A container is begun.
    pub(crate) fn container_begun(&self, kind: ContainerType) {
        self.started_containers.with_label_values(&[kind.label()]).inc();
    }

    /// It could not be started, for this waiting reason.
    pub(crate) fn container_failed(&self, kind: ContainerType, reason: &'static str) {
        self.started_containers_errors.with_label_values(&[kind.label(), reason]).inc();
    }

    /// Everything as text; `pods` are those of the node, with their statuses.
    ///
    /// # Errors
    /// What cannot be written as text.
    pub(crate) fn render<'p>(
        &self,
        pods: impl Iterator<Item = &'p Pod>,
    ) -> Result<String, prometheus::Error> {
        let (mut running_pods, mut states) = (0, [0_i64; 3]);
        for status in pods.filter_map(|pod| pod.status.as_ref()) {
            let all = [
                &status.init_container_statuses,
                &status.container_statuses,
                &status.ephemeral_container_statuses,
            ];
            let mut runs = false;
            for state in all.into_iter().flatten().flatten().filter_map(|container| container.state.as_ref())
            {
                let place = match (&state.running, &state.terminated) {
                    (Some(_), _) => 0,
                    (None, Some(_)) => 1,
                    (None, None) => 2,
                };
                runs |= place == 0;
                states[place] += 1;
            }
            running_pods += i64::from(runs);
        }
        self.running_pods.set(running_pods);
        for (label, count) in ["running", "exited", "created"].into_iter().zip(states) {
            self.running_containers.with_label_values(&[label]).set(count);
        }
        let mut text = String::new();
        TextEncoder::new().encode_utf8(&self.registry.gather(), &mut text)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ContainerType, Metrics};

    #[test]
    fn pods_and_containers_are_counted_by_what_became_of_them() {
        let metrics = Metrics::new("node-1", &api::FeatureGates::default()).expect("names are right");
        let pod: k8s_openapi::api::core::v1::Pod = serde_json::from_value(json!({
            "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}, {"name": "d"}]},
            "status": {
                "initContainerStatuses": [{"name": "i", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": 0}}}],
                "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "state": {"running": {}}}],
            },
        }))
        .expect("a pod");
        metrics.pod_begun();
        metrics.container_begun(ContainerType::of(&pod, "i"));
        metrics.container_begun(ContainerType::of(&pod, "c"));
        metrics.container_failed(ContainerType::of(&pod, "c"), "CreateContainerConfigError");
        let text = metrics.render([&pod].into_iter()).expect("text");
        for line in [
            "kubelet_started_pods_total 1",
            "kubelet_started_pods_errors_total 0",
            "kubelet_started_containers_total{container_type=\"container\"} 1",
            "kubelet_started_containers_total{container_type=\"init_container\"} 1",
            "kubelet_started_containers_errors_total{code=\"CreateContainerConfigError\",container_type=\"container\"} 1",
            "kubelet_running_pods 1",
            "kubelet_running_containers{container_state=\"running\"} 1",
            "kubelet_running_containers{container_state=\"exited\"} 1",
            "kubelet_node_name{node=\"node-1\"} 1",
        ] {
            assert!(text.lines().any(|each| each == line), "{line}\n{text}");
        }
    }
}
