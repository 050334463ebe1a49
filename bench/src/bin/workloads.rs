//! Measures what controllers cost, from outside: a Deployment of 50 beside 50 pods that the client creates itself, once with pods
//! that no node takes (then nothing but the controllers is between the request and the last pod), once with pods that run.
//!
//! `cargo run --release -p bench --bin workloads -- target/release/coracle 10` (as root): the number is that of rounds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bench::Outcome;
use bench::figures::print_times;
use bench::node::Node;
use bench::phases::Phases;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const REPLICAS: usize = 50;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let binary = arguments.next().map_or_else(|| PathBuf::from("target/release/coracle"), PathBuf::from);
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(5);
    bench::run(measure(&binary, rounds))
}

/// What the pods are.
#[derive(Clone, Copy)]
enum Kind {
    /// No node takes them.
    Homeless,
    Running,
}

async fn measure(binary: &Path, rounds: usize) -> Outcome<()> {
    let place = tempfile::tempdir()?;
    let node = Node::up(binary, &place.path().join("node"))?;
    let world = World::of(&node).await?;
    // The first ones pay for what is made once.
    world.deployment(Kind::Running, 2).await?;
    world.clear().await?;
    for (kind, what) in [(Kind::Homeless, "all there"), (Kind::Running, "all Running")] {
        let (mut floor, mut whole, mut shrunk) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            floor.push(world.pods_alone(kind).await?);
            world.clear().await?;
            whole.push(world.deployment(kind, REPLICAS).await?);
            shrunk.push(world.shrink().await?);
            world.clear().await?;
        }
        print_times(&format!("{REPLICAS} pods of the client's, create to {what}"), floor);
        print_times(&format!("Deployment of {REPLICAS}, create to {what}"), whole);
        print_times(&format!("the same scaled to 0, to all gone ({what} before)"), shrunk);
    }
    Ok(())
}

struct World {
    pods: Api<Pod>,
    deployments: Api<Deployment>,
    phases: Phases,
}

impl World {
    async fn of(node: &Node) -> Outcome<World> {
        let client = node.client().await?;
        let pods = Api::<Pod>::default_namespaced(client.clone());
        let phases = Phases::of(&pods);
        Ok(World { pods, deployments: Api::default_namespaced(client), phases })
    }

    async fn until(&self, kind: Kind, count: usize) -> Outcome<()> {
        let is_done = |seen: &BTreeMap<String, String>| {
            let counted = match kind {
                Kind::Homeless => seen.len(),
                Kind::Running => seen.values().filter(|phase| *phase == "Running").count(),
            };
            counted == count
        };
        self.phases.until(is_done).await
    }

    /// Pods that the client creates itself, all at once.
    async fn pods_alone(&self, kind: Kind) -> Outcome<Duration> {
        let texts: Vec<Pod> = (0..REPLICAS)
            .map(|number| {
                let mut pod = template(kind);
                pod["metadata"]["name"] = json!(format!("alone-{number}"));
                serde_json::from_value(pod)
            })
            .collect::<Result<_, _>>()?;
        let began = Instant::now();
        let parameters = PostParams::default();
        futures::future::try_join_all(texts.iter().map(|pod| self.pods.create(&parameters, pod))).await?;
        self.until(kind, REPLICAS).await?;
        Ok(began.elapsed())
    }

    async fn deployment(&self, kind: Kind, replicas: usize) -> Outcome<Duration> {
        let deployment = json!({
            "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template(kind)},
        });
        let deployment = serde_json::from_value(deployment)?;
        let began = Instant::now();
        self.deployments.create(&PostParams::default(), &deployment).await?;
        self.until(kind, replicas).await?;
        Ok(began.elapsed())
    }

    async fn shrink(&self) -> Outcome<Duration> {
        let began = Instant::now();
        let patch = Patch::Merge(json!({"spec": {"replicas": 0}}));
        self.deployments.patch("web", &PatchParams::default(), &patch).await?;
        self.until(Kind::Homeless, 0).await?;
        Ok(began.elapsed())
    }

    async fn clear(&self) -> Outcome<()> {
        let all = ListParams::default();
        self.deployments.delete_collection(&DeleteParams::background(), &all).await?;
        let at_once = DeleteParams::default().grace_period(0);
        // Those of a deployment go with it.
        self.pods.delete_collection(&at_once, &all).await?;
        self.until(Kind::Homeless, 0).await
    }
}

fn template(kind: Kind) -> Value {
    let mut spec = json!({
        "terminationGracePeriodSeconds": 0,
        "containers": [{
            "name": "c", "image": "coracle.dev/host", "imagePullPolicy": "IfNotPresent", "command": ["sleep", "100000"],
        }],
    });
    if matches!(kind, Kind::Homeless) {
        spec["nodeSelector"] = json!({"bench.coracle.dev/nowhere": "true"});
    }
    json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})
}
