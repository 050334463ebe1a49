//! Measures a node with many pods, from outside: bursts, deletions, a daemon that is killed among a hundred pods, and churn
//! with a look at what it leaves behind.
//!
//! `cargo run --release -p bench --bin crowd -- target/release/coracle 600` (as root): the number is the churn's seconds.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, LogParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"restartPolicy":"Never","terminationGracePeriodSeconds":5,
"containers":[{"name":"c","image":"coracle.dev/host","command":["/bin/sh","-c","trap 'exit 0' TERM; sleep 100000 & wait"]}]}}"#;

/// Pods a second.
const CHURN: u64 = 20;
/// Most pods of the churn at one time; a node takes 110.
const AT_ONCE: usize = 100;
const PATIENCE: Duration = Duration::from_secs(120);

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let binary = arguments.next().map_or_else(|| PathBuf::from("target/release/coracle"), PathBuf::from);
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(10);
    let measured = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(measure(&binary, seconds)));
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(binary: &Path, seconds: u64) -> Outcome<()> {
    let place = tempfile::tempdir()?;
    let mut node = Node::up(binary, &place.path().join("node"))?;
    let mut crowd = Crowd::of(&node).await?;
    // The first pods pay for what is made once.
    crowd.create("warm", 2).await?;
    crowd.delete_all(5).await?;

    for size in [20, 110] {
        let began = Instant::now();
        crowd.create("burst", size).await?;
        println!("{size} pods at once, create to all Running: {}", millis(began.elapsed()));
        let began = Instant::now();
        crowd.delete_all(0).await?;
        println!("{size} pods at once, delete with grace 0 to all gone: {}", millis(began.elapsed()));
        node.emptied().await?;
        println!("{size} pods at once, delete with grace 0 to nothing left: {}", millis(began.elapsed()));
    }
    crowd.create("one", 10).await?;
    let mut times = Vec::new();
    for number in 0..10 {
        times.push(crowd.delete(&format!("one{number}"), 0).await?);
    }
    print("one pod, delete with grace 0 to gone", times);
    let mut times = Vec::new();
    for number in 0..5 {
        let name = format!("sleeps{number}");
        let pod = POD.replace("\"command\"", r#""lifecycle":{"preStop":{"sleep":{"seconds":1}}},"command""#);
        crowd.create_pod(&pod.replace("NAME", &name)).await?;
        crowd.wait(|seen| seen.get(&name).is_some_and(|phase| phase == "Running")).await?;
        times.push(crowd.delete(&name, 5).await?);
    }
    print("preStop sleep: 1, delete to gone", times);

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
    crowd.wait(|seen| seen.len() == 100).await?;
    crowd.delete_all(0).await?;
    node.emptied().await?;

    let before = node.holdings()?;
    let churned = crowd.churn(seconds).await?;
    println!("churn: {churned} pods in {seconds} s");
    node.emptied().await?;
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut after = node.holdings()?;
    // Threads and descriptors of calls that have just ended take a moment; memory is only shown.
    while after.iter().any(|(what, count)| *count > before[what] && !what.contains("KiB"))
        && Instant::now() < deadline
    {
        tokio::time::sleep(Duration::from_millis(100)).await;
        after = node.holdings()?;
    }
    for (what, count) in &after {
        println!("churn, {what}: {} before, {count} after", before[what]);
    }
    Ok(())
}

/// The pods of a node, and what a watch says of them.
struct Crowd {
    pods: Api<Pod>,
    seen: watch::Receiver<BTreeMap<String, String>>,
    _watching: JoinSet<()>,
}

impl Crowd {
    async fn of(node: &Node) -> Outcome<Self> {
        let config = kube::Config::from_custom_kubeconfig(
            kube::config::Kubeconfig::read_from(&node.kubeconfig)?,
            &kube::config::KubeConfigOptions::default(),
        )
        .await?;
        let pods = Api::<Pod>::default_namespaced(kube::Client::try_from(config)?);
        let (send, seen) = watch::channel(BTreeMap::new());
        let mut changes = watcher(pods.clone(), watcher::Config::default()).default_backoff().boxed();
        let mut watching = JoinSet::new();
        watching.spawn(async move {
            while let Some(change) = changes.next().await {
                let Ok(change) = change else { continue };
                send.send_modify(|seen: &mut BTreeMap<String, String>| match change {
                    watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                        let phase = pod.status.and_then(|status| status.phase).unwrap_or_default();
                        seen.insert(pod.metadata.name.unwrap_or_default(), phase);
                    }
                    watcher::Event::Delete(pod) => {
                        seen.remove(&pod.metadata.name.unwrap_or_default());
                    }
                    watcher::Event::Init => seen.clear(),
                    watcher::Event::InitDone => {}
                });
            }
        });
        Ok(Self { pods, seen, _watching: watching })
    }

    async fn wait(&self, wanted: impl FnMut(&BTreeMap<String, String>) -> bool) -> Outcome<()> {
        tokio::time::timeout(PATIENCE, self.seen.clone().wait_for(wanted)).await??;
        Ok(())
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
        self.wait(|seen| seen.len() == count && seen.values().all(|phase| phase == "Running")).await
    }

    async fn delete(&self, name: &str, grace: u32) -> Outcome<Duration> {
        let began = Instant::now();
        self.pods.delete(name, &DeleteParams::default().grace_period(grace)).await?;
        self.wait(|seen| !seen.contains_key(name)).await?;
        Ok(began.elapsed())
    }

    async fn delete_all(&self, grace: u32) -> Outcome<()> {
        let names: Vec<String> = self.seen.borrow().keys().cloned().collect();
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
            let life = Self { pods: self.pods.clone(), seen: self.seen.clone(), _watching: JoinSet::new() };
            let name = format!("churn{number}");
            number += 1;
            lives.spawn(async move {
                let _permit = permit;
                life.create_pod(&POD.replace("NAME", &name)).await?;
                life.wait(|seen| seen.get(&name).is_some_and(|phase| phase == "Running")).await?;
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

fn millis(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let (least, middle, most) = (times[0], times[times.len() / 2], times[times.len() - 1]);
    println!("{what}: min {} p50 {} max {} (n={})", millis(least), millis(middle), millis(most), times.len());
}

struct Node {
    child: Child,
    kubeconfig: PathBuf,
    data: PathBuf,
    binary: PathBuf,
}

impl Node {
    fn up(binary: &Path, data: &Path) -> Outcome<Self> {
        let mut child = Command::new(binary)
            .args(["up", "--listen", "127.0.0.1:0", "--allow-host-image", "--data-dir"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let kubeconfig =
            line.trim().strip_prefix("export KUBECONFIG=").ok_or("the node did not become ready")?.into();
        Ok(Self { child, kubeconfig, data: data.to_owned(), binary: binary.to_owned() })
    }

    /// Ends the daemon as a crash would.
    fn kill(&mut self) -> Outcome<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until nothing of any pod is left: an object that is deleted with grace 0 is gone before its containers are.
    async fn emptied(&self) -> Outcome<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let held = self.holdings()?;
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
    fn holdings(&self) -> Outcome<BTreeMap<&'static str, u64>> {
        let own = PathBuf::from(format!("/proc/{}", self.child.id()));
        let data = self.data.to_string_lossy().into_owned();
        let memory = std::fs::read_to_string(own.join("smaps_rollup"))?;
        let memory = memory.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
        let memory = memory.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
        let mounts = std::fs::read_to_string(own.join("mountinfo"))?;
        let mut processes = 0;
        let mut namespaces = BTreeSet::new();
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            processes += u64::from(String::from_utf8_lossy(&command).contains(&data));
            namespaces.extend(std::fs::read_link(entry.path().join("ns/net")).ok());
        }
        let links = entries(Path::new("/sys/class/net"));
        let kept = ["kubelet/pods", "kubelet/logs", "runtime/sandboxes", "images/holds"];
        Ok(BTreeMap::from([
            ("descriptors of the daemon", entries(&own.join("fd"))),
            ("threads of the daemon", entries(&own.join("task"))),
            ("private KiB of the daemon", memory),
            ("mounts", mounts.lines().filter(|line| line.contains(&data)).count() as u64),
            ("processes", processes),
            ("network namespaces", namespaces.len() as u64),
            ("interfaces", links),
            ("control groups", groups(Path::new("/sys/fs/cgroup"))),
            ("directories of pods", kept.iter().map(|dir| entries(&self.data.join(dir))).sum()),
        ]))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // After a kill another daemon has the directory.
        if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        let _ = Command::new(&self.binary).args(["down", "--data-dir"]).arg(&self.data).status();
    }
}

fn entries(dir: &Path) -> u64 {
    std::fs::read_dir(dir).map_or(0, |entries| entries.count() as u64)
}

/// Control groups of Coracle nodes.
fn groups(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.map(|entry| groups(&entry.path()) + u64::from(entry.path().to_string_lossy().contains("coracle-")))
        .sum()
}
