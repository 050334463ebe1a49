//! Measures a node with many pods, from outside: bursts, deletions, a daemon that is killed among a hundred pods, and churn
//! with a look at what it leaves behind.
//!
//! `cargo run --release -p bench --bin crowd -- target/release/coracle 600` (as root): the number is the churn's seconds; with
//! `churn` behind it there is nothing but the churn. It fails when anything of a pod is left, or memory does not stay level.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::figures::{millis, print_times};
use bench::node::Node;
use bench::phases::{PATIENCE, Phases};
use bench::{Outcome, machine};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, LogParams, PostParams};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"restartPolicy":"Never","terminationGracePeriodSeconds":5,
"containers":[{"name":"c","image":"coracle.dev/host","command":["/bin/sh","-c","trap 'exit 0' TERM; sleep 100000 & wait"]}]}}"#;

/// Pods a second.
const CHURN: u64 = 20;
/// Most pods of the churn at one time; a node takes 110.
const AT_ONCE: usize = 100;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let binary = arguments.next().map_or_else(|| PathBuf::from("target/release/coracle"), PathBuf::from);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(10);
    let only_churn = arguments.next().is_some();
    bench::run(measure(&binary, seconds, only_churn))
}

async fn measure(binary: &Path, seconds: u64, only_churn: bool) -> Outcome<()> {
    let place = tempfile::tempdir()?;
    let mut node = Node::up(binary, &place.path().join("node"))?;
    let mut crowd = Crowd::of(&node).await?;
    // The first pods pay for what is made once.
    crowd.create("warm", 2).await?;
    crowd.delete_all(5).await?;
    if only_churn {
        return churn(&node, &crowd, seconds).await;
    }

    for size in [20, 110] {
        let began = Instant::now();
        crowd.create("burst", size).await?;
        println!("{size} pods at once, create to all Running: {}", millis(began.elapsed()));
        let began = Instant::now();
        crowd.delete_all(0).await?;
        println!("{size} pods at once, delete with grace 0 to all gone: {}", millis(began.elapsed()));
        emptied(&node).await?;
        println!("{size} pods at once, delete with grace 0 to nothing left: {}", millis(began.elapsed()));
    }
    crowd.create("one", 10).await?;
    let mut times = Vec::new();
    for number in 0..10 {
        times.push(crowd.delete(&format!("one{number}"), 0).await?);
    }
    print_times("one pod, delete with grace 0 to gone", times);
    let mut times = Vec::new();
    for number in 0..5 {
        let name = format!("sleeps{number}");
        let pod = POD.replace("\"command\"", r#""lifecycle":{"preStop":{"sleep":{"seconds":1}}},"command""#);
        crowd.create_pod(&pod.replace("NAME", &name)).await?;
        crowd.phases.until(|seen| seen.get(&name).is_some_and(|phase| phase == "Running")).await?;
        times.push(crowd.delete(&name, 5).await?);
    }
    print_times("preStop sleep: 1, delete to gone", times);

    crowd.create("kept", 100).await?;
    let before = crowd.containers().await?;
    node.kill()?;
    let began = Instant::now();
    node = Node::up(binary, &place.path().join("node"))?;
    println!("kill -9 with 100 pods, start to API ready: {}", millis(began.elapsed()));
    crowd = Crowd::of(&node).await?;
    let mut asked = JoinSet::new();
    for number in 0..100 {
        let pods = crowd.pods.clone();
        // The log of a pod comes from the node agent: it has taken the pod over.
        asked.spawn(async move {
            while pods.logs(&format!("kept{number}"), &LogParams::default()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
    }
    tokio::time::timeout(PATIENCE, asked.join_all()).await?;
    println!("kill -9 with 100 pods, start to all adopted: {}", millis(began.elapsed()));
    let changed = crowd.containers().await?.into_iter().filter(|one| !before.contains(one)).count();
    println!("kill -9 with 100 pods, containers that are others than before: {changed}");
    crowd.phases.until(|seen| seen.len() == 100).await?;
    crowd.delete_all(0).await?;
    emptied(&node).await?;

    churn(&node, &crowd, seconds).await
}

/// Pods come and go for a while; then nothing of them may be left. What the daemon holds on the way is shown ten times.
async fn churn(node: &Node, crowd: &Crowd, seconds: u64) -> Outcome<()> {
    let before = holdings(node)?;
    let time_before = machine::processor_time(node.pid())?;
    let memory = || machine::memory(node.pid(), "Private_Dirty:").unwrap_or(0) / 1024;
    let at_start = memory();
    let look = async {
        let mut held = Vec::new();
        loop {
            tokio::time::sleep(Duration::from_secs_f64(seconds as f64 / 10.0)).await;
            held.push((memory(), node.shims().len()));
            if held.len() == 10 {
                break held;
            }
        }
    };
    let began = Instant::now();
    let (churned, held) = tokio::join!(crowd.churn(seconds), look);
    let (pods, took) = (churned?.max(1), began.elapsed().as_secs_f64());
    println!(
        "churn: {pods} pods in {took:.0} s, {:.1} a second; {} a second were wanted",
        pods as f64 / took,
        CHURN
    );
    emptied(node).await?;
    let spent = machine::processor_time(node.pid())?;
    let each = |index: usize| (spent[index] - time_before[index]) as f64 / pods as f64;
    println!(
        "churn, milliseconds of processor time a pod: daemon {:.1} user and {:.1} system; its shims and containers {:.1} and {:.1}",
        each(0),
        each(1),
        each(2),
        each(3)
    );
    let on_the_way: Vec<String> =
        held.iter().map(|(memory, shims)| format!("{memory} ({shims} shims)")).collect();
    println!("churn, private MiB of the daemon on the way: {}", on_the_way.join(", "));
    let (middle, end) = (held[4].0, held[9].0);
    println!(
        "churn, private MiB of the daemon: {at_start} at the start, {middle} in the middle, {end} at the end"
    );
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut after = holdings(node)?;
    // Threads and descriptors of calls that have just ended take a moment; memory is only shown.
    while after.iter().any(|(what, count)| *count > before[what] && !what.contains("KiB"))
        && Instant::now() < deadline
    {
        tokio::time::sleep(Duration::from_millis(100)).await;
        after = holdings(node)?;
    }
    for (what, count) in &after {
        println!("churn, {what}: {} before, {count} after", before[what]);
    }
    let objects = crowd.pods.list(&kube::api::ListParams::default()).await?.items.len();
    println!("churn, pods in the API: {objects} after");
    // Threads and descriptors are the daemon's own affair as long as they do not grow with the pods.
    let own = ["threads of the daemon", "descriptors of the daemon", "private KiB of the daemon"];
    let mut left: Vec<String> = after
        .iter()
        .filter(|(what, count)| !own.contains(what) && **count > before[*what])
        .map(|(what, count)| format!("{what}: {} before, {count} after", before[what]))
        .collect();
    if objects > 0 {
        left.push(format!("{objects} pods in the API"));
    }
    // From the middle on there is nothing new to remember.
    if end > middle + middle / 2 + 8 {
        left.push(format!("memory: {middle} MiB in the middle, {end} MiB at the end"));
    }
    if left.is_empty() {
        println!("churn: nothing is left behind");
        return Ok(());
    }
    Err(format!("left behind: {}", left.join("; ")).into())
}

/// The pods of a node, and what a watch says of them.
#[derive(Clone)]
struct Crowd {
    pods: Api<Pod>,
    phases: Phases,
}

impl Crowd {
    async fn of(node: &Node) -> Outcome<Self> {
        let pods = Api::<Pod>::default_namespaced(node.client().await?);
        let phases = Phases::of(&pods);
        Ok(Self { pods, phases })
    }

    async fn create_pod(&self, text: &str) -> Outcome<()> {
        self.pods.create(&PostParams::default(), &serde_json::from_str(text)?).await?;
        Ok(())
    }

    /// Creates so many pods at once and waits until all run.
    async fn create(&self, prefix: &str, count: usize) -> Outcome<()> {
        let texts: Vec<String> =
            (0..count).map(|number| POD.replace("NAME", &format!("{prefix}{number}"))).collect();
        futures::future::try_join_all(texts.iter().map(|text| self.create_pod(text))).await?;
        self.phases.until(|seen| seen.len() == count && seen.values().all(|phase| phase == "Running")).await
    }

    async fn delete(&self, name: &str, grace: u32) -> Outcome<Duration> {
        let began = Instant::now();
        self.pods.delete(name, &DeleteParams::default().grace_period(grace)).await?;
        self.phases.until(|seen| !seen.contains_key(name)).await?;
        Ok(began.elapsed())
    }

    async fn delete_all(&self, grace: u32) -> Outcome<()> {
        let names = self.phases.names();
        futures::future::try_join_all(names.iter().map(|name| self.delete(name, grace))).await?;
        Ok(())
    }

    /// The identifiers of all containers that run, and how often they were started.
    async fn containers(&self) -> Outcome<BTreeSet<(String, i32)>> {
        let pods = self.pods.list(&kube::api::ListParams::default()).await?.items.into_iter();
        let statuses = pods.filter_map(|pod| pod.status?.container_statuses).flatten();
        Ok(statuses.map(|status| (status.container_id.unwrap_or_default(), status.restart_count)).collect())
    }

    /// Creates pods at a steady rate, and deletes each as soon as it runs.
    async fn churn(&self, seconds: u64) -> Outcome<u64> {
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let mut ticks = tokio::time::interval(Duration::from_millis(1000 / CHURN));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let mut lives = JoinSet::new();
        let mut number = 0;
        while Instant::now() < deadline {
            ticks.tick().await;
            let permit = Arc::clone(&room).acquire_owned().await?;
            let life = self.clone();
            let name = format!("churn{number}");
            number += 1;
            lives.spawn(async move {
                let _permit = permit;
                life.create_pod(&POD.replace("NAME", &name)).await?;
                life.phases.until(|seen| seen.get(&name).is_some_and(|phase| phase == "Running")).await?;
                life.delete(&name, 0).await
            });
            while let Some(ended) = lives.try_join_next() {
                ended??;
            }
        }
        while let Some(ended) = lives.join_next().await {
            ended??;
        }
        Ok(number)
    }
}

/// Waits until nothing of any pod is left: an object that is deleted with grace 0 is gone before its containers are.
async fn emptied(node: &Node) -> Outcome<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let held = holdings(node)?;
        if held["processes"] == 1 && held["directories of pods"] == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("pods are left: {held:?}").into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What the daemon holds, and what the machine has of its pods.
fn holdings(node: &Node) -> Outcome<BTreeMap<&'static str, u64>> {
    let own = PathBuf::from(format!("/proc/{}", node.pid()));
    let data = node.data().to_string_lossy().into_owned();
    let place = node.data().canonicalize()?;
    let groups = network::NodeIdentity::of_data_dir(&place.join("runtime")).table();
    let links = network::NodeIdentity::of_data_dir(&place).interface_prefix();
    let mounts = std::fs::read_to_string(own.join("mountinfo"))?;
    let kept = ["kubelet/pods", "kubelet/logs", "runtime/sandboxes", "images/holds"];
    Ok(BTreeMap::from([
        ("descriptors of the daemon", machine::entries(&own.join("fd"))),
        ("threads of the daemon", machine::entries(&own.join("task"))),
        ("private KiB of the daemon", machine::memory(node.pid(), "Private_Dirty:")?),
        ("mounts", mounts.lines().filter(|line| line.contains(&data)).count() as u64),
        ("processes", machine::processes(&[&data]).count() as u64),
        ("network namespaces", machine::network_namespaces()),
        ("interfaces", machine::interfaces(&links)),
        // The node keeps the one below which its pods have theirs.
        ("control groups", machine::control_groups(&format!("{groups}/"))),
        ("directories of pods", kept.iter().map(|dir| machine::entries(&node.data().join(dir))).sum()),
    ]))
}
