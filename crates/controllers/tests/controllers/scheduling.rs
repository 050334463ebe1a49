//! Pods get nodes, hear why there is none, and are looked at again when something changes.

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::cluster::Cluster;

const TAIL: &str = "no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.";

fn condition(pod: &Pod) -> Option<(&str, &str, &str)> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let one = conditions.iter().find(|one| one.type_ == "PodScheduled")?;
    Some((&one.status, one.reason.as_deref().unwrap_or_default(), one.message.as_deref().unwrap_or_default()))
}

pub(crate) fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (field, value) in spec.as_object().expect("fields") {
        pod["spec"][field] = value.clone();
    }
    pod
}

impl Cluster {
    pub(crate) async fn patch_node(&self, name: &str, patch: Value) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        nodes.patch(name, &PatchParams::default(), &Patch::Strategic(&patch)).await.expect("patched");
    }

    pub(crate) async fn pod_until(&self, name: &str, what: &str, holds: impl Fn(&Pod) -> bool) {
        let key = informer::ObjectKey::new("default", name);
        self.until(&format!("pod {name} {what}"), |seen| seen.pods.get(&key).is_some_and(|pod| holds(&pod)))
            .await;
    }

    pub(crate) async fn runs_on(&self, name: &str, node: &str) {
        self.pod_until(name, &format!("runs on {node}"), |pod| {
            let on = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            on == Some(node) && phase == Some("Running")
        })
        .await;
    }

    async fn waits(&self, name: &str, message: &str) {
        self.pod_until(name, &format!("waits with {message}"), |pod| {
            condition(pod).is_some_and(|(status, reason, said)| {
                (status, reason) == ("False", "Unschedulable") && said.contains(message)
            })
        })
        .await;
    }

    /// Waits for an event about a pod, as `Type Reason: message`.
    pub(crate) async fn event(&self, pod: &str, wanted: &str) {
        let events: Api<Event> = self.api();
        loop {
            let all = events.list(&ListParams::default()).await.expect("listed");
            let found = all.items.iter().any(|event| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                event.involved_object.name.as_deref() == Some(pod)
                    && format!("{} {}: {}", text(&event.type_), text(&event.reason), text(&event.message))
                        == wanted
            });
            if found {
                return;
            }
            // The recorder writes it when it comes to it; asking again lets it.
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_no_node_fits_waits_with_the_schedulers_message_until_the_node_changes() {
    let cluster = Cluster::new().await;
    let _: Pod = cluster.create(pod("p", json!({"nodeSelector": {"disk": "ssd"}}))).await;
    let message =
        format!("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. {TAIL}");
    cluster.waits("p", &message).await;
    cluster.event("p", &format!("Warning FailedScheduling: {message}")).await;
    cluster.patch_node("node-1", json!({"metadata": {"labels": {"disk": "ssd"}}})).await;
    cluster.runs_on("p", "node-1").await;
    cluster.pod_until("p", "is scheduled", |pod| condition(pod) == Some(("True", "", ""))).await;
    cluster.event("p", "Normal Scheduled: Successfully assigned default/p to node-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cordons_and_taints_keep_pods_out() {
    let cluster = Cluster::new().await;
    cluster.patch_node("node-1", json!({"spec": {"unschedulable": true}})).await;
    let _: Pod = cluster.create(pod("p", json!({}))).await;
    cluster.waits("p", "1 node(s) were unschedulable").await;
    let tainted = json!({"spec": {"unschedulable": null, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}});
    cluster.patch_node("node-1", tainted).await;
    cluster.waits("p", "1 node(s) had untolerated taint(s)").await;
    let _: Pod =
        cluster.create(pod("tolerant", json!({"tolerations": [{"key": "k", "operator": "Exists"}]}))).await;
    cluster.runs_on("tolerant", "node-1").await;
    cluster.patch_node("node-1", json!({"spec": {"taints": null}})).await;
    cluster.runs_on("p", "node-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_waits_for_a_port_that_another_holds() {
    let cluster = Cluster::new().await;
    let with_port = json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}]}]});
    let _: Pod = cluster.create(pod("first", with_port.clone())).await;
    cluster.runs_on("first", "node-1").await;
    let _: Pod = cluster.create(pod("second", with_port)).await;
    cluster.waits("second", "1 node(s) didn't have free ports for the requested pod ports").await;
    cluster.waits("second", "1 No preemption victims found for incoming pod.").await;
    cluster.api::<Pod>().delete("first", &DeleteParams::default()).await.expect("deleted");
    cluster.runs_on("second", "node-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduling_gates_hold_a_pod_until_the_last_one_is_gone() {
    let cluster = Cluster::new().await;
    let gates = json!({"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}]});
    let _: Pod = cluster.create(pod("p", gates)).await;
    let message = "Scheduling is blocked due to non-empty scheduling gates";
    cluster
        .pod_until("p", "is gated", |pod| condition(pod) == Some(("False", "SchedulingGated", message)))
        .await;
    let left = |gates: Value| Patch::Merge(json!({"spec": {"schedulingGates": gates}}));
    let (pods, params) = (cluster.api::<Pod>(), PatchParams::default());
    pods.patch("p", &params, &left(json!([{"name": "example.com/b"}]))).await.expect("patched");
    // A pod that is created later and runs shows that the scheduler has passed by.
    let _: Pod = cluster.create(pod("probe", json!({}))).await;
    cluster.runs_on("probe", "node-1").await;
    let gated = pods.get("p").await.expect("there");
    assert_eq!(gated.spec.and_then(|spec| spec.node_name), None);
    pods.patch("p", &params, &left(json!([]))).await.expect("patched");
    cluster.runs_on("p", "node-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_for_another_scheduler_is_left_to_it() {
    let cluster = Cluster::new().await;
    let _: Pod = cluster.create(pod("p", json!({"schedulerName": "mine"}))).await;
    let _: Pod = cluster.create(pod("probe", json!({}))).await;
    cluster.runs_on("probe", "node-1").await;
    let pods = cluster.api::<Pod>();
    assert_eq!(condition(&pods.get("p").await.expect("there")), None);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"}});
    let params = PostParams::default();
    pods.create_subresource::<_, Value>("binding", "p", &params, &binding).await.expect("bound");
    cluster.runs_on("p", "node-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_spread_over_nodes_and_a_restarted_scheduler_goes_on_where_it_was() {
    let mut cluster = Cluster::new().await;
    cluster.add_node("node-2").await;
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "s"}}, "topologyKey": "kubernetes.io/hostname"}]}}});
    let of_app = |name: &str| {
        let mut pod = pod(name, apart.clone());
        pod["metadata"]["labels"] = json!({"app": "s"});
        pod
    };
    let _: Pod = cluster.create(of_app("a")).await;
    cluster
        .pod_until("a", "is placed", |pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()))
        .await;
    cluster.stop().await;
    let _: Pod = cluster.create(of_app("b")).await;
    let _: Pod = cluster.create(of_app("c")).await;
    cluster.start();
    let waiting = "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.";
    cluster
        .until("two run and one waits", |seen| {
            let pods = seen.pods.in_namespace("default");
            let nodes: std::collections::BTreeSet<_> =
                pods.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()).collect();
            let waits = pods
                .iter()
                .filter(|pod| condition(pod).is_some_and(|(_, _, said)| said.starts_with(waiting)));
            nodes.len() == 2 && waits.count() == 1
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pods_at_once_are_all_placed() {
    let cluster = Cluster::new().await;
    cluster.add_node("node-2").await;
    for number in 0..110 {
        let _: Pod = cluster.create(pod(&format!("p{number}"), json!({}))).await;
    }
    cluster
        .until("all run, half of them on each node", |seen| {
            let pods = seen.pods.in_namespace("default");
            let on = |node: &str| {
                pods.iter()
                    .filter(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(node))
                    .count()
            };
            on("node-1") == 55 && on("node-2") == 55
        })
        .await;
}
