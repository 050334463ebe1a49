//! Measures a whole node from outside: start, first output, create to running, memory, templates through the API.
//!
//! `cargo run --release -p bench --bin node -- target/release/coracle` (as root); prints one line for each figure:
//! minimum, median, 95th percentile and maximum of the runs. `docs/benchmarks.md` says what the figures mean.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use bench::figures::print_times;
use bench::node::Node;
use bench::{Outcome, machine};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};

const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"NAME"},"spec":{"restartPolicy":"Never","terminationGracePeriodSeconds":0,
"containers":[{"name":"c","image":"coracle.dev/host","command":["/bin/sh","-c","trap 'exit 0' TERM; sleep 1000 & wait"]}]}}"#;

fn main() -> ExitCode {
    let binary =
        std::env::args().nth(1).map_or_else(|| PathBuf::from("target/release/coracle"), PathBuf::from);
    let runs = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(20);
    bench::exit_code(measure(&binary, runs))
}

fn measure(binary: &Path, runs: usize) -> Outcome<()> {
    println!("binary: {:.1} MiB", std::fs::metadata(binary)?.len() as f64 / 1_048_576.0);
    let place = tempfile::tempdir()?;
    let mut starts = Vec::new();
    for number in 0..runs {
        let started = Instant::now();
        let node = Node::up(binary, &place.path().join(format!("start{number}")))?;
        starts.push(started.elapsed());
        drop(node);
    }
    print_times("up, start to ready, empty directory", starts);
    let data = place.path().join("run");
    let manifest = place.path().join("pod.json");
    std::fs::write(
        &manifest,
        POD.replace("NAME", "first").replace("trap 'exit 0' TERM; sleep 1000 & wait", "echo here"),
    )?;
    let (mut first, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let started = Instant::now();
        let mut child = Command::new(binary)
            .args(["run", "--quiet", "--data-dir"])
            .arg(&data)
            .arg(&manifest)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut byte = [0];
        child.stdout.take().ok_or("no output")?.read_exact(&mut byte)?;
        first.push(started.elapsed());
        child.wait()?;
        whole.push(started.elapsed());
    }
    print_times("run, start to first output", first);
    print_times("run, start to end", whole);
    let node = Node::up(binary, &place.path().join("pods"))?;
    println!(
        "idle node: {} KiB proportional, {} KiB private",
        machine::memory(node.pid(), "Pss:")?,
        machine::memory(node.pid(), "Private_Dirty:")?
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(templates(&node, runs.max(100)))?;
    runtime.block_on(pods(&node, runs))
}

/// Lets the API process a template of 100 objects with 200 parameters that becomes 1 MiB, again and again.
async fn templates(node: &Node, runs: usize) -> Outcome<()> {
    let client = node.client().await?;
    let limits = manifest::Limits::default();
    let documents = manifest::parse_stream(bench::template_in_yaml(100, 200).as_bytes(), &limits)?;
    let template = serde_json::to_vec(&documents[0].root.to_json())?;
    let path = "/apis/template.coracle.dev/v1/namespaces/default/processedtemplates";
    let (mut times, mut size) = (Vec::new(), 0);
    for _ in 0..runs {
        let request = kube::core::Request::new(path).create(&PostParams::default(), template.clone())?;
        let started = Instant::now();
        size = client.request_text(request.map(Into::into)).await?.len();
        times.push(started.elapsed());
    }
    print_times(&format!("template, 100 objects, 200 parameters, {size} bytes, through the API"), times);
    Ok(())
}

/// Creates pods one after the other, then deletes them so; a watch says when each runs and when it is gone.
async fn pods(node: &Node, runs: usize) -> Outcome<()> {
    let pods = Api::<Pod>::default_namespaced(node.client().await?);
    let mut changes = pin!(watcher(pods.clone(), watcher::Config::default()).default_backoff());
    let (mut running, mut gone) = (Vec::new(), Vec::new());
    for number in 0..runs {
        let name = format!("p{number}");
        let pod: Pod = serde_json::from_str(&POD.replace("NAME", &name))?;
        let started = Instant::now();
        pods.create(&PostParams::default(), &pod).await?;
        wait(&mut changes, |event| match event {
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => {
                pod.metadata.name.as_deref() == Some(&name)
                    && pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
            }
            _ => false,
        })
        .await?;
        running.push(started.elapsed());
        if number == 0 {
            let shim = *node.shims().first().ok_or("there is no shim")?;
            let private = machine::memory(shim, "Private_Dirty:")? + machine::memory(shim, "Private_Clean:")?;
            println!("shim of one pod: {private} KiB private");
        }
    }
    for number in 0..runs {
        let name = format!("p{number}");
        let started = Instant::now();
        pods.delete(&name, &DeleteParams::default().grace_period(0)).await?;
        wait(
            &mut changes,
            |event| matches!(event, watcher::Event::Delete(pod) if pod.metadata.name.as_deref() == Some(&name)),
        )
        .await?;
        gone.push(started.elapsed());
    }
    print_times("pod, create to Running seen by a watch", running);
    print_times("pod, delete with grace 0 to gone", gone);
    Ok(())
}

async fn wait(
    changes: &mut std::pin::Pin<
        &mut impl futures::Stream<Item = Result<watcher::Event<Pod>, watcher::Error>>,
    >,
    condition: impl Fn(&watcher::Event<Pod>) -> bool,
) -> Outcome<()> {
    let seen = async {
        while let Some(event) = changes.try_next().await? {
            if condition(&event) {
                return Ok::<_, watcher::Error>(());
            }
        }
        Ok(())
    };
    Ok(tokio::time::timeout(Duration::from_secs(30), seen).await??)
}
