//! Measures the API over HTTPS from outside, each figure beside that of a server whose handler does nothing (`bench::floor`).
//!
//! `cargo run --release -p bench --bin api -- target/release/coracle 3 3` (as root): seconds of each measurement, and rounds, of
//! which the median is printed. A third number of the command line, a word, chooses the figures whose names contain it.
//! Client and servers share the machine's processors. `docs/benchmarks.md` says what the figures mean.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bench::figures::{median, percentile};
use bench::floor::{Answers, serve};
use bench::http1::{Connection, request};
use bench::http2::Watches;
use bench::node::Node;
use bench::tls::{Connector, Target};
use bench::{Outcome, machine};
use bytes::Bytes;
use tokio::task::JoinSet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LISTED: &str = "/api/v1/namespaces/listed/configmaps";
const JSON: &str = "application/json";
/// Objects of the list.
const LIST: usize = 1000;
/// Watches, and how many share a connection.
const WATCHES: usize = 1000;
const SHARED: usize = 50;
/// Objects that a node starts with.
const STORED: usize = 10_000;
/// Clients that write what is watched, and how many events they make.
const WRITERS: usize = 4;
const EVENTS: usize = 400;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    bench::run(async {
        match arguments.as_slice() {
            [mode, place] if mode == "--floor" => serve(Path::new(place), answers()).await,
            _ => measure(&Wanted::of(&arguments)).await,
        }
    })
}

struct Wanted {
    binary: PathBuf,
    time: Duration,
    rounds: usize,
    word: String,
}

impl Wanted {
    fn of(arguments: &[String]) -> Self {
        let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(3);
        let binary = arguments.first().map_or("target/release/coracle", String::as_str);
        Self {
            binary: PathBuf::from(binary),
            time: Duration::from_secs(number(1)),
            rounds: number(2) as usize,
            word: arguments.get(3).cloned().unwrap_or_default(),
        }
    }
}

/// An object of 1 KB.
fn map(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}},"data":{{"key":"{}"}}}}"#,
        "x".repeat(900)
    )
}

fn answers() -> Answers {
    let list = format!("{{\"items\":[{}]}}", vec![map("name-of-a-map-1234"); LIST].join(","));
    Answers { one: Bytes::from(map("name")), list: Bytes::from(list), event }
}

fn event(revision: u64) -> Bytes {
    let object = map("name").replacen(
        "\"metadata\":{",
        &format!("\"metadata\":{{\"resourceVersion\":\"{revision}\","),
        1,
    );
    Bytes::from(format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"))
}

/// What clients do, again and again.
#[derive(Clone, Copy, Debug)]
enum Load {
    Get,
    Create,
    Patch,
    List,
}

impl Load {
    /// The request with this number of the client with this number. On the floor the path of a list differs.
    fn request(self, client: usize, number: usize, on_floor: bool) -> Vec<u8> {
        match self {
            Load::Get => request("GET", &format!("{MAPS}/kept-{client}"), "", ""),
            Load::Create => {
                let name = format!("made-{client}-{number}-{}", NAMES.fetch_add(1, Ordering::Relaxed));
                request("POST", MAPS, JSON, &map(&name))
            }
            Load::Patch => {
                let body = format!(r#"{{"data":{{"number":"{number}"}}}}"#);
                let path = format!("{MAPS}/kept-{client}");
                request("PATCH", &path, "application/merge-patch+json", &body)
            }
            Load::List if on_floor => request("GET", "/list", "", ""),
            Load::List => request("GET", LISTED, "", ""),
        }
    }
}

/// Names are never used twice in a run.
static NAMES: AtomicUsize = AtomicUsize::new(0);

struct Figure {
    name: &'static str,
    load: Load,
    clients: usize,
    goal: f64,
}

const FIGURES: [Figure; 6] = [
    Figure { name: "get, 1 client", load: Load::Get, clients: 1, goal: 5_000.0 },
    Figure { name: "get, 64 clients", load: Load::Get, clients: 64, goal: 20_000.0 },
    Figure { name: "durable create, 1 client", load: Load::Create, clients: 1, goal: 2_000.0 },
    Figure { name: "durable create, 64 clients", load: Load::Create, clients: 64, goal: 10_000.0 },
    Figure { name: "merge patch, 16 clients", load: Load::Patch, clients: 16, goal: 6_000.0 },
    Figure { name: "list of 1,000 objects", load: Load::List, clients: 1, goal: 150.0 },
];

async fn measure(wanted: &Wanted) -> Outcome<()> {
    // Beside the program that is measured rather than in `/tmp`, which may be no disk.
    let place = tempfile::tempdir_in(".")?;
    let floor = Floor::begin(place.path()).await?;
    let node = Node::up(&wanted.binary, &place.path().join("node"))?;
    let target = Target::of_kubeconfig(node.kubeconfig())?;
    fill(&target.connector("http/1.1")?).await?;
    for figure in FIGURES.iter().filter(|figure| figure.name.contains(&wanted.word)) {
        rates(wanted, figure, &floor.target, &target).await?;
    }
    if "watchers".contains(&wanted.word) {
        for round in 0..wanted.rounds {
            watchers("floor", round, &floor.target, "/?watch=1", "PUT").await?;
            watchers("coracle", round, &target, &format!("{MAPS}?watch=1&resourceVersion=REVISION"), "PATCH")
                .await?;
        }
    }
    drop(node);
    if "stored".contains(&wanted.word) {
        stored(wanted, &place.path().join("stored")).await?;
    }
    Ok(())
}

/// The server that does nothing, in a process of its own.
struct Floor {
    child: Child,
    target: Target,
}

impl Floor {
    async fn begin(place: &Path) -> Outcome<Self> {
        let child = Command::new(std::env::current_exe()?).arg("--floor").arg(place).spawn()?;
        let deadline = Instant::now() + Duration::from_secs(10);
        while !place.join("address").exists() {
            if Instant::now() > deadline {
                return Err("the floor does not begin".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let address = std::fs::read_to_string(place.join("address"))?.parse()?;
        let pem = std::fs::read_to_string(place.join("certificate.pem"))?;
        Ok(Self { child, target: Target::open(address, &pem) })
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes what is got, patched and listed.
async fn fill(connector: &Connector) -> Outcome<()> {
    let mut connection = Connection::open(connector).await?;
    let namespace = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"listed"}}"#;
    made(&mut connection, &request("POST", "/api/v1/namespaces", JSON, namespace)).await?;
    for client in 0..64 {
        made(&mut connection, &request("POST", MAPS, JSON, &map(&format!("kept-{client}")))).await?;
    }
    for number in 0..LIST {
        made(&mut connection, &request("POST", LISTED, JSON, &map(&format!("listed-{number}")))).await?;
    }
    Ok(())
}

async fn made(connection: &mut Connection, request: &[u8]) -> Outcome<u64> {
    let answer = connection.ask(request).await?;
    let body = String::from_utf8_lossy(answer.body);
    if !(200..300).contains(&answer.code) {
        return Err(format!("{}: {body}", answer.code).into());
    }
    let revision = body.split_once("\"resourceVersion\":\"").and_then(|(_, rest)| rest.split('"').next());
    Ok(revision.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Prints the medians of one figure over the rounds, floor and server in turn.
async fn rates(wanted: &Wanted, figure: &Figure, floor: &Target, target: &Target) -> Outcome<()> {
    let (mut least, mut own, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..wanted.rounds {
        least.push(load(wanted, figure, floor, true).await?.0);
        let (rate, mut round) = load(wanted, figure, target, false).await?;
        own.push(rate);
        times.append(&mut round);
    }
    times.sort_unstable();
    let (least, own) = (median(least), median(own));
    let micros = |share| percentile(&times, share).as_micros();
    println!(
        "{}: {own:.0}/s (goal {:.0}), empty handler {least:.0}/s, ratio {:.2}; p50 {} us, p99 {} us",
        figure.name,
        figure.goal,
        own / least,
        micros(0.5),
        micros(0.99)
    );
    Ok(())
}

/// Requests a second, and the time that each took.
async fn load(
    wanted: &Wanted,
    figure: &Figure,
    target: &Target,
    on_floor: bool,
) -> Outcome<(f64, Vec<Duration>)> {
    let connector = target.connector("http/1.1")?;
    let mut connections = Vec::new();
    for _ in 0..figure.clients {
        connections.push(Connection::open(&connector).await?);
    }
    let (load, began) = (figure.load, Instant::now());
    let deadline = began + wanted.time;
    let mut clients = JoinSet::new();
    for (client, mut connection) in connections.into_iter().enumerate() {
        clients.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < deadline {
                let request = load.request(client, times.len(), on_floor);
                let asked = Instant::now();
                let answer = connection.ask(&request).await?;
                if !(200..300).contains(&answer.code) {
                    return Err(format!("{}: {}", answer.code, String::from_utf8_lossy(answer.body)).into());
                }
                times.push(asked.elapsed());
            }
            Outcome::Ok(times)
        });
    }
    let mut times = Vec::new();
    while let Some(ended) = clients.join_next().await {
        times.append(&mut ended??);
    }
    Ok((times.len() as f64 / began.elapsed().as_secs_f64(), times))
}

/// Events a second to all watchers together: objects are changed as fast as the server takes it, until every watcher has heard
/// of every change, each once and in order.
async fn watchers(
    whose: &str,
    round: usize,
    target: &Target,
    path: &str,
    method: &'static str,
) -> Outcome<()> {
    let (connector, writing) = (target.connector("h2")?, target.connector("http/1.1")?);
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        writers.push(Connection::open(&writing).await?);
    }
    let change = move |client: usize, number: usize| {
        let body = format!(r#"{{"data":{{"number":"{round}-{number}"}}}}"#);
        request(method, &format!("{MAPS}/kept-{client}"), "application/merge-patch+json", &body)
    };
    let first = made(&mut writers[0], &change(0, usize::MAX)).await?;
    let path = path.replace("REVISION", &first.to_string());
    let mut readers = JoinSet::new();
    for _ in 0..WATCHES / SHARED {
        let mut watches = Watches::open(&connector, &path, SHARED).await?;
        readers.spawn(async move {
            watches.read_until(EVENTS).await?;
            Outcome::Ok(watches)
        });
    }
    let began = Instant::now();
    let mut changes = JoinSet::new();
    for (client, mut writer) in writers.into_iter().enumerate() {
        changes.spawn(async move {
            let mut revisions = Vec::new();
            for number in 0..EVENTS / WRITERS {
                revisions.push(made(&mut writer, &change(client, number)).await?);
            }
            Outcome::Ok(revisions)
        });
    }
    let mut revisions = Vec::new();
    while let Some(ended) = changes.join_next().await {
        revisions.append(&mut ended??);
    }
    let written = began.elapsed();
    revisions.sort_unstable();
    let (mut last, mut wrong) = (began, 0);
    while let Some(ended) = readers.join_next().await {
        let watches = ended??;
        last = last.max(watches.last);
        // The floor answers no revisions.
        let differs = watches.told().iter().filter(|told| method == "PATCH" && told.revisions != revisions);
        wrong += differs.count();
    }
    let time = last.duration_since(began);
    println!(
        "watchers, {whose}: {WATCHES} x {EVENTS} events in {:.0} ms ({:.0}/s, goal 90000), written in {:.0} ms; \
         watchers with lost, doubled or disordered events: {wrong}",
        time.as_secs_f64() * 1000.0,
        (WATCHES * EVENTS) as f64 / time.as_secs_f64(),
        written.as_secs_f64() * 1000.0
    );
    Ok(())
}

/// How a node starts with many objects, and what they and idle watches take.
async fn stored(wanted: &Wanted, data: &Path) -> Outcome<()> {
    let node = Node::up(&wanted.binary, data)?;
    let connector = Target::of_kubeconfig(node.kubeconfig())?.connector("http/1.1")?;
    let mut clients = JoinSet::new();
    for client in 0..16 {
        let mut connection = Connection::open(&connector).await?;
        clients.spawn(async move {
            for number in 0..STORED / 16 {
                made(&mut connection, &request("POST", MAPS, JSON, &map(&format!("s-{client}-{number}"))))
                    .await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended??;
    }
    drop(node);
    let mut starts = Vec::new();
    for _ in 0..wanted.rounds.max(3) {
        let began = Instant::now();
        let node = Node::up(&wanted.binary, data)?;
        starts.push(began.elapsed().as_secs_f64() * 1000.0);
        drop(node);
    }
    println!("start with {STORED} objects stored: {:.0} ms (goal 300)", median(starts));
    let node = Node::up(&wanted.binary, data)?;
    let connector = Target::of_kubeconfig(node.kubeconfig())?.connector("h2")?;
    let alone = machine::resident(node.pid())?;
    let first = {
        let mut connection =
            Connection::open(&Target::of_kubeconfig(node.kubeconfig())?.connector("http/1.1")?).await?;
        made(&mut connection, &request("GET", &format!("{MAPS}?limit=1"), "", "")).await?
    };
    let path = format!("{MAPS}?watch=1&resourceVersion={first}");
    let mut watches = JoinSet::new();
    for _ in 0..WATCHES / SHARED {
        let mut opened = Watches::open(&connector, &path, SHARED).await?;
        watches.spawn(async move { opened.stay().await });
    }
    println!(
        "memory with {STORED} objects: {:.1} MiB; with {WATCHES} idle watches, {SHARED} a connection: {:.1} MiB resident, \
         {:.1} MiB of it private (goal 60)",
        alone as f64 / 1024.0,
        machine::resident(node.pid())? as f64 / 1024.0,
        machine::memory(node.pid(), "Private_Dirty:")? as f64 / 1024.0
    );
    // They were held until here.
    drop(watches);
    Ok(())
}
